"""A small cluster kept by hand: what exists, in plain values, and the view the engine is given of it.

The world knows nothing of how the engine decides. It keeps nodes, queues, gangs and pods as an API server would, and
takes a plan as the shell does: places become bound pods, victims begin to leave, promised room is handed back with the
next view.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from t9ksched.engine import parted
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.parted import Parted, Parts
from t9ksched.engine.planner import Plan
from t9ksched.engine.view import QueueState, View
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Gang, Member, Neighbours, Running, RunningPod
from t9ksched.model.labels import LabelSelector, NodeSelector
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import parse_rules
from t9ksched.model.queue import Ordering, QueueSpec
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.taints import Taint, Toleration
from tests.builders import GPU, node, pod_class

SECOND = 1_000_000_000
RECOVERY = 900 * SECOND
"""For so long room is kept for members that a gang lost."""
HOST, ZONE = "kubernetes.io/hostname", "zone"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Shape:
    """A kind of pod. `zone`, `not_zone` and `volume` are about nodes; `apart`, `near`, `even` about other pods."""

    name: str
    cpu: int = 1
    gpu: int = 0
    zone: str = ""
    not_zone: str = ""
    volume: str = ""
    tolerates: bool = False
    port: int = 0
    apart: bool = False
    """Not on a node with another pod of this shape."""
    near: str = ""
    """Only in a zone with a pod of that shape."""
    even: bool = False
    """Over the zones with a difference of one at most."""

    @property
    def ruled(self) -> bool:
        """Whether other pods decide where it may go."""
        return bool(self.apart or self.near or self.even)

    def requests(self) -> Counter[str]:
        """What one pod takes, in units."""
        return +Counter({"cpu": 1000 * self.cpu, GPU: self.gpu, "pods": 1})


SHAPES = {
    one.name: one
    for one in (
        Shape("card", gpu=1),
        Shape("pair", gpu=2),
        Shape("four", cpu=2, gpu=4),
        Shape("cpu", cpu=4),
        Shape("in-a", gpu=1, zone="a"),
        Shape("not-a", gpu=1, not_zone="a"),
        Shape("disk-b", cpu=2, volume="b"),
        Shape("bold", gpu=1, tolerates=True),
        Shape("web", port=80),
        Shape("alone", gpu=1, apart=True),
        Shape("fan", near="alone"),
        Shape("even", even=True),
    )
}


def _selector(operator: str, zone: str) -> NodeSelector | None:
    return NodeSelector.parse([{"matchExpressions": [{"key": ZONE, "operator": operator, "values": [zone]}]}])


def _term(name: str, key: str) -> dict[str, Any]:
    return {_REQUIRED: [{"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": key}]}


def _class(shape: Shape) -> PodClass:
    affinity: dict[str, Any] = {"podAntiAffinity": _term(shape.name, HOST)} if shape.apart else {}
    if shape.near:
        affinity["podAffinity"] = _term(shape.near, ZONE)
    own = {"app": shape.name}
    spread = [{"maxSkew": 1, "topologyKey": ZONE, "labelSelector": {"matchLabels": own}}] if shape.even else None
    volume = _selector("In", shape.volume) if shape.volume else None
    found = pod_class(
        cpu=shape.cpu,
        memory=0,
        gpu=shape.gpu,
        selector={ZONE: shape.zone} if shape.zone else {},
        affinity=_selector("NotIn", shape.not_zone) if shape.not_zone else None,
        tolerations=[Toleration("team", "Exists")] if shape.tolerates else (),
        ports=[shape.port] if shape.port else (),
        volumes=[volume] if volume else (),
    )
    return replace(found, rules=parse_rules(affinity, spread, "test", own))


CLASSES = {name: _class(shape) for name, shape in SHAPES.items()}


@dataclass
class Node:
    """A node of 8 cpu and some cards."""

    name: str
    gpu: int
    zone: str
    tainted: bool = False
    cordoned: bool = False
    ready: bool = True
    cpu: int = 8

    def has(self) -> Counter[str]:
        """What it has, in units."""
        return Counter({"cpu": 1000 * self.cpu, GPU: self.gpu, "pods": 20})


@dataclass
class Queue:
    """A queue; `quota` in units, `zone` empty for all nodes."""

    name: str
    priority: int = 0
    quota: dict[str, int] = field(default_factory=dict)
    zone: str = ""
    ordering: Ordering = "BestEffort"
    preemptible: bool = True
    closed: bool = False


@dataclass
class Pod:
    """A pod: it waits, is bound to a node, or is bound and leaving."""

    uid: str
    gang: str
    role: str
    shape: Shape
    node: str = ""
    cards: int = 0
    leaving: bool = False


@dataclass
class Loss:
    """A member that its gang lost and has not had back; `found` is where the engine keeps room instead of `node`."""

    pod: Pod
    node: str
    since: int
    found: str = ""


@dataclass
class Group:
    """A gang; `pods` by uid in the order of their indices."""

    uid: str
    queue: str
    priority: int
    created: int
    minimum: int
    roles: dict[str, int]
    together: bool = False
    """All of it within one zone."""
    ran: bool = False
    started: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    victims: set[str] = field(default_factory=set)
    """Pods that went for it."""
    losses: list[Loss] = field(default_factory=list)
    owed: list[tuple[Shape, str]] = field(default_factory=list)
    """Members that its controller has yet to make again."""
    evicted: bool = False
    """It went whole, for others, and has not started again."""

    def refilling(self) -> bool:
        """Whether it goes before what is new: some of it stands, or was lost a short while ago."""
        return not self.evicted and (any(self.placed().values()) or bool(self.losses))

    def lacking(self) -> list[Loss]:
        """The losses that it needs back to have its minimum: those of roles that are short first, the newest first."""
        if self.evicted:
            return []
        placed = self.placed()
        short = {role: least - placed[role] for role, least in self.roles.items()}
        first = []
        for loss in reversed(self.losses):
            if short.get(loss.pod.role, 0) > 0:
                short[loss.pod.role] -= 1
                first.append(loss)
        return [*first, *(loss for loss in reversed(self.losses) if loss not in first)][: max(0, self.missing())]

    def waiting(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if not pod.node]

    def bound(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node]

    def placed(self) -> Counter[str]:
        """Members that hold a place and stay, by role."""
        return Counter(pod.role for pod in self.bound() if not pod.leaving)

    def missing(self) -> int:
        """How many of its waiting members make up what is missing of the minimum."""
        placed = self.placed()
        roles = sum(max(0, minimum - placed[role]) for role, minimum in self.roles.items())
        return max(roles, self.minimum - placed.total())

    def wanted(self) -> list[Pod]:
        """The waiting members that make up its minimum: those of roles that are short first, then in their order."""
        placed = self.placed()
        short = {role: least - placed[role] for role, least in self.roles.items()}
        first: list[Pod] = []
        for pod in self.waiting():
            if short.get(pod.role, 0) > 0:
                short[pod.role] -= 1
                first.append(pod)
        rest = [pod for pod in self.waiting() if pod not in first]
        return first + rest[: max(0, self.minimum - placed.total() - len(first))]

    def whole(self, more: Counter[str]) -> bool:
        """Whether its minimum holds places with these members more, by role."""
        there = self.placed() + more
        return there.total() >= self.minimum and all(there[role] >= least for role, least in self.roles.items())


class InParts:
    """Running groups as the shell hands them to the engine: in parts, here of few groups, that share what stays."""

    def __init__(self) -> None:
        self._parts: Parts[Running] = Parts()
        self._known: dict[str, Running] = {}

    def told(self, groups: Iterable[Running]) -> Parted[Running]:
        """All of them; the same value while they are equal."""
        before, self._known = self._known, {group.uid: group for group in groups}
        with patch.multiple(parted, _A_PART=3, _SMALL=1):
            for uid in sorted(before.keys() - self._known.keys()):
                self._parts.discard(uid)
            for uid, group in self._known.items():
                self._parts[uid] = group
            return self._parts.told()


class World:
    """Everything that exists, and what happens to it."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {}
        self.groups: dict[str, Group] = {}
        self.foreign: dict[str, Pod] = {}
        self.holds: tuple[Reservation, ...] = ()
        self.table = NodeTable()
        self._serial = 0
        self._running = InParts()
        self._neighbours: tuple[Neighbours, ...] = ()

    def serial(self) -> int:
        """A fresh number."""
        self._serial += 1
        return self._serial

    # --- what is there

    def pods(self) -> Iterator[Pod]:
        """All pods, ours and foreign ones."""
        for group in self.groups.values():
            yield from group.pods.values()
        yield from self.foreign.values()

    def on(self, name: str) -> list[Pod]:
        """The pods on a node."""
        return [pod for pod in self.pods() if pod.node == name]

    def used(self, name: str, *, leaving: bool = True) -> Counter[str]:
        """What pods take on a node; without those that are leaving if asked."""
        found: Counter[str] = Counter()
        for pod in self.on(name):
            if leaving or not pod.leaving:
                found.update(pod.shape.requests())
        return found

    def charged(self, name: str, *, leaving: bool = True) -> Counter[str]:
        """What the pods of a queue hold."""
        found: Counter[str] = Counter()
        for group in self.groups.values():
            for pod in group.bound() if group.queue == name else ():
                if leaving or not pod.leaving:
                    found.update(pod.shape.requests())
        return found

    # --- what happens

    def put(self, one: Node) -> None:
        """A node comes, or has changed."""
        self.nodes[one.name] = one
        self.table.upsert(
            node(
                one.name,
                cpu=one.cpu,
                gpu=one.gpu,
                pods=20,
                labels={ZONE: one.zone},
                taints=[Taint("team", "red")] if one.tainted else (),
                unschedulable=one.cordoned,
                ready=one.ready,
            )
        )

    def lose(self, name: str) -> None:
        """A node is lost with everything on it; controllers make lost members anew."""
        for pod in self.on(name):
            self.remove(pod, again=True)
        del self.nodes[name]
        self.table.remove(name)

    def create(self, group: Group, members: list[tuple[Shape, str]]) -> None:
        """A gang arrives."""
        self.groups[group.uid] = group
        for shape, role in members:
            self._member(group, shape, role)

    def _member(self, group: Group, shape: Shape, role: str) -> None:
        uid = f"{group.uid}.{self.serial()}"
        group.pods[uid] = Pod(uid, group.uid, role, shape)

    def bind(self, pod: Pod, name: str, cards: int) -> None:
        """A pod gets its place."""
        pod.node, pod.cards = name, cards
        self.table.charge(self.table.row(name), CLASSES[pod.shape.name], CardGrant.packed({GPU: cards}))

    def remove(self, pod: Pod, *, again: bool, late: bool = False) -> None:
        """A pod is gone; `again` if its controller makes it anew, `late` if it does so only some time after."""
        if pod.node:
            cards = CardGrant.packed({GPU: pod.cards})
            self.table.discharge(self.table.row(pod.node), CLASSES[pod.shape.name], cards)
        self.foreign.pop(pod.uid, None)
        group = self.groups.get(pod.gang)
        if group is not None:
            del group.pods[pod.uid]
            if pod.leaving:
                group.evicted = group.evicted or not group.whole(Counter())
                group.losses = [] if group.evicted else group.losses
            elif again and pod.node and group.ran and not group.evicted:
                group.losses.append(Loss(pod, pod.node, self.now))
            if late:
                group.owed.append((pod.shape, pod.role))
            elif again:
                self._member(group, pod.shape, pod.role)

    def catch_up(self) -> None:
        """Controllers make what they have yet to make."""
        for group in self.groups.values():
            owed, group.owed = group.owed, []
            for shape, role in owed:
                self._member(group, shape, role)

    def pass_time(self, seconds: int) -> None:
        """Room is not kept for ever, and no promise outlives its time limit, though its victims may."""
        self.now += seconds * SECOND
        self.holds = tuple(hold for hold in self.holds if hold.in_force(self.now))
        for group in self.groups.values():
            group.losses = [loss for loss in group.losses if self.now < loss.since + RECOVERY]

    def kept(self) -> list[Reservation]:
        """Room that is kept for lost members: where they were, if the node is well and has it, else where it was found,
        else nowhere yet.
        """
        promised = {hold.owner for hold in self.holds}
        return [
            Reservation(
                group.uid,
                self._place(group, loss),
                CLASSES[loss.pod.shape.name],
                since=loss.since,
                until=loss.since + RECOVERY,
                kind=ReservationKind.REFILL,
                queue=group.queue,
                cards=self._cards(loss, self._place(group, loss)),
            )
            for group in self.groups.values()
            if group.uid not in promised
            for loss in group.lacking()
        ]

    def _cards(self, loss: Loss, place: str) -> CardGrant:
        """The cards that a lost member had, while it may come back to them."""
        theirs = loss.pod.cards
        free = place == loss.node and not any(pod.cards & theirs for pod in self.on(place))
        return CardGrant.packed({GPU: theirs} if free else {})

    def _place(self, group: Group, loss: Loss) -> str:
        for name in (loss.node, loss.found):
            node, queue = self.nodes.get(name), self.queues[group.queue]
            if node is None or not node.ready or node.cordoned or queue.zone not in ("", node.zone):
                continue
            used, has = self.used(name), node.has()
            if all(used[key] + units <= has[key] for key, units in loss.pod.shape.requests().items()):
                return name
        return ""

    def end(self, uid: str) -> None:
        """A gang ends."""
        for pod in list(self.groups[uid].pods.values()):
            self.remove(pod, again=False)
        del self.groups[uid]
        self.holds = tuple(hold for hold in self.holds if hold.owner != uid)

    def apply(self, plan: Plan, refused: set[int]) -> None:
        """Carry a plan out; bindings at the positions `refused` are refused."""
        for at, one in enumerate(plan.assignments):
            group = self.groups[one.gang]
            if at not in refused:
                self.bind(group.pods[one.pod], one.node, dict(one.grant.masks).get(GPU, 0))
        started = {one.gang for one in plan.assignments}
        for uid in started:
            group = self.groups[uid]
            if group.whole(Counter()):
                group.started = group.started if group.ran else self.now
                group.ran, group.evicted, group.losses = True, False, []
        for hold in plan.kept:
            homeless = (
                one for one in self.groups[hold.owner].lacking() if not self._place(self.groups[hold.owner], one)
            )
            loss = next((one for one in homeless if CLASSES[one.pod.shape.name] == hold.pod_class), None)
            if loss is not None:
                loss.found = hold.node
        promised = {hold.owner for hold in plan.reservations}
        kept = (hold for hold in self.holds if hold.owner not in promised | started)
        self.holds = (*kept, *plan.reservations)
        for one in plan.evictions:
            group = self.groups[one.gang]
            if one.pod in group.pods:
                group.pods[one.pod].leaving = True
                self.groups[one.by].victims.add(one.pod)
            else:  # room that was kept for a lost member
                group.evicted, group.losses = True, []

    def is_left(self, uid: str) -> bool:
        """Whether pods are still leaving for a gang, or leaving the nodes where room is held for it."""
        nodes = {hold.node for hold in self.holds if hold.owner == uid}
        return any(pod.leaving and (pod.node in nodes or pod.uid in self.groups[uid].victims) for pod in self.pods())

    def give_up(self, uid: str) -> None:
        """Room promised to a gang is given up."""
        self.holds = tuple(hold for hold in self.holds if hold.owner != uid)

    # --- what the engine is told

    def view(self) -> View:
        """The moment as the engine sees it."""
        kept = self.kept()
        running = self._running.told(one for group in self.groups.values() if (one := self._tenant(group, kept)).pods)
        neighbours = tuple(self._beside())
        # The shell hands the same values in while nothing changed; what is remembered by them must not go stale.
        self._neighbours = self._neighbours if self._neighbours == neighbours else neighbours
        return View(
            self.table.freeze(),
            {
                one.name: QueueState(
                    QueueSpec(
                        quota=one.quota,
                        priority=one.priority,
                        preemptible=one.preemptible,
                        closed=one.closed,
                        node_selector=LabelSelector.parse({"matchLabels": {ZONE: one.zone}}) if one.zone else None,
                        ordering=one.ordering,
                    ),
                    self.charged(one.name),
                )
                for one in self.queues.values()
            },
            tuple(
                self._asking(group)
                for group in self.groups.values()
                if group.waiting() or any(hold.owner == group.uid for hold in kept)
            ),
            (*self.holds, *kept),
            running,
            self._neighbours,
        )

    def _asking(self, group: Group) -> Gang:
        living = [pod for pod in group.pods.values() if not pod.leaving]
        return Gang(
            uid=group.uid,
            name=f"test/{group.uid}",
            queue=group.queue,
            priority=group.priority,
            created=group.created,
            min_member=group.minimum,
            roles=tuple(sorted(group.roles.items())),
            waiting=tuple(
                Member(pod.uid, f"test/{pod.uid}", pod.role, CLASSES[pod.shape.name], labels=(("app", pod.shape.name),))
                for pod in group.waiting()
            ),
            placed=tuple(sorted(group.placed().items())),
            total=len(living),
            total_roles=tuple(sorted(Counter(pod.role for pod in living).items())),
            refilling=group.refilling(),
            ran=group.ran,
            topology="Required" if group.together else "None",
            levels=(ZONE,),
            nodes=tuple(sorted({pod.node for pod in group.bound() if not pod.leaving})) if group.together else (),
        )

    def _tenant(self, group: Group, kept: list[Reservation]) -> Running:
        """A gang as one that may have to go. Room kept for lost members goes with it."""
        mine = [hold for hold in kept if hold.owner == group.uid]
        places = [(loss, hold) for loss, hold in zip(group.lacking(), mine, strict=bool(mine)) if hold.node]
        return Running(
            uid=group.uid,
            name=f"test/{group.uid}",
            queue=group.queue,
            pods=tuple(
                RunningPod(*(loss.pod.uid, f"test/{loss.pod.uid}", loss.pod.role, hold.pod_class, hold.node), kept=True)
                for loss, hold in places
            )
            + tuple(
                RunningPod(
                    pod.uid,
                    f"test/{pod.uid}",
                    pod.role,
                    CLASSES[pod.shape.name],
                    pod.node,
                    CardGrant.packed({GPU: pod.cards}),
                    pod.leaving,
                )
                for pod in group.bound()
            ),
            priority=group.priority,
            created=group.created,
            started=group.started,
            min_member=group.minimum,
            roles=tuple(sorted(group.roles.items())),
        )

    def _beside(self) -> Iterator[Neighbours]:
        alike: dict[tuple[str, bool], Counter[str]] = {}
        for pod in self.pods():
            if pod.node:
                alike.setdefault((pod.shape.name, pod.leaving), Counter())[pod.node] += 1
        for (name, leaving), nodes in sorted(alike.items()):
            rules = CLASSES[name].rules
            apart = rules.apart if rules else ()
            yield Neighbours("test", (("app", name),), tuple(sorted(nodes.items())), apart, leaving=leaving)
