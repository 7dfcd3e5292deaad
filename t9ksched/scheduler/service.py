"""The scheduler as a service: it wires its parts together, starts them in order and stops them.

Order matters at the start: acceptances before groups, groups before pods, and no decision before everything was read
once. So a start on a cluster in use finds every running pod charged before it places anything.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from t9ksched.engine.policy import Policy
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import CONFIGMAPS
from t9ksched.kube.watch.reflector import Reflector
from t9ksched.kube.write.events import EventRecorder
from t9ksched.kube.write.leader_guard import read_only
from t9ksched.kube.write.lease import boot_time
from t9ksched.kube.write.volumes import VolumeBinding
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.scheduler.act.cardkeeper import CardKeeper
from t9ksched.scheduler.act.executor import Executor
from t9ksched.scheduler.act.gang_timeouts import GANG_BIND_TIMEOUT_SECONDS, GangTimeouts
from t9ksched.scheduler.act.preemption import Evictor
from t9ksched.scheduler.act.promises import PromiseKeeper
from t9ksched.scheduler.act.stopping import Stopper
from t9ksched.scheduler.decide.configuration import NAMED, Configuration, ConfigurationFile
from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.decide.plugins import PluginWatch, Slow, installed
from t9ksched.scheduler.keep.housekeeping import Housekeeping
from t9ksched.scheduler.keep.leadership import Leadership
from t9ksched.scheduler.keep.max_duration import MaxDurationKeeper
from t9ksched.scheduler.keep.overrides import Overrides
from t9ksched.scheduler.keep.queue_sync import QueueSync
from t9ksched.scheduler.keep.timekeeper import TimeKeeper
from t9ksched.scheduler.observe.heap import reading
from t9ksched.scheduler.observe.informers import Informer, Informers
from t9ksched.scheduler.observe.recall import recall_losses
from t9ksched.scheduler.report.clockwatch import ClockWatch
from t9ksched.scheduler.report.event_writer import Notices
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.report.queuestatus import QueueStatuses
from t9ksched.scheduler.report.sql_writer import Journal
from t9ksched.scheduler.report.status import StatusWriter
from t9ksched.scheduler.report.vocabulary import Names
from t9ksched.scheduler.serve.internal import InternalServer
from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.state.refill import GANG_RECOVERY_TIMEOUT_SECONDS
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.waitinglimits import NO_LIMITS, WaitingLimits
from t9ksched.store.errors import StoreError
from t9ksched.store.instance import LeadershipLost
from t9ksched.store.store import Store

log = structlog.get_logger(__name__)

VOLUMES_SHARE = 0.75
"""Of the time that a gang's binding may take, what its volumes may take."""
_DATABASE_PAUSE = 2.0
_ACCEPTING_PAUSE = 0.02
_CONFIGURATION_SECONDS = 3.0


