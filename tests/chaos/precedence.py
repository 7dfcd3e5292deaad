"""Which gangs may go before anything new of their queue: those that hold places, or lost them a short while ago without
being evicted. What is true of that is followed at every write, and held against the view that a plan is made from.
"""

from collections.abc import Callable

from t9ksched.engine.view import View

RECOVERY = 100.0
"""Seconds for which a gang of a history that lost members goes first."""


class Precedence:
    """`lag` is for how many seconds a scheduler may not have heard what is true."""

    def __init__(self, now: Callable[[], float], lag: float) -> None:
        self._now = now
        self._lag = lag
        self._holding: dict[str, set[str]] = {}
        self._ended: dict[str, float] = {}
        """By group, when its last place was given up."""
        self._lost: dict[str, float] = {}
        """By group, when it last lost a place other than by preemption."""

    def changed(self, group: str, pod: str, *, holds: bool, evicted: bool) -> None:
        """A pod of a group, by their UIDs, holds a place or does not; `evicted` says that the scheduler took it."""
        holding = self._holding.setdefault(group, set())
        if holds:
            holding.add(pod)
        elif pod in holding:
            holding.discard(pod)
            self._ended[group] = self._now()
            if not evicted:
                self._lost[group] = self._now()

    def faults(self, view: View) -> list[str]:
        """Gangs of the view that go first and must not: all their places were taken from them, or lost long ago."""
        found = []
        for gang in view.gangs:
            if not gang.refilling or gang.placed or self._holding.get(gang.uid) or gang.uid not in self._ended:
                continue
            ended, lost = self._now() - self._ended[gang.uid], self._now() - self._lost.get(gang.uid, -1e9)
            if ended > self._lag and lost > RECOVERY + self._lag:
                found.append(f"{gang.name} goes before anything new, and has held no place for {ended:.0f} s")
        return found
