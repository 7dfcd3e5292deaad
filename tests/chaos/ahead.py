"""Planned starts over a whole history: none is moved later by work that came later, and no room is promised twice.

What a cycle plans is held against what the cycle before it planned. Between the two something may have happened that
moves a plan later: a node was lost or changed, others took room, a queue was edited, something ended late, a queue of a
larger priority had its turn, room was reserved for lost members. Then plans may move until they stand still again. If
nothing of that kind happened, each stands where it was or earlier. A scheduler that starts must find the plans that its
predecessor had written.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from t9ksched.engine.plan import Plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import ExpectedEnd, Gang
from t9ksched.model.podclass import PodClass
from t9ksched.model.reservation import Reservation, ReservationKind

SECOND = 1_000_000_000
CYCLE = 3 * SECOND
"""How much later than one resolution a plan may be moved: the time of a cycle, and of the look at a job's clock."""
SETTLED = 3 * SECOND
"""A plan that stood so long is on record, where the database answers."""
_FOR_EVER = 1 << 62
_COUNTED = ("nvidia.com/gpu", "cpu", "memory")
Amounts = dict[str, int]


@dataclass
class _Moment:
    """A view and the plan made on it."""

    process: object
    now: int
    facts: Mapping[str, Any]
    used: dict[str, Amounts]
    """By node, without what the plan places."""
    begun: list[tuple[str, Gang, PodClass]]
    """What it places: on which node, of which gang."""
    specs: Mapping[str, Any]
    ends: dict[str, ExpectedEnd]
    kept: Counter[tuple[Any, ...]]
    """What is reserved but for planned starts."""
    gangs: dict[str, Gang]
    plans: dict[str, tuple[Reservation, ...]]
    started: dict[str, Gang]
    paid: dict[str, Amounts]
    """By queue, what it is charged."""
    evicts: bool
    asked: dict[str, tuple[Any, ...] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, process: object, view: View, now: int, made: Plan) -> "_Moment":
        static, nodes = view.nodes.static, view.nodes
        used = {
            name: {what: int(nodes.used[at, row]) for at, what in enumerate(static.resources) if what in _COUNTED}
            for row, name in enumerate(static.names)
        }
        gangs = {gang.uid: gang for gang in view.gangs}
        classes = {member.uid: member.pod_class for gang in view.gangs for member in gang.waiting}
        begun = [(one.node, gangs[one.gang], classes[one.pod]) for one in made.assignments]
        others = [one for one in view.reservations if not one.kind.planned]
        return cls(
            process,
            now,
            dict(zip(static.names, static.facts, strict=True)),
            used,
            begun,
            {name: (queue.spec, queue.draining) for name, queue in view.queues.items()},
            {one.gang: one for one in view.expected_ends},
            Counter((one.owner, one.node, one.pod_class, one.kind) for one in others),
            gangs,
            by_owner(made.planned),
            {one.gang: gangs[one.gang] for one in made.assignments},
            {name: dict(queue.used) for name, queue in view.queues.items()},
            bool(made.evictions) or any(one.kind is ReservationKind.VICTIMS for one in others),
        )

    def has(self, kind: str, name: str) -> Amounts:
        """What a node has, or a queue's quota; only resources that are limited."""
        if kind == "node":
            return {what: self.facts[name].allocatable.get(what, 0) for what in _COUNTED} if name in self.facts else {}
        return {what: most for what, most in self.specs[name][0].quota.items() if what in _COUNTED}

    def waits(self, uid: str) -> tuple[Any, ...] | None:
        """What a gang asks for; None if it waits for more than room."""
        if uid not in self.asked:
            self.asked[uid] = self._asks(uid)
        return self.asked[uid]

    def _asks(self, uid: str) -> tuple[Any, ...] | None:
        gang = self.gangs.get(uid)
        if gang is None or gang.placed or gang.blocked or gang.topology != "None":
            return None
        if any(member.pod_class.rules or member.pod_class.volume_affinity for member in gang.waiting):
            return None
        asked = sorted((member.role, str(member.pod_class)) for member in gang.waiting)
        return gang.queue, gang.reservation, gang.lasts, gang.min_member, gang.roles, tuple(asked)


