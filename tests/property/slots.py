"""Parts of cards that containers of one pod have, in an oracle's words: every way to give them, and what each takes.

It shares no code with the engine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product

from t9ksched.model.card_size import CORES
from t9ksched.model.cards import ContainerKind, SharedCards
from t9ksched.model.podclass import PodClass
from tests.builders import GPU, pod_class, shared_class

Way = Sequence[Sequence[int]]
"""The cards of each container."""
Taken = dict[int, tuple[int, int, int]]
"""By card: thousandths, MiB, containers there."""


def pod_of(*asked: tuple[int, int, ContainerKind, int], cpu: int = 1, ram: str | int = "1Gi") -> PodClass:
    """A pod whose containers ask so: thousandths, MiB, what they are, cards."""
    cards = tuple(
        SharedCards(name, GPU, count, kind, cores=cores, memory=memory)
        for name, (cores, memory, kind, count) in zip("abcdef", asked, strict=False)
    )
    made = replace(shared_class(), cards=cards)
    return replace(pod_class(cpu, ram, made.card_counts[GPU]), cards=cards)


def unequal(**more: int) -> list[PodClass]:
    """Pods with several containers."""
    return [
        pod_of((300, 200, "main", 1), (300, 200, "main", 1), **more),
        pod_of((300, 100, "main", 1), (500, 300, "main", 1), **more),
        pod_of((600, 400, "main", 1), (600, 100, "main", 1), **more),
        pod_of((200, 100, "main", 1), (600, 300, "init", 1), **more),
        pod_of((400, 300, "main", 1), (200, 300, "sidecar", 1), (500, 100, "init", 1), **more),
        pod_of((0, 300, "main", 1), (500, 100, "main", 1), **more),
        pod_of((200, 100, "main", 2), (300, 200, "main", 1), **more),
    ]


def ways(of: PodClass, cards: int) -> Iterator[Way]:
    """Every way in which its containers could have cards of a node with so many."""
    yield from product(*(combinations(range(cards), one.count) for one in of.cards))


def takes(of: PodClass, way: Way, memory: int) -> Taken:
    """What a pod takes of each card; `memory` is what a whole one has."""
    found: Taken = {}
    for card in {at for those in way for at in those}:
        now, sides, peaks = [0, 0, 0], [0, 0, 0], [(0, 0, 0)]
        for one, those in zip(of.cards, way, strict=True):
            if card not in those:
                continue
            cores, mebibytes = CORES, memory
            if isinstance(one, SharedCards) and one.cores < CORES:
                cores, mebibytes = one.cores, one.memory or -(-memory * (one.memory_percent or 100) // 100)
            part = (cores, mebibytes, 1)
            if one.kind == "init":
                peaks.append(tuple(a + b for a, b in zip(part, sides, strict=True)))  # type: ignore[arg-type]
            else:
                now = [a + b for a, b in zip(now, part, strict=True)]
            if one.kind == "sidecar":
                sides = [a + b for a, b in zip(sides, part, strict=True)]
        peaks.append(tuple(now))  # type: ignore[arg-type]
        found[card] = tuple(max(each) for each in zip(*peaks, strict=True))  # type: ignore[assignment]
    return found


def least_left(of: PodClass, way: Way, card: int) -> int:
    """Thousandths that must be left of a card beside what the pod takes: a container that reserves none runs where
    some are left.
    """
    free = (isinstance(one, SharedCards) and not one.cores for one in of.cards)
    return int(any(none and card in those for none, those in zip(free, way, strict=True)))


def has_room(of: PodClass, way: Way, left: Sequence[Sequence[int]], memory: int) -> bool:
    """Whether cards that have so much left (thousandths, MiB, places) carry the pod in that way."""
    return all(
        left[card][0] - cores >= least_left(of, way, card) and left[card][1] >= mebibytes and left[card][2] >= places
        for card, (cores, mebibytes, places) in takes(of, way, memory).items()
    )
