"""`up --observe` plans and explains, and sends not one request that changes anything: every request is recorded."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.runtime import Plan, Running, running
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import CRDS, PODGROUPS, PODS, QUEUES
from t9ksched.model import names
from t9ksched.settings import Settings

TIMEOUT = 90.0
GPU = "nvidia.com/gpu"


class Recorded:
    """A dev cluster of one node with 4 cards, and what others asked of it over HTTP."""

    def __init__(self, cluster: DevCluster, kubeconfig: Path) -> None:
        self.cluster = cluster
        self.kubeconfig = kubeconfig
        self.requests: list[str] = []
        cluster.frontend.middleware = self._record

    async def _record(self, request: web.BaseRequest, answer: Callable[..., Any]) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        return await answer(request)

    @property
    def port(self) -> ClusterPort:
        return self.cluster.port_api

    def writes(self) -> list[str]:
        return [line for line in self.requests if not line.startswith(("GET ", "HEAD "))]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Recorded]:
    nodes = nodes_from(
        {"nodes": [{"name": "n", "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "99", GPU: "4"}}]}
    )
    made = DevCluster(None, nodes)
    await made.start()
    made.write_kubeconfig(tmp_path / "kubeconfig")
    yield Recorded(made, tmp_path / "kubeconfig")
    await made.stop()


def pod(name: str, gpus: int, **labels: str) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi", GPU: str(gpus)}
    container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [container]},
    }


class Rest:
    """REST of a running observer."""

    def __init__(self, session: aiohttp.ClientSession, up: Running) -> None:
        self._session, self._up = session, up

    async def get(self, path: str) -> Any:
        async with self._session.get(self._up.server + path) as answer:
            return await answer.json()

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        async with self._session.post(self._up.server + path, json=body) as answer:
            return answer.status, json.loads(await answer.text())

    async def explained(self, kind: str, name: str, code: str) -> str:
        """The message of that reason once the job has it."""
        answer: Any = None
        try:
            async with asyncio.timeout(TIMEOUT):
                while True:
                    answer = await self.get(f"/apis/v1/workloads/default/{kind}/{name}/explanation")
                    for reason in answer.get("reasons") or ():
                        if reason["code"] == code:
                            return str(reason["message"])
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{kind} {name} was not told {code}: {answer}") from None


@asynccontextmanager
async def observing(cluster: Recorded, data: Path) -> AsyncIterator[Rest]:
    plan = Plan(data, Settings.load(), 0, kubeconfig=cluster.kubeconfig, observe=True)
    async with running(plan) as up:
        headers = {"Authorization": f"Bearer {up.token}"}
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(20)) as session:
            yield Rest(session, up)


async def test_not_one_mutating_call(cluster: Recorded, tmp_path: Path) -> None:
    group = {
        "apiVersion": names.SCHEDULER_API,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 2, "queue": "team"},
    }
    await cluster.port.create(PODGROUPS, group)
    for index in range(2):
        await cluster.port.create(PODS, pod(f"g-{index}", 2, **{names.GROUP_LABEL: "g"}))
    await cluster.port.create(PODS, pod("huge", 8))
    queue = {
        "apiVersion": names.SCHEDULER_API,
        "kind": "Queue",
        "metadata": {"name": "team", "namespace": names.SYSTEM_NAMESPACE},
        "spec": {"priority": 7},
    }
    await cluster.port.create(QUEUES, queue)
    before = await everything(cluster)

    async with observing(cluster, tmp_path / "data") as rest:
        planned = await rest.explained("PodGroup", "g", "PlannedStart")
        assert "g-0 on n (cards 0,1)" in planned
        assert "g-1 on n (cards 2,3)" in planned
        assert "only observes" in planned
        assert "8" in await rest.explained("Pod", "huge", "NeverFits")
        nodes = await rest.get("/apis/v1/nodes")
        assert [node["name"] for node in nodes["items"]] == ["n"]
        for dry_run in ("false", "true"):
            status, problem = await rest.post(f"/apis/v1/workloads?dryRun={dry_run}", pod("more", 1))
            assert (status, problem["code"]) == (409, "ObserveOnly")
            assert "--observe" in problem["remedy"]
        await cluster.port.create(PODS, pod("later", 0))
        assert "later on n" in await rest.explained("Pod", "later", "PlannedStart")

    assert cluster.writes() == []
    assert {uid: obj for uid, obj in (await everything(cluster)).items() if uid in before} == before


async def everything(cluster: Recorded) -> dict[str, Any]:
    """Pods, groups and queues by UID."""
    lists = [await cluster.port.list(res) for res in (PODS, PODGROUPS, QUEUES)]
    return {obj["metadata"]["uid"]: obj for found in lists for obj in found.items}


async def test_a_cluster_without_our_kinds_is_observed_too(cluster: Recorded, tmp_path: Path) -> None:
    for definition in (await cluster.port.list(CRDS)).items:
        await cluster.port.delete(CRDS, definition["metadata"]["name"])
    await cluster.port.create(PODS, pod("alone", 1))
    async with observing(cluster, tmp_path / "data") as rest:
        assert "alone on n" in await rest.explained("Pod", "alone", "PlannedStart")
    assert cluster.writes() == []
    assert (await cluster.port.list(CRDS)).items == []


@pytest.mark.parametrize(("db", "real"), [(None, False), ("sqlite:///elsewhere.db", True)])
async def test_an_observer_without_a_cluster_or_in_anothers_database(
    tmp_path: Path, db: str | None, real: bool
) -> None:
    settings = Settings.load(**({"db": db} if db else {}))
    plan = Plan(tmp_path, settings, 0, kubeconfig=tmp_path / "kubeconfig" if real else None, observe=True)
    with pytest.raises(Failure) as caught:
        async with running(plan):
            raise AssertionError("it started")
    assert caught.value.code == BAD_USAGE
