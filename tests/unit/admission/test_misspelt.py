"""Unknown fields are told, with the nearest known one or where they belong; so are labels and annotations of ours."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched.admission import misspelt
from t9ksched.admission.misspelt import also_read, misspelt_fields, misspelt_metadata
from t9ksched.admission.podfields import NATIVE
from t9ksched.kube.setup.schemas import schema_of
from t9ksched.model import names
from t9ksched.model.errors import Invalid
from t9ksched.workloads.read import read
from t9ksched.workloads.registry import KINDS
from tests.unit.workloads import builders
from tests.unit.workloads.test_changes import WORKLOADS

OPEN = {"x-kubernetes-preserve-unknown-fields": True}
SCHEMA = {
    "properties": {
        "metadata": {"type": "object"},
        "spec": {
            "properties": {
                "replicas": {"type": "integer"},
                "closed": {"properties": {"queue": {"type": "string"}}},
                "items": {"items": {"properties": {"type": {}}} | OPEN},
                "byName": {"additionalProperties": {"properties": {"size": {}}}},
                "free": OPEN,
                "texts": {"additionalProperties": {"type": "string"}},
            }
        }
        | OPEN,
    }
}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"replicas": 1, "closed": {"queue": "q"}, "items": [{"type": "a"}], "free": {"x": {"y": 1}}}, []),
        ({"replica": 1}, [("spec.replica", "replicas")]),
        ({"somethingElse": 1}, [("spec.somethingElse", None)]),
        ({"free": {"x": 1}, "items": [{"own": 1}]}, [("spec.items[0].own", None)]),
        ({"closed": {"somethingElse": 1}}, [("spec.closed.somethingElse", None)]),
        ({"closed": {"queu": 1}}, [("spec.closed.queu", "queue")]),
        ({"items": [{"type": "a"}, {"typ": "b"}]}, [("spec.items[1].typ", "type")]),
        ({"byName": {"a.b": {"sizes": 1}}}, [("spec.byName[a.b].sizes", "size")]),
        ({"texts": {"any": "text"}}, []),
        ({"closed": "of a wrong type", "items": None}, []),
        (None, []),
    ],
)
def test_fields(spec: Any, told: list[tuple[str, str | None]]) -> None:
    found = list(misspelt_fields({"metadata": {"any": 1}, "spec": spec}, SCHEMA))
    assert [(one.path, one.nearest) for one in found] == told
    assert list(misspelt_fields({"spec": spec}, {})) == [], "without a schema nothing is known"


def test_a_field_in_the_wrong_place_is_told_where_it_belongs() -> None:
    (one,) = misspelt_fields({"spec": {"queue": "q"}}, SCHEMA)
    assert (one.path, one.nearest) == ("spec.queue", None)
    assert one.message.endswith(": it belongs at spec.closed.queue")
    (deeper,) = misspelt_fields({"spec": {"closed": {"type": "a"}}}, SCHEMA)
    assert deeper.message.endswith(": it belongs at spec.items[].type")
    (sized,) = misspelt_fields({"spec": {"closed": {"size": 1}}}, SCHEMA)
    assert sized.message.endswith(": it belongs at spec.byName.*.size")


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"template": builders.template()},
}
NAMES_OF_USERS = ("limits", "requests", "flinkProperties", "mca", "successRules", "failureRules", "labels", "source")
"""Fields that have whatever names their users choose."""


def levels(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where mappings with fields of Kubernetes or of a kind stand."""
    if isinstance(value, dict):
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        if key not in (*NAMES_OF_USERS, "metadata", "persistentVolumeClaim"):
            yield from levels(each, (*path, key))


@pytest.mark.parametrize("workload", [*WORKLOADS.values(), JOB], ids=lambda workload: workload["kind"])
def test_a_field_that_nothing_knows_is_told_wherever_it_stands(workload: dict[str, Any]) -> None:
    row = KINDS[workload["kind"]]
    schema, templates = schema_of(row.resource) or NATIVE[row.name], ()
    for path in levels(workload):
        wrong = json.loads(json.dumps(workload))
        here: Any = wrong
        for key in path:
            here = here[key]
        here["zzzzz"] = 1
        with suppress(Invalid):  # a rule of ends is refused for it
            templates = read(wrong).templates
        (one,) = misspelt.misspelt(wrong, schema, templates)
        assert (one.path.endswith("zzzzz"), one.nearest) == (True, None)


