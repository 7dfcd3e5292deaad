"""What a standby keeps of the watches until its turn."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from t9ksched.kube.watch.identity import identify
from t9ksched.scheduler.observe.ahead import Gate, LeanGate


class Picture:
    """What a receiver believes to exist."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.pieces: list[int] = []
        self.unknown: list[str] = []

    def on_piece(self, items: list[Any]) -> None:
        self.pieces.append(len(items))
        for item in items:
            self.on_upsert(item)

    def on_upsert(self, obj: Any) -> None:
        self.objects[identify(obj).uid] = obj

    def on_delete(self, obj: Any) -> None:
        uid = identify(obj).uid if isinstance(obj, dict) else obj.uid
        if self.objects.pop(uid, None) is None:
            self.unknown.append(uid)


def thing(uid: str, version: int = 1) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": uid, "uid": uid, "resourceVersion": str(version)}}


async def test_nothing_passes_before_the_turn_and_the_newest_does_then() -> None:
    picture = Picture()
    gate = Gate(picture)
    gate.close()
    gate.on_piece([thing("a"), thing("b")])
    gate.on_piece([])
    gate.on_upsert(thing("a", 2))
    gate.on_upsert(thing("c"))
    gate.on_delete(thing("b"))
    assert (picture.objects, len(gate)) == ({}, 2)
    await gate.open(complete=True)
    assert picture.objects == {"a": thing("a", 2), "c": thing("c")}
    assert (picture.pieces, picture.unknown) == ([2, 0], [])
    gate.on_delete(thing("a"))
    assert picture.objects == {"c": thing("c")}


async def test_without_the_right_to_read_it_the_first_list_is_not_called_complete() -> None:
    picture = Picture()
    gate = Gate(picture)
    gate.close()
    await gate.open(complete=False)
    assert picture.pieces == []
    gate.on_piece([thing("a")])
    assert picture.pieces == [1]


async def test_a_gate_that_was_never_closed_is_not_there() -> None:
    picture = Picture()
    gate = Gate(picture)
    gate.on_piece([thing("a")])
    await gate.open(complete=True)
    assert picture.pieces == [1], "who reads the list says when it is complete"


@given(st.lists(st.tuples(st.sampled_from(["upsert", "delete"]), st.integers(0, 250), st.integers(0, 4))))
async def test_what_comes_while_it_is_opened_is_not_lost(events: list[tuple[str, int, int]]) -> None:
    """`turns` is how many times others were given their turn before an event comes."""
    picture, truth = Picture(), {f"u{n}": thing(f"u{n}") for n in range(230)}
    gate = LeanGate(picture)
    gate.close()
    gate.on_piece(list(truth.values()))
    opening = gate.open(complete=True).__await__()
    done = False
    for version, (what, number, turns) in enumerate(events, start=2):
        for _ in range(turns):
            if not done:
                done = next(opening, "done") == "done"
        uid = f"u{number}"
        if what == "upsert":
            truth[uid] = thing(uid, version)
            gate.on_upsert(truth[uid])
        elif uid in truth:
            gate.on_gone(identify(truth.pop(uid)))
    while not done:
        done = next(opening, "done") == "done"
    assert picture.objects == truth
    assert picture.unknown == []
