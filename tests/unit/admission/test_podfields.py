"""The table of the fields of a pod's spec is that of the official client; misspelt ones are told at every depth.

`python -m tests.unit.admission.test_podfields` prints the table anew, for `t9ksched/admission/podfields.txt`.
"""

import re
import sys
from typing import Any

import pytest
from kubernetes.client import models

from t9ksched.admission import podfields
from t9ksched.admission.misspelt import misspelt_fields
from t9ksched.admission.podfields import NATIVE, POD_SPEC

# Text in the client, a quantity in the API: there a number does as well.
QUANTITIES = (
    "V1EmptyDirVolumeSource.sizeLimit",
    "V1PodSpec.overhead",
    "V1ResourceFieldSelector.divisor",
    "V1ResourceRequirements.limits",
    "V1ResourceRequirements.requests",
    "V1VolumeResourceRequirements.limits",
    "V1VolumeResourceRequirements.requests",
)
# Judged as pods, and claims of which no pod is waited for.
ELSEWHERE = (
    "V1DeploymentSpec.template",
    "V1JobSpec.template",
    "V1StatefulSetSpec.template",
    "V1StatefulSetSpec.volumeClaimTemplates",
)
# What the client does not have any more: the group of a pod in Kubernetes 1.35.
EARLIER = {"V1PodSpec": ["workloadRef:any"]}
PLAIN = {"str": "", "int": ":int", "bool": ":bool", "object": ":any", "datetime": ":any"}


def table() -> str:
    """Each type with its fields: `name:type`, `name[]:type` for a list, `name{}:type` for a map; text has no type."""
    lines: dict[str, str] = {}

    def add(kind: str) -> None:
        if kind in lines:
            return
        lines[kind] = ""
        model, fields = getattr(models, kind), []
        for attribute, what in sorted(model.openapi_types.items(), key=lambda item: model.attribute_map[item[0]]):
            name, many = model.attribute_map[attribute], re.fullmatch(r"(List|Dict)\[(?:str, )?(.*)]", what)
            below = many[2] if many else what
            mark = {"List": "[]", "Dict": "{}"}[many[1]] if many else ""
            if f"{kind}.{name}" in ELSEWHERE:
                fields.append(f"{name}:any")
            elif hasattr(models, below):
                fields.append(f"{name}{mark}:{_short(below)}")
                add(below)
            else:
                fields.append(f"{name}{mark}{':any' if f'{kind}.{name}' in QUANTITIES else PLAIN[below]}")
        lines[kind] = f"{_short(kind)} {' '.join([*fields, *EARLIER.get(kind, ())])}"

    for kind in ("V1DeploymentSpec", "V1JobSpec", "V1PodSpec", "V1StatefulSetSpec"):
        add(kind)
    return "\n".join(sorted(lines.values())) + "\n"


def _short(kind: str) -> str:
    return kind.removeprefix("Core").removeprefix("V1")


def test_the_table_is_that_of_the_client() -> None:
    assert table() == podfields.TABLE, __doc__


def paths(schema: Any, path: str = "", depth: int = 0) -> list[str]:
    """Every field that the schema names, down to its leaves."""
    found = []
    for name, below in schema.get("properties", {}).items():
        listed = "properties" in below.get("items", {})
        where = f"{path}.{name}" + ("[0]" if listed else "")
        found += [f"{path}.{name}", *paths(below["items"] if listed else below, where, depth + 1)]
    return found


def with_field(path: str, name: str) -> Any:
    """A spec with a field of that name beside the one at `path`."""
    spec: dict[str, Any] = {}
    here = spec
    for part in path.split(".")[1:-1]:
        below: dict[str, Any] = {}
        here[part.removesuffix("[0]")] = [below] if part.endswith("[0]") else below
        here = below
    here[name] = "x"
    return spec


def test_a_misspelt_field_is_told_at_every_depth() -> None:
    known = paths(POD_SPEC)
    assert len(known) > 1000
    for path in known:
        parent, _, name = path.rpartition(".")
        told = [(one.path, one.nearest) for one in misspelt_fields(with_field(path, name + "X"), POD_SPEC, "p")]
        siblings = {one.rpartition(".")[2] for one in known if one.rpartition(".")[0] == parent}
        if name + "X" in siblings or len(name) < 3:
            continue
        ((where, near),) = told
        assert where == f"p{parent}.{name}X"
        assert near in siblings
        assert not list(misspelt_fields(with_field(path, name), POD_SPEC, "p"))


@pytest.mark.parametrize(
    ("path", "name", "near"),
    [
        (".containers[0].resources.limits", "limit", "limits"),
        (".containers[0].env[0].value", "valu", "value"),
        (".containers[0].volumeMounts[0].mountPath", "mountpath", "mountPath"),
        (".containers[0].securityContext.runAsUser", "runAsUsr", "runAsUser"),
        (".containers[0].livenessProbe.httpGet.path", "pth", "path"),
        (".volumes[0].persistentVolumeClaim.claimName", "claimname", "claimName"),
        (".affinity.podAntiAffinity.x", "requiredDuringScheduling", "requiredDuringSchedulingIgnoredDuringExecution"),
        (".securityContext.fsGroup", "fsgroup", "fsGroup"),
    ],
)
def test_what_people_write(path: str, name: str, near: str) -> None:
    ((where, nearest),) = [(one.path, one.nearest) for one in misspelt_fields(with_field(path, name), POD_SPEC, "")]
    assert (where, nearest) == (f"{path.rpartition('.')[0]}.{name}".removeprefix("."), near)


def test_a_misspelt_field_of_a_native_kind_is_told() -> None:
    job = {"kind": "Job", "spec": {"backofLimit": 3, "bogus": 1, "template": {"spec": {}}, "suspend": True}}
    told = [(one.path, one.nearest) for one in misspelt_fields(job, NATIVE["Job"])]
    assert told == [("spec.backofLimit", "backoffLimit"), ("spec.bogus", None)]


if __name__ == "__main__":
    sys.stdout.write(table())
