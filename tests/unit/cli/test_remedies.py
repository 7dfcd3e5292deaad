"""Remedies at a terminal name commands, not requests."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t9ksched.cli.application import application
from t9ksched.cli.remedies import remedy, speaks_of_requests

ROOT = Path(__file__).parents[3]
ADMIN = "/apis/v1/admin"


@pytest.mark.parametrize(
    ("code", "path", "given", "expected"),
    [
        ("AlreadyExists", f"{ADMIN}/queues", "", "t9ksched queues edit NAME"),
        ("AlreadyExists", f"{ADMIN}/tokens", "", "t9ksched token revoke NAME"),
        ("AlreadyExists", "/apis/v1/workloads", "", "t9ksched cancel KIND/NAME"),
        ("AlreadyExists", "/apis/v1/workloads", "wait until it is gone", "wait until it is gone"),
        ("NotFound", "/apis/v1/nodes/n", "GET /apis/v1/nodes lists those there are", "t9ksched nodes"),
        ("NotFound", "/apis/v1/workloads/default/Pod/x", "", "t9ksched jobs"),
        ("NotFound", f"{ADMIN}/reservations/r", f"GET {ADMIN}/reservations lists those there are", "reservations list"),
        ("AlreadyExists", f"{ADMIN}/reservations", "", "t9ksched reservations edit NAME"),
        ("Conflict", f"{ADMIN}/queues/default", "close it instead", "close it instead"),
        ("Conflict", f"{ADMIN}/queues/a", "drain it, or say: jobs=cancel or jobs=keep", "--jobs cancel|keep"),
        ("QueueNotPermitted", "/apis/v1/workloads", "use another (GET /apis/v1/queues lists yours)", "queues list"),
        ("Malformed", "/apis/v1/nonsense", "see /docs", ""),
        ("Unauthenticated", "/apis/v1/workloads", "send `Authorization: Bearer TOKEN`; an administrator …", "--token"),
        ("", "", "", ""),
    ],
)
def test_the_command_for_what_was_asked(code: str, path: str, given: str, expected: str) -> None:
    found = remedy(code, path, given)
    assert expected in found
    assert bool(found) == bool(expected)
    assert not speaks_of_requests(found)


def served() -> Iterator[str]:
    """Every remedy that REST or the rules of admission write down."""
    for folder in ("t9ksched/api", "t9ksched/admission"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.keyword) and node.arg == "remedy":
                    yield ast.unparse(node.value)


def test_what_speaks_of_requests_is_recognised() -> None:
    texts = list(served())
    assert len(texts) > 20
    wordy = re.compile(
        r"\b(GET|POST|PUT|PATCH|DELETE) |/apis/|/docs|Authorization|Bearer|Retry-After|\b\w+=(cancel|keep|true)"
    )
    assert [text for text in texts if wordy.search(text) and not speaks_of_requests(text)] == []


def test_every_command_that_is_named_exists() -> None:
    source = (ROOT / "t9ksched/cli/remedies.py").read_text()
    for words in sorted(set(re.findall(r"t9ksched ((?:[a-z-]+ ?)+)", source))):
        if words.strip() == "up":
            continue
        done = CliRunner().invoke(application(), [*words.split(), "--help"])
        assert done.exit_code == 0, words
