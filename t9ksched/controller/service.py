"""The controllers as a service: they create the pods of objects of the controlled kinds, and write the objects' status.
`workloads.reconcile` decides; here reflectors follow the cluster, a work queue says which workload is next, and a few
workers reconcile. One leader runs this at a time; nothing is lost if it stops anywhere.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import structlog

from t9ksched.controller import meters
from t9ksched.controller.activity import Asked, Asking, Watcher
from t9ksched.controller.addons import Addons
from t9ksched.controller.execute import Executor, NameTaken, NotMade, Record, Stale
from t9ksched.controller.meters import ControllerMeters
from t9ksched.controller.picture import Key, Named, Owned, Workloads
from t9ksched.controller.sshkeys import SecretMaker
from t9ksched.controller.unread import Unread
from t9ksched.controller.workqueue import WorkQueue
from t9ksched.kube import resources
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.port import ClusterPort, Object, answers_of
from t9ksched.kube.watch.reflector import Reflector, WatchOptions
from t9ksched.kube.write.events import EventRecorder
from t9ksched.model.reasons import Code
from t9ksched.workloads import boards, taken
from t9ksched.workloads.actions import Children, metadata, name_of, uid_of
from t9ksched.workloads.activity import is_idle
from t9ksched.workloads.answers import NOT_YET, Activity
from t9ksched.workloads.parts import COMPONENT_LABEL
from t9ksched.workloads.reconcile import Owners, reconcile
from t9ksched.workloads.registry import CONTROLLED, KINDS
from t9ksched.workloads.tuning.experiment import TRIAL_KINDS

log = structlog.get_logger(__name__)

COMPONENT: Final = "t9ksched-controller"
_REST_SHARE: Final = 5.0
"""A workload rests for this many times the duration of its last decision: one of a thousand pods changes often and
takes long."""
_LONGEST_REST: Final = 2.0
_TAKEN_SECONDS: Final = 10.0
"""The longest pause between two looks at a workload that waits for another's object to go: no watch tells of that."""
_UNSEEN_SECONDS: Final = 10.0
"""How long the watch may take to bring what we created before we ask for it."""
_KINDS: Final = tuple(row.resource for row in CONTROLLED)
_SERVICES: Final = "MLService"
"""The kind that names MLServiceRuntimes."""
_CHILDREN: Final = (
    resources.PODS,
    resources.PODGROUPS,
    resources.SERVICES,
    resources.CONFIGMAPS,
    KINDS[boards.KIND].resource,
    *(KINDS[kind].resource for kind in TRIAL_KINDS),
    resources.DEPLOYMENTS,
)


