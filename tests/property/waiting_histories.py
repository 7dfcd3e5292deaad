"""Histories of crowded clusters, in which most of what comes waits: unlike gangs that fit in part, on one node but not
at once on any, or not at all, in queues with and without quota, some on nodes of a kind that is nowhere, some away from
others. Each cycle's plan equals the plan of a fresh memory to the byte.
"""

import random
from collections import Counter
from dataclasses import replace
from unittest.mock import patch

from msgspec import structs

from t9ksched.engine.actions import told_again
from t9ksched.engine.actions.starting_runs import StartingRuns
from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy, Preemption, Starvation
from t9ksched.engine.view import QueueState, View
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.cards import NO_CARDS
from t9ksched.model.gang import Gang, Neighbours, Running, RunningPod
from t9ksched.model.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import Peers, PodRules, PodTerm
from t9ksched.model.quantity import CARD, CARDS
from t9ksched.model.queue import Ordering
from t9ksched.model.readiness import Unready
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.reserved_room import ReservedRoom
from t9ksched.model.start_windows import StartWindow, next_change
from t9ksched.model.taints import Taint, Toleration
from tests.builders import GPU, gang, node, pod_class, queue, table, view

HOST = "kubernetes.io/hostname"
HOUR = 3_600_000_000_000
AWAY = Taint("node.kubernetes.io/unreachable", "", "NoSchedule")
MINE = Taint("mine", "", "NoSchedule")
CYCLES = 30