class SchedulerService:
    """One scheduler over one cluster and one database: `run` goes on until cancelled, `ready` says that it decides.

    With `observe` it plans and explains, and writes nothing to the cluster: what writes is not started, and the port
    refuses.
    """

    def __init__(
        self,
        client: ClusterPort,
        store: Store,
        *,
        internal_secret: str,
        listen: tuple[str, int] = ("127.0.0.1", 0),
        public_address: str | None = None,
        policy: Policy | None = None,
        scheduler_conf: Path | None = None,
        retention: timedelta = timedelta(days=90),
        gang_bind_timeout: int = GANG_BIND_TIMEOUT_SECONDS,
        gang_recovery_timeout: int = GANG_RECOVERY_TIMEOUT_SECONDS,
        clock: Callable[[], int] = time.time_ns,
        observe: bool = False,
        waiting: WaitingLimits = NO_LIMITS,
        steady: Callable[[], float] = boot_time,
    ) -> None:
        client = read_only(client) if observe else client
        self._observe = observe
        self.leadership = leadership = Leadership(store.instances)
        self._store = store = store.fenced(lambda: leadership.epoch)
        self._clock = clock
        self._public_address = public_address
        self.state = ClusterState(self._changed)
        self.state.waiting_jobs.limits = waiting
        self._recorder = EventRecorder(client, component="t9k-scheduler")
        notices = Notices(self._recorder)
        # A clock that is passed in without a steady one beside it may run as it likes.
        watched = clock is time.time_ns or steady is not boot_time
        self.clocks = ClockWatch(clock, steady) if watched else None
        self.journal = Journal(store, self.state.outage, self.clocks)
        self._narrator = HistoryRecorder(self.state, self.journal, notices, clock)
        volumes = VolumeBinding(timeout=gang_bind_timeout * VOLUMES_SHARE)
        self._cards = CardKeeper(store.bindings, self.state, self.journal.lost)
        self.journal.first = self._cards.flush
        self.executor = Executor(client, self.state, self._narrator, clock, self._changed, volumes, self._cards)
        self._promises = PromiseKeeper(store.promises, self.state, self.journal.lost)
        self._evictor = Evictor(client, self.state, self._narrator, clock, self._promises)
        self.loop = Loop(
            self.state,
            self.executor,
            self._narrator,
            policy or Policy(),
            clock,
            evictor=self._evictor,
            observe=observe,
        )
        self._directions = Overrides(store, self.state, self.loop, clock, lambda: self._status.wake())
        slow = Slow()
        plugins = installed(slow)
        self.configuration = Configuration(policy or Policy(), notices, self._apply, plugins)
        self._file = ConfigurationFile(scheduler_conf, self.configuration, plugins) if scheduler_conf else None
        watch = self.loop.plugins = PluginWatch(notices, self.configuration.about, slow)
        followed = Informer(self.configuration.upsert, self.configuration.remove, lambda: None)
        self._config_map = Reflector(client, CONFIGMAPS, followed, SYSTEM_NAMESPACE, field_selector=NAMED)
        self._statuses = statuses = QueueStatuses(self.state, self._now)
        names = Names(client, self.state)
        self._projection = QueueSync(client, store, self.state, notices, statuses, names, observe=observe)
        self.loop.find_queues = self._find_queues
        self._status = StatusWriter(
            client,
            self.state,
            self._projection.write,
            self._now,
            groups=not observe,
            crowded=lambda: self.executor.crowded,
        )
        integrity = GangTimeouts(
            client,
            self.state,
            self.executor,
            self._narrator,
            clock,
            timeout=gang_bind_timeout,
            recovery=gang_recovery_timeout,
            most_grace=self._most_grace,
        )
        stopper = Stopper(client, clock, self._most_grace)
        durations = MaxDurationKeeper(self.state, stopper, notices, self._narrator, clock)
        timekeeper: TimeKeeper | None = None
        if not observe:
            timekeeper = TimeKeeper(
                client,
                self.state,
                stopper,
                self._narrator,
                notices,
                store.runs,
                clock,
                lambda: self.loop.policy.start_timeout_seconds,
                self._most_grace,
                recovery=gang_recovery_timeout,
            )
        self._housekeeping = Housekeeping(
            self.state,
            store,
            integrity,
            durations,
            self._promises,
            self._cards,
            clock,
            retention,
            observe=observe,
            timekeeper=timekeeper,
        )
        if self.clocks is not None:
            self.clocks.on_jump.append(self._clock_set)
        self._feeds = Informers(client, self.state, self._projection, self._seen)
        self._jobs = JobIndex(self.state)
        self._internal = InternalServer(
            self.state,
            self._jobs,
            self.configuration,
            watch,
            statuses,
            names,
            self._feeds.lacking,
            internal_secret,
            listen,
        )
        self.ready = asyncio.Event()

    @property
    def address(self) -> str:
        """Base URL of `/internal/v1`, once it is served."""
        return self._internal.address

    def _address(self) -> str:
        return self._public_address or self.address

    def _most_grace(self) -> int:
        """The longest time, in seconds, that an evicted pod gets to end, as the policy has it now."""
        return self.loop.policy.preemption.max_grace_seconds

    async def metrics(self, openmetrics: bool = False) -> bytes:
        """The metrics page, in the text format of Prometheus or as OpenMetrics."""
        return await self._internal.metrics(openmetrics)

    def _changed(self) -> None:
        self.loop.wake()

    def _apply(self, policy: Policy) -> None:
        """Another policy is in force from the next cycle on."""
        self.loop.policy = policy
        self.loop.wake()

    def _clock_set(self, by: timedelta, at: datetime) -> None:
        """The wall clock was set: timers that wait for a time of day would be late by as much."""
        self.state.clock_jumps += 1
        self._housekeeping.clock_set()

    def _seen(self) -> None:
        """After each event of a watch: whoever writes about it may look."""
        self._status.wake()
        self._narrator.wake()

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock() / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def run(self, turn: Callable[[], Awaitable[None]] | None = None) -> None:
        """Schedule until cancelled; with `turn`, once that returns. Until then the cluster is followed, so that the
        state is built from memory, and nothing is served, decided or written.

        Raises:
            OSError: the internal address is in use.
            Invalid: the file with the configuration cannot be used.
            StoreError: the database is away at the start and the cluster has no projected queues either.
        """
        if self._file is not None:
            await self._file.begin()
        try:
            if turn is not None:
                self._feeds.follow_ahead()
                await turn()
            await self._internal.start()
            async with asyncio.TaskGroup() as tasks:
                if self._observe:
                    await self._feeds.leave_out_unknown()
                else:
                    tasks.create_task(self._recorder.run())
                tasks.create_task(self.journal.run())
                if self.clocks is not None:
                    self.clocks.begin()
                    tasks.create_task(self.clocks.run())
                tasks.create_task(self._config_map.run() if self._file is None else self._file.run())
                revision = await self._restore()
                with reading(lambda: len(self.state.pods)):
                    for reflector in self._feeds.reflectors():
                        tasks.create_task(self._feeds.run(reflector))
                        await self._feeds.read_first(reflector)
                await self._configured()
                if revision is not None:
                    await self._adopt_cards()
                if not self.state.queues:
                    self._projection.serve_objects()
                self._statuses.settle()
                self.state.changed_queues.update(self.state.queues)
                await recall_losses(self.state, self._store.history)
                tasks.create_task(self._follow_changes(revision))
                tasks.create_task(self._feeds.read_late())
                tasks.create_task(self.leadership.keep(self._address, self.journal))
                tasks.create_task(self._accept_running())
                tasks.create_task(self._status.run())
                tasks.create_task(self._narrator.run())
                tasks.create_task(self._jobs.run())
                tasks.create_task(self.loop.run())
                self._housekeeping.start()
                self.loop.wake()
                self.ready.set()
                log.info("scheduling", nodes=len(self.state.nodes), pods=len(self.state.pods), internal=self.address)
        finally:
            self.ready.clear()
            self._housekeeping.stop()
            self._directions.stop()
            await self._evictor.stop()
            await self.executor.stop()
            await self._cards.stop()
            await self._internal.stop()
            await self._feeds.stop()

    async def _configured(self) -> None:
        """Wait for the configuration, but not for long: without the right to read it the policy given holds."""
        if self._file is not None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CONFIGURATION_SECONDS):
                await self._config_map.synced.wait()

    async def _accept_running(self) -> None:
        """Accept what ran before we came, little by little: a large cluster has a hundred thousand of them."""
        while self.state.accept_running(self._clock()):
            self._narrator.accepted(self.state.take_new_acceptances(), self.state.gate.take_grown())
            await asyncio.sleep(_ACCEPTING_PAUSE)
        self._narrator.accepted(self.state.take_new_acceptances(), self.state.gate.take_grown())

    async def _restore(self) -> int | None:
        """Read what was promised and written before; the revision read, None while the database is away."""
        try:
            await self.leadership.begin(self._address())
            revision = await self._store.changes.head()
            async for accepted in self._store.acceptances.pieces():
                for acceptance in accepted:
                    self.state.accept(acceptance)
            async for jobs in self._store.jobs.written():
                self._narrator.jobs.restore(jobs)
            await self._projection.load()
            await self._directions.load()
            await self._promises.restore(self._clock())
            await self._cards.restore()
            self.state.clocks.restore(await self._store.runs.all())
            await self._evictor.tenants.restore(self._store.history, self._clock())
        except LeadershipLost:
            raise
        except StoreError as error:
            log.warning("database is away: what was agreed and promised is not known yet", error=str(error))
            self.state.outage.unread = True
            return None
        return revision

    async def _adopt_cards(self) -> None:
        """What bound pods hold is on record from now on."""
        await self._feeds.read_unheard(self.state.cards.unheard())
        if not self._observe:
            await self._cards.adopt(self._clock())

    async def _read_late(self) -> int:
        """Read what could not be read at the start, however long that takes; the revision read."""
        revision = None
        while revision is None:
            await asyncio.sleep(_DATABASE_PAUSE)
            revision = await self._restore()
        await self._adopt_cards()
        self.state.outage.read()
        self.state.changed_queues.update([*self.state.queues, *self._projection.objects])
        self._status.wake()
        log.info("the database answers: what was agreed and promised is known")
        await self._accept_running()
        return revision

    async def _follow_changes(self, revision: int | None) -> None:
        """Take over what others commit to the database, within a second."""
        if revision is None:
            revision = await self._read_late()
        while True:
            try:
                if await self._store.changes.wait(revision, timeout=60):
                    revision = await self._take_changes(revision)
            except StoreError as error:
                log.warning("database is away: scheduling goes on with the queues known last", error=str(error))
                self.journal.lost()
                await asyncio.sleep(_DATABASE_PAUSE)

    async def _take_changes(self, revision: int) -> int:
        changes = await self._store.changes.since(revision)
        if any(change.table == "queue" for change in changes):
            await self._projection.load()
            self._status.wake()
        accepted = [change.key for change in changes if change.table == "acceptance"]
        for acceptance in (await self._store.acceptances.of(accepted)).values():
            self.state.accept(acceptance)
        await self._directions.take(changes)
        return max((change.revision for change in changes), default=revision)

    async def _find_queues(self) -> None:
        """Take over queues that were made since they were last read, without waiting for the change log."""
        if not self._projection.loaded:
            return  # those of the cluster's objects serve
        try:
            await self._projection.catch_up()
        except StoreError as error:
            log.warning("database is away: scheduling goes on with the queues known last", error=str(error))
            self.journal.lost()


@contextlib.asynccontextmanager
async def running(service: SchedulerService):  # type: ignore[no-untyped-def]
    """Run a service for the length of a block, for tests and for one-process use."""
    task = asyncio.create_task(service.run())
    ready = asyncio.create_task(service.ready.wait())
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield service
    finally:
        ready.cancel()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
