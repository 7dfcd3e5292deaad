"""A signal before the limit, against limits that do not stand beside it."""

from typing import Any

import pytest

from t9ksched.admission.signals import Annotated, vain_signals
from t9ksched.model.names import SIGNAL_BEFORE_ANNOTATION, TIME_LIMIT_ANNOTATION
from t9ksched.model.queue import Queue, parse_queue_spec

JOB, POD = "metadata.annotations", "spec.template.metadata.annotations"


def part(path: str, signal: str = "", limit: str = "", **spec: Any) -> Annotated:
    annotations = {SIGNAL_BEFORE_ANNOTATION: signal, TIME_LIMIT_ANNOTATION: limit}
    return Annotated(path, {key: text for key, text in annotations.items() if text}, spec)


@pytest.mark.parametrize(
    ("parts", "longest", "told"),
    [
        ([part(JOB, "5m")], "", ""),
        ([part(JOB, "5m")], "6m", ""),
        ([part(JOB, "5m")], "5m", "the maxDuration of 5m of the queue 'q'"),
        ([part(JOB, "5m", "1h")], "3m", "the maxDuration of 3m of the queue 'q'"),
        ([part(JOB, "5m"), part(POD, limit="4m")], "1h", f"the time limit of 4m in {POD}[{TIME_LIMIT_ANNOTATION}]"),
        ([part(JOB, limit="4m"), part(POD, "5m")], "", f"the time limit of 4m in {JOB}[{TIME_LIMIT_ANNOTATION}]"),
        ([part(JOB, "5m", activeDeadlineSeconds=300)], "", "the activeDeadlineSeconds of 300"),
        ([part(JOB, "5m", runPolicy={"activeDeadlineSeconds": 60})], "", "the activeDeadlineSeconds of 60"),
        ([part(JOB, "5m", activeDeadlineSeconds=301), part(POD, activeDeadlineSeconds="x")], "", ""),
        ([part(JOB, "5m", "4m")], "1h", ""),  # a fault, not a warning
        ([part(JOB, "soon", "4m")], "1m", ""),
        ([part(JOB, limit="4m")], "1m", ""),
    ],
)
def test_what_is_not_shorter_than_the_shortest_limit_is_warned_about(
    parts: list[Annotated], longest: str, told: str
) -> None:
    queue = Queue("q", parse_queue_spec({"maxDuration": longest} if longest else {}))
    found = list(vain_signals(parts, queue))
    assert len(found) == bool(told)
    if told:
        asks = next(one.path for one in parts if SIGNAL_BEFORE_ANNOTATION in one.annotations)
        assert found[0].path == f"{asks}[{SIGNAL_BEFORE_ANNOTATION}]"
        assert f"5m is not shorter than {told}: " in found[0].message
