"""What a pod has of each card is the most that its containers have there at one moment."""

import pytest

from t9ksched.kube.write.dialects.hami import ALLOCATED, VGPU_NODE, HamiDevices
from t9ksched.model.card_peak import peak
from t9ksched.model.card_size import CardSize
from t9ksched.model.cards import CardPart, ContainerKind, SharedCards
from t9ksched.model.podclass import PodClass

GPU = "nvidia.com/gpu"
SIZES = (CardSize(16_000, 10, 1000, "GPU-a"), CardSize(16_000, 10, 1000, "GPU-b"))
Has = tuple[ContainerKind, dict[int, tuple[int, int]]]
"""A container with cores and memory of cards, by index."""
Most = dict[int, tuple[int, int, int]]


@pytest.mark.parametrize(
    ("containers", "most"),
    [
        ([("main", {0: (100, 50)}), ("main", {0: (200, 30)})], {0: (300, 80, 2)}),
        ([("main", {0: (100, 50)}), ("main", {1: (200, 30)})], {0: (100, 50, 1), 1: (200, 30, 1)}),
        ([("init", {0: (400, 9)}), ("main", {0: (100, 50)})], {0: (400, 50, 1)}),
        ([("init", {0: (400, 9)}), ("init", {0: (500, 8)}), ("main", {1: (1, 1)})], {0: (500, 9, 1), 1: (1, 1, 1)}),
        # An init container runs beside the sidecars that stand before it, and beside no other.
        ([("sidecar", {0: (100, 5)}), ("init", {0: (400, 9)}), ("main", {0: (10, 1)})], {0: (500, 14, 2)}),
        ([("init", {0: (400, 9)}), ("sidecar", {0: (100, 5)}), ("main", {0: (10, 1)})], {0: (400, 9, 2)}),
    ],
)
def test_the_most_at_one_moment(containers: list[Has], most: Most) -> None:
    parts = [(kind, [CardPart(GPU, at, *has) for at, has in cards.items()]) for kind, cards in containers]
    expected = [CardPart(GPU, at, *amounts) for at, amounts in most.items()]
    assert peak(parts) == expected

    names = [f"c{at}" for at in range(len(containers))]
    asks = [SharedCards(name, GPU, 1, kind, 1) for name, (kind, _) in zip(names, containers, strict=True)]
    pod = PodClass(cards=tuple(asks), containers=tuple(names))
    text = "".join(
        "".join(f"{SIZES[at].uuid},NVIDIA,{memory},{cores // 10}:" for at, (cores, memory) in cards.items()) + ";"
        for _, cards in containers
    )
    read = HamiDevices("n", SIZES).read(pod, {VGPU_NODE: "n", ALLOCATED: text})
    whole = [(part.index, part.cores // 10, part.memory, part.places) for part in read.parts]
    assert whole == [(at, cores // 10, memory, places) for at, (cores, memory, places) in most.items()]
