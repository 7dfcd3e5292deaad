"""The metrics page of a known world, read by the parsers of Prometheus: every family, unit, label and value."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from t9ksched.model.forecast import BASES, Forecast, Outcome
from t9ksched.scheduler.report import families, metrics, node_page
from t9ksched.scheduler.report.families import FAMILIES, Family, in_base_units, negotiated
from t9ksched.scheduler.report.metrics import MetricsPage, Sources, standby
from t9ksched.scheduler.state import meters
from t9ksched.scheduler.state.counts import PHASES
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.serving import exposition as writing
from t9ksched.store.job_overrides import Stop
from tests.unit.scheduler.state.test_state import GPU, NOW, decide, node, pod, state_with

ODD = 'a"b\\c\nd'
"""A label value with everything that must be escaped."""

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def containers(**requests: str) -> list[dict[str, Any]]:
    return [{"name": "main", "resources": {"requests": requests, "limits": requests}}]


def known_world() -> ClusterState:
    """Two nodes; a pod of `q` that asks for everything there is, one of another scheduler, one that waits."""
    queue = {"quota": {"requests": {"cpu": "10500m", "memory": "64Gi", GPU: "4", "pods": "20", "amd.com/gpu": "1"}}}
    state = state_with(node("n1"), node("n2"), queues={"q": queue, "default": {}})
    asked = {"cpu": "2500m", "memory": "1Gi", "ephemeral-storage": "2Gi", "hugepages-2Mi": "4Mi", GPU: "2"}
    state.upsert_pod(pod("ours", queue="q", node="n1", phase="Running", cards="0,1", containers=containers(**asked)))
    state.upsert_pod(pod("theirs", 0, node="n2", phase="Running", ours=False))
    state.upsert_pod(pod("waits", 99, queue="q"))
    state.accept_running(NOW)
    decide(state)
    state.forecasts.waiting["plan"] = 2
    state.forecasts.judge(Outcome(Forecast(0, 5_000_000_000, 5_000_000_000, "plan"), 2_500_000_000))
    state.forecasts.judge(Outcome(Forecast(0), 1))
    state.charges.queue_used["q"]["attachable-volumes-csi-disk"] = 3
    state.notified.told.update(sent=3, failed=1)
    state.notified.waiting = 2
    state.stops = (Stop("preemption", None, "ann", datetime(2026, 1, 1, tzinfo=UTC)),)
    return state


def requests(node: str, resource: str, unit: str) -> Any:
    return families.NODE_REQUESTS.name, (("node", node), ("resource", resource), ("unit", unit))


def of_queue(family: Family, resource: str, unit: str, queue: str = "q") -> Any:
    return family.name, (("queue", queue), ("resource", resource), ("unit", unit))


def cards(state: str) -> Any:
    return families.CARDS_BY_STATE.name, (("model", GPU), ("resource", GPU), ("state", state))


def unusable(shape: int) -> Any:
    return families.CARDS_UNUSABLE.name, (("model", GPU), ("resource", GPU), ("shape", str(shape)))


def of_phase(queue: str, phase: str) -> Any:
    return families.QUEUE_PODS.name, (("phase", phase), ("queue", queue))


KNOWN: Samples = {
    ("t9ksched_leading", ()): 1,
    requests("n1", "cpu", "core"): 2.5,
    requests("n1", "memory", "byte"): 2**30,
    requests("n1", "ephemeral-storage", "integer"): 2 * 2**30,
    requests("n1", "hugepages-2Mi", "integer"): 4 * 2**20,
    requests("n1", GPU, "integer"): 2,
    requests("n2", "cpu", "core"): 1,
    of_queue(families.QUEUE_QUOTA, "cpu", "core"): 10.5,
    of_queue(families.QUEUE_QUOTA, "memory", "byte"): 64 * 2**30,
    of_queue(families.QUEUE_QUOTA, GPU, "integer"): 4,
    of_queue(families.QUEUE_QUOTA, "amd.com/gpu", "integer"): 1,
    of_queue(families.QUEUE_QUOTA, "pods", "integer"): 20,
    of_queue(families.QUEUE_ALLOCATED, "cpu", "core"): 2.5,
    of_queue(families.QUEUE_ALLOCATED, "memory", "byte"): 2**30,
    of_queue(families.QUEUE_ALLOCATED, "ephemeral-storage", "integer"): 2 * 2**30,
    of_queue(families.QUEUE_ALLOCATED, "hugepages-2Mi", "integer"): 4 * 2**20,
    of_queue(families.QUEUE_ALLOCATED, GPU, "integer"): 2,
    of_queue(families.QUEUE_ALLOCATED, "amd.com/gpu", "integer"): 0,
    of_queue(families.QUEUE_ALLOCATED, "pods", "integer"): 1,
    ("t9ksched_nodes", (("state", "ready"),)): 2,
    ("t9ksched_nodes", (("state", "unschedulable"),)): 0,
    ("t9ksched_nodes", (("state", "not_ready"),)): 0,
    cards("held"): 2,
    cards("free"): 14,
    unusable(4): 2,
    unusable(8): 6,
    ("t9ksched_queue_share_ratio", (("queue", "q"),)): 0.5,
    **{("t9ksched_queue_gangs", (("queue", name),)): count for name, count in (("q", 2), ("default", 0))},
    **{of_phase(name, phase): 0 for name in ("q", "default") for phase in PHASES},
    of_phase("q", "Running"): 1,
    of_phase("q", "Pending"): 1,
    ("t9ksched_queue_waiting_gangs", (("queue", "q"), ("reason", "InvalidField"))): 1,
    ("t9ksched_gangs_partial", ()): 0,
    ("t9ksched_gangs_partial_oldest_seconds", ()): 0,
    ("t9ksched_journal_backlog_rows", ()): 9,
    ("t9ksched_bindings_in_flight", ()): 3,
    ("t9ksched_certificate_expiry_timestamp_seconds", (("certificate", "client"),)): 9,
    ("t9ksched_bindings_limit", ()): 64,
    **{
        ("t9ksched_kube_requests_total", (("code", code), ("method", method))): 0
        for method in ("GET", "PATCH", "POST")
        for code in ("429", "unanswered")
    },
    ("t9ksched_kube_requests_total", (("code", "201"), ("method", "POST"))): 5,
    ("t9ksched_kube_requests_total", (("code", "429"), ("method", "GET"))): 1,
    ("t9ksched_gangs_waiting", ()): 1,
    ("t9ksched_reservations", (("phase", "Active"),)): 0,
    ("t9ksched_reservations", (("phase", "Scheduled"),)): 0,
    ("t9ksched_reservations_ended_total", (("why", "Missed"),)): 0,
    ("t9ksched_reservations_ended_total", (("why", "Released"),)): 0,
    ("t9ksched_planned_starts", ()): 0,
    ("t9ksched_plans_moved_total", (("direction", "earlier"),)): 0,
    ("t9ksched_plans_moved_total", (("direction", "later"),)): 0,
    **dict.fromkeys((("t9ksched_forecast_waiting_jobs", (("basis", one),)) for one in BASES), 0),
    **dict.fromkeys((("t9ksched_forecast_jobs_total", (("basis", one),)) for one in BASES), 0),
    **{
        (f"t9ksched_forecast_{what}_total", (("basis", one),)): 0
        for what in ("started_by_latest", "started_in_interval", "error_seconds")
        for one in ("plan", "learned")
    },
    ("t9ksched_forecast_waiting_jobs", (("basis", "plan"),)): 2,
    ("t9ksched_forecast_jobs_total", (("basis", "plan"),)): 1,
    ("t9ksched_forecast_jobs_total", (("basis", "unknown"),)): 1,
    ("t9ksched_forecast_started_by_latest_total", (("basis", "plan"),)): 1,
    ("t9ksched_forecast_error_seconds_total", (("basis", "plan"),)): 2.5,
    ("t9ksched_stopped", (("what", "scheduling"),)): 0,
    ("t9ksched_stopped", (("what", "preemption"),)): 1,
    ("t9ksched_database_away", ()): 0,
    ("t9ksched_card_drift_pods", ()): 0,
    ("t9ksched_cards_misheld_pods", ()): 0,
    ("t9ksched_clock_jumps_total", ()): 0,
    ("t9ksched_configuration_refused", ()): 1,
    ("t9ksched_plugin_failures_total", (("plugin", ODD),)): 3,
    ("t9ksched_plugin_slow_answers_total", (("plugin", "slow"),)): 7,
    ("t9ksched_notifications_total", (("outcome", "sent"),)): 3,
    ("t9ksched_notifications_total", (("outcome", "failed"),)): 1,
    ("t9ksched_notifications_total", (("outcome", "dropped"),)): 0,
    ("t9ksched_notifications_waiting", ()): 2,
}


async def page(*, as_openmetrics: bool = False) -> str:
    sources = Sources(
        lambda: {("POST", "201"): 5, ("GET", "429"): 1}, lambda: 9, lambda: (3, 64), lambda: NOW, lambda: {"client": 9}
    )
    page = MetricsPage(known_world(), sources)
    return (await page.exposition(True, {ODD: 3}, {"slow": 7}, openmetrics=as_openmetrics)).decode()


def samples(text: str, parse: Callable[[str], Any]) -> Samples:
    found = [
        ((sample.name, tuple(sorted(sample.labels.items()))), sample.value)
        for family in parse(text)
        for sample in family.samples
    ]
    counted = {one.name.removesuffix("_total") for one in (*meters.FAMILIES, families.BUILD)}
    found = [one for one in found if not any(one[0][0].startswith(name) for name in counted)]
    twice = [key for key, count in Counter(key for key, _ in found).items() if count > 1]
    assert not twice, f"told more than once: {twice}"
    return dict(found)


@pytest.mark.parametrize("as_openmetrics", [False, True], ids=["text", "OpenMetrics"])
async def test_every_value_of_a_known_world(as_openmetrics: bool) -> None:
    text = await page(as_openmetrics=as_openmetrics)
    assert samples(text, openmetrics if as_openmetrics else prometheus) == KNOWN


@pytest.mark.parametrize("as_openmetrics", [False, True], ids=["text", "OpenMetrics"])
async def test_each_family_is_declared_once_before_its_samples(as_openmetrics: bool) -> None:
    text = await page(as_openmetrics=as_openmetrics)
    heads = [line.split()[1:3] for line in text.splitlines() if line.startswith("# ") and line != "# EOF"]
    names = [one.name.removesuffix("_total") if as_openmetrics else one.name for one in FAMILIES]
    assert heads == [[word, name] for name in names for word in ("HELP", "TYPE")]
    parsed = list((openmetrics if as_openmetrics else prometheus)(text))
    assert {family.type for family in parsed} == {"gauge", "counter", "histogram"}, "nothing is of unknown type"


def test_one_that_waits_to_lead_says_so_and_no_more() -> None:
    assert samples(standby().decode(), prometheus) == {("t9ksched_leading", ()): 0}
    assert samples(standby(openmetrics=True).decode(), openmetrics) == {("t9ksched_leading", ()): 0}


@pytest.mark.parametrize(
    ("of", "name", "mutant"),
    [
        (families, "in_base_units", lambda resource, amount: amount),
        (families, "unit_of", lambda resource: "integer"),
        (writing, "escaped", lambda text, quoted=False: text.replace("\n", "")),
        (node_page, "counts_volumes", lambda resource: True),
        (node_page, "PODS", "nothing"),
        (metrics, "_quotas", lambda state: iter(())),
    ],
    ids=["millicores", "units", "escapes", "left out", "pods", "quotas"],
)
async def test_a_wrong_page_is_noticed(monkeypatch: pytest.MonkeyPatch, of: Any, name: str, mutant: Any) -> None:
    monkeypatch.setattr(of, name, mutant)
    with pytest.raises((AssertionError, ValueError)):
        await test_every_value_of_a_known_world(False)


@pytest.mark.parametrize(
    ("resource", "amount", "written"),
    [("cpu", 1, "0.001"), ("cpu", 1500, "1.5"), ("cpu", 96000, 96), ("cpu", 0, 0), ("memory", 1500, 1500), (GPU, 8, 8)],
)
def test_base_units_lose_nothing(resource: str, amount: int, written: int | str) -> None:
    assert in_base_units(resource, amount) == written


@pytest.mark.parametrize(
    ("accept", "wants"),
    [
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3", True),
        ("text/plain", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_openmetrics_is_served_to_those_that_name_it(accept: str, wants: bool) -> None:
    assert negotiated(accept) is wants
