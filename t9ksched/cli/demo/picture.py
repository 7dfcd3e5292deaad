"""The live map: nodes with their cards, one colour a job, what each job does, and the steps of the scene.

`Picture` is only what is known; `render` makes the same picture for a terminal with or without colour.
"""

import time
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from t9ksched.cli.cards import Palette, draw, owner_of
from t9ksched.cli.demo.record import Recording, SceneRecord
from t9ksched.cli.following import PHASE_STYLES
from t9ksched.cli.messages import translated

_SIGNS = {True: ("✓", "green"), False: ("✗", "red"), None: ("…", "yellow")}


@dataclass
class Picture:
    """What the map shows. Node and job shapes are as REST gave them last; `recording` grows as scenes play."""

    recording: Recording
    palette: Palette
    nodes: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by Rich for each frame."""
        yield self.render(options.max_width)

    def render(self, width: int = 100) -> RenderableType:
        """One frame."""
        cards = [card for node in self.nodes for card in node.get("gpus") or ()]
        held = sum(1 for card in cards if card.get("holders"))
        title = f"t9ksched  {len(self.nodes)} nodes, {held} of {len(cards)} cards in use  {self.seconds:4.0f} s"
        parts: list[RenderableType] = [Rule(translated(title), style="dim", align="left"), self.cluster()]
        for scene in self.recording.scenes[-1:]:
            parts += [Text(), *scene_lines(scene)]
        return Group(*parts)

    def cluster(self) -> RenderableType:
        """The map, and below it what each job does."""
        return Group(self.map(), Text(), self._jobs()) if self.jobs else self.map()

    @property
    def seconds(self) -> float:
        """How long the demo has been running."""
        return time.monotonic() - self.started

    def map(self) -> RenderableType:
        """Nodes side by side, one column of the map for each model of card."""
        with_cards = [node for node in self.nodes if node.get("gpus")]
        if not with_cards:
            return Text(translated("starting the cluster …"), style="dim")
        pools = [list(pool) for _, pool in groupby(with_cards, key=lambda node: str(node["gpus"][0].get("model")))]
        grid = Table.grid(padding=(0, 4, 0, 0))
        for _ in pools:
            grid.add_column(no_wrap=True)
        grid.add_row(*(Text(str(pool[0]["gpus"][0].get("model")), style="dim") for pool in pools))
        for row in range(max(len(pool) for pool in pools)):
            grid.add_row(*(self._node(pool[row]) if row < len(pool) else Text() for pool in pools))
        return grid

    def _node(self, node: dict[str, Any]) -> Text:
        return Text.assemble(f"{node['name']:<9} ", draw(node["gpus"], self.palette))

    def _jobs(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2, 0, 0))
        for column in range(5):
            grid.add_column(no_wrap=column < 4, overflow="ellipsis" if column < 4 else "fold")
        owners = {owner_of(holder) for node in self.nodes for card in node["gpus"] for holder in card["holders"]}
        known = set()
        for job in self.jobs:
            owner = f"{job['namespace']}/{job['kind']}/{job['name']}"
            known.add(owner)
            members, phase = job.get("members") or {}, str(job.get("phase"))
            reason = job.get("reason") or {}
            grid.add_row(
                self.palette.mark(owner) if owner in owners else Text("-", style="dim"),
                f"{job['kind']}/{job['name']}",
                translated(f"queue {job.get('queue') or '–'}"),
                Text(f"{members.get('running', 0)}/{members.get('total', 0)} {phase}", PHASE_STYLES.get(phase, "")),
                Text(translated(f"{reason['code']}: {reason['message']}") if reason.get("code") else "", "yellow"),
            )
        for owner in sorted(owners - known):
            grid.add_row(
                self.palette.mark(owner),
                owner.partition("/")[2],
                translated("no queue"),
                Text(translated("not ours"), "dim"),
                "",
            )
        return grid


def scene_lines(scene: SceneRecord) -> list[Text]:
    """A scene as lines: its name, its steps with a sign each, their notes below them."""
    lines = [Text(translated(scene.name), style="bold")]
    for step in scene.steps:
        sign, style = _SIGNS[step.ok]
        lines.append(Text.assemble("  ", (sign, style), f" {translated(step.what)}"))
        if step.note:
            lines += [Text(f"      {translated(line)}", style="dim") for line in step.note.splitlines()]
    return lines
