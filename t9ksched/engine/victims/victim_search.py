"""Which gangs may be evicted for a blocked gang, and which are.

Victims are whole gangs, or members above a gang's minimum. They are chosen on columns of room, without touching the
trial (`clearing.py`), so that the set is the cheapest by the policy's order (`price.py`) that the search finds, and no
unit of it can be spared. The choice is verified once more, from the beginning.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.card_needs import complete, take_parts
from t9ksched.engine.cards import Share
from t9ksched.engine.ledger import Ledger, Shortfall
from t9ksched.engine.placement.pack import Group, co_placed_terms, left_after
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.policy import Policy
from t9ksched.engine.victims.clearing import clear
from t9ksched.engine.victims.confirm import confirmed
from t9ksched.engine.victims.contest import Contest
from t9ksched.engine.victims.eligibility import SECOND, eligible, yields
from t9ksched.engine.victims.field import Choice, Cleared, Field, Place
from t9ksched.engine.victims.grace import Graces
from t9ksched.engine.victims.likely_domains import likely
from t9ksched.engine.victims.price import Price
from t9ksched.engine.victims.victim_table import PodRoom, VictimTable
from t9ksched.engine.view import View
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang

_MOST_DOMAINS: Final = 16
"""So many domains are searched when each of them would do."""
_MOST_KINDS: Final = 10_000_000
"""Kinds of pods times running pods and nodes; beyond this no victim's place is searched."""
_MOST_WORK: Final = 1_000_000
"""Units of work of one search over domains, after which the best that was found is taken."""
_YIELDS: Final = -1
"""The priority at which surplus of the preemptor's own queue counts: it is evicted before any other."""


