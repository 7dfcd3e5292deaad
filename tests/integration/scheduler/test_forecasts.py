"""Forecasts from outside: a waiting job says what is known of its start, and that is kept with what happened."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from t9ksched.engine.policy import Planning, Policy
from t9ksched.kube.resources import PODS
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.forecasts import Forecasted
from t9ksched.store.jobs import JobRecord as StoredJob
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_planned_starts import asked, limited, timed, uid, waits_for
from tests.integration.world import TIMEOUT, World

ONE_PLAN = Policy(planning=Planning(per_queue=1))


async def until_told(service: Any, world: World, pod: str, right: Callable[[Any], bool]) -> Any:
    """What the leader tells REST of the start of a job, once that is right."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            job = await asked(service, f"jobs/{world.namespace}/pod/{pod}")
            if right(job.get("expectedStart")):
                return job
            await asyncio.sleep(0.1)


async def recorded(store: Store, *uids: str) -> dict[str, Forecasted]:
    """What SQL has of jobs that wait, once those are these."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            found = {one.uid: one async for piece in store.forecasts.waiting() for one in piece}
            if set(found) == set(uids):
                return found
            await asyncio.sleep(0.1)


async def test_a_planned_start_is_a_forecast_and_what_comes_of_it_is_recorded(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    async with start(policy=ONE_PLAN) as service:
        await world.create(limited(world, "long", 1, queue, "4h"))
        await world.running("long")
        await timed(service, world, "long")
        await world.create(limited(world, "planned", 2, queue, "1h"))
        await waits_for(world, "planned")
        await world.create(limited(world, "behind", 2, queue, "1h"), limited(world, "large", 3, queue))
        await waits_for(world, "behind")
        await waits_for(world, "large")
        service.forecaster.pauses = (1.0, 0.1)
        job = await until_told(service, world, "planned", lambda one: one and one["basis"] == "plan")
        said = job["expectedStart"]
        assert said["latest"] == job["plannedStart"]["at"], "the plan is the forecast"
        assert said["earliest"] < said["latest"], "jobs may end early"
        assert datetime.fromisoformat(said["earliest"]) > datetime.now(UTC) - timedelta(seconds=TIMEOUT)
        behind = await until_told(service, world, "behind", lambda one: one and one["basis"] == "plan")
        assert behind["plannedStart"] is None, "no room is held for it"
        hour = datetime.fromisoformat(behind["expectedStart"]["latest"]) - datetime.fromisoformat(said["latest"])
        assert timedelta(hours=1) <= hour <= timedelta(hours=1, minutes=17), "after the one that is planned"
        nothing = {"earliest": None, "latest": None, "basis": "unknown"}
        await until_told(service, world, "large", lambda one: one == nothing)
        running = await asked(service, f"jobs/{world.namespace}/pod/long")
        assert running["expectedStart"] is None, "it does not wait"
        ids = [await uid(world, name) for name in ("planned", "behind", "large")]
        first = await recorded(store, *ids)
        assert [first[one].first.basis for one in ids] == ["plan", "plan", "unknown"]
    async with start(policy=ONE_PLAN) as service:
        await until_told(service, world, "planned", lambda one: one and one["basis"] == "plan")
        assert {one: row.first for one, row in (await recorded(store, *ids)).items()} == {
            one: row.first for one, row in first.items()
        }, "what was said first outlives a restart"
        await world.client.delete(PODS, "behind", world.namespace)
        await world.client.delete(PODS, "large", world.namespace)
        await recorded(store, ids[0])
        await world.client.delete(PODS, "long", world.namespace)
        await world.running("planned")
        await recorded(store)
        (outcome,) = await store.forecasts.outcomes(last=True, most=10)
        assert (outcome.forecast.basis, outcome.in_interval) == ("plan", True), "only one that started is judged"
        page = (await service.metrics()).decode()
        assert 't9ksched_forecast_waiting_jobs{basis="plan"} 0' in page
        assert sum(service.state.forecasts.started.values()) == 1


async def test_what_jobs_like_it_ran_before_is_learned(world: World, start: Start, store: Store) -> None:
    await world.play(1, 2)
    queue = f"{world.run}-learned"
    await store.queues.create(queue, {}, world.queue_spec, {"users": ["ann"]})
    await store.jobs.put_many([ran(queue, str(number), 3600 + 60 * number) for number in range(10)])
    async with start(policy=ONE_PLAN) as service:
        service.forecaster.pauses = (1.0, 0.1)
        for name in ("runs", "waits"):
            await world.create(limited(world, name, 2, queue))
            pod = await uid(world, name)
            mine = {"uid": pod, "kind": "Pod", "namespace": world.namespace, "name": name}
            await store.acceptances.put_many([Acceptance(**mine, submitter="ann", queue=queue)])
            await (world.running(name) if name == "runs" else waits_for(world, name))
        job = await until_told(service, world, "waits", lambda one: one and one["basis"] == "learned")
        plan = job["plannedStart"]
        assert (plan["firm"], plan["at"]) == (False, job["expectedStart"]["latest"]), "no end is enforced"
        assert [node.split("-")[-1] for node in plan["nodes"]] == ["0"]
        assert job["reason"]["message"].endswith(f"; expected to start at {plan['at']} (tentative)")
        learned = {"seconds": 4080, "source": "learned", "enforced": False}
        runs = await asked(service, f"jobs/{world.namespace}/pod/runs")
        assert job["timeLimit"] == runs["timeLimit"] == learned
        drawn = (await asked(service, "timeline"))["items"]
        assert [(one["job"], one["from"]) for one in drawn if one["firm"] is False] == [("Pod/waits", plan["at"])]
        began = datetime.fromisoformat((await asked(service, f"jobs/{world.namespace}/pod/runs"))["startedAt"])
        between = [datetime.fromisoformat(job["expectedStart"][end]) - began for end in ("earliest", "latest")]
        assert timedelta(minutes=58) <= between[0] <= timedelta(minutes=60), "the first tenth ran an hour"
        assert timedelta(minutes=68) <= between[1] <= timedelta(minutes=70), "nine tenths ran no longer than 68 minutes"
        row = (await recorded(store, pod))[pod]
        assert row.first.basis == "learned"


async def test_jobs_with_limits_may_end_before_them(world: World, start: Start, store: Store) -> None:
    await world.play(1, 2)
    queue = f"{world.run}-early"
    await store.queues.create(queue, {}, world.queue_spec, {"users": ["ann", "bob"]})
    await store.jobs.put_many([ran(queue, str(number), 3600 + 60 * number) for number in range(10)])
    async with start(policy=ONE_PLAN) as service:
        service.forecaster.pauses = (1.0, 0.1)
        for name, user in (("runs", "ann"), ("first", "ann"), ("second", "bob"), ("third", "ann")):
            limit = timedelta(minutes=30) if name != "runs" else None
            await world.create(limited(world, name, 2, queue, "30m" if limit else ""))
            pod = await uid(world, name)
            mine = {"uid": pod, "kind": "Pod", "namespace": world.namespace, "name": name}
            await store.acceptances.put_many([Acceptance(**mine, submitter=user, queue=queue, time_limit=limit)])
            await (world.running(name) if name == "runs" else waits_for(world, name))
        began = datetime.fromisoformat((await asked(service, f"jobs/{world.namespace}/pod/runs"))["startedAt"])
        early = {"first": 60, "second": 60 + 30, "third": 60 + 30}  # nothing is known of jobs like the second
        late = {"first": 68, "second": 68 + 45, "third": 68 + 2 * 45}  # with the time that pods may take to start
        for name in early:
            job = await until_told(service, world, name, lambda one: one and one["basis"] == "learned")
            said = [datetime.fromisoformat(job["expectedStart"][end]) - began for end in ("earliest", "latest")]
            assert timedelta(minutes=early[name] - 2) <= said[0] <= timedelta(minutes=early[name]), name
            assert timedelta(minutes=late[name]) <= said[1] <= timedelta(minutes=late[name] + 4), name


def ran(queue: str, name: str, seconds: int) -> StoredJob:
    """A job of one pod and two cards that ran so long."""
    began = datetime(2026, 1, 7, 20, tzinfo=UTC)
    shape = {"submitter": "ann", "gpus": 2, "members": {"total": 1}, "startedAt": began.isoformat()}
    done = began + timedelta(seconds=seconds)
    return StoredJob(
        uid=f"{queue}-{name}"[-36:],
        kind="Pod",
        namespace="ml",
        name=name,
        queue=queue,
        phase="Succeeded",
        submitted_at=began,
        finished_at=done,
        shape=shape,
    )
