"""What happened in the demo: scenes with their steps, and the score at the end."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Step:
    """One thing a scene did or waited for. `ok` is None while it is under way; `note` is shown below it."""

    what: str
    ok: bool | None = None
    note: str = ""


@dataclass
class SceneRecord:
    """A scene and its steps so far. It is in order when all of its steps are, and there is at least one."""

    name: str
    steps: list[Step] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every step ended as it should."""
        return bool(self.steps) and all(step.ok for step in self.steps)


@dataclass
class Score:
    """What was counted: gangs that ran, gangs that ran below their minimum, cards held by two containers at the
    same time; and how long the demo took.
    """

    gangs: int = 0
    partial_gangs: int = 0
    double_cards: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it is as it must be."""
        return self.gangs > 0 and self.partial_gangs == 0 and self.double_cards == 0


@dataclass
class Recording:
    """The whole demo."""

    scenes: list[SceneRecord] = field(default_factory=list)
    score: Score = field(default_factory=Score)

    @property
    def ok(self) -> bool:
        """Whether every scene and the score are as they should be."""
        return bool(self.scenes) and all(scene.ok for scene in self.scenes) and self.score.ok

    def to_json(self) -> dict[str, Any]:
        """The demo shape that programs read."""
        return {
            "ok": self.ok,
            "scenes": [
                {
                    "name": scene.name,
                    "ok": scene.ok,
                    "steps": [{"what": step.what, "ok": bool(step.ok)} for step in scene.steps],
                }
                for scene in self.scenes
            ],
            "score": {
                "partialGangs": self.score.partial_gangs,
                "doubleCards": self.score.double_cards,
                "gangs": self.score.gangs,
                "seconds": round(self.score.seconds, 1),
            },
        }