class History:
    """A cluster with more work than room. All it does is drawn by `rng`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = [f"n{at}" for at in range(rng.randint(2, 7))]
        self.live = table(
            node(name, cpu=rng.choice([4, 8]), memory=f"{rng.choice([4, 8])}Gi", gpu=rng.choice([0, 2, 4]))
            if rng.random() < 0.8
            else node(name, cpu=8, memory="8Gi", gpu=4, labels={"pool": "a"})
            for name in self.names
        )
        preempts = rng.random() < 0.3
        self.policy = Policy(
            actions=("allocate", "preempt") if preempts else ("allocate",),
            starvation=rng.choice([None, Starvation(after_seconds=3600)]),
            preemption=Preemption(
                inside_queue=rng.random() < 0.5, minimum_run_seconds=rng.choice([0, 0, 1800, 5400]) if preempts else 0
            ),
        )
        ordering: Ordering = "Backfill" if rng.random() < 0.7 else "BestEffort"
        night = rng.choice(["", "", *"qrs"])
        self.queues: dict[str, QueueState] = {
            name: queue(
                priority=rng.choice([0, 0, 1]),
                quota=rng.choice([{}, {}, {"cpu": 6000}, {GPU: 3, "cpu": 20_000}]),
                ordering=ordering,
                start_windows=(StartWindow(begin=60 * rng.randrange(4), end=60 * rng.randrange(5, 9)),)
                if name == night
                else (),
            )
            for name in "qrs"
        }
        sizes = [rng.choice([500, 1000, 1500, 2000, 3000, 5000, 9000]) for _ in range(6)]
        self.classes = [
            pod_class(
                cpu=f"{size}m",
                memory=f"{rng.choice([1, 2, 3, 6, 7])}Gi",
                gpu=rng.choice([0, 0, 1, 2, 3, 9]),
                selector=rng.choice([{}, {}, {}, {"pool": "a"}, {"pool": "none"}, {"zone": "z"}]),
                ports=rng.choice([(), (), (), (), (80,)]),
            )
            for size in sizes
        ]
        self.labels = {one: (("app", rng.choice("xy")),) for one in self.classes}
        if rng.random() < 0.3:
            self._keep_away(self.classes[0])
        self.waiting: dict[str, Gang] = {}
        self.running: dict[str, tuple[str, list[tuple[str, str, PodClass]]]] = {}
        self.started: dict[str, int] = {}
        self.held: list[Reservation] = []
        self.leaving: set[str] = set()
        self.memory = Memory()
        self.largest = 5
        self.came = 0
        self.now = HOUR
        self.again: int | None = None

    def _keep_away(self, of: PodClass) -> None:
        """Pods of the class are to be on no node with a pod of the app x, nor such a pod where they are."""
        term = PodTerm((Peers(LabelSelector((Requirement("app", "In", ("x",)),)), ("test",)),), HOST)
        self.classes[0] = replace(of, rules=PodRules(apart=(term,)))
        self.labels[self.classes[0]] = self.labels[of]

    def _neighbours(self) -> tuple[Neighbours, ...]:
        """The pods that have places, by class."""
        found: dict[PodClass, Counter[str]] = {}
        for _, pods in self.running.values():
            for _, where, shape in pods:
                found.setdefault(shape, Counter())[where] += 1
        return tuple(
            Neighbours("test", self.labels[of], tuple(sorted(on.items())), of.rules.apart if of.rules else ())
            for of, on in found.items()
        )

    def step(self) -> None:
        """Something happens, or nothing."""
        rng = self.rng
        happens = [
            "come",
            "come",
            "end",
            "end",
            "withdraw",
            "hold",
            "promise",
            "leave",
            "node",
            "label",
            "queue",
            "time",
            "of age",
            "",
        ]
        what = rng.choice(happens)
        if what == "come":
            for _ in range(rng.randint(1, 6)):
                self._come()
        elif what == "end" and self.running:
            self._end(rng.choice(sorted(self.running)))
        elif what == "withdraw" and self.waiting:
            del self.waiting[rng.choice(sorted(self.waiting))]
        elif what == "hold":
            owner = rng.choice(sorted(self.waiting) or ["elsewhere"])
            kind = rng.choice([ReservationKind.BINDING, ReservationKind.VICTIMS])
            hold = Reservation(owner, rng.choice(self.names), rng.choice(self.classes), kind)
            self.held = [] if self.held else [hold]
        elif what == "promise" and self.waiting:
            for _ in range(rng.randint(1, 3)):
                self._promise(self.waiting[rng.choice(sorted(self.waiting))])
        elif what == "leave" and self.running:
            self.leaving.add(rng.choice(sorted(self.running)))
        elif what == "node" and rng.random() < 0.5:
            self._turn(self.live.facts(rng.choice(self.names)))
        elif what == "label":
            facts = self.live.facts(rng.choice(self.names))
            label = rng.choice([{"pool": "a"}, {"pool": "b"}, {"zone": "z"}, {"zone": "y"}])
            self.live.upsert(replace(facts, labels={**facts.labels, **label}))
        elif what == "queue" and rng.random() < 0.3:
            name = rng.choice("qrs")
            spec = self.queues[name].spec
            self.queues[name] = replace(self.queues[name], spec=replace(spec, quota={"cpu": rng.choice([4000, 9000])}))
        elif what == "time":
            self.now += rng.choice([HOUR, HOUR, HOUR // 4])
        elif what == "of age" and self.again is not None:
            self.now = self.again

    def _turn(self, facts: NodeFacts) -> None:
        """The node takes work no longer, or again."""
        taints = () if facts.taints else (self.rng.choice([AWAY, MINE]),)
        self.live.upsert(
            self.rng.choice(
                [
                    replace(facts, unschedulable=not facts.unschedulable),
                    replace(facts, ready=not facts.ready),
                    replace(facts, taints=taints),
                    replace(facts, ready=True, unschedulable=False, taints=()),
                ]
            )
        )

    def _come(self) -> None:
        rng = self.rng
        self.came += 1
        name = f"g{self.came}"
        topology = rng.choice(["None"] * 6 + ["Required", "Preferred"])
        pods, gated = rng.randint(1, self.largest), rng.randint(0, 2) if rng.random() < 0.2 else 0
        of = rng.choice(self.classes)
        one = replace_topology(
            gang(
                name,
                queue=rng.choice("qrs"),
                pods=pods,
                min_member=pods + rng.randint(1, 2) if gated else None,
                total=pods + gated if gated else None,
                blocked=[Reason(Code.SCHEDULING_GATED, f"{gated} gates")] if gated else [],
                of=of,
                priority=rng.choice([0, 0, 0, 2]),
                created=self.now + self.came,
            ),
            topology,
        )
        members = tuple(structs.replace(pod, labels=self.labels[of]) for pod in one.waiting)
        self.waiting[name] = structs.replace(one, waiting=members)

    def _promise(self, wanted: Gang) -> None:
        """Room that others are to leave is promised to the gang, on as many nodes as it has pods or on one."""
        rng, one = self.rng, self.rng.choice(self.names)
        together = rng.random() < 0.5
        self.held = [hold for hold in self.held if hold.owner != wanted.uid]
        for pod in wanted.waiting:
            where = one if together else rng.choice(self.names)
            self.held.append(Reservation(wanted.uid, where, pod.pod_class, ReservationKind.VICTIMS))

    def _end(self, name: str) -> None:
        self.leaving.discard(name)
        of, pods = self.running.pop(name)
        used = dict(self.queues[of].used)
        for _, where, shape in pods:
            self.live.discharge(self.live.row(where), shape)
            for resource, units in shape.requests:
                used[resource] -= units
        self.queues[of] = replace(self.queues[of], used=used)

    def given(self) -> View:
        """What the next cycle sees."""
        groups = tuple(
            Running(
                name,
                name,
                of,
                tuple(
                    RunningPod(uid, uid, "", shape, where, NO_CARDS, leaving=name in self.leaving)
                    for uid, where, shape in pods
                ),
                started=self.started[name],
            )
            for name, (of, pods) in self.running.items()
        )
        given = view(
            self.live,
            self.waiting.values(),
            dict(self.queues),
            self.held,
            groups if "preempt" in self.policy.actions else (),
        )
        return replace(given, neighbours=self._neighbours())

    def cycle(self) -> None:
        """One plan, which happens, or is dropped in part."""
        given = self.given()
        found = plan(given, self.policy, self.now, self.memory)
        # Those with too few members have turns, and nobody starts without one.
        with (
            patch.object(told_again, "_short", lambda gang: ()),
            patch.object(StartingRuns, "of", lambda cycle, lines: None),
        ):
            assert found.to_bytes() == plan(given, self.policy, self.now).to_bytes()
        self.again = found.again
        self._rests_until_then(given, found)
        if self.rng.random() < 0.1:
            return
        started: dict[str, list[tuple[str, str]]] = {}
        for one in found.assignments:
            started.setdefault(one.gang, []).append((one.pod, one.node))
        for uid, places in started.items():
            wanted = self.waiting.pop(uid)
            shape = wanted.waiting[0].pod_class
            used = dict(self.queues[wanted.queue].used)
            for _, where in places:
                self.live.charge(self.live.row(where), shape)
                for resource, units in shape.requests:
                    used[resource] = used.get(resource, 0) + units
            self.queues[wanted.queue] = replace(self.queues[wanted.queue], used=used)
            self.started[uid] = self.now
            self.running[uid] = wanted.queue, [(pod, where, shape) for pod, where in places]
            self.held = [one for one in self.held if one.owner != uid]
        for uid in sorted({one.gang for one in found.evictions} & self.running.keys()):
            self._end(uid)

    def _rests_until_then(self, given: View, found: Plan) -> None:
        """Nothing would be decided otherwise before the moment that the plan names, or ever if it names none; but for
        start windows, which are known without a plan.
        """
        assert found.again is None or found.again > self.now
        windows = [one for queue in self.queues.values() for one in queue.spec.start_windows]
        moments = [100 * self.now, found.again, next_change(windows, self.now) if windows else None]
        before = min(at for at in moments if at is not None) - 1
        later = plan(given, self.policy, before)
        assert (later.assignments, later.waiting, later.evictions) == (
            found.assignments,
            found.waiting,
            found.evictions,
        )


class Turning(History):
    """Of many nodes that are alike always some take no work, now these and then those."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        if rng.random() < 0.8:
            self.policy = Policy(actions=("allocate",))
        self.names = [f"m{at}" for at in range(rng.randint(6, 12))]
        self.most = rng.choice([1, 2, 4])
        self.worn = rng.choice([*self.names, *("" for _ in self.names)])
        self.live = table(self._node(name) for name in self.names)
        if rng.random() < 0.2:
            self.queues["q"] = queue(quota={CARDS: 3 * CARD})
        self.classes = [
            pod_class(
                cpu=f"{rng.choice([500, 1000, 1500, 2000, 3000])}m",
                memory=f"{rng.choice([1, 2, 3])}Gi",
                gpu=rng.choice([0, 0, 1, 2, 3]),
                selector=rng.choice([{}, {}, {}, {"pool": "a"}]),
                affinity=rng.choice([None] * 6 + [self._names(rng.sample(self.names, 4))]),
                tolerations=rng.choice([(), (), (Toleration(MINE.key, "Exists"),)]),
            )
            for _ in range(8)
        ]
        self.labels = {one: (("app", rng.choice("xy")),) for one in self.classes}

    @staticmethod
    def _names(names: list[str]) -> NodeSelector:
        return NodeSelector((NodeSelectorTerm(fields=(Requirement("metadata.name", "In", tuple(names)),)),))

    def _node(self, name: str) -> NodeFacts:
        rng = self.rng
        labels, cards = rng.choice([{}, {"pool": "a"}]), rng.choice([0, 4, 4])
        made = node(name, cpu=8, memory="8Gi", gpu=cards, labels=labels)
        if cards and name == self.worn:
            made = node(name, cpu=8, memory="8Gi", gpu=cards, labels=labels, unusable={GPU: 1})
            made = replace(made, why_cordoned={0: "worn"})
        elif cards and rng.random() < 0.2:
            made = replace(made, unready=Unready("", "its driver is replaced", "wait"))
        return made

    def step(self) -> None:
        drawn = self.rng.random()
        if drawn < 0.5:
            all_facts = [self.live.facts(name) for name in self.names]
            away = [one for one in all_facts if one.taints or one.unschedulable or not one.ready]
            if len(away) >= self.most:
                self.live.upsert(replace(away[0], ready=True, unschedulable=False, taints=()))
            else:
                self._turn(self.rng.choice(all_facts))
        elif drawn < 0.6:
            self._come()
        else:
            super().step()


