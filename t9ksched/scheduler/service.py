"""The scheduler as a service: it wires its parts together, starts them in order and stops them.

Order matters at the start: acceptances before groups, groups before pods, and no decision before everything was read
once. So a start on a cluster in use finds every running pod charged before it places anything.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog

from t9ksched.engine.kernel.native import chosen
from t9ksched.engine.policy import Policy
from t9ksched.kube.port import ClusterPort, answers_of, expiries_of
from t9ksched.kube.resources import CONFIGMAPS
from t9ksched.kube.watch.reflector import Reflector, WatchOptions
from t9ksched.kube.write.clock import boot_time
from t9ksched.kube.write.events import EventRecorder
from t9ksched.kube.write.leader_guard import read_only
from t9ksched.kube.write.volumes import VolumeBinding
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.scheduler.act.cardkeeper import CardKeeper
from t9ksched.scheduler.act.executor import Executor
from t9ksched.scheduler.act.gang_timeouts import GangTimeouts
from t9ksched.scheduler.act.preemption import Evictor
from t9ksched.scheduler.act.promises import PromiseKeeper
from t9ksched.scheduler.act.room_clearing import RoomClearing
from t9ksched.scheduler.act.stopping import Stopper
from t9ksched.scheduler.decide.configuration import NAMED, Configuration, ConfigurationFile
from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.decide.plugins import PluginWatch, Slow, installed
from t9ksched.scheduler.keep.cordon_keeper import CordonKeeper
from t9ksched.scheduler.keep.database_sync import DatabaseSync, Restored
from t9ksched.scheduler.keep.dependency_end import DependencyEnd
from t9ksched.scheduler.keep.dependency_keeper import DependencyKeeper
from t9ksched.scheduler.keep.forecast_keeper import ForecastKeeper
from t9ksched.scheduler.keep.housekeeping import Housekeeping, Sweep
from t9ksched.scheduler.keep.idle_keeper import IdleKeeper
from t9ksched.scheduler.keep.late_starts import Timeouts
from t9ksched.scheduler.keep.leadership import Leadership
from t9ksched.scheduler.keep.max_duration import MaxDurationKeeper
from t9ksched.scheduler.keep.notifier import Notifier
from t9ksched.scheduler.keep.overrides import Overrides
from t9ksched.scheduler.keep.plan_keeper import PlanKeeper
from t9ksched.scheduler.keep.queue_sync import QueueSync
from t9ksched.scheduler.keep.reservation_keeper import ReservationKeeper
from t9ksched.scheduler.keep.timekeeper import TimeKeeper
from t9ksched.scheduler.observe.heap import Heap
from t9ksched.scheduler.observe.informers import Informer, Informers
from t9ksched.scheduler.observe.recall import recall_losses
from t9ksched.scheduler.observe.unwritten import write_missing
from t9ksched.scheduler.options import SchedulerOptions
from t9ksched.scheduler.report.clockwatch import ClockWatch
from t9ksched.scheduler.report.event_writer import EventWriter
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.report.metrics import Sources
from t9ksched.scheduler.report.queuestatus import QueueStatuses
from t9ksched.scheduler.report.sql_writer import SqlWriter
from t9ksched.scheduler.report.status import StatusWriter
from t9ksched.scheduler.report.vocabulary import Names
from t9ksched.scheduler.serve.internal import InternalServer, Served
from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.serve.judging import ReservationJudge
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.whatif.forecaster import Forecaster
from t9ksched.scheduler.whatif.lengthening import Lengthening
from t9ksched.scheduler.whatif.simulations import Simulations
from t9ksched.scheduler.whatif.snapshots import snapshot
from t9ksched.store.store import Store

log = structlog.get_logger(__name__)

VOLUMES_SHARE = 0.75
"""Of the time that a gang's binding may take, what its volumes may take."""
_CONFIGURATION_SECONDS = 3.0
_DEFAULTS = SchedulerOptions()