async def first_of(*events: asyncio.Event) -> None:
    """Wait for one of these."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Controllers:
    """The controllers of one cluster.

    Args:
        client: the cluster.
        recorder: where events go; without one, `run` keeps one of its own.
        clock: the present, for deadlines and conditions.
        workers: workloads looked at at the same time.
        queue: the work queue, if it is to have other pauses.
        make: fills the Secrets of workloads.
        asking: how it is found out whether anybody uses workloads.
    """

    def __init__(
        self,
        client: ClusterPort,
        recorder: EventRecorder | None = None,
        clock: Callable[[], datetime] = _utc_now,
        *,
        workers: int = 4,
        queue: WorkQueue[Key] | None = None,
        make: SecretMaker | None = None,
        asking: Asking = Asking(),
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue() if queue is None else queue  # an empty one is false
        self._clock = clock
        self._workers = workers
        self._client = client
        self._own_recorder = EventRecorder(client, COMPONENT) if recorder is None else None
        record: Record = (recorder or self._own_recorder or EventRecorder(client, COMPONENT)).record
        self._unread = Unread(record)
        self._workloads = {res.kind: Workloads(res.kind, self.queue.add) for res in _KINDS}
        self._owned = Owned(tuple(self._workloads), self.queue.add)
        self._executor = Executor(
            client,
            record,
            make or SecretMaker(),
            wrote=lambda old, new: self._workloads[old["kind"]].wrote(old, new),
            updated=self._owned.updated,
            made=self._owned.made,
        )
        ours = WatchOptions(
            label_selector=f"{COMPONENT_LABEL} in ({','.join(kind.lower() for kind in self._workloads)})"
        )
        self._reflectors: list[Reflector[dict[str, object]]] = [
            *(Reflector(client, res, self._workloads[res.kind]) for res in _KINDS),
            *(Reflector(client, res, self._owned, options=ours) for res in _CHILDREN),
        ]
        self._runtimes = Named(self._workloads[_SERVICES])
        self._addons = Addons(client, self._owned, ours, lambda kind: self._workloads[kind].look_at_all())
        self._optional: list[Reflector[dict[str, object]]] = [
            Reflector(client, resources.MLSERVICERUNTIMES, self._runtimes, options=WatchOptions(optional=True)),
            *self._addons.reflectors,
        ]
        self._owners = Owners()
        self._idle_after = asking.idle_after
        self._watcher: Watcher | None = None
        if asking.ask is not None:
            self._watcher = Watcher(asking.ask, self._asked, self.queue.add, interval=asking.seconds, wall=clock)
        self.meters = ControllerMeters(self._workloads)
        self.ready = asyncio.Event()

    async def metrics(self, openmetrics: bool) -> bytes:
        """The metrics page of these controllers."""
        workloads = {kind: len(known) for kind, known in self._workloads.items()}
        requests = answers_of(self._client)
        return self.meters.page(len(self.queue), self.queue.failing, workloads, requests, openmetrics=openmetrics)

    async def run(self) -> None:
        """Work until cancelled; `ready` is set once everything there is has been seen."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in (*self._reflectors, *self._optional):
                tasks.create_task(reflector.run(), name=f"controller:{reflector.res}")
            if self._own_recorder is not None:
                tasks.create_task(self._own_recorder.run(), name="controller:events")
            # A controller that has not seen all objects would create pods that exist already, so every list comes
            # first.
            for reflector in self._reflectors:
                await reflector.synced.wait()
            for reflector in self._optional:
                await first_of(reflector.synced, reflector.absent, reflector.denied)
            self._addons.look()
            self.ready.set()
            for number in range(self._workers):
                tasks.create_task(self._work(), name=f"controller:worker-{number}")
            tasks.create_task(self._look_for_unseen(), name="controller:unseen")
            tasks.create_task(self._addons.run(), name="controller:addons")
            if self._watcher is not None:
                tasks.create_task(self._watcher.run(), name="controller:activity")

    def _asked(self) -> Iterator[Asked]:
        """The workloads that can be asked whether anybody uses them."""
        for row in CONTROLLED:
            asks = row.control.asks
            for key, obj in self._workloads[row.resource.kind].items() if asks is not None else ():
                question = asks(obj, self._owned.of(uid_of(obj)))  # type: ignore[misc]
                if question is not None:
                    yield Asked(key, uid_of(obj), question, is_idle(obj))

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            thought = 0.0
            try:
                thought = await self._look(key)
            finally:
                self.queue.done(key, rest=min(_LONGEST_REST, _REST_SHARE * thought))

    async def _look_for_unseen(self) -> None:
        """Ask for what we created and the watch does not bring: it may have gone before the watch looked."""
        before: set[str] = set()
        while True:
            await asyncio.sleep(_UNSEEN_SECONDS)
            for obj in [obj for uid, obj in self._owned.unseen.items() if uid in before]:
                await self._confirm(obj)
            before = set(self._owned.unseen)

    async def _confirm(self, obj: Object) -> None:
        try:
            found = await self._client.get(resources.of(obj), name_of(obj), metadata(obj)["namespace"])
        except NotFound:
            self._owned.on_delete(obj)
        except ApiError as error:
            log.info("not known yet whether it is there", kind=obj["kind"], name=name_of(obj), error=str(error))
        else:
            if uid_of(found) != uid_of(obj):
                self._owned.on_delete(obj)

    def _children(self, key: Key, obj: Object) -> Children:
        """What a workload owns, what is known of its use, and what it may name."""
        found = self._owned.of(uid_of(obj))
        return replace(
            found,
            companions=self._addons.there(found.companions),
            activity=self._activity(key, obj, found),
            named=self._runtimes.of(key.namespace) if key.kind == _SERVICES else (),
            idle_after=self._idle_after,
            addons=self._addons.known,
        )

    def _activity(self, key: Key, obj: Object, found: Children) -> Activity | None:
        """What a workload answered; None if nobody asks it."""
        asks = KINDS[key.kind].control.asks
        if self._watcher is None or asks is None or asks(obj, found) is None:
            return None
        return self._watcher.of(uid_of(obj)) or NOT_YET

    async def _look(self, key: Key) -> float:
        """One look at one workload; returns the seconds that deciding took.

        Whatever goes wrong with one must not stop the others.
        """
        obj = self._workloads[key.kind].get(key)
        if obj is None or metadata(obj).get("deletionTimestamp"):
            self.queue.forget(key)
            self._owners.forget(key)
            self._unread.forget(key)
            return 0.0
        began = thought = time.perf_counter()
        outcome = meters.DONE
        try:
            self._unread.look(key, obj)
            actions = reconcile(obj, self._children(key, obj), self._clock(), self._owners)
            thought = time.perf_counter()
            await self._executor.carry_out(obj, actions)
        except Stale as reason:
            outcome = meters.STALE
            log.debug("changed meanwhile", kind=key.kind, namespace=key.namespace, name=key.name, why=str(reason))
            self.queue.add_failed(key)
        except NameTaken as error:
            outcome = meters.NAME_TAKEN
            self.queue.add_failed(key, most=_TAKEN_SECONDS)
            await self._tell(key, str(Code.NAME_TAKEN), str(error))
        except NotMade as error:
            outcome = meters.NOT_MADE
            self.queue.add_failed(key)
            await self._tell(key, error.reason, str(error))
        except ApiError as error:
            outcome = meters.REFUSED
            pause = self.queue.add_failed(key)
            log.warning(
                "not done, tried again",
                kind=key.kind,
                namespace=key.namespace,
                name=key.name,
                error=str(error),
                in_=pause,
            )
        except Exception:
            outcome = meters.FAILED
            self.queue.add_failed(key)
            log.exception("looking at a workload failed", kind=key.kind, namespace=key.namespace, name=key.name)
        else:
            self.queue.succeeded(key)
            if actions.again_in is not None:
                self.queue.add_after(key, actions.again_in)
            else:
                self.queue.cancel_timer(key)
        self.meters.looked(key.kind, outcome, time.perf_counter() - began)
        return thought - began

    async def _tell(self, key: Key, reason: str, message: str) -> None:
        """Say in the workload's status why an object that it needs is not made. Failing that, the next look says it."""
        obj = self._workloads[key.kind].get(key)
        status = None if obj is None else taken.told(obj, reason, message, self._clock())
        if obj is None or status is None:
            return
        log.warning("not made", kind=key.kind, namespace=key.namespace, name=key.name, reason=reason, why=message)
        try:
            await self._executor.tell(obj, status)
        except (Stale, ApiError) as error:
            log.info("its status could not say so yet", kind=key.kind, name=key.name, error=str(error))
