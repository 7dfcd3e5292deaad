"""Planned starts as users see them: of a job, and on each node."""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from t9ksched.model.job import ExpectedStart, JobReason, PlannedStart
from t9ksched.model.reservation import Reservation, rounded_up
from t9ksched.model.run_times import Likeness
from t9ksched.model.timelimit import TimeLimit
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState

Json = dict[str, Any]
_SECOND: Final = 1_000_000_000
_A_SLICE: Final = 10
"""Plans that are looked at before other tasks run: each may have thousands of pods."""


def planned_start(gangs: Iterable[GangRecord], state: ClusterState) -> PlannedStart | None:
    """The earliest planned start of these groups, which holds its room."""
    told = state.reservations.told
    plans = [plan for gang in gangs if (plan := told.get(gang.uid))] if told else []
    if not plans:
        return None
    plan = min(plans, key=lambda plan: plan[0].since)
    at = timestamp(rounded_up(plan[0].since, state.resolution))
    return PlannedStart(at or "", plan[0].firm, tuple(sorted({one.node for one in plan})))


def told_start(gangs: Sequence[GangRecord], state: ClusterState) -> PlannedStart | None:
    """The earliest planned start of these groups; where there is none, the one that is expected as long as jobs run as
    long as others like them did.
    """
    if (found := planned_start(gangs, state)) is not None:
        return found
    tentative = state.forecasts.tentative(gangs, state.resolution)
    return None if tentative is None else PlannedStart(timestamp(tentative.at) or "", False, tentative.nodes)


def with_expectation(reason: JobReason | None, plan: PlannedStart | None) -> JobReason | None:
    """Why a job waits, with the start that is expected of it but not planned."""
    if reason is None or plan is None or plan.firm:
        return reason
    return JobReason(reason.code, f"{reason.message}; expected to start at {plan.at} (tentative)")


def expected_start(gangs: Sequence[GangRecord], state: ClusterState) -> ExpectedStart:
    """When a waiting job with these groups is expected to start."""
    found = state.forecasts.of(gangs, state.resolution)
    return ExpectedStart(timestamp(found.earliest), timestamp(found.latest), found.basis)


def learned_limit(likeness: Likeness, started: int, state: ClusterState) -> TimeLimit:
    """How long a job without a limit is expected to run: nine tenths of the jobs like it ran no longer, of those that
    ran longer than it has, if it runs since `started` (nanoseconds since the epoch; 0 for one that waits). Its
    forecasts count on the same end.
    """
    age = max((state.forecasts.now - started) / _SECOND, 0.0) if started else 0.0
    found = state.forecasts.times.interval(likeness, age)
    return TimeLimit() if found is None else TimeLimit(math.ceil(found[1]), "learned")


def job_named(gang: GangRecord) -> str:
    """The job of a group within its namespace: `Kind/name`."""
    return "/".join(identity(gang)[1::2])


def cards_of(reservation: Reservation) -> int:
    """How many cards the pod of a reservation asks for."""
    return sum(reservation.pod_class.card_counts.values())


async def planned_by_node(state: ClusterState) -> dict[str, list[Json]]:
    """What is planned on each node, in the order of the starts; `until` is None where no end is enforced."""
    found: defaultdict[str, list[Json]] = defaultdict(list)
    plans = sorted(state.reservations.told.items(), key=lambda item: (item[1][0].since, item[0]))
    for count, (owner, plan) in enumerate(plans, start=1):
        if count % _A_SLICE == 0:
            await asyncio.sleep(0)
        gang = state.gangs_by_uid.get(owner)
        if gang is None:
            continue
        pods = Counter(one.node for one in plan)
        cards = Counter[str]()
        for one in plan:
            cards[one.node] += cards_of(one)
        for node in sorted(pods):
            found[node].append(
                {
                    "at": timestamp(rounded_up(plan[0].since, state.resolution)),
                    "until": timestamp(plan[0].until),
                    "firm": plan[0].firm,
                    "namespace": gang.namespace,
                    "job": job_named(gang),
                    "queue": gang.queue,
                    "pods": pods[node],
                    "gpus": cards[node],
                }
            )
    return found
