"""How the demo is shown: on a terminal (a live map), in a log (a line for each change), or to a program (nothing until
the end).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live

from t9ksched.cli.demo.picture import Picture, scene_lines
from t9ksched.cli.demo.record import SceneRecord, Step
from t9ksched.cli.messages import translated
from t9ksched.cli.output import paragraph


class Audience(Protocol):
    """Receives everything that happens. `pause` is how many seconds a viewer needs after a scene."""

    pause: float

    def changed(self) -> None:
        """The cluster looks different."""

    def scene_began(self, scene: SceneRecord) -> None:
        """A scene starts."""

    def step_ended(self, step: Step) -> None:
        """A step ended, well or not."""

    def scene_ended(self, scene: SceneRecord) -> None:
        """A scene is over."""


class Nobody:
    """Prints nothing; for programs that want the demo's JSON."""

    pause = 0.0

    def changed(self) -> None: ...

    def scene_began(self, scene: SceneRecord) -> None: ...

    def step_ended(self, step: Step) -> None: ...

    def scene_ended(self, scene: SceneRecord) -> None: ...


class Person:
    """A live map on a terminal; finished scenes scroll away above it."""

    pause = 1.0

    def __init__(self, live: Live, console: Console) -> None:
        self._live, self._console = live, console

    def changed(self) -> None:
        self._live.refresh()

    def scene_began(self, scene: SceneRecord) -> None:
        self._live.refresh()

    def step_ended(self, step: Step) -> None:
        self._live.refresh()

    def scene_ended(self, scene: SceneRecord) -> None:
        for line in scene_lines(scene):
            self._console.print(line)
        self._console.print()


class Log:
    """Plain lines: each step as it ends, and the map and the jobs whenever they look different."""

    pause = 0.0

    def __init__(self, console: Console, picture: Picture) -> None:
        self._console, self._picture = console, picture
        self._shown: dict[str, str] = {}

    def changed(self) -> None:
        picture = self._picture
        now = {
            f"{job['kind']}/{job['name']}": f"{job.get('members', {}).get('running', 0)} of "
            f"{job.get('members', {}).get('total', 0)} running, {job.get('phase')}"
            + (f" ({job['reason']['code']})" if job.get("reason") else "")
            for job in picture.jobs
        }
        for name, text in now.items():
            if self._shown.get(name) != text:
                self._console.print(f"      {picture.seconds:5.1f} s  {name}: {translated(text)}")
        self._shown = now

    def scene_began(self, scene: SceneRecord) -> None:
        self._console.print(scene.name, style="bold")

    def step_ended(self, step: Step) -> None:
        for line in scene_lines(SceneRecord("", [step]))[1:]:
            paragraph(self._console, line)

    def scene_ended(self, scene: SceneRecord) -> None:
        self._console.print(self._picture.map())
        self._console.print()


@contextmanager
def audience(console: Console, picture: Picture, *, program: bool) -> Iterator[Audience]:
    """The audience for `console`, or a silent one when a program runs the demo."""
    if program:
        yield Nobody()
    elif not console.is_terminal or console.is_dumb_terminal:
        yield Log(console, picture)
    else:
        with Live(picture, console=console, refresh_per_second=8, transient=True) as live:
            yield Person(live, console)
