"""Cycles that plan starts on a state in memory: what the loop does, without waiting."""

from collections.abc import Generator
from typing import Any, TypeVar

from t9ksched.engine.plan import Plan
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Planning, Policy
from t9ksched.engine.view import View
from t9ksched.model import names
from t9ksched.scheduler.state.reservations import Move
from t9ksched.scheduler.state.snapshot import snapshot
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.state.test_state import NOW, pod

SECOND = 1_000_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
START_TIMEOUT, MOST_GRACE = 900, 600
T = TypeVar("T")


def whole(steps: Generator[None, None, T]) -> T:
    """What a generator returns, without pauses."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def limited(name: str, gpus: int = 1, limit: str = "", **more: Any) -> Any:
    """A pod with a time limit in the queue `q` that gets no time to end."""
    if not more.get("group"):
        more.setdefault("queue", "q")
    made = pod(name, gpus, terminationGracePeriodSeconds=more.pop("grace", 0), **more)
    if limit:
        made.metadata.annotations[names.TIME_LIMIT_ANNOTATION] = limit
    return made


def view_of(state: ClusterState, now: int = NOW, start_timeout: int = START_TIMEOUT) -> View:
    """The view for a policy that plans starts."""
    ends = state.expect_ends(start_timeout, MOST_GRACE)
    gangs = whole(state.judge(now))
    return snapshot(state, gangs, expected_ends=whole(ends.follow(now)))


def policy_of(resolution: int = 60, start_timeout: int = START_TIMEOUT, **planning: Any) -> Policy:
    """A policy that plans starts."""
    planned = Planning(resolution_seconds=resolution, **{"per_user": 100} | planning)
    return Policy(planning=planned, start_timeout_seconds=start_timeout)


def cycle(
    state: ClusterState, now: int = NOW, resolution: int = 60, **planning: Any
) -> tuple[View, Plan, dict[str, Move]]:
    """A cycle of the loop: its view, its plan, and which planned starts moved. What starts is assumed."""
    policy = policy_of(resolution, **planning)
    view = view_of(state, now, policy.start_timeout_seconds)
    decided = plan(view, policy, now)
    for uid in dict.fromkeys(one.gang for one in decided.assignments):
        state.assume(uid, [one for one in decided.assignments if one.gang == uid], now)
    moves = state.plan_starts(decided.planned, resolution * SECOND)
    for entry in (*decided.waiting, *decided.surplus):
        gang = state.gangs_by_uid[entry.gang]
        gang.reasons, gang.position = entry.reasons, entry.position or None
    return view, decided, moves


def runs(state: ClusterState, since: int, *pods: Any) -> None:
    """These pods, which were placed, run from that moment on."""
    for one in pods:
        record = state.pods[one.metadata.uid]
        one.spec.node_name, one.status.phase = record.node or record.assumed, "Running"
        state.upsert_pod(one)
    state.settle()
