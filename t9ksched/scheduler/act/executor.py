"""Carries out placements: many bindings in flight, each outcome with its own reaction. The placements of a plan are
charged already. A binding that is refused gives its charge back; one that the server could not take now is sent again;
one whose result is unknown stays charged until reading the pod tells. The number in flight follows the server: halved
when it pushes back, one more after each round that went well. A gang with volumes that wait for a node has all of them
bound before the first of its pods, beside the bindings of others. Which cards of a node that honours indices a pod gets
is written down before it is bound. Bindings with steps of their own take turns by node (`node_turns.py`).
"""

import asyncio
import time as clock_of
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import msgspec
import structlog

from t9ksched.engine.planner import Assignment
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.write import binding as protocol
from t9ksched.kube.write.binding import Binding, Bound, Conflicted, Gone, Outcome, Refused, Throttled, Unknown
from t9ksched.kube.write.dialects.table import dialect_of
from t9ksched.kube.write.volumes import VolumeBinding, prepare_all
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.act.batching import pace
from t9ksched.scheduler.act.cardkeeper import CardKeeper
from t9ksched.scheduler.act.node_turns import NodeTurns
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.card_rows import expected
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.state import ClusterState

log = structlog.get_logger(__name__)

START_IN_FLIGHT: Final = 64
"""Above about 128 a real server's priority and fairness begins to refuse most of an ordinary user's requests."""
MOST_IN_FLIGHT: Final = 112
LEAST_IN_FLIGHT: Final = 4
_MANY: Final = 16
"""The number of bindings in flight above which the event loop gathers their answers."""
_AGAIN: Final = (Throttled, Unknown)
"""After these outcomes a binding is tried again."""
_PAUSE_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 15.0


class ExecutorStats(msgspec.Struct):
    """What happened to bindings since the start."""

    bound: int = 0
    refused: int = 0
    throttled: int = 0
    unknown: int = 0


