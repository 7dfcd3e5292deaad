"""Keeps in SQL which cards each pod was given: written before the pod is bound where its node honours indices.

Decisions of one moment share one transaction, and so do the ends of pods. Where the node's device plugin chooses, the
indices are only intended: their rows are written within a second, and nothing waits for them. Slices, turns and parts
that a device plugin chooses are written before too, because a node may be laid out anew at any time; without the
database such pods are bound all the same, for they are counted by number. A row says too to which
group the pod belongs, so members of a group have one also without cards; nothing waits for those. A row of a pod that
was never bound is harmless: it speaks of that pod's UID on that node, and goes when the pod does. But the pod must not
be bound there to other cards before that row is replaced: a scheduler that starts would believe it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

import structlog

from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.assumptions import RETRY_AFTER_REFUSAL_NS
from t9ksched.scheduler.state.card_rows import row_of
from t9ksched.scheduler.state.charges import Charge
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.bindings import Bindings, CardBinding
from t9ksched.store.errors import StoreError

log = structlog.get_logger(__name__)

_ANSWER_SECONDS: Final = 5.0
"""A database that takes longer is away."""
_LAST_WORDS_SECONDS: Final = 2.0
_A_STEP: Final = 200
"""Pods recorded before the event loop does other work."""
_BATCH: Final = 1000
"""Rows of one transaction."""


class CardKeeper:
    """`on_loss` is called when the database does not take something."""

    def __init__(self, bindings: Bindings, state: ClusterState, on_loss: Callable[[], None] = lambda: None) -> None:
        self._bindings = bindings
        self._state = state
        self._on_loss = on_loss
        self._waiting: dict[str, CardBinding] = {}
        """Rows that are not written yet, by UID."""
        self._over: set[str] = set()
        """UIDs of pods whose rows may go."""
        self._sent: dict[str, list[CardBinding]] = {}
        """By UID, rows with cards that SQL may have of pods that were decided about and are not known to be bound."""
        self._complete = False
        """SQL knows that it has the rows of all bound pods."""
        self._adopted = False
        """The same, once the prepared rows are written."""
        self._order = asyncio.Lock()
        """One transaction after the other: a later decision about a pod must not be written before an earlier one."""
        self.writes = 0
        """Transactions done."""

    async def restore(self) -> None:
        """Read the existing rows.

        Raises:
            StoreError: the database does not answer.
        """
        complete = await self._bindings.complete()
        rows: dict[str, CardBinding] = {}
        async for piece in self._bindings.pieces():
            rows.update((row.pod_uid, row) for row in piece)
        self._complete = complete
        self._state.cards.restore(rows, complete=complete)
        self._state.places.restore(rows)

    async def adopt(self, now: int) -> None:
        """Called once after everything was read: for bound pods without a row, take the cards from their annotations
        and the groups from their labels, and write both. `now` in nanoseconds since the epoch.
        """
        found = 0
        for rows in self._state.cards.adopt_in_steps(now):
            found += len(rows)
            for row in rows:
                self._waiting.setdefault(row.pod_uid, row)
            await asyncio.sleep(0)
        if found:
            log.info("cards of pods that were bound before are on record from now on", pods=found)
        await self._note_missing(now)
        self._adopted = True
        await self.write()

    async def _note_missing(self, now: int) -> None:
        """Prepare rows for bound pods that have none yet, also for those that have ended."""
        missing = chain(self._state.places.take_missing(), self._state.cards.take_unsaid())
        for count, record in enumerate(missing, start=1):
            charge = self._state.charges.get(record.uid)
            if (charge is not None or record.finished) and _recorded(record, charge):
                self._waiting.setdefault(record.uid, row_of(record, charge, now))
            if count % _A_STEP == 0:
                await asyncio.sleep(0)

    def note(self, pods: Iterable[str], now: int) -> bool:
        """Prepare rows for what was decided about these pods, which are charged. Returns whether the rows are to be
        written before the pods are bound: those of cards by index must be, those of slices, turns and the like as long
        as the database answers. `now` in nanoseconds since the epoch.
        """
        urgent = False
        state = self._state
        for uid in pods:
            record, charge = state.pods.get(uid), state.charges.get(uid)
            if record is not None and charge is not None and _recorded(record, charge):
                self._waiting[uid] = row_of(record, charge, now)
                if charge.sure and charge.cards:
                    state.cards.unwritten.add(uid)
                    urgent = True
                elif charge.units and not charge.cards:
                    urgent = urgent or not state.outage.away
        return urgent

    def must(self, pods: Iterable[str]) -> bool:
        """Whether one of these pods must not be bound before its row is written, which is not."""
        return not self._state.cards.unwritten.isdisjoint(pods)

    async def write(self) -> bool:
        """Write the prepared rows; whether all of them are written."""
        try:
            await self.flush()
        except StoreError as error:
            log.warning("which cards pods hold cannot be written", error=str(error))
            self._on_loss()
            return False
        return True

    async def flush(self) -> None:
        """Write the prepared rows, and remove rows of pods that are gone.

        Raises:
            StoreError: some of it is not written.
        """
        async with self._order:
            over, self._state.cards.over = self._state.cards.over, []
            self._over.update(over)
            self._state.cards.unwritten.difference_update(over)
            self._state.places.forget(over)
            for uid in over:
                self._waiting.pop(uid, None)
                self._sent.pop(uid, None)
            while self._waiting or self._over or (self._adopted and not self._complete):
                uids = list(self._waiting)[:_BATCH]
                rows, gone = {uid: self._waiting.pop(uid) for uid in uids}, list(self._over)[:_BATCH]
                self._over.difference_update(gone)
                completes = self._adopted and not self._complete and not self._waiting
                for uid, row in rows.items():
                    if row.cards and uid in self._state.cards.unwritten:
                        self._sent.setdefault(uid, []).append(row)
                try:
                    async with asyncio.timeout(_ANSWER_SECONDS):
                        await self._bindings.write(list(rows.values()), gone, complete=completes)
                except BaseException as error:
                    self._waiting = rows | self._waiting
                    self._over.update(gone)
                    if isinstance(error, TimeoutError):
                        raise StoreError(f"no answer within {_ANSWER_SECONDS:g} s") from None
                    raise
                self._sent.update((uid, [row]) for uid, row in rows.items() if uid in self._sent)
                self._state.cards.unwritten.difference_update(rows)
                self._complete = self._complete or completes
                self.writes += 1

    def contradicted(self, pods: Iterable[str]) -> bool:
        """Whether SQL may have other cards of the same node for one of these pods than what was decided last."""
        for uid in pods:
            row = self._waiting.get(uid)
            known = self._sent.get(uid) or self._state.cards.recorded(uid)
            if row is not None and any(one.node == row.node and one.grant != row.grant for one in known):
                return True
        return False

    def bound(self, pod: str) -> None:
        """The pod is bound as it was decided: nothing else will be decided about it."""
        self._sent.pop(pod, None)

    def withdraw(self, pods: list[str], now: int) -> None:
        """What was decided about these pods, of one gang, could not be written: it is not carried out, and tried again
        in a moment. `now` in nanoseconds since the epoch.
        """
        for uid in pods:
            self._waiting.pop(uid, None)
        self._state.cards.unwritten.difference_update(pods)
        message = (
            "the database is away: which cards of a node a pod gets is written there before it is bound, so that no"
            " restart gives them away"
        )
        reason = Reason(Code.DATABASE_AWAY, message, unblocks=("the database answers again",))
        self._state.withdraw(pods, reason, now + RETRY_AFTER_REFUSAL_NS)

    def forget(self, pod: str) -> None:
        """Another scheduler bound this pod, to unknown cards: the row of this scheduler's decision must not be
        written.
        """
        self._waiting.pop(pod, None)
        self._state.cards.unwritten.discard(pod)
        self._state.places.lost(pod)
        self._over.add(pod)

    async def sweep(self, now: int) -> None:
        """Write the rows that no binding waits for, unless the database is away: then the SQL writer asks for it first.
        `now` in nanoseconds since the epoch.
        """
        if self._adopted:
            await self._note_missing(now)
        if not self._state.outage.away and (self._waiting or self._over or self._state.cards.over):
            await self.write()

    async def forget_lost(self) -> None:
        """Remove rows of pods that were deleted while no scheduler was watching.

        Raises:
            StoreError: the database does not answer.
        """
        async for piece in self._bindings.uids():
            self._over.update(uid for uid in piece if uid not in self._state.pods)
        await self.flush()

    async def stop(self) -> None:
        """Write what is left, when the database answers."""
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self.flush()


def _recorded(record: PodRecord, charge: Charge | None) -> bool:
    """Whether a bound pod has a row: it holds cards or slices that are known, or is a member of a group."""
    return bool(charge is not None and (charge.units or charge.cards)) or (
        record.gang is not None and not record.gang.virtual
    )
