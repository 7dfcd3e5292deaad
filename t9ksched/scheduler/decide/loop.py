"""The scheduling loop: wait for a change, take a view, plan, charge, hand over. It runs only after a change that could
let a gang start; an idle cluster costs nothing, and one that never stands still a share of a core (`pace.py`). A plan
is made in slices, so that the event loop is never blocked for long, and the decisions of a slice are bound while the
rest is planned; charging a decision checks it against changes since the view.
"""

import asyncio
import contextlib
import time as clock_of
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

import msgspec
import structlog

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Assignment, Plan, Planner
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import ExpectedEnd, Gang
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.act.evictable_gangs import EvictableGangs
from t9ksched.scheduler.act.executor import Executor
from t9ksched.scheduler.act.preemption import Evictor
from t9ksched.scheduler.decide.pace import Pace
from t9ksched.scheduler.decide.plugins import PluginWatch
from t9ksched.scheduler.decide.standstill import stopped, tell_stopped
from t9ksched.scheduler.decide.telling import Telling
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.report.plan_moves import PlanMoves
from t9ksched.scheduler.state.snapshot import snapshot
from t9ksched.scheduler.state.state import ClusterState

log = structlog.get_logger(__name__)

AGAIN_SECONDS: Final = 1.0
"""Seconds after a cycle that placed a gang, planned a start or kept room for lost members until those that wait are
judged again: some reasons name room that is taken now."""
SLICE_SECONDS: Final = 0.005
"""How long planning goes on before other tasks run: decisions are bound while the rest is planned."""
_WORK_A_STEP: Final = 100_000
"""Units of planning, about a millisecond, between two checks of the clock."""
_MOST_ROUNDS: Final = 20
"""So often a cycle looks again at what changed of those that run while it looked at them."""
FINDING_SECONDS: Final = 1.0
"""How long a gang of an unknown queue waits for the queues to be read again."""
_PLACES_NAMED: Final = 8
_MOST_MOVING: Final = 20
"""So many cycles follow one another at once because plans moved."""


Watcher = Callable[[View, Policy, int], None]
"""Is shown a view, the policy it is planned with, and the time, in nanoseconds since the epoch."""


class LoopStats(msgspec.Struct):
    """What the loop did since it started."""

    cycles: int = 0
    dropped: int = 0
    """Gangs whose decision no longer held when it was to be charged."""


class _Handed(msgspec.Struct):
    """How much of a plan in the making has been handed over, and of which gangs."""

    count: int = 0
    gangs: set[str] = msgspec.field(default_factory=set)


