"""The table of edits and the rules of the definitions say the same of every field of every kind that runs."""

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from t9ksched.devcluster.apiserver import structural
from t9ksched.devcluster.apiserver.status import Cause
from t9ksched.kube.setup.crds import read
from t9ksched.packaged import folder
from t9ksched.workloads.changes import CHANGES, Change, When
from t9ksched.workloads.registry import ROWS
from tests.unit.workloads import builders

Object = dict[str, Any]
WORKLOADS: dict[str, Object] = {
    made["kind"]: made
    for made in (
        builders.generic(),
        builders.pytorch(),
        builders.tensorflow(chief=1),
        builders.xgboost(master=1),
        builders.deepspeed(),
        builders.colossal_v2(),
        builders.mpi_v2(),
        builders.beam(),
        builders.obj("AutoTuneExperiment", {"maxTrialNum": 2}, builders.PLATFORM),
        builders.notebook(),
        builders.tensorboard(),
        builders.explorer(),
        builders.virtual_server(),
        builders.simple_ml(),
        builders.ml_service(),
        builders.workflow_run(),
    )
}
PAUSE: Object = {"enabled": True}
SAMPLES: dict[tuple[str, str], tuple[Any, Any]] = {
    ("DeepSpeedJob", "config"): tuple({"run": {"python": [name]}} for name in ("a.py", "b.py")),
    ("Notebook", "ssh"): tuple({"enabled": on, "serviceType": "NodePort"} for on in (True, False)),
    ("MLService", "releases"): ([builders.release("one")], [builders.release("one", 2)]),
    ("SimpleMLService", "storage"): ({"pvc": {"name": "a"}}, {"s3": {"uri": "s3://a/b", "secretName": "s"}}),
    ("GenericJob", "successRules"): ([{"lead": [0]}], [{"helper": [0]}]),
    ("GenericJob", "failureRules"): ([{"lead": [0]}], [{"helper": [0]}]),
}
"""Values of fields for which a sample made of their schema alone would not pass."""
NEEDED = {
    "DeepSpeedJob": ("worker", "config"),
    "ColossalAIJob": ("replicaSpecs", "torchConfig"),
    "SimpleMLService": ("tensorflow", "pytorch", "custom"),
    "WorkflowRun": ("workflowTemplateRef",),
}
"""Fields without which the workload would be refused for that."""
INSTEAD = {("SimpleMLService", "pytorch"): "tensorflow", ("SimpleMLService", "custom"): "tensorflow"}
"""Fields beside which another may not be."""


@cache
def schemas() -> dict[str, Object]:
    versions = {each["spec"]["names"]["kind"]: each["spec"]["versions"][0] for each in read(folder("crds"))}
    return {kind: version["schema"]["openAPIV3Schema"] for kind, version in versions.items()}


def schema_of(kind: str, field: str) -> Object:
    found = schemas()[kind]["properties"]["spec"]
    for key in field.split("."):
        found = found["properties"][key]
    return found


def sample(schema: Object, number: int) -> Any:
    """A value that the schema allows, another for each number."""
    if "enum" in schema:
        return schema["enum"][number % len(schema["enum"])]
    if schema.get("properties"):
        return {key: sample(inner, number) for key, inner in schema["properties"].items()}
    if schema.get("additionalProperties"):
        return {"k": sample(schema["additionalProperties"], number)}
    kind = schema.get("type")
    if kind == "array":
        return [sample(schema["items"], number)]
    if kind == "object":
        return {"k": number}
    if kind == "boolean":
        return bool(number % 2)
    return number + int(schema.get("minimum", 0)) if kind == "integer" else f"x{number}"


def values(kind: str, field: str) -> tuple[Any, Any]:
    """Two values of a field."""
    if field in ("replicaSpecs", "worker", "template"):
        one = WORKLOADS[kind]["spec"].get(field) or {"template": builders.template()}
        other = copy.deepcopy(one)
        place = other[-1]["template"] if field == "replicaSpecs" else other.get("template", other)
        place["spec"]["hostNetwork"] = True
        return one, other
    if (kind, field) in SAMPLES:
        return SAMPLES[kind, field]
    return sample(schema_of(kind, field), 1), sample(schema_of(kind, field), 2)


def put(workload: Object, field: str, value: Any) -> Object:
    """The workload with that value of the field; None takes it away."""
    made = copy.deepcopy(workload)
    *way, last = field.split(".")
    here = made["spec"]
    for key in way:
        here = here.setdefault(key, {})
    if value is None:
        here.pop(last, None)
    else:
        here[last] = copy.deepcopy(value)
    return made


