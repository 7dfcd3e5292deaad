"""Judges waiting groups before each plan: accepted or refused, with the reason that users see.

This changes records, acceptances and reasons; taking the view of what may start (`snapshot.py`) changes nothing.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

from t9ksched.engine.explain import queue_closed
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.start_windows import next_change
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.asks import NOTHING_ASKED, asks_nothing
from t9ksched.scheduler.state.change_feed import Cursor
from t9ksched.scheduler.state.dependencies import root_asks
from t9ksched.scheduler.state.limits import limit_asked
from t9ksched.scheduler.state.missing_members import MissingMembers
from t9ksched.scheduler.state.node_backoff import NO_NODES
from t9ksched.scheduler.state.records import GangRecord, job_of
from t9ksched.scheduler.state.standing import NEXT_PASS, Judgement, Standing
from t9ksched.scheduler.state.start_times import too_early

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_WORK_A_STEP: Final = 400
"""How many groups with an earlier verdict one step checks, of which each takes up to 20 µs."""
_STOOD: Final = 0.1
"""The cost of seeing that nothing that decides changed of a group, relative to such a check."""


class _Seen:
    """The groups that a pass has looked at.

    Attributes:
        changes: their change counters at that time.
        outdated: groups among those that may start, or were looked at, that changed since.
    """

    def __init__(self) -> None:
        self.changes: dict[GangRecord, int] = {}
        self.outdated: dict[GangRecord, None] = {}


class AdmissionPass:
    """Judges the groups of a state that wait. All times are nanoseconds since the epoch, passed in.

    A verdict stands from pass to pass, as long as nothing changed that it read: what a pass costs follows what changed,
    and the groups whose verdict does not stand.

    Attributes:
        ends: when skipped groups may be judged again: the end of the wait for a submitter's record, of a rest after
            evictions, or of the pause after a start that took too long; the start that was asked for. Also when start
            windows of queues in which groups wait begin or end.
    """

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self.ends: list[int] = []
        self._missing = MissingMembers(state)
        self._standing = Standing(state)
        self._changing: Cursor[GangRecord] | None = None
        """Groups that change; None before the first pass."""
        self._due: dict[GangRecord, None] = {}
        """Groups that wait and are looked at in the next pass: all whose verdict does not stand."""
        self._doubted: dict[str, None] = {}
        """UIDs of owners of which something changed that may decide about their groups."""
        self._starting: dict[GangRecord, Gang | None] = {}
        """The groups that were looked at, in the order in which they began to wait; None for one that may not start."""

    def run(self, now: int) -> Generator[None, None, tuple[Gang, ...]]:
        """Judge waiting groups, in steps of a few milliseconds, between which the event loop may do other work. Groups
        that changed since their step are judged again in the last one; if they are too many for a step, and for groups
        that came meanwhile, that is done in the next pass.

        A verdict that was made in an earlier step counts, as it does while a plan is being made.
        """
        seen = _Seen()
        yield from self._judge_all(seen, now)
        return self._as_of_now(seen, now)

    def _judge_all(self, seen: _Seen, now: int) -> Generator[None, None, None]:
        """Judge each group once that does not stand."""
        self._state.gate.begin()
        self._state.node_backoff.forget(now)
        self._state.preemption_backoff.forget(now)
        yield from self._state.changes.settling()
        yield from self._state.arrays.begin()
        self.ends = self._state.membership.show(now)
        self._state.accept_running(now)
        self._state.follow_losses(now)
        resting = self._state.resting(now)
        pending = self._state.pending
        self._note_changes(seen)
        self._note_fallen(now)
        looks, spent = self._in_order(), 0.0
        while looks or (looks := self._next_ones()):
            record = looks.pop()
            if record in resting or record not in pending:
                continue
            if self._standing.holds(record):
                del self._due[record]
                spent += _STOOD
            else:
                spent += self._look(record, now, seen)
            if spent >= _WORK_A_STEP:
                yield
                spent = 0
                self._state.gate.begin()
                self._note_changes(seen)
                if self._note_fallen(now):
                    looks = [record for record in self._in_order() if record not in seen.changes]

    def _in_order(self) -> list[GangRecord]:
        """The groups to look at; those that have waited for longest are last."""
        pending = self._state._pending
        if len(self._due) == len(pending):
            return list(reversed(pending))
        return sorted(self._due, key=pending.__getitem__, reverse=True)

    def _next_ones(self) -> list[GangRecord]:
        """Groups that others were to come before and whose turn it may be now: elements of arrays, and those beyond
        the limits on jobs that wait. The one that has waited for longest is last.
        """
        state, pending = self._state, self._state._pending
        found = dict.fromkeys((*state.arrays.to_judge(), *state.waiting_jobs.to_judge()))
        again = [record for record in found if record in pending]
        for record in again:
            self.doubt(record)
        return sorted(again, key=pending.__getitem__, reverse=True)

    def _note_changes(self, seen: _Seen) -> None:
        """Find out which groups changed, came and went."""
        if self._changing is None:
            self._changing = self._state.feed.holding.follow()
        pending = self._state.pending
        for record in self._changing.take():
            if (other := self._standing.beside(record)) is not None:
                self.doubt(other)
            if record not in pending:
                self._standing.drop(record)
                self._starting.pop(record, None)
                self._due.pop(record, None)
                self._state.arrays.forget(record)
                continue
            self._due[record] = None
            starting = self._starting.get(record) is not None
            if (changes := seen.changes.get(record)) is None:
                outdated = starting and not self._standing.holds(record)
            else:
                outdated = record.changes != changes or (record.stale and starting)
            if outdated:
                seen.outdated[record] = None

    def doubt(self, record: GangRecord) -> None:
        """The verdict on a group may be another: it is looked at in the next pass, if it waits."""
        if self._standing.drop(record):
            self._due[record] = None

    def doubt_owned(self, owner: str) -> None:
        """The same of the groups of an owner, and of what it owns; of thousands of its pods they are looked up once."""
        self._doubted[owner] = None

    def _note_fallen(self, now: int) -> bool:
        """Look again at the groups whose verdicts fell because of something else; whether there are any."""
        doubted, self._doubted = self._doubted, {}
        fallen = self._standing.fallen(now)
        if fallen is None:
            self._due = dict.fromkeys(self._state._pending)
            return True
        self._due |= dict.fromkeys(fallen)
        for owner in doubted:
            for uid in self._state.owners.controllers(owner):
                for gang in self._state.gangs_of_owner(uid):
                    self.doubt(gang)
        return bool(fallen or doubted)

    def _as_of_now(self, seen: _Seen, now: int) -> tuple[Gang, ...]:
        """The gangs at this moment: only groups that changed since their step are looked at again."""
        self._state.follow_losses(now)
        self._note_changes(seen)
        pending, resting, left = self._state._pending, self._state.resting(now), _WORK_A_STEP
        for record in list(seen.outdated):
            if left > 0 and record in pending and record not in resting:
                left -= self._look(record, now, seen)
        # Those that could not be looked at again are judged in the next pass.
        for record in (self._starting.keys() & resting) | (self._starting.keys() & seen.outdated.keys()):
            self._note(record, Judgement(None))
        gangs = list(filter(None, self._starting.values()))
        for record in self._state.refills.keeping():
            if record not in self._state._pending and (snapshot := record.snapshot()) is not None:
                gangs.append(snapshot)
        gangs += self._missing.look(gangs, now)
        self.ends.extend(self._missing.ends())
        self.ends.extend(self._window_changes(now))
        if (moment := self._standing.next_moment()) is not None:
            self.ends.append(moment)
        if self._state.reservations.promised:
            waiting, by_uid = self._state.pending, self._state.gangs_by_uid
            self._state.reservations.keep_promises_to(lambda uid: by_uid.get(uid) in waiting)
        return tuple(gangs)

    def _look(self, record: GangRecord, now: int, seen: _Seen) -> int:
        """Judge a group for a view and note its snapshot for the engine. Returns the work that this took, in units of a
        check of a group with an earlier verdict.
        """
        before = self._state.gate.work
        verdict = self._shown(record, now)
        seen.changes[record] = record.changes
        seen.outdated.pop(record, None)
        self._note(record, verdict)
        return 1 + self._state.gate.work - before

    def _note(self, record: GangRecord, verdict: Judgement) -> None:
        """Whether the group may start, and whether it is looked at again before something changes."""
        self._starting[record] = verdict.gang
        if self._standing.keep(record, verdict):
            self._due.pop(record, None)
        else:
            self._due[record] = None

    def _shown(self, record: GangRecord, now: int) -> Judgement:
        """What a waiting group may do; where it may not be placed, the reason is recorded."""
        state = self._state
        jobs, outage = state.waiting_jobs, state.outage
        if jobs.refused and jobs.stands(record):
            return Judgement(None, None)
        state.changes.take_control(record)
        control = record.control
        if record.virtual and state.foreign.held:
            told, again = state.foreign.awaited(record, now)
            if again:
                self.ends.append(again)
                return self._refused(record, told) if told is not None else Judgement(None)
        if (unfit := _unfit(record)) is not None:
            ours = record.kept_out is None and not record.foreign
            return self._refused(record, unfit, None if ours else NEXT_PASS)
        if outage.unread and (unknown := outage.refusal(record)) is not None:
            return self._refused(record, unknown)
        # Asked first: of thousands beyond a limit none is worth the other rules.
        if record.acceptance is None and (over := jobs.refusal(record, state._pending.get(record, 0))) is not None:
            return self._refused(record, over, None)
        if (kept_back := self._unpermitted(record, now)) is not None:
            return kept_back
        clock = state.clocks.of(record) if state.clocks.by_job else None
        if clock is not None and (late := state.clocks.refusal(record, limit_asked(state, record), control, now)):
            if clock.run.retry_at > now:
                self.ends.append(clock.run.retry_at)
            return self._refused(record, late)
        queue = state.queues.get(record.queue)
        if queue is not None and queue.draining and not state.gate.started(record):
            # One of an owner starts once another group of its root has a place.
            alone = record.owner is None and record.acceptance is not None
            return self._refused(record, queue_closed(queue.name, draining=True), None if alone else NEXT_PASS)
        if record.acceptance is None:
            state.gate.accept(record, now)
            jobs.let_in(record)
        # Most of many thousands ask for nothing, and did not before.
        asked_before = record.asked is not NOTHING_ASKED or record.start_after or record.reservation
        asks = asked_before or not asks_nothing(record)
        if asks and (unmet := state.dependencies.refusal(record)) is not None:
            return self._while_alone(record, unmet, None)
        if asks and (early := too_early(state, record, now)) is not None:
            self.ends.append(record.start_after)
            return self._while_alone(record, early, record.start_after)
        away = outage.away
        if away and (unwritten := outage.refusal(record)) is not None:
            return self._refused(record, unwritten)
        # An incomplete gang is completed without a judgement; running groups are not known before SQL was read.
        unrecorded = outage.unread or (away and not record.in_part())
        if unrecorded != record.unrecorded:
            record.unrecorded, record.stale = unrecorded, True
        avoid = state.node_backoff.by(record, now) if state.node_backoff.known else NO_NODES
        if avoid != record.avoid:
            record.avoid, record.stale = avoid, True
        evicts_from = state.preemption_backoff.until(record, now) if state.preemption_backoff.rests else 0
        if evicts_from != record.evicts_from:
            record.evicts_from, record.stale = evicts_from, True
        if evicts_from:
            self.ends.append(evicts_from)
        if (ends := state.enforced_ends) is not None:
            lasts, user = ends.lasts(record), state.permissions.submitter(record) or ""
            if lasts != record.lasts or user != record.user:
                record.lasts, record.user, record.stale = lasts, user, True
        if asks and (full := state.arrays.refusal(record)) is not None:
            return self._refused(record, full, NEXT_PASS if record.acceptance is None else None)
        if asks or state.advance.known or record.groups:
            state.advance.read(record)
        stands = record.start_after <= now and self._standing.may_start_on(record, queue)
        gang = record.snapshot()
        return Judgement(gang, None if stands and gang is not None else NEXT_PASS)

    def _refused(
        self, record: GangRecord, reason: Reason, again: int | None = NEXT_PASS, *, alone: bool = False
    ) -> Judgement:
        """The group may not be placed, for that reason; `again` and `alone` as in a verdict."""
        self._state.refused(record, reason)
        return Judgement(None, again, alone)

    def _while_alone(self, record: GangRecord, reason: Reason, again: int | None) -> Judgement:
        """The group may not be placed, for that reason; `again` as in a verdict. It may as soon as another group of its
        owner has a place. One that is not accepted may turn out to wait for a submitter.
        """
        stands = record.owner is None or len(self._state.gangs_of_owner(record.owner.uid)) == 1
        stands = stands and record.acceptance is not None
        return self._refused(record, reason, again if stands else NEXT_PASS, alone=stands)

    def _window_changes(self, now: int) -> Iterator[int]:
        """When the next start window begins or ends, of each queue in which groups wait."""
        queues, waiting = self._state.queues, self._state.waiting_gangs.counts
        for name in {name for name, _ in waiting}:
            queue = queues.get(name)
            windows = queue.spec.start_windows if queue is not None else ()
            if windows and (change := next_change(windows, now)) is not None:
                yield change

    def _unpermitted(self, gang: GangRecord, now: int) -> Judgement | None:
        """What keeps the group from starting in its queue; None where it may. If its submitter or its owner is not
        known yet, that is reported only after a moment.
        """
        state = self._state
        reason = state.gate.refusal(gang, now)
        may_await = state.advance.known or state.announced.any
        new = reason is None and gang.acceptance is None and gang.owner is not None
        if (
            # The limits of its annotations are part of the acceptance.
            (new and state.owners.awaited(gang) and job_of(gang) not in state.jobs)
            or (reason is None and may_await and self._awaits_submitter(gang))
            or (reason is not None and reason.code == Code.SUBMITTER_UNKNOWN)
            or (reason is not None and reason.refused and not state.owners.root(gang).certain)
        ):
            gang.nameless = gang.nameless or now
            if now < gang.nameless + NAMING_NS:
                self.ends.append(gang.nameless + NAMING_NS)
                return Judgement(None)
        if reason is None:
            if gang.nameless:
                state.announced.forget(gang.uid)
                state.announced.forget(state.owners.root(gang).uid)
            gang.nameless = 0
            return None
        return self._refused(gang, reason, again=None)

    def _awaits_submitter(self, gang: GangRecord) -> bool:
        """Whether the submitter of a new group is not known yet, and it asks for a reservation that may be for its
        submitter only, or REST is about to record who it was and something counts by users: planned starts, or the
        elements of an array that run. A queue that is open to everyone would admit the group without a name.
        """
        state = self._state
        advance, announced = state.advance, state.announced
        if gang.acceptance is not None or state.permissions.submitter(gang):
            return False
        soon = gang.uid in announced or state.owners.root(gang).uid in announced
        if soon and (state.enforced_ends is not None or root_asks(state, gang).array):
            return True
        if not advance.known:
            return False
        held = advance.known.get(advance.asked(gang))
        return held is not None and not advance.admits(held, gang)


def _unfit(gang: GangRecord) -> Reason | None:
    """Why a group cannot be judged at all; None when it can."""
    if gang.kept_out is not None:
        return gang.kept_out
    if not gang.uid and gang.foreign:
        return Reason(Code.GANG_INCOMPLETE, f"{gang.foreign} is not there", unblocks=(f"{gang.foreign} is made",))
    if gang.foreign_fault:
        return Reason(Code.GANG_INCOMPLETE, gang.foreign_fault, unblocks=(f"{gang.foreign} is corrected",))
    if not gang.uid:
        message = f"its pods name the PodGroup {gang.key}, which does not exist"
        return Reason(Code.GANG_INCOMPLETE, message, unblocks=(f"create the PodGroup {gang.key}",))
    if gang.spec_faults:
        message = f"the PodGroup {gang.key} cannot be read: {gang.spec_faults}"
        return Reason(Code.INVALID_POD, message, unblocks=("correct the PodGroup",))
    if gang.control is not None and gang.control.held:
        by = gang.control.by or "a manager"
        return Reason(Code.SCHEDULING_GATED, f"it is held by {by}", unblocks=(f"{by} releases it",))
    return None
