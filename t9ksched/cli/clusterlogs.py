"""Logs without a service: what `t9ksched logs` asks the service for is answered by the cluster itself, with the rights
of a kubeconfig. It asks for a job, for its pods and for what they have written, and so much is answered here.
"""

import asyncio
import atexit
import json
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from t9ksched.api.http.problems import Problem
from t9ksched.api.job_from_object import from_object
from t9ksched.api.jobpods import read_pods
from t9ksched.api.podlogs import not_started
from t9ksched.api.submission.kinds import ACCEPTED
from t9ksched.cli.client import Client
from t9ksched.cli.failure import Away, Failure
from t9ksched.client.calls import Answer, Call, problem
from t9ksched.client.errors import ClientError, Refused, Unreachable
from t9ksched.client.sending import Transport
from t9ksched.kube.errors import ApiError, BadRequest, Forbidden, NotFound, Unauthorized
from t9ksched.kube.transport.client import Client as Cluster
from t9ksched.kube.transport.config import ConfigError, connect
from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import Invalid
from t9ksched.workloads.read import read
from t9ksched.workloads.shape import Workload

_T = TypeVar("_T")
_HEAD: Final = ["", "apis", "v1", "workloads"]


class ClusterClient(Client):
    """Reads logs in the cluster of a kubeconfig, which its `server` names."""

    @cached_property
    def transport(self) -> Transport:
        """What asks the cluster."""
        return _ClusterTransport(Path(self.server))

    @contextmanager
    def failures(self, path: str, options: Mapping[str, str]) -> Iterator[None]:
        """As of a service, in words about the cluster."""
        with super().failures(path, options):
            try:
                yield
            except Unreachable as error:
                text = f"The cluster of {self.server} does not answer ({error.why})."
                raise Away(text, remedy="Check the kubeconfig, and the way there.") from None


class _ClusterTransport(Transport):
    """May be used by several threads: one loop of its own speaks to the cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(str(kubeconfig), "")
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="cluster", daemon=True).start()
        self._cluster = connect(kubeconfig)
        try:
            self._do(self._cluster.__aenter__())
        except ConfigError as error:
            raise Failure(str(error), remedy="Name another one: --kubeconfig FILE") from None
        atexit.register(lambda: self._do(self._cluster.__aexit__(None, None, None)))

    def send(self, call: Call) -> Answer:
        """The answer about a job, about its pods, or about the elements of an array. Raises Unreachable where the
        cluster does not answer.
        """
        return self._do(_answered(self._cluster, call))

    def stream(self, call: Call) -> Iterator[bytes]:
        """What a pod has written, or writes. Raises Refused when it has written nothing."""
        parts = _written(self._cluster, call)
        try:
            while (part := self._do(_next(parts))) is not None:
                yield part
        except Problem as error:
            raise problem(_refused(error)) from None
        except ApiError as error:
            raise self._fault(error) from None
        finally:
            self._do(parts.aclose())

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except ApiError as error:
            raise self._fault(error) from None

    def _fault(self, error: ApiError) -> ClientError:
        """What the cluster's refusal means for whoever owns the kubeconfig."""
        if isinstance(error, Unauthorized):
            return Refused(401, "Unauthorized", f"the cluster of {self.server} does not take its credentials")
        if isinstance(error, Forbidden):
            return Refused(403, "Forbidden", error.message)
        if error.status:
            return Refused(error.status, error.reason, f"the cluster of {self.server} refused: {error.message}")
        return Unreachable(self.server, error.message or error.reason)


async def _next(parts: AsyncIterator[bytes]) -> bytes | None:
    return await anext(parts, None)


def _refused(error: Problem) -> Answer:
    response = error.response()
    return Answer(response.status_code, dict(response.headers), bytes(response.body))


async def _answered(cluster: Cluster, call: Call) -> Answer:
    place = call.path.split("/")[len(_HEAD) :]
    told: Any
    try:
        if not place:
            told = {"items": await _elements(cluster, call)}
        else:
            namespace, kind, name, *rest = place
            job = await _job(cluster, namespace, kind, name)
            told = {"items": [one.to_json() for one in await read_pods(cluster, job)]} if rest else job
    except Problem as error:
        return _refused(error)
    return Answer(200, {}, json.dumps(told).encode())


async def _written(cluster: Cluster, call: Call) -> Any:
    namespace, kind, name, *rest = call.path.split("/")[len(_HEAD) :]
    job = await _job(cluster, namespace, kind, name)
    pod = next((one for one in await read_pods(cluster, job) if one.name in rest or "pods" not in rest), None)
    if pod is None:
        text = f"{kind}/{name} has no pod: none was made yet, or those there were are deleted, and their logs with them"
        raise Problem("Conflict", text)
    if not pod.has_written:
        raise not_started(pod)
    asked = {key: value for key, value in call.query.items() if value not in (None, False) and key != "rank"}
    query = {"container": pod.containers[0]} | {
        key: "true" if value is True else str(value) for key, value in asked.items()
    }
    if query["container"] not in pod.containers:
        text = f"{query['container']!r} is no container of pod {pod.name}; these are {', '.join(pod.containers)}"
        raise Problem("InvalidField", f"--container: {text}")
    try:
        async with aclosing(await cluster.log(namespace, pod.name, query)) as parts:
            async for part in parts:
                yield part
    except BadRequest as error:
        raise Problem("Conflict", error.message) from error


async def _elements(cluster: Cluster, call: Call) -> list[dict[str, Any]]:
    """The jobs of the namespace, kind and label that are asked for."""
    resource, asked = _resource(str(call.query["kind"])), call.query
    found = await cluster.list(resource, str(asked["namespace"]), label_selector=str(asked["label"]))
    return [_job_of(obj, resource) for obj in found.items]


async def _job(cluster: Cluster, namespace: str, kind: str, name: str) -> dict[str, Any]:
    resource = _resource(kind)
    try:
        return _job_of(await cluster.get(resource, name, namespace), resource)
    except NotFound as error:
        raise Problem("NotFound", f"there is no {kind}/{name} in the namespace {namespace!r}") from error


def _resource(kind: str) -> Resource:
    resource = ACCEPTED.get(kind)
    if resource is None:
        text = f"without a service logs of {kind} are not found; of these they are: {', '.join(sorted(ACCEPTED))}"
        raise Problem("UnknownKind", text)
    return resource


def _job_of(obj: dict[str, Any], resource: Resource) -> dict[str, Any]:
    obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    try:
        workload = read(obj)
    except Invalid:
        workload = Workload(resource.kind, resource.api_version, namespace, name, "", "", 0, ())
    return from_object(obj, workload)
