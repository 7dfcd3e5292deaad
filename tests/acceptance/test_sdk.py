"""A program's day with the Python client, sync and async, against a running service and cluster."""

import asyncio
from datetime import UTC, datetime

import pytest

from t9ksched.client import AsyncClient, Client, NotReached
from tests.acceptance.conftest import EXAMPLES, TIMEOUT_SECONDS, Up, until

QUEUE = "a40"


def test_one_thing_after_the_other(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T9KSCHED_DATA_DIR", str(up.data_dir))
    client = Client()
    assert (client.server, client.whoami().role) == (up.server, "admin")
    place = next(one.id for one in client.events(after=0, about="queue") if one.name == QUEUE)
    job = client.run("sleep 1000", image="busybox", gpus=2, replicas=2, queue=QUEUE, name="sdk-gang")
    try:
        phases: list[str] = []
        running = client.wait(job, "running", timeout=TIMEOUT_SECONDS, on_change=lambda seen: phases.append(seen.phase))
        assert (phases[-1], running.gpus) == ("Running", 4)
        # What its controller says of it and what is seen of its pods may come apart, by some moments.
        until(lambda: client.job(job).members.running == 2, "two pods that run")
        assert running.started_at is not None
        assert running.started_at <= datetime.now(UTC)
        assert [one.name for one in client.jobs(queue=QUEUE, phase="Running")] == ["sdk-gang"]
        assert client.explain(job).verdict == "Placed"
        held = [card for node in client.nodes() for card in node.gpus if card["holders"]]
        assert len(held) == 4
        types = []
        for event in client.events(after=place, kind="pj", name="sdk-gang"):
            types.append(event.type)
            if event.type == "started":
                break
        assert "submitted" in types
        large = client.simulate(EXAMPLES / "pytorch.yaml", queue=QUEUE, namespace="default")
        assert [one.name for one in large.jobs] == ["resnet"]
        assert large.until > large.at
    finally:
        client.cancel(job)
        client.wait(job, "deleted", timeout=TIMEOUT_SECONDS)
    until(lambda: up.held() == 0, "free cards")


def test_many_things_at_once(up: Up) -> None:
    async def day() -> None:
        async with AsyncClient(up.server, up.token) as client:

            async def finished() -> list[str]:
                ended: list[str] = []
                async for event in client.events(after=0, queue=QUEUE, type="finished"):
                    ended += [event.name] if event.name and event.name.startswith("sdk-") else []
                    if len(ended) == 3:
                        break
                return ended

            listening = asyncio.create_task(finished())
            run = {"image": "busybox", "gpus": 1, "queue": QUEUE}
            seconds = {"devcluster.tensorstack.dev/run-seconds": "0"}
            failing = seconds | {"devcluster.tensorstack.dev/exit-code": "3"}
            made = await asyncio.gather(
                client.run("true", name="sdk-0", annotations=seconds, **run),
                client.run("true", name="sdk-1", annotations=seconds, **run),
                client.run("false", name="sdk-2", annotations=failing, **run),
            )
            waits = [client.wait(job, "succeeded", timeout=TIMEOUT_SECONDS) for job in made]
            *well, badly = await asyncio.gather(*waits, return_exceptions=True)
            assert [one.phase for one in well if not isinstance(one, BaseException)] == ["Succeeded", "Succeeded"]
            assert isinstance(badly, NotReached)
            assert badly.job is not None
            assert badly.job.phase == "Failed"
            async with asyncio.timeout(TIMEOUT_SECONDS):
                assert sorted(await listening) == ["sdk-0", "sdk-1", "sdk-2"]
            await asyncio.gather(*(client.cancel(job) for job in made))
            await asyncio.gather(*(client.wait(job, "deleted", timeout=TIMEOUT_SECONDS) for job in made))

    asyncio.run(day())