class PlansKept:
    """The plans of one history. `kept` counts those that were held against the cycle before."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.kept = 0
        self.judged = 0
        """Cycles in which nothing had happened that may move a plan."""
        self._before: _Moment | None = None
        self._excused = True
        self._since: dict[str, tuple[int, int]] = {}
        """By gang, the planned start and since when it has stood."""

    def check(self, process: object, view: View, policy: Policy, now: int, made: Plan) -> None:
        """A cycle of that process made this plan."""
        before, self._before = self._before, None
        if policy.planning is None:
            return
        after = self._before = _Moment.of(process, view, now, made)
        resolution = policy.planning.resolution_seconds * SECOND
        for text in promised_twice(after, resolution):
            self.say(text)
        if before is None or before.process is not process or now < before.now:
            self._excused = True
        else:
            for text in _ends_later(before, after):
                self.say(text)
            self._excused = self._excused or _happened(before, after)
            if not self._excused:
                self.judged += 1
                self._never_later(before, after, resolution)
            starts = {uid: plan[0].since for uid, plan in after.plans.items()}
            if not _happened(before, after) and starts == {uid: plan[0].since for uid, plan in before.plans.items()}:
                self._excused = False
        self._since = {
            uid: (plan[0].since, known[1] if (known := self._since.get(uid)) and known[0] == plan[0].since else now)
            for uid, plan in after.plans.items()
        }

    def planned(self, name: str) -> bool:
        """Whether a gang of that name had a planned start in the last cycle."""
        moment = self._before
        return moment is not None and any(moment.gangs[uid].name.endswith(f"/{name}") for uid in moment.plans)

    def written(self) -> dict[str, int]:
        """The planned starts that had stood so long in the last cycle that they are on record, by gang."""
        now = self._before.now if self._before is not None else 0
        return {uid: since for uid, (since, stood) in self._since.items() if now - stood > SETTLED}

    def _never_later(self, before: _Moment, after: _Moment, resolution: int) -> None:
        ranks = {name: spec.priority for name, (spec, _) in after.specs.items()}
        for uid, plan in before.plans.items():
            asked, gang = before.waits(uid), after.gangs.get(uid)
            if gang is None or asked is None or asked != after.waits(uid) or uid in after.started:
                continue
            rank = ranks[gang.queue]
            if after.specs[gang.queue][0].ordering == "Strict":
                continue
            # Whatever a queue of a larger priority has waiting may have had its turn first.
            if any(ranks[one.queue] > rank for moment in (before, after) for one in moment.gangs.values()):
                continue
            if any(_served(before, after, one) for one in after.gangs.values() if one.created <= gang.created):
                continue  # one that came earlier had its turn first
            self.kept += 1
            now = after.plans.get(uid)
            late = (now[0].since if now is not None else _FOR_EVER) - plan[0].since
            if late > resolution + CYCLE:
                what = f"moved later by {late / SECOND:.1f} s" if now is not None else "was given up"
                self.say(f"the planned start of {gang.name} {what}, and nothing had happened")


def _served(before: _Moment, after: _Moment, gang: Gang) -> bool:
    """Whether a gang that was not to start then starts, is planned for another moment than before, or asks for more."""
    if before.waits(gang.uid) != after.waits(gang.uid):
        return True
    had, has = before.plans.get(gang.uid), after.plans.get(gang.uid)
    if gang.uid in after.started:
        return had is None or had[0].since > after.now
    return has is not None and (had is None or had[0].since != has[0].since)


def by_owner(reservations: Iterable[Reservation]) -> dict[str, tuple[Reservation, ...]]:
    """Planned starts by gang."""
    found: defaultdict[str, list[Reservation]] = defaultdict(list)
    for one in reservations:
        if one.kind.planned:
            found[one.owner].append(one)
    return {owner: tuple(mine) for owner, mine in found.items()}


def _happened(before: _Moment, after: _Moment) -> bool:
    """Whether something happened between two cycles, or is still so, that may move a plan later."""
    if before.specs != after.specs or after.kept - before.kept or before.evicts or after.evicts:
        return True
    if any(gang.lasts and uid not in after.ends for uid, gang in before.started.items()):
        return True  # the decision was not carried out
    if any(kind is ReservationKind.REFILL for *_, kind in after.kept):
        return True  # room for lost members goes before all that waits, where and when it comes free
    if any(after.facts.get(name) != facts for name, facts in before.facts.items()):
        return True
    if any(end.at <= after.now for end in after.ends.values()):
        return True  # it has not ended yet
    if any(uid in after.ends and after.ends[uid].at > end.at for uid, end in before.ends.items()):
        return True
    expected: dict[str, Amounts] = {node: dict(amounts) for node, amounts in before.used.items()}
    for node, _, pod_class in before.begun:
        _add(expected.setdefault(node, {}), pod_class, 1)
    for uid, end in before.ends.items():
        if uid not in after.ends:  # it is gone, with its room
            for node, pod_class, pods in end.rooms:
                _add(expected.setdefault(node, {}), pod_class, -pods)
    return any(
        amount > expected.get(node, {}).get(what, 0)
        for node, amounts in after.used.items()
        for what, amount in amounts.items()
    )


def _ends_later(before: _Moment, after: _Moment) -> Iterable[str]:
    """Gangs that are expected to hold room for longer than was said when they started beside planned starts."""
    for uid, gang in before.started.items():
        end = after.ends.get(uid)
        if gang.lasts and not gang.placed and end is not None and end.at > after.now + gang.lasts + CYCLE:
            late = (end.at - after.now - gang.lasts) / SECOND
            yield f"{gang.name} has started and is expected to end {late:.0f} s later than it was let pass for"


def promised_twice(moment: _Moment, resolution: int) -> Iterable[str]:
    """Nodes and queues of which more is in use and planned than there is, at the beginning of a planned start."""
    spans: defaultdict[tuple[str, str], list[tuple[int, int, PodClass | Amounts, int]]] = defaultdict(list)
    for kind, known in (("node", moment.used), ("queue", moment.paid)):
        for name, amounts in known.items():
            spans[kind, name].append((0, _FOR_EVER, amounts, 1))
    for end in moment.ends.values():
        at = max(end.at, moment.now + resolution)
        for node, pod_class, pods in end.rooms:
            spans["node", node].append((at, _FOR_EVER, pod_class, -pods))
            spans["queue", end.queue].append((at, _FOR_EVER, pod_class, -pods))
    for node, gang, pod_class in moment.begun:
        until = moment.now + gang.lasts if gang.lasts else _FOR_EVER
        spans["node", node].append((moment.now, until, pod_class, 1))
        spans["queue", gang.queue].append((moment.now, until, pod_class, 1))
    begins: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for one in (one for uid, plan in moment.plans.items() if uid not in moment.started for one in plan):
        for what in (("node", one.node), ("queue", one.queue)):
            spans[what].append((one.since, one.until or _FOR_EVER, one.pod_class, 1))
            begins[what].add(one.since)
    for (kind, name), times in begins.items():
        has = moment.has(kind, name)
        for at in sorted(times):
            total: Amounts = {}
            for begin, until, amounts, pods in spans[kind, name]:
                if begin <= at < until:
                    _add(total, amounts, pods)
            for what, most in has.items():
                if total.get(what, 0) > most:
                    yield (
                        f"{kind} {name}: {total[what]} of {most} {what} are in use or planned when a planned start"
                        " begins"
                    )


def _add(amounts: Amounts, more: PodClass | Amounts, pods: int) -> Amounts:
    for what, amount in more.requests if isinstance(more, PodClass) else more.items():
        if what in _COUNTED:
            amounts[what] = amounts.get(what, 0) + pods * amount
    return amounts


__all__ = ["PlansKept", "by_owner", "promised_twice"]
