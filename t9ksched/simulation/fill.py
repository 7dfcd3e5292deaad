"""How much of a cluster's cards a policy fills: pods arrive one after the other and never end.

The method is that of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023): the pods of a list are shuffled, then
drawn with replacement until their demand is so many times what the cluster has. One that finds no room is dropped. The
real planner decides, a few hundred arrivals a cycle.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Binpack, Packing, Policy
from t9ksched.engine.usual_pods import UsualPods
from t9ksched.engine.view import QueueState, View
from t9ksched.model.card_size import CORES, CardSize
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardRequest, SharedCards, WholeCards
from t9ksched.model.gang import Gang, Member
from t9ksched.model.labels import NodeSelector
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import ClassTable, PodClass
from t9ksched.model.queue import QueueSpec
from t9ksched.simulation.openb import FillNode, FillPod

T = TypeVar("T")
CARD: Final = "nvidia.com/gpu"
SHARE: Final = "simulation/card-thousandths"
"""What policies that look at amounts see of cards."""
MODEL: Final = "nvidia.com/gpu.product"
QUEUE: Final = "fill"
_CYCLE: Final = 512
"""Arrivals that one cycle decides about at most."""
_PODS: Final = 1_000_000
"""Pods that a node takes: never what decides."""


_ALL: Final = 100
"""Percent of demand at which fragmentation is told."""
_PLAIN: Final = Policy(binpack=None, cardless_weight=0, starvation=None)
"""Every node is as good as any other: the first by name is taken."""
POLICIES: Final[Mapping[str, Policy]] = {
    "default": replace(_PLAIN, packing=Packing()),
    "first-fit": _PLAIN,
    "best-fit": replace(_PLAIN, binpack=Binpack("MostAllocated", 1, (("cpu", 1), ("memory", 0), (SHARE, 1)))),
    "spread": replace(_PLAIN, binpack=Binpack("LeastAllocated", 1, (("cpu", 1), ("memory", 0), (SHARE, 1)))),
}
"""By name; `fgd` is made for the pods that come."""


@dataclass(frozen=True, slots=True)
class Filled:
    """What came of one seed: percentages of the cluster's cards.

    Attributes:
        at: allocated when the demand that has arrived is this part of the cluster, by the part in percent.
        fragmentation: of what is free of the cards at 100 % of demand, the share that pods with cards cannot use, each
            pod that arrives counting alike.
        placed, dropped: pods.
        seconds: how long the planner took.
    """

    at: dict[int, float]
    fragmentation: float
    placed: int
    dropped: int
    seconds: float


class Randomness(Protocol):
    """What is drawn from, with the seed of whoever asks: a `random.Random` does."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Put these into another order."""

    def choice(self, seq: Sequence[T]) -> T:
        """One of these."""


