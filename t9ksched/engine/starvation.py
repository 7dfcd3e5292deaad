"""Room that comes free is kept for gangs that have waited long and have no planned start.

Without known ends small gangs may pass a large one for ever. In a queue with the ordering `Backfill` the oldest gang
that has waited longer than the policy, or its queue, says collects room: nodes are chosen for all its pods, and what is
free there, or comes free, goes to no other gang of its queue's priority or below. Other such gangs collect too, up to a
share of what their queue may use, one gang a node, the oldest first, so that two gangs never hold halves of the same
room. A gang that must be in one domain collects in one that could hold it whole. Nothing is remembered: from one cycle
to the next the choice is the same, because nodes with more free room are taken first, and so are domains.
"""

from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from hashlib import blake2b
from heapq import nsmallest
from typing import Final

import msgspec
import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import Indices, Int64s, Mask, There
from t9ksched.engine.kept_quota import KeptQuota
from t9ksched.engine.members import chosen
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.policy import Starvation
from t9ksched.engine.scheduling_key import SchedulingKey, SchedulingKeys
from t9ksched.engine.view import QueueState, View
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Reason

_SECOND: Final = 1_000_000_000
_MOST: Final = 20
"""So many gangs of a queue collect room at most."""


class _Claim(msgspec.Struct):
    """The nodes on which a gang collects room: their rows, and what it needs there, shape (resources, rows).

    `domain` says in which domain they are, for people; empty where that does not matter. `taken` is what is kept of
    that now; None while nothing is. `mark` is a number of what is kept and where, 0 for nothing.
    """

    gang: Gang
    rank: int
    rows: Indices
    amounts: Int64s
    domain: str = ""
    taken: Int64s | None = None
    mark: int = 0