def edits(kind: str, field: str) -> Iterator[tuple[Object, Object]]:
    """The workload before and after: the field is changed, added and taken away, as far as it may be missing."""
    one, other = values(kind, field)
    base = WORKLOADS[kind]
    if (kind, field) in INSTEAD:
        base = put(base, INSTEAD[kind, field], None)
    yield put(base, field, one), put(base, field, other)
    required = schemas()[kind]["properties"]["spec"].get("required", ())
    if field not in (*required, *NEEDED.get(kind, ())):
        yield put(base, field, None), put(base, field, one)
        yield put(base, field, one), put(base, field, None)


def refused(old: Object, new: Object) -> list[Cause]:
    return structural.validate(new, schemas()[new["kind"]], old)


def rows(*whens: When) -> list[Any]:
    return [
        pytest.param(kind, row, id=f"{kind}-{row.field}")
        for kind, changes in CHANGES.items()
        for row in changes
        if row.when in whens
    ]


def test_every_kind_that_runs_has_a_row_for_every_field() -> None:
    assert CHANGES.keys() == {row.name for row in ROWS if row.controlled or row.steps}
    for kind, changes in CHANGES.items():
        named = {row.field for row in changes}

        def uncovered(schema: Object, at: str, named: set[str] = named) -> Iterator[str]:
            for key, inner in (schema.get("properties") or {}).items():
                field = f"{at}{key}"
                if field in named:
                    continue
                deeper = any(row.startswith(f"{field}.") for row in named)
                yield from uncovered(inner, f"{field}.") if deeper else [field]

        assert list(uncovered(schemas()[kind]["properties"]["spec"], "")) == []
        for row in changes:
            schema_of(kind, row.field)


@pytest.mark.parametrize(("kind", "row"), rows(When.ANY_TIME))
def test_taken_at_any_time(kind: str, row: Change) -> None:
    for old, new in edits(kind, row.field):
        assert refused(old, new) == []


@pytest.mark.parametrize(("kind", "row"), rows(When.PAUSED))
def test_taken_only_while_paused(kind: str, row: Change) -> None:
    for old, new in edits(kind, row.field):
        (fault,) = refused(old, new)
        assert (fault.field, fault.reason) == (f"spec.{row.field}", "FieldValueForbidden")
        assert "only while the job is paused" in fault.message
        paused_old, paused_new = (put(each, "runMode.pause", PAUSE) for each in (old, new))
        for before, after in ((paused_old, paused_new), (old, paused_new), (paused_old, new)):
            assert refused(before, after) == []


@pytest.mark.parametrize(("kind", "row"), rows(When.NEVER))
def test_never_taken(kind: str, row: Change) -> None:
    if row.field == "scheduler.t9kScheduler":  # whether it is there: what stands in it has rows of its own
        base = WORKLOADS[kind]
        pairs = [(base, put(base, "scheduler", None)), (put(base, "scheduler", None), base)]
    else:
        pairs = list(edits(kind, row.field))
    for old, new in pairs:
        for before, after in ((old, new), (put(old, "runMode.pause.enabled", True), new)):
            (fault,) = refused(before, after)
            assert (fault.field, fault.reason) == (f"spec.{row.field}", "FieldValueForbidden")
            assert "delete" in fault.message


@pytest.mark.parametrize(("kind", "row"), rows(When.UNTIL_MADE))
def test_settled_with_the_podgroup(kind: str, row: Change) -> None:
    last = row.field.rpartition(".")[2]
    one, other = values(kind, row.field)
    made = {"status": {"scheduling": {last: one}}}
    base = WORKLOADS[kind]
    for before, after in ((one, other), (None, other), (one, None)):
        old, new = put(base, row.field, before), put(base, row.field, after)
        assert refused(old, new) == []
        (fault,) = refused(old | made, new | made)
        assert (fault.field, fault.reason) == (f"spec.{row.field}", "FieldValueForbidden")
        assert "t9ksched update" in fault.message
    back = put(base, row.field, other) | made, put(base, row.field, one) | made
    assert refused(*back) == [], "what was settled may be written again"


@pytest.mark.parametrize(("kind", "row"), rows(When.WITHIN_BOUNDS))
def test_taken_within_bounds(kind: str, row: Change) -> None:
    base = put(WORKLOADS[kind], "elastic", {"enabled": True, "minReplicas": 2, "maxReplicas": 4, "expectedReplicas": 3})
    for number, taken in ((1, False), (2, True), (4, True), (5, False)):
        found = refused(base, put(base, row.field, number))
        assert [fault.field for fault in found] == ([] if taken else [f"spec.{row.field}"])


def test_short_names_are_those_of_the_command_line() -> None:
    """`kubectl get` knows every name that `t9ksched` does."""
    names = {
        each["spec"]["names"]["kind"]: each["spec"]["names"].get("shortNames", []) for each in read(folder("crds"))
    }
    known = {row.name: list(row.short) for row in ROWS if row.name in names}
    assert {kind: found for kind, found in names.items() if kind in known} == known