class VictimSearch:
    """Chooses victims in one cycle, gang after gang. Victims chosen earlier count as leaving."""

    def __init__(self, view: View, trial: Trial, ledger: Ledger, policy: Policy, now: int, table: VictimTable) -> None:
        self._view = view
        self._trial = trial
        self._ledger = ledger
        self._policy = policy
        self._now = now
        self._table = table
        self._gone: Mask = np.zeros(len(table.unit_group), np.bool_)
        self.coming: Int64s = np.zeros_like(trial.free)
        """Room of pods that are leaving, shape (resources, nodes)."""
        self._give(self.coming, ~table.staying)
        self._coming_rows: Indices | None = None
        self.leaving: Int64s = self.coming.copy()
        """The part of it whose pods were leaving when the cycle began."""
        self.certain: Int64s = np.zeros_like(trial.free)
        """The part of that which is certain to come free: a victim that was only chosen may still stay."""
        self._give(self.certain, table.asked)
        self._going: Mask = ~table.staying
        self._leave(~table.staying)
        self._known: dict[tuple[str, int], Mask] = {}
        self._most: dict[tuple[str, int, int | None], Int64s] = {}
        self._graces = Graces(table, policy.preemption)
        self.expected: Int64s | None = None
        """What the last gang takes, as negative numbers, of room that comes without victims of its own."""
        self.expecting = False
        """A gang in this cycle counts on such room: what others find without it holds for this cycle only."""
        self.gave_up = False
        """The last search ended at the bound of its work, and found nothing until then."""

    def graces(self, gang: Gang) -> list[int]:
        """Limits of the grace of those that may go for the gang, in nanoseconds, the longest first."""
        return self._graces.limits(self._candidates(gang))

    def leaves_in(self, choice: Choice) -> int:
        """How long it may take until the victims of a choice, and pods that are leaving already, end; nanoseconds."""
        return self._graces.until_gone(choice.units)

    def choose(
        self,
        gang: Gang,
        groups: Sequence[Group],
        short: Sequence[Shortfall] = (),
        *,
        ruled: bool = False,
        grace: int | None = None,
        among: Mask | None = None,
    ) -> Work[Choice | None]:
        """Victims for a gang's groups, or None when it would not fit, or needs none.

        `short` are the quotas it exceeds: only victims of its own queue can cure that. With `ruled` the choice is
        confirmed by the rules about pods. A gang that must be in one domain gets the best of the domains. With `grace`,
        in nanoseconds, no gang goes whose pods may take longer to end, as far as the policy lets them; with `among`,
        only these units.
        """
        self.gave_up = False
        self.expected = None
        units = self._candidates(gang)
        units = units if grace is None else self._graces.within(units, grace)
        units = units if among is None else units & among
        free = self._trial.free + self.coming
        if not units.any() and not self.coming.any():
            return None
        if not short and gang.topology != "Required" and (left := left_after(groups, free)) is not None:
            self.expected = left - free
            return None
        if not units.any():
            return None
        if among is None and left_after(groups, self._trial.free + self._at_most(gang, units, grace)) is None:
            return None
        must = self._cure(gang, units, short) if short else np.zeros_like(self._gone)
        if must is None:
            return None
        yield
        if len(groups) * (len(self._table.row) + free.shape[1]) > _MOST_KINDS:
            self.gave_up = True
            return None
        everywhere = np.arange(free.shape[1])
        whole = Field(self._table, groups, free, everywhere, units)
        yield
        candidates = units & (whole.helpful() | must)
        contest = Contest(self._table, self._ledger, candidates, *self._levels(gang))
        self._trial.meter.spent += 10 * len(self._table.row)
        yield
        if gang.topology == "Required":
            return (yield from self._in_domains(gang, groups, whole, contest, must, ruled=ruled))
        found = yield from self._search(groups, whole, contest, must)
        if found is not None and (ruled or _mixed(groups)):
            reachable: Mask = np.logical_or.reduce([column.reachable(co_placed_terms(groups)) for column, _ in groups])
            found = yield from confirmed(self._trial, groups, found, reachable, None if ruled else self.coming)
        return found

    def _in_domains(
        self, gang: Gang, groups: Sequence[Group], whole: Field, contest: Contest, must: Mask, *, ruled: bool
    ) -> Work[Choice | None]:
        """The cheapest of the domains; of many, those are searched that promise to cost least."""
        best: tuple[Price, Choice] | None = None
        searched = work = 0
        promising = yield from likely(self._trial, gang, whole, contest, must)
        for rows in promising:
            if searched >= _MOST_DOMAINS and best is not None:
                break
            if work > _MOST_WORK:
                self.gave_up = best is None
                break
            searched += 1
            yield
            field = whole.part(groups, rows, contest.units)
            # Counted by size and not by the meter: what is found must not depend on what is remembered.
            work += len(groups) * (50 * len(field.pods) + field.free.size)
            self._trial.meter.spent += len(whole.pods) + len(whole.unit)
            if not must.any() and field.fits(field.free):
                if ruled:
                    continue
                return None  # what leaves already makes room for it
            found = yield from self._search(groups, field, contest, must)
            if found is not None and (ruled or _mixed(groups)):
                scope = np.zeros(len(self._trial.nodes), np.bool_)
                scope[rows] = True
                found = yield from confirmed(self._trial, groups, found, scope, None if ruled else self.coming)
            if found is not None:
                self._trial.meter.spent += 3_000 * len(found.victims)
                yield
                price = contest.price(found.units)
                if best is None or price < best[0]:
                    best = price, found
        return best[1] if best else None

    def _search(self, groups: Sequence[Group], field: Field, contest: Contest, must: Mask) -> Work[Choice | None]:
        found = yield from clear(field, contest, must, self._trial.meter)
        self._trial.meter.spent += 3 * len(self._table.row)
        if found is None or not found.units.any():
            return None
        places = self._verified(groups, field, found, contest)
        return None if places is None else self._chosen(places, found)

    def take(self, choice: Choice) -> None:
        """The victims of a choice go."""
        self._graces.leave(choice.units)
        self._spend(choice.units)
        self._going = self._going | choice.units[self._table.unit_of]
        self._give(self.coming, choice.units[self._table.unit_of] & self._table.staying)
        self._coming_rows = None
        self._leave(choice.units[self._table.unit_of] & self._table.staying)

    def at_most(self, gang: Gang) -> Int64s:
        """What would come free, shape (resources, nodes), if all left that may be evicted for the gang, and all that
        leave already had. With too little of that no victims are found for it.
        """
        return self._at_most(gang, self._candidates(gang), None)

    def going(self, rows: Indices) -> Iterator[PodRoom]:
        """The pods on these nodes that are leaving, victims of this cycle included."""
        return self._table.rooms(self._going, rows)

    def gangs_going(self) -> frozenset[str]:
        """The gangs, by UID, of which such pods are on any node."""
        return self._table.gangs(self._going)

    def coming_rows(self) -> Indices:
        """The nodes on which room comes free."""
        if self._coming_rows is None:
            self._coming_rows = np.flatnonzero(self.coming.any(axis=0))
        return self._coming_rows

    def expect(self) -> bool:
        """Whether the last gang fits once the leaving pods have gone; if so, no later gang counts on that room."""
        if self.expected is None:
            return False
        self.coming += self.expected
        self._coming_rows = None
        self.expecting = True
        self._most.clear()
        return True

    def spare(self, gangs: Collection[str]) -> None:
        """These gangs, by uid, are no victims in this cycle: what they held when it began is not what they hold now."""
        groups = self._table.groups
        places = {uid: groups.place(uid) for uid in gangs}
        found = [at for uid, at in places.items() if at < len(groups) and groups[at].uid == uid]
        if found:
            self._spend(np.isin(self._table.unit_group, found))

    def _spend(self, units: Mask) -> None:
        """These units are no victims any more."""
        self._gone |= units
        for known in self._known.values():
            known[units] = False
        self._most.clear()

    def _leave(self, pods: Mask) -> None:
        for queue, demand in self._table.demands(np.flatnonzero(pods)):
            if queue in self._view.queues:
                self._ledger.leave(queue, demand)

    def _candidates(self, gang: Gang) -> Mask:
        """Units that may go for the gang."""
        key = (gang.queue, gang.priority if self._policy.preemption.inside_queue else 0)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._collect(gang)
        return found

    def _collect(self, gang: Gang) -> Mask:
        """Ask `eligible` once for each kind of group there is: its answer depends on nothing else."""
        table, rules = self._table, self._policy.preemption
        queues = self._view.queues
        spared = self._now - table.started < rules.minimum_run_seconds * SECOND
        often = table.evictions >= max(rules.most_evictions_a_day, 1)
        kind = (table.queue_of * 2 + spared) * 2 + often
        if rules.inside_queue:
            kind = kind * 128 + np.minimum(table.priority, 127)
        last = np.zeros(int(kind.max(initial=0)) + 1, np.intp)
        last[kind] = np.arange(len(kind))
        asked = {at: table.groups[at] for at in last[np.bincount(kind, minlength=len(last)) > 0].tolist()}
        answers = np.zeros((2, len(last)), np.bool_)
        for at, one in asked.items():
            answers[0, kind[at]] = eligible(gang, one, queues, self._policy, self._now)
            answers[1, kind[at]] = yields(gang, one, queues, self._policy)
        may, yielding = answers[:, kind]
        group = table.unit_group
        units: Mask = (may[group] | (yielding[group] & table.is_surplus)) & ~self._gone & (table.unit_size > 0)
        return units

    def _levels(self, gang: Gang) -> tuple[Int64s, Int64s]:
        """Priority of each queue of the table, and the priority at which each unit counts: surplus that yields goes
        before all others, and a whole gang of the preemptor's own queue after all of queues with a smaller priority.
        """
        table, queues = self._table, self._view.queues
        priority = np.array([queues[name].spec.priority if name in queues else 0 for name in table.queues], np.int64)
        level: Int64s = priority[table.queue_of[table.unit_group]]
        if self._policy.preemption.surplus_yields:
            level[table.is_surplus & self._is_own(gang)] = _YIELDS
        return priority, level

    def _is_own(self, gang: Gang) -> Mask:
        """Units of the gang's queue."""
        table = self._table
        own: Mask = np.array([name == gang.queue for name in table.queues], np.bool_)
        found: Mask = own[table.queue_of[table.unit_group]]
        return found

    def _at_most(self, gang: Gang, units: Mask, grace: int | None) -> Int64s:
        """Room that would come if every candidate went."""
        key = (gang.queue, gang.priority if self._policy.preemption.inside_queue else 0, grace)
        found = self._most.get(key)
        if found is None:
            found = self._most[key] = self.coming.copy()
            self._give(found, units[self._table.unit_of] & self._table.staying)
        return found

    def _give(self, free: Int64s, pods: Mask, resources: Sequence[int] | None = None) -> None:
        """Add the room of these pods."""
        table = self._table
        which = np.flatnonzero(pods)
        if not len(which):
            return
        rows = table.row[which]
        for at in range(len(free)) if resources is None else resources:
            np.add.at(free[at], rows, table.freed[at][which])

    def _cure(self, gang: Gang, units: Mask, short: Sequence[Shortfall]) -> Mask | None:
        """Units of its queue that have to go so that its quota suffices, surplus that yields first; None when there is
        not enough.
        """
        table = self._table
        missing = {one.resource: one.needs - one.has for one in short if one.queue == gang.queue}
        if len(missing) < len(short):
            return None
        must = np.zeros_like(self._gone)
        of = table.unit_group
        own = np.flatnonzero(units & self._is_own(gang))
        pods = np.flatnonzero(table.staying)
        pods = pods[np.argsort(table.unit_of[pods], kind="stable")]
        starts = np.searchsorted(table.unit_of[pods], own)
        groups = of[own]
        _, level = self._levels(gang)
        order = (own, -table.youth[groups], table.priority[groups], table.guarded[groups], level[own])
        for at in np.lexsort(order).tolist():
            if all(amount <= 0 for amount in missing.values()):
                break
            unit = own[at]
            gives: dict[str, int] = {}
            for pod in pods[starts[at] : starts[at] + int(table.unit_size[unit])].tolist():
                for name, amount in table.pays[int(table.kind[pod])]:
                    gives[name] = gives.get(name, 0) + amount
            # A gang's units go in their order, so one that helps little is taken with those that help behind it.
            must[unit] = True
            missing = {name: amount - gives.get(name, 0) for name, amount in missing.items()}
        return must if all(amount <= 0 for amount in missing.values()) else None

    def _verified(
        self, groups: Sequence[Group], field: Field, found: Cleared, contest: Contest
    ) -> tuple[Place, ...] | None:
        """Where the pods go when exactly these units do, computed from the beginning; None when they do not fit."""
        table = self._table
        if np.any(found.units & ~contest.units):
            return None
        before = np.flatnonzero(table.is_surplus & contest.units & ~found.units)
        if np.any(found.units[before + 1]):
            return None  # a gang would lose a member before the ones above it
        free = self._trial.free + self.coming
        self._give(free, found.units[table.unit_of] & table.staying)
        used = np.zeros(free.shape[1], np.bool_)
        places = []
        for (column, pods), counts in zip(groups, found.counts, strict=True):
            here = np.flatnonzero(counts)
            rows = field.rows[here]
            if int(counts.sum()) != pods or np.any(counts < 0) or not column.mask[rows].all():
                return None
            used[rows] = True
            for at, amount in column.needs:
                free[at][field.rows] -= amount * counts
            shares: dict[int, list[Share]] = {}
            for row, count in zip(rows.tolist(), counts[here].tolist(), strict=True) if column.divided else ():
                if column.divides(row):
                    shares[row] = take_parts(column.part_needs, free[:, row], row, count)
                    if not _mixed(groups) and not all(complete(column.part_needs, row, share) for share in shares[row]):
                        return None
            places.append(Place(column, rows, counts[here], shares))
        amounts = {at for column, _ in groups for at, _ in column.needs}
        return None if any(np.any(free[at][used] < 0) for at in amounts) else tuple(places)

    def _chosen(self, places: tuple[Place, ...], found: Cleared) -> Choice:
        table = self._table
        going = np.flatnonzero(found.units[table.unit_of] & table.staying)
        groups_of = map(table.groups.__getitem__, table.group_of[going].tolist())
        victims = tuple(zip(groups_of, map(table.pod, going.tolist()), strict=True))
        return Choice(places, victims, found.units, table)


def _mixed(groups: Sequence[Group]) -> bool:
    """Whether pods are unlike and get parts of cards: in which order they are placed decides whether they all fit. Or
    whether they share volumes, which numbers of pods do not count.
    """
    if any(column.volumes is not None for column, _ in groups):
        return True
    return len(groups) > 1 and any(column.divided for column, _ in groups)
