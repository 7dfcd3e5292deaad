"""Every plan that a history makes is held against what must be true of it, on the view it was made from.

`PlanAuditor` stands where the loop finds its planner. It sums up anew what a plan takes: no node and no card beyond
what it has (with the room held for others), no queue above its quota, no minimum in part, no gang passed where the
queue is strict, every victim allowed, and each preemptor fits once its victims are gone. Some plans are made again from
a copy of their view, and must come out equal to the byte. What was decided is what may be bound.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import structs

from t9ksched.engine.planner import Plan, Planner, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View, dump, load
from t9ksched.model.gang import Gang, Running
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Code
from tests.chaos.ahead import PlansKept
from tests.chaos.process_faults import CURRENT_PROCESS
from tests.chaos.victims import VictimOrder

SHARE_AGAIN = 0.1
"""Of plans that are made again; those with evictions are all."""
_NO_TURN = {Code.GANG_INCOMPLETE, Code.QUEUE_CLOSED, Code.VOLUME_NOT_BOUND, Code.SCHEDULING_GATED}
"""Reasons of gangs that wait for nothing that others could take."""


class PlanAuditor:
    """The plans of one history. `decided` and `victims` have what was decided, by the pods' UIDs."""

    def __init__(self, say: Callable[[str], None], seed: int) -> None:
        self.say = say
        self.plans = 0
        self.evictions = 0
        self.decided: dict[str, str] = {}
        self.victims: dict[str, str] = {}
        self.looked: Callable[[View], None] = lambda view: None
        """Told of each view on which a cycle begins."""
        self.untrue: Callable[[View], list[str]] = lambda view: []
        """What is not true of a view that a plan was made from."""
        self.order = VictimOrder()
        self.ahead = PlansKept(say)
        self._dice = Random(seed)

    def planner(self, view: View, policy: Policy, now: int, *more: Any, **named: Any) -> Planner:
        """In place of `Planner`."""
        return _Audited(self, view, policy, now, *more, **named)

    def check(self, view: View, policy: Policy, now: int, made: Plan) -> None:
        """Hold one plan against its view."""
        self.plans += 1
        self.evictions += len(made.evictions)
        self.decided |= {one.pod: one.node for one in made.assignments}
        self.victims |= {one.pod: one.by for one in made.evictions}
        for fault in self.untrue(view):
            self.say(f"plan {self.plans}: {fault}")
        if made.assignments or made.evictions:
            look = _Look(view, now, made)
            for fault in (*look.rooms(), *look.quotas(), *look.minima(), *look.passed(), *look.victims(policy)):
                self.say(f"plan {self.plans}: {fault}")
            # With planned starts other victims may be cheapest: those whose ends no plan relies on.
            for fault in self.order.faults(view, policy, now, made) if policy.planning is None else ():
                self.say(f"plan {self.plans}: {fault}")
        self.ahead.check(CURRENT_PROCESS.get(), view, policy, now, made)
        if made.evictions or self._dice.random() < SHARE_AGAIN:
            again = plan(load(dump(view)), policy, now)
            if policy.planning is not None:  # how often a start was planned depends on what is remembered
                again = structs.replace(again, stats=made.stats)
            if again.to_bytes() != made.to_bytes():
                self.say(f"plan {self.plans} comes out otherwise from a copy of its view")


class _Audited(Planner):
    def __init__(self, auditor: PlanAuditor, view: View, policy: Policy, now: int, *more: Any, **named: Any) -> None:
        super().__init__(view, policy, now, *more, **named)
        auditor.looked(view)
        self._told = auditor, view, policy, now

    def result(self) -> Plan:
        made = super().result()
        auditor, view, policy, now = self._told
        auditor.check(view, policy, now, made)
        return made


