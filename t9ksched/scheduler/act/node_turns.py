"""Bindings to nodes whose agents must be asked before, or answer after: one at a time on each node.

Nodes work side by side, and none waits for another. A turn is a binding by its protocol, and then the node's answer,
of which the watch tells; without it the pod is read from time to time. A node that is busy with another's pod for too
long gets none of ours: they are refused, and their jobs avoid it for a while. A bound pod whose node does not answer
at all is evicted, because the node would take the next one for it; until it is gone the node gets no other.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from time import monotonic
from typing import Final

import msgspec
import structlog

from t9ksched.kube.errors import ApiError
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.write.binding import (
    AgentAnswer,
    Binding,
    Bound,
    Busy,
    Outcome,
    Refusal,
    Refused,
    Throttled,
    Unknown,
    resolve,
    run,
)
from t9ksched.kube.write.dialects.table import dialect_of
from t9ksched.kube.write.eviction import NotEvicted, TryLater, Victim, evict
from t9ksched.model.reasons import Code
from t9ksched.scheduler.state.node_backoff import TurnedAway
from t9ksched.scheduler.state.state import ClusterState

log = structlog.get_logger(__name__)

BUSY_SECONDS: Final = 60.0
"""How long a pod waits for its turn on a node that does not come to it."""
ANSWER_SECONDS: Final = 300.0
"""How long a node may take to answer."""
EVICTION_REASON: Final = "CardsNotGiven"
_AT_ONCE: Final = 32
"""Nodes that are written to at the same time."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_LOOK_SECONDS: Final = 5.0
"""Between two looks at a pod of which no watch tells."""


class TurnTimeouts(msgspec.Struct, frozen=True):
    """In seconds, as the constants above."""

    busy: float = BUSY_SECONDS
    answer: float = ANSWER_SECONDS
    look: float = _LOOK_SECONDS


class _Turn(msgspec.Struct, frozen=True):
    binding: Binding
    bound: bool = False


