"""What a pod has of each card at its peak, where several of its containers have parts of cards, maybe of the same ones.

As Kubernetes counts the requests of a pod: its main containers and sidecars run at one time, and an init container runs
before them, beside the sidecars that stand before it.
"""

from collections.abc import Sequence

from t9ksched.model.cards import CardPart, CardRequest, ContainerKind

_NOTHING = (0, 0, 0)


def moments(requests: Sequence[CardRequest]) -> list[tuple[int, ...]]:
    """Which of the requests, by position, are served at one time: each such set. Init containers and sidecars stand in
    the order in which they start.
    """
    return _moments([one.kind for one in requests])


def _moments(kinds: Sequence[ContainerKind]) -> list[tuple[int, ...]]:
    found = [tuple(at for at, kind in enumerate(kinds) if kind != "init")]
    beside: list[int] = []
    for at, kind in enumerate(kinds):
        if kind == "sidecar":
            beside.append(at)
        elif kind == "init":
            found.append((*beside, at))
    return [moment for moment in found if moment]


def peak(containers: Sequence[tuple[ContainerKind, Sequence[CardPart]]]) -> list[CardPart]:
    """The most that a pod has of each card at one of its moments, in the order of cards; what its containers have is
    given in the order of `moments`.
    """
    most: dict[tuple[str, int], tuple[int, ...]] = {}
    for moment in _moments([kind for kind, _ in containers]):
        now: dict[tuple[str, int], tuple[int, ...]] = {}
        for part in (part for at in moment for part in containers[at][1]):
            cores, memory, places = now.get((part.resource, part.index), _NOTHING)
            now[part.resource, part.index] = cores + part.cores, memory + part.memory, places + part.places
        for card, amounts in now.items():
            most[card] = tuple(map(max, most.get(card, _NOTHING), amounts))
    return [CardPart(*card, *amounts) for card, amounts in sorted(most.items())]
