"""What became of notifications since this process leads, for the metrics page."""

from collections import Counter
from typing import Final

OUTCOMES: Final = ("sent", "failed", "dropped")
"""Attempts that succeeded, attempts that failed, and notifications that were given up."""


class Notified:
    """`told` counts by outcome; `waiting` is how many are still to be sent."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self.waiting = 0
