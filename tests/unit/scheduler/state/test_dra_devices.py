"""What is handed out by DRA on which node, as classes and slices come and go; which nodes are looked at again."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.model.dra import Claimed, ResourceSlice, claimed_names, offers, places_of, pools_of
from t9ksched.scheduler.state.dra_devices import DraDevices
from tests.unit.model.test_dra import GPU, NVIDIA, device_class, slice_of

SELECTS = f"device.driver == '{NVIDIA}'"


NODES: list[tuple[str, dict[str, str]]] = [("n", {}), ("m", {})]


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def devices(told: list[str]) -> DraDevices:
    return DraDevices(told.append, lambda: NODES)


def test_without_a_class_slices_are_of_no_concern(devices: DraDevices, told: list[str]) -> None:
    devices.upsert_slice(slice_of())
    devices.remove_slice(slice_of())
    devices.upsert_class(device_class("other", SELECTS, claims=None))
    assert told == []
    assert devices.on("n", {}) == {}


def test_class_and_slices_come_and_go(devices: DraDevices, told: list[str]) -> None:
    devices.upsert_class(device_class("gpus", SELECTS))
    devices.upsert_slice(slice_of())
    assert told == ["n"]
    assert list(devices.on("n", {})) == [GPU]
    assert devices.on("m", {}) == {}
    devices.upsert_slice(slice_of(devices=[{"name": f"gpu-{at}"} for at in range(3)]))
    assert told == ["n"], "as many or more, it is the same"
    devices.remove_class(device_class("gpus", SELECTS))
    assert (told.pop(), devices.on("n", {})) == ("n", {})
    devices.upsert_class(device_class("gpus", "device.driver == 'other'"))
    assert devices.on("n", {}) == {}
    devices.upsert_class(device_class("gpus", SELECTS))
    told.clear()
    devices.remove_slice(slice_of())
    assert (told, devices.on("n", {})) == (["n"], {})


def test_an_older_generation_counts_no_more_and_again_when_the_newer_is_gone(
    devices: DraDevices, told: list[str]
) -> None:
    devices.upsert_class(device_class("gpus", SELECTS))
    devices.upsert_slice(slice_of(name="old", generation=1))
    newer = slice_of(name="new", generation=2, nodeName="m")
    devices.upsert_slice(newer)
    assert told == ["n", "m", "n"]
    assert (bool(devices.on("n", {})), bool(devices.on("m", {}))) == (False, True)
    devices.remove_slice(newer)
    assert told[3:] == ["m", "n"]
    assert bool(devices.on("n", {}))


def test_devices_for_many_nodes_concern_those_where_something_changes(devices: DraDevices, told: list[str]) -> None:
    devices.upsert_class(device_class("gpus", SELECTS))
    devices.upsert_slice(slice_of())
    assert devices.on("n", {})
    told.clear()
    devices.upsert_slice(slice_of(name="wide", allNodes=True))
    assert told == ["m"], "the other had such devices before"
    assert devices.on("m", {})
    devices.upsert_slice(slice_of(name="wider", allNodes=True, pool={"name": "q"}))
    assert told == ["m"]
    devices.node_gone("m")
    devices.remove_slice(slice_of(name="wide"))
    assert told == ["m", "m"], "a new node of that name knows nothing yet"


WHERE: list[dict[str, Any]] = [
    {"nodeName": "n"},
    {"nodeName": "m"},
    {"allNodes": True},
    {"devices": [], "nodeName": "n"},
]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Any]]:
    steps: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 12))):
        verb = draw(st.sampled_from(("put", "drop", "class", "no class")))
        name = draw(st.sampled_from("abc"))
        if verb in ("put", "drop"):
            where = draw(st.sampled_from(WHERE))
            steps.append((verb, slice_of(name=name, generation=draw(st.integers(0, 2)), **where)))
        else:
            steps.append((verb, device_class(name, SELECTS, created=draw(st.integers(0, 2)))))
    return steps


@settings(max_examples=200, deadline=None)
@given(histories())
def test_after_any_history_it_is_as_read_anew_and_what_changed_was_told(history: list[tuple[str, Any]]) -> None:
    shown: dict[str, Any] = {"n": {}, "m": {}}

    def look(node: str) -> None:
        shown[node] = followed.on(node, {})

    followed = DraDevices(look, lambda: NODES)
    slices: dict[str, ResourceSlice] = {}
    classes: dict[str, Any] = {}
    for verb, one in history:
        name = one.metadata.name
        if verb == "put":
            slices[name] = one
            followed.upsert_slice(one)
        elif verb == "drop":
            slices.pop(name, None)
            followed.remove_slice(one)
        elif verb == "class":
            classes[name] = one
            followed.upsert_class(one)
        else:
            classes.pop(name, None)
            followed.remove_class(one)
        names: dict[str, Claimed] = claimed_names(classes.values())
        for node, seen in shown.items():
            drivers = {
                pool.driver
                for pool in pools_of(slices.values())
                for each in pool.slices
                if any(place.has(node, {}) for place in places_of(each.spec))
            }
            assert followed.on(node, {}) == offers(names, drivers) == seen


def test_many_nodes_are_looked_at_in_steps() -> None:
    """What comes between two steps counts: of two changes the later holds on every node, whenever it is looked at."""
    told: list[str] = []
    nodes = [(f"n{at:03d}", dict[str, str]()) for at in range(100)]
    devices = DraDevices(told.append, lambda: nodes)
    work: list[Iterator[None]] = []
    devices.in_steps = work.append
    devices.upsert_slice(slice_of(nodeName=None, allNodes=True))
    devices.upsert_class(device_class("gpus", SELECTS))
    assert told == [], "an event looks at no node itself"
    (first,) = work
    next(first)
    assert 0 < len(told) < 40, "a step is short"
    for name in told:
        assert list(devices.on(name, {})) == [GPU]
    seen = set(told)
    devices.remove_class(device_class("gpus", SELECTS))
    told.clear()
    for one in work:
        for _ in one:
            pass
    assert set(told) == seen, "the others are as they were"
    assert not any(devices.on(name, {}) for name, _ in nodes)
