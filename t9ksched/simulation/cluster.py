"""The cluster of a replay: nodes with cards, and the pods that a job of so many cards has on them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from t9ksched.engine.nodes import NodeTable
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import MOST_INDEXED, WholeCards
from t9ksched.model.errors import Invalid
from t9ksched.model.gang import Gang, Member
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import ClassTable, PodClass
from t9ksched.simulation.job import Job, nanoseconds

QUEUE: Final = "trace"
"""The queue that all jobs are in."""
CARD: Final = "nvidia.com/gpu"
MOST_NODES: Final = 100_000
MOST_CARDS: Final = MOST_INDEXED
_SHAPE: Final = re.compile(r"([0-9]{1,9})x([0-9]{1,9})")
_MOST_PODS: Final = 1_000_000
"""What a node takes in pods: no more than its cards ever decide."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """So many nodes with so many cards each, or as many as `each` says; then `cards` is the largest of these."""

    nodes: int
    cards: int
    each: tuple[int, ...] = ()

    @classmethod
    def of(cls, each: Sequence[int]) -> "Cluster":
        """Nodes with these numbers of cards; those without are left out.

        Raises:
            Invalid: there is no card, or more than can be simulated.
        """
        found = tuple(cards for cards in each if cards)
        if not found:
            raise Invalid.at("cluster", "none of its nodes has a card")
        if len(found) > MOST_NODES or max(found) > MOST_CARDS:
            raise Invalid.at("cluster", f"at most {MOST_NODES} nodes with at most {MOST_CARDS} cards each")
        return cls(len(found), max(found), found)

    @classmethod
    def parse(cls, text: str) -> "Cluster":
        """From `NxM`: N nodes with M cards each.

        Raises:
            Invalid: the text has another form, or asks for more than can be simulated.
        """
        found = _SHAPE.fullmatch(text.strip().lower())
        if found is None:
            raise Invalid.at("cluster", f"{text!r} must be NxM, N nodes with M cards each such as 64x8, or a file")
        nodes, cards = int(found[1]), int(found[2])
        if not 1 <= nodes <= MOST_NODES:
            raise Invalid.at("cluster", f"{nodes} nodes: at least 1, at most {MOST_NODES}")
        if not 1 <= cards <= MOST_CARDS:
            raise Invalid.at("cluster", f"{cards} cards a node: at least 1, at most {MOST_CARDS}")
        return cls(nodes, cards)

    @property
    def capacity(self) -> int:
        """All its cards."""
        return sum(self.each) if self.each else self.nodes * self.cards

    def table(self) -> NodeTable:
        """The nodes, empty."""
        found = NodeTable()
        tables = {cards: CardTable({CARD: cards}) for cards in self.each or (self.cards,)}
        for at, cards in enumerate(self.each or (self.cards,) * self.nodes):
            allocatable = {CARD: cards, "pods": _MOST_PODS}
            found.upsert(NodeFacts(f"node-{at:06}", allocatable=allocatable, cards=tables[cards]))
        return found

    def pods(self, cards: int) -> tuple[int, int]:
        """How many pods a job of so many cards has, and how many cards each has.

        A job that fits a node is one pod. A larger one has as few alike pods as the empty cluster has room for: pods
        of whole nodes where its size is a multiple of a node's cards.

        Raises:
            ValueError: the cluster has fewer cards.
        """
        if cards > self.capacity:
            raise ValueError(f"{cards} cards, of {self.capacity}")
        whole = (size for size in range(min(cards, self.cards), 0, -1) if cards % size == 0)
        each = next(size for size in whole if cards // size <= self._places(size))
        return cards // each, each

    def _places(self, cards: int) -> int:
        """How many pods of so many cards the empty cluster has room for."""
        return sum(count // cards for count in self.each) if self.each else self.nodes * (self.cards // cards)


@dataclass(frozen=True, slots=True)
class Gangs:
    """Makes the gangs of jobs, as the planner sees them.

    Attributes:
        by_priority: whether they have the priorities of the trace; else all are equal.
        last: whether they say how long they may last.
    """

    cluster: Cluster
    by_priority: bool = False
    last: bool = False
    shapes: "Shapes" = field(default_factory=lambda: Shapes())

    def of(self, job: Job, at: int) -> Gang:
        """The gang of the job at this position; that is its UID."""
        uid = str(at)
        pods, cards = (job.pods, job.cards // job.pods) if job.pods else self.cluster.pods(job.cards)
        shape = self.shapes.of(cards)
        return Gang(
            uid=uid,
            name=f"trace/{at:09}",
            queue=QUEUE,
            priority=job.priority if self.by_priority else 0,
            created=nanoseconds(job.submitted),
            min_member=pods,
            waiting=tuple(Member(f"{uid}-{pod}", f"trace/{uid}-{pod}", "", shape) for pod in range(pods)),
            total=pods,
            total_roles=(("", pods),),
            lasts=nanoseconds(job.runs if job.limit is None else job.limit) if self.last else 0,
        )


class Shapes:
    """The classes of pods with so many cards, made once each."""

    def __init__(self) -> None:
        self._table = ClassTable()
        self._known: dict[int, PodClass] = {}

    def of(self, cards: int) -> PodClass:
        """A pod that asks for that many cards and nothing else."""
        found = self._known.get(cards)
        if found is None:
            requests = ((CARD, cards), ("pods", 1))
            made = PodClass(requests, (WholeCards("main", CARD, cards),))
            found = self._known[cards] = self._table.intern(made)
        return found
