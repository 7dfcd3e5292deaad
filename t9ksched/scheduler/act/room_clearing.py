"""Evicts what is in the way of reservations with `onConflict: Preempt`, from the moment at which they begin.

Nothing is remembered of it: while an occurrence is in force, what it is not for and still holds its room goes. So a
scheduler that starts in between does what its predecessor did not, and nothing twice: a pod that is leaving is not
chosen again, and nothing new enters.
"""

from collections.abc import Callable, Iterable
from typing import Final

import structlog

from t9ksched.engine.victims.room_clearing import Leaving, clear_rooms
from t9ksched.model.advance_reservation import AdvanceReservation, Occurrence
from t9ksched.model.wall_clock import moment_at, written_moment
from t9ksched.scheduler.act.preemption import Evictor
from t9ksched.scheduler.state.advance_conflicts import admits, lacks, may_evict
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.job_overrides import PREEMPTION

log = structlog.get_logger(__name__)

_LOOK_AGAIN_NS: Final = 5 * 1_000_000_000
"""How long room that was found clear is not looked at."""


class RoomClearing:
    """`sweep` is called by housekeeping. `clock` gives nanoseconds since the epoch, `most_grace` the longest time, in
    seconds, that an evicted pod gets to end.
    """

    def __init__(
        self, state: ClusterState, evictor: Evictor, clock: Callable[[], int], most_grace: Callable[[], int]
    ) -> None:
        self._state = state
        self._evictor = evictor
        self._clock = clock
        self._most_grace = most_grace
        self._clear: dict[tuple[str, Occurrence], int] = {}
        """Occurrences in force whose room was found clear, and when."""

    def victims(
        self, one: AdvanceReservation, nodes: Iterable[str], gone: Callable[[GangRecord], bool] = lambda gang: False
    ) -> list[Leaving]:
        """What is evicted so that the reservation has these nodes; groups of which `gone` is true will have ended."""
        state = self._state
        state.settle()

        def goes(pod: PodRecord, gang: GangRecord) -> bool:
            return self._evictor.goes(pod) or gone(gang)

        lacking = {name: lack for name in nodes if (lack := lacks(state, one, name, goes)) != {}}
        holding: dict[GangRecord, None] = {}
        for name in lacking:
            for charge in state.charges.on_node(name):
                pod = state.pods.get(charge.uid)
                if pod is not None and pod.gang is not None:
                    holding[pod.gang] = None
        may_go = [
            running
            for gang in holding
            if not gone(gang) and may_evict(state, one, gang) and not admits(state, one, gang)
            if (running := self._evictor.evictable.one(gang)) is not None
        ]
        guarded = state.budgets.guard(may_go, state.pods, state.queues)
        return clear_rooms(lacking, guarded, {name: queue.spec.priority for name, queue in state.queues.items()})

    async def sweep(self) -> None:
        """Clear the room of every occurrence that is in force."""
        now, state = self._clock(), self._state
        if not state.advance or state.outage.unread or state.outage.away:
            return  # whom the room is for is not known for certain
        if any(stop.what == PREEMPTION for stop in state.stops):
            return
        self._clear = {key: at for key, at in self._clear.items() if now - at < _LOOK_AGAIN_NS}
        for held in list(state.advance.known.values()):
            one = held.reservation
            if one.on_conflict != "Preempt":
                continue
            present = held.present(now)
            if present is None or present.begin > now or (held.record.uid, present) in self._clear:
                continue
            found = self.victims(one, held.record.nodes)
            if not found:
                self._clear[held.record.uid, present] = now
            elif evicted := self._evictor.clear(found, one.name, _why(one, present), self._most_grace()):
                jobs = [leaving.gang.name for leaving in found]
                log.info("reserved room is cleared", reservation=one.name, pods=evicted, groups=jobs)


def _why(one: AdvanceReservation, of: Occurrence) -> str:
    begin, end = (written_moment(moment_at(moment)) for moment in of)
    note = f" ({one.note})" if one.note else ""
    return f"reservation {one.name!r}{note} has the room from {begin} to {end}"