class Starving:
    """The gangs that collect room in one cycle.

    Attributes:
        kept: a number that is equal in two cycles where the same room is kept on the same nodes; 0 where none is.
        collected: whether a gang collected room in this cycle, if only until its turn.
        next: when the next gang has waited for long enough; None where none is younger.
        quota: what is kept of the quotas of queues for the oldest of each.
    """

    def __init__(
        self,
        view: View,
        trial: Trial,
        keys: SchedulingKeys,
        rules: Mapping[str, Starvation],
        now: int,
        quota: KeptQuota,
    ) -> None:
        """`rules` are those of the queues whose gangs collect, by name; `now` is in nanoseconds since the epoch."""
        self.quota = quota
        self.kept = 0
        self.collected = False
        self.next: int | None = None
        self._view = view
        self._trial = trial
        self._keys = keys
        self._rules = rules
        self._now = now
        self._claims: dict[str, _Claim] = {}
        self._total: Int64s = np.zeros_like(trial.free)
        """What is kept, shape (resources, nodes)."""
        self._shifted: list[Indices] = []
        """Nodes of which something was kept, or given back, since `take_shifted` was called."""
        self._rank: int | None = None
        self._closed = _elsewhere(view, trial)

    def begin(self, lines: Mapping[str, Sequence[Gang]]) -> Work[None]:
        """Choose the gangs that collect, and their nodes: before any gang has its turn. `lines` has the gangs of each
        queue, best first (`order.gang_key`).
        """
        planned = {one.owner for one in self._view.reservations}
        oldest: list[list[Gang]] = []
        for name in self._rules:
            oldest.append((yield from self._oldest(name, lines.get(name, ()), planned)))
        if any(oldest) and self._trial.pod_affinity is not None:
            # What gangs ask for is looked up as the view has it, without the terms that select their pods.
            of = {gang.uid for line in oldest for gang in line}
            seen = {gang.uid: gang for gang in self._view.gangs if gang.uid in of}
            self._trial.meter.spent += 10 * len(self._view.gangs)
            oldest = [[seen[gang.uid] for gang in line] for line in oldest]
            yield
        for at, line in enumerate(oldest):
            oldest[at] = yield from self._payable(line)
        for gang in sorted((line[0] for line in oldest if line), key=_age):
            yield from self._claim(gang, None)
        held: dict[str, Int64s] = {}
        for gang in sorted((gang for line in oldest for gang in line[1:]), key=_age):
            before = held.setdefault(gang.queue, np.zeros(len(self._trial.free), np.int64))
            yield from self._claim(gang, before)

    def _oldest(self, queue: str, line: Sequence[Gang], planned: Container[str]) -> Work[list[Gang]]:
        """The oldest of its gangs that may collect room: those of one priority stand together, the oldest first."""
        after = self._rules[queue].after_seconds * _SECOND
        latest = self._now - after
        found: list[Gang] = []
        end, meter = 0, self._trial.meter
        while (first := end) < len(line):
            end = bisect_right(line, _priority(line[first]), first, key=_priority)
            most = len(found) + _MOST
            meter.spent += 500
            for at in range(first, end):
                gang = line[at]
                if gang.created > latest:
                    moment = gang.created + after
                    self.next = moment if self.next is None else min(self.next, moment)
                    break
                if len(found) == most:
                    break
                if gang.waiting and not gang.placed and gang.uid not in planned:
                    found.append(gang)
                meter.spent += 20
                if meter.due():
                    yield
            if meter.due():
                yield
        return nsmallest(_MOST, found, key=_age)

    def _payable(self, line: Sequence[Gang]) -> Work[list[Gang]]:
        """Those of the gangs that their queue could pay for if it paid for nothing else."""
        found: list[Gang] = []
        for gang in line:
            members, _, enough = chosen(gang)
            if not members or not enough or not len(self._trial.nodes):
                continue
            key = yield from self._keys.of(gang, members)
            if self.quota.ever(gang.queue, key.demand):
                found.append(gang)
            yield
        return found

    def _claim(self, gang: Gang, held: Int64s | None) -> Work[None]:
        """Choose nodes for the gang; with `held`, what others of its queue collect besides the oldest, shape
        (resources,), only if the policy's share leaves it so much, which is added.
        """
        members, _, _ = chosen(gang)
        key = yield from self._keys.of(gang, members)
        if key.ruled:
            return
        spec = self._view.queues[gang.queue].spec
        wanted = held
        if held is not None:
            total = self._trial.feasibility.total(spec.node_selector)
            wanted = held + sum(column.needs_vector * pods for column, pods in key.groups)
            # In whole numbers, so that no rounding decides; memory of all nodes in bytes times 100 fits.
            if np.any(wanted * 100 > total * self._rules[gang.queue].most_held_percent):
                return
        found = self._nodes_for(gang, key)
        if self._trial.meter.due():
            yield
        if found is None:
            return
        if held is not None and wanted is not None:
            held[:] = wanted
        amounts, domain = found
        rows = np.flatnonzero(amounts.any(axis=0))
        self._closed[rows] = True
        self.collected = True
        self._claims[gang.uid] = _Claim(gang, spec.priority, rows, amounts[:, rows], domain)
        if held is None:
            self.quota.begin(gang.uid, gang.queue, key.demand)

    def _nodes_for(self, gang: Gang, key: SchedulingKey) -> tuple[Int64s, str] | None:
        """What the gang collects on which nodes, shape (resources, nodes), and in which domain; None where all nodes,
        or all of one domain if it must be in one, could not hold it.

        Of several domains it is the one where most is free of that: so it stays the same as long as no other one has
        more, and what is collected never becomes less. Of equals a narrow one goes before a wide one.
        """
        if gang.topology != "Required":
            amounts, able = self._spread(key, np.zeros(len(self._trial.nodes), np.intp), 1)
            return (amounts, "") if able.all() else None
        best, found = -1, None
        for level in gang.levels:
            of, names = self._trial.feasibility.domains(level)
            amounts, able = self._spread(key, of, len(names))
            firsts = sorted({_first(column) for column, _ in key.groups})
            free = np.minimum(np.maximum(self._trial.free[firsts], 0), amounts[firsts]).sum(axis=0)
            there = np.where(able, np.bincount(of, weights=free, minlength=len(names) + 1)[:-1], -1)
            at = int(there.argmax()) if len(names) else 0
            if len(names) and there[at] > best:
                best, found = int(there[at]), (np.where(of == at, amounts, 0), f"{level} {names[at]}")
        return found

    def _spread(self, key: SchedulingKey, of: Indices, domains: int) -> tuple[Int64s, Mask]:
        """Choose nodes for all pods in each of so many domains, those with the most room first; `of` is the domain of
        each node, or a number from `domains` on. Returns what is needed there, shape (resources, nodes), and which
        domains have enough.
        """
        trial = self._trial
        amounts = np.zeros_like(trial.free)
        enough = np.ones(domains, np.bool_)
        for column, pods in key.groups:
            room = np.where(self._closed | (of >= domains), 0, column.rooms(trial.nodes.static.allocatable - amounts))
            for parts in column.divided:
                room[parts.of.nodes] = 0  # what is collected is counted in sum, not card by card
            able = np.flatnonzero(room > 0)
            order = able[np.lexsort((-trial.free[_first(column), able], of[able]))]
            takes = np.minimum(room[order], pods)
            before = np.cumsum(takes) - takes
            where = of[order]
            begins = np.searchsorted(where, where)  # the first of the same domain
            counts = np.clip(pods - (before - before[begins]), 0, takes)
            enough &= np.bincount(where, weights=counts, minlength=domains) >= pods
            amounts[:, order] += column.needs_vector[:, None] * counts
        self._trial.meter.spent += 10 * amounts.size * len(key.groups)
        return amounts, enough

    # ---- in the cycle

    def focus(self, rank: int) -> None:
        """Gangs of queues with this priority have their turns now: room of those below is theirs."""
        if rank == self._rank:
            return
        self._rank = rank
        for claim in self._claims.values():
            if (claim.rank >= rank) != (claim.taken is not None):
                if claim.taken is None:
                    self._keep(claim)
                else:
                    self._give(claim)

    @property
    def collects(self) -> bool:
        """Whether room is collected for any gang now."""
        return bool(self._claims)

    def has(self, gang: Gang) -> bool:
        """Whether room is collected for the gang."""
        return gang.uid in self._claims

    def of(self, queue: str) -> list[Gang]:
        """The gangs of a queue for which room is collected."""
        return [claim.gang for claim in self._claims.values() if claim.gang.queue == queue]

    def turn(self, gang: Gang) -> bool:
        """It is the gang's turn: what is kept for it is free, if anything is. Returns whether it is."""
        claim = self._claims.get(gang.uid)
        if claim is None or claim.taken is None:
            return False
        self._give(claim)
        self.quota.open(gang.uid)
        return True

    def goes_on(self, gang: Gang) -> None:
        """The gang waits on: what is free now is kept for it."""
        self._keep(self._claims[gang.uid])
        self.quota.close(gang.uid)

    def started(self, gang: Gang) -> bool:
        """The gang has its places; whether room had been collected for it."""
        self.quota.end(gang.uid)
        return self._claims.pop(gang.uid, None) is not None

    def told(self, gang: Gang) -> Reason:
        """What is collected for the gang, as one of the reasons that it waits for."""
        claim = self._claims[gang.uid]
        return explain.collects(gang, len(claim.rows), claim.domain, quota=self.quota.counts(gang.uid))

    def own(self, gang: Gang) -> dict[int, list[int]]:
        """What is kept now of what the gang collects, by row of the node and resource."""
        claim = self._claims[gang.uid]
        if not claim.mark or claim.taken is None:
            return {}
        return dict(zip(claim.rows.tolist(), claim.taken.T.tolist(), strict=True))

    def stands(self, gang: Gang) -> bool:
        """Whether as much would be kept for the gang after its turn as is now."""
        claim = self._claims[gang.uid]
        if claim.taken is None:
            return False
        free = self._trial.free[:, claim.rows] + claim.taken
        return np.array_equal(np.minimum(np.maximum(free, 0), claim.amounts), claim.taken)

    def kept_from(self, gang: Gang) -> Int64s | None:
        """What is kept from the gang for others, shape (resources, nodes); None for nothing."""
        if not self.kept:
            return None
        found = self._total.copy()
        claim = self._claims.get(gang.uid)
        if claim is not None and claim.mark and claim.taken is not None:
            found[:, claim.rows] -= claim.taken
        return found

    def if_none_is_kept(self) -> There:
        """What would be free, on the nodes where anything is kept, if nothing was."""
        kept = [claim for claim in self._claims.values() if claim.mark and claim.taken is not None]
        rows = np.concatenate([claim.rows for claim in kept])
        taken = np.concatenate([claim.taken for claim in kept if claim.taken is not None], axis=1)
        order = np.argsort(rows)
        return There(rows[order], self._trial.free[:, rows[order]] + taken[:, order])

    def take_shifted(self) -> Indices:
        """The nodes of which something was kept, or given back, since the last call; some may be named twice."""
        shifted, self._shifted = self._shifted, []
        return np.concatenate(shifted) if shifted else np.zeros(0, np.intp)

    def _keep(self, claim: _Claim) -> None:
        free = np.maximum(self._trial.free[:, claim.rows], 0)
        claim.taken = np.minimum(free, claim.amounts)
        some = claim.taken.any(axis=0)
        claim.mark = 0
        if some.any():
            same = claim.rows[some].tobytes() + np.ascontiguousarray(claim.taken[:, some]).tobytes()
            claim.mark = int.from_bytes(blake2b(same, digest_size=16).digest())
        self._shift(claim, -1)

    def _give(self, claim: _Claim) -> None:
        self._shift(claim, 1)
        claim.taken = None

    def _shift(self, claim: _Claim, sign: int) -> None:
        if not claim.mark:
            return
        # Two claims share no node, so the order in which they come does not matter.
        self.kept ^= claim.mark
        self._shifted.append(claim.rows)
        change = np.zeros_like(self._trial.free)
        assert claim.taken is not None
        change[:, claim.rows] = sign * claim.taken
        self._total -= change
        self._trial.shift(change)


