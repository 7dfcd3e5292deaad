"""A scheduler of a new release with the rights of the release before: what it does without the others, and says."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from t9ksched.kube.resources import CLUSTERROLES, DEPLOYMENTS, PODS
from t9ksched.kube.setup.rbac import SCHEDULER, manifest
from t9ksched.scheduler.options import SchedulerOptions
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.workloads.registry import OWNERS
from tests.integration.edge.test_doctor import doctor
from tests.integration.edge.test_rights import Stage, stage, until  # noqa: F401
from tests.integration.scheduler.test_owners import deployment

Object = dict[str, Any]
MISSING = "a right is missing, this kind is not followed"
APPS = {row.resource.plural for row in OWNERS}


async def grant(where: Stage, *, but: set[str]) -> None:
    """Give the scheduler its rights but those to list and to watch these resources."""
    rules: list[Object] = []
    for rule in manifest(SCHEDULER):
        for resource in rule["resources"]:
            verbs = [verb for verb in rule["verbs"] if resource not in but or verb not in ("list", "watch")]
            rules += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
    await where.world.client.patch(CLUSTERROLES, SCHEDULER, None, {"rules": rules})


async def told_by(service: SchedulerService) -> list[str]:
    """What REST tells at `/readyz` of missing rights, as the scheduler says it."""
    secret = {"Authorization": "Bearer " + "s" * 20}
    url = f"{service.address}/internal/v1/lacking"
    async with aiohttp.ClientSession(headers=secret) as session, session.get(url) as answer:
        return list((await answer.json())["lacking"])


def complaints(logs: list[Any]) -> dict[str, Any]:
    """What was said of missing rights, by resource; each once."""
    said = [entry for entry in logs if entry["event"] == MISSING]
    found = {entry["resource"]: entry for entry in said}
    assert len(found) == len(said), said
    return found


@pytest.mark.parametrize("initial_events", [False, True])
async def test_owners_that_may_not_be_read_hold_up_nothing(stage: Stage, initial_events: bool) -> None:  # noqa: F811
    world = stage.world
    if initial_events:
        stage.cluster.frontend.middleware = None
    queue = "t-q"
    await stage.store.queues.create(queue, {}, world.queue_spec, {"everyone": True})
    await grant(stage, but=APPS)
    service = SchedulerService(stage.scheduler, stage.store, internal_secret="s" * 20)
    with capture_logs() as logs:
        async with running(service):
            await world.create(deployment(world, "web", queue), world.pod("alone", 1, queue=queue))
            await world.running("alone")

            async def run() -> bool:
                phases = [(pod.get("status") or {}).get("phase") for pod in (await world.client.list(PODS)).items]
                return phases == ["Running"] * 3

            await until(run)
            told = complaints(logs)
            assert {name.split(".")[0] for name in told} == APPS, logs
            for entry in told.values():
                assert entry["log_level"] == "warning"
                assert "cannot list" in entry["error"] or "cannot watch" in entry["error"], entry
                assert "deploy/rbac.yaml" in entry["remedy"], entry
            assert service.state.owners.unread == {row.name for row in OWNERS}
            lacking = await told_by(service)
            assert {text.split(":")[0].rpartition(" ")[2].split(".")[0] for text in lacking} == APPS
            assert all("cannot list" in text or "cannot watch" in text for text in lacking)
            await grant(stage, but=set())
            uid = (await world.client.get(DEPLOYMENTS, "web", world.namespace))["metadata"]["uid"]

            async def known() -> bool:
                return uid in service.state.owners and not service.state.owners.unread

            await until(known)
            complaints(logs)

            async def nothing_lacks() -> bool:
                return await told_by(service) == []

            await until(nothing_lacks)


async def test_without_the_pods_it_is_not_ready_and_says_why(stage: Stage) -> None:  # noqa: F811
    await grant(stage, but={"pods"})
    service = SchedulerService(stage.scheduler, stage.store, internal_secret="s" * 20)
    with capture_logs() as logs:
        task = asyncio.create_task(service.run())

        async def said() -> bool:
            return any(entry["event"] == MISSING for entry in logs)

        await until(said)
        assert not service.ready.is_set()
        (entry,) = complaints(logs).values()
        assert "pods" in entry["error"]
        await grant(stage, but=set())
        await asyncio.wait_for(service.ready.wait(), 30)
        task.cancel()
        await asyncio.wait([task])


async def test_doctor_names_the_right(stage: Stage) -> None:  # noqa: F811
    await grant(stage, but={"replicasets"})
    code, output = await doctor(stage.world.kubeconfig.parent / SCHEDULER, "-o", "json")
    assert code == 1
    lacking = [one["message"] for one in json.loads(output) if one["check"] == "rights" and one["subject"] == SCHEDULER]
    assert lacking == ["may not list replicasets.apps, watch replicasets.apps; with it, it sees what pods belong to"]


DEVICES = {"deviceclasses", "resourceslices"}


async def test_a_server_that_refuses_devices_of_dra_holds_up_nothing(stage: Stage, tmp_path: Path) -> None:  # noqa: F811
    world = stage.world
    await stage.store.queues.create("t-q", {}, world.queue_spec, {"everyone": True})
    await grant(stage, but=DEVICES)
    code, output = await doctor(tmp_path / SCHEDULER, "--role", SCHEDULER, "-o", "json")
    lacking = [one for one in json.loads(output) if "resource.k8s.io" in one["message"] + one["subject"]]
    assert code == 0, output
    assert [one["level"] for one in lacking] == ["warning", "warning"]
    assert "with it, it sees where cards are handed out by DRA" in lacking[0]["message"]
    assert lacking[1]["message"].startswith("could not be looked at: deviceclasses.resource.k8s.io is forbidden")
    service = SchedulerService(stage.scheduler, stage.store, internal_secret="s" * 20)
    with capture_logs() as logs:
        async with running(service):
            await world.create(world.pod("alone", 1, queue="t-q"))
            await world.running("alone")
            assert {name.split(".")[0] for name in complaints(logs)} == DEVICES
            assert len(await told_by(service)) == len(DEVICES)
            await grant(stage, but=set())

            async def nothing_lacks() -> bool:
                return await told_by(service) == []

            await until(nothing_lacks)


async def test_an_older_server_without_dra_holds_up_nothing(stage: Stage, tmp_path: Path) -> None:  # noqa: F811
    """Kubernetes before 1.34 answers 404 in plain text."""
    world = stage.world
    await stage.store.queues.create("t-q", {}, world.queue_spec, {"everyone": True})
    asked: list[str] = []

    async def older(request: web.BaseRequest, answer: Callable[..., Any]) -> web.StreamResponse:
        if "/apis/resource.k8s.io/" in request.path:
            asked.append(request.path)
            return web.Response(status=404, text="404 page not found\n")
        return await answer(request)  # type: ignore[no-any-return]

    stage.cluster.frontend.middleware = older
    code, output = await doctor(tmp_path / "admin", "-o", "json")
    assert code == 0, output
    (said,) = [one for one in json.loads(output) if one["check"] == "devices"]
    assert (said["level"], said["message"].partition(":")[0]) == ("ok", "the server does not serve resource.k8s.io/v1")
    asked.clear()
    service = SchedulerService(stage.scheduler, stage.store, internal_secret="s" * 20)
    with capture_logs() as logs:
        async with running(service):
            await world.create(world.pod("alone", 1, queue="t-q"))
            await world.running("alone")
            assert await told_by(service) == []
    left_out = [entry["resource"] for entry in logs if entry["event"].startswith("the server does not serve")]
    expected = {f"{name}.resource.k8s.io" for name in DEVICES} | {"devices.scheduling.koordinator.sh"}
    # So are kinds of other projects.
    assert sorted(one for one in left_out if one in expected) == sorted(expected)
    assert len(asked) == len(DEVICES), "each was asked for once"


async def test_an_observer_needs_no_devices(stage: Stage) -> None:  # noqa: F811
    await grant(stage, but=DEVICES)
    options = SchedulerOptions(observe=True)
    service = SchedulerService(stage.scheduler, stage.store, internal_secret="s" * 20, options=options)
    async with running(service):
        assert service.ready.is_set()