class Executor:
    """Binds concurrently. `clock` gives nanoseconds since the epoch."""

    def __init__(
        self,
        client: ClusterPort,
        state: ClusterState,
        recorder: HistoryRecorder,
        clock: Callable[[], int],
        wake: Callable[[], None],
        volumes: protocol.Protocol | None = None,
        cards: CardKeeper | None = None,
    ) -> None:
        self._client = client
        self._state = state
        self._recorder = recorder
        self._clock = clock
        self._wake = wake
        self._volumes = volumes or VolumeBinding()
        self._cards = cards
        self._unrecorded: deque[list[Binding]] = deque()
        """Bindings whose cards must be recorded first, by gang."""
        self._recording = False
        self._preparing: set[asyncio.Task[None]] = set()
        self._waiting: deque[Binding] = deque()
        self.turns = NodeTurns(client, state, clock, self._react, self._forgotten)
        self._tasks: set[asyncio.Task[None]] = set()
        self._limit = float(START_IN_FLIGHT)
        self._answer_seconds = 0.0
        """The seconds that a binding takes: a moving average."""
        self.stats = ExecutorStats()
        self._decided: dict[str, float] = {}
        """When a place was decided for each pod that is to be bound, by the steady clock."""

    @property
    def in_flight(self) -> int:
        """Bindings under way."""
        return len(self._tasks)

    @property
    def most_in_flight(self) -> int:
        """So many may be under way now; it follows what the server takes."""
        return int(self._limit)

    @property
    def busy(self) -> bool:
        """Whether bindings wait or are under way."""
        return bool(self._waiting or self._tasks or self._preparing or self.turns.busy)

    @property
    def crowded(self) -> bool:
        """Whether so many bindings are under way that less urgent writes should wait."""
        return len(self._tasks) >= _MANY

    def submit(self, assignments: Iterable[Assignment]) -> None:
        """Bind these pods, of one gang; they are charged already."""
        bindings, decided, pods = [], clock_of.monotonic(), self._state.pods
        for assignment in assignments:
            record = pods.get(assignment.pod)
            if record is not None:
                bindings.append(self._binding(assignment, record))
                self._decided[assignment.pod] = decided
        if self._cards is not None and self._cards.note([binding.uid for binding in bindings], self._clock()):
            self._unrecorded.append(bindings)
            if not self._recording:  # else the next write, after the one under way, includes these
                self._recording = True
                self._beside(self._record())
        else:
            self._begin(bindings)

    def _binding(self, assignment: Assignment, record: PodRecord) -> Binding:
        where = (record.namespace, record.name, record.uid, assignment.node)
        claims = tuple(name for name, _ in record.to_bind) if record.to_bind else ()
        cards = {container: indices for container, _, indices in assignment.cards}
        pod_class = record.pod_class
        if not cards or pod_class is None:
            return Binding(*where, cards=cards, claims=claims)
        known = self._state.node_objects.get(assignment.node)
        dialect = dialect_of(known[1] if known is not None else None)
        return Binding(
            *where,
            cards=cards,
            annotations=expected(dialect, pod_class, assignment.grant),
            once=dialect.write_once(pod_class, assignment.grant) if dialect.protocol is not None else {},
            claims=claims,
            protocol=dialect.protocol,
            agrees=dialect.agrees,
        )

    def _begin(self, bindings: list[Binding]) -> None:
        for binding in bindings:
            if binding.claims:
                self._beside(self._prepare(bindings))
                return
        self._enter(bindings)
        if len(self._tasks) < self._limit:
            self._pump()

    def _enter(self, bindings: list[Binding]) -> None:
        for binding in bindings:
            if binding.protocol is None:
                self._waiting.append(binding)
            else:
                self.turns.submit(binding)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._preparing.add(task)
        task.add_done_callback(self._prepared)

    async def _record(self) -> None:
        """Begin bindings once their cards are recorded; gangs that come meanwhile share the next write. Without the
        database a gang's charges are given back, unless some of its members are bound: then it is finished, and
        recorded as soon as the database answers. It waits all the same if the database may have other cards for one of
        its pods.
        """
        assert self._cards is not None
        try:
            while self._unrecorded:
                gangs = list(self._unrecorded)
                self._unrecorded.clear()
                written = await self._cards.write()
                for bindings in gangs:
                    if written:
                        self._begin(bindings)
                        continue
                    pods = [binding.uid for binding in bindings]
                    if not self._cards.must(pods) or (self._finishes(bindings) and not self._cards.contradicted(pods)):
                        self._begin(bindings)
                    else:
                        self._cards.withdraw(pods, self._clock())
                        for uid in pods:
                            self._decided.pop(uid, None)
        finally:
            self._recording = False

    def _finishes(self, bindings: list[Binding]) -> bool:
        """Whether these bindings complete a gang of which other members are bound."""
        record = self._state.pods.get(bindings[0].uid) if bindings else None
        gang = record.gang if record is not None else None
        return gang is not None and gang.in_part({binding.uid for binding in bindings})

    async def _prepare(self, bindings: list[Binding]) -> None:
        """Have the volumes of all pods bound, then bind the pods; else give back the room of all."""
        failed = await prepare_all(self._client, [item for item in bindings if item.claims], self._volumes)
        if not failed:
            self._enter(bindings)
            return
        first = next(iter(failed.values()))
        for binding in bindings:
            self._react(binding, failed.get(binding.uid, first))

    def _prepared(self, task: asyncio.Task[None]) -> None:
        self._preparing.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("preparing a binding failed unexpectedly", exc_info=failure)
        self._pump()

    async def stop(self) -> None:
        """Start no binding and wait for those under way, so that their results are known."""
        self._waiting.clear()
        self._unrecorded.clear()
        await self.turns.stop()
        if self._preparing:
            for task in self._preparing:
                task.cancel()  # the claims keep their selected node, and the next start goes on from there
            await asyncio.wait(self._preparing, timeout=5)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        for task in self._tasks:
            task.cancel()

    def _pump(self) -> None:
        while self._waiting and len(self._tasks) < int(self._limit):
            task = asyncio.create_task(self._work(self._waiting.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._done)
        pace(self._answer_seconds if self.crowded else 0.0)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("binding failed unexpectedly", exc_info=failure)
        self._pump()

    async def _work(self, binding: Binding) -> None:
        """Bind this pod, then one waiting pod after the other while the limit in flight allows it."""
        while True:
            if not self._forgotten(binding):
                started = clock_of.monotonic()
                outcome: Outcome | None = await protocol.run(self._client, binding)
                if isinstance(outcome, _AGAIN):
                    outcome = await self._again(binding, outcome)
                if outcome is not None:
                    self._react(binding, outcome)
                self._answer_seconds += (clock_of.monotonic() - started - self._answer_seconds) / START_IN_FLIGHT
            if not self._waiting or len(self._tasks) > int(self._limit):
                return
            binding = self._waiting.popleft()
            if len(self._tasks) < int(self._limit) or self.stats.bound % _MANY == 0:  # the pace follows the answers
                self._pump()

    async def _again(self, binding: Binding, outcome: Outcome) -> Outcome | None:
        """Try once more, until another outcome; None once the pod needs that place no longer."""
        pause, sent = _PAUSE_SECONDS, False
        while isinstance(outcome, _AGAIN):
            self._limit = max(LEAST_IN_FLIGHT, self._limit / 2)
            await asyncio.sleep(max(pause, getattr(outcome, "retry_after", None) or 0.0))
            pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)
            if self._forgotten(binding):
                return None
            if isinstance(outcome, Unknown):
                self.stats.unknown += 1
                self._state.meters.binds.add("unknown")
                sent = True
                found = await protocol.resolve(self._client, binding, sent=sent)
                outcome = found or await protocol.run(self._client, binding, sent=sent)
            else:
                self.stats.throttled += 1
                self._state.meters.binds.add("throttled")
                outcome = await protocol.run(self._client, binding, sent=sent)
        return outcome

    def _forgotten(self, binding: Binding) -> bool:
        """Whether the pod was deleted, or its place was given up, while its binding waited."""
        record = self._state.pods.get(binding.uid)
        if gone := record is None or record.assumed != binding.node:
            self._decided.pop(binding.uid, None)
        return gone

    def _react(self, binding: Binding, outcome: Outcome) -> None:
        now, decided = self._clock(), self._decided.pop(binding.uid, None)
        self._state.meters.binds.add(type(outcome).__name__.lower())
        match outcome:
            case Bound():
                self.stats.bound += 1
                if decided is not None:
                    self._state.meters.decision_to_bound.observe(clock_of.monotonic() - decided)
                if self._cards is not None:
                    self._cards.bound(binding.uid)
                self._limit = min(MOST_IN_FLIGHT, self._limit + 1 / self._limit)
                record = self._state.pods.get(binding.uid)
                if record is not None:
                    self._state.progress.bound(record)
                    if record.gang is not None:
                        self._recorder.bound(record.gang, record, binding.node, binding.cards, now)
                return
            case Gone():
                reason = Reason(Code.BIND_REFUSED, f"pod {binding.name} went away before it was bound")
                keep = False
            case Conflicted(cause, message, node):
                where = f" on node {node}" if node else ""
                reason = Reason(Code.BIND_REFUSED, f"pod {binding.name} is {cause}{where}: {message}")
                keep = cause == "unclear"
                if cause == "bound" and self._cards is not None:
                    self._cards.forget(binding.uid)
            case Refused(refusal) if refusal.reason == Code.VOLUME_NOT_BOUND:
                reason = Reason(Code.VOLUME_NOT_BOUND, refusal.message, unblocks=("its volumes can be bound there",))
                keep = False
            case Refused(refusal):
                reason = Reason(
                    Code.BIND_REFUSED, f"binding pod {binding.name} was refused: {refusal.reason}: {refusal.message}"
                )
                keep = False
            case _:
                raise AssertionError(f"unexpected outcome {outcome!r}")
        self.stats.refused += 1
        log.info("binding refused", pod=f"{binding.namespace}/{binding.name}", node=binding.node, why=reason.message)
        self._state.refuse(binding.uid, reason, now, keep_place=keep)
        record = self._state.pods.get(binding.uid)
        if record is not None and record.gang is not None and isinstance(outcome, Refused):
            self._recorder.waits(record.gang.uid, (reason,), None, now)  # the reason until it is tried again
        self._wake()