class Collecting(History):
    """Most gangs have waited for long, so that they collect room that comes free, or find it kept for others."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        actions = self.policy.actions if rng.random() < 0.3 else ("allocate",)
        starvation = Starvation(after_seconds=600, most_held_percent=rng.choice([20, 60, 100]))
        self.policy = replace(self.policy, actions=actions, starvation=starvation)
        for name, state in self.queues.items():
            quota = state.spec.quota if rng.random() < 0.4 else {}
            self.queues[name] = replace(state, spec=replace(state.spec, ordering="Backfill", quota=quota))
        self.classes[1:] = [
            pod_class(
                cpu=f"{rng.choice([500, 1000, 2000, 3000])}m",
                memory=f"{rng.choice([1, 2, 3])}Gi",
                gpu=rng.choice([0, 0, 1, 2]),
            )
            for _ in self.classes[1:]
        ]
        self.labels = {one: (("app", rng.choice("xy")),) for one in self.classes}

    def step(self) -> None:
        if self.rng.random() < 0.3:
            self.now += self.rng.choice([HOUR // 8, HOUR // 4])
        else:
            super().step()


class Ordered(History):
    """Queues keep their order, most of them."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        orderings: list[Ordering] = ["Strict", "Strict", "Backfill"]
        for name, state in self.queues.items():
            self.queues[name] = replace(state, spec=replace(state.spec, ordering=rng.choice(orderings)))

    def step(self) -> None:
        name, chance = self.rng.choice("qrs"), self.rng.random()
        if chance < 0.05:
            spec = self.queues[name].spec
            self.queues[name] = replace(self.queues[name], spec=replace(spec, closed=not spec.closed))
        if chance > 0.8:
            self._turn(self.live.facts(self.rng.choice(self.names)))
        else:
            super().step()


