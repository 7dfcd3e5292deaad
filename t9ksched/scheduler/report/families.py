"""The families of metrics that the leading scheduler serves, beside those that it counts where things happen
(`state/meters.py`).

`FAMILIES` is the one table: the page, its reference and the tests are made from it. Amounts are in base units (cores,
bytes, whole numbers) and the label `unit` names which.
"""

from typing import Final

from t9ksched.model.quantity import CARDS, from_units
from t9ksched.scheduler.state import meters
from t9ksched.serving.exposition import OPENMETRICS as OPENMETRICS
from t9ksched.serving.exposition import TEXT as TEXT
from t9ksched.serving.exposition import Family as Family
from t9ksched.serving.exposition import negotiated as negotiated

_UNITS: Final = {"cpu": "core", "memory": "byte", CARDS: "card"}

NODE_REQUESTS: Final = Family(
    "T9kScheduler_node_resource_requests",
    "gauge",
    "Requests of the non-terminated pods on a node, those of other schedulers included.",
    ("node", "resource", "unit"),
    most=None,
)
QUEUE_QUOTA: Final = Family(
    "t9ksched_queue_quota", "gauge", "The most that a queue may hold of a resource.", ("queue", "resource", "unit")
)
QUEUE_ALLOCATED: Final = Family(
    "t9ksched_queue_allocated",
    "gauge",
    "Requests of the placed pods that a queue pays for; 0 for resources of its quota that it does not use.",
    ("queue", "resource", "unit"),
)
LEADING: Final = Family("t9ksched_leading", "gauge", "1 on the scheduler that leads, 0 on one that waits to lead.")
GANGS_WAITING: Final = Family("t9ksched_gangs_waiting", "gauge", "Groups that wait for a place.")
PLANNED_STARTS: Final = Family("t9ksched_planned_starts", "gauge", "Groups that wait and have a planned start.")
PLANS_MOVED: Final = Family(
    "t9ksched_plans_moved_total",
    "counter",
    "How often a planned start moved by more than the resolution, earlier or later.",
    ("direction",),
)
RESERVATIONS: Final = Family(
    "t9ksched_reservations", "gauge", "Reservations by administrators, by whether one is in force now.", ("phase",)
)
RESERVATIONS_ENDED: Final = Family(
    "t9ksched_reservations_ended_total",
    "counter",
    "Occurrences of reservations that were released because nobody used them, or missed because others held the room.",
    ("why",),
)
FORECAST_WAITING: Final = Family(
    "t9ksched_forecast_waiting_jobs", "gauge", "Jobs that wait, by what their forecast relies on.", ("basis",)
)
FORECAST_JOBS: Final = Family(
    "t9ksched_forecast_jobs_total",
    "counter",
    "Jobs that started after waiting, by what their first forecast relied on.",
    ("basis",),
)
FORECAST_BY_LATEST: Final = Family(
    "t9ksched_forecast_started_by_latest_total",
    "counter",
    "Those of them that started by the latest moment of their first forecast.",
    ("basis",),
)
FORECAST_IN_INTERVAL: Final = Family(
    "t9ksched_forecast_started_in_interval_total",
    "counter",
    "Those of them that started within the interval of their first forecast.",
    ("basis",),
)
FORECAST_ERROR: Final = Family(
    "t9ksched_forecast_error_seconds_total",
    "counter",
    "Sum of the distances between their starts and the latest moments of their first forecasts.",
    ("basis",),
)
STOPPED: Final = Family("t9ksched_stopped", "gauge", "1 while an administrator has stopped it, else 0.", ("what",))
DATABASE_AWAY: Final = Family(
    "t9ksched_database_away", "gauge", "1 while the database does not answer, so that new groups wait, else 0."
)
CARD_DRIFT: Final = Family(
    "t9ksched_card_drift_pods",
    "gauge",
    "Bound pods whose annotations do not name the cards that they hold on record, or name others.",
)
CARDS_MISHELD: Final = Family(
    "t9ksched_cards_misheld_pods",
    "gauge",
    "Bound pods that hold on record cards that are gone from their node, or that another pod holds too.",
)
CLOCK_JUMPS: Final = Family(
    "t9ksched_clock_jumps_total", "counter", "How often the wall clock was set by over a second."
)
CONFIGURATION_REFUSED: Final = Family(
    "t9ksched_configuration_refused", "gauge", "1 while the newest configuration is unusable, else 0."
)
PLUGIN_FAILURES: Final = Family(
    "t9ksched_plugin_failures_total", "counter", "Cycles in which a plugin failed and was switched off.", ("plugin",)
)
PLUGIN_SLOW: Final = Family(
    "t9ksched_plugin_slow_answers_total", "counter", "Answers of a plugin that took longer than 50 ms.", ("plugin",)
)
NOTIFICATIONS: Final = Family(
    "t9ksched_notifications_total",
    "counter",
    "Attempts to send a notification that succeeded or failed, and notifications, tests left out, that were given up"
    " (`dropped`).",
    ("outcome",),
)
NOTIFICATIONS_WAITING: Final = Family(
    "t9ksched_notifications_waiting",
    "gauge",
    "Notifications that are still to be sent, also those that wait to be tried again.",
)

