"""Packing of cards against a plain reading of its two rules, pod by pod, and what it does where they say little."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import exp, isqrt
from random import Random

import pytest

from t9ksched.engine.placement import packing
from t9ksched.engine.placement.packing_shapes import Asked
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Packing, Policy
from t9ksched.engine.view import View
from t9ksched.simulation.fill import POLICIES, capacity_of, drawn, fgd, fill, given, ordered
from t9ksched.simulation.openb import FillNode, FillPod
from tests.builders import gang, pod_class, queue, table
from tests.examples import part
from tests.kernels import KERNELS, kernel_named, scoring

SCALE = 1 << 20


@pytest.fixture(autouse=True, params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test with the scores of numpy and with those of machine code."""
    with scoring(kernel_named(request.param)):
        yield


@dataclass
class Node:
    """A node of the plain reading."""

    model: str
    cpu: int
    memory: int
    cards: list[int]

    def fits(self, pod: FillPod) -> bool:
        allowed = not pod.models or self.model in pod.models
        able = sum(card >= pod.each for card in self.cards) >= pod.cards
        return allowed and self.cpu >= pod.cpu and self.memory >= pod.memory and able

    def after(self, pod: FillPod, card: int | None = None) -> "Node":
        """With the pod on the fullest card that suffices, or this one; with several on the first whole ones."""
        cards = list(self.cards)
        able = [at for at, left in enumerate(cards) if left >= pod.each]
        chosen = able[: pod.cards]
        if pod.cards == 1 and pod.each < 1000:
            chosen = [min(able, key=lambda at: (cards[at], at)) if card is None else card]
        for at in chosen:
            cards[at] -= pod.each
        return Node(self.model, self.cpu - pod.cpu, self.memory - pod.memory, cards)


@dataclass
class Reading:
    """The rules as their sentences say them, with nothing kept from one pod to the next."""

    nodes: list[Node]
    shapes: list[tuple[FillPod, int]] = field(default_factory=list)

    def score(self, node: Node, pod: FillPod) -> int:
        raise NotImplementedError

    def place(self, pod: FillPod) -> int | None:
        able = [at for at, node in enumerate(self.nodes) if node.fits(pod)]
        if not able:
            return None
        best = max(able, key=lambda at: (self.score(self.nodes[at], pod), -at))
        self.nodes[best] = self.chosen(self.nodes[best], pod)
        return best

    def chosen(self, node: Node, pod: FillPod) -> Node:
        return node.after(pod)


class Fgd(Reading):
    def usable(self, node: Node, shape: FillPod) -> int:
        able = [card for card in node.cards if card >= shape.each]
        allowed = not shape.models or node.model in shape.models
        return sum(able) if shape.cards and allowed and node.cpu >= shape.cpu and len(able) >= shape.cards else 0

    def fragmentation(self, node: Node) -> float:
        return sum(weight * (sum(node.cards) - self.usable(node, shape)) for shape, weight in self.shapes)

    def gained(self, before: Node, after: Node) -> int:
        whole = sum(weight for _, weight in self.shapes)
        fallen = (self.fragmentation(before) - self.fragmentation(after)) / (whole * 1000)
        return int(100 / (1 + exp(-fallen)) + 1e-9)

    def ways(self, node: Node, pod: FillPod) -> list[Node]:
        if pod.cards == 1 and pod.each < 1000:
            return [node.after(pod, at) for at, card in enumerate(node.cards) if card >= pod.each]
        return [node.after(pod)]

    def score(self, node: Node, pod: FillPod) -> int:
        return max(self.gained(node, way) for way in self.ways(node, pod))

    def chosen(self, node: Node, pod: FillPod) -> Node:
        ways = self.ways(node, pod)
        return max(enumerate(ways), key=lambda one: (self.gained(node, one[1]), -one[0]))[1]


def cluster(rng: Random) -> list[FillNode]:
    return [
        FillNode(
            f"n{at}", rng.choice([8000, 32_000, 96_000]), rng.choice([64, 256]) * 1024, rng.choice([1, 2, 4, 8]), model
        )
        for at in range(rng.randint(2, 6))
        for model in [rng.choice(["A", "B"])]
    ]


