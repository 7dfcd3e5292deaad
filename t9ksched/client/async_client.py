"""The client for programs that run on asyncio: the methods of `Client`, to be awaited."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Self, Unpack

from t9ksched.client import logs
from t9ksched.client.async_sending import AsyncTransport
from t9ksched.client.calls import JSON, Call, Query
from t9ksched.client.carrying import carry_out_async, lines_async
from t9ksched.client.errors import ClientError
from t9ksched.client.following import PATIENCE_SECONDS, Following
from t9ksched.client.goals import Goal
from t9ksched.client.known import find_by_environment
from t9ksched.client.models import (
    Event,
    Explanation,
    Job,
    Listed,
    LogLine,
    Node,
    Pod,
    Queue,
    Simulation,
    Submitted,
    WhoAmI,
)
from t9ksched.client.notifications import AsyncNotifications
from t9ksched.client.operations import Earlier, Objects, Operation, Operations, Retries, T, Texts
from t9ksched.client.running import Words, run
from t9ksched.client.sending import TIMEOUT_SECONDS
from t9ksched.client.waiting import wait


class AsyncClient:
    """One service, spoken to as the owner of a token: `async with AsyncClient() as client:`.

    Its methods are those of `Client`; `events` and `logs` are asynchronous iterators.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        retries: Retries = Retries(),
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Raises `NoService` if none is known, and ValueError if `server` is not an address."""
        self.server, secret = find_by_environment(server, token)
        self._transport = AsyncTransport(self.server, secret, timeout)
        self._operations = Operations(self.server, retries)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are kept open between calls."""
        await self._transport.close()

    async def submit(
        self,
        objects: Objects,
        *,
        namespace: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        time_limit: str | None = None,
        begin: datetime | str | None = None,
        reservation: str | None = None,
        after: Earlier | None = None,
        after_cancel: bool | None = None,
        array: str | None = None,
        dry_run: bool = False,
        key: str | None = None,
    ) -> Submitted:
        """Submit Kubernetes objects, as mappings, YAML text or a file: all are created, or none.

        What is named here wins over what the objects say, but `namespace`, which is for those that name none. Sent
        again after a lost answer, nothing is created twice. `key` makes that so for calls of yours: with the same key
        and the same objects the second call gets the answer of the first.
        """
        return await self._do(
            self._operations.submit(
                objects,
                key,
                dry_run,
                namespace=namespace,
                queue=queue,
                priority=priority,
                timeLimit=time_limit,
                startAfter=begin,
                reservation=reservation,
                after=after,
                afterCancel=after_cancel,
                array=array,
            )
        )

    async def run(
        self,
        command: str | Sequence[str],
        *,
        image: str = "",
        profile: str | None = None,
        name: str | None = None,
        namespace: str | None = None,
        queue: str = "",
        gpus: int = 0,
        gpu_model: str = "",
        gpu_memory: str = "",
        gpu_cores: str = "",
        replicas: int | None = None,
        torchrun: bool = False,
        cpu: str = "",
        memory: str = "",
        mounts: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        workdir: str = "",
        retries: int = 0,
        priority: int | None = None,
        time_limit: str | None = None,
        begin: datetime | str | None = None,
        reservation: str | None = None,
        after: Earlier | None = None,
        after_cancel: bool | None = None,
        dry_run: bool = False,
        key: str | None = None,
    ) -> Job:
        """Run a command on cards, as `t9ksched run` does: one pod is a Job; replicas, torchrun or a priority make it a
        PyTorchTrainingJob, whose pods start together or not at all. Cards are those of each replica; a mount is written
        `CLAIM:/path` or `CLAIM:/path:ro`. What is left out is as the `profile` says, or the one that T9KSCHED_PROFILE
        names in the environment.

        Raises:
            ValueError: what is asked for contradicts itself.
        """
        submitted = run(
            self._operations,
            command,
            None,
            image=image,
            profile=profile,
            name=name,
            namespace=namespace,
            queue=queue,
            gpus=gpus,
            gpu_model=gpu_model,
            gpu_memory=gpu_memory,
            gpu_cores=gpu_cores,
            replicas=replicas,
            torchrun=torchrun,
            cpu=cpu,
            memory=memory,
            mounts=mounts,
            env=env,
            annotations=annotations,
            workdir=workdir,
            retries=retries,
            priority=priority,
            time_limit=time_limit,
            begin=begin,
            reservation=reservation,
            after=after,
            after_cancel=after_cancel,
            dry_run=dry_run,
            key=key,
        )
        return (await self._do(submitted)).items[0]

    async def run_array(self, command: str | Sequence[str], array: str, **words: Unpack[Words]) -> list[Job]:
        """As `run`, a job for each index of `array`, which is written as `0-99`, `1,3,5-9:2` or `0-99%8`, with which 8
        run at once at the most. Each has its index in `T9K_ARRAY_INDEX`, and is a job by itself.

        Raises:
            ValueError: what is asked for contradicts itself.
        """
        return (await self._do(run(self._operations, command, array, **words))).items

    async def jobs(
        self,
        *,
        namespace: str | None = None,
        queue: Texts | None = None,
        phase: Texts | None = None,
        user: Texts | None = None,
        kind: Texts | None = None,
        label: Texts | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        deleted: bool = False,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Listed[Job]:
        """The jobs that you may see and that pass all filters, in the order of their submission. `label` is written as
        kubectl selects; `deleted` lists those whose objects are gone, too; `since` and `until` are about submission.
        """
        return await self._do(
            self._operations.jobs(
                limit,
                namespace=namespace,
                queue=queue,
                phase=phase,
                user=user,
                kind=kind,
                label=label,
                since=since,
                until=until,
                deleted=deleted or None,
                order="newest" if newest_first else None,
            )
        )

    async def job(self, job: Job | str, *, namespace: str | None = None) -> Job:
        """One job as it is now."""
        return await self._do(self._operations.job(job, namespace))

    async def explain(self, job: Job | str, *, namespace: str | None = None) -> Explanation:
        """Why a job is where it is, who holds what it needs, and what would let it start."""
        return await self._do(self._operations.explain(job, namespace))

    async def cancel(self, job: Job | str, *, namespace: str | None = None) -> Job:
        """Delete a job; its `warnings` name pods that stay."""
        return await self._do(self._operations.cancel(job, namespace))

    async def wait(
        self,
        job: Job | str,
        goal: Goal = "finished",
        *,
        namespace: str | None = None,
        timeout: float | None = None,
        on_change: Callable[[Job], object] | None = None,
    ) -> Job:
        """Come back when a job is where `goal` says, at most `timeout` seconds later; `on_change` is told meanwhile.

        `running` is also reached by a job that has already succeeded, `finished` however it ended.

        Raises:
            NotReached: it cannot get there any more.
            WaitTimeout: it is not there in time.
        """
        return await self._do(wait(self._operations, job, goal, namespace, timeout, on_change))

    async def events(
        self,
        *,
        after: int | None = None,
        about: Texts | None = None,
        type: Texts | None = None,
        kind: Texts | None = None,
        queue: Texts | None = None,
        user: Texts | None = None,
        namespace: str | None = None,
        name: str | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> AsyncGenerator[Event, None]:
        """What happens to jobs, queues and nodes, as it happens, without an end: from now on, or from behind `after`.

        Broken connections and restarted services are gone on from: nothing is left out and nothing comes twice. Only a
        service that is away for longer than `patience` seconds is raised as `Unreachable`, and a token that is worth
        nothing any more as `Refused`.
        """
        filters = {"about": about, "type": type, "kind": kind, "queue": queue, "user": user}
        following = Following(after, filters | {"namespace": namespace, "name": name}, patience)
        while True:
            broken: ClientError | None = None
            try:
                async with aclosing(self._transport.stream(following.call())) as parts:
                    async for part in parts:
                        for event in following.heard(part):
                            yield event
            except ClientError as error:
                broken = error
            await asyncio.sleep(following.broken(broken))

    async def pods(self, job: Job | str, *, namespace: str | None = None) -> Listed[Pod]:
        """The pods of a job, its launcher first, then by rank, with what keeps each from running."""
        return await self._do(logs.pods(self._operations, job, namespace))

    async def logs(
        self,
        job: Job | str,
        *,
        namespace: str | None = None,
        rank: int | None = None,
        pod: str | None = None,
        container: str | None = None,
        follow: bool = False,
        tail: int | None = None,
        since: datetime | float | None = None,
        previous: bool = False,
        on_wait: logs.Waits | None = None,
    ) -> AsyncGenerator[LogLine, None]:
        """What a pod of a job has written: the launcher, else rank 0, unless a `rank` or a `pod` is named. `tail` is a
        number of lines, `since` a moment or so many seconds, `previous` the run before the last restart.

        With `follow` it goes on until the job is over: it waits for the pod to start (`on_wait` is told of it),
        survives breaks, and goes on with the pod that takes its place; no line comes twice.
        """
        wish = logs.LogWish(rank, pod, container, tail, since, previous, on_wait)
        operation = logs.lines(self._operations, job, namespace, wish, follow_it=follow)
        async with aclosing(lines_async(self._transport, operation)) as found:
            async for line in found:
                yield line

    async def queues(
        self, *, namespace: str | None = None, label: Texts | None = None, managed: bool = False
    ) -> Listed[Queue]:
        """The queues that you may use, with `namespace` also what that namespace may use; or those that you manage."""
        return await self._do(self._operations.queues(managed, namespace=namespace, label=label))

    async def nodes(self, *, label: Texts | None = None) -> Listed[Node]:
        """The nodes, with their cards and the jobs that hold them."""
        return await self._do(self._operations.nodes(label=label))

    async def node(self, name: str) -> Node:
        """One node."""
        return await self._do(self._operations.node(name))

    async def simulate(
        self,
        objects: Objects | None = None,
        *,
        change: Mapping[str, Any] | None = None,
        horizon: str | None = None,
        namespace: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        time_limit: str | None = None,
        begin: datetime | str | None = None,
        reservation: str | None = None,
        after: Earlier | None = None,
        after_cancel: bool | None = None,
    ) -> Simulation:
        """What would happen if these objects were submitted, or if queues, nodes or the policy were others; nothing
        changes. `change` is written as the reference of `/apis/v1/simulate` says.
        """
        return await self._do(
            self._operations.simulate(
                objects,
                change,
                horizon,
                namespace=namespace,
                queue=queue,
                priority=priority,
                timeLimit=time_limit,
                startAfter=begin,
                reservation=reservation,
                after=after,
                afterCancel=after_cancel,
            )
        )

    @property
    def notifications(self) -> AsyncNotifications:
        """Addresses that are told what happens to jobs."""
        return AsyncNotifications(self._operations, self._do)

    async def whoami(self) -> WhoAmI:
        """Whose token it is, and what it allows."""
        return await self._do(self._operations.whoami())

    async def version(self) -> str:
        """Which release of the service answers."""
        return await self._do(self._operations.version())

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Query | None = None,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Any other request to the service, such as `client.request("GET", "/apis/v1/usage")`; its JSON."""
        return await self._do(
            self._operations.request(Call(method, path, query or {}, body, content_type, dict(headers or {})))
        )

    async def _do(self, operation: Operation[T]) -> T:
        return await carry_out_async(self._transport, operation)