class _Look:
    """One plan and what it takes."""

    def __init__(self, view: View, now: int, made: Plan) -> None:
        self.view, self.now, self.made = view, now, made
        self.gangs = {gang.uid: gang for gang in view.gangs}
        self.members = {member.uid: member for gang in view.gangs for member in gang.waiting}
        self.got: defaultdict[str, list[str]] = defaultdict(list)
        for one in made.assignments:
            self.got[one.gang].append(one.pod)
        self.taken: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for one in made.assignments:
            _add(self.taken[one.node], self.members[one.pod].pod_class)
        renewed = {hold.owner for hold in made.reservations}
        self.held = [
            hold
            for hold in view.reservations
            if not hold.kind.planned
            and hold.since <= now
            and (not hold.until or now < hold.until)
            and hold.owner not in self.got
            and hold.owner not in renewed
        ]

    def used(self, node: str) -> dict[str, int]:
        static, row = self.view.nodes.static, self.view.nodes.row(node)
        return {name: int(self.view.nodes.used[at, row]) for at, name in enumerate(static.resources)}

    def has(self, node: str) -> dict[str, int]:
        static, row = self.view.nodes.static, self.view.nodes.row(node)
        return {name: int(static.allocatable[at, row]) for at, name in enumerate(static.resources)}

    def kept_from(self, node: str) -> dict[str, int]:
        """Room on a node that is held for others. A gang with a promise there may take what came free first:
        those who still leave make room for the others. Where another scheduler was faster, so that not all that was
        promised is there, one of them goes without.
        """
        held: dict[str, int] = {}
        for hold in self.held:
            if hold.node == node:
                _add(held, hold.pod_class)
        if any(hold.node == node and hold.owner in self.got for hold in self.view.reservations):
            going = {one.pod for one in self.made.evictions}
            leaves: dict[str, int] = {}
            for pod in (pod for group in self.view.running for pod in group.pods if pod.node == node):
                if pod.leaving or pod.uid in going:
                    _add(leaves, pod.pod_class)
            promised: dict[str, int] = {}
            for hold in self.view.reservations:
                if hold.node == node and hold.since <= self.now and (not hold.until or self.now < hold.until):
                    _add(promised, hold.pod_class)
            has, used = self.has(node), self.used(node)
            for name, amount in held.items():
                comes = has.get(name, 0) - used.get(name, 0) + leaves.get(name, 0)
                lacks = max(0, promised.get(name, 0) - comes)
                held[name] = max(0, amount - leaves.get(name, 0) - lacks)
        return held

    def rooms(self) -> list[str]:
        """Nodes and cards beyond what they have."""
        found = []
        for node, amounts in self.taken.items():
            has, total = self.has(node), self.used(node)
            for resource, amount in self.kept_from(node).items():
                total[resource] = total.get(resource, 0) + amount
            for resource, amount in amounts.items():
                if amount and total.get(resource, 0) + amount > has.get(resource, 0):
                    found.append(
                        f"{node}: {amount} more of {resource} on {total.get(resource, 0)} used and held of"
                        f" {has.get(resource, 0)}"
                    )
        static, nodes = self.view.nodes.static, self.view.nodes
        masks = {
            (resource, name): int(nodes.cards_used[at, row])
            for at, resource in enumerate(static.cards.names)
            for row, name in enumerate(static.names)
        }
        for one in self.made.assignments:
            asked = self.members[one.pod].pod_class.card_counts
            for resource, mask in one.grant.masks:
                if masks[resource, one.node] & mask:
                    found.append(f"{one.node}: a card of {resource} is given twice")
                if mask.bit_count() != asked.get(resource, 0):
                    found.append(f"{one.node}: {mask.bit_count()} cards given, {asked.get(resource, 0)} asked for")
                masks[resource, one.node] |= mask
        return found

    def quotas(self) -> list[str]:
        """Queues above their quota by what is decided."""
        more: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for uid, pods in self.got.items():
            for pod in pods:
                _add(more[self.gangs[uid].queue], self.members[pod].pod_class)
        found = []
        for queue, amounts in more.items():
            state = self.view.queues[queue]
            for resource, nominal in state.spec.quota.items():
                total = state.used.get(resource, 0) + amounts.get(resource, 0)
                if amounts.get(resource, 0) and total > nominal:
                    found.append(f"queue {queue} is raised to {total} of {resource}, its quota is {nominal}")
        return found

    def missing(self, gang: Gang) -> int:
        """Members that its minimum lacks before this plan."""
        return max(0, gang.min_member - sum(count for _, count in gang.placed))

    def minima(self) -> list[str]:
        """Gangs that are placed in part."""
        return [
            f"{self.gangs[uid].name} gets {len(pods)} places, its minimum lacks {self.missing(self.gangs[uid])}"
            for uid, pods in self.got.items()
            if len(pods) < self.missing(self.gangs[uid])
        ]

    def passed(self) -> list[str]:
        """Gangs of a strict queue that were passed by one behind them that takes what they wait for."""
        found = []
        refused = {waiting.gang: waiting.reasons for waiting in self.made.waiting}
        for name, queue in self.view.queues.items():
            if queue.spec.ordering != "Strict":
                continue
            head: Gang | None = None
            line = [gang for gang in self.view.gangs if gang.queue == name]
            for gang in sorted(line, key=lambda g: (not g.refilling, -g.priority, g.created, g.name)):
                takes = gang.uid in self.got and self.missing(gang) and not self._in_own_room(gang)
                if head is not None and takes and self._competes(gang, head):
                    found.append(f"{gang.name} passes {head.name} in the strict queue {name}")
                codes = {reason.code for reason in refused.get(gang.uid, ())}
                if head is None and codes and not codes & _NO_TURN and self._anywhere(gang):
                    head = gang
        return found

    def _competes(self, gang: Gang, head: Gang) -> bool:
        ours = {name for member in gang.waiting for name, _ in member.pod_class.requests if "/" in name}
        theirs = {name for member in head.waiting for name, _ in member.pod_class.requests if "/" in name}
        return bool(ours & theirs) and self._anywhere(gang)

    def _in_own_room(self, gang: Gang) -> bool:
        """Whether it goes where room was held for it, which no gang ahead of it could have had."""
        held = Counter(hold.node for hold in self.view.reservations if hold.owner == gang.uid)
        return Counter(one.node for one in self.made.assignments if one.gang == gang.uid) <= held

    @staticmethod
    def _anywhere(gang: Gang) -> bool:
        """Whether its members may go to every node of the queue."""
        return not any(member.pod_class.node_affinity or member.pod_class.volume_affinity for member in gang.waiting)

    def victims(self, policy: Policy) -> list[str]:
        """Evictions that the policy does not allow, or that do not make room."""
        found = []
        if self.made.evictions and "preempt" not in policy.actions:
            found.append("a victim is evicted, and preemption is off")
        groups = {group.uid: group for group in self.view.running}
        gone: defaultdict[str, list[str]] = defaultdict(list)
        for one in self.made.evictions:
            gone[one.gang].append(one.pod)
        for one in self.made.evictions:
            victim, by = groups[one.gang], self.gangs[one.by]
            theirs, ours = self.view.queues[victim.queue].spec, self.view.queues[by.queue].spec
            surplus = victim.queue == by.queue and _whole_without(victim, gone[one.gang])
            if not theirs.preemptible or not (theirs.priority < ours.priority or surplus):
                found.append(f"{victim.name} of queue {victim.queue} is evicted for {by.name} of {by.queue}")
            if not _whole_without(victim, gone[one.gang]) and len(gone[one.gang]) < _staying(victim):
                found.append(f"{victim.name} is left with less than its minimum")
        return [*found, *self._make_room(groups)]

    def _make_room(self, groups: dict[str, Running]) -> list[str]:
        """Once everybody who goes has gone, the room must be there, for all that it was promised to."""
        going = {one.pod for one in self.made.evictions}
        leaves: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for group in groups.values():
            for pod in group.pods:
                if pod.uid in going or pod.leaving:
                    _add(leaves[pod.node], pod.pod_class)
        needs: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        promised: defaultdict[str, int] = defaultdict(int)
        for hold in self.made.reservations:
            _add(needs[hold.node], hold.pod_class)
            promised[hold.owner] += 1
        found = [
            f"{self.gangs[owner].name} is promised {count} places and lacks {self.missing(self.gangs[owner])}"
            for owner, count in promised.items()
            if count < self.missing(self.gangs[owner])
        ]
        for node, amounts in needs.items():
            has, total = self.has(node), self.used(node)
            for hold in self.held:
                if hold.node == node:
                    _add(total, hold.pod_class)
            for resource, amount in amounts.items():
                free = has.get(resource, 0) - total.get(resource, 0) - self.taken[node][resource]
                if amount > free + leaves[node][resource]:
                    found.append(f"{node}: {amount} of {resource} are promised, {free + leaves[node][resource]} come")
        return found


def _add(amounts: dict[str, int], pod_class: PodClass) -> None:
    for resource, amount in pod_class.requests:
        amounts[resource] = amounts.get(resource, 0) + amount


def _staying(group: Running) -> int:
    return sum(not pod.leaving for pod in group.pods)


def _whole_without(group: Running, gone: list[str]) -> bool:
    left = sum(not pod.leaving and pod.uid not in gone for pod in group.pods)
    return left + sum(count for _, count in group.succeeded) >= group.min_member