def rules_of(queue: QueueState, policy: Starvation | None) -> Starvation | None:
    """When gangs of the queue collect room: as it says itself, else as the policy does; None for never."""
    own = queue.spec.starvation
    if queue.spec.ordering != "Backfill" or own is None:
        return policy if queue.spec.ordering == "Backfill" else None
    base = policy or Starvation(after_seconds=0)
    after = base.after_seconds if own.after_seconds is None else own.after_seconds
    share = base.most_held_percent if own.most_held_percent is None else own.most_held_percent
    return Starvation(after, share) if after else None


def _first(column: ClassFit) -> int:
    """The resource by which nodes are compared for pods of this class, as row: cards where they ask for any."""
    if column.card_names:
        return column.trial.resource_rows[column.card_names[0]]
    return column.needs[0][0] if column.needs else 0


def _priority(gang: Gang) -> tuple[bool, int]:
    """What comes before the age in the order of a queue."""
    return not gang.refilling, -gang.priority


def _age(gang: Gang) -> tuple[int, str, str]:
    """The order of age in a queue (`order.gang_key`): gangs that were created in the same second go by name."""
    return gang.created, gang.name, gang.uid


def _elsewhere(view: View, trial: Trial) -> Mask:
    """Nodes on which no room is collected: something is reserved there, or a start is planned."""
    closed = np.zeros(len(trial.nodes), np.bool_)
    index = trial.nodes.static.index
    rows = [index[one.node] for one in view.reservations if one.node in index]
    rows += [index[name] for room in view.reserved for name in room.nodes if name in index]
    closed[rows] = True
    return closed
