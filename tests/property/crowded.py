"""Clusters that are about full, with gangs of higher queues that wait for others to go."""

from collections import Counter
from dataclasses import replace

from msgspec import structs

from t9ksched.engine.planner import Plan
from t9ksched.engine.policy import Preemption
from t9ksched.engine.view import QueueState, View
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.gang import Gang, Member, Neighbours, Running, RunningPod
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.builders import GPU, gang, pod_class, running
from tests.property.scenes import APPS, HOST, NOW, RACK, Scene, facts, rules
from tests.property.world import InParts

RULES = (
    Preemption(),
    Preemption(),
    Preemption(inside_queue=True),
    Preemption(minimum_run_seconds=50, most_evictions_a_day=2),
    Preemption(surplus_yields=False, most_evictions_a_day=1),
)
QUEUES = ("low", "low2", "low3", "mid", "safe", "nobody's", "high")


class Crowded(Scene):
    """A cluster that is about full, with gangs of higher queues that wait."""

    def __init__(self, seed: object, *, large: bool = False, ruled: bool = False) -> None:
        self.groups: dict[str, tuple[Running, list[tuple[str, PodClass, dict[str, int] | None]]]] = {}
        self._running = InParts()
        self.large, self.rules = large, ruled
        super().__init__(f"crowded {large}{ruled} {seed}")
        rng = self.rng
        for at in range(rng.choice([3, 4, 5]) if large else 0):
            self.names.append(f"z{at}")
            self.table.upsert(facts(rng, self.names[-1], True))
        for where, _, of, cards, _ in self.standing:
            self.table.discharge(self.table.row(where), of, cards)
        self.standing = []
        self.policy = replace(self.policy, actions=("allocate", "preempt"), preemption=rng.choice(RULES))
        self.shapes = [one for one in self.shapes if not one[1].unrecorded] or [("job", pod_class(gpu=1))]
        if rng.random() < 0.7:  # what fits mostly, when others go
            small = pod_class(cpu=rng.choice([0, 1, 2]), memory=0, gpu=rng.choice([0, 1, 1, 2]))
            other = pod_class(cpu=rng.choice([1, 2, 3]), memory=0, gpu=rng.choice([0, 0, 1]))
            self.shapes = [("job", small), *rng.choice([[("job", other)], self.shapes[:1], []])]
        self._specs()
        for at in range(rng.choice([20, 30, 40] if large else [2, 4, 6, 9])):
            self._start(at)
        self.gangs = [self._asking(at) for at in range(rng.choice([1, 2, 3, 4]))]

    def _asking(self, at: int) -> Gang:
        rng = self.rng
        queue = rng.choice(["high", "high", "mid", "low"])
        kinds = rng.choice([self.shapes[:1], self.shapes[:1], self.shapes[:2]])
        size = rng.choice([2, 4, 6, 13] if self.large else [1, 1, 2, 3])
        members = [Member(f"w{at}-{nth}", f"test/w{at}-{nth}", "", kinds[nth % len(kinds)][1]) for nth in range(size)]
        if self.rules:
            app, of = rng.choice(APPS), kinds[0][1]
            of = replace(of, rules=rules(rng, app)) if rng.random() < 0.8 else of
            members = [structs.replace(one, pod_class=of, labels=(("app", app),)) for one in members]
        found = gang(f"w{at}", queue, members=members, priority=rng.randrange(3), created=rng.randrange(3))
        topology = rng.choice(["None"] * 4 + ["Required", "Required", "Preferred"])
        homes = (rng.choice(self.names),) if rng.random() < 0.15 else ()
        if homes:
            found = structs.replace(found, placed=(("", 1),), min_member=size + 1, total=size + 1, refilling=True)
        return structs.replace(
            found,
            topology=topology,
            levels=rng.choice([(RACK,), (RACK, "zone"), (HOST, RACK)]),
            nodes=homes,
            evicts_from=rng.choice([0, 0, 0, 0, NOW, NOW + 1]),
        )

    def _specs(self) -> None:
        rng = self.rng
        ranks = {"low": 0, "low2": 0, "low3": rng.choice([0, 1]), "mid": rng.choice([1, 0]), "safe": 0, "high": 5}
        if rng.random() < 0.4:  # no two of one priority
            ranks |= {"low2": 1, "low3": 2, "mid": 3}
        self.specs = {name: QueueSpec(priority=rank, preemptible=name != "safe") for name, rank in ranks.items()}
        used = self.used()
        for name in ranks:
            if rng.random() < 0.2:
                self.specs[name] = replace(self.specs[name], ordering="Strict")
            if rng.random() < (0.15 if name == "high" else 0.4):
                quota = {GPU: used[name][GPU] + rng.choice([0, 1, 4]), "cpu": used[name]["cpu"] + rng.choice([0, 3000])}
                kept = {key: units for key, units in quota.items() if rng.random() < 0.7}
                self.specs[name] = replace(self.specs[name], quota=kept)

    def used(self) -> dict[str, Counter[str]]:
        """What the queues use."""
        found: dict[str, Counter[str]] = {name: Counter() for name in QUEUES}
        for group, charged in self.groups.values():
            for _, of, cards in charged:
                found[group.queue].update(dict(of.requests) if cards is not None else {})
        return found

    def _start(self, at: int) -> None:
        """A gang runs where there is room, on named cards."""
        rng = self.rng
        _, of = rng.choice([*self.shapes, ("job", pod_class(gpu=1)), ("job", pod_class(cpu=2))])
        of = replace(of, host_ports=())
        pods: list[RunningPod] = []
        charged = []
        for nth in range(rng.choice([1, 1, 2, 3, 4])):
            roomy = [name for name in self.names if self._has_room(name, of)]
            if not roomy:
                break
            name = rng.choice(roomy)
            idle = {
                card: [i for i in range(n) if not self.table.cards_used(name).has(card, i)]
                for card, n in self.table.facts(name).cards.counts.items()
            }
            cards = CardGrant.of(
                {card: rng.sample(idle[card], count) for card, count in of.card_counts.items() if card in idle}
            )
            self.table.charge(self.table.row(name), of, cards)
            charged.append((name, of, cards))
            leaving = rng.random() < 0.08
            role = rng.choice(["", "", "worker"])
            known = cards if rng.random() < 0.9 else NO_CARDS
            pods.append(RunningPod(f"r{at}-{nth}", f"test/r{at}-{nth}", role, of, name, known, leaving))
        if not pods:
            return
        one = structs.replace(
            running(f"r{at}", rng.choice(["low", "low", "low2", "low2", *QUEUES]), of=of),
            pods=tuple(pods),
            min_member=rng.choice([len(pods), len(pods), 1, 2]),
            roles=rng.choice([(), (), (("worker", 1),)]),
            succeeded=rng.choice([(), (), (("worker", 1),)]),
            priority=rng.choice([0, 0, 1, 2]),
            created=rng.randrange(4),
            grace=rng.choice([0, 30, 900]) * 10**9,
            started=NOW - rng.choice([10, 50, 90]) * 10**9,
            evictions=rng.randrange(4),
            guarded=rng.random() < 0.15,
        )
        self.groups[one.uid] = one, charged

    def _has_room(self, name: str, of: PodClass) -> bool:
        room = self.table.freeze()
        free = room.free()[:, room.row(name)]
        left = dict(zip(room.static.resources, free.tolist(), strict=True))
        cards = self.table.cards_used(name)
        idle = {card: n - cards.count(card) for card, n in self.table.facts(name).cards.counts.items()}
        return all(
            left.get(resource, 0) >= units and idle.get(resource, units) >= units for resource, units in of.requests
        )

    def view(self) -> View:
        running = self._running.told(group for group, _ in self.groups.values())
        used = self.used()
        known = {name: QueueState(spec, dict(used[name])) for name, spec in self.specs.items()}
        return replace(super().view(), queues=known, running=running, neighbours=self._beside())

    def carry_out(self, plan: Plan) -> None:
        """The plan is done: who got places runs, who has to go leaves, and room is held."""
        rng = self.rng
        names = self.table.names
        for uid in dict.fromkeys(one.gang for one in plan.assignments):
            lines = [one for one in plan.assignments if one.gang == uid]
            waited = next(one for one in self.gangs if one.uid == uid)
            classes = {one.uid: one.pod_class for one in waited.waiting}
            self.gangs = [one for one in self.gangs if one.uid != uid]
            self.holds = [one for one in self.holds if one.owner != uid]
            charged = [(one.node, classes[one.pod], one.grant) for one in lines]
            for name, of, cards in charged:
                self.table.charge(self.table.row(name), of, cards)
            pods = tuple(RunningPod(f"{one.pod}!", one.pod, "", classes[one.pod], one.node, one.grant) for one in lines)
            if uid in self.groups:
                group, before = self.groups[uid]
                real = [nth for nth, one in enumerate(before) if one[2] is not None]
                pods = (*(group.pods[nth] for nth in real), *pods)
                self.groups[uid] = structs.replace(group, pods=pods), [*(before[nth] for nth in real), *charged]
                continue
            self.groups[f"{uid}!"] = (
                structs.replace(running(f"{uid}!", waited.queue), pods=pods, priority=waited.priority, started=NOW),
                charged,
            )
        going = {one.pod for one in plan.evictions}
        for uid, (group, charged) in self.groups.items():
            if going.intersection(pod.uid for pod in group.pods):
                asked = rng.random() < 0.7
                pods = tuple(
                    structs.replace(pod, leaving=True, asked=asked) if pod.uid in going else pod for pod in group.pods
                )
                self.groups[uid] = structs.replace(group, pods=pods), charged
        owners = {hold.owner for hold in plan.reservations}
        self.holds = [one for one in self.holds if one.owner not in owners and one.node in names] + list(
            plan.reservations
        )

    def _gone(self) -> None:
        """Some of those who leave have gone."""
        for uid, (group, charged) in list(self.groups.items()):
            stays = [not pod.leaving or self.rng.random() < 0.3 for pod in group.pods]
            for (name, of, cards), stay in zip(charged, stays, strict=True):
                if not stay and cards is not None:
                    self.table.discharge(self.table.row(name), of, cards)
            left = [one for one, stay in zip(charged, stays, strict=True) if stay]
            pods = tuple(pod for pod, stay in zip(group.pods, stays, strict=True) if stay)
            self.groups[uid] = structs.replace(group, pods=pods), left
            if not pods:
                del self.groups[uid]
                self.holds = [one for one in self.holds if one.owner != uid]
                self.gangs = [one for one in self.gangs if one.uid != uid]

    def _loses(self) -> None:
        """A gang loses a member: its place is kept, and goes with the gang if that has to go."""
        rng = self.rng
        uid = rng.choice(list(self.groups))
        group, charged = self.groups[uid]
        if group.queue not in self.specs or any(one.uid == uid for one in self.gangs) or len(group.pods) < 2:
            return
        at = rng.randrange(len(group.pods))
        lost, (node, of, cards) = group.pods[at], charged[at]
        if lost.leaving:
            return
        self.table.discharge(self.table.row(node), of, cards)
        where = node if rng.random() < 0.7 else ""
        avoid = (node,) if not where and rng.random() < 0.5 else ()
        self.holds.append(
            Reservation(
                uid,
                where,
                of,
                ReservationKind.REFILL,
                lost.cards if where else NO_CARDS,
                since=NOW - 1,
                until=NOW + 1,
                queue=group.queue,
                avoid=avoid,
            )
        )
        stays = [pod for pod in group.pods if pod is not lost]
        kept = [structs.replace(lost, cards=NO_CARDS, kept=True)] if where else []
        left = [one for nth, one in enumerate(charged) if nth != at]
        self.groups[uid] = structs.replace(group, pods=(*kept, *stays)), [(node, of, None)] * len(kept) + left
        name = f"{lost.uid}-back"
        back = [Member(name, f"test/{name}", lost.role, of)] if rng.random() < 0.7 else []
        roles = Counter(pod.role for pod in stays if not pod.leaving)
        total = len(stays) + len(back)
        self.gangs.append(
            gang(
                uid,
                group.queue,
                members=back,
                min_member=max(group.min_member, roles.total() + 1),
                placed=roles,
                total=total,
                priority=group.priority,
                created=group.created,
                refilling=True,
                ran=True,
            )
        )

    def _beside(self) -> tuple[Neighbours, ...]:
        """Those who run, as rules about pods see them."""
        if not self.rules:
            return ()
        return tuple(
            Neighbours("test", (("app", APPS[len(uid) % 2 + (uid[-1] == "1")]),), ((name, 1),), (), (), pod.leaving)
            for uid, (group, charged) in self.groups.items()
            for pod, (name, _, cards) in zip(group.pods, charged, strict=True)
            if cards is not None
        )

    def step(self) -> None:
        rng = self.rng
        if self.rules:
            self.holds = []
        match rng.choice(
            [
                "ends",
                "starts",
                "specs",
                "alike",
                "shuffled",
                "leaves",
                "policy",
                "node",
                *["gone"] * 4,
                *["loses"] * 3,
                "",
            ]
        ):
            case "loses" if self.groups:
                self._loses()
            case "gone":
                self._gone()
            case "ends" if self.groups:
                uid = rng.choice(list(self.groups))
                for name, of, cards in self.groups.pop(uid)[1]:
                    if cards is not None:
                        self.table.discharge(self.table.row(name), of, cards)
                self.holds = [one for one in self.holds if one.owner != uid]
                self.gangs = [one for one in self.gangs if one.uid != uid]
            case "starts":
                self._start(10 + len(self.groups) + rng.randrange(80))
            case "specs":
                self._specs()
            case "alike":
                self.gangs.append(self._asking(10 + rng.randrange(80)))
            case "shuffled":
                rng.shuffle(self.gangs)
            case "leaves" if self.groups:
                uid = rng.choice(list(self.groups))
                group, charged = self.groups[uid]
                pods = tuple(structs.replace(pod, leaving=pod.leaving or rng.random() < 0.6) for pod in group.pods)
                self.groups[uid] = structs.replace(group, pods=pods), charged
            case "policy":
                self.policy = replace(self.policy, preemption=rng.choice(RULES))
            case "node":
                now = self.table.facts(name := rng.choice(self.names))
                counted = CardTable(
                    {card: count for card, count in now.cards.counts.items() if card != GPU}, now.cards.withdrawn
                )
                now = rng.choice([replace(now, ready=not now.ready), replace(now, cards=counted)])
                broken = replace(now, cards=CardTable(now.cards.counts, CardGrant.of({GPU: [0]})))
                self.table.upsert(rng.choice([now, broken]) if GPU in now.cards else now)
