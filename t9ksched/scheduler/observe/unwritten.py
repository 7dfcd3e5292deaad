"""Tells history what a former scheduler did and did not live to write, and what nobody saw: pods that were bound,
groups that were accepted and had their places with that, and pods that gave their cards back.

What happens is written within seconds, and while the database is away when it is back; a process that is killed
leaves that out. So at a start the pods that began or ended since the last word of a scheduler are compared with
history, and those that hold cards as far as history knows with the cluster. Of one that has ended meanwhile its own
annotations say which cards it had.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

import structlog

from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODS
from t9ksched.model.names import GPU_INDEX_PREFIX, MGPU_INDEX_PREFIX
from t9ksched.scheduler.observe.unwritten_evictions import write_evictions
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.report.job_recorder import moment
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import StoreError
from t9ksched.store.history import ACCEPTED, ADMITTED, BOUND, DELETED, REFUSED, RELEASED, WAITING, Event, History
from t9ksched.store.store import Store
from t9ksched.store.usage import Holder

log = structlog.get_logger(__name__)

_SECOND: Final = 1_000_000_000
_SLACK: Final = 60 * _SECOND
"""Nodes tell by their own clocks when pods began."""
_PAGE: Final = 1000
_SCHEDULER: Final = "scheduler"
_FIRST_WORDS: Final = frozenset({ACCEPTED, ADMITTED, BOUND, DELETED, REFUSED, WAITING})
"""What is told of jobs before they are written, and of those that go before that."""
Cards = Mapping[str, Sequence[int]]
"""By container."""


async def write_missing(
    state: ClusterState,
    client: ClusterPort,
    store: Store,
    recorder: HistoryRecorder,
    count: Callable[[str, str, int], None],
) -> None:
    """Write what is missing; nothing while the database or the API server is away. What is missing of cards that came
    free is written a moment later, before the end of any job is: there may be many that hold some. `count` is told of
    evictions, see `write_evictions`.
    """
    history = store.history
    try:
        last = await history.list(actor=_SCHEDULER, newest_first=True, limit=1)
        if not last:
            return  # this cluster has another past than the database
        since = _nanoseconds(last[0]) - _SLACK
        recorder.first = partial(_write_ends, state, store, recorder, since)
        recorder.jobs.follows(moment(since))
        state.changes.settle()
        recent = [pod for pod in state.pods.values() if pod.ours and pod.node and max(_began(pod), pod.ended) >= since]
        recent = sorted((pod for pod in recent if pod.gang is not None), key=_began)
        recorder.continues(await history.last_times(_jobs(recent)))
        begun = [pod for pod in recent if _began(pod) >= since]
        told = await _told_since(history, since) if begun else {}
        missing = [pod for pod in begun if not _is_told(told, pod, pod.name)]
        for pod in begun:
            if _is_told(told, pod, ""):
                assert pod.gang is not None
                state.progress.placed_before(pod.gang, told[identity(pod.gang)[0], ""])
        for pod in missing:
            if not _is_told(told, pod, ""):
                assert pod.gang is not None
                recorder.placed_before(pod.gang, _began(pod))
                told[identity(pod.gang)[0], ""] = pod.created
            await _write(pod, state, client, recorder)
        for pod in sorted(missing, key=_ended):
            if pod.finished and pod.gang is not None and _accelerated(pod):
                recorder.released_before(pod.gang, pod)
        await write_evictions(state, client, history, recorder, count)
    except (StoreError, ApiError) as error:
        log.warning("what happened before the start could not be compared with history", error=str(error))
        return
    if missing:
        log.info("bindings were not in history", pods=len(missing))


async def _write_ends(state: ClusterState, store: Store, recorder: HistoryRecorder, since: int) -> None:
    """Write what ended while no scheduler was there, or just before one was killed."""
    try:
        await _write_releases(state, store, recorder)
        await _write_successes(state, store.history, recorder, since)
        begun = await _begun_since(store.history, since)
    except StoreError as error:
        log.warning("what ended before the start is not known", error=str(error))
        return
    for uid, event in begun.items():
        if event.kind not in state.owners.unread:
            recorder.jobs.went_unseen(event, state.acceptances.get(uid))


async def _begun_since(history: History, since: int) -> dict[str, Event]:
    """The first event of each job of which a scheduler told since then, by UID, unless it told that the job is gone."""
    found: dict[str, Event] = {}
    gone: set[str] = set()
    after = 0
    while True:
        page = await history.list(events=_FIRST_WORDS, actor=_SCHEDULER, newest_first=True, after=after, limit=_PAGE)
        for event in page:
            if event.event == DELETED:
                gone.add(str(event.uid))
            elif event.uid not in gone:
                found[str(event.uid)] = event
        if len(page) < _PAGE or _nanoseconds(page[-1]) < since - _SLACK:
            return found
        after = page[-1].id


async def _write_releases(state: ClusterState, store: Store, recorder: HistoryRecorder) -> None:
    """Write which pods gave their cards back."""
    ended: list[PodRecord] = []
    gone: list[Holder] = []
    async for holders in store.usage.holders(datetime.now(UTC)):
        for one in holders:
            if state.holds_a_place(one.namespace, one.pod):
                continue
            pod = state.pod_named(one.namespace, one.pod)
            is_it = pod is not None and pod.gang is not None and one.uid in (pod.placed_in, identity(pod.gang)[0])
            if is_it and pod is not None and pod.finished:
                ended.append(pod)
            else:
                gone.append(one)
    recorder.continues(await store.history.last_times(_jobs(ended)))
    for pod in sorted(ended, key=_ended):
        if pod.gang is not None:
            recorder.released_before(pod.gang, pod)
    for one in gone:
        recorder.released_unseen(one)
    if ended or gone:
        log.info("cards came free before the start", pods=len(ended) + len(gone))


async def _write_successes(state: ClusterState, history: History, recorder: HistoryRecorder, since: int) -> None:
    """Write which members of gangs succeeded that had no cards to give back."""
    pods = (pod for pod in state.pods.values() if pod.did_its_part and pod.ended >= since and not _accelerated(pod))
    ended = sorted(pods, key=_ended)
    told = await _told_since(history, since, RELEASED) if ended else {}
    for pod in ended:
        if pod.gang is not None and not _is_told(told, pod, pod.name):
            recorder.released_before(pod.gang, pod)


class _JobName(NamedTuple):
    """What names a job."""

    uid: str
    namespace: str
    name: str


def _jobs(pods: Iterable[PodRecord]) -> list[_JobName]:
    """The jobs of pods, each once."""
    found: dict[str, _JobName] = {}
    for pod in pods:
        if pod.gang is not None:
            uid, _, _, name = identity(pod.gang)
            found[uid] = _JobName(uid, pod.namespace, name)
    return list(found.values())


async def _told_since(history: History, since: int, what: str = BOUND) -> dict[tuple[str, str], int]:
    """When history says `what` of pods, by the UID of the job and the name of the pod, and that jobs had their places,
    by the UID and an empty name.
    """
    found: dict[tuple[str, str], int] = {}
    after = 0
    while True:
        page = await history.list(events=(ADMITTED, what), newest_first=True, after=after, limit=_PAGE)
        for event in page:
            pod = str(event.detail.get("pod")) if event.event == what else ""
            found.setdefault((str(event.uid), pod), _nanoseconds(event))
        if len(page) < _PAGE or _nanoseconds(page[-1]) < since - _SLACK:
            return found
        after = page[-1].id


def _is_told(told: Mapping[tuple[str, str], int], pod: PodRecord, name: str) -> bool:
    """Whether history tells of this pod; an earlier one may have had its name."""
    assert pod.gang is not None
    at = told.get((identity(pod.gang)[0], name))
    return at is not None and at >= pod.created - _SLACK


async def _write(pod: PodRecord, state: ClusterState, client: ClusterPort, recorder: HistoryRecorder) -> None:
    assert pod.gang is not None
    cards = await _cards(pod, state, client) if pod.pod_class is not None and pod.pod_class.cards else {}
    recorder.bound(pod.gang, pod, pod.node, cards, _began(pod))


async def _cards(pod: PodRecord, state: ClusterState, client: ClusterPort) -> Cards:
    charge = state.charges.get(pod.uid)
    if charge is not None:
        return {request.container: which for request, which in charge.cards.split(charge.pod_class.cards) if which}
    try:
        found = await client.get(PODS, pod.name, pod.namespace)
    except NotFound:
        return {}  # it has gone meanwhile
    return dict(_annotated(found["metadata"].get("annotations") or {}))


def _annotated(annotations: Mapping[str, str]) -> Iterator[tuple[str, Sequence[int]]]:
    for key, text in annotations.items():
        for prefix in (GPU_INDEX_PREFIX, MGPU_INDEX_PREFIX):
            which = [int(one) for one in text.split(",") if one.isdecimal()] if key.startswith(prefix) else []
            if which:
                yield key.removeprefix(prefix), which


def _began(pod: PodRecord) -> int:
    return pod.started or pod.created


def _ended(pod: PodRecord) -> int:
    return pod.ended


def _nanoseconds(event: Event) -> int:
    return int(event.at.astimezone(UTC).timestamp() * _SECOND)


def _accelerated(pod: PodRecord) -> bool:
    """Whether it asks for cards."""
    return pod.pod_class is not None and pod.pod_class.accelerated
