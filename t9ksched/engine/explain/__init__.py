"""Why a gang waits, as typed reasons with their numbers.

Each function explains one check that failed and only reads. The sentences carry the numbers for people, the mappings
carry them for programs. `room` is about nodes, `domains` about parts of the cluster, `gangs` about all else.
"""

from t9ksched.engine.explain.domains import never_within, not_together
from t9ksched.engine.explain.gangs import (
    behind,
    collected_for_others,
    collects,
    evicted_for,
    evicts_later,
    held_for_other,
    incomplete,
    kept,
    kinds_mixed,
    members_short,
    needed_for_planned,
    outside_window,
    planned_start,
    queue_closed,
    queue_not_found,
    quota_exceeded,
    quota_planned,
    told_to,
    victims_not_found,
    waiting_for_victims,
)
from t9ksched.engine.explain.inventory import with_additions
from t9ksched.engine.explain.never import alone, never_together
from t9ksched.engine.explain.reserved import (
    is_denial,
    larger_than_reservation,
    reservation_full,
    reservation_waits,
    reserved,
)
from t9ksched.engine.explain.room import CLOSEST, lacking, no_room, no_room_above, not_enough, short_of, takes_none

__all__ = [
    "CLOSEST",
    "alone",
    "behind",
    "collected_for_others",
    "collects",
    "evicted_for",
    "evicts_later",
    "held_for_other",
    "incomplete",
    "is_denial",
    "kept",
    "kinds_mixed",
    "lacking",
    "larger_than_reservation",
    "members_short",
    "needed_for_planned",
    "never_together",
    "never_within",
    "no_room",
    "no_room_above",
    "not_enough",
    "not_together",
    "outside_window",
    "planned_start",
    "queue_closed",
    "queue_not_found",
    "quota_exceeded",
    "quota_planned",
    "reservation_full",
    "reservation_waits",
    "reserved",
    "short_of",
    "takes_none",
    "told_to",
    "victims_not_found",
    "waiting_for_victims",
    "with_additions",
]
