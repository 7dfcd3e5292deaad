"""Which cards a container gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.devcluster.nodes.deviceplugin import (
    CardsRefused,
    Rack,
    annotations_for,
    give,
    parse_indices,
    recorded,
    release,
    requested,
)
from t9ksched.model.cards import ContainerKind, WholeCards

GPU = "nvidia.com/gpu"
ASKED = "scheduler.tensorstack.dev/gpu-index-container-"
GIVEN = "devcluster.tensorstack.dev/cards-container-"


def want(container: str = "main", count: int = 1, kind: ContainerKind = "main", resource: str = GPU) -> WholeCards:
    return WholeCards(container, resource, count, kind)


def rack(count: int = 4, *taken: int, promised: tuple[int, ...] = ()) -> dict[str, Rack]:
    return {GPU: Rack(count, dict.fromkeys(taken, "other"), dict.fromkeys(promised, "later"))}


@pytest.mark.parametrize(
    ("racks", "wanted", "asked", "honours", "cards"),
    [
        (rack(), [want(count=2)], {"main": "0,3"}, True, {"main": (0, 3)}),
        (rack(), [want(count=2)], {}, True, {"main": (2, 3)}),
        (rack(4, 3), [want(count=2)], {}, True, {"main": (1, 2)}),
        (rack(4, promised=(3, 2)), [want(count=2)], {}, True, {"main": (0, 1)}),
        (rack(), [want(count=2)], {"main": "2,3"}, False, {"main": (0, 1)}),
        (rack(4, 0, promised=(1,)), [want()], {}, False, {"main": (1,)}),
        (rack(), [want("a"), want("b")], {"a": "1", "b": "0"}, True, {"a": (1,), "b": (0,)}),
        (rack(), [want("a"), want("b")], {"b": "3"}, True, {"a": (2,), "b": (3,)}),
        (rack(), [want("a"), want("i", 2, "init")], {"a": "1", "i": "1,2"}, True, {"a": (1,), "i": (1, 2)}),
        (rack(), [want("a"), want("i", 2, "init")], {"a": "1"}, True, {"a": (1,), "i": (1, 3)}),
        (rack(2), [want("a", 2), want("i", 2, "init")], {}, False, {"a": (0, 1), "i": (0, 1)}),
        (rack(2), [want("a"), want("s", 1, "sidecar")], {}, False, {"a": (0,), "s": (1,)}),
    ],
)
def test_given(
    racks: dict[str, Rack],
    wanted: list[WholeCards],
    asked: dict[str, str],
    honours: bool,
    cards: dict[str, tuple[int, ...]],
) -> None:
    request = requested({ASKED + name: text for name, text in asked.items()}, wanted)
    found = give(racks, "me", tuple(wanted), request, honours)
    assert {container: by_resource[GPU] for container, by_resource in found.items()} == cards
    held = {index for index, holder in racks[GPU].holders.items() if holder == "me"}
    assert held == {index for indices in cards.values() for index in indices}


@pytest.mark.parametrize(
    ("racks", "wanted", "asked", "part"),
    [
        (rack(), [want()], {"main": "4"}, "card 4"),
        (rack(4, 1), [want()], {"main": "1"}, "taken"),
        (rack(), [want("a"), want("b")], {"a": "1", "b": "1"}, "taken"),
        (rack(), [want("a"), want("s", 1, "sidecar")], {"a": "1", "s": "1"}, "taken"),
        (rack(4, 0, 1, 2), [want(count=2)], {}, "1 of 4"),
        (rack(4, promised=(0, 1, 2, 3)), [want()], {}, "0 of 4"),
        ({}, [want()], {}, "0 of 0"),
        ({}, [want()], {"main": "0"}, "has 0"),
    ],
)
def test_refused_and_nothing_is_held(
    racks: dict[str, Rack], wanted: list[WholeCards], asked: dict[str, str], part: str
) -> None:
    request = requested({ASKED + name: text for name, text in asked.items()}, wanted)
    with pytest.raises(CardsRefused, match=part):
        give(racks, "me", tuple(wanted), request, True)
    assert "me" not in {holder for r in racks.values() for holder in r.holders.values()}


@pytest.mark.parametrize("text", ["", "a", "1,", "-1", "1,1", "1;2", "²"])
def test_unreadable_indices(text: str) -> None:
    with pytest.raises(CardsRefused):
        parse_indices(text)


def test_a_wrong_number_of_indices_is_refused() -> None:
    with pytest.raises(CardsRefused, match="asks for 2"):
        requested({ASKED + "main": "1"}, [want(count=2)])


def test_what_runs_is_read_back_from_the_pod() -> None:
    wanted = [want("a"), want("b"), want("c"), want("d")]
    annotations = {ASKED + "a": "0", ASKED + "b": "1", GIVEN + "b": "3", ASKED + "c": "rubbish"}
    assert recorded(annotations, wanted) == {"a": {GPU: (0,)}, "b": {GPU: (3,)}}


def test_only_what_differs_is_recorded() -> None:
    given_cards = {"a": {GPU: (0,)}, "b": {GPU: (2, 3)}}
    assert annotations_for(given_cards, {"a": {GPU: (0,)}}) == {GIVEN + "b": "2,3"}


def test_release_gives_back_holdings_and_promises() -> None:
    racks = {GPU: Rack(4, {0: "me", 1: "other"}, {2: "me", 3: "other"})}
    release(racks, "me")
    assert racks[GPU] == Rack(4, {1: "other"}, {3: "other"})


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=12), st.booleans())
def test_no_card_is_ever_held_twice(steps: list[tuple[int, bool]], honours: bool) -> None:
    racks = rack(8)
    held: dict[str, tuple[int, ...]] = {}
    for number, (count, leave) in enumerate(steps):
        uid = f"pod-{number}"
        try:
            held[uid] = give(racks, uid, (want(count=count),), {}, honours)["main"][GPU]
        except CardsRefused:
            assert sum(map(len, held.values())) + count > 8, "refused although enough were free"
        if leave and held:
            gone = next(iter(held))
            del held[gone]
            release(racks, gone)
        everything = [index for indices in held.values() for index in indices]
        assert len(everything) == len(set(everything))
        assert set(racks[GPU].holders) == set(everything)
