"""Counters and histograms with a bound on their label values, and the bound of a family on a page."""

from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from t9ksched.serving.exposition import Family
from t9ksched.serving.meters import OTHER, Meter, cut_by

COUNTED = Family("a_total", "counter", "Things.", ("queue", "cause"), most=2)
TIMED = Family("b_seconds", "histogram", "Durations.", ("queue",), (1.0, 10.0), most=1)


def values(meter: Meter) -> dict[tuple[str, ...], float]:
    page = "\n".join([*meter.family.head(False), *meter.lines(), ""])
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_what_is_beyond_the_bound_is_counted_together_and_told() -> None:
    meter = Meter(COUNTED)
    for queue in ("x", "y", "z", "w", "x"):
        meter.add(queue, "why")
    assert values(meter) == {("a_total", "x", "why"): 2, ("a_total", "y", "why"): 1, ("a_total", OTHER, "why"): 2}
    assert cut_by([meter, Meter(TIMED)]) == {"a_total": 2}


def test_a_histogram_counts_into_its_buckets() -> None:
    meter = Meter(TIMED)
    for seconds, queue in ((0.5, "x"), (1.0, "x"), (20.0, "x"), (3.0, "y")):
        meter.observe(seconds, queue)
    found = values(meter)
    assert [found["b_seconds_bucket", "x", le] for le in ("1.0", "10.0", "+Inf")] == [2, 2, 3]
    assert (found["b_seconds_sum", "x"], found["b_seconds_count", OTHER]) == (21.5, 1)


def test_what_is_expected_is_there_before_it_is_counted() -> None:
    meter = Meter(COUNTED).expect([("x", "why"), ("y", "why"), ("z", "why"), ("x", "why")])
    assert values(meter) == {("a_total", "x", "why"): 0, ("a_total", "y", "why"): 0}
    assert meter.cut == 0, "nothing was counted"


def test_what_has_no_labels_is_there_before_it_is_counted() -> None:
    meter = Meter(Family("d_seconds", "histogram", "Durations.", (), (0.5,)))
    buckets = {("d_seconds_bucket", "0.5"): 0, ("d_seconds_bucket", "+Inf"): 0}
    assert values(meter) == buckets | {("d_seconds_count",): 0, ("d_seconds_sum",): 0}


def test_a_counter_takes_no_durations() -> None:
    with pytest.raises(AssertionError):
        Meter(COUNTED).observe(1.0, "x", "y")


def test_a_page_leaves_out_samples_beyond_the_bound_and_counts_them() -> None:
    family, cut = Family("c", "gauge", "Things.", ("of",), most=2), Counter[str]()
    assert list(family.page((((str(each),), each) for each in range(5)), cut)) == ['c{of="0"} 0', 'c{of="1"} 1']
    assert cut == {"c": 3}
