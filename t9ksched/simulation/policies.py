"""The policies that a replay compares, by name: an order of jobs, and whether a job may pass one that finds no room."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

import msgspec

from t9ksched.engine.plugins import PluginUse
from t9ksched.engine.policy import Planning, PlanningMode, Policy
from t9ksched.model.errors import Invalid
from t9ksched.model.gang import Gang
from t9ksched.model.queue import Ordering
from t9ksched.simulation.job import Job, nanoseconds
from t9ksched.simulation.lines import Key, Shown

Remaining = Literal["time", "service"]
_MILLISECONDS: Final = 1000


class Contender(msgspec.Struct, frozen=True):
    """What a replay follows.

    Attributes:
        policy: as the live service follows one.
        ordering: of the one queue that all jobs are in.
        by_priority: whether priorities of the trace count; else all are equal.
        shortest_first: whether jobs that ask for less time, or run shorter where they ask for none, go first.
        remaining: what orders jobs, those that run among those that wait, in policies that preempt: how long they still
            have to run, or that times their cards.
        named: whether it is one of `NAMED`, which say how queues are ordered; a `scheduler.conf` does not.
        promises: whether a planned start is kept for its job. Else each moment plans anew, so that the best job of that
            moment has the plan, as in textbooks.
    """

    policy: Policy = msgspec.field(default_factory=Policy)
    ordering: Ordering = "BestEffort"
    by_priority: bool = False
    shortest_first: bool = False
    promises: bool = True
    remaining: Remaining | None = None
    named: bool = True

    @property
    def shown(self) -> Shown:
        """Which waiting jobs the planner has to see."""
        if self.policy.planning is not None:
            return "first" if self.policy.planning.mode == "EASY" else "all"
        return "strict" if self.ordering == "Strict" else "passing"

    def key(self, job: Job, at: int) -> Key:
        """The place of the job at this position of the trace among waiting jobs, as the planner orders gangs."""
        rank = asks(job) if self.shortest_first else 0
        return rank, -job.priority if self.by_priority else 0, nanoseconds(job.submitted), at

    def policy_for(self, jobs: Mapping[str, Job]) -> Policy:
        """The policy, with an order of these jobs, by the UIDs of their gangs, where it needs to know them."""
        if not self.shortest_first:
            return self.policy
        use = PluginUse(_SHORTEST, _Shortest(jobs))
        return replace(self.policy, gang_order=(_SHORTEST, "basic"), plugins=(use,))


class _Shortest:
    """Orders gangs by how long their jobs ask for, in milliseconds."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs

    def gang_rank(self, gang: Gang, now: int) -> int:
        """Smaller goes first; it does not depend on `now`."""
        return asks(self._jobs[gang.uid])


def asks(job: Job) -> int:
    """How long the job asks for, or runs where it asks for no time, in milliseconds."""
    return round((job.runs if job.limit is None else job.limit) * _MILLISECONDS)


_SHORTEST: Final = "shortest"
_ANY: Final = 1 << 40
"""More jobs than any trace has."""
_CENTURY: Final = 100 * 365 * 86_400


def _planning(mode: PlanningMode) -> Policy:
    planning = Planning(mode, gangs=_ANY, per_queue=_ANY, per_user=_ANY, horizon_seconds=_CENTURY)
    return Policy(planning=planning, starvation=None)


NAMED: Final[Mapping[str, Contender]] = {
    "fcfs": Contender(ordering="Strict"),
    "besteffort": Contender(),
    "priority": Contender(ordering="Strict", by_priority=True),
    "sjf": Contender(ordering="Strict", shortest_first=True),
    "easy": Contender(_planning("EASY"), "Backfill"),
    "conservative": Contender(_planning("Conservative"), "Backfill"),
    "sjf-easy": Contender(_planning("EASY"), "Backfill", shortest_first=True, promises=False),
    "srtf": Contender(remaining="time"),
    "srsf": Contender(remaining="service"),
}
"""First come, first served; the same, but a job without room is passed; larger priority first; shortest job first. Then
first come, first served with backfilling that delays the first job that waits in no case, or any; shortest job first
with backfilling that does not delay the first. Then those that preempt: what is soonest done first, and what has the
fewest card-seconds left first (Tiresias, NSDI 2019; Muri, SIGCOMM 2022).
"""


def named(name: str, others: Sequence[str] = ()) -> Contender:
    """The policy of that name; `others` are told beside those that there are.

    Raises:
        Invalid: there is none.
    """
    found = NAMED.get(name)
    if found is None:
        raise Invalid.at("policy", f"{name!r} is unknown: the policies are {', '.join((*others, *NAMED))}, or a file")
    return found
