"""The families of metrics that the leading scheduler serves, and how a sample is written in each text format.

`FAMILIES` is the one table: the page, its reference and the tests are made from it. Amounts are in base units (cores,
bytes, whole numbers) and the label `unit` names which. Two formats are written: the text format 0.0.4 of Prometheus and
OpenMetrics 1.0, which names a counter without its `_total` and ends with `# EOF`.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from t9ksched.model.quantity import CARDS, from_units

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_UNITS: Final = {"cpu": "core", "memory": "byte", CARDS: "card"}


@dataclass(frozen=True, slots=True)
class Family:
    """One family: its name as samples carry it (a counter's ends in `_total`), type, help text and label names."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...] = ()

    def head(self, openmetrics: bool) -> list[str]:
        """The lines before its samples."""
        name = self.name.removesuffix("_total") if openmetrics else self.name
        return [f"# HELP {name} {_escaped(self.help)}", f"# TYPE {name} {self.kind}"]

    def sample(self, values: tuple[str, ...], amount: int | str) -> str:
        """The line of one sample; `values` are those of the labels, in their order."""
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {values}")
        pairs = ",".join(
            f'{label}="{_escaped(value, quoted=True)}"' for label, value in zip(self.labels, values, strict=True)
        )
        return f"{self.name}{{{pairs}}} {amount}" if pairs else f"{self.name} {amount}"


NODE_REQUESTS: Final = Family(
    "T9kScheduler_node_resource_requests",
    "gauge",
    "Requests of the non-terminated pods on a node, those of other schedulers included.",
    ("node", "resource", "unit"),
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
    "Attempts to send a notification that succeeded or failed, and notifications that were given up (`dropped`).",
    ("outcome",),
)
NOTIFICATIONS_WAITING: Final = Family(
    "t9ksched_notifications_waiting",
    "gauge",
    "Notifications that are still to be sent, also those that wait to be tried again.",
)

FAMILIES: Final = (
    LEADING,
    NODE_REQUESTS,
    QUEUE_QUOTA,
    QUEUE_ALLOCATED,
    GANGS_WAITING,
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
    CARD_DRIFT,
    CARDS_MISHELD,
    CLOCK_JUMPS,
    CONFIGURATION_REFUSED,
    PLUGIN_FAILURES,
    PLUGIN_SLOW,
    NOTIFICATIONS,
    NOTIFICATIONS_WAITING,
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


def negotiated(accept: str) -> bool:
    """Whether a scraper with this Accept header takes OpenMetrics."""
    return any(one.strip().startswith("application/openmetrics-text") for one in accept.split(","))


def _escaped(text: str, quoted: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quoted else escaped


HEAD: Final = """# Metrics reference

Written by `make reference` from the table the page itself is made from. Each scheduler serves `/metrics` on the port
of its probes (`T9KSCHED_HEALTH_PORT`), as deployed 8080, which the Service `t9k-scheduler` in `t9k-system` names; no
token is needed. The one that leads has all families, one that waits to lead `t9ksched_leading` alone. The page is in
the text format of Prometheus or, if the scraper asks for it, OpenMetrics. REST serves the leader's page at its own
`/metrics` to those who have a token, and without one on the port of its probes, if it has one. It adds the counter
`t9ksched_api_requests_refused_total` of its own process: requests refused because more came than can be answered in
time, by `reason` (`share`: one caller's excess, `full`: that of all, `late`: waited too long).

Amounts are in base units. The label `unit` is `core` for cpu, `byte` for memory, `card` for `cards` (physical cards,
parts of them included, to thousandths, where the quota names them), and `integer` for every other
resource, such as cards; amounts of `ephemeral-storage` and `hugepages-…` are whole numbers of bytes. Limits on
attached volumes are no resources and are left out, and so is the number of pods unless a quota names it.

| family | type | labels | |
| --- | --- | --- | --- |
"""


def reference(families: Iterable[Family] = FAMILIES) -> str:
    """The page `docs/reference/metrics.md`."""

    def rows() -> Iterator[str]:
        for family in families:
            labels = ", ".join(f"`{label}`" for label in family.labels)
            yield f"| `{family.name}` | {family.kind} | {labels} | {family.help} |\n"

    return HEAD + "".join(rows())


if __name__ == "__main__":
    sys.stdout.write(reference())
