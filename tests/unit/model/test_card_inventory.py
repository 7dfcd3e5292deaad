"""Which cards a node has that gives parts of them."""

import pytest

from t9ksched.model.card_inventory import inventory
from t9ksched.model.card_size import CardSize
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardGrant, CardPart, SharedCards, WholeCards

CORE, MEMORY = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"


def amounts(core: int, memory: int) -> dict[str, int]:
    return {CORE: core, MEMORY: memory, "cpu": 8000}


def test_cards_of_mgpu_are_alike() -> None:
    found = inventory("MGPU", {}, amounts(400, 130040))
    assert found.divided == {CORE: (CardSize(32510, 16),) * 4}
    assert not found.fault
    assert inventory("MGPU", amounts(400, 130043), amounts(400, 130043)).divided[CORE][0].memory == 32510


@pytest.mark.parametrize("mode", ["Whole", "HAMi", "MIGMixed", "NotReady", ""])
def test_nodes_of_other_modes_divide_nothing(mode: str) -> None:
    assert not inventory(mode, {}, amounts(400, 130040)).divided


@pytest.mark.parametrize(
    ("capacity", "allocatable", "cards", "said"),
    [
        ({}, {}, 0, ""),
        ({}, amounts(0, 0), 0, ""),
        ({}, amounts(250, 32510), 0, "250 of vke.volcengine.com/mgpu-core"),
        ({}, amounts(50, 32510), 0, "no number of cards"),
        ({}, amounts(400, 0), 0, "no number of cards"),
        ({}, amounts(0, 130040), 0, "no number of cards"),
        ({}, amounts(400, 10**18), 0, "no number of cards"),
        ({}, amounts(10**18, 130040), 0, "no number of cards"),
        ({}, amounts(6500, 2113150), 0, "65 cards"),
        ({}, amounts(6400, 2080640), 64, ""),
        (amounts(400, 130040), amounts(300, 97530), 4, "offers 300 of its 400"),
        (amounts(400, 130040), amounts(0, 0), 4, "offers 0 of its 400"),
    ],
)
def test_what_cannot_be_told_apart_is_not_divided(
    capacity: dict[str, int], allocatable: dict[str, int], cards: int, said: str
) -> None:
    found = inventory("MGPU", capacity, allocatable)
    assert len(found.divided.get(CORE, ())) == cards
    assert said in found.fault
    assert bool(said) == bool(found.fault)


@pytest.mark.parametrize(
    ("mode", "offered", "told"),
    [
        ("MGPU", amounts(450, 130040), "450 of vke.volcengine.com/mgpu-core"),
        ("MGPU", amounts(6500, 2113150), "65 cards"),
        ("MGPU", amounts(400, 130043), "130043 of vke.volcengine.com/mgpu-memory are no 4 equal cards"),
        ("MGPU", amounts(400, 130040), ""),
        ("GPUShare", {"aliyun.com/gpu-mem": 60}, "0 of aliyun.com/gpu-count"),
        (
            "GPUShare",
            {"aliyun.com/gpu-mem": 61, "aliyun.com/gpu-count": 4},
            "taken to have 15, 1 are not given",
        ),
        ("GPUShare", {"aliyun.com/gpu-mem": 60, "aliyun.com/gpu-count": 4}, ""),
    ],
)
def test_amounts_that_are_no_cards_are_told_as_what_cannot_be_read(
    mode: str, offered: dict[str, int], told: str
) -> None:
    found = "; ".join(inventory(mode, {}, offered).unread)
    assert told in found
    assert bool(told) == bool(found)


def test_cards_that_do_not_work_are_nothing_that_cannot_be_read() -> None:
    assert not inventory("MGPU", amounts(400, 130040), amounts(300, 97530)).unread


def test_what_cards_of_a_table_are_for_a_pod() -> None:
    table = CardTable({CORE: 2, "nvidia.com/gpu": 4}, divided={CORE: (CardSize(1000, 16), CardSize(2000, 16))})
    asked = SharedCards("main", CORE, 2, cores=300, memory_percent=50)
    grant = CardGrant.of({CORE: (0, 1), "nvidia.com/gpu": (3,)})
    given = table.divide((asked, WholeCards("main", "nvidia.com/gpu", 1)), grant)
    assert given.parts == (CardPart(CORE, 0, 300, 500), CardPart(CORE, 1, 300, 1000))
    assert given.masks == grant.masks
    assert given.undivided == CardGrant.of({"nvidia.com/gpu": (3,)})
    assert CardTable({CORE: 2}).divide((asked,), grant) == grant
    # Cards that the table does not have, and cards that no container asks for, are no parts.
    assert not table.divide((), grant).parts
    assert [each.index for each in table.divide((asked,), CardGrant.of({CORE: (1, 5)})).parts] == [1]
    assert (table.memory(CORE, 1), table.memory(CORE, 2), table.memory("nvidia.com/gpu", 0)) == (2000, None, None)
