"""Tells history which pods a former scheduler evicted for others and did not live to say so.

A victim has the condition DisruptionTarget, with our message, before it is deleted, and keeps it while it ends. For
whom it went is not on record: that is the gang, if there is one alone, that was promised room on its node.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import structlog

from t9ksched.kube.errors import NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODS
from t9ksched.kube.write.eviction import disruption_of
from t9ksched.model.reservation import Reservation
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.history import PREEMPTED, History

log = structlog.get_logger(__name__)

_SECOND: Final = 1_000_000_000
_SLACK: Final = 60 * _SECOND
"""The condition is a little older than what is told of it."""
_AT_ONCE: Final = 16
"""Pods that are read at a time."""
_PAGE: Final = 1000
_ANOTHER: Final = "preempting to accommodate"
"""What kube-scheduler says of victims of its own."""


class _Eviction(NamedTuple):
    pod: PodRecord
    gang: GangRecord
    at: int
    """Nanoseconds since the epoch."""
    why: str


async def write_evictions(
    state: ClusterState,
    client: ClusterPort,
    history: History,
    recorder: HistoryRecorder,
    count: Callable[[str, str, int], None],
) -> None:
    """Write what is missing, in order; `count` is told of each eviction, by the UIDs of the job and of the gang that it
    was for, and when.

    Raises:
        StoreError, ApiError: as history and the API server do.
    """
    going = [pod for pod in state.pods.values() if pod.ours and pod.deleting and pod.evicted]
    found: list[_Eviction] = []
    for start in range(0, len(going), _AT_ONCE):
        read = await asyncio.gather(*(_read(client, pod) for pod in going[start : start + _AT_ONCE]))
        found += [one for one in read if one is not None]
    if not found:
        return
    told = await _told(history, min(one.at for one in found) - _SLACK)
    missing = [one for one in found if told.get(_key(one.gang, one.pod), 0) < one.at - _SLACK]
    for one in sorted(missing, key=lambda one: one.at):
        owners = {owner for owner, rooms in state.reservations.promised.items() if _is_on(rooms, one.pod.node)}
        by = owners.pop() if len(owners) == 1 else ""
        recorder.preempted(one.gang, one.pod.name, by, one.why, one.at)
        count(identity(one.gang)[0], by, one.at)
    if missing:
        log.info("evictions were not in history", pods=len(missing))


async def _read(client: ClusterPort, pod: PodRecord) -> _Eviction | None:
    """The eviction of a pod by a scheduler of ours; None if it is none, or nobody can say any more."""
    try:
        found = await client.get(PODS, pod.name, pod.namespace)
    except NotFound:
        return None
    disruption = disruption_of(found) if found["metadata"].get("uid") == pod.uid else None
    if disruption is None or pod.gang is None or _ANOTHER in disruption.message:
        return None
    return _Eviction(pod, pod.gang, int(disruption.at.timestamp()) * _SECOND, disruption.message)


async def _told(history: History, since: int) -> dict[tuple[str, str], int]:
    """When history says last that pods were evicted, by the UID of the job and the name of the pod."""
    found: dict[tuple[str, str], int] = {}
    begin, after = datetime.fromtimestamp(since / _SECOND, UTC), 0
    while page := await history.list(event=PREEMPTED, since=begin, after=after, limit=_PAGE):
        after = page[-1].id
        for event in page:
            found[str(event.uid), str(event.detail.get("pod"))] = int(event.at.timestamp() * _SECOND)
    return found


def _key(gang: GangRecord, pod: PodRecord) -> tuple[str, str]:
    return identity(gang)[0], pod.name


def _is_on(rooms: Sequence[Reservation], node: str) -> bool:
    return any(room.node == node for room in rooms)
