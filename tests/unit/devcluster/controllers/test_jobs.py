"""The batch/v1 Job controller."""

import asyncio
from typing import Any

import pytest

from t9ksched.devcluster.controllers.follow import Cache
from t9ksched.kube.resources import DEPLOYMENTS, JOBS, PODS, REPLICASETS, STATEFULSETS
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import EXIT, RUN, World, container, world

Object = dict[str, Any]


def job(seconds: str = "10", code: str = "0", restart: str = "Never", **spec: Any) -> Object:
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": {RUN: seconds, EXIT: code}},
        "spec": {"restartPolicy": restart, "containers": [container(cpu="1")]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": template, **spec},
    }


async def status(w: World) -> Object:
    return dict((await w.get("j", JOBS))["status"])


def true_conditions(status: Object) -> dict[str, str]:
    return {entry["type"]: entry["reason"] for entry in status.get("conditions") or [] if entry["status"] == "True"}


@on_virtual_time
async def test_a_job_runs_to_its_completions() -> None:
    async with world() as w:
        await w.create(JOBS, job(parallelism=2, completions=5))
        await asyncio.sleep(5)
        found = await status(w)
        assert (found["active"], found["ready"], found.get("succeeded", 0)) == (2, 2, 0)
        await asyncio.sleep(60)
        found = await status(w)
        assert (found.get("active", 0), found["succeeded"], found.get("failed", 0)) == (0, 5, 0)
        assert set(true_conditions(found)) == {"SuccessCriteriaMet", "Complete"}
        assert found["startTime"]
        assert found["completionTime"]
        assert len(await w.pods()) == 5
        assert w.agents.refusals == []


@on_virtual_time
async def test_pods_carry_the_jobs_labels_owner_and_template() -> None:
    async with world() as w:
        made = await w.create(JOBS, job())
        await asyncio.sleep(1)
        (found,) = await w.pods("batch.kubernetes.io/job-name=j")
        metadata = found["metadata"]
        assert metadata["name"].startswith("j-")
        assert metadata["labels"]["job-name"] == "j"
        assert metadata["labels"]["app"] == "x"
        assert metadata["labels"]["controller-uid"] == made["metadata"]["uid"]
        assert metadata["annotations"][RUN] == "10"
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", made["metadata"]["uid"], True)


@on_virtual_time
async def test_failures_up_to_the_limit() -> None:
    async with world() as w:
        await w.create(JOBS, job("1", "1", backoffLimit=2))
        await asyncio.sleep(100)
        found = await status(w)
        assert true_conditions(found)["Failed"] == "BackoffLimitExceeded"
        assert (found.get("active", 0), found["failed"]) == (0, 3)
        assert len(await w.pods()) == 3


@on_virtual_time
async def test_the_deadline_ends_the_job_and_its_pods() -> None:
    async with world() as w:
        await w.create(JOBS, job("1000", parallelism=2, activeDeadlineSeconds=30))
        await asyncio.sleep(29)
        assert len(await w.pods()) == 2
        await asyncio.sleep(5)
        assert true_conditions(await status(w))["Failed"] == "DeadlineExceeded"
        assert await w.pods() == []


@on_virtual_time
async def test_suspend_and_resume() -> None:
    async with world() as w:
        await w.create(JOBS, job("20", suspend=True))
        await asyncio.sleep(5)
        assert await w.pods() == []
        assert true_conditions(await status(w)) == {"Suspended": "JobSuspended"}
        assert "startTime" not in await status(w)
        await w.port.patch(JOBS, "j", "default", {"spec": {"suspend": False}})
        await asyncio.sleep(5)
        assert len(await w.pods()) == 1
        await w.port.patch(JOBS, "j", "default", {"spec": {"suspend": True}})
        await asyncio.sleep(5)
        assert await w.pods() == []
        await w.port.patch(JOBS, "j", "default", {"spec": {"suspend": False}})
        await asyncio.sleep(30)
        assert "Complete" in true_conditions(await status(w))
        assert "Suspended" not in true_conditions(await status(w))