def fill(
    nodes: Sequence[FillNode],
    arrivals: Sequence[FillPod],
    policy: Policy,
    marks: Sequence[int] = (100, 130),
    clock: Callable[[], float] = lambda: 0.0,
    progress: Callable[[int], None] = lambda decided: None,
    told: Callable[[FillPod, int | None], None] = lambda pod, node: None,
    *,
    whole: bool = False,
) -> Filled:
    """Let pods arrive in this order, and the policy place them; of equal nodes it takes the first one. With `whole` the
    nodes give whole cards only, and no pod may ask for a part of one.

    `marks` are percentages of the cards' demand, `clock` tells seconds. `progress` is told how many more were decided
    about, and `told` of each pod on which of the nodes it is.
    """
    table = _table(nodes, whole=whole)
    capacity = capacity_of(nodes)
    classes = _classes(arrivals)
    memory, queues, usual = Memory(), {QUEUE: QueueState(QueueSpec(ordering="BestEffort"))}, UsualPods()
    arrived = placed = allocated = 0
    seconds = 0.0
    at: dict[int, float] = {}
    fragmentation = 0.0
    first = 0
    while first < len(arrivals):
        # As in a service, no cycle decides about many more pods than came before.
        some = arrivals[first : first + max(1, min(_CYCLE, first // 8))]
        gangs = tuple(_gang(classes[pod], first + nth) for nth, pod in enumerate(some))
        begun = clock()
        for pod in some:
            usual.arrived(classes[pod])
        made = plan(View(table.freeze(), queues, gangs, usual=usual.shapes()), policy, first + len(some), memory)
        seconds += clock() - begun
        given = {one.gang: one for one in made.assignments}
        for nth, pod in enumerate(some):
            arrived += pod.demand
            one = given.get(str(first + nth))
            told(pod, None if one is None else int(one.node.partition("-")[0]))
            if one is not None:
                table.charge(table.row(one.node), classes[pod], one.grant)
                allocated += pod.demand
                placed += 1
            for mark in marks:
                if mark not in at and arrived * 100 >= capacity * mark:
                    at[mark] = 100 * allocated / capacity
                    if mark == _ALL:
                        fragmentation = _fragmentation(table, Counter(arrivals))
        first += len(some)
        progress(len(some))
    return Filled(at, fragmentation, placed, len(arrivals) - placed, seconds)


def fgd(pods: Mapping[FillPod, int]) -> Policy:
    """The policy of "Beware of Fragmentation": it knows beforehand which pods come, and how often."""
    return replace(_PLAIN, packing=Packing("fragmentation", given(pods)))


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """Pods of a list that fit on none of the nodes, even when these are empty.

    Attributes:
        pods: how many these are in all.
        unknown_models: those among them that may use no model of any node with cards; by their models, as the list
            has them.
        too_large: the others, for which no node that they may use has the cards, cores and memory.
    """

    pods: int
    unknown_models: Mapping[str, int]
    too_large: int


def unplaceable(nodes: Iterable[FillNode], pods: Iterable[FillPod]) -> Unplaceable:
    """The pods that no policy can place."""
    sizes = {(node.model if node.cards else "", node.cpu, node.memory, node.cards) for node in nodes}
    models = {model for model, *_, cards in sizes if cards}
    unknown: Counter[str] = Counter()
    too_large = 0
    for pod, count in Counter(pods).items():
        if pod.models and models.isdisjoint(pod.models):
            unknown["|".join(pod.models)] += count
        elif not any(_has(pod, *size) for size in sizes):
            too_large += count
    return Unplaceable(unknown.total() + too_large, dict(sorted(unknown.items())), too_large)


def _has(pod: FillPod, model: str, cpu: int, memory: int, cards: int) -> bool:
    """Whether an empty node of this size has what a pod asks for."""
    if pod.models and model not in pod.models:
        return False
    return pod.cpu <= cpu and pod.memory <= memory and pod.cards <= cards


def given(pods: Mapping[FillPod, int]) -> tuple[tuple[PodClass, int], ...]:
    """Pods, and how many of each, as the planner knows them."""
    classes = _classes(pods)
    return tuple((classes[pod], count) for pod, count in pods.items())


def _fragmentation(table: NodeTable, pods: Mapping[FillPod, int]) -> float:
    frozen = table.freeze()
    free, static = frozen.free(), frozen.static
    cpu, memory = (free[static.resources.index(name)] for name in ("cpu", "memory"))
    if CARD in static.divided:
        cards = static.divided[CARD].part_free(free, slice(None))
    else:  # whole ones: one row a card, free or not
        count = np.maximum(free[static.resources.index(CARD)], 0)
        cards = (np.arange(int(count.max(initial=0)))[:, None] < count) * CORES
    models = np.array([facts.labels.get(MODEL, "") for facts in static.facts])
    total, asking, useless = int(cards.sum()), 0, 0
    for pod, count in pods.items():
        if pod.cards:
            fits = (cpu >= pod.cpu) & (memory >= pod.memory << 20) & ((cards >= pod.each).sum(axis=0) >= pod.cards)
            if pod.models:
                fits &= np.isin(models, pod.models)
            usable = int(cards[:, fits][cards[:, fits] >= pod.each].sum())
            asking, useless = asking + count, useless + count * (total - usable)
    return 100 * useless / (total * asking) if total else 0.0


def capacity_of(nodes: Iterable[FillNode]) -> int:
    """Thousandths of cards that the nodes have."""
    return sum(node.cards for node in nodes) * CORES


def ordered(nodes: Sequence[FillNode], rng: Randomness) -> list[FillNode]:
    """The nodes in another order: files name them by hardware."""
    found = list(nodes)
    rng.shuffle(found)
    return found


def drawn(pods: Sequence[FillPod], demand: int, rng: Randomness) -> list[FillPod]:
    """Pods until they ask for so much (thousandths of cards): the list itself shuffled, then drawn from again."""
    found = list(pods)
    rng.shuffle(found)
    asked = 0
    for at, pod in enumerate(found):
        asked += pod.demand
        if asked >= demand:
            return found[: at + 1]
    while asked < demand:
        found.append(rng.choice(pods))
        asked += found[-1].demand
    return found


def _table(nodes: Sequence[FillNode], *, whole: bool) -> NodeTable:
    """The empty nodes, with names in their order: the planner takes the first of equal ones by name."""
    found = NodeTable()
    for at, node in enumerate(nodes):
        cards = CardTable()
        if node.cards:
            divided = {} if whole else {CARD: (CardSize(CORES, CORES),) * node.cards}
            cards = CardTable({CARD: node.cards}, divided=divided)
        found.upsert(
            NodeFacts(
                f"{at:06}-{node.name}",
                labels={MODEL: node.model} if node.model else {},
                allocatable={
                    "cpu": node.cpu,
                    "memory": node.memory << 20,
                    CARD: node.cards if whole else _PODS if node.cards else 0,
                    SHARE: node.cards * CORES,
                    "pods": _PODS,
                },
                cards=cards,
            )
        )
    return found


def _classes(pods: Iterable[FillPod]) -> dict[FillPod, PodClass]:
    """What the planner sees of each kind of pod. A card has as much memory as cores: the trace tells of none."""
    table = ClassTable()
    found = {}
    for pod in dict.fromkeys(pods):
        requests = {"cpu": pod.cpu, "memory": pod.memory << 20, CARD: pod.cards, SHARE: pod.demand, "pods": 1}
        asked: CardRequest = WholeCards("main", CARD, pod.cards)
        if pod.each < CORES:
            asked = SharedCards("main", CARD, pod.cards, cores=pod.each, memory=pod.each)
        found[pod] = table.intern(
            PodClass(
                tuple(sorted((name, amount) for name, amount in requests.items() if amount)),
                (asked,) if pod.cards else (),
                node_affinity=_models(pod.models) if pod.models else None,
            )
        )
    return found


def _models(models: tuple[str, ...]) -> NodeSelector:
    expression = {"key": MODEL, "operator": "In", "values": list(models)}
    return NodeSelector.parse([{"matchExpressions": [expression]}])


def _gang(of: PodClass, at: int) -> Gang:
    uid = str(at)
    member = Member(uid, f"fill/{at:09}", "", of)
    return Gang(
        uid=uid,
        name=f"fill/{at:09}",
        queue=QUEUE,
        priority=0,
        created=at,
        min_member=1,
        waiting=(member,),
        total=1,
        total_roles=(("", 1),),
    )
