"""Records of the state are changed in its own room alone: everything else gives commands."""

import ast
from pathlib import Path

import pytest

import t9ksched.scheduler
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState

ROOM = Path(t9ksched.scheduler.__file__).parent
FIELDS = {name for record in (PodRecord, GangRecord, JobRecord) for name in record.__annotations__} | set(
    vars(ClusterState())
)
CHANGING = {"append", "add", "discard", "pop", "clear", "update", "remove", "setdefault", "extend", "popitem"}
OWN = {"self", "clock", "stats", "handed", "entry", "held"}
"""Values of the rooms outside whose fields have names that records have, too."""
COPIES = {ROOM / "whatif" / "newcomers.py", ROOM / "whatif" / "simulations.py"}
"""They build a state of their own from copies, to find what objects that are not there would become."""
SOURCES = sorted(path for path in ROOM.rglob("*.py") if ROOM / "state" not in path.parents and path not in COPIES)


def changes(tree: ast.AST) -> list[str]:
    """Where a field of a record, or of the state, is assigned, deleted or changed in place."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=owner, attr=name, ctx=ast.Store() | ast.Del()):
                what = owner, name
            case ast.Subscript(value=ast.Attribute(value=owner, attr=name), ctx=ast.Store() | ast.Del()):
                what = owner, name
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=owner, attr=name), attr=verb)) if (
                verb in CHANGING
            ):
                what = owner, name
            case _:
                continue
        if what[1] in FIELDS and ast.unparse(what[0]).split(".")[-1] not in OWN:
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOM)))
def test_records_are_only_read(path: Path) -> None:
    assert changes(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "gang.reasons = ()",
        "gang.changes += 1",
        "gang.members['a'] = pod",
        "del state.pods['a']",
        "state.queues.clear()",
        "self._state.gangs.pop(key)",
        "gang.fell, gang.displaced = 0, False",
    ],
)
def test_a_change_is_noticed(text: str) -> None:
    assert changes(ast.parse(text))
