"""When a job ends: by its leader, or by rules over its replicas.

A rule is a set of replicas. A success rule holds when all of them succeeded, a failure rule when all of them failed for
good. A job whose success rules can no longer hold has failed as well.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from t9ksched.workloads.jobspec import RunPolicy
from t9ksched.workloads.replica import Fate

DEADLINE: Final = "DeadlineExceeded"


class Rule(msgspec.Struct, frozen=True):
    """Names of replicas' pods; `text` is the rule as the user wrote it, empty for one that follows from the kind."""

    names: frozenset[str]
    text: str = ""


class Ending(msgspec.Struct, frozen=True):
    """What ends a job.

    Attributes:
        success: the job succeeds when one of these holds.
        failure: it fails when one of these holds.
        any_failure: any replica that failed for good fails the job.
        once: replicas whose success ends the job, so that it is no reason to start them again.
    """

    success: tuple[Rule, ...]
    failure: tuple[Rule, ...] = ()
    any_failure: bool = False
    once: frozenset[str] = frozenset()


class End(NamedTuple):
    """The end of a job: its phase, a reason and a message for its conditions."""

    phase: str
    reason: str
    message: str


def led_by(leader: str, *, any_failure: bool = False) -> Ending:
    """A job that ends as the pod of that name does."""
    return Ending((Rule(frozenset({leader})),), any_failure=any_failure, once=frozenset({leader}))


def end_of(
    ending: Ending, policy: RunPolicy, fates: Iterable[Fate], started: datetime | None, now: datetime
) -> End | None:
    """The end of the job, if it has come."""
    known = {fate.record.name: fate for fate in fates}
    lost = {name: fate for name, fate in known.items() if fate.lost}
    succeeded = {name for name, fate in known.items() if fate.record.succeeded}
    for rule in ending.success:
        if rule.names and rule.names <= succeeded:
            pods = ", ".join(sorted(rule.names))
            return End("Succeeded", "JobSucceeded", rule.text or f"pod {pods} succeeded")
    for fate in lost.values():
        if fate.exhausted:
            message = f"{fate.lost} (backoffLimit {policy.backoff_limit}){fate.last_words}"
            return End("Failed", "BackoffLimitExceeded", message)
    failed = _failure(ending, lost)
    if failed:
        return End("Failed", "ReplicaFailed", failed)
    deadline = policy.active_deadline
    if deadline is not None and started is not None and now >= started + timedelta(seconds=deadline):
        return End("Failed", DEADLINE, f"the job ran longer than its activeDeadlineSeconds {deadline}")
    return None


def _failure(ending: Ending, lost: Mapping[str, Fate]) -> str:
    """Why the job has failed; empty if it has not."""
    if not lost:
        return ""
    for rule in ending.failure:
        if rule.names <= lost.keys():
            first = next(fate for name, fate in lost.items() if name in rule.names)
            return f"{rule.text}: {first.lost}{first.last_words}"
    if ending.any_failure:
        first = next(iter(lost.values()))
        return first.lost + first.last_words
    if all(rule.names & lost.keys() for rule in ending.success):
        needed = frozenset[str]().union(*(rule.names for rule in ending.success))
        first = next(fate for name, fate in lost.items() if name in needed)
        written = any(rule.text for rule in ending.success)
        return ("none of successRules can hold any more: " if written else "") + first.lost + first.last_words
    return ""