class SchedulerService:
    """One scheduler over one cluster and one database: `run` goes on until cancelled, `ready` says that it decides.

    With the option `observe` it plans and explains, and writes nothing to the cluster: what writes is not started, and
    the port refuses. `clock` gives nanoseconds since the epoch, `steady` seconds that only grow.
    """

    def __init__(
        self,
        client: ClusterPort,
        store: Store,
        *,
        internal_secret: str,
        options: SchedulerOptions = _DEFAULTS,
        clock: Callable[[], int] = time.time_ns,
        steady: Callable[[], float] = boot_time,
    ) -> None:
        observe = self._observe = options.observe
        client = read_only(client) if observe else client
        self._port = client
        self.leadership = leadership = Leadership(store.instances)
        self._store = store = store.fenced(lambda: leadership.epoch)
        self._clock = clock
        self._public_address = options.public_address
        self.state = ClusterState(self._changed)
        store.database.on_answer(self.state.meters.asked_database)
        self.state.waiting_jobs.limits = options.waiting
        self._event_recorder = EventRecorder(client, component="t9k-scheduler")
        events = EventWriter(self._event_recorder)
        # A clock that is passed in without a steady one beside it may run as it likes.
        watched = clock is time.time_ns or steady is not boot_time
        self.clocks = ClockWatch(clock, steady) if watched else None
        self.sql_writer = SqlWriter(store, self.state.outage, self.clocks)
        self._recorder = HistoryRecorder(self.state, self.sql_writer, events, clock)
        volumes = VolumeBinding(timeout=options.gang_bind_timeout * VOLUMES_SHARE)
        self._cards = CardKeeper(store.bindings, self.state, self.sql_writer.lost)
        self.sql_writer.first = self._cards.flush
        self.sql_writer.before_last = self._recorder.hand_over
        self.executor = Executor(client, self.state, self._recorder, clock, self._refused, volumes, self._cards)
        self._promises = PromiseKeeper(store.promises, self.state, self.sql_writer.lost)
        self._plans = PlanKeeper(store.planned_starts, self.state)
        self._evictor = Evictor(client, self.state, self._recorder, clock, self._promises)
        self.loop = Loop(
            self.state, self.executor, self._recorder, options.policy, clock, evictor=self._evictor, observe=observe
        )
        self._directions = Overrides(store, self.state, self.loop, clock, lambda: self._status.wake())
        slow = Slow()
        plugins = installed(slow)
        self.configuration = Configuration(options.policy, events, self._apply, plugins)
        file = options.scheduler_conf
        self._file = ConfigurationFile(file, self.configuration, plugins) if file else None
        watch = self.loop.plugins = PluginWatch(events, self.configuration.about, slow)
        followed = Informer(self.configuration.upsert, self.configuration.remove, lambda: None)
        named = WatchOptions(field_selector=NAMED)
        self._config_map = Reflector(client, CONFIGMAPS, followed, SYSTEM_NAMESPACE, options=named)
        self._statuses = statuses = QueueStatuses(self.state, self._now)
        names = Names(client, self.state)
        self._projection = QueueSync(client, store, self.state, events, statuses, names, observe=observe)
        objects = self._projection
        self._reservations = ReservationKeeper(store.reservations, self.state, events, lambda: objects.objects, clock)
        self._cordons = CordonKeeper(client, store, self.state, steady)
        self._status = StatusWriter(
            client,
            self.state,
            self._projection.write,
            self._now,
            groups=not observe,
            crowded=lambda: self.executor.crowded,
        )
        self.loop.told = self._status.wake
        integrity = GangTimeouts(
            client,
            self.state,
            self.executor,
            self._recorder,
            clock,
            timeout=options.gang_bind_timeout,
            recovery=options.gang_recovery_timeout,
            most_grace=self._most_grace,
        )
        stopper = Stopper(client, clock, self._most_grace)
        clearing = RoomClearing(self.state, self._evictor, clock, self._most_grace)
        end = None if observe else DependencyEnd(self.state, stopper, self._recorder)
        dependencies = DependencyKeeper(self.state, store, end, clock)
        self._heap = Heap(self.loop.rests)
        sweeps = [Sweep("dependencies", 1, dependencies.sweep), Sweep("garbage", 1, self._heap.tidy)]
        if not observe:
            timeouts = Timeouts(self._start_timeout, self._most_grace, options.gang_recovery_timeout)
            timekeeper = TimeKeeper(client, self.state, stopper, self._recorder, events, store.runs, clock, timeouts)
            idle = IdleKeeper(client, self.state, stopper, events, self.sql_writer.event, store, clock, self.clocks)
            sweeps += [
                Sweep("gangs", 5, integrity.sweep),
                Sweep("durations", 1, MaxDurationKeeper(self.state, stopper, events, self._recorder, clock).sweep),
                Sweep("idle", 2, idle.sweep),
                Sweep("time limits", 1, timekeeper.sweep),
                Sweep("promises", 5, self._promises.sweep),
                Sweep("planned starts", 1, self._plans.sweep),
                Sweep("cards", 1, self._sweep_cards),
                Sweep("reservations by administrators", 5, self._reservations.sweep),
                Sweep("reserved room", 1, clearing.sweep),
                Sweep("cordoned cards", 2, self._cordons.sweep),
            ]
        forecasts = ForecastKeeper(None if observe else store.forecasts, self.state, clock)
        self.forecaster = Forecaster(self.state, self.loop, store.jobs)
        sweeps.append(Sweep("forecasts", 2, forecasts.sweep))
        self._housekeeping = Housekeeping(
            self.state, store, clock, options.retention, sweeps, None if observe else self._cards
        )
        if self.clocks is not None:
            self.clocks.on_jump.append(self._clock_set)
        self._notifier = Notifier(store.notifications, options.send, self.state.notified, clock)
        self._feeds = Informers(client, self.state, self._projection, self._seen)
        self._jobs = JobIndex(self.state)
        judge = ReservationJudge(self.state, store, clearing, self._end_rules, clock).judge
        self.simulations = Simulations(self.state, self.loop, clock)
        self.lengthening = Lengthening(self.state, self.loop, clock, self._directions.suppose)
        served = Served(
            self.state,
            self._jobs,
            self.configuration,
            watch,
            statuses,
            names,
            self._feeds.lacking,
            clock,
            judge,
            self.simulations.served,
            partial(snapshot, self.state, self.loop),
            self.lengthening.served,
            Sources(
                lambda: answers_of(client),
                lambda: self.sql_writer.backlog,
                lambda: (self.executor.in_flight, self.executor.most_in_flight),
                clock,
                lambda: expiries_of(client),
            ),
        )
        self.ready = asyncio.Event()
        self._internal = InternalServer(served, internal_secret, options.listen, self.ready)
        restored = Restored(
            self._recorder,
            self._projection,
            self._directions,
            self._promises,
            self._plans,
            dependencies,
            self._reservations,
            self._cordons,
            self._cards,
            self._evictor,
            self._status,
            self.sql_writer,
        )
        missing = None if observe else partial(write_missing, self.state, self._port, store, self._recorder)
        self._database = DatabaseSync(store, self.state, restored, self._begin, self._adopt_cards, missing, clock)
        self.loop.find_queues = self._database.find_queues

    @property
    def address(self) -> str:
        """Base URL of `/internal/v1`, once it is served."""
        return self._internal.address

    async def _begin(self) -> None:
        await self.leadership.begin(self._address())

    def _address(self) -> str:
        return self._public_address or self.address

    def _start_timeout(self) -> int:
        """Seconds within which a bound gang must run, as the policy has it now."""
        return self.loop.policy.start_timeout_seconds

    def _most_grace(self) -> int:
        """The longest time, in seconds, that an evicted pod gets to end, as the policy has it now."""
        return self.loop.policy.preemption.max_grace_seconds

    def _end_rules(self) -> tuple[int, int]:
        return self._start_timeout(), self._most_grace()

    async def metrics(self, openmetrics: bool = False) -> bytes:
        """The metrics page, in the text format of Prometheus or as OpenMetrics."""
        return await self._internal.metrics(openmetrics)

    def _changed(self) -> None:
        self.loop.wake()

    def _refused(self) -> None:
        """Called when a binding did not happen: no watch may tell of that, so the group's status is written at once."""
        self.loop.wake()
        self._status.wake()

    def _apply(self, policy: Policy) -> None:
        """Another policy is in force from the next cycle on."""
        self.loop.policy = policy
        self.loop.wake()

    def _clock_set(self, by: timedelta, at: datetime) -> None:
        """The wall clock was set: timers that wait for a time of day would be late by as much."""
        self.state.clock_set()
        self._housekeeping.clock_set()

    def _seen(self) -> None:
        """Called after each event of a watch: wakes the writers of statuses and history."""
        self._status.wake()
        self._recorder.wake()

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
                    tasks.create_task(self._event_recorder.run())
                tasks.create_task(self.sql_writer.run())
                if self.clocks is not None:
                    self.clocks.begin()
                    tasks.create_task(self.clocks.run())
                tasks.create_task(self._config_map.run() if self._file is None else self._file.run())
                tasks.create_task(self._feeds.steps.run())
                revision = await self._database.restore()
                with self._heap.reading():
                    for reflector in self._feeds.reflectors():
                        tasks.create_task(self._feeds.run(reflector))
                        await self._feeds.read_first(reflector)
                await self._configured()
                if revision is not None:
                    await self._adopt_cards()
                if not self.state.queues:
                    self._projection.serve_objects()
                self._statuses.settle()
                self.state.feed.queues.note_all(self.state.queues)
                await recall_losses(self.state, self._store.history)
                if revision is not None:
                    await self._database.recall()
                tasks.create_task(self._database.follow(revision))
                tasks.create_task(self._feeds.read_late())
                tasks.create_task(self.leadership.keep(self._address, self.sql_writer))
                tasks.create_task(self._recorder.accept_running())
                tasks.create_task(self._status.run())
                tasks.create_task(self._recorder.run())
                tasks.create_task(self._jobs.run())
                if not self._observe:
                    self.executor.turns.resume()
                tasks.create_task(self.loop.run())
                tasks.create_task(self.forecaster.run())
                tasks.create_task(self._notifier.run())
                self._housekeeping.start()
                self.loop.wake()
                self.ready.set()
                numbers = {"nodes": len(self.state.nodes), "pods": len(self.state.pods)}
                kernel = "numpy" if chosen().missing else "native"
                log.info("scheduling", **numbers, internal=self.address, kernel=kernel)
        finally:
            self.ready.clear()
            await self._housekeeping.stop()
            self._heap.end()
            self._directions.stop()
            await self._evictor.stop()
            await self.executor.stop()
            await self._cards.stop()
            await self._internal.stop()
            await self._feeds.stop()

    async def _sweep_cards(self) -> None:
        """Put on record what bound pods hold and no binding waits for."""
        await self._cards.sweep(self._clock())

    async def _configured(self) -> None:
        """Wait for the configuration, but not for long: without the right to read it the policy given holds."""
        if self._file is not None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CONFIGURATION_SECONDS):
                await self._config_map.synced.wait()

    async def _adopt_cards(self) -> None:
        """What bound pods hold is on record from now on."""
        await self._feeds.read_unheard(self.state.cards.unheard())
        if not self._observe:
            await self._cards.adopt(self._clock())


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
