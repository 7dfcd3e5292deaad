"""What a pod has of each card at its peak, where several of its containers have parts of cards, maybe of the same ones.

As Kubernetes counts the requests of a pod: its main containers and sidecars run at one time, and an init container runs
before them, beside the sidecars that stand before it.
"""

from collections.abc import Iterator, Sequence

from t9ksched.model.card_size import CardSize
from t9ksched.model.cards import CardPart, CardRequest

Given = tuple[CardRequest, tuple[int, ...]]
"""A request and the cards that it gets, by index."""


def moments(requests: Sequence[CardRequest]) -> list[tuple[int, ...]]:
    """Which of the requests, by position, are served at one time: each such set. Init containers and sidecars stand in
    the order in which they start.
    """
    found = [tuple(at for at, one in enumerate(requests) if one.kind != "init")]
    beside: list[int] = []
    for at, one in enumerate(requests):
        if one.kind == "sidecar":
            beside.append(at)
        elif one.kind == "init":
            found.append((*beside, at))
    return [moment for moment in found if moment]


def peak(given: Sequence[Given], sizes: Sequence[CardSize]) -> Iterator[CardPart]:
    """The most that a pod has of each card at one of its moments. The requests are for cards of one resource, with
    these sizes; cards that are not there are left out.
    """
    times = moments([request for request, _ in given])
    for index in sorted({at for _, indices in given for at in indices if at < len(sizes)}):
        cores = memory = places = 0
        for moment in times:
            parts = [given[at][0].part_of(index, sizes[index]) for at in moment if index in given[at][1]]
            cores = max(cores, sum(part.cores for part in parts))
            memory = max(memory, sum(part.memory for part in parts))
            places = max(places, len(parts))
        yield CardPart(given[0][0].resource, index, cores, memory, places)
