"""The resource keeper: suspends Notebooks, TensorBoards and Explorers that nobody uses, as a policy says.

Whether one is used its controller finds out (condition `Idle`, `status.activity`). Its users are told before, by an
event and a notification; the annotation `keep-until` puts it off. Nothing is done on what is old or not known, and the
object is read once more before it is suspended, which is on record before it is done.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import CONFIGMAPS
from t9ksched.model import names
from t9ksched.model.errors import Invalid
from t9ksched.model.idle_policy import CONFIG_MAP, KEY, Policy, Warned, due, kept_until, parse_policy
from t9ksched.model.podrules import namespace_labels
from t9ksched.model.wall_clock import moment_at
from t9ksched.scheduler.act.stopping import Stopper
from t9ksched.scheduler.keep.suspensions import Suspensions
from t9ksched.scheduler.report.clockwatch import ClockWatch
from t9ksched.scheduler.report.event_writer import EventWriter, reference
from t9ksched.scheduler.state.job_record import IdleSince, JobRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import history
from t9ksched.store.history import Event
from t9ksched.store.store import Store
from t9ksched.workloads.activity import idle_since, reported_use
from t9ksched.workloads.foreignstatus import is_suspended
from t9ksched.workloads.registry import KINDS

log = structlog.get_logger(__name__)

_POLL_NS: Final = 10_000_000_000
"""The policy is read so often."""


class IdleKeeper:
    """Called by housekeeping. `write` takes events for history, `clock` gives nanoseconds since the epoch, `clocks`
    tells when it was set.
    """

    def __init__(
        self,
        client: ClusterPort,
        state: ClusterState,
        stopper: Stopper,
        events: EventWriter,
        write: Callable[[Event], None],
        store: Store,
        clock: Callable[[], int],
        clocks: ClockWatch | None = None,
    ) -> None:
        self._client = client
        self._state = state
        self._stopper = stopper
        self._events = events
        self._write = write
        self._begun = Suspensions(store.meta, store.history)
        self._told: set[str] = set()
        """Workloads whose suspension was told, and is perhaps not in history yet."""
        self._clock = clock
        if clocks is not None:
            clocks.on_jump.append(self._clock_set)
        self.policy: Policy = {}
        self._read_at = self._looked_at = 0
        self._version = ""
        self._warned: dict[str, Warned] = {}
        self._misread: dict[str, str] = {}
        """By job, the `keep-until` that was told to be no time."""

    async def sweep(self) -> None:
        """Read the policy if it is time, and look at all workloads once in the shortest of the intervals."""
        await self._settle()
        now = self._clock()
        if _is_over(self._read_at, _POLL_NS, now):
            self._read_at = now
            await self._read()
        scan = min((int(rule.scan.total_seconds()) for rule in self.policy.values()), default=0) * 1_000_000_000
        if not self.policy or not _is_over(self._looked_at, scan, now):
            return
        self._looked_at = now
        jobs = [job for job in self._state.jobs.values() if job.kind in self.policy]
        known = {job.uid for job in jobs}
        self._warned = {uid: warned for uid, warned in self._warned.items() if uid in known}
        self._misread = {uid: text for uid, text in self._misread.items() if uid in known}
        for job in jobs:
            if job.idle is not None:
                await self._look(job, job.idle, moment_at(now))

    def _clock_set(self, by: timedelta, at: datetime) -> None:
        """The wall clock was set forward by so much: what was promised to users lasts as long as they were told."""
        self._warned = {uid: replace(each, suspends=each.suspends + by) for uid, each in self._warned.items()}

    async def _read(self) -> None:
        """Take the policy as it is now; one that cannot be read leaves the last good one in force."""
        try:
            selector = f"metadata.name={CONFIG_MAP}"
            found = (await self._client.list(CONFIGMAPS, names.SYSTEM_NAMESPACE, field_selector=selector)).items
        except ApiError as error:
            log.info("the policy of the resource keeper cannot be read now", error=str(error))
            return
        item = next(iter(found), None)
        version = str(item["metadata"].get("resourceVersion")) if item is not None else ""
        if version == self._version:
            return
        self._version = version
        try:
            self.policy = parse_policy(str((item.get("data") or {}).get(KEY) or "")) if item is not None else {}
        except Invalid as error:
            log.error("the policy of the resource keeper is refused, the last good one stays", error=str(error))
            about = {"apiVersion": "v1", "kind": "ConfigMap"} | (item or {})
            self._events.event(about, names.EVENT_REFUSED, f"refused, the last good one stays: {error}", warning=True)
            return
        self._looked_at = 0
        log.info("policy of the resource keeper in force", kinds=sorted(self.policy))

    async def _look(self, job: JobRecord, idle: IdleSince, now: datetime) -> None:
        rule = self.policy[job.kind]
        if job.uid in self._begun:
            return  # whether it is suspended is not known yet
        if not rule.holds_in(namespace_labels(job.namespace, self._state.namespaces.labels)):
            return
        warned = self._warned.get(job.uid)
        since, checked = moment_at(idle.since), moment_at(idle.checked)
        kept = self._kept(job, idle.keep)
        if kept is not None and now < kept:
            self._warned.pop(job.uid, None)  # its users are told once more when that is over
        found = due(rule, since, checked, kept, warned, now)
        if found.warn is not None:
            self._warned[job.uid] = found.warn
            self._tell(job, found.warn)
        elif found.suspend:
            await self._suspend(job, since, now)

    def _kept(self, job: JobRecord, text: str) -> datetime | None:
        """Until when its users keep it."""
        if not text:
            return None
        try:
            return kept_until(text)
        except ValueError as error:
            if self._misread.get(job.uid) != text:
                self._misread[job.uid] = text
                message = f"the annotation {names.KEEP_UNTIL_ANNOTATION} is ignored: {error}"
                self._events.event(_about(job), names.EVENT_REFUSED, message, warning=True)
            return None

    def _in_use(self, job: JobRecord, item: dict[str, Any], since: datetime, now: datetime) -> bool:
        """Whether its annotations keep it, or report a use of which its controller has not heard yet."""
        notes = item["metadata"].get("annotations") or {}
        kept = self._kept(job, str(notes.get(names.KEEP_UNTIL_ANNOTATION) or ""))
        reported = reported_use(item)
        return (kept is not None and now < kept) or (reported is not None and reported > since)

    def _tell(self, job: JobRecord, warned: Warned) -> None:
        message = (
            f"nobody used it since {_text(warned.since)}: it is suspended at {_text(warned.suspends)} unless it is used"
            f" before; the annotation {names.KEEP_UNTIL_ANNOTATION} puts that off"
        )
        self._events.event(_about(job), names.EVENT_SUSPENSION_NEAR, message, warning=True)
        self._write(self._event(job, history.SUSPENSION_NEAR, {"message": message}))

    async def _suspend(self, job: JobRecord, since: datetime, now: datetime) -> None:
        """Suspend it, if it is still what was seen."""
        resource = KINDS[job.kind].resource
        message = f"nobody used it since {_text(since)}: it is suspended; resume it to use it again"
        event = self._event(job, history.SUSPENDED_IDLE, {"message": message, history.IDLE_SINCE: since.isoformat()})
        if not await self._begun.begin(event):
            return
        try:
            item = await self._client.get(resource, job.name, job.namespace)
            if (
                item["metadata"].get("uid") != job.uid
                or is_suspended(item["spec"])
                or idle_since(item) != since
                or self._in_use(job, item, since, now)
            ):
                self._begun.drop(job.uid)
                return
            await self._stopper.stop(resource, item, names.EVENT_SUSPENDED_IDLE, message)
        except NotFound:
            self._begun.drop(job.uid)
            return
        except ApiError as error:  # the next sweep finds out whether it was done
            log.warning("idle workload not suspended, trying again", job=job.name, error=str(error))
            return
        self._suspended(event)

    async def _settle(self) -> None:
        """Tell what was done and not told, as before a crash, and forget what was not done or is on record."""
        untold = await self._begun.untold()
        self._told = {uid for uid in self._told if uid in self._begun}
        for event in untold:
            uid = str(event.uid)
            if uid in self._told:
                continue
            try:
                item = await self._client.get(KINDS[str(event.kind)].resource, str(event.name), str(event.namespace))
            except NotFound:
                self._begun.drop(uid)
                continue
            except ApiError as error:
                log.info("whether an idle workload was suspended cannot be read now", job=event.name, error=str(error))
                continue
            if item["metadata"].get("uid") == uid and is_suspended(item["spec"]):
                self._suspended(event)
            else:
                self._begun.drop(uid)
        await self._begun.write()

    def _suspended(self, event: Event) -> None:
        """It is suspended: tell its users."""
        kind, namespace, name, uid = (str(each) for each in (event.kind, event.namespace, event.name, event.uid))
        self._told.add(uid)
        self._warned.pop(uid, None)
        about = reference(KINDS[kind].resource.api_version, kind, namespace, name, uid)
        self._events.event(about, names.EVENT_SUSPENDED_IDLE, event.detail["message"], warning=True)
        self._write(event)
        log.info("idle workload suspended", kind=kind, namespace=namespace, name=name)

    def _event(self, job: JobRecord, event: str, detail: dict[str, Any]) -> Event:
        return Event(
            event=event,
            at=moment_at(self._clock()),
            kind=job.kind,
            namespace=job.namespace,
            name=job.name,
            uid=job.uid,
            queue=job.queue,
            actor="scheduler",
            detail=detail,
        )


def _is_over(since: int, pause: int, now: int) -> bool:
    """Whether a pause that began then is over. The clock may have been set back meanwhile."""
    return not 0 <= now - since < pause


def _about(job: JobRecord) -> dict[str, Any]:
    return reference(job.api_version, job.kind, job.namespace, job.name, job.uid)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
