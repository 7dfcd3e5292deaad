"""The definitions are those that their sources make, explain every field, and name every field that is read."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from t9ksched.admission.podfields import POD_SPEC
from t9ksched.kube.setup.crds import read
from t9ksched.packaged import folder
from t9ksched.workloads.fields import Field
from t9ksched.workloads.read import validate
from t9ksched.workloads.registry import CONTROLLED
from tests.sources import script
from tests.unit.workloads.test_changes import WORKLOADS
from tests.unit.workloads.test_published import TAKEN

Schema = Mapping[str, Any]
SOURCE: Final = Path(__file__).parents[4] / "deploy/schemas"
OPEN: Final = "x-kubernetes-preserve-unknown-fields"
KEPT: Final = {
    "BeamJob": {
        "spec.flinkClusterTemplate",
        "spec.flinkClusterTemplate.spec",
        "spec.flinkClusterTemplate.spec.image",
        "spec.flinkClusterTemplate.spec.jobManager",
        "spec.flinkClusterTemplate.spec.taskManager",
        "spec.jobTemplate",
        "spec.jobTemplate.spec",
    },
    "MLService": {"spec.runMode"},
    "Notebook": {"spec.runMode"},
    "SimpleMLService": {"spec.custom"},
    "VirtualServer": {"spec.storage.additionalDisks[]", "spec.storage.filesystems[]"},
}
"""Where kinds of our controllers keep unknown fields beside known ones: of Flink, Jobs, volumes and older objects."""
SHARED: Final = {"spec.runPolicy.cleanUpPolicy"}
"""Read by what several kinds share, and without effect in those that do not have it."""


@cache
def schemas() -> dict[str, Schema]:
    found = {each["spec"]["names"]["kind"]: each["spec"]["versions"] for each in read(folder("crds"))}
    return {kind: version["schema"]["openAPIV3Schema"] for kind, (version,) in found.items()}


def places(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every place of a schema below its root."""
    for name, inner in (schema.get("properties") or {}).items():
        where = f"{path}.{name}".removeprefix(".")
        yield where, inner
        yield from places(inner, where)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), Mapping):
            yield path + mark, schema[key]
            yield from places(schema[key], path + mark)


def test_they_are_current() -> None:
    written = {path.name: path.read_text() for path in folder("crds").glob("*.yaml")}
    assert written == script("deploy/schemas/definitions.py").definitions(), "run `make reference`"


def test_a_part_that_there_is_not_is_told() -> None:
    definitions = script("deploy/schemas/definitions.py")
    with pytest.raises(definitions.UnknownPart, match="no part 'wrong': these are a, b"):
        definitions.filled({"x": [{"$part": "wrong"}]}, {"a": {}, "b": {}})
    parts = {"a": {"$part": "b", "type": "object"}, "b": {"properties": {"x": 1, "y": 2}, "type": "b"}}
    assert definitions.filled({"$part": "a", "properties": {"y": 3, "z": 4}}, parts) == {
        "properties": {"x": 1, "y": 3, "z": 4},
        "type": "object",
    }


def test_every_part_is_used() -> None:
    texts = "".join(path.read_text() for path in SOURCE.rglob("*.yaml"))
    parts = yaml.safe_load((SOURCE / "parts.yaml").read_text())
    assert [name for name in parts if not re.search(rf"\$part: {name}\b", texts)] == []


@pytest.mark.parametrize("kind", schemas())
def test_every_field_is_explained(kind: str) -> None:
    """`kubectl explain` has a sentence for each."""
    for path, schema in places(schemas()[kind]):
        if path == "metadata":
            assert schema == {"type": "object"}, "the API server refuses more"
            continue
        text = schema.get("description", "")
        assert text.endswith((".", ")")), f"{kind} {path}: {text!r}"
        assert len(text.split()) > 1, f"{kind} {path} says nothing: {text!r}"
        name = re.split(r"\W+", path)[-1]
        assert text.lower().strip(".") not in (name.lower(), f"the {name.lower()}"), f"{kind} {path}: {text!r}"


@pytest.mark.parametrize("kind", [row.name for row in CONTROLLED])
def test_fields_that_are_not_known_are_dropped(kind: str) -> None:
    """Except for pod templates and the like, which have no properties here."""
    found = {path for path, schema in places(schemas()[kind]) if schema.get(OPEN) and schema.get("properties")}
    assert {path for path in found if path.startswith("spec")} == KEPT.get(kind, set())


@pytest.mark.parametrize("kind", [row.name for row in CONTROLLED if row.name != "AutoTuneExperiment"])
def test_fields_that_are_read_are_known(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server drops what a definition does not name: a reader would look for it in vain."""
    looked: set[str] = set()
    get = Field.__getitem__

    def noted(field: Field, key: str) -> Field:
        found = get(field, key)
        looked.add(re.sub(r"\[\d+\]", "[]", found.path))
        return found

    monkeypatch.setattr(Field, "__getitem__", noted)
    for workload in (WORKLOADS[kind], *(each for each, _ in TAKEN.values() if each["kind"] == kind)):
        validate(workload)
    known, generated = schemas()[kind], {f"spec.{name}" for name in POD_SPEC["properties"]}
    unknown = {path for path in looked if path.startswith("spec.") and not has(known, path)} - SHARED
    assert {path for path in unknown if ".".join(path.split(".")[:2]).split("[")[0] not in generated} == set()


def has(schema: Schema, path: str) -> bool:
    """Whether a schema lets a field be; all that it leaves free may be."""
    for part in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        if part == "[]":
            schema = schema.get("items") or {}
        elif isinstance(schema.get("additionalProperties"), Mapping):
            schema = schema["additionalProperties"]
        elif "properties" not in schema:
            return True
        elif part.strip("[]") not in schema["properties"]:
            return bool(schema.get(OPEN))
        else:
            schema = schema["properties"][part.strip("[]")]
    return True
