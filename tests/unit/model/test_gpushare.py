"""What nodes of gpushare have, what pods ask of them, and the words of bindings."""

import pytest

from t9ksched.kube.write.dialects.gpushare import GpuShare
from t9ksched.kube.write.dialects.table import dialect_of
from t9ksched.model.card_inventory import inventory
from t9ksched.model.card_size import CardSize
from t9ksched.model.cards import NO_CARDS, CardGrant, CardPart, SharedCards
from t9ksched.model.node import decode_node, node_facts
from t9ksched.model.podclass import PodClass

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
INDEX, OF_POD, OF_CARD, ASSIGNED = (f"ALIYUN_COM_GPU_MEM_{name}" for name in ("IDX", "POD", "DEV", "ASSIGNED"))
GIB, MIB = CardSize(16 * 1024, 16, unit=1024), CardSize(16_160, 16_160, unit=1)
POD = PodClass(cards=(SharedCards("main", MEMORY, 1, memory=5),))


@pytest.mark.parametrize(
    ("capacity", "allocatable", "cards", "said"),
    [
        ({}, {MEMORY: 64, COUNT: 4}, (GIB,) * 4, ""),
        ({}, {MEMORY: 64_640, COUNT: 4}, (MIB,) * 4, ""),
        ({}, {MEMORY: 66, COUNT: 4}, (GIB,) * 4, ""),
        ({MEMORY: 64, COUNT: 4}, {MEMORY: 48, COUNT: 4}, (GIB,) * 4, "offers 48 of its 64"),
        ({}, {MEMORY: 64}, (), "offers 64 of aliyun.com/gpu-mem and 0"),
        ({}, {MEMORY: 1 << 62, COUNT: 4}, (), "no number of cards"),
        ({}, {COUNT: 4}, (), ""),
        ({}, {MEMORY: 3, COUNT: 4}, (), "offers 3 of aliyun.com/gpu-mem and 4"),
        ({}, {MEMORY: 6500, COUNT: 65}, (), "65 of aliyun.com/gpu-count"),
    ],
)
def test_cards_are_alike(
    capacity: dict[str, int], allocatable: dict[str, int], cards: tuple[CardSize, ...], said: str
) -> None:
    found = inventory("GPUShare", capacity, allocatable)
    assert found.divided.get(MEMORY, ()) == cards
    assert said in found.fault
    assert bool(said) == bool(found.fault)


@pytest.mark.parametrize("size", [GIB, MIB])
def test_a_binding_names_the_card_in_the_units_of_its_node(size: CardSize) -> None:
    dialect = GpuShare((size,) * 2)
    held = CardGrant.of_parts([POD.cards[0].part_of(1, size)])
    assert held.parts == (CardPart(MEMORY, 1, 0, 5 * size.unit),)
    notes = dialect.write(POD, held)
    assert notes == {INDEX: "1", OF_POD: "5", OF_CARD: str(size.memory // size.unit)}
    assert dialect.write_once(POD, held) == {ASSIGNED: "false"}
    assert dialect.read(POD, notes) == held
    assert (dialect.write(POD, NO_CARDS), dialect.write_once(POD, NO_CARDS)) == ({}, {})


@pytest.mark.parametrize(
    ("index", "amount"),
    [("2", "5"), ("-1", "5"), ("", "5"), ("1", ""), ("1", "0"), ("1", "-5"), ("1", "9" * 19), ("٣", "5"), ("0,1", "5")],
)
def test_annotations_that_mean_nothing_name_no_card(index: str, amount: str) -> None:
    assert GpuShare((GIB,) * 2).read(POD, {INDEX: index, OF_POD: amount}) == NO_CARDS


def test_a_node_of_gpushare_divides_the_memory_of_its_cards() -> None:
    offered = {MEMORY: "32", COUNT: "2", "nvidia.com/gpu": "2"}
    found = node_facts(decode_node({"metadata": {"name": "n"}, "status": {"allocatable": offered}}))
    assert (found.mode, found.cards.counts, found.counted) == ("GPUShare", {MEMORY: 2}, {COUNT: 2})
    assert "nvidia.com/gpu" not in found.allocatable, "they are the same cards"
    assert dialect_of(found) == GpuShare((GIB,) * 2)
