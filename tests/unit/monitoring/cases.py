"""For each alert: series on which it fires and with which labels, and series on which it is silent, minute by minute.

Series are written as for `promtool test rules`: `a{b="c"}` to `1+2x60` (from 1, 60 times 2 more) or `5x60` (always 5).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

Series = dict[str, str]


class Case(NamedTuple):
    """`at` is the minute at which it fires on `fires`, with `labels`, and is silent on `silent`."""

    at: int
    fires: Series
    silent: Series
    labels: Mapping[str, str] = MappingProxyType({})


def slow(name: str, le_low: str, le_high: str, *, late: bool) -> Series:
    """Durations of which a tenth is between two bounds, or none is."""
    return {
        f'{name}_bucket{{le="{le_low}"}}': "0+9x120" if late else "0+10x120",
        f'{name}_bucket{{le="{le_high}"}}': "0+10x120",
        f'{name}_bucket{{le="+Inf"}}': "0+10x120",
    }


def ratio(part: str, other: str, *, much: bool) -> Series:
    """Of what grows by 100 a minute, the first has half, or a thousandth."""
    return {part: "0+50x420" if much else "0+0x420", other: "0+50x420" if much else "0+100x420"}


WAITS = 't9ksched_queue_waiting_gangs{queue="q",reason="InsufficientResources"}'
FREE = 't9ksched_cards{resource="nvidia.com/gpu",model="A100",state="free"}'
BOUND = 't9ksched_binds_total{outcome="bound"}'
PLANNED, KEPT = (f't9ksched_forecast_{one}_total{{basis="plan"}}' for one in ("jobs", "started_by_latest"))
LOOKS = 't9ksched_controller_reconciles_total{kind="Notebook"'
SHARE = 't9ksched_queue_share_ratio{queue="q"}'

CASES: dict[str, Case] = {
    "T9kschedNoLeader": Case(
        5,
        {'t9ksched_leading{pod="a"}': "0x20", 't9ksched_leading{pod="b"}': "0x20"},
        {'t9ksched_leading{pod="a"}': "1x20", 't9ksched_leading{pod="b"}': "0x20"},
    ),
    "T9kschedTwoLeaders": Case(
        5,
        {'t9ksched_leading{pod="a"}': "1x20", 't9ksched_leading{pod="b"}': "1x20"},
        {'t9ksched_leading{pod="a"}': "1x20", 't9ksched_leading{pod="b"}': "0x20"},
    ),
    "T9kschedCycleSlow": Case(
        40,
        slow("t9ksched_cycle_duration_seconds", "5.0", "10.0", late=True),
        slow("t9ksched_cycle_duration_seconds", "5.0", "10.0", late=False),
    ),
    "T9kschedDecisionsLate": Case(
        40,
        slow("t9ksched_event_to_decision_seconds", "5.0", "10.0", late=True),
        slow("t9ksched_event_to_decision_seconds", "5.0", "10.0", late=False),
    ),
    "T9kschedBindingSlow": Case(
        40,
        slow("t9ksched_decision_to_bound_seconds", "30.0", "60.0", late=True),
        slow("t9ksched_decision_to_bound_seconds", "30.0", "60.0", late=False),
    ),
    "T9kschedBindsRefused": Case(
        40,
        ratio('t9ksched_binds_total{outcome="refused"}', BOUND, much=True),
        ratio('t9ksched_binds_total{outcome="conflicted"}', BOUND, much=False),
    ),
    "T9kschedWaitingWhileCardsAreFree": Case(
        70, {WAITS: "1x90", FREE: "4x90", BOUND: "7x90"}, {WAITS: "1x90", FREE: "4x90", BOUND: "7+1x90"}
    ),
    "T9kschedGangPartial": Case(
        30,
        {"t9ksched_gangs_partial_oldest_seconds": "0+60x60"},
        {"t9ksched_gangs_partial_oldest_seconds": "900x60"},
    ),
    "T9kschedGangsTakenBack": Case(
        70,
        {'t9ksched_gangs_taken_back_total{reason="GangBindTimeout"}': "0+1x90"},
        {'t9ksched_gangs_taken_back_total{reason="GangBindTimeout"}': "9x90"},
        {"reason": "GangBindTimeout"},
    ),
    "T9kschedCardDrift": Case(20, {"t9ksched_card_drift_pods": "1x30"}, {"t9ksched_card_drift_pods": "0x30"}),
    "T9kschedCardsMisheld": Case(20, {"t9ksched_cards_misheld_pods": "2x30"}, {"t9ksched_cards_misheld_pods": "0x30"}),
    "T9kschedDatabaseAway": Case(5, {"t9ksched_database_away": "1x9"}, {"t9ksched_database_away": "0x9"}),
    "T9kschedDatabaseSlow": Case(
        40,
        slow("t9ksched_database_duration_seconds", "1.0", "2.5", late=True),
        slow("t9ksched_database_duration_seconds", "1.0", "2.5", late=False),
    ),
    "T9kschedJournalBehind": Case(
        30, {"t9ksched_journal_backlog_rows": "30000x60"}, {"t9ksched_journal_backlog_rows": "9000x60"}
    ),
    "T9kschedPlansBroken": Case(400, {PLANNED: "0+1x420", KEPT: "0+0x420"}, {PLANNED: "0+1x420", KEPT: "0+1x420"}),
    "T9kschedQueueFull": Case(250, {SHARE: "1x300", WAITS: "3x300"}, {SHARE: "1x300", WAITS: "0x300"}, {"queue": "q"}),
    "T9kschedConfigurationRefused": Case(
        20, {"t9ksched_configuration_refused": "1x30"}, {"t9ksched_configuration_refused": "0x30"}
    ),
    "T9kschedStopped": Case(
        130,
        {'t9ksched_stopped{what="scheduling"}': "1x150", 't9ksched_stopped{what="preemption"}': "0x150"},
        {'t9ksched_stopped{what="scheduling"}': "0x150", 't9ksched_stopped{what="preemption"}': "0x150"},
        {"what": "scheduling"},
    ),
    "T9kschedApiServerThrottles": Case(
        30,
        ratio(
            't9ksched_kube_requests_total{method="POST",code="429"}',
            't9ksched_kube_requests_total{method="POST",code="201"}',
            much=True,
        ),
        ratio(
            't9ksched_kube_requests_total{method="POST",code="429"}',
            't9ksched_kube_requests_total{method="POST",code="201"}',
            much=False,
        ),
    ),
    "T9kschedCertificateNearEnd": Case(
        70,
        {'t9ksched_certificate_expiry_timestamp_seconds{certificate="client"}': "1000000x90"},
        {'t9ksched_certificate_expiry_timestamp_seconds{certificate="client"}': "9000000x90"},
        {"certificate": "client"},
    ),
    "T9kschedEvictionsDeclined": Case(
        40,
        {'t9ksched_evictions_declined_total{answer="refused"}': "0+1x60"},
        {'t9ksched_evictions_declined_total{answer="later"}': "0+1x60"},
    ),
    "T9kschedNodesAway": Case(
        20,
        {'t9ksched_nodes{state="ready"}': "8x30", 't9ksched_nodes{state="not_ready"}': "2x30"},
        {'t9ksched_nodes{state="ready"}': "80x30", 't9ksched_nodes{state="not_ready"}': "2x30"},
    ),
    "T9kschedRestErrors": Case(
        30,
        ratio(
            't9ksched_api_requests_total{method="GET",route="/",code="503"}',
            't9ksched_api_requests_total{method="GET",route="/",code="200"}',
            much=True,
        ),
        ratio(
            't9ksched_api_requests_total{method="GET",route="/",code="500"}',
            't9ksched_api_requests_total{method="GET",route="/",code="404"}',
            much=False,
        ),
    ),
    "T9kschedNotificationsDropped": Case(
        20,
        {'t9ksched_notifications_total{outcome="dropped"}': "0+1x30"},
        {'t9ksched_notifications_total{outcome="failed"}': "0+1x30"},
    ),
    "T9kschedNoController": Case(
        5,
        {'t9ksched_controller_leading{pod="a"}': "0x20", 't9ksched_controller_leading{pod="b"}': "0x20"},
        {'t9ksched_controller_leading{pod="a"}': "1x20", 't9ksched_controller_leading{pod="b"}': "0x20"},
    ),
    "T9kschedTwoControllers": Case(
        5,
        {'t9ksched_controller_leading{pod="a"}': "1x20", 't9ksched_controller_leading{pod="b"}': "1x20"},
        {'t9ksched_controller_leading{pod="a"}': "1x20", 't9ksched_controller_leading{pod="b"}': "0x20"},
    ),
    "T9kschedControllerErrors": Case(
        40,
        {f'{LOOKS},outcome="refused"}}': "0+1x60", f'{LOOKS},outcome="done"}}': "0+99x60"},
        {f'{LOOKS},outcome="refused"}}': "50x60", f'{LOOKS},outcome="stale"}}': "0+99x60"},
        {"kind": "Notebook", "outcome": "refused"},
    ),
    "T9kschedControllersBehind": Case(
        40, {"t9ksched_controller_queue_depth": "400x60"}, {"t9ksched_controller_queue_depth": "30x60"}
    ),
}