class Mixed(Ordered):
    """A unit of cards is a whole card on some nodes, a slice or a share of one on others; pods take one kind or more,
    in queues that select nodes, or not.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        for name in self.names:
            mode = rng.choice(["", "", "MIGSingle", "TimeSliced"])
            labels = {"nvidia.com/gpu.replicas": "4"} if mode == "TimeSliced" else {}
            self.live.upsert(node(name, cpu=8, memory="8Gi", gpu=rng.choice([2, 4]), labels=labels))
            self.live.upsert(replace(self.live.facts(name), mode=mode))
        modes = ["", "", "whole", "slice", "shared", "any"]
        self.classes = [
            replace(
                pod_class(
                    cpu=f"{rng.choice([500, 1000, 2000, 3000])}m",
                    memory=f"{rng.choice([1, 2, 3])}Gi",
                    gpu=rng.choice([0, 1, 1, 2]),
                    selector={"nvidia.com/gpu.replicas": "4"} if rng.random() < 0.2 else {},
                ),
                choice=CardChoice(mode=mode) if (mode := rng.choice(modes)) else None,
            )
            for _ in range(8)
        ]
        self.labels = {one: (("app", rng.choice("xy")),) for one in self.classes}
        if rng.random() < 0.3:
            shared = LabelSelector((Requirement("nvidia.com/gpu.replicas", "In", ("4",)),))
            self.queues["q"] = replace(self.queues["q"], spec=replace(self.queues["q"].spec, node_selector=shared))


class Reserving(History):
    """Administrators reserve nodes, or cards of each, for some and from others; most gangs say how long they last."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.largest = rng.choice([1, 1, 2, 5])
        self.classes = self.classes[: rng.choice([1, 1, 2, 4])]
        self.rooms: list[ReservedRoom] = []

    def step(self) -> None:
        rng = self.rng
        if rng.random() < 0.25:
            self.rooms = [room for room in self.rooms if rng.random() < 0.7]
            if len(self.rooms) < 3:
                self.rooms.append(self._reserved(f"r{self.came}-{len(self.rooms)}"))
        if rng.random() < 0.3:
            self.now += rng.choice([0, HOUR // 4, HOUR // 2])
        else:
            super().step()
        self.lasts()

    def lasts(self) -> None:
        """Those that came lately get a limit and a user, or not."""
        rng = self.rng
        for uid, one in self.waiting.items():
            if not (one.lasts or one.user):
                lasts = rng.choice([0, HOUR // 2, HOUR, 3 * HOUR])
                asks = rng.choice([room.name for room in self.rooms]) if self.rooms and rng.random() < 0.05 else ""
                self.waiting[uid] = structs.replace(one, lasts=lasts, user=rng.choice(["ann", "bob"]), reservation=asks)

    def _reserved(self, name: str) -> ReservedRoom:
        rng = self.rng
        begin = self.now + rng.choice([-1, 1, 2]) * HOUR // 2
        return ReservedRoom(
            name,
            begin,
            begin + rng.choice([1, 2, 4]) * HOUR,
            begin - rng.choice([0, HOUR]),
            tuple(rng.sample(self.names, rng.choice([1, len(self.names)]))),
            cards=rng.choice([None, None, (GPU, 1), (GPU, 2)]),
            queues=rng.choice([(), (), ("q",)]),
            users=rng.choice([(), (), ("ann",)]),
        )

    def given(self) -> View:
        inside = [
            (name, where, shape, 1)
            for name, (of, pods) in self.running.items()
            for _, where, shape in pods
            if of == "q"
        ]
        rooms = [
            structs.replace(room, inside=tuple(inside) if room.cards else ())
            for room in self.rooms
            if room.end > self.now
        ]
        return replace(super().given(), reserved=tuple(rooms))

    def _rests_until_then(self, given: View, found: Plan) -> None:
        """Time alone changes what is reserved from a gang; the plan need not say when."""


def replace_topology(one: Gang, topology: str) -> Gang:
    """The gang, which must, or would like to, be on one node if it says so."""
    levels = ("kubernetes.io/hostname",) if topology != "None" else one.levels
    return structs.replace(one, topology=topology, levels=levels)
