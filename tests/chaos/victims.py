"""Whether the victims of a plan are the ones that the policy's order names, against every set that there is.

Judged are the plans that are small and quiet enough for counting to be exact, on the view that they were made from: one
gang of alike pods evicts, nothing else is decided, no other pod leaves, no room is held, and at most `MOST` units could
go, all of queues with a smaller priority. Then no other set of victims that makes room may be better by queue priority,
share (equal within five points), PodGroup priority, number of pods and age. What goes together is read from the view
here anew, and so is what is free.
"""

from collections import Counter

from t9ksched.engine.planner import Plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang, Running
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from tests.chaos.invariant_checker import CORDONED
from tests.property.cheapest import Asked, QueueUse, Unit, better, sets, walk

MOST = 8
"""Units; of so many every set is looked at."""


class VictimOrder:
    """The evictions of one history; `judged` counts the plans that were small and quiet enough."""

    def __init__(self) -> None:
        self.judged = 0

    def faults(self, view: View, policy: Policy, now: int, made: Plan) -> list[str]:
        """What must not be of a plan's victims."""
        case = _case(view, policy, made) if made.evictions else None
        if case is None:
            return []
        asked, units, queue_uses = case
        self.judged += 1
        mine = walk(_going(made, units), units, queue_uses)
        for found in sets(asked, units):
            other = walk(found, units, queue_uses)
            if better(other, mine):
                return [f"{_said(mine)} go, and better would go {_said(other)}"]
        return []


def _case(view: View, policy: Policy, made: Plan) -> tuple[Asked, list[Unit], dict[str, QueueUse]] | None:
    """What was asked for, who could go and what queues use, where that can be told exactly."""
    by = {one.by for one in made.evictions}
    leaving = any(pod.leaving for group in view.running for pod in group.pods)
    if (
        len(by) > 1
        or made.assignments
        or view.reservations
        or made.kept
        or leaving
        or policy.preemption.minimum_run_seconds
    ):
        return None
    gang = next(gang for gang in view.gangs if gang.uid in by)
    shapes = {member.pod_class for member in gang.waiting}
    shape = next(iter(shapes))
    special = shape.node_affinity or shape.volume_affinity or shape.host_ports or shape.rules or shape.unrecorded
    if len(shapes) > 1 or special or gang.topology != "None" or gang.roles:
        return None
    priority = view.queues[gang.queue].spec.priority
    if any(group.queue not in view.queues or group.queue == gang.queue for group in view.running):
        return None  # surplus of its own queue would yield
    lower = [group for group in view.running if _may_go(view, group, priority)]
    units = [unit for group in lower for unit in _units(group)]
    if len(units) > MOST:
        return None
    queue_uses = {name: _queue_use(view, name) for name in {group.queue for group in lower}}
    missing = gang.min_member - sum(count for _, count in gang.placed)
    free = {one.name: _free(view, one.name) for one in view.nodes.static.facts if _open(view, one, gang, shape)}
    return Asked(missing, dict(shape.requests), free), units, queue_uses


def _may_go(view: View, group: Running, priority: int) -> bool:
    spec = view.queues[group.queue].spec
    return spec.preemptible and spec.priority < priority


def _units(group: Running) -> list[Unit]:
    """Members above the minimum one by one, the highest index first, then all others together."""
    spare = len(group.pods) + sum(count for _, count in group.succeeded) - group.min_member
    roles, minima = Counter(dict(group.succeeded)), dict(group.roles)
    roles.update(pod.role for pod in group.pods)
    parts = []
    stay = list(group.pods)
    for pod in reversed(group.pods[1:]):
        if spare > len(parts) and roles[pod.role] > minima.get(pod.role, 0):
            roles[pod.role] -= 1
            parts.append([pod])
            stay.remove(pod)
    found = []
    for nth, part in enumerate([*parts, stay]):
        uses: Counter[str] = Counter()
        frees: dict[str, Counter[str]] = {}
        for pod in part:
            uses.update(dict(pod.pod_class.requests))
            frees.setdefault(pod.node, Counter()).update(dict(pod.pod_class.requests))
        found.append(
            Unit(group.uid, nth, group.queue, group.priority, group.created, len(part), uses, frees, group.guarded)
        )
    return found


def _queue_use(view: View, name: str) -> QueueUse:
    queue, total = view.queues[name], Counter[str]()
    for one in view.nodes.static.facts:
        if _selected(view, one, name):
            total.update(one.allocatable)
    return QueueUse(queue.spec.priority, queue.used, queue.spec.quota or total)


def _selected(view: View, node: NodeFacts, queue: str) -> bool:
    wanted = (view.queues[queue].spec.source.get("nodeSelector") or {}).get("matchLabels") or {}
    return all(node.labels.get(label) == value for label, value in wanted.items())


def _open(view: View, node: NodeFacts, gang: Gang, shape: PodClass) -> bool:
    tainted = any(taint.key != CORDONED for taint in node.taints)
    closed = not node.ready or node.unschedulable or node.deleting or tainted
    matches = all(node.labels.get(label) == value for label, value in shape.node_selector)
    return not closed and matches and _selected(view, node, gang.queue)


def _free(view: View, node: str) -> Counter[str]:
    static, row = view.nodes.static, view.nodes.row(node)
    return Counter(
        {
            name: int(static.allocatable[at, row]) - int(view.nodes.used[at, row])
            for at, name in enumerate(static.resources)
        }
    )


def _going(made: Plan, units: list[Unit]) -> list[Unit]:
    """The units of a plan's victims."""
    going: list[Unit] = []
    for group, count in Counter(one.gang for one in made.evictions).items():
        left = count
        for unit in sorted((one for one in units if one.group == group), key=lambda one: one.nth):
            if left > 0:
                going.append(unit)
                left -= unit.pods
    return going


def _said(walked: list[tuple[tuple[int, bool, int, int], Unit]]) -> str:
    return ", ".join(f"{unit.pods} of {unit.group} ({unit.queue}, {unit.rank})" for _, unit in walked)
