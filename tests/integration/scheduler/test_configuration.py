"""`scheduler.conf` in its ConfigMap: applied while running, refused whole, the last good one stays."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from t9ksched.kube.resources import CONFIGMAPS
from t9ksched.model import names
from t9ksched.model.errors import Invalid
from t9ksched.scheduler.decide.configuration import CONFIG_MAP, EVENT_APPLIED, EVENT_REFUSED, KEY
from t9ksched.scheduler.decide.plugins import EVENT_FAILED
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.plugged import install
from tests.integration.scheduler.test_preemption import queues
from tests.integration.world import TIMEOUT, World

GOOD = """
actions: "allocate,preempt"
tiers:
- plugins:
  - name: basic
  - name: resource
  - name: affinity
  - name: predicates
  - name: binpack
"""
BAD = "actions: allocate, dance\ntiers: []\n"


async def test_a_configuration_applies_while_running(world: World, start: Start, store: Store) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 1)
    system = names.SYSTEM_NAMESPACE
    async with start() as service:
        await world.create(world.pod("low", 1, queue=f"{world.run}-low"))
        await world.running("low")
        await world.create(world.pod("high", 1, queue=f"{world.run}-high"))
        await world.event(names.EVENT_WAITING, "high")
        config = {"metadata": {"name": CONFIG_MAP, "namespace": system}, "data": {KEY: BAD}}
        await world.client.create(CONFIGMAPS, config)
        event = await world.event(EVENT_REFUSED, CONFIG_MAP, system)
        assert "line 1" in event["message"]
        assert "dance" in event["message"]
        assert "the defaults are in force" in event["message"]
        assert service.loop.policy.actions == ("allocate",)
        assert service.configuration.refused
        await world.client.patch(CONFIGMAPS, CONFIG_MAP, system, {"data": {KEY: GOOD}})
        await world.running("high")
        assert service.loop.policy.actions == ("allocate", "preempt")
        await world.client.delete(CONFIGMAPS, CONFIG_MAP, system)


async def metric(service: SchedulerService, name: str) -> float:
    """A value of the metrics page, as a monitoring system reads it."""
    async with aiohttp.ClientSession() as session, session.get(f"{service.address}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


async def test_a_configuration_from_a_file_applies_while_running(
    world: World, start: Start, store: Store, tmp_path: Path
) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 1)
    file = tmp_path / "scheduler.conf"
    file.write_text(GOOD.replace(",preempt", ""))
    async with start(scheduler_conf=file) as service:
        await world.create(world.pod("low", 1, queue=f"{world.run}-low"))
        await world.running("low")
        await world.create(world.pod("high", 1, queue=f"{world.run}-high"))
        await world.event(names.EVENT_WAITING, "high")
        assert await metric(service, "t9ksched_configuration_refused") == 0
        file.write_text(BAD)
        event = await world.event(EVENT_REFUSED, CONFIG_MAP, names.SYSTEM_NAMESPACE)
        assert f"{file}: line 1, actions: 'dance' is unknown" in event["message"]
        assert "the last good one stays" in event["message"]
        assert await metric(service, "t9ksched_configuration_refused") == 1
        assert set(await world.bound()) == {"low"}
        fresh = tmp_path / "fresh"
        fresh.write_text(GOOD)
        fresh.rename(file)
        await world.running("high")
        event = await world.event(EVENT_APPLIED, CONFIG_MAP, names.SYSTEM_NAMESPACE)
        assert "actions allocate, preempt" in event["message"]
        assert await metric(service, "t9ksched_configuration_refused") == 0
        file.unlink()
        await until(lambda: service.configuration.refused)
        assert "cannot be read: No such file" in service.configuration.refused
        assert service.loop.policy.actions == ("allocate", "preempt")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
async def test_a_file_that_becomes_a_pipe_or_a_device_is_refused_and_followed_on(
    world: World, start: Start, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text(GOOD.replace(",preempt", ""))
    async with start(scheduler_conf=file) as service:
        file.unlink()
        make(file)
        await until(lambda: service.configuration.refused)
        assert "not a regular file" in service.configuration.refused
        event = await world.event(EVENT_REFUSED, CONFIG_MAP, names.SYSTEM_NAMESPACE)
        assert "the last good one stays" in event["message"]
        assert await metric(service, "t9ksched_configuration_refused") == 1
        file.unlink()
        file.write_text(GOOD)
        await until(lambda: service.loop.policy.actions == ("allocate", "preempt"))
        assert not service.configuration.refused


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (BAD.encode(), "line 1, actions"),
        (b"\xff", "is no UTF-8"),
        (None, "cannot be read"),
        (b" " * 1_100_000, "larger"),
    ],
)
async def test_a_start_with_a_file_that_cannot_be_used_fails(
    world: World, start: Start, tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / "scheduler.conf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(Invalid, match=says):
        async with start(scheduler_conf=file):
            pass


async def test_a_plugin_that_fails_blocks_no_gang(
    world: World, start: Start, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "fickle.py").write_text(
        "class Fickle:\n"
        "    def __init__(self, arguments): pass\n"
        "    def allows(self, pod, node):\n"
        "        raise RuntimeError('the moon is wrong')\n"
    )
    (project / "pyproject.toml").write_text(
        '[project]\nname = "fickle"\nversion = "1"\n'
        '[project.entry-points."t9ksched.plugins"]\nfickle = "fickle:Fickle"\n'
        '[tool.setuptools]\npy-modules = ["fickle"]\n'
    )
    install(project, tmp_path / "site", monkeypatch)
    file = tmp_path / "scheduler.conf"
    file.write_text(GOOD.replace("- name: binpack", "- name: fickle"))
    await world.play(1, 1)
    async with start(scheduler_conf=file) as service:
        await world.create(world.pod("a", 1, queue=queue))
        await world.running("a")
        event = await world.event(EVENT_FAILED, CONFIG_MAP, names.SYSTEM_NAMESPACE)
        assert "plugin 'fickle' is off while its allows fails: RuntimeError: the moon is wrong" in event["message"]
        assert await metric(service, 't9ksched_plugin_failures_total{plugin="fickle"}') >= 1


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
