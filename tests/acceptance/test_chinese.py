"""The commands in Chinese, from outside: tables, sentences, errors with remedies, help and reasons; JSON is as ever."""

import re
from collections.abc import Iterator

import pytest
from rich.cells import cell_len

from tests.acceptance.conftest import Done, Up, run, until
from tests.acceptance.test_terminal import terminal

ZH = {"T9KSCHED_LANG": "zh"}
PROSE = re.compile(r"(?:^|(?<=\s))[a-z]{2,} (?:the|a|an|is|are|no|not|of|to|in|has|it|on|with)(?= )")
"""Two words of English in a row, of which one says that it is a sentence."""


def chinese(up: Up, *arguments: str, stdin: str = "") -> Done:
    return run(*arguments, data_dir=up.data_dir, stdin=stdin, also=ZH)


def says(done: Done, *texts: str) -> None:
    """It says all of this, and nothing in English."""
    told = done.out + done.err
    assert [text for text in texts if text not in told] == [], told
    assert PROSE.findall(told) == [], told


@pytest.fixture(scope="module")
def jobs(up: Up) -> Iterator[None]:
    """A job that runs, one that never fits, and one for later."""
    up.must("run", "--image", "i", "--name", "here", "--gpus", "4", "--", "x")
    up.must("run", "--image", "i", "--name", "large", "--gpus", "99", "--", "x")
    up.must("run", "--image", "i", "--name", "later", "--begin", "2100-01-01T00:00:00Z", "--", "x")
    up.must("wait", "job/here", "--for", "running")
    until(lambda: "NeverFits" in up.must("explain", "job/large"), "a reason")
    yield
    up.cli("cancel", "job/here", "job/large", "job/later", "--yes")
    until(lambda: not up.pods() and up.held() == 0, "an empty cluster")


def test_tables_and_reasons(up: Up, jobs: None) -> None:
    says(
        chinese(up, "jobs"),
        "命名空间",
        "作业",
        "队列",
        "优先级",
        "原因",
        "NeverFits：单个节点上需要 99 × nvidia.com/gpu",
    )
    says(chinese(up, "nodes"), "节点", "占用", "型号", "就绪")
    says(chinese(up, "queues", "list"), "队列", "配额占用", "开放")
    says(chinese(up, "history"), "提交时间", "结果")
    says(chinese(up, "timeline"), "无结束时间", "空闲")
    says(chinese(up, "usage"), "队列", "GPU 小时")
    says(chinese(up, "token", "list"), "角色", "最近使用")


def test_an_explanation_is_chinese_from_end_to_end(up: Up, jobs: None) -> None:
    done = chinese(up, "explain", "job/large")
    says(done, "Job/large，命名空间 default", "需要  99 nvidia.com/gpu", "怎样才能启动：", "→ 申请不超过单个节点所有的")
    says(chinese(up, "explain", "job/later"), "StartTimeNotReached：它不得早于 2100-01-01T00:00:00Z 启动")


def test_sentences_about_what_was_done(up: Up, jobs: None) -> None:
    says(chinese(up, "hold", "job/later"), "Job/later 已搁置")
    says(chinese(up, "release", "job/later"), "Job/later 已放行")
    says(chinese(up, "stop-scheduling", "--for", "1h"), "不启动任何作业")
    says(chinese(up, "stop-scheduling", "--resume"), "已恢复")
    asked = ("run", "--image", "i", "--gpus", "1", "--dry-run", "--", "x")
    until(lambda: "SchedulingStopped" not in chinese(up, *asked).out, "that jobs start again")
    dry = chinese(up, *asked)
    says(Done(0, dry.out.partition("\n\n")[2], dry.err), "将会立即启动（")


@pytest.mark.parametrize(
    ("arguments", "code", "texts"),
    [
        (("explain",), 2, ["错误: 缺少参数 'KIND/NAME'。", "t9ksched explain --help"]),
        (("explane",), 2, ["没有命令 'explane'", "是否想用 'explain'？"]),
        (
            ("explain", "job/none"),
            1,
            ["错误 NotFound", "命名空间 'default' 中没有 Job/none", "→ 查看有哪些作业：t9ksched jobs"],
        ),
        (("jobs", "--sort", "none"), 2, ["没有 'none' 这一列", "可用的列有 NAMESPACE, JOB"]),
        (("wait", "job/here", "--for", "none"), 2, ["'--for' 的值无效：'none' 不在"]),
        (
            ("cancel", "job/here"),
            2,
            ["Job/here：其 Pod 正在运行（4 张卡），将被停止", "此操作需要确认。", "→ 请加上 --yes 重试。"],
        ),
        (("run", "--gpus", "1", "--", "x"), 2, ["--image 缺失：请指定运行所用的容器镜像"]),
        (("run", "--image", "i", "--queue", "none", "--", "x"), 1, ["队列 'none' 不存在", "→ 请写一个存在的队列"]),
        (("submit", "none.yaml"), 1, ["无法读取"]),
        (("squeue",), 2, ["squeue 是 Slurm 的命令。在这里请用：t9ksched jobs"]),
    ],
)
def test_errors_and_remedies(up: Up, jobs: None, arguments: tuple[str, ...], code: int, texts: list[str]) -> None:
    done = chinese(up, *arguments)
    assert done.code == code, done
    assert [text for text in texts if text not in done.err + done.out] == [], done.err + done.out


def test_help_is_chinese_and_what_is_typed_is_not() -> None:
    says(run("--help", also=ZH), "用法：", "用户的日常", "管理员的日常", "显示版本并退出。")
    told = run("run", "--help", also=ZH)
    says(Done(0, told.out.partition("示例")[0], ""), "用法：", "--time-limit", "申请的资源", "容器镜像。")


def test_json_logs_and_english_are_as_ever(up: Up, jobs: None) -> None:
    there = chinese(up, "explain", "job/large", "-o", "json").json
    assert there["reasons"] == up.cli("explain", "job/large", "-o", "json").json["reasons"]
    assert not re.search("[\u4e00-\u9fff]", chinese(up, "jobs", "-o", "json").out)
    english = run("jobs", data_dir=up.data_dir, also={"LANG": "zh_CN.UTF-8", "T9KSCHED_LANG": "en"})
    assert english.out.startswith("NAMESPACE")
    by_locale = run("jobs", data_dir=up.data_dir, also={"LANG": "zh_CN.UTF-8", "T9KSCHED_LANG": ""})
    assert by_locale.out.startswith("命名空间")


@pytest.mark.parametrize("command", [("jobs",), ("explain", "job/large"), ("queues", "list"), ("run", "--help")])
def test_what_is_printed_fits_a_terminal(up: Up, jobs: None, command: tuple[str, ...]) -> None:
    """Characters of Chinese take two of its 80 columns."""
    with terminal(up, *command, **ZH) as shown:
        assert shown.end() == 0
        lines = shown.text.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert any(len(line) < cell_len(line) for line in lines)


def test_columns_stand_under_their_headings(up: Up, jobs: None) -> None:
    head, *rows = chinese(up, "jobs").out.splitlines()
    place = cell_len(head[: head.index("队列")])
    for row in rows:
        assert re.search(r"\S", row[place:]), row
        assert row.isascii() is False or row[place - 1] == " "
