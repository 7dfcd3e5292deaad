"""What the controllers tell of themselves: every outcome of a look, from the first scrape on."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text

from t9ksched.controller.meters import FAILED, FAMILIES, OUTCOMES, ControllerMeters, standby


def test_a_page_has_every_family_and_each_outcome_before_it_happens() -> None:
    meters = ControllerMeters(("A", "B"))
    meters.looked("A", FAILED, 0.02)
    page = meters.page(3, 1, {"A": 7, "B": 0}, {("POST", "201"): 5}, openmetrics=False).decode()
    found = {family.name: family for family in text(page)}
    assert {family.name.removesuffix("_total") for family in FAMILIES} == set(found)
    counted = {
        (one.labels["kind"], one.labels["outcome"]): one.value
        for one in found["t9ksched_controller_reconciles"].samples
        if one.name.endswith("_total")
    }
    assert counted == {(kind, outcome): 0 for kind in "AB" for outcome in OUTCOMES} | {("A", FAILED): 1}
    values = {
        name: [one.value for one in found[f"t9ksched_controller_{name}"].samples]
        for name in ("leading", "queue_depth", "retrying_workloads", "workloads")
    }
    assert values == {"leading": [1], "queue_depth": [3], "retrying_workloads": [1], "workloads": [7, 0]}
    asked = [(one.labels["code"], one.value) for one in found["t9ksched_controller_kube_requests"].samples]
    assert ("201", 5) in asked
    assert {code for code, _ in asked} == {"201", "429", "unanswered"}, "failures before they happen"
    names = {family.name for family in openmetrics(meters.page(0, 0, {}, {}, openmetrics=True).decode())}
    assert names == {family.name.removesuffix("_total") for family in FAMILIES}


def test_one_that_waits_says_so() -> None:
    (family,) = openmetrics(standby(True).decode())
    assert (family.name, family.samples[0].value) == ("t9ksched_controller_leading", 0)
