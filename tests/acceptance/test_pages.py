"""Every command of README and guides does what the page says, in both languages."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from t9ksched.cli.application import application
from tests.acceptance.pages import NOT_RUN, ROOT, Shell, blocks, commands, spans

PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.parent.name not in ("reference", "concepts", "architecture", "decisions") and page.name != "benchmarks.md"
]
GIVEN = {
    "docs/guides/simulation.md": """
t9ksched up
t9ksched queues create a100 --quota nvidia.com/gpu=1 --for-namespace default
t9ksched submit -f examples/pod.yaml --time-limit 1h
t9ksched wait pod/nvidia-smi --for running
sed 's/name: nvidia-smi/name: second/' examples/pod.yaml >second.yaml
t9ksched submit -f second.yaml --time-limit 1h
cat >new.conf <<END
actions: "allocate"
tiers:
- plugins: [{name: basic}, {name: predicates}]
- plugins: [{name: affinity}, {name: resource}]
END
""",
    "docs/guides/administrators.md": """
t9ksched up
t9ksched queues create research --quota nvidia.com/gpu=16 --node-label none=such
cat >namespace.json <<END
{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision"}}
END
"$PYTHON" - <<END
import asyncio, json, os
from t9ksched.kube.transport.config import connect
async def main():
    async with connect(os.environ["KUBECONFIG"]) as client:
        await client.request("POST", "/api/v1/namespaces", body=open("namespace.json", "rb").read())
asyncio.run(main())
END
t9ksched submit -f examples/pytorch.yaml -n vision --queue research
""",
    "docs/guides/install.md": "t9ksched up\n",
    "docs/guides/notifications.md": "t9ksched up\n",
    "docs/operations/index.md": "t9ksched up\n",
    "docs/operations/backup.md": "t9ksched up\n",
    "docs/operations/rotation.md": "t9ksched up\n",
    "docs/guides/from-other-schedulers.md": "t9ksched up\n",
}
"""What a page takes for granted, as commands."""
TRANSLATED = {page: page.replace(".zh.md", ".md") for page in PAGES if page.endswith(".zh.md") and "/guides/" in page}
"""Pages that have the same commands as another one: a test compares them, and those of the other are run."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    yield Shell(tmp_path)
    pid = tmp_path / "up.pid"
    if pid.exists():
        os.kill(int(pid.read_text()), signal.SIGTERM)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in TRANSLATED and commands(ROOT / page)])
def test_the_blocks_of_a_page_run_in_order(page: str, shell: Shell) -> None:
    text = GIVEN.get(page, "")
    for line, block in commands(ROOT / page):
        text += f"echo '--- {page}, line {line}'\n{block}"
    done = shell.run(page, text)
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_commands_is_marked(page: str) -> None:
    """A block that is not marked `sh` would never be run."""
    first = re.compile(r"^(\$ |(\.venv/bin/)?t9ksched |kubectl |make |export |for \w+ in )")
    unmarked = [line for line, language, text in blocks(ROOT / page) if language != "sh" and first.match(text)]
    assert unmarked == []


@pytest.mark.parametrize(("chinese", "english"), TRANSLATED.items())
def test_guides_have_the_same_commands_in_both_languages(chinese: str, english: str) -> None:
    assert [text for _, text in commands(ROOT / chinese)] == [text for _, text in commands(ROOT / english)]
    assert set(spans(ROOT / chinese)) >= set(spans(ROOT / english))


def test_what_is_not_run_is_there() -> None:
    texts = [text for page in PAGES for _, language, text in blocks(ROOT / page) if language == "sh"]
    assert [begin for begin in NOT_RUN if not any(text.startswith(begin) for text in texts)] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_within_sentences_exist_with_their_options(page: str) -> None:
    for span in spans(ROOT / page):
        command = get_command(application())
        words = span.removeprefix("t9ksched ").split()
        options: set[str] = set()
        for word in words:
            if word == "--":
                break  # what follows is a command of the reader's own
            if word in getattr(command, "commands", {}):
                command = command.commands[word]  # type: ignore[attr-defined]
                options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            elif word.startswith("-"):
                assert word.strip("[]").split("=")[0] in options, f"{page}: {span}"
            elif getattr(command, "commands", None):
                alternatives = word.split("|")
                assert all(one in command.commands for one in alternatives), f"{page}: {span}: {word}"  # type: ignore[attr-defined]
                break