class Loop:
    """Decides until cancelled. `clock` gives nanoseconds since the epoch.

    With `observe` it only says what it would do.
    """

    def __init__(
        self,
        state: ClusterState,
        executor: Executor,
        recorder: HistoryRecorder,
        policy: Policy,
        clock: Callable[[], int],
        *,
        evictor: Evictor | None = None,
        observe: bool = False,
    ) -> None:
        self._evictor = evictor
        self._observe = observe
        self._state = state
        self._executor = executor
        self._recorder = recorder
        self._clock = clock
        self._memory = Memory()
        self._said = state.feed.said.follow()
        self._wake = asyncio.Event()
        self._woken_at = 0.0
        """When the first change came that no cycle has seen yet, by the steady clock."""
        self.policy = policy
        self.stats = LoopStats()
        self.plan_moves = PlanMoves(state, recorder)
        self.paused = False
        """Nothing is planned while this is set; waiting gangs have the stop as their reason."""
        self.may_evict = True
        self._outdated: float | None = None
        """When a cycle took room after others had got reasons that name it as free."""
        self._again: tuple[int | None, ...] = ()
        """When time alone may let a plan find otherwise than the latest one."""
        self.find_queues: Callable[[], Awaitable[None]] | None = None
        """Reads queues that were made a moment ago; they are known to the state when it returns."""
        self._finding: asyncio.Future[None] | None = None
        self._moving = 0
        """How many of the latest cycles moved plans, one after the other."""
        self.rests = asyncio.Event()
        """Set while no cycle is carried out."""
        self.rests.set()
        self.told: Callable[[], None] = lambda: None
        """Called when gangs have got their reasons and planned starts."""
        self._telling = Telling(state, recorder)
        self._watchers: list[Watcher] = []
        self.plugins: PluginWatch | None = None
        """Is told of plugins that fail."""

    def wake(self) -> None:
        """Something changed that could let a gang start."""
        if not self._wake.is_set():
            self._woken_at = clock_of.monotonic()
            self._wake.set()

    def show_next(self, watcher: "Watcher") -> None:
        """Call it with the view, the policy and the time of a cycle that begins now, or of a look where nothing is
        planned; at that moment the view is as the state is.
        """
        self._watchers.append(watcher)
        self.wake()

    def _show(self, view: View, policy: Policy, now: int) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher(view, policy, now)

    async def run(self) -> None:
        """One cycle after each change, until cancelled."""
        pace, time = Pace(), asyncio.get_running_loop().time
        while True:
            await self._wait()
            await asyncio.sleep(pace.pause(time()))
            woken = self._woken_at if self._wake.is_set() else 0.0
            self._wake.clear()
            await self._meet_queues()
            began = time()
            self.rests.clear()
            if self.paused:
                await self._stand_still()
            else:
                await self.cycle()
                self._timed(woken, began, time())
            self.rests.set()
            pace.cycle(began, time())

    def _timed(self, woken: float, began: float, ended: float) -> None:
        """A cycle took so long, on the event loop's clock; `woken` is when its first change came, 0 for none."""
        self._state.meters.cycle.observe(ended - began)
        if woken:
            self._state.meters.event_to_decision.observe(clock_of.monotonic() - woken)

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause()):
                await self._wake.wait()

    def _pause(self) -> float | None:
        """Seconds until the next cycle if nothing changes; None for ever."""
        moments = [self.plan_moves.due, self._state.next_retry(planning=not self.paused)]
        if not self.paused:
            moments += self._again
        pauses = [(moment - self._clock()) / 1e9 for moment in moments if moment is not None]
        if self._telling.due is not None:
            pauses.append(self._telling.due - asyncio.get_running_loop().time())
        if self._outdated is not None:
            pauses.append(self._outdated + AGAIN_SECONDS - asyncio.get_running_loop().time())
        return max(0.0, min(pauses)) if pauses else None

    async def _meet_queues(self) -> None:
        """Read the queues again before a gang gets the reason that its queue does not exist: it may be new.

        A database that does not answer is not waited for longer than a moment, and not asked while it is away.
        """
        unknown = self._state.unknown_queues
        if not unknown or self.find_queues is None or self._state.outage.away:
            return
        named, known = set(unknown), self._state.queues
        unknown.clear()
        if named <= known.keys():
            return
        if self._finding is None or self._finding.done():
            self._finding = asyncio.ensure_future(self.find_queues())
        await asyncio.wait({self._finding}, timeout=FINDING_SECONDS)

    async def _stand_still(self) -> None:
        """Nothing is planned now; new gangs are accepted or refused all the same, and waiting ones get the stop as
        their reason.
        """
        now = self._clock()
        view = await self._view(now)
        self._show(view, self._effective(self._evictor), now)
        reason = stopped(self._state.stops)
        self.plan_moves.stand_still(reason.message, self._state.resolution, now)
        self._telling.forget()
        self._outdated = None
        await tell_stopped(view, reason, self._recorder, now)

    async def _view(self, now: int, evictable: EvictableGangs | None = None) -> View:
        """A view of the present, taken in steps: many jobs may have come at once, and each is judged once. What
        `evictable` is to look at is looked at, too.
        """
        for refused in self._state.turned_away(now):
            self._recorder.turned_away(refused, now)
        ends = await self._expected_ends(now)
        gangs = await self._judged(now)
        steps = rounds = 0
        for steps, _ in enumerate(self._state.affinity_index.label(gangs), start=1):  # noqa: B007
            await asyncio.sleep(0)
        if evictable is not None:
            # At a start those that run are accepted as they are, and so change, while they are looked at.
            while rounds < _MOST_ROUNDS and await evictable.take_in(now):
                rounds += 1
        if steps or rounds:
            gangs = await self._judged(now)  # some may have changed since
        if self.policy.planning is not None and self._state.enforced_ends is not None:
            ends = self._state.enforced_ends.at_once(now)  # pods may have gone since
        return snapshot(self._state, gangs, expected_ends=ends, advance=self._state.advance.rooms(now))

    async def _judged(self, now: int) -> tuple[Gang, ...]:
        """The gangs that wait, as they are when this returns."""
        steps = self._state.judge(now)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                gangs: tuple[Gang, ...] = end.value
                return gangs
            finally:
                self._told(now)
            await asyncio.sleep(0)

    async def _expected_ends(self, now: int) -> tuple[ExpectedEnd, ...]:
        """When running groups end, for a policy that plans starts, or while room is reserved; taken in steps."""
        planning, book = self.policy.planning, self._state.advance
        if planning is not None:
            book.look_ahead(planning.horizon_seconds * 1_000_000_000)
        if planning is None and not book:
            self._state.expect_no_ends()
            return ()
        grace = self.policy.preemption.max_grace_seconds
        steps = self._state.expect_ends(self.policy.start_timeout_seconds, grace).follow(now)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: tuple[ExpectedEnd, ...] = end.value
                return found if planning is not None else ()
            await asyncio.sleep(0)

    def _told(self, now: int) -> None:
        """Record the gangs that a view accepted, and report those that it refused."""
        self._recorder.accepted()
        for gang in self._said.take():
            self._recorder.waits(gang.uid, gang.reasons, None, now)

    async def cycle(self) -> Plan:
        """Plan on a frozen view, charge what still holds, hand it to the executor."""
        now = self._clock()
        for _ in self._state.changes.settling():
            await asyncio.sleep(0)
        for _ in self._state.following_losses(now):
            await asyncio.sleep(0)
        may_evict = self.may_evict and not self._state.outage.away  # no promise can be written
        evictor = self._evictor if may_evict and "preempt" in self.policy.actions else None
        if evictor is None and self._evictor is not None:
            self._evictor.evictable.rest()
        view = await self._view(now, None if evictor is None else evictor.evictable)
        now = self._clock()
        if evictor is not None:
            view = replace(view, running=evictor.evictable.running(now))
        policy = self._effective(evictor)
        self._show(view, policy, now)
        await asyncio.sleep(0)
        planner = Planner(view, policy, now, self._memory)
        time = asyncio.get_running_loop().time
        slice_ends = time() + SLICE_SECONDS
        handed = _Handed()
        while not planner.step(_WORK_A_STEP):
            if time() > slice_ends:
                await self._hand_over(planner.assignments, handed)
                await asyncio.sleep(0)
                slice_ends = time() + SLICE_SECONDS
        await self._hand_over(planner.assignments, handed)
        plan = planner.result()
        planner.close()
        await asyncio.sleep(0)  # the last decisions, and the reasons of what waits, are pieces of their own
        self.stats.cycles += 1
        if self.plugins is not None:
            self.plugins.cycle(plan.faults)
        await self._carry_out(view, plan)
        self._state.end_idle_promises(self._clock(), evicting=self._evictor is not None and self._evictor.busy)
        return plan

    def _effective(self, evictor: Evictor | None) -> Policy:
        """The policy of a cycle; without an evictor it preempts nothing."""
        if evictor is None:
            return replace(self.policy, actions=("allocate",))
        if self.policy.planning is None:
            return self.policy
        # Plans make way for a preemptor as long as its victims may take: no longer than any pod may.
        rules = self.policy.preemption
        grace = min(rules.max_grace_seconds, self._state.longest_grace)
        return replace(self.policy, preemption=replace(rules, max_grace_seconds=grace))

    async def _hand_over(self, assignments: Sequence[Assignment], handed: _Handed) -> None:
        """Charge the decisions since the last call and start their bindings; none once scheduling was stopped."""
        if self.paused:
            return
        now = self._clock()
        by_gang: dict[str, list[Assignment]] = {}
        for assignment in islice(assignments, handed.count, None):
            by_gang.setdefault(assignment.gang, []).append(assignment)
        handed.count = len(assignments)
        time = asyncio.get_running_loop().time
        slice_ends = time() + SLICE_SECONDS
        for uid, decided in by_gang.items():
            if self._observe:
                self._recorder.waits(uid, (self._would_start(decided),), None, now)
                continue
            if uid in handed.gangs and not self._stands(uid):
                continue  # members above a minimum that has no place any more
            handed.gangs.add(uid)
            for _ in self._state.storage.settling():  # what changed since the view may forbid the decision
                await asyncio.sleep(0)
            accepted = self._state.assume(uid, decided, now)
            if not accepted:
                self.stats.dropped += 1
                continue
            self._recorder.placed(uid, now)
            self._executor.submit(accepted)
            if time() > slice_ends:
                await asyncio.sleep(0)
                slice_ends = time() + SLICE_SECONDS

    def _stands(self, uid: str) -> bool:
        gang = self._state.gangs_by_uid.get(uid)
        return gang is not None and gang.complete()

    def _plan_ahead(self, view: View, plan: Plan, now: int) -> bool:
        """Take over the planned starts, and tell of those that moved. Returns whether any is another than before."""
        planning = self.policy.planning
        if not (planning or self._state.reservations.planned or self.plan_moves.due is not None):
            return False
        resolution = planning.resolution_seconds * 1_000_000_000 if planning else self._state.resolution
        moves = self._state.plan_starts(plan.planned, resolution)
        self.plan_moves.follow(moves, view, plan, self.policy, resolution, now)
        moved = any(move.before is not None for move in moves.values())
        self._moving = self._moving + 1 if moved else 0
        if 0 < self._moving <= _MOST_MOVING:
            self.wake()  # what was planned before a plan moved may start sooner now
        return bool(moves) and self._moving <= _MOST_MOVING

    async def _carry_out(self, view: View, plan: Plan) -> None:
        """The rest of a plan: the reasons of waiting gangs, and the victims to evict."""
        now = self._clock()
        waits = bool(plan.waiting or plan.surplus)
        self._again = plan.again, self._evictor.evictable.next_forgotten() if self._evictor is not None else None
        self._state.refills.found(plan.kept)
        taken = self._plan_ahead(view, plan, now) or plan.kept or (plan.assignments and not self._observe)
        self._outdated = asyncio.get_running_loop().time() if taken and waits else None
        # A stop may have come since the cycle began.
        if plan.evictions and self._evictor is not None and self.may_evict and not (self.paused or self._observe):
            self._evictor.submit(plan, self.policy.preemption.max_grace_seconds)
        await self._telling.tell((*plan.waiting, *plan.surplus), now)
        self._state.progress.other_numbers.publish(asyncio.get_running_loop().time())
        self._recorder.wake()
        self.told()

    def _would_start(self, decided: list[Assignment]) -> Reason:
        """What the plan would do with a gang, as the reason that an observer shows instead of doing it."""
        places = []
        for assignment in decided[:_PLACES_NAMED]:
            record = self._state.pods.get(assignment.pod)
            indices = ",".join(str(index) for _, _, cards in assignment.cards for index in cards)
            name = record.name if record else assignment.pod
            places.append(f"{name} on {assignment.node}" + (f" (cards {indices})" if indices else ""))
        if (more := len(decided) - len(places)) > 0:
            places.append(f"{more} more")
        return Reason(
            Code.PLANNED_START,
            f"would start now, {', '.join(places)}: this t9ksched only observes",
            unblocks=("start t9ksched without --observe",),
        )
