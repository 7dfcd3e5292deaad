"""Plays the demo: starts everything in a temporary data directory, plays the scenes, and asks the auditor."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console
from rich.text import Text

from t9ksched.cli.cards import Palette, coloured
from t9ksched.cli.client import Client
from t9ksched.cli.demo.audience import Audience, audience
from t9ksched.cli.demo.picture import Picture
from t9ksched.cli.demo.record import Recording, Score
from t9ksched.cli.demo.scenes import SCENES
from t9ksched.cli.demo.stage import NAMESPACE, Stage
from t9ksched.cli.failure import REQUEST_FAILED
from t9ksched.cli.logs import configure
from t9ksched.cli.output import Output, console, print_json
from t9ksched.cli.runtime import Plan, Running, running
from t9ksched.devcluster.auditwatch import AuditWatcher
from t9ksched.kube.client import Client as KubeClient
from t9ksched.kube.config import connect
from t9ksched.settings import Settings


async def play(*, keep: bool, output: Output) -> int:
    """Play every scene; the exit code: 0 only if all of it ended as it should."""
    out = console()
    recording = Recording()
    picture = Picture(recording, Palette(coloured(out)))
    for_program = output is Output.json
    with tempfile.TemporaryDirectory(prefix="t9ksched-demo-") as folder:
        log = Path(folder) / "demo.log"
        # Nothing of the environment changes a demo: its own database, its own ports.
        settings = Settings.load(db=None, port=0, internal_port=0, internal_address=None, admin_token=None)
        with log.open("w") as lines:
            configure(settings, lines)
            async with AsyncExitStack() as stack:
                with audience(out, picture, program=for_program) as watching:
                    up = await stack.enter_async_context(running(Plan(Path(folder) / "data", settings, 0)))
                    await _play_scenes(up, recording, picture, watching)
                if for_program:
                    print_json(recording.to_json(), indent=False)
                else:
                    _say(out, recording, up if keep else None)
                if keep:
                    await asyncio.Event().wait()
    return 0 if recording.ok else REQUEST_FAILED


async def _play_scenes(up: Running, recording: Recording, picture: Picture, watching: Audience) -> None:
    async with connect(up.kubeconfig) as kube, _audited(kube) as watcher:
        stage = Stage(Client.at(up.server, up.token), kube, picture, watching)
        async with _background(stage.watch()):
            for title, scene in SCENES:
                await stage.play(title, scene)
            recording.score = _score(picture, watcher)


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


def _score(picture: Picture, watcher: AuditWatcher) -> Score:
    """What the auditor found over the whole demo, and the gangs that had all of their minimum."""
    report = watcher.report()
    whole = sum(job["members"]["bound"] >= max(1, job["members"]["min"]) for job in picture.jobs if job.get("queue"))
    return Score(whole, len(report.partial_gangs), report.cards_given_twice, picture.seconds)


def _say(out: Console, recording: Recording, kept: Running | None) -> None:
    """The score and what to try next."""
    score = recording.score
    verdict = Text("All as it should be.", "bold green") if recording.ok else Text("Not as it should be.", "bold red")
    out.print(
        Text.assemble(
            verdict,
            f"  {score.gangs} gangs started whole, {score.partial_gangs} in part; ",
            f"{score.double_cards} cards given twice; {score.seconds:.0f} s",
        ),
        soft_wrap=True,
    )
    where = f" --data-dir {kept.data_dir}" if kept else ""
    tries = [
        f"t9ksched nodes{where}" if kept else "t9ksched up",
        f"t9ksched submit -f examples/pytorch.yaml --queue default{where}",
        f"t9ksched explain ptj/llama -n {NAMESPACE}{where}" if kept else "t9ksched nodes",
    ]
    out.print("\nTry next" + (", in another terminal:" if kept else ":"))
    for command in tries:
        out.print(f"  {command}", soft_wrap=True)
    if kept:
        out.print(f"\nREST answers at {kept.server}, its pages at {kept.server}/docs. Ctrl-C stops it.", soft_wrap=True)