def arriving(rng: Random) -> list[FillPod]:
    kinds = []
    for _ in range(rng.choice([2, 4, 6, 100])):
        cards = rng.choice([0, 1, 1, 1, 2, 4])
        each = 1000 if cards > 1 else rng.choice([100, 250, 330, 500, 810, 1000]) if cards else 0
        models = rng.choice([(), (), ("A",), ("A", "B")])
        kinds.append(
            FillPod(
                rng.choice([1000, 4000, 12_000]) + rng.randint(0, 99), rng.choice([4, 16]) * 1024, cards, each, models
            )
        )
    kinds.append(FillPod(1000, 1024, 1, 500))
    return rng.choices(kinds, k=max(len(kinds) * 2, 20))


@dataclass
class Usable(Reading):
    def __post_init__(self) -> None:
        total = sum(count for _, count in self.shapes)
        whole = sum(sum(node.cards) for node in self.nodes)
        known = [(shape, (2 * SCALE * count + total) // (2 * total)) for shape, count in self.shapes]
        where = [
            {at for at, node in enumerate(self.nodes) if not shape.models or node.model in shape.models}
            for shape, _ in known
        ]
        asked = [weight * shape.demand if there else 0 for (shape, weight), there in zip(known, where, strict=True)]
        weighed = []
        for (shape, weight), there in zip(known, where, strict=True):
            capacity = sum(self.usable(node, shape) for node in self.nodes)
            room = max(sum(sum(self.nodes[at].cards) for at in there), 1)
            inside = sum(amount for amount, theirs in zip(asked, where, strict=True) if theirs <= there)
            pressure = min((inside * whole << 16) // max(sum(asked) * room, 1), 1 << 16)
            more = (1 << 16) + ((isqrt((whole << 32) // room) - (1 << 16)) * pressure >> 16)
            weighed.append(weight * whole // max(capacity, 1) * more >> 16 if there else 0)
        most = min(100 * max(sum(weighed) // len(weighed), 1), 1 << 40)
        self.shapes = [(shape, min(weight, most)) for (shape, _), weight in zip(known, weighed, strict=True)]

    def usable(self, node: Node, shape: FillPod) -> int:
        able = [card for card in node.cards if card >= shape.each]
        if (shape.models and node.model not in shape.models) or node.cpu < shape.cpu or node.memory < shape.memory:
            return 0
        served = 7 * shape.demand << 16
        limits = node.cpu * (served // (4 * shape.cpu)), node.memory * (served // (4 * shape.memory))
        return min(sum(able), min(limits) >> 16) if len(able) >= shape.cards else 0

    def value(self, node: Node) -> int:
        return sum(weight * self.usable(node, shape) for shape, weight in self.shapes)

    def score(self, node: Node, pod: FillPod) -> int:
        return -((self.value(node) - self.value(node.after(pod))) // (max(40, pod.demand // 8) * SCALE))


def nodes_of(seed: int, nodes: list[FillNode]) -> list[Node]:
    return [Node(one.model, one.cpu, one.memory, [1000] * one.cards) for one in shuffled(nodes, seed)]


def shuffled(nodes: list[FillNode], seed: int) -> list[FillNode]:
    return ordered(nodes, Random(f"nodes {seed}"))


def frequent(counts: dict[FillPod, int], part: int) -> list[tuple[FillPod, int]]:
    """The most frequent until they are so many thousandths."""
    kept: list[tuple[FillPod, int]] = []
    for pod, count in sorted(counts.items(), key=lambda one: -one[1]):
        if sum(already for _, already in kept) * 1000 >= sum(counts.values()) * part:
            break
        kept.append((pod, count))
    return kept


def placed(
    nodes: list[FillNode], pods: list[FillPod], policy: Policy, seed: int
) -> tuple[list[FillPod], list[int | None]]:
    """Which pods arrived, and where each was placed."""
    seen: list[FillPod] = []
    found: list[int | None] = []

    def told(pod: FillPod, node: int | None) -> None:
        seen.append(pod)
        found.append(node)

    arrivals = drawn(pods, capacity_of(nodes) * 13 // 10, Random(seed))
    fill(shuffled(nodes, seed), arrivals, policy, (100,), told=told)
    return seen, found


@pytest.mark.parametrize("seed", range(part(60)))
def test_fgd_places_each_pod_as_it_is_defined(seed: int) -> None:
    rng = Random(seed)
    nodes, pods = cluster(rng), arriving(rng)
    alike: dict[tuple[object, ...], FillPod] = {}
    counts: dict[FillPod, int] = {}
    for pod in pods:
        first = alike.setdefault((pod.cpu, pod.cards, pod.each, pod.models), pod)
        counts[first] = counts.get(first, 0) + 1
    shapes = frequent(counts, 950)
    total = sum(count for _, count in shapes)
    weighed = [(shape, (2 * SCALE * count + total) // (2 * total)) for shape, count in shapes]
    seen, found = placed(nodes, pods, fgd(Counter(pods)), seed)
    reading = Fgd(nodes_of(seed, nodes), weighed)
    assert [reading.place(pod) for pod in seen] == found


@pytest.mark.parametrize("seed", range(part(60)))
def test_usable_room_is_lost_as_it_is_defined(seed: int) -> None:
    rng = Random(seed)
    nodes, pods = cluster(rng), arriving(rng)
    shapes = {pod: count for pod, count in Counter(pods).items() if pod.cards}
    sizes = [Asked(pod.cpu, pod.memory, pod.cards, pod.each) for pod in shapes]
    unlike = not any(one.resembles(other) for at, one in enumerate(sizes) for other in sizes[:at])
    known = shapes if unlike else dict([next(iter(shapes.items()))])
    policy = replace(POLICIES["default"], packing=Packing("usable", given(known)))
    seen, found = placed(nodes, pods, policy, seed)
    reading = Usable(nodes_of(seed, nodes), frequent(known, 990))
    assert [reading.place(pod) for pod in seen] == found


@pytest.mark.parametrize("policy", ["default", "first-fit", "best-fit"])
def test_nodes_that_give_whole_cards_are_filled_like_those_that_give_parts(policy: str) -> None:
    rng = Random(3)
    nodes = cluster(rng)
    pods = [pod for pod in arriving(rng) if pod.each in (0, 1000)]
    arrivals = drawn(pods, capacity_of(nodes), Random(3))
    parts = fill(nodes, arrivals, POLICIES[policy], (100,))
    assert fill(nodes, arrivals, POLICIES[policy], (100,), whole=True) == parts
    assert parts.placed


def test_scarce_cards_are_kept_for_pods_that_need_them() -> None:
    nodes = [FillNode("few", 64_000, 512 * 1024, 8, "A"), FillNode("many", 64_000, 512 * 1024, 8, "B")]
    any_model = FillPod(1000, 1024, 1, 1000)
    only_few = FillPod(1000, 1024, 1, 1000, ("A",))
    pods = [only_few, *[any_model] * 9]
    assert [one.name for one in shuffled(nodes, 2)] == ["few", "many"]
    known = replace(POLICIES["default"], packing=Packing("usable", given(Counter(pods))))
    for policy, first in ((known, {1}), (POLICIES["first-fit"], {0})):
        seen, found = placed(nodes, pods, policy, 2)
        places = [at for pod, at in zip(seen, found, strict=True) if pod == any_model]
        assert set(places[:4]) == first


@pytest.mark.parametrize("policy", ["default", "fgd"])
def test_nodes_in_one_state_are_looked_at_once_without_another_result(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(7)
    nodes, pods = cluster(rng), arriving(rng)
    chosen = fgd(Counter(pods)) if policy == "fgd" else POLICIES[policy]
    monkeypatch.setattr(packing, "_MANY", 1 << 30)
    each = placed(nodes, pods, chosen, 7)
    for most_states in (8, 0):
        monkeypatch.setattr(packing, "_MANY", 1)
        monkeypatch.setattr(packing, "_MOST_STATES", most_states)
        assert placed(nodes, pods, chosen, 7) == each
    monkeypatch.setattr(packing, "_MOST_CLASSES", 1)
    assert placed(nodes, pods, chosen, 7) == each, "losses of few classes are kept"


def test_without_nodes_nothing_is_packed() -> None:
    view = View(table(()).freeze(), {"q": queue()}, (gang("a", "q", 2, of=pod_class(gpu=1)),))
    assert not plan(view, Policy(packing=Packing("usable")), 0).assignments
