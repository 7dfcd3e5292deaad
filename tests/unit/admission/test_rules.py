"""Each rule as a table: the queue, what is asked of it, the verdict."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.admission import Request, Verdict, judge, rules
from t9ksched.model.names import (
    AFTER_ANNOTATION,
    AFTER_CANCEL_ANNOTATION,
    SIGNAL_BEFORE_ANNOTATION,
    START_AFTER_ANNOTATION,
    TIME_LIMIT_ANNOTATION,
)
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.workloads.shape import Template

FULL = {"cpu": "1", "memory": "1Gi"}


def template(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> Template:
    """A pod template whose containers have these `resources`."""
    named = [{"name": f"c{i}", "resources": resources} for i, resources in enumerate(containers)]
    inits = [{"name": f"i{i}", "resources": resources} for i, resources in enumerate(init)]
    return Template("w", 1, 1, {}, {"containers": named, "initContainers": inits, **spec}, "spec.t.spec")


def ask(quota: dict[str, str] | None = None, needs: dict[str, int] | None = None, **fields: Any) -> Verdict:
    """The verdict on a gang that needs `needs` from the queue `q` with that quota."""
    spec = {key: fields.pop(key) for key in ("closed", "overQuota") if key in fields}
    queue = Queue("q", parse_queue_spec({"quota": {"requests": quota or {}}, **spec}))
    known = {"what": "MPIJob/walk", "queue_name": "q", "queue_path": "spec.queue", "queue": queue, "needs": needs or {}}
    return judge(Request(**known | fields))


@pytest.mark.parametrize(
    ("wrong", "names", "hint"),
    [
        ("a10", ["a100", "a40", "default"], "did you mean a100 or a40?"),
        ("vision", ["a100", "default"], "queues are a100, default"),
        ("x", [f"queue-{i:02}" for i in range(12)], "queue-09 …"),
        ("x", [], "no queue is open to you yet"),
    ],
)
def test_unknown_queue_names_the_nearest(wrong: str, names: list[str], hint: str) -> None:
    verdict = ask(queue=None, queue_name=wrong, queue_names=names)
    assert not verdict.allowed
    assert verdict.code == "QueueNotFound"
    assert hint in verdict.message
    assert [(fault.path, wrong in fault.message) for fault in verdict.errors] == [("spec.queue", True)]


def test_closed_queue() -> None:
    verdict = ask(closed=True)
    assert (verdict.code, verdict.errors[0].path) == ("QueueClosed", "spec.queue")
    assert "open" in verdict.remedy


@pytest.mark.parametrize("closed", [False, True])
def test_draining_queue(closed: bool) -> None:
    verdict = ask(queue=Queue("q", parse_queue_spec({"closed": closed}), draining=True))
    assert (verdict.code, verdict.errors[0].path) == ("QueueClosed", "spec.queue")
    assert ("is draining" in verdict.message, "is closed" in verdict.message) == (True, False)
    assert "is being emptied" in verdict.remedy


@pytest.mark.parametrize(
    ("quota", "needs", "over"),
    [
        ({}, {"cpu": 10**9}, []),
        ({"nvidia.com/gpu": "16"}, {"nvidia.com/gpu": 16}, []),
        ({"nvidia.com/gpu": "16"}, {"nvidia.com/gpu": 17}, ["quota.requests[nvidia.com/gpu]"]),
        ({"nvidia.com/gpu": "0"}, {"nvidia.com/gpu": 1}, ["quota.requests[nvidia.com/gpu]"]),
        ({"nvidia.com/gpu": "0"}, {"cpu": 5}, []),
        (
            {"cpu": "1500m", "memory": "1Gi"},
            {"cpu": 1501, "memory": 2**30 + 1},
            ["quota.requests.cpu", "quota.requests.memory"],
        ),
    ],
)
def test_larger_than_the_whole_quota(quota: dict[str, str], needs: dict[str, int], over: list[str]) -> None:
    verdict = ask(quota, needs)
    assert verdict.allowed is not bool(over)
    assert [fault.path for fault in verdict.errors] == over
    if over:
        assert (verdict.code, "MPIJob/walk" in verdict.message, bool(verdict.remedy)) == ("OverQuota", True, True)


def test_the_numbers_are_told() -> None:
    assert (
        "nvidia.com/gpu: needs 20, the whole quota is 16"
        in ask({"nvidia.com/gpu": "16"}, {"nvidia.com/gpu": 20}).message
    )


@pytest.mark.parametrize(
    ("policy", "allocated", "needs", "allowed"),
    [
        ("Wait", 38_000, 4_000, True),
        ("Reject", 38_000, 4_000, False),
        ("Reject", 38_000, 2_000, True),
        ("Reject", None, 4_000, True),
        ("Reject", 50_000, 1, False),
        ("Reject", 50_000, 0, True),
    ],
)
def test_what_is_left_now(policy: str, allocated: int | None, needs: int, allowed: bool) -> None:
    held = None if allocated is None else {"cpu": allocated}
    verdict = ask({"cpu": "40"}, {"cpu": needs}, overQuota=policy, allocated=held)
    assert verdict.allowed is allowed
    assert verdict.code == ("" if allowed else "OverQuota")


@pytest.mark.parametrize(
    ("quota", "pods", "missing"),
    [
        ({"nvidia.com/gpu": "8"}, template({}), []),
        ({"cpu": "8"}, template({"requests": FULL}), []),
        ({"cpu": "8"}, template({"limits": FULL}), []),
        ({"cpu": "8"}, template({"requests": {"memory": "1Gi"}}), ["spec.t.spec.containers[0].resources.requests.cpu"]),
        ({"cpu": "8"}, template({"requests": {"cpu": "1"}}), []),
        (
            {"cpu": "8", "memory": "8Gi"},
            template({"requests": FULL}, {}, init=({"requests": {"cpu": 1}},)),
            [
                "spec.t.spec.containers[1].resources.requests.cpu",
                "spec.t.spec.containers[1].resources.requests.memory",
                "spec.t.spec.initContainers[0].resources.requests.memory",
            ],
        ),
        ({"cpu": "8"}, template({"requests": None}), ["spec.t.spec.containers[0].resources.requests.cpu"]),
    ],
)
def test_requests_the_quota_names(quota: dict[str, str], pods: Template, missing: list[str]) -> None:
    verdict = ask(quota, templates=[pods])
    assert verdict.code == ("InvalidField" if missing else "")
    assert sorted(fault.path for fault in verdict.errors) == missing


@pytest.mark.parametrize(
    ("text", "allowed"), [("2h45m", True), ("0", True), ("90", False), ("soon", False), (5, False)]
)
def test_time_limit(text: Any, allowed: bool) -> None:
    verdict = ask(annotations={TIME_LIMIT_ANNOTATION: text})
    assert verdict.allowed is allowed
    if not allowed:
        assert verdict.errors[0].path == f"metadata.annotations[{TIME_LIMIT_ANNOTATION}]"


@pytest.mark.parametrize(("text", "allowed"), [("5m", True), ("0", True), ("", True), ("soon", False), ("1.5h", False)])
def test_how_long_before_its_limit_a_job_is_told_to_stop(text: str, allowed: bool) -> None:
    verdict = ask(annotations={SIGNAL_BEFORE_ANNOTATION: text})
    paths = [] if allowed else [f"metadata.annotations[{SIGNAL_BEFORE_ANNOTATION}]"]
    assert (verdict.allowed, [fault.path for fault in verdict.errors]) == (allowed, paths)


@pytest.mark.parametrize(
    ("limit", "signal", "allowed"),
    [
        ("1h", "5m", True),
        ("1h", "1h", False),
        ("1h", "61m", False),
        ("0", "61m", True),
        ("soon", "61m", True),
        (None, "61m", True),
    ],
)
def test_a_job_is_told_to_stop_after_it_has_begun(limit: str | None, signal: str, allowed: bool) -> None:
    said = {SIGNAL_BEFORE_ANNOTATION: signal} | ({} if limit is None else {TIME_LIMIT_ANNOTATION: limit})
    verdict = rules.signal_readable(Request("Job/j", "q", "queue", None, annotations=said))
    paths = [] if allowed else [f"metadata.annotations[{SIGNAL_BEFORE_ANNOTATION}]"]
    assert [fault.path for fault in verdict.errors] == paths


@pytest.mark.parametrize(
    ("text", "longest", "allowed"),
    [
        ("4h", "4h", True),
        ("4h", "", True),
        ("4h1s", "4h", False),
        ("0", "4h", False),
        ("", "4h", True),
        ("0", "", True),
    ],
)
def test_a_time_limit_is_not_longer_than_what_the_queue_allows(text: str, longest: str, allowed: bool) -> None:
    queue = Queue("q", parse_queue_spec({"maxDuration": longest}))
    for place in ("metadata", "spec.template.metadata"):
        inside = Template("", 1, 1, {"annotations": {TIME_LIMIT_ANNOTATION: text}}, {}, "spec.template.spec")
        outside = {TIME_LIMIT_ANNOTATION: text} if place == "metadata" else {}
        templates = () if outside else (inside,)
        verdict = judge(Request("Job/j", "q", "queue", queue, templates=templates, annotations=outside))
        assert verdict.allowed is allowed
        if not allowed:
            assert [fault.path for fault in verdict.errors] == [f"{place}.annotations[{TIME_LIMIT_ANNOTATION}]"]


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("2030-01-31T20:00:00Z", True),
        ("2030-01-31T20:00:00.5+08:00", True),
        ("1999-01-31T20:00:00-08:00", True),
        ("2030-01-31T20:00:00", False),
        ("2030-02-30T20:00:00Z", False),
        ("20:00", False),
        ("", False),
        (5, False),
    ],
)
def test_a_start_time_is_a_moment(text: object, allowed: bool) -> None:
    for place in ("metadata", "spec.template.metadata"):
        inside = Template("", 1, 1, {"annotations": {START_AFTER_ANNOTATION: text}}, {}, "spec.template.spec")
        outside = {START_AFTER_ANNOTATION: text} if place == "metadata" else {}
        verdict = judge(
            Request("Job/j", "q", "queue", None, templates=() if outside else (inside,), annotations=outside)
        )
        faults = [fault.path for fault in verdict.errors if START_AFTER_ANNOTATION in fault.path]
        assert faults == ([] if allowed else [f"{place}.annotations[{START_AFTER_ANNOTATION}]"])


@pytest.mark.parametrize(
    ("text", "inside", "cancel", "paths"),
    [
        ("Job/prep, mpijob/walk:any", None, None, []),
        ("Job/prep", "Job/prep", "true", []),
        ("prep", None, "false", ["metadata"]),
        ("Notebook/lab", "Notebook/lab", None, ["metadata", "spec.template.metadata"]),
        (None, "Job/prep", None, ["spec.template.metadata"]),
        ("Job/a", "Job/prep", None, ["spec.template.metadata"]),
        (5, None, None, ["metadata"]),
    ],
)
def test_what_a_job_waits_for_stands_on_the_job(text: object, inside: object, cancel: object, paths: list[str]) -> None:
    given = {AFTER_ANNOTATION: text, AFTER_CANCEL_ANNOTATION: cancel}
    annotations = {key: value for key, value in given.items() if value is not None}
    own = {} if inside is None else {"annotations": {AFTER_ANNOTATION: inside}}
    part = Template("", 1, 1, own, {}, "spec.template.spec")
    verdict = rules.dependencies_readable(Request("Job/j", "q", "queue", templates=(part,), annotations=annotations))
    assert [fault.path for fault in verdict.errors] == [f"{path}.annotations[{AFTER_ANNOTATION}]" for path in paths]


@pytest.mark.parametrize(("text", "allowed"), [("true", True), ("false", True), ("yes", False), ("", False)])
def test_whether_it_is_ended_is_said_by_true_or_false(text: str, allowed: bool) -> None:
    verdict = rules.dependencies_readable(Request("Job/j", "q", "queue", annotations={AFTER_CANCEL_ANNOTATION: text}))
    assert verdict.allowed is allowed


def test_resource_claims_are_refused() -> None:
    verdict = ask(templates=[template({"requests": FULL}, resourceClaims=[{"name": "gpu"}])])
    assert [fault.path for fault in verdict.errors] == ["spec.t.spec.resourceClaims"]


def test_device_classes_as_resources_are_refused() -> None:
    name = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
    verdict = ask(templates=[template({"limits": {**FULL, name: "1"}})])
    assert [fault.path for fault in verdict.errors] == [f"spec.t.spec.containers[0].resources.limits[{name}]"]


def test_faulty_fields_of_all_rules_are_told_together() -> None:
    verdict = ask(
        {"cpu": "1"}, {"cpu": 5000}, templates=[template({})], annotations={TIME_LIMIT_ANNOTATION: "x"}, closed=True
    )
    assert verdict.code == "InvalidField"
    assert len(verdict.errors) == 2
    assert "and 1 more" in verdict.message


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 20), max_size=3)


@given(quota=AMOUNTS, needs=AMOUNTS, held=AMOUNTS, policy=st.sampled_from(["Wait", "Reject"]))
def test_quota_is_a_ceiling_and_nothing_else(
    quota: dict[str, int], needs: dict[str, int], held: dict[str, int], policy: str
) -> None:
    """Allowed exactly when each named resource fits: the whole of it, and with Reject what is left of it."""
    in_units = {name: amount * 1000 if name == "cpu" else amount for name, amount in needs.items()}
    held_units = {name: amount * 1000 if name == "cpu" else amount for name, amount in held.items()}
    verdict = ask(
        {name: str(amount) for name, amount in quota.items()}, in_units, overQuota=policy, allocated=held_units
    )
    taken = held if policy == "Reject" else {}
    fits = all(not needs.get(name) or taken.get(name, 0) + needs[name] <= limit for name, limit in quota.items())
    assert verdict.allowed is fits
