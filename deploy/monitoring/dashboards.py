"""Writes the Grafana dashboards beside it: `make dashboards`.

Three are made: for operators (does it work), for teams (what do my queues get), for capacity (what are the cards used
for). Panels are rows of tables here; grafana-foundation-sdk writes the JSON.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import StackingMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

FOLDER: Final = Path(__file__).parent / "dashboards"
SOURCE: Final = DataSourceRef("prometheus", "${datasource}")
_WIDTH, _HEIGHT = 8, 8


class Panel(NamedTuple):
    """A graph, or with `number` the newest value. Each query has the legend of its series."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    number: bool = False
    stacked: bool = False


class Board(NamedTuple):
    """A dashboard; `by_queue` has a choice of queues, which queries name as `$queue`."""

    name: str
    title: str
    rows: Sequence[tuple[str, Sequence[Panel]]]
    by_queue: bool = False


def _quantiles(family: str, by: str = "") -> Sequence[tuple[str, str]]:
    labels = f"le, {by}" if by else "le"
    return [
        (f"histogram_quantile({part}, sum by ({labels}) (rate({family}_bucket[5m])))", f"{{{{{by}}}}} {name}".strip())
        for part, name in ((0.5, "half"), (0.99, "99 of 100"))
    ]


OPERATOR: Final = Board(
    "operator",
    "t9ksched: does it work?",
    [
        (
            "Now",
            [
                Panel(
                    "Leading",
                    [("sum(t9ksched_leading)", "schedulers"), ("sum(t9ksched_controller_leading)", "controllers")],
                    number=True,
                ),
                Panel("Gangs that wait", [("sum(t9ksched_gangs_waiting)", "waiting")], number=True),
                Panel("Database away", [("max(t9ksched_database_away)", "away")], number=True),
                Panel("Stopped", [("max by (what) (t9ksched_stopped)", "{{what}}")], number=True),
                Panel("Configuration refused", [("max(t9ksched_configuration_refused)", "refused")], number=True),
                Panel(
                    "Release",
                    [("max by (version, kernel) (t9ksched_build_info)", "{{version}} {{kernel}}")],
                    number=True,
                ),
            ],
        ),
        (
            "Decisions",
            [
                Panel("Duration of cycles", _quantiles("t9ksched_cycle_duration_seconds"), "s"),
                Panel("From event to decision", _quantiles("t9ksched_event_to_decision_seconds"), "s"),
                Panel("From decision to bound", _quantiles("t9ksched_decision_to_bound_seconds"), "s"),
                Panel(
                    "Bindings by outcome", [("sum by (outcome) (rate(t9ksched_binds_total[5m]))", "{{outcome}}")], "ops"
                ),
                Panel(
                    "Bindings under way",
                    [("sum(t9ksched_bindings_in_flight)", "under way"), ("sum(t9ksched_bindings_limit)", "may be")],
                ),
                Panel(
                    "Requests to the API server",
                    [("sum by (method, code) (rate(t9ksched_kube_requests_total[5m]))", "{{method}} {{code}}")],
                    "reqps",
                ),
            ],
        ),
        (
            "Gangs, cards and plans",
            [
                Panel(
                    "Gangs with a part of their minimum",
                    [
                        ("sum(t9ksched_gangs_partial)", "gangs"),
                        ("max(t9ksched_gangs_partial_oldest_seconds)", "oldest, s"),
                    ],
                ),
                Panel(
                    "Gangs taken back, an hour",
                    [("sum by (reason) (increase(t9ksched_gangs_taken_back_total[1h]))", "{{reason}}")],
                ),
                Panel(
                    "Cards in doubt, pods",
                    [("sum(t9ksched_card_drift_pods)", "drift"), ("sum(t9ksched_cards_misheld_pods)", "misheld")],
                ),
                Panel(
                    "Plans that moved, an hour",
                    [("sum by (direction) (increase(t9ksched_plans_moved_total[1h]))", "{{direction}}")],
                ),
                Panel(
                    "Evictions declined, an hour",
                    [("sum by (answer) (increase(t9ksched_evictions_declined_total[1h]))", "{{answer}}")],
                ),
                Panel("Nodes", [("sum by (state) (t9ksched_nodes)", "{{state}}")], stacked=True),
            ],
        ),
        (
            "Database and REST",
            [
                Panel("Database", _quantiles("t9ksched_database_duration_seconds", "kind"), "s"),
                Panel("Rows that wait to be written", [("sum(t9ksched_journal_backlog_rows)", "rows")]),
                Panel(
                    "REST by status", [("sum by (code) (rate(t9ksched_api_requests_total[5m]))", "{{code}}")], "reqps"
                ),
                Panel("Duration of requests", _quantiles("t9ksched_api_request_duration_seconds"), "s"),
                Panel(
                    "Slowest routes",
                    [
                        (
                            "topk(5, histogram_quantile(0.99,"
                            " sum by (le, route) (rate(t9ksched_api_request_duration_seconds_bucket[5m]))))",
                            "{{route}}",
                        )
                    ],
                    "s",
                ),
                Panel("Open streams", [("sum by (what) (t9ksched_api_streams)", "{{what}}")]),
            ],
        ),
        (
            "Controllers",
            [
                Panel(
                    "Looks at workloads, by how they ended",
                    [
                        (
                            "sum by (outcome) (rate(t9ksched_controller_reconciles_total[5m]))",
                            "{{outcome}}",
                        )
                    ],
                    "ops",
                ),
                Panel("Duration of looks", _quantiles("t9ksched_controller_reconcile_duration_seconds"), "s"),
                Panel(
                    "Workloads that wait for a look",
                    [
                        ("sum(t9ksched_controller_queue_depth)", "waiting"),
                        ("sum(t9ksched_controller_retrying_workloads)", "repeated"),
                    ],
                ),
                Panel(
                    "Workloads by kind",
                    [("sum by (kind) (t9ksched_controller_workloads)", "{{kind}}")],
                    stacked=True,
                ),
                Panel(
                    "Requests of the controllers to the API server",
                    [
                        (
                            "sum by (method, code) (rate(t9ksched_controller_kube_requests_total[5m]))",
                            "{{method}} {{code}}",
                        )
                    ],
                    "reqps",
                ),
            ],
        ),
    ],
)
TEAM: Final = Board(
    "team",
    "t9ksched: queues of a team",
    [
        (
            "Now",
            [
                Panel(
                    "Part of the quota that is held",
                    [('max by (queue) (t9ksched_queue_share_ratio{queue=~"$queue"})', "{{queue}}")],
                    "percentunit",
                    number=True,
                ),
                Panel(
                    "Gangs that wait",
                    [('sum by (queue) (t9ksched_queue_waiting_gangs{queue=~"$queue"})', "{{queue}}")],
                    number=True,
                ),
                Panel(
                    "Pods that run",
                    [('sum by (queue) (t9ksched_queue_pods{queue=~"$queue",phase="Running"})', "{{queue}}")],
                    number=True,
                ),
            ],
        ),
        (
            "Over time",
            [
                Panel(
                    "Held and quota",
                    [
                        (
                            'sum by (queue, resource) (t9ksched_queue_allocated{queue=~"$queue"})',
                            "{{queue}} {{resource}}",
                        ),
                        (
                            'sum by (queue, resource) (t9ksched_queue_quota{queue=~"$queue"})',
                            "quota {{queue}} {{resource}}",
                        ),
                    ],
                ),
                Panel(
                    "What gangs wait for",
                    [
                        (
                            'sum by (queue, reason) (t9ksched_queue_waiting_gangs{queue=~"$queue"})',
                            "{{queue}} {{reason}}",
                        )
                    ],
                    stacked=True,
                ),
                Panel(
                    "How long gangs waited",
                    [
                        (
                            "histogram_quantile(0.5, sum by (le, queue)"
                            ' (rate(t9ksched_queue_wait_seconds_bucket{queue=~"$queue"}[1h])))',
                            "{{queue}} half",
                        ),
                        (
                            "histogram_quantile(0.9, sum by (le, queue)"
                            ' (rate(t9ksched_queue_wait_seconds_bucket{queue=~"$queue"}[1h])))',
                            "{{queue}} 9 of 10",
                        ),
                    ],
                    "s",
                ),
                Panel(
                    "Pods by phase",
                    [('sum by (queue, phase) (t9ksched_queue_pods{queue=~"$queue"})', "{{queue}} {{phase}}")],
                    stacked=True,
                ),
                Panel(
                    "Pods evicted, an hour",
                    [
                        (
                            'sum by (queue, cause) (increase(t9ksched_preempted_pods_total{queue=~"$queue"}[1h]))',
                            "{{queue}} {{cause}}",
                        )
                    ],
                ),
                Panel(
                    "Groups", [('sum by (queue) (t9ksched_queue_gangs{queue=~"$queue"})', "{{queue}}")], stacked=True
                ),
            ],
        ),
    ],
    by_queue=True,
)
CAPACITY: Final = Board(
    "capacity",
    "t9ksched: capacity",
    [
        (
            "Cards",
            [
                Panel("Cards by state", [("sum by (state) (t9ksched_cards)", "{{state}}")], stacked=True),
                Panel(
                    "Part of the cards that is held",
                    [
                        (
                            'sum by (model) (t9ksched_cards{state=~"held|drift"}) / sum by (model) (t9ksched_cards)',
                            "{{model}}",
                        )
                    ],
                    "percentunit",
                ),
                Panel("Free cards", [('sum by (model) (t9ksched_cards{state="free"})', "{{model}}")], stacked=True),
                Panel(
                    "Free cards of no use, by cards of a pod",
                    [("sum by (model, shape) (t9ksched_cards_unusable)", "{{model}}, {{shape}} a pod")],
                ),
                Panel(
                    "Cards out of work",
                    [
                        (
                            'sum by (model, state) (t9ksched_cards{state=~"unhealthy|cordoned|away"})',
                            "{{model}} {{state}}",
                        )
                    ],
                    stacked=True,
                ),
                Panel(
                    "What is asked for on nodes, by resource",
                    [
                        (
                            'sum by (resource) (T9kScheduler_node_resource_requests{unit="integer"})',
                            "{{resource}}",
                        )
                    ],
                ),
            ],
        ),
        (
            "Demand",
            [
                Panel(
                    "Held by queue",
                    [('sum by (queue) (t9ksched_queue_allocated{resource=~".*gpu.*"})', "{{queue}}")],
                    stacked=True,
                ),
                Panel(
                    "Gangs that wait, by queue",
                    [("sum by (queue) (t9ksched_queue_waiting_gangs)", "{{queue}}")],
                    stacked=True,
                ),
                Panel(
                    "Gangs that wait, by reason",
                    [("sum by (reason) (t9ksched_queue_waiting_gangs)", "{{reason}}")],
                    stacked=True,
                ),
                Panel("Share of quota", [("max by (queue) (t9ksched_queue_share_ratio)", "{{queue}}")], "percentunit"),
                Panel(
                    "Plans and forecasts",
                    [
                        ("sum(t9ksched_planned_starts)", "planned starts"),
                        ("sum by (basis) (t9ksched_forecast_waiting_jobs)", "forecast by {{basis}}"),
                    ],
                ),
                Panel("Reservations", [("sum by (phase) (t9ksched_reservations)", "{{phase}}")]),
            ],
        ),
    ],
)
BOARDS: Final = (OPERATOR, TEAM, CAPACITY)


