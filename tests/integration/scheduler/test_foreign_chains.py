"""Jobs of other projects that own other objects, which own the pods: one job, whichever object is asked about."""

import asyncio
from typing import Any

import pytest

from t9ksched.kube.resources import CRDS, JOBS, PODS, STATEFULSETS
from t9ksched.model import names
from t9ksched.workloads.registry import KINDS
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.foreign import (
    JOBSETS,
    KUBEFLOW_MPIJOBS,
    allow,
    child,
    define,
    definition,
    jobs_of,
    kubeflow_pods,
    make,
    owned_by,
    pods,
)
from tests.integration.scheduler.test_directions import until
from tests.integration.scheduler.test_foreign_gangs import bound, jobset, template
from tests.integration.world import World

Object = dict[str, Any]
LWS, CLUSTERS, RAY_JOBS, TRAIN_JOBS = (
    KINDS[name].resource for name in ("LeaderWorkerSet", "RayCluster", "RayJob", "TrainJob")
)


def named(world: World, kind: str, name: str, spec: Object, **meta: Any) -> Object:
    resource = KINDS[kind].resource
    metadata = {"name": name, "namespace": world.namespace, **meta}
    return {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, "spec": spec}


def stateful_set(owner: Object, name: str, count: int, pods_of: Object, labels: dict[str, str]) -> Object:
    """As the controller of a LeaderWorkerSet makes it; its webhook writes the labels of single pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": owned_by(owner),
        },
        "spec": {
            "replicas": count,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {**pods_of["spec"], "restartPolicy": "Always"}},
        },
    }


async def test_a_leader_and_its_workers_start_whole_and_end_at_their_limit(
    world: World, start: Start, queue: str
) -> None:
    await define(world, LWS)
    await allow(world, "lws")
    await world.play(1, 8)
    begin = "leaderworkerset.sigs.k8s.io"
    async with start() as service:
        spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 3, "workerTemplate": template(world)}}
        annotations = {names.TIME_LIMIT_ANNOTATION: "2s"}
        labels = {names.QUEUE_LABEL: queue}
        llm = await world.client.create(
            LWS, named(world, "LeaderWorkerSet", "llm", spec, labels=labels, annotations=annotations)
        )
        common = {f"{begin}/name": "llm", f"{begin}/group-index": "0"}
        leaders = stateful_set(llm, "llm", 1, template(world), {**common, f"{begin}/worker-index": "0"})
        await make(world, leaders)
        await until(lambda: any(one.name == "LeaderWorkerSet/llm[0]" for one in service.state.pending))
        assert not any((await pods(world)).values())
        leader = await world.client.get(PODS, "llm-0", world.namespace)
        leader |= {"apiVersion": "v1", "kind": "Pod"}
        workers = stateful_set(leader, "llm-0", 2, template(world), {**common, f"{begin}/worker-index": "1"})
        await make(world, workers)
        await until(lambda: any(one.ran for one in service.state.gangs.values()))
        uid = llm["metadata"]["uid"]
        # Its limit deletes the pods, for it cannot be suspended; the leader is made again and not placed. (The workers'
        # set went with the old leader.)
        await until(lambda: (clock := service.state.clocks.by_job.get(uid)) is not None and clock.run.ended_code)
        await until(
            lambda: [pod.name for pod in service.state.groups_of(uid)[0].members.values() if pod.waiting] == ["llm-0"]
        )
        while any((await pods(world)).values()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # until they have gone
        assert (await world.client.get(STATEFULSETS, "llm", world.namespace))["spec"]["replicas"] == 1
        assert (await world.client.get(LWS, "llm", world.namespace))["spec"] == spec


async def test_a_ray_job_is_suspended_itself(world: World, start: Start, queue: str) -> None:
    await define(world, CLUSTERS, RAY_JOBS)
    await allow(world, "kuberay")
    await world.play(1, 8)
    async with start() as service:
        workers = [{"groupName": "w", "replicas": 2, "template": template(world)}]
        cluster = {"headGroupSpec": {"template": template(world)}, "workerGroupSpecs": workers}
        meta = {"labels": {names.QUEUE_LABEL: queue}, "annotations": {names.TIME_LIMIT_ANNOTATION: "2s"}}
        count = await world.client.create(
            RAY_JOBS, named(world, "RayJob", "count", {"entrypoint": "python a.py", "rayClusterSpec": cluster}, **meta)
        )
        below = await world.client.create(
            CLUSTERS, named(world, "RayCluster", "count-x", cluster, ownerReferences=owned_by(count))
        )
        for number, group in enumerate(("headgroup", "w", "w")):
            if number == 2:
                assert not any((await pods(world)).values())
            labels = {"ray.io/cluster": "count-x", "ray.io/group": group}
            await make(world, child(below, template(world), f"count-{number}", **labels))
        await bound(world, 3)
        assert [(job.kind, job.queue) for job in service.state.jobs.values()] == [("RayJob", queue)]
        uid = count["metadata"]["uid"]
        await until(lambda: service.state.jobs[uid].phase == "Paused")
        assert (await world.client.get(RAY_JOBS, "count", world.namespace))["spec"]["suspend"] is True
        assert (await world.client.get(CLUSTERS, "count-x", world.namespace))["spec"] == cluster


async def test_a_train_job_over_its_jobset(world: World, start: Start, queue: str) -> None:
    await define(world, JOBSETS, TRAIN_JOBS)
    await allow(world, "jobset", "kubeflow-trainer")
    await world.play(1, 8)
    async with start() as service:
        spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 4}}
        labels = {names.QUEUE_LABEL: queue}
        torch = await world.client.create(TRAIN_JOBS, named(world, "TrainJob", "torch", spec, labels=labels))
        made = jobset(world, "torch", "none")
        del made["metadata"]["labels"]
        made["metadata"]["ownerReferences"] = owned_by(torch)
        below = await world.client.create(JOBSETS, made)
        jobs = jobs_of({**below, "apiVersion": JOBSETS.api_version, "kind": "JobSet"})
        await make(world, *jobs[:2])
        await until(lambda: any(one.name == "JobSet/torch" and one.reasons for one in service.state.pending))
        assert not any((await pods(world)).values())
        await make(world, jobs[2])
        await bound(world, 5)
        assert [(job.kind, job.queue) for job in service.state.jobs.values()] == [("TrainJob", queue)]
        assert {gang.queue for gang in service.state.groups_of(torch["metadata"]["uid"])} == {queue}
    assert len((await world.client.list(JOBS, world.namespace)).items) == 3


async def test_an_object_in_two_versions_is_one_job(
    world: World, start: Start, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the newer one while that is served; with the last one it is gone."""
    monkeypatch.setattr("t9ksched.kube.watch.reflector._UNSERVED", 0.05)

    def versions(**served: bool) -> Object:
        (like,) = definition(KUBEFLOW_MPIJOBS)["spec"]["versions"]
        found = [{**like, "name": name, "served": on, "storage": name == "v1"} for name, on in served.items()]
        return {"spec": {"versions": found}}

    crd = definition(KUBEFLOW_MPIJOBS)
    crd["spec"] |= versions(v2beta1=True, v1=True)["spec"]
    await world.define(crd)
    await allow(world, "kubeflow-mpi")
    await world.play(1, 8)
    replicas = {"Launcher": {"template": template(world)}, "Worker": {"replicas": 2, "template": template(world)}}
    meta = {"name": "walk", "namespace": world.namespace, "labels": {names.QUEUE_LABEL: queue}}
    async with start() as service:
        job = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": meta}
        made = await world.client.create(KUBEFLOW_MPIJOBS, {**job, "spec": {"mpiReplicaSpecs": replicas}})
        for pod in kubeflow_pods(made, "mpiReplicaSpecs"):
            labels = pod["metadata"]["labels"]
            labels["training.kubeflow.org/job-role"] = labels["training.kubeflow.org/replica-type"]
            await make(world, pod)
        await bound(world, 3)
        state, uid = service.state, made["metadata"]["uid"]

        def known() -> tuple[str, list[int]]:
            kinds = [one.kind for one in state.jobs.values() if one.uid == uid]
            return kinds[0] if kinds else "", [len(gang.members) for gang in state.gangs_of_owner(uid)]

        for on, kind in (
            (True, "MPIJob.kubeflow.org"),
            (False, "MPIJob.v1.kubeflow.org"),
            (True, "MPIJob.kubeflow.org"),
        ):
            await world.client.patch(CRDS, "mpijobs.kubeflow.org", None, versions(v2beta1=on, v1=True))
            await until(lambda kind=kind: known() == (kind, [3]))  # type: ignore[misc]
            assert [title[1] for title, found in state.job_names.items() if found == uid] == [kind]
        await world.client.patch(CRDS, "mpijobs.kubeflow.org", None, versions(v2beta1=False, v1=False))
        await until(lambda: known()[0] == "")
