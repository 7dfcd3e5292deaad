"""Why a gang stays, as typed reasons with their numbers.

Each function answers for one check that failed; all of them only read. The sentences are plain and carry the numbers,
the mappings carry the same numbers for programs. `room` is about nodes, `gangs` about all else.
"""

from t9ksched.engine.explain.gangs import (
    behind,
    evicted_for,
    evicts_later,
    held_for_other,
    incomplete,
    kept,
    queue_closed,
    queue_not_found,
    quota_exceeded,
    too_few,
    victims_not_found,
    waiting_for_victims,
)
from t9ksched.engine.explain.room import lacking, no_room, not_together

__all__ = [
    "behind",
    "evicted_for",
    "evicts_later",
    "held_for_other",
    "incomplete",
    "kept",
    "lacking",
    "no_room",
    "not_together",
    "queue_closed",
    "queue_not_found",
    "quota_exceeded",
    "too_few",
    "victims_not_found",
    "waiting_for_victims",
]
