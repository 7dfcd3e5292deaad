"""Whom a blocked gang may take room from, and whom it takes.

Victims are whole gangs, or members above a gang's minimum. They are chosen on columns of room, without touching the
trial: by two searches, in the order of the policy and by cheapest nodes; each result is pruned until nobody can be
spared. The order of the policy is kept as long as it costs at most 15 % more victims than the cheapest. What is chosen
is verified once more, from the beginning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from t9ksched.engine.costs import Costs, open_to
from t9ksched.engine.ledger import Ledger, Shortfall
from t9ksched.engine.nodes import Int64s
from t9ksched.engine.placement import Group, place_together
from t9ksched.engine.policy import Policy
from t9ksched.engine.tenants import Flags, Indices
from t9ksched.engine.trial import ClassColumn, Placement, Trial
from t9ksched.engine.view import QueueState, View
from t9ksched.model.gang import Gang, Running, RunningPod

_DEARER: Final = 115
"""The order of the policy may cost so many percent of the fewest victims found."""
_SECOND: Final = 1_000_000_000
_OWN_LEVEL: Final = -1
"""Where surplus of the preemptor's own queue stands among priorities: it goes before anybody else's."""


def eligible(preemptor: Gang, victim: Running, queues: Mapping[str, QueueState], policy: Policy, now: int) -> bool:
    """Whether the policy lets a gang take room from another; `now` in nanoseconds since the epoch.

    The victim's queue must exist, be preemptible and have a strictly smaller priority. A job that has just started, or
    was evicted too often today, is spared where the policy says so.
    """
    rules = policy.preemption
    theirs = queues.get(victim.queue)
    if theirs is None or not theirs.spec.preemptible:
        return False
    if rules.minimum_run_seconds and now - victim.started < rules.minimum_run_seconds * _SECOND:
        return False
    if rules.most_evictions_a_day and victim.evictions >= rules.most_evictions_a_day:
        return False
    if victim.queue == preemptor.queue:
        return rules.inside_queue and victim.priority < preemptor.priority
    return theirs.spec.priority < queues[preemptor.queue].spec.priority


def yields(preemptor: Gang, victim: Running, queues: Mapping[str, QueueState], policy: Policy) -> bool:
    """Whether members above the victim's minimum go for a waiting minimum of their own queue, even of their own gang.

    A gang that lost its only launcher gives up a worker for a new one.
    """
    same = victim.queue == preemptor.queue
    return same and policy.preemption.surplus_yields and queues[victim.queue].spec.preemptible


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the preemptor goes and who has to go.

    Attributes:
        places: class, rows and how many pods on each.
        victims: running group and its pods that go.
    """

    places: tuple[tuple[ClassColumn, Indices, Int64s], ...]
    victims: tuple[tuple[Running, RunningPod], ...]
    units: Flags


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Units that may go for one preemptor, with their place in the order of the policy (smaller goes first)."""

    units: Flags
    order: Int64s
    level: Int64s


@dataclass(slots=True)
class _Search:
    """A result on the way: where pods go, which units went, and what is left then."""

    counts: list[Int64s]
    units: Flags
    free: Int64s


class Preemption:
    """Chooses victims in one cycle, gang after gang; who was chosen before is on his way out."""

    def __init__(self, view: View, trial: Trial, ledger: Ledger, policy: Policy, now: int) -> None:
        self._view = view
        self._trial = trial
        self._ledger = ledger
        self._policy = policy
        self._now = now
        tenants = self._tenants = trial.memo.tenants(view.running)
        self._gone: Flags = np.zeros(len(tenants.unit_group), np.bool_)
        self.coming: Int64s = np.zeros_like(trial.free)
        """Room of those who are on their way out, shape (resources, nodes)."""
        self._give(self.coming, ~tenants.staying)
        self.leaving: Int64s = self.coming.copy()
        """The part of it that was on its way when the cycle began."""
        self.certain: Int64s = np.zeros_like(trial.free)
        """The part of that that nothing can keep from coming: who was only chosen may still stay."""
        self._give(self.certain, tenants.asked)
        self._leave(~tenants.staying)
        self._known: dict[tuple[str, int], _Candidates] = {}
        self._most: dict[tuple[str, int], Int64s] = {}

    def choose(self, gang: Gang, groups: Sequence[Group], short: Sequence[Shortfall] = ()) -> Choice | None:
        """Victims for a gang's groups, or None when it would not fit, or needs none.

        `short` are the quotas it exceeds: only surplus of its own queue can cure that.
        """
        candidates = self._candidates(gang)
        free = self._trial.free + self.coming
        if not candidates.units.any() or (not short and _fits(groups, free)):
            return None
        if not _fits(groups, self._trial.free + self._at_most(gang, candidates)):
            return None
        must = self._cure(candidates, gang.queue, short) if short else np.zeros_like(self._gone)
        if must is None:
            return None
        self._give(free, must[self._tenants.unit_of] & self._tenants.staying)
        found = self._search(groups, free, candidates, must)
        if found is None or not found.units.any() or not self._verified(groups, found, candidates, must):
            return None
        return self._chosen(groups, found)

    def confirmed(self, groups: Sequence[Group], choice: Choice) -> Choice | None:
        """The choice with the places that rules about pods allow once the victims are off the nodes, or None.

        Victims still count where rules ask who stands where: they are there until they have ended.
        """
        trial = self._trial
        mark = trial.mark()
        for _, pod in choice.victims:
            self._vacate(pod)
        start = trial.mark()
        fits = place_together(trial, groups)
        placed = trial.since(start) if fits else []
        trial.undo(mark)
        if not fits:
            return None
        counts = {id(column): np.zeros(len(trial.nodes), np.int64) for column, _ in groups}
        for placement in placed:
            counts[id(placement.column)][placement.row] += placement.pods
        places = []
        for column, _ in groups:
            rows = np.flatnonzero(counts[id(column)])
            places.append((column, rows, counts[id(column)][rows]))
        return Choice(tuple(places), choice.victims, choice.units)

    def _vacate(self, pod: RunningPod) -> None:
        """Take a pod off its node on the trial; `undo` puts it back."""
        trial = self._trial
        row = trial.nodes.static.index.get(pod.node)
        if row is None:
            return
        static = trial.nodes.static
        held = {name: mask for name, mask in pod.cards if name in trial.card_rows}
        held = {name: mask for name, mask in held.items() if static.indexed[trial.card_rows[name], row]}
        usable = {name: held.get(name, 0) & int(static.usable[at, row]) for name, at in trial.card_rows.items()}
        requests = tuple(
            (name, usable[name].bit_count() if held.get(name) else amount) for name, amount in pod.pod_class.requests
        )
        column = trial.column(None, replace(pod.pod_class, requests=requests, rules=None))
        masks = tuple(usable[name] for name in column.card_names)
        trial.release(Placement(column, row, 1, (masks,) if masks else ()))

    def take(self, choice: Choice) -> None:
        """The victims of a choice go."""
        self._gone |= choice.units
        self._give(self.coming, choice.units[self._tenants.unit_of] & self._tenants.staying)
        for known in self._known.values():
            known.units[choice.units] = False
        self._most.clear()
        self._leave(choice.units[self._tenants.unit_of] & self._tenants.staying)

    def _leave(self, pods: Flags) -> None:
        for queue, demand in self._tenants.demands(np.flatnonzero(pods)):
            if queue in self._view.queues:
                self._ledger.leave(queue, demand)

    def _candidates(self, gang: Gang) -> _Candidates:
        key = (gang.queue, gang.priority if self._policy.preemption.inside_queue else 0)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._collect(gang)
        return found

    def _collect(self, gang: Gang) -> _Candidates:
        """Ask `eligible` once for each kind of group there is: its answer depends on nothing else."""
        tenants, rules = self._tenants, self._policy.preemption
        queues = self._view.queues
        spared = self._now - tenants.started < rules.minimum_run_seconds * _SECOND
        often = tenants.evictions >= max(rules.most_evictions_a_day, 1)
        kind = (tenants.queue_of * 2 + spared) * 2 + often
        if rules.inside_queue:
            kind = kind * 128 + np.minimum(tenants.priority, 127)
        last = np.zeros(int(kind.max(initial=0)) + 1, np.intp)
        last[kind] = np.arange(len(kind))
        asked = {at: tenants.groups[at] for at in last[np.bincount(kind, minlength=len(last)) > 0].tolist()}
        answers = np.zeros((2, len(last)), np.bool_)
        for at, one in asked.items():
            answers[0, kind[at]] = eligible(gang, one, queues, self._policy, self._now)
            answers[1, kind[at]] = yields(gang, one, queues, self._policy)
        may, yielding = answers[:, kind]
        group = tenants.unit_group
        units = (may[group] | (yielding[group] & tenants.is_surplus)) & ~self._gone & (tenants.unit_size > 0)
        level, standing = self._standing(gang)
        # Lowest queue priority first; then whoever breaks no disruption budget; then by queue and by group.
        first = (level[tenants.queue_of] - _OWN_LEVEL) * 2 + tenants.guarded
        order = (first * len(tenants.queues) + standing[tenants.queue_of]) * len(tenants.groups) + tenants.rank
        # Units of one group follow each other in their order.
        within = np.arange(len(group)) - tenants.first_unit[group]
        places = order[group] * (int(within.max(initial=0)) + 1) + within
        return _Candidates(units, places, level[tenants.queue_of][group])

    def _standing(self, gang: Gang) -> tuple[Int64s, Int64s]:
        """Priority of each queue and its place: lowest priority first, then the largest dominant share, then name."""
        names = self._tenants.queues
        queues = self._view.queues
        level = [
            (_OWN_LEVEL if name == gang.queue else queues[name].spec.priority) if name in queues else 0
            for name in names
        ]
        share = [self._ledger.share(name, staying=True) if name in queues else 0 for name in names]
        order = sorted(range(len(names)), key=lambda at: (level[at], -share[at], names[at]))
        standing = np.zeros(len(names), np.int64)
        standing[order] = np.arange(len(names))
        return np.array(level, np.int64), standing

    def _at_most(self, gang: Gang, candidates: _Candidates) -> Int64s:
        """Room that would come if every candidate went."""
        key = (gang.queue, gang.priority if self._policy.preemption.inside_queue else 0)
        found = self._most.get(key)
        if found is None:
            found = self._most[key] = self.coming.copy()
            self._give(found, candidates.units[self._tenants.unit_of] & self._tenants.staying)
        return found

    def _give(self, free: Int64s, pods: Flags, resources: Sequence[int] | None = None) -> None:
        """Add the room of these pods."""
        tenants = self._tenants
        which = np.flatnonzero(pods)
        if not len(which):
            return
        rows = tenants.row[which]
        for at in range(len(free)) if resources is None else resources:
            np.add.at(free[at], rows, tenants.freed[at][which])

    def _cure(self, candidates: _Candidates, queue: str, short: Sequence[Shortfall]) -> Flags | None:
        """Surplus of the queue that has to go so that its quota suffices; None when there is not enough."""
        tenants = self._tenants
        missing = {one.resource: one.needs - one.has for one in short if one.queue == queue}
        if len(missing) < len(short):
            return None
        must = np.zeros_like(self._gone)
        own = np.flatnonzero(candidates.units & (candidates.level == _OWN_LEVEL))
        pods = np.flatnonzero(tenants.staying)
        pods = pods[np.argsort(tenants.unit_of[pods], kind="stable")]
        starts = np.searchsorted(tenants.unit_of[pods], own)
        for at in np.argsort(candidates.order[own], kind="stable").tolist():
            if all(amount <= 0 for amount in missing.values()):
                break
            unit = own[at]
            gives: dict[str, int] = {}
            for pod in pods[starts[at] : starts[at] + int(tenants.unit_size[unit])].tolist():
                for name, amount in tenants.pods[pod].pod_class.requests:
                    gives[name] = gives.get(name, 0) + amount
            # A gang's units go in their order, so one that helps little is taken with those that help behind it.
            must[unit] = True
            missing = {name: amount - gives.get(name, 0) for name, amount in missing.items()}
        return must if all(amount <= 0 for amount in missing.values()) else None

    def _search(self, groups: Sequence[Group], free: Int64s, candidates: _Candidates, must: Flags) -> _Search | None:
        """The better of both searches."""
        allowed = candidates.units & ~must
        if _fits(groups, free):
            return self._greedy(groups, free, allowed, candidates.order, must)
        by_order = np.flatnonzero(allowed)
        by_order = by_order[np.argsort(candidates.order[by_order])]
        few = self._prefix(groups, free, by_order)
        if few is None:
            return None
        first = np.zeros_like(allowed)
        first[by_order[:few]] = True
        level = candidates.level[by_order[:few]].max()
        ordered = self._pruned(groups, self._greedy(groups, free, first, candidates.order, must), candidates, must)
        size = self._tenants.unit_size
        if (
            ordered is not None
            and int(size[ordered.units].sum()) * 100 <= self._fewest(groups, free, allowed) * _DEARER
        ):
            return ordered  # no other search could be so much better that it would be taken
        within = allowed & (candidates.level <= level)
        guarded = self._tenants.guarded[self._tenants.unit_group]
        if ordered is not None and not guarded[ordered.units].any():
            within &= ~guarded  # a budget is not broken to evict fewer
        cheapest = self._greedy(groups, free, within, candidates.order, must, by_size=True)
        cheapest = self._pruned(groups, cheapest, candidates, must)
        if ordered is None or cheapest is None:
            return ordered or cheapest
        dear, cheap = int(size[ordered.units].sum()), int(size[cheapest.units].sum())
        return ordered if dear * 100 <= cheap * _DEARER else cheapest

    def _fewest(self, groups: Sequence[Group], free: Int64s, allowed: Flags) -> int:
        """So many pods must go at least: what is missing of a resource, by the most that any of them gives back."""
        tenants = self._tenants
        pods = allowed[tenants.unit_of] & tenants.staying
        reach = np.logical_or.reduce([column.here for column, _ in groups])
        fewest = 0
        for at in _resources(groups):
            needs = sum(int(column.needs_vector[at]) * count for column, count in groups)
            missing = needs - int(np.maximum(free[at], 0)[reach].sum())
            most = int(tenants.freed[at][pods].max(initial=0))
            if most:
                fewest = max(fewest, -(-missing // most))
        return fewest

    def _prefix(self, groups: Sequence[Group], free: Int64s, by_order: Indices) -> int | None:
        """How many units in order must go at least so that the groups fit; None when all are too few."""
        tenants = self._tenants
        resources = _resources(groups)
        place = np.full(len(self._gone), len(by_order), np.intp)
        place[by_order] = np.arange(len(by_order))
        when = np.where(tenants.staying, place[tenants.unit_of], len(by_order))

        def enough(units: int) -> bool:
            room = free.copy()
            self._give(room, when < units, resources)
            return _fits(groups, room)

        low, high = 0, len(by_order)
        if not enough(high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def _greedy(
        self,
        groups: Sequence[Group],
        free: Int64s,
        allowed: Flags,
        order: Int64s,
        must: Flags,
        by_size: bool = False,
    ) -> _Search | None:
        """Give each pod the node where room for it costs the fewest victims; free room first."""
        resources = _resources(groups)
        found = _Search([], must.copy(), free.copy())
        for column, pods in groups:
            counts = np.zeros(free.shape[1], np.int64)
            found.counts.append(counts)
            costs = Costs(self._tenants, column, allowed, order, by_size)
            left = pods
            while left:
                rooms = np.minimum(_rooms(column, found.free, counts), left)
                took = np.minimum(rooms, np.maximum(left - (np.cumsum(rooms) - rooms), 0))
                if not took.any():
                    rows, units = costs.next(found.free, counts, found.units, left)
                    if not len(rows):
                        return None
                    self._give(found.free, units[self._tenants.unit_of] & self._tenants.staying, resources)
                    found.units |= units
                    took = np.zeros_like(counts)
                    took[rows] = 1
                counts += took
                for at, amount in column.needs:
                    found.free[at] -= amount * took
                left -= int(took.sum())
        return found

    def _pruned(
        self, groups: Sequence[Group], found: _Search | None, candidates: _Candidates, must: Flags
    ) -> _Search | None:
        """Spare whoever can be spared, those who would go last first."""
        if found is None:
            return None
        tenants = self._tenants
        resources = _resources(groups)
        used = np.logical_or.reduce([counts > 0 for counts in found.counts])
        going = found.units & ~must
        pods = np.flatnonzero(going[tenants.unit_of] & tenants.staying)
        matters = pods[used[tenants.row[pods]]]
        stuck = np.zeros(len(matters), np.bool_)
        for at in resources:
            stuck |= tenants.freed[at][matters] > found.free[at][tenants.row[matters]]
        needed = np.zeros_like(going)
        needed[tenants.unit_of[matters[stuck]]] = True
        open_units = np.flatnonzero(going & ~needed)
        by_unit: dict[int, list[int]] = {int(unit): [] for unit in open_units}
        for pod, unit in zip(matters.tolist(), tenants.unit_of[matters].tolist(), strict=True):
            if unit in by_unit:
                by_unit[unit].append(pod)
        left = found.free
        for unit in open_units[np.argsort(-candidates.order[open_units])].tolist():
            after = unit + 1
            if after < len(going) and tenants.unit_group[after] == tenants.unit_group[unit] and found.units[after]:
                continue  # the members behind it go, so it goes
            spared = by_unit[unit]
            for pod in spared:
                left[:, tenants.row[pod]] -= tenants.freed[:, pod]
            if any(left[at, tenants.row[pod]] < 0 for pod in spared for at in resources):
                for pod in spared:
                    left[:, tenants.row[pod]] += tenants.freed[:, pod]
            else:
                found.units[unit] = False
        return found

    def _verified(self, groups: Sequence[Group], found: _Search, candidates: _Candidates, must: Flags) -> bool:
        """Whether the pods fit when exactly these units go, computed from the beginning."""
        tenants = self._tenants
        if np.any(found.units & ~candidates.units):
            return False
        before = np.flatnonzero(tenants.is_surplus & candidates.units & ~found.units)
        if np.any(found.units[before + 1]):
            return False  # a gang would lose a member before the ones above it
        free = self._trial.free + self.coming
        self._give(free, found.units[tenants.unit_of] & tenants.staying)
        used = np.zeros(free.shape[1], np.bool_)
        for (column, pods), counts in zip(groups, found.counts, strict=True):
            if int(counts.sum()) != pods or np.any(counts[~column.here]):
                return False
            used |= counts > 0
            for at, amount in column.needs:
                free[at] -= amount * counts
        return not any(np.any(free[at][used] < 0) for at in _resources(groups))

    def _chosen(self, groups: Sequence[Group], found: _Search) -> Choice:
        tenants = self._tenants
        going = np.flatnonzero(found.units[tenants.unit_of] & tenants.staying)
        groups_of = map(tenants.groups.__getitem__, tenants.group_of[going].tolist())
        places = []
        for (column, _), counts in zip(groups, found.counts, strict=True):
            rows = np.flatnonzero(counts)
            places.append((column, rows, counts[rows]))
        victims = tuple(zip(groups_of, map(tenants.pods.__getitem__, going.tolist()), strict=True))
        return Choice(tuple(places), victims, found.units)


def _resources(groups: Sequence[Group]) -> list[int]:
    return sorted({at for column, _ in groups for at, _ in column.needs})


def _rooms(column: ClassColumn, free: Int64s, counts: Int64s) -> Int64s:
    rooms: Int64s = column.rooms(free)
    if column.ports:
        rooms[~open_to(column, counts)] = 0
    return rooms


def _fits(groups: Sequence[Group], free: Int64s) -> bool:
    """Whether the groups find room on these columns, filled one after the other."""
    for nth, (column, pods) in enumerate(groups):
        rooms = np.minimum(_rooms(column, free, np.zeros(free.shape[1], np.int64)), pods)
        if int(rooms.sum()) < pods:
            return False
        if nth + 1 < len(groups):
            took = np.minimum(rooms, np.maximum(pods - (np.cumsum(rooms) - rooms), 0))
            free = free - column.needs_vector[:, None] * took
    return True