@on_virtual_time
async def test_parallelism_can_change() -> None:
    async with world() as w:
        await w.create(JOBS, job("1000", parallelism=4, completions=4))
        await asyncio.sleep(2)
        await w.port.patch(JOBS, "j", "default", {"spec": {"parallelism": 1}})
        await asyncio.sleep(2)
        assert len(await w.pods()) == 1
        assert (await status(w))["active"] == 1


@on_virtual_time
async def test_a_pod_that_is_deleted_is_replaced() -> None:
    async with world() as w:
        await w.create(JOBS, job("1000"))
        await asyncio.sleep(2)
        (first,) = await w.pods()
        await w.port.delete(PODS, first["metadata"]["name"], "default")
        await asyncio.sleep(5)
        (second,) = await w.pods()
        assert second["metadata"]["uid"] != first["metadata"]["uid"]


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet", "StatefulSet", "Deployment"])
def test_nothing_is_made_for_an_owner_whose_deletion_the_watch_has_not_shown_yet(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its pods are collected as fast as they are made: without looking there would be no end to that."""
    heard = Cache.on_delete
    monkeypatch.setattr(Cache, "on_delete", lambda self, obj: None if obj.get("kind") == kind else heard(self, obj))

    @on_virtual_time
    async def run() -> None:
        async with world() as w:
            made, real = 0, w.port.create

            async def create(*args: Any, **named: Any) -> Object:
                nonlocal made
                made += 1
                if made > 20:
                    await asyncio.sleep(3600)  # what goes on for ever shall not hold the test
                return await real(*args, **named)

            monkeypatch.setattr(w.port, "create", create)
            owner = job() if kind == "Job" else replicated(kind)
            kinds = {"ReplicaSet": REPLICASETS, "StatefulSet": STATEFULSETS, "Deployment": DEPLOYMENTS}
            res = kinds.get(kind, JOBS)
            needed = 3 if kind == "Deployment" else 2  # its ReplicaSet, too
            await w.create(res, owner)
            await asyncio.sleep(1)
            assert (made, len(await w.pods())) == (needed, 1)
            await w.port.delete(res, "j", "default", propagation="Background")
            await asyncio.sleep(120)
            assert (made, await w.pods()) == (needed, [])

    run()


def replicated(kind: str) -> Object:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container(cpu="1")]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


@on_virtual_time
async def test_without_completions_one_success_is_enough_once_the_rest_has_ended() -> None:
    async with world() as w:
        await w.create(JOBS, job("10", parallelism=3))
        await asyncio.sleep(30)
        found = await status(w)
        assert found["succeeded"] == 3
        assert "Complete" in true_conditions(found)
        assert len(await w.pods()) == 3


@on_virtual_time
async def test_indexed_jobs_have_one_success_an_index() -> None:
    async with world() as w:
        await w.create(JOBS, job("5", parallelism=2, completions=4, completionMode="Indexed"))
        await asyncio.sleep(60)
        found = await status(w)
        assert found["completedIndexes"] == "0-3"
        pods = await w.pods()
        assert sorted(p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for p in pods) == [
            *"0123"
        ]
        assert {e["name"]: e["value"] for e in pods[0]["spec"]["containers"][0]["env"]}["JOB_COMPLETION_INDEX"]


@on_virtual_time
async def test_a_finished_job_is_removed_after_its_time_to_live() -> None:
    async with world() as w:
        await w.create(JOBS, job("5", ttlSecondsAfterFinished=60))
        await asyncio.sleep(30)
        assert "Complete" in true_conditions(await status(w))
        await asyncio.sleep(60)
        assert await w.gone("j", JOBS)
        assert await w.pods() == []


@pytest.mark.parametrize("seconds", ["0", "30"])
def test_a_restart_makes_no_pod_twice(seconds: str) -> None:
    @on_virtual_time
    async def scenario() -> None:
        async with world() as w:
            await w.create(JOBS, job(seconds, parallelism=3, completions=3))
            await asyncio.sleep(3)
            await w.restart()
            await asyncio.sleep(100)
            assert len(await w.pods()) == 3
            assert (await status(w))["succeeded"] == 3

    scenario()
