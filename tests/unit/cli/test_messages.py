"""Messages of the command line in Chinese: which there are, how a sentence is recognised, and what stays as it is."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from rich.cells import cell_len
from rich.text import Text

from t9ksched.cli import messages
from t9ksched.cli.messages.extraction import HOLE, messages_in
from t9ksched.cli.messages.phrasebook import FOLDER, Phrasebook
from t9ksched.cli.messages.rendering import TranslatingConsole, styled
from tests.messages import compiled, shipped, updated

SHIPPED = FOLDER / "zh" / "LC_MESSAGES" / "t9ksched.po"
AGAIN = "run `make messages` and write the translations into t9ksched/cli/messages/zh/LC_MESSAGES/t9ksched.po"


@pytest.fixture(scope="module")
def catalogue() -> Catalog:
    return updated("zh")


@pytest.fixture(scope="module")
def book() -> Phrasebook:
    return Phrasebook.of("zh")


def is_of_commands(message: Message) -> bool:
    return any(path.startswith("t9ksched/cli/") for path, _ in message.locations)


def entries(catalogue: Catalog) -> Iterator[tuple[str, str]]:
    yield from ((str(one.id), str(one.string or "")) for one in catalogue if one.id)


def test_every_message_of_the_commands_has_a_translation(catalogue: Catalog) -> None:
    missing = [str(one.id) for one in catalogue if one.id and not one.string and is_of_commands(one)]
    assert missing == [], AGAIN


def test_few_messages_of_the_service_have_none(catalogue: Catalog) -> None:
    """Commands show what a newer service says in English, so a sentence may change before its translation does."""
    told = [bool(one.string) for one in catalogue if one.id and not is_of_commands(one)]
    assert sum(told) > 0.95 * len(told) > 500, AGAIN


def test_the_catalogue_is_compiled() -> None:
    assert compiled(shipped("zh")) == SHIPPED.with_suffix(".mo").read_bytes(), AGAIN


def test_no_message_is_translated_that_commands_do_not_have(catalogue: Catalog) -> None:
    gone = [one for one in shipped("zh") if one.id and is_of_commands(one) and one.id not in catalogue]
    assert gone == [], AGAIN


def test_translations_have_the_values_of_their_messages(catalogue: Catalog) -> None:
    """But for verbs that agree with a number, which those of Chinese do not."""
    values = {text: (set(HOLE.findall(text)), set(HOLE.findall(told))) for text, told in entries(catalogue) if told}
    assert [text for text, (own, there) in values.items() if own - {"verb"} != there - {"verb"}] == []


def test_translations_keep_what_is_typed(catalogue: Catalog) -> None:
    """Options, commands and names of fields are the same in every language."""
    typed = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[a-z] |T9KSCHED_[A-Z_]+|`[^`]+`)")
    wrong = {
        text: one for text, told in entries(catalogue) if told for one in typed.findall(text) if one.strip() not in told
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('raise Failure(f"{target} is being deleted")', ["{target} is being deleted"]),
        ("out.print(f\"{n} pod{'' if n == 1 else 's'} run\")", ["{n} pod run", "{n} pods run"]),
        ('say("a queue " + name + " is made")', ["a queue {name} is made"]),
        ("say(f\"queue {one['queue'] or 'none'} is it\")", ["queue {queue} is it", "queue none is it"]),
        ('say("the best has {} free".format(n))', ["the best has {value} free"]),
        ('Text.assemble((name, "bold"), " is ", (phase, style))', ["{name} is {phase}"]),
        ('Text("open", style="green")', ["open"]),
        ('word("free")', ["free"]),
        ('table(("NODE", "AT DEMAND"), rows)', ["NODE", "AT DEMAND"]),
        ('_COLUMNS = ("NODE", "GPUS")', ["NODE", "GPUS"]),
        ('say(f"{a} and {a} differ")', ["{a} and {a2} differ"]),
        ('say(", ".join(f"{one} is gone" for one in all))', ["{one} is gone"]),
        ('_log.info("it has begun to lead")', []),
        ('if text == "it has begun":\n    pass', []),
        ('found = name.startswith("it has begun")', []),
        ('re.compile("it has begun")', []),
        ('def f() -> None:\n    """It has begun."""', []),
        ('x = ("GET", f"/apis/v1/{kind}", "application/json", "--time-limit", f"http://{host}:{port}")', []),
        ('x = f"{kind}/{name}"', []),
        ('STYLES = {"error": "bold red"}', []),
    ],
)
def test_what_is_a_message(code: str, expected: list[str]) -> None:
    assert [one.text for one in messages_in(code)] == expected


WORDS = Phrasebook(
    {
        "{target} is being deleted": "正在删除 {target}",
        "{name} is {phase}": "{name} 现为 {phase}",
        "{count} nodes match": "{count} 个节点匹配",
        "needs {asked} on one node; {matching}, {tail}": "单个节点需要 {asked}；{matching}，{tail}",
        "best has {free} free": "最多空闲 {free}",
        "is held": "已搁置",
        ", and the cards are free": "，卡被释放",
        "{pods}{given}. It is lost.": "{pods}{given}。会丢失。",
        "all are stopped": "全部停止",
        "{file} cannot be read: {why}": "无法读取 {file}：{why}",
        "on {node}": "（{node}）",
        "starts{where}": "启动{where}",
        "open": "开放",
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pj/a is being deleted", "正在删除 pj/a"),
        ("  pj/a is being deleted\n", "  正在删除 pj/a\n"),
        ("pj/a is held", "pj/a 已搁置"),
        ("open is Running", "open 现为 Running"),
        ("open", "open"),
        (
            "QuotaExceeded: needs 4 × gpu on one node; 3 nodes match, best has 2 free",
            "QuotaExceeded：单个节点需要 4 × gpu；3 个节点匹配，最多空闲 2",
        ),
        ("all are stopped, and the cards are free. It is lost.", "全部停止，卡被释放。会丢失。"),
        ("starts on n1", "启动（n1）"),
        ("starts", "starts"),
        ("a b.yaml cannot be read: No such file or directory", "无法读取 a b.yaml：No such file or directory"),
        ("nobody knows this sentence is here", "nobody knows this sentence is here"),
        ("3 nodes match; all are stopped", "3 个节点匹配；全部停止"),
    ],
)
def test_sentences_are_recognised_by_their_templates(text: str, expected: str) -> None:
    assert WORDS.translate(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NeverFits: needs 9 × nvidia.com/gpu on one node, the largest has 8; 4 nodes match",
            "NeverFits：单个节点上需要 9 × nvidia.com/gpu，最大的节点有 8；4 个节点符合条件",
        ),
        (
            "needs 4 × nvidia.com/gpu and 8 × cpu on one node; 4 nodes match, the closest has 0 free",
            "单个节点上需要 4 × nvidia.com/gpu 和 8 × cpu；4 个节点符合条件，最接近的节点空闲 0",
        ),
        ("4 tasks and 16 cores in each pod, which srun starts", "每个 Pod 中有 4 个任务和 16 核，由 srun 启动"),
        ("4 cards of the model a100 in each pod", "每个 Pod，4 张卡，型号 a100"),
        ("16 × nvidia.com/gpu of the queue is given back", "队列归还 16 × nvidia.com/gpu"),
        ("Job/x would start at once on a40-1", "Job/x 将会立即启动（a40-1）"),
        (
            "Job/x: 4 of 4 pods run on 16 cards: all of them are stopped, and the cards are free for others. "
            "What was not saved is lost.",
            "Job/x：4 个 Pod 中有 4 个在运行（16 张卡）：将全部停止，这些卡将释放给其他作业。未保存的内容会丢失。",
        ),
        ("t9ksched nodes --data-dir /tmp/x", "t9ksched nodes --data-dir /tmp/x"),
        ("See t9ksched queues list --help", "见 t9ksched queues list --help"),
        ("the queue 'a100' is closed: it takes no new workloads; those already in it go on", None),
    ],
)
def test_sentences_of_the_program_are_read_as_they_are_meant(book: Phrasebook, text: str, expected: str | None) -> None:
    told = book.translate(text)
    assert told == expected if expected is not None else not re.search("[a-z]{2,} [a-z]{2,}", told)


def test_words_are_translated_only_where_they_are_ours() -> None:
    assert (WORDS.word("open"), WORDS.translate("open")) == ("开放", "open")


def test_styles_stay_on_the_values_and_on_their_words() -> None:
    sentence = styled(Text.assemble(("pj/a", "bold"), " is ", ("Running", "green")), WORDS)
    assert sentence.plain == "pj/a 现为 Running"
    assert [(sentence.plain[one.start : one.end], one.style) for one in sentence.spans] == [
        ("pj/a", "bold"),
        ("Running", "green"),
    ]
    parts = styled(Text.assemble(("open", "green"), ": ", "all are stopped"), WORDS)
    assert parts.plain == "开放：全部停止"


def test_lines_of_chinese_are_broken_as_chinese_is(book: Phrasebook) -> None:
    text = "调度器把整组作业放到节点上，按卡号分配，并说明每一次等待的原因。" * 4
    with (out := TranslatingConsole(book, width=41)).capture() as printed:
        out.print(text)
    lines = printed.get().splitlines()
    assert all(38 <= cell_len(line) <= 41 for line in lines[:-1])
    assert not [line for line in lines if line[0] in "，。"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"LANG": "zh_CN.UTF-8"}, True),
        ({"LANG": "en_GB.UTF-8"}, False),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "C", "LC_MESSAGES": "zh_CN.UTF-8"}, True),
        ({"LC_ALL": "C", "T9KSCHED_LANG": "zh"}, True),
        ({"LANG": "zh_CN.UTF-8", "T9KSCHED_LANG": "en"}, False),
        ({"LANG": "zh_CN.UTF-8", "T9KSCHED_LANG": ""}, True),
    ],
)
def test_which_language_is_spoken(environment: dict[str, str], expected: bool) -> None:
    assert messages.is_chinese(environment) is expected


def test_english_reads_no_catalogue() -> None:
    told = (
        "import sys, t9ksched.cli.output as o; o.console().print('x'); print([m for m in sys.modules if 'phrase' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", told], env={"LANG": "C"}, capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert done.stdout.splitlines() == ["x", "[]"]
