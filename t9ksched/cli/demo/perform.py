"""The demo's heavy part: the running service, the scenes on it, and the auditor's score.

It is imported only once the first picture is shown.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import TextIO

from t9ksched.cli.client import Client
from t9ksched.cli.demo.audience import Audience
from t9ksched.cli.demo.picture import Picture
from t9ksched.cli.demo.record import Score
from t9ksched.cli.demo.scenes import SCENES
from t9ksched.cli.demo.stage import Stage
from t9ksched.cli.logs import configure
from t9ksched.cli.runtime import Plan, Running, running
from t9ksched.devcluster.audit.auditor import AuditReport
from t9ksched.devcluster.audit.auditwatch import AuditWatcher
from t9ksched.kube.transport.client import Client as KubeClient
from t9ksched.kube.transport.config import connect
from t9ksched.settings import Settings

_BINDING_LOOKS = 50
_BINDING_PAUSE = 0.1
"""How often gangs that are being bound are looked at, and the seconds between two looks."""


@contextlib.asynccontextmanager
async def cluster(folder: Path, log: TextIO, preset: str) -> AsyncIterator[Running]:
    """Everything started below `folder` on the nodes of a preset, on free ports, whatever the environment says."""
    settings = Settings.load(db=None, port=0, internal_port=0, internal_address=None, admin_token=None)
    configure(settings, log)
    async with running(Plan(folder, settings, 0, preset)) as up:
        yield up


async def perform(up: Running, picture: Picture, watching: Audience, preset: str) -> None:
    """Play every scene of a preset and record the score."""
    async with connect(up.kubeconfig) as kube, _audited(kube) as watcher:
        stage = Stage(Client.at(up.server, up.token), kube, picture, watching)
        partial: set[str] = set()
        async with _background(stage.watch()):
            for title, scene in SCENES[preset]:
                await stage.play(title, scene)
                partial |= await left_partial(watcher.report)
        await stage.look()
        picture.recording.score = _score(picture, watcher, partial)


@contextlib.asynccontextmanager
async def _audited(kube: KubeClient) -> AsyncIterator[AuditWatcher]:
    """The auditor, watching the cluster through the Kubernetes API from here to the end of the block."""
    watcher, follower = AuditWatcher.on(kube)
    async with _background(follower.run()):
        await follower.synced()
        yield watcher


@contextlib.asynccontextmanager
async def _background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run `work` for the length of the block. What it raises ends the block."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        try:
            yield
        finally:
            task.cancel()


async def left_partial(report: Callable[[], AuditReport], pause: float = _BINDING_PAUSE) -> set[str]:
    """The gangs that have places for a part of their minimum and do not get the rest within some looks, `pause`
    seconds apart: in the middle of binding any gang is partial for a moment, a long one on a busy machine.
    """
    for _ in range(_BINDING_LOOKS):
        if not (partial := {gang.group for gang in report().partial_gangs}):
            break
        await asyncio.sleep(pause)
    return partial


def _score(picture: Picture, watcher: AuditWatcher, partial: set[str]) -> Score:
    """What the auditor found over the whole demo, and the gangs that had all of their minimum."""
    whole = sum(job["members"]["bound"] >= max(1, job["members"]["min"]) for job in picture.jobs if job.get("queue"))
    return Score(whole, len(partial), watcher.report().cards_given_twice, picture.seconds)