BUILD: Final = Family(
    "t9ksched_build_info",
    "gauge",
    "1; the labels say the release, the version of Python and which kernel of the engine works (`native`, `numpy`).",
    ("version", "python", "kernel"),
)
NODES: Final = Family("t9ksched_nodes", "gauge", "Nodes, by whether they are ready and take pods.", ("state",))
CARDS_BY_STATE: Final = Family(
    "t9ksched_cards",
    "gauge",
    "Cards by resource and model, each in one state: `held` by a pod as recorded, in `drift` if the pod's annotations"
    " say otherwise, else `unhealthy`, `cordoned`, `away` with their node, or `free`.",
    ("resource", "model", "state"),
)
CARDS_UNUSABLE: Final = Family(
    "t9ksched_cards_unusable",
    "gauge",
    "Free cards that pods of so many cards (`shape`) cannot use, because too few are free on their node.",
    ("resource", "model", "shape"),
)
QUEUE_SHARE: Final = Family(
    "t9ksched_queue_share_ratio",
    "gauge",
    "The largest part of its quota that a queue holds, over all resources of the quota; 1 is all of it.",
    ("queue",),
)
QUEUE_GANGS: Final = Family("t9ksched_queue_gangs", "gauge", "Groups of a queue, waiting or placed.", ("queue",))
QUEUE_PODS: Final = Family("t9ksched_queue_pods", "gauge", "Pods of a queue by their phase.", ("queue", "phase"))
QUEUE_WAITING: Final = Family(
    "t9ksched_queue_waiting_gangs",
    "gauge",
    "Groups of a queue that wait, by the code of their first reason; `Undecided` before the first.",
    ("queue", "reason"),
)
GANGS_PARTIAL: Final = Family(
    "t9ksched_gangs_partial", "gauge", "Groups of which some members hold places, but not the minimum."
)
GANGS_PARTIAL_AGE: Final = Family(
    "t9ksched_gangs_partial_oldest_seconds", "gauge", "For how long the oldest of these has been so; 0 without any."
)
BINDINGS_IN_FLIGHT: Final = Family("t9ksched_bindings_in_flight", "gauge", "Requests to bind a pod that are under way.")
BINDINGS_LIMIT: Final = Family(
    "t9ksched_bindings_limit", "gauge", "So many may be under way now; halved when the API server pushes back."
)
KUBE_REQUESTS: Final = Family(
    "t9ksched_kube_requests_total",
    "counter",
    "Requests to the API server by method and status; 429 where it throttles, `unanswered` without an answer.",
    ("method", "code"),
)
CERTIFICATES: Final = Family(
    "t9ksched_certificate_expiry_timestamp_seconds",
    "gauge",
    "When the certificate ends with which the API server knows this process (`client`), or which this process trusts"
    " (`authority`), in seconds since 1970; those that there are.",
    ("certificate",),
)
JOURNAL: Final = Family(
    "t9ksched_journal_backlog_rows",
    "gauge",
    "Rows of history, acceptances and jobs that wait to be written to the database.",
)
CUT: Final = Family(
    "t9ksched_metric_samples_cut_total",
    "counter",
    "Samples that a page left out, and values counted under `(other)`, because the family has as many as it may.",
    ("family",),
)
FAMILIES: Final = (
    BUILD,
    LEADING,
    NODE_REQUESTS,
    NODES,
    CARDS_BY_STATE,
    CARDS_UNUSABLE,
    QUEUE_QUOTA,
    QUEUE_ALLOCATED,
    QUEUE_SHARE,
    QUEUE_GANGS,
    QUEUE_PODS,
    QUEUE_WAITING,
    GANGS_WAITING,
    GANGS_PARTIAL,
    GANGS_PARTIAL_AGE,
    PLANNED_STARTS,
    PLANS_MOVED,
    RESERVATIONS,
    RESERVATIONS_ENDED,
    FORECAST_WAITING,
    FORECAST_JOBS,
    FORECAST_BY_LATEST,
    FORECAST_IN_INTERVAL,
    FORECAST_ERROR,
    STOPPED,
    DATABASE_AWAY,
    JOURNAL,
    CARD_DRIFT,
    CARDS_MISHELD,
    CLOCK_JUMPS,
    CONFIGURATION_REFUSED,
    PLUGIN_FAILURES,
    PLUGIN_SLOW,
    NOTIFICATIONS,
    NOTIFICATIONS_WAITING,
    BINDINGS_IN_FLIGHT,
    BINDINGS_LIMIT,
    CERTIFICATES,
    KUBE_REQUESTS,
    *meters.FAMILIES,
    CUT,
)
"""In the order of the page."""


def unit_of(resource: str) -> str:
    """The `unit` label of a resource's amounts: `core` (cpu), `byte` (memory), `integer` (any other)."""
    return _UNITS.get(resource, "integer")


def in_base_units(resource: str, amount: int) -> int | str:
    """An amount (cpu in millicores, memory in bytes) in the unit that `unit_of` names; only cards are rounded."""
    if resource == CARDS:
        return from_units(CARDS, amount)
    if resource != "cpu":
        return amount
    cores, rest = divmod(amount, 1000)
    return f"{cores}.{rest:03}".rstrip("0") if rest else cores
