"""What the scheduler counts and times where it happens, for the metrics page. Durations are of the steady clock."""

from collections.abc import Iterable
from typing import Final

from t9ksched.serving.exposition import Family
from t9ksched.serving.meters import Meter

MOST_QUEUES: Final = 200
"""Queues that are kept apart in a family; the page has many samples for each."""
_BRIEF: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG: Final = (1.0, 10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 10800.0, 21600.0, 43200.0, 86400.0, 259200.0, 604800.0)
BIND_OUTCOMES: Final = ("bound", "gone", "conflicted", "refused", "throttled", "unknown")
"""What became of a request to bind; after `throttled` and `unknown` it is sent again."""
PREEMPTION, RESERVATION = "preemption", "reservation"
"""Why a pod was evicted: another gang gets its room, or a reservation of administrators does."""
REFUSED, LATER = "refused", "later"
"""How the API server declines an eviction: for good, or as long as a disruption budget does not allow it."""
TAKEN_BACK: Final = ("GangBindTimeout", "GangRecoveryTimeout")

CYCLE: Final = Family(
    "t9ksched_cycle_duration_seconds",
    "histogram",
    "How long a scheduling cycle took, from its view to the last of its decisions.",
    buckets=_BRIEF,
)
EVENT_TO_DECISION: Final = Family(
    "t9ksched_event_to_decision_seconds",
    "histogram",
    "From the first change that could let a gang start to the end of the cycle that saw it.",
    buckets=_BRIEF,
)
DECISION_TO_BOUND: Final = Family(
    "t9ksched_decision_to_bound_seconds",
    "histogram",
    "From the decision about a pod until the API server had bound it.",
    buckets=(*_BRIEF, 30.0, 60.0),
)
BINDS: Final = Family(
    "t9ksched_binds_total", "counter", "Requests to bind a pod, by what became of them.", ("outcome",)
)
WAITED: Final = Family(
    "t9ksched_queue_wait_seconds",
    "histogram",
    "How long gangs waited, from their creation until they got their places for the first time.",
    ("queue",),
    _LONG,
    MOST_QUEUES,
)
PREEMPTED: Final = Family(
    "t9ksched_preempted_pods_total",
    "counter",
    "Pods that were evicted so that something else gets their room, by their queue and for what.",
    ("queue", "cause"),
    most=2 * MOST_QUEUES,
)
EVICTIONS_DECLINED: Final = Family(
    "t9ksched_evictions_declined_total",
    "counter",
    "Requests to evict a pod that the API server declined, for good or for now.",
    ("answer",),
)
TAKEN_BACK_GANGS: Final = Family(
    "t9ksched_gangs_taken_back_total",
    "counter",
    "Gangs that had a part of their minimum for too long and were evicted whole.",
    ("reason",),
)
DATABASE: Final = Family(
    "t9ksched_database_duration_seconds",
    "histogram",
    "How long questions to the database and transactions took, waiting for a connection included.",
    ("kind", "outcome"),
    _BRIEF,
)
FAMILIES: Final = (
    CYCLE,
    EVENT_TO_DECISION,
    DECISION_TO_BOUND,
    BINDS,
    WAITED,
    PREEMPTED,
    EVICTIONS_DECLINED,
    TAKEN_BACK_GANGS,
    DATABASE,
)


class Meters:
    """The meters of one scheduler, by what they count."""

    def __init__(self) -> None:
        self.cycle = Meter(CYCLE)
        self.event_to_decision = Meter(EVENT_TO_DECISION)
        self.decision_to_bound = Meter(DECISION_TO_BOUND)
        self.binds = Meter(BINDS).expect([(one,) for one in BIND_OUTCOMES])
        self.waited = Meter(WAITED)
        self.preempted = Meter(PREEMPTED)
        self.evictions_declined = Meter(EVICTIONS_DECLINED).expect([(REFUSED,), (LATER,)])
        self.taken_back = Meter(TAKEN_BACK_GANGS).expect([(one,) for one in TAKEN_BACK])
        self.database = Meter(DATABASE)

    def expect_queues(self, queues: Iterable[str]) -> None:
        """Have series of these queues before anything happens in them."""
        for queue in queues:
            self.waited.expect([(queue,)])
            self.preempted.expect([(queue, PREEMPTION), (queue, RESERVATION)])

    def asked_database(self, kind: str, outcome: str, seconds: float) -> None:
        """The database was asked something, or told."""
        self.database.observe(seconds, kind, outcome)

    @property
    def all(self) -> tuple[Meter, ...]:
        """In the order of `FAMILIES`."""
        return (
            self.cycle,
            self.event_to_decision,
            self.decision_to_bound,
            self.binds,
            self.waited,
            self.preempted,
            self.evictions_declined,
            self.taken_back,
            self.database,
        )
