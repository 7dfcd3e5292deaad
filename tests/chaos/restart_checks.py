"""Checks of the first view of a scheduler, and of each view while SQL is away: both must rest on what was recorded.

A scheduler that starts after another one died inherits its promises: a group for which victims were evicted, and that
still waits, has its room reserved on the first view. While a scheduler knows that the database is away, it takes no
group without a written acceptance into a view, and starts none: the loss may become known between the two. A group
whose minimum does not exist yet is in the view to get that reason.
"""

import sqlite3
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from t9ksched.engine.plan import Assignment
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang
from t9ksched.model.reservation import ReservationKind
from t9ksched.scheduler.service import SchedulerService
from tests.chaos.ahead import by_owner
from tests.chaos.process_faults import CURRENT_PROCESS, SimulatedProcess

if TYPE_CHECKING:
    from tests.chaos.world import World

_CLOCKS = 60 * 1_000_000_000
"""Nanoseconds by which two schedulers' clocks may differ, and a margin."""


def gathered(gang: Gang) -> bool:
    """Whether the minimum of a gang is there, so that a plan could start it."""
    there = dict(gang.total_roles)
    return gang.total >= gang.min_member and all(there.get(role, 0) >= least for role, least in gang.roles)


class RestartChecks:
    """Follows the schedulers of one world. `kept` counts promises that had to be inherited."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._services: dict[SimulatedProcess, SchedulerService] = {}
        self._knew: dict[SimulatedProcess, bool] = {}
        """Whether a process knew that SQL is away when it began its latest view."""
        self._waiting: dict[SimulatedProcess, dict[str, Gang]] = {}
        """The groups of that view that could start and have no place, by UID."""
        self._planned: SimulatedProcess | None = None
        """The process that planned last."""
        self.kept = 0
        self.planned = 0
        """Planned starts that had to be inherited."""

    def serve(self, process: SimulatedProcess, service: SchedulerService) -> None:
        """A process begins to serve."""
        self._services[process] = service
        state = service.state
        judge, assume = state.judge, state.assume

        def judged(now: int) -> Generator[None, None, tuple[Gang, ...]]:
            self._knew[process] = service.sql_writer.behind is not None
            return judge(now)

        def assumed(uid: str, assignments: Iterable[Assignment], now: int) -> list[Assignment]:
            accepted = assume(uid, assignments, now)
            gang = self._waiting.get(process, {}).pop(uid, None) if accepted else None
            if gang is not None and service.sql_writer.behind is not None:
                self._written([gang], "is started")
            return accepted

        state.judge, state.assume = judged, assumed  # type: ignore[method-assign]

    def look(self, view: View) -> None:
        """A cycle begins on this view."""
        process = CURRENT_PROCESS.get()
        if process is None or process not in self._services:
            return
        waiting = [gang for gang in view.gangs if not gang.placed and gathered(gang)]
        self._waiting[process] = {gang.uid: gang for gang in waiting}
        if self._knew.get(process) and self._services[process].sql_writer.behind is not None:
            self._written(waiting, "is planned for")
        if self._planned is not process:
            if self._planned is not None and not self._world.elected:  # a former leader's memory may be old
                self._inherited(view, self._services[self._planned])
            self._planned = process

    def _written(self, gangs: Iterable[Gang], done: str) -> None:
        connection = sqlite3.connect(self._world.database)
        try:
            written = {uid for (uid,) in connection.execute("SELECT uid FROM acceptance")}
        finally:
            connection.close()
        for gang in gangs:
            if gang.uid not in written:
                self._world.checker.say(f"SQL is away, and {gang.name} {done} without a written acceptance")

    def _inherited(self, view: View, dead: SchedulerService) -> None:
        checker = self._world.checker
        told_to_go = {self._world.plans.victims.get(uid) for uid in checker.to_go}
        held = {hold.owner for hold in view.reservations if hold.kind is ReservationKind.VICTIMS}
        waiting = {gang.uid: gang for gang in view.gangs if not gang.placed}
        self._planned_ahead(view, waiting)
        end = int(self._world.now() * 1e9) + _CLOCKS
        for owner, holds in dead.state.reservations.promised.items():
            if owner in told_to_go and owner in waiting and min(hold.until for hold in holds) > end:
                self.kept += 1
                if owner not in held:
                    checker.say(f"room was promised to {waiting[owner].name}, and a restart has forgotten it")

    def _planned_ahead(self, view: View, waiting: dict[str, Gang]) -> None:
        """What the former scheduler planned, and had time to write, is in the first view of the next one."""
        checker, before = self._world.checker, self._world.plans.ahead.written()
        if self._world.policy.planning is None or checker.ledger.trouble():
            return
        found = by_owner(view.reservations)
        for uid, since in before.items():
            if uid in waiting:
                self.planned += 1
                if uid not in found or found[uid][0].since > since:
                    checker.say(f"the planned start of {waiting[uid].name} is forgotten by a restart, or later")


__all__ = ["RestartChecks"]