def test_what_an_object_has_in_its_status_is_not_judged() -> None:
    schema = SCHEMA | {"properties": SCHEMA["properties"] | {"status": {"properties": {"phase": {}}}}}
    assert list(misspelt.misspelt({"status": {"other": 1}, "spec": {}}, schema, ())) == []


def test_many_unknown_fields_are_all_told_and_few_are_compared() -> None:
    found = list(misspelt_fields({"spec": {f"replica{number}": 1 for number in range(300)}}, SCHEMA))
    assert len(found) == 300
    assert [one.nearest for one in found] == ["replicas"] * 100 + [None] * 200


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        (None, []),
        ({"name": "a", "labels": {"app": "x", "scheduler.tensorstack.dev/queue": "q"}, "annotations": None}, []),
        ({"annotations": {"scheduler.tensorstack.dev/gpu-index-container-main": "0"}}, []),
        ({"annotations": {"example.com/time-limt": "x"}}, []),
        ({"label": {}}, [("m.label", "labels")]),
        (
            {"labels": {"scheduler.tensorstack.dev/time-limit": "1h"}},
            [("m.labels[scheduler.tensorstack.dev/time-limit]", None)],
        ),
        (
            {"labels": {"scheduler.tensorstack.dev/queu": "q"}},
            [("m.labels[scheduler.tensorstack.dev/queu]", "scheduler.tensorstack.dev/queue")],
        ),
    ],
)
def test_metadata(metadata: Any, told: list[tuple[str, str | None]]) -> None:
    assert [(one.path, one.nearest) for one in misspelt_metadata(metadata, "m")] == told


def test_annotations_of_users_are_known_and_internal_ones_are_no_hint() -> None:
    every = {name: key for name, key in vars(names).items() if name.endswith("_ANNOTATION")}
    of_nodes = {
        names.CARD_MODE_ANNOTATION,
        names.CORDONED_CARDS_ANNOTATION,
        names.GPU_LINKS_ANNOTATION,
        names.RECORDED_CORDONS_ANNOTATION,
    }
    internal = {names.SUBMITTED_BY_ANNOTATION, names.SUBMISSION_ANNOTATION}
    assert len(every) > len(of_nodes | internal)
    for key in every.values():
        found = list(misspelt_metadata({"annotations": {key: "x"}}, "m"))
        assert [one.path for one in found] == ([f"m.annotations[{key}]"] if key in of_nodes else [])
        (typo,) = misspelt_metadata({"annotations": {f"{key}x": "x"}}, "m")
        if key in of_nodes | internal:
            assert typo.nearest not in of_nodes | internal
        else:
            assert typo.nearest == key


def test_annotations_that_the_cluster_of_this_process_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misspelt, "_others", set())
    metadata = {
        "annotations": {
            "cluster.example/run-seconds": "1",
            "cluster.example/run-second": "1",
            "cluster.example/cards-main": "0",
        }
    }
    assert list(misspelt_metadata(metadata, "m")) == []
    also_read("cluster.example/run-seconds", "cluster.example/cards-")
    (one,) = misspelt_metadata(metadata, "m")
    assert (one.path, one.nearest) == ("m.annotations[cluster.example/run-second]", "cluster.example/run-seconds")


def test_what_is_in_the_wrong_place_is_told_where_it_belongs() -> None:
    (one,) = misspelt_metadata({"labels": {"scheduler.tensorstack.dev/time-limit": "1h"}}, "metadata")
    assert one.message.endswith("is ignored as a label: it must be an annotation")


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda path: path.name)
def test_examples_are_spelt_right(path: Path) -> None:
    for obj in yaml.safe_load_all(path.read_text()):
        if not isinstance(obj, dict) or "kind" not in obj:
            continue
        row = KINDS.get(obj["kind"])
        schema = {} if row is None else schema_of(row.resource) or NATIVE[row.name]
        templates = () if row is None else read(obj).templates
        found = [*misspelt.misspelt(obj, schema, templates), *misspelt_metadata(obj["metadata"], "metadata")]
        assert found == []
