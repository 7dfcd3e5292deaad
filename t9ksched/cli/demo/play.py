"""Plays the demo: opens the picture, starts everything in a temporary directory, plays the scenes, prints the score."""

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from t9ksched.cli.cards import Palette, coloured
from t9ksched.cli.demo.audience import audience
from t9ksched.cli.demo.picture import Picture
from t9ksched.cli.demo.record import Recording
from t9ksched.cli.failure import REQUEST_FAILED
from t9ksched.cli.heap import loading
from t9ksched.cli.output import Output, console, example, print_json, program

if TYPE_CHECKING:
    from t9ksched.cli.runtime import Running


_TRIES = {"demo": ("pytorch.yaml", "default", "explain pj/llama -n vision"), "sharing": ("mgpu.yaml", "share", "usage")}
"""What to try next, by preset: an example, the queue for it while all is kept running, and another command then."""


async def play(*, preset: str, keep: bool, output: Output) -> int:
    """Play every scene of a preset; the exit code: 0 only if all of it ended as it should."""
    out = console()
    recording = Recording()
    picture = Picture(recording, Palette(coloured(out)))
    for_program = output is Output.json
    with tempfile.TemporaryDirectory(prefix="t9ksched-demo-") as folder:
        log = Path(folder) / "log"
        with log.open("w") as lines:
            async with AsyncExitStack() as stack:
                with audience(out, picture, program=for_program) as watching:
                    # Importing the services takes a second or two: the picture is shown before that.
                    await asyncio.sleep(0)
                    with loading():
                        from t9ksched.cli.demo.perform import cluster, perform

                    up = await stack.enter_async_context(cluster(Path(folder) / "data", lines, preset))
                    await perform(up, picture, watching, preset)
                if for_program:
                    print_json(recording.to_json() | ({"running": up.to_json()} if keep else {}), indent=False)
                else:
                    _say(out, picture, preset, up if keep else None)
                if keep:
                    await asyncio.Event().wait()
        if not recording.ok:
            _show_warnings(log)
    return 0 if recording.ok else REQUEST_FAILED


def _show_warnings(log: Path) -> None:
    """What the services complained about while something went wrong."""
    lines = [line for line in log.read_text().splitlines() if "[warning" in line or "[error" in line]
    for line in lines[-20:]:
        sys.stderr.write(line + "\n")


def _say(out: Console, picture: Picture, preset: str, kept: "Running | None") -> None:
    """The score and what to try next."""
    recording, score = picture.recording, picture.recording.score
    out.print(picture.cluster())
    out.print()
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
    file, queue, look = _TRIES[preset]
    submit = f"submit -f {example(file)} --queue {queue if kept else 'default'}"
    up = "up" if preset == "demo" else f"up --nodes {preset}"
    tries = ["nodes", submit, look] if kept else [up, submit, "nodes"]
    out.print("\nTry next" + (", in another terminal:" if kept else ":"))
    for command in tries:
        out.print(f"  {program()} {command}{where}", soft_wrap=True)
    if kept:
        out.print(f"\nREST answers at {kept.server}, its pages at {kept.server}/docs. Ctrl-C stops it.", soft_wrap=True)