class NodeTurns:
    """`react` is told the outcome of each binding, `forgotten` says of one that nothing waits for it any more; `clock`
    gives nanoseconds since the epoch.
    """

    def __init__(
        self,
        client: ClusterPort,
        state: ClusterState,
        clock: Callable[[], int],
        react: Callable[[Binding, Outcome], None],
        forgotten: Callable[[Binding], bool],
        timeouts: TurnTimeouts | None = None,
    ) -> None:
        self._client = client
        self._state = state
        self._clock = clock
        self._react = react
        self._forgotten = forgotten
        self.timeouts = timeouts or TurnTimeouts()
        self._queues: dict[str, deque[_Turn]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing = asyncio.Semaphore(_AT_ONCE)
        self._stopping = False

    @property
    def busy(self) -> bool:
        """Whether a node has a turn under way."""
        return bool(self._queues)

    def submit(self, binding: Binding) -> None:
        """Bind this pod when it is its turn on its node."""
        self._enter(_Turn(binding))

    def resume(self) -> None:
        """Await the answers for pods that a scheduler before this one bound."""
        for uid in list(self._state.cards.unanswered):
            record = self._state.pods.get(uid)
            if record is not None and record.holds:
                known = self._state.node_objects.get(record.node)
                protocol = dialect_of(known[1] if known is not None else None).protocol
                if protocol is not None:
                    binding = Binding(record.namespace, record.name, record.uid, record.node, protocol=protocol)
                    self._enter(_Turn(binding, bound=True))

    def _enter(self, turn: _Turn) -> None:
        node = turn.binding.node
        queue = self._queues.get(node)
        if queue is not None:
            queue.append(turn)
            if (why := self._state.node_backoff.held_up.get(queue[0].binding.uid)) is not None:
                self._held_up([turn], why)
            return
        self._queues[node] = deque((turn,))
        task = asyncio.create_task(self._serve(node))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("binding failed unexpectedly", exc_info=failure)

    async def stop(self) -> None:
        """Begin no turn, and wait a moment for those that write. The next scheduler awaits the answers."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    async def _serve(self, node: str) -> None:
        queue = self._queues[node]
        try:
            while queue and not self._stopping:
                turn = queue[0]
                if turn.bound or await self._bind(turn.binding, queue):
                    await self._answer(turn.binding, queue)
                queue.popleft()
                self._goes_on(turn)
        finally:
            self._goes_on(*queue)
            del self._queues[node]

    def _held_up(self, turns: Iterable[_Turn], why: str) -> None:
        """These pods are not bound yet, because their node is busy: users are told."""
        for turn in turns:
            uid = turn.binding.uid
            record, before = self._state.pods.get(uid), self._state.node_backoff.held_up.get(uid)
            if record is not None and not turn.bound and before != why:
                self._state.node_backoff.held_up[uid] = why
                self._state.feed.held_up.add((record, why))
                self._state.wake()

    def _goes_on(self, *turns: _Turn) -> None:
        for turn in turns:
            self._state.node_backoff.held_up.pop(turn.binding.uid, None)

    async def _bind(self, binding: Binding, queue: "deque[_Turn]") -> bool:
        """Whether the pod is bound."""
        pause, sent, ends = _FIRST_PAUSE, False, monotonic() + self.timeouts.busy
        while not self._forgotten(binding):
            outcome = await self._write(binding, sent)
            if isinstance(outcome, Unknown):
                sent = True
                found = await resolve(self._client, binding, sent=True)
                if found is not None:
                    outcome = found
            if isinstance(outcome, Busy) and monotonic() >= ends:
                self._turn_away(binding, outcome.message)
                return False
            if isinstance(outcome, Busy):
                self._held_up(queue, outcome.message)
            elif not isinstance(outcome, Throttled | Unknown):
                self._goes_on(*queue)
                self._react(binding, outcome)
                return isinstance(outcome, Bound)
            await asyncio.sleep(max(pause, getattr(outcome, "retry_after", None) or 0.0))
            pause = min(_LONGEST_PAUSE, 2 * pause)
        return False

    async def _write(self, binding: Binding, sent: bool) -> Outcome:
        """Run the protocol. Once begun it is not broken off: what it prepared would stay."""
        async with self._writing:
            work = asyncio.ensure_future(run(self._client, binding, sent=sent))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                with contextlib.suppress(asyncio.CancelledError):
                    await work
                raise

    def _turn_away(self, binding: Binding, why: str) -> None:
        """The node does not come to this pod: its job avoids it for a while."""
        record = self._state.pods.get(binding.uid)
        self._state.node_backoff.held_up.pop(binding.uid, None)
        if record is not None and record.gang is not None:
            self._state.node_backoff.avoid(TurnedAway(record.gang, binding.name, binding.node, why))
        self._react(binding, Refused(Refusal(0, str(Code.BIND_REFUSED), why)))

    async def _answer(self, binding: Binding, queue: "deque[_Turn]") -> None:
        """Wait until the node has given the pod its cards, or has not."""
        began, evicted, told = monotonic(), False, asyncio.Event()
        self._state.cards.listen(binding.uid, told.set)
        try:
            while (answer := await self._look(binding)) is AgentAnswer.PENDING:
                waited = monotonic() - began
                if waited >= self.timeouts.look:
                    others = [turn for turn in queue if turn.binding is not binding]
                    self._held_up(others, f"node {binding.node} has not said yet whether it gave another pod its cards")
                if waited >= self.timeouts.busy:
                    self._drain(binding, queue)
                if waited >= self.timeouts.answer and not evicted:
                    why = f"the node did not say within {self.timeouts.answer:g} s whether it gave the pod its cards"
                    evicted = await self._take_back(binding, why)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.timeouts.look):
                        await told.wait()
                told.clear()
        finally:
            self._state.cards.listen(binding.uid, None)
        assert binding.protocol is not None
        while answer is AgentAnswer.FAILED and binding.protocol.evicts_failed and not evicted:
            evicted = await self._take_back(binding, "the node gave the pod no cards")
            if not evicted:
                await asyncio.sleep(self.timeouts.look)
                answer = await self._look(binding)
        if answer is not AgentAnswer.GIVEN:
            log.info("a node gave a pod no cards", pod=f"{binding.namespace}/{binding.name}", node=binding.node)
            with contextlib.suppress(ApiError):
                await binding.protocol.undo(self._client, binding)

    async def _look(self, binding: Binding) -> AgentAnswer:
        assert binding.protocol is not None
        try:
            return await binding.protocol.confirm(self._client, binding)
        except ApiError:
            return AgentAnswer.PENDING

    def _drain(self, binding: Binding, queue: "deque[_Turn]") -> None:
        """Pods that wait behind one that gets no answer go elsewhere."""
        head = queue.popleft()
        why = f"it does not say whether it gave pod {binding.namespace}/{binding.name} its cards"
        waiting = [turn for turn in queue if not turn.bound]
        left = [turn for turn in queue if turn.bound]
        queue.clear()
        queue.extend((head, *left))
        for turn in waiting:
            if not self._forgotten(turn.binding):
                self._turn_away(turn.binding, why)

    async def _take_back(self, binding: Binding, why: str) -> bool:
        """Evict the pod; whether it is going. A refused or unknown result is tried again."""
        record = self._state.pods.get(binding.uid)
        if record is not None and record.gang is not None:
            self._state.node_backoff.avoid(TurnedAway(record.gang, binding.name, binding.node, why))
            self._state.wake()
        victim = Victim(binding.namespace, binding.name, binding.uid)
        now = datetime.fromtimestamp(self._clock() / 1e9, UTC)
        result = await evict(self._client, victim, message=why, now=now, reason=EVICTION_REASON)
        if isinstance(result, NotEvicted | TryLater):
            log.warning("pod not evicted, trying again", pod=f"{binding.namespace}/{binding.name}", why=result.message)
            return False
        return True