def _panel(panel: Panel) -> stat.Panel | timeseries.Panel:
    made: stat.Panel | timeseries.Panel = stat.Panel() if panel.number else timeseries.Panel()
    made.title(panel.title).datasource(SOURCE).unit(panel.unit)
    made.span(4 if panel.number else _WIDTH).height(4 if panel.number else _HEIGHT)
    for expression, legend in panel.queries:
        made.with_target(prometheus.Dataquery().datasource(SOURCE).expr(expression).legend_format(legend))
    if panel.stacked and isinstance(made, timeseries.Panel):
        made.fill_opacity(30).stacking(_stacked())
    return made


def _stacked() -> common.StackingConfig:
    return common.StackingConfig().mode(StackingMode.NORMAL).group("A")


def written(board: Board) -> str:
    """The dashboard as Grafana imports it."""
    made = dashboard.Dashboard(board.title).uid(f"t9ksched-{board.name}").tags(["t9ksched"]).refresh("1m")
    made.time("now-6h", "now").timezone("browser").editable()
    made.with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    if board.by_queue:
        queues = dashboard.QueryVariable("queue").label("Queue").datasource(SOURCE).multi(True).include_all(True)
        queues.query("label_values(t9ksched_queue_gangs, queue)").refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        made.with_variable(queues)
    for title, panels in board.rows:
        made.with_row(dashboard.Row(title))
        for panel in panels:
            made.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=1).encode(made.build()) + "\n"


def main(folder: Path = FOLDER) -> int:
    """Write all of them into the folder."""
    folder.mkdir(exist_ok=True)
    for board in BOARDS:
        (folder / f"{board.name}.json").write_text(written(board))
    return 0


if __name__ == "__main__":
    sys.exit(main())
