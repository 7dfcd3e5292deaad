"""Queues, durations and pod groups as users write them."""

from datetime import timedelta

import pytest

from t9ksched.model.duration import parse_duration
from t9ksched.model.errors import Invalid
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.model.quantity import CARD
from t9ksched.model.queue import parse_queue_spec, validate_queue_name


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("", None),
        ("0", None),
        ("0s", None),
        ("3w", timedelta(weeks=3)),
        ("2h45m", timedelta(hours=2, minutes=45)),
        ("1h20m15s", timedelta(hours=1, minutes=20, seconds=15)),
        ("1y1w1d1h1m1s1ms", timedelta(days=373, hours=1, minutes=1, seconds=1, milliseconds=1)),
        ("30s", timedelta(seconds=30)),
        ("100y", timedelta(days=36500)),
        ("101y", timedelta(days=36500)),
        ("9" * 30 + "y", timedelta(days=36500)),
    ],
)
def test_durations(text: str, length: timedelta | None) -> None:
    assert parse_duration(text) == length


@pytest.mark.parametrize("text", ["1.5h", "45m2h", "90", "-1h", "1h1h", "1h\n", " 1h", "h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|longer"):
        parse_duration(text)


def test_an_empty_spec_has_the_documented_defaults() -> None:
    spec = parse_queue_spec({})
    assert (spec.priority, spec.preemptible, spec.closed, spec.over_quota) == (0, True, False, "Wait")
    assert spec.quota == {}
    assert spec.node_selector is None
    assert spec.to_dict() == {}


def test_what_was_written_comes_back_with_canonical_quantities() -> None:
    raw = {"priority": 20, "quota": {"requests": {"cpu": 128, "memory": "1024Gi", "nvidia.com/gpu": "16"}}}
    spec = parse_queue_spec(raw)
    assert spec.quota == {"cpu": 128_000, "memory": 2**40, "nvidia.com/gpu": 16}
    assert spec.to_dict() == {
        "priority": 20,
        "quota": {"requests": {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "16"}},
    }
    assert parse_queue_spec(spec.to_dict()) == spec


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"priority": 101}, "spec.priority"),
        ({"priority": -1}, "spec.priority"),
        ({"priority": "5"}, "spec.priority"),
        ({"priority": True}, "spec.priority"),
        ({"preemptible": "yes"}, "spec.preemptible"),
        ({"closed": 1}, "spec.closed"),
        ({"maxDuration": "1.5h"}, "spec.maxDuration"),
        ({"maxDuration": 5}, "spec.maxDuration"),
        ({"quota": {"requests": {"cpu": "-1"}}}, "spec.quota.requests.cpu"),
        ({"quota": {"requests": {"nvidia.com/gpu": "many"}}}, "spec.quota.requests[nvidia.com/gpu]"),
        ({"quota": {"requests": {"a b": "1"}}}, "spec.quota.requests.a b"),
        ({"quota": {"limits": {}}}, "spec.quota.limits"),
        ({"quota": ["cpu"]}, "spec.quota"),
        ({"requests": {}}, "spec.requests"),
        ({"ordering": "Fifo"}, "spec.ordering"),
        ({"overQuota": "wait"}, "spec.overQuota"),
        ({"nodeSelector": {"matchExpressions": [{"key": "a"}]}}, "spec.nodeSelector.matchExpressions[0].operator"),
        ({"namespaceSelector": "all"}, "spec.namespaceSelector"),
        ([], "spec"),
    ],
)
def test_faults_have_paths(raw: object, path: str) -> None:
    with pytest.raises(Invalid) as failure:
        parse_queue_spec(raw)
    assert [fault.path for fault in failure.value.errors] == [path]


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(Invalid) as failure:
        parse_queue_spec({"priority": 200, "closed": "no", "maxDuration": "soon"})
    assert len(failure.value.errors) == 3


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a" * 64, None, 5, "a.b"])
def test_queue_names(name: object) -> None:
    with pytest.raises(Invalid):
        validate_queue_name(name)
    assert validate_queue_name("a100") == "a100"


@pytest.mark.parametrize(
    ("raw", "minimum", "queue"),
    [
        ({}, 1, "default"),
        ({"minMember": 3}, 3, "default"),
        ({"roles": [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 3}]}, 5, "default"),
        ({"minMember": 2, "queue": "", "roles": [{"name": "a", "minMember": 1}]}, 2, "default"),
        ({"queue": "q"}, 1, "q"),
    ],
)
def test_pod_groups(raw: object, minimum: int, queue: str) -> None:
    spec = PodGroupSpec.parse(raw)
    assert (spec.min_member, spec.queue) == (minimum, queue)


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"minMember": 0}, "spec.minMember"),
        ({"priority": 101}, "spec.priority"),
        ({"roles": {"a": 1}}, "spec.roles"),
        ({"roles": [{"minMember": 1}]}, "spec.roles[0]"),
        ({"roles": [{"name": "a"}, {"name": "a"}]}, "spec.roles[1].name"),
        ({"topologyPolicy": "Rack"}, "spec.topologyPolicy"),
        ({"queue": 5}, "spec.queue"),
    ],
)
def test_pod_group_faults(raw: object, path: str) -> None:
    with pytest.raises(Invalid) as failure:
        PodGroupSpec.parse(raw)
    assert [fault.path for fault in failure.value.errors] == [path]


def test_a_quota_of_cards_is_a_decimal() -> None:
    written = parse_queue_spec({"quota": {"requests": {"cards": 3.5}}})
    assert written.quota == {"cards": 7 * CARD // 2}
    assert written.to_dict() == {"quota": {"requests": {"cards": "3.5"}}}
    with pytest.raises(Invalid) as caught:
        parse_queue_spec({"quota": {"requests": {"cards": "0.1428"}}})
    assert [(one.path, one.message) for one in caught.value.errors] == [
        ("spec.quota.requests.cards", "'0.1428' has more than three decimal places")
    ]
