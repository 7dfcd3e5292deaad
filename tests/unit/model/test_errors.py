"""Messages about values are in the words of JSON and YAML, whatever the value is."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from t9ksched.admission.access import parse_members
from t9ksched.model.errors import Invalid, faulty, shown
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.model.queue import parse_queue_spec
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.workloads.read import read
from tests.unit.workloads.builders import notebook, pytorch

PYTHON = re.compile(r"\b(None|True|False|NoneType|dict)\b|[\[{]('|[\]}])")
ODD: list[Any] = [True, False, [], ["x"], {}, {"a": None}, 1.5, -1, "?", None]
QUEUE = (
    "quota priority preemptible closed nodeSelector namespaceSelector ordering overQuota maxDuration maxDurationFrom"
)
RESERVATION = "name from to every until timeZone nodes cards for onConflict force drainAhead releaseUnusedAfter note"
WHOLE = {
    "name": "r",
    "from": "2030-01-01T00:00:00Z",
    "to": "2030-01-02T00:00:00Z",
    "nodes": {"names": ["a"]},
    "for": "maintenance",
}


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), (False, "false"), ("x", "'x'"), (5, "5"), ([1], "a list"), ({}, "a mapping")],
)
def test_values_in_messages(value: Any, text: str) -> None:
    assert shown(value) == text


def test_what_is_missing_is_not_shown() -> None:
    assert (faulty(None, "is odd"), faulty(True, "is odd")) == ("is missing", "true is odd")


def told(parse: Callable[[Any], object], raw: Any) -> list[str]:
    try:
        parse(raw)
    except Invalid as error:
        return [one.message for one in error.errors]
    return []


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_no_python_words_in_messages(value: Any) -> None:
    found: list[str] = []
    for key in (*QUEUE.split(), "starvation", "startWindows"):
        found += told(parse_queue_spec, {key: value})
    for inner in ("days", "from", "to", "timeZone"):
        window = {"days": ["Mon"], "from": "20:00", "to": "06:00"} | {inner: value}
        found += told(parse_queue_spec, {"startWindows": [window]})
        found += told(parse_queue_spec, {"startWindows": [window | {"days": [value]}]})
    for key in ("after", "maxHeldShare"):
        found += told(parse_queue_spec, {"starvation": {key: value}})
    for key in ("minMember", "priority", "queue", "topologyPolicy", "roles"):
        found += told(PodGroupSpec.parse, {key: value})
    for key in ("everyone", "users", "groups", "maxPriority", "maxPriorities"):
        found += told(parse_members, {key: value})
    for key in RESERVATION.split():
        found += told(parse_reservation, WHOLE | {key: value})
    found += told(parse_reservation, WHOLE | {"cards": {"resource": value, "count": value}})
    for make in (pytorch, notebook):
        for key in ("kind", "apiVersion", "metadata", "spec"):
            found += told(read, make() | {key: value})
        for key in make()["spec"]:
            found += told(read, make() | {"spec": make()["spec"] | {key: value}})
    assert value is None or found
    assert [text for text in found if PYTHON.search(text.split(": use ")[0])] == []
