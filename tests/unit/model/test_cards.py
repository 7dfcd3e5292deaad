"""Cards as values: sets of cards, what requests choose from them, and what the inventory of a node says."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.engine.cards import HeldCards, IdleCards, granted
from t9ksched.engine.fact_columns import FactColumns
from t9ksched.engine.nodes import LARGEST
from t9ksched.kube.write.dialects.table import CARD_INDEX, DIALECTS, dialect_of
from t9ksched.model.card_forms import FORMS, read_request
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import (
    MOST_INDEXED,
    NO_CARDS,
    CardGrant,
    CardRequest,
    SharedCards,
    WholeCards,
    are_disjoint,
)
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass

GPU, NPU = "nvidia.com/gpu", "huawei.com/Ascend910"
CARDS = {(resource, index) for resource in (GPU, NPU) for index in range(MOST_INDEXED)}
sets = st.frozensets(st.sampled_from(sorted(CARDS)), max_size=12)
kinds = st.sampled_from(["main", "main", "sidecar", "init"])
requests = st.lists(
    st.tuples(st.sampled_from([GPU, NPU]), st.integers(1, 3), kinds).map(lambda one: WholeCards("", *one)), max_size=5
).map(lambda found: tuple(WholeCards(f"c{at}", one.resource, one.count, one.kind) for at, one in enumerate(found)))


def grant(cards: frozenset[tuple[str, int]]) -> CardGrant:
    found: dict[str, list[int]] = {}
    for resource, index in cards:
        found.setdefault(resource, []).append(index)
    return CardGrant.of(found)


def cards(of: CardGrant) -> frozenset[tuple[str, int]]:
    return frozenset((resource, index) for resource in of.resources for index in of.indices(resource))


@given(sets, sets)
def test_grants_are_sets_of_cards(one: frozenset[tuple[str, int]], other: frozenset[tuple[str, int]]) -> None:
    mine, theirs = grant(one), grant(other)
    assert cards(mine) == one
    assert cards(mine | theirs) == one | other
    assert cards(mine & theirs) == one & other
    assert cards(mine - theirs) == one - other
    assert mine.overlaps(theirs) == bool(one & other)
    assert are_disjoint([mine, theirs]) == (not one & other)
    assert set(mine.beyond({GPU: 5})) == {card for card in one if card[0] == GPU and card[1] >= 5}
    assert bool(mine) == bool(one)
    assert (mine == theirs) == (one == other)
    assert mine - mine == NO_CARDS
    for resource in (GPU, NPU):
        assert mine.count(resource) == len(mine.indices(resource)) == sum(name == resource for name, _ in one)
        assert list(mine.indices(resource)) == sorted(mine.indices(resource))
        assert cards(mine.only([resource])) == {card for card in one if card[0] == resource}
    assert msgspec.json.decode(msgspec.json.encode(mine), type=CardGrant) == mine


@given(sets, requests)
def test_containers_get_cards_of_the_grant_and_share_them_only_with_what_ran_before(
    held: frozenset[tuple[str, int]], asked: tuple[CardRequest, ...]
) -> None:
    mine: set[tuple[str, int]] = set()
    sidecars: set[tuple[str, int]] = set()
    for request, indices in grant(held).split(asked):
        got = {(request.resource, index) for index in indices}
        assert got <= held
        assert len(indices) <= request.count
        if request.kind != "init":
            assert not got & mine, "main containers and sidecars share no card"
            mine |= got
        if request.kind == "sidecar":
            sidecars |= got
    before: set[tuple[str, int]] = set()
    for request, indices in grant(held).split(asked):
        got = {(request.resource, index) for index in indices}
        assert request.kind != "init" or not got & before, "a sidecar that runs already keeps its cards"
        before |= got if request.kind == "sidecar" else set()


@given(st.integers(0, MOST_INDEXED), sets, sets)
def test_a_table_says_which_cards_there_are(
    count: int, gone: frozenset[tuple[str, int]], asked: frozenset[tuple[str, int]]
) -> None:
    table = CardTable({GPU: count} if count else {}, grant(gone))
    there = {(GPU, index) for index in range(count)}
    assert cards(table.all) == there
    assert cards(table.usable) == there - gone
    assert table.covers(grant(asked)) == (asked <= there)
    assert bool(table) == bool(count)


def test_what_a_request_means_is_said_by_the_node() -> None:
    request = WholeCards("main", GPU, 2)
    assert CardTable({GPU: 8}).indexed(request)
    assert not CardTable({NPU: 8}).indexed(request), "under this name it has parts of cards, or nothing"


@given(st.integers(1, MOST_INDEXED), sets, st.integers(0, 3), st.integers(0, 4))
def test_columns_give_idle_cards_of_the_node_and_take_them_back(
    count: int, taken: frozenset[tuple[str, int]], each: int, pods: int
) -> None:
    table = CardTable({GPU: count}, CardGrant.of({GPU: [0]}))
    held = HeldCards(1)
    for name in (GPU, NPU):
        held.know(name)
    others = grant(taken) & table.all
    held.hold(0, others)
    facts = FactColumns(1, LARGEST)
    facts.write(0, NodeFacts("n", cards=table), None)
    columns = facts.cards(held.names, np.array([0], np.intp))
    idle = IdleCards(columns, held.freeze(np.array([0], np.intp)))
    before = idle.idle.tobytes()
    needs = [(columns.row_of[GPU], each)]
    if each * pods > (table.usable - others).count(GPU):
        return
    shares = idle.take(needs, 0, pods)
    union = NO_CARDS
    for share in shares:
        got = granted((GPU,), share)
        assert got.count(GPU) == each
        assert not got - table.usable
        assert not got.overlaps(others)
        assert not got.overlaps(union)
        union = union | got
    idle.move(needs, 0, shares, -1)
    assert idle.idle.tobytes() == before


@given(st.lists(sets, max_size=4))
def test_a_card_is_idle_once_all_its_holders_are_gone(holders: list[frozenset[tuple[str, int]]]) -> None:
    held = HeldCards(1)
    for name in (GPU, NPU):
        held.know(name)
    for one in holders:
        held.hold(0, grant(one))
    for at, one in enumerate(holders):
        held.release(0, grant(one))
        left = frozenset().union(*holders[at + 1 :]) if holders[at + 1 :] else frozenset()
        assert cards(held.on(0, (GPU, NPU))) == left
        assert all(held.taken(0, grant(frozenset([card]))) for card in left)


@given(sets, requests)
def test_annotations_say_again_what_was_written(
    held: frozenset[tuple[str, int]], asked: tuple[CardRequest, ...]
) -> None:
    given = grant(held).by_container(asked)
    pod = PodClass(cards=asked)
    notes = CARD_INDEX.write(pod, grant(held))
    whole = len(given) == len(asked) and all(
        len(indices) == request.count for (_, _, indices), request in zip(given, asked, strict=False)
    )
    assert CARD_INDEX.read(pod, notes) == (CardGrant.of_containers(given) if whole else NO_CARDS)
    assert set(notes) <= set(CARD_INDEX.keys(pod))


def test_every_mode_without_a_row_has_the_default_dialect() -> None:
    assert dialect_of(None) is CARD_INDEX
    assert dialect_of(NodeFacts("n", mode="MIGMixed")) is CARD_INDEX
    for mode, dialect in DIALECTS.items():
        facts = NodeFacts("n", mode="NotReady", layout=mode)
        assert dialect_of(facts) == dialect(facts)


def test_requests_are_read_as_every_release_wrote_them() -> None:
    old = {"container": "main", "resource": GPU, "count": 2, "kind": "init"}
    request = WholeCards("main", GPU, 2, "init")
    assert msgspec.to_builtins(request) == old
    assert msgspec.convert(old, CardRequest, dec_hook=read_request) == request
    assert FORMS[""] is WholeCards
    part = SharedCards("main", GPU, 2, "sidecar", 300, 1024)
    assert msgspec.convert(msgspec.to_builtins(part), CardRequest, dec_hook=read_request) == part
    with pytest.raises(msgspec.ValidationError, match="unknown form of card request 'half'"):
        msgspec.convert(old | {"form": "half"}, CardRequest, dec_hook=read_request)


def test_words() -> None:
    assert str(CardGrant.of({NPU: [3], GPU: [1, 0]})) == f"3 of {NPU} and 0,1 of {GPU}"
    assert str(NO_CARDS) == "no cards"
