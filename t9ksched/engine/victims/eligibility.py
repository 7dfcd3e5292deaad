"""Which gangs the policy lets a gang evict, whole or in part: the one rule that the search for victims asks."""

from collections.abc import Mapping
from typing import Final

from t9ksched.engine.policy import Policy
from t9ksched.engine.view import QueueState
from t9ksched.model.gang import Gang, Running

SECOND: Final = 1_000_000_000
"""Nanoseconds."""


def eligible(preemptor: Gang, victim: Running, queues: Mapping[str, QueueState], policy: Policy, now: int) -> bool:
    """Whether the policy lets a gang take room from another; `now` in nanoseconds since the epoch.

    The victim's queue must exist, be preemptible and have a strictly smaller priority. A job that has just started, or
    was evicted too often today, is spared where the policy says so.
    """
    rules = policy.preemption
    theirs = queues.get(victim.queue)
    if theirs is None or not theirs.spec.preemptible:
        return False
    if rules.minimum_run_seconds and now - victim.started < rules.minimum_run_seconds * SECOND:
        return False
    if rules.most_evictions_a_day and victim.evictions >= rules.most_evictions_a_day:
        return False
    if victim.queue == preemptor.queue:
        return rules.inside_queue and victim.priority < preemptor.priority
    return theirs.spec.priority < queues[preemptor.queue].spec.priority


def yields(preemptor: Gang, victim: Running, queues: Mapping[str, QueueState], policy: Policy) -> bool:
    """Whether members above the victim's minimum go for a waiting minimum of their own queue, even of their own gang.

    A gang that lost its only launcher gives up a worker for a new one.
    """
    same = victim.queue == preemptor.queue
    return same and policy.preemption.surplus_yields and queues[victim.queue].spec.preemptible
