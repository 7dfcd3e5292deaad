"""Helm and Kustomize make of chart and base what `t9ksched manifests` prints."""

import subprocess
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from t9ksched.cli.manifests.chart import objects, render
from t9ksched.cli.manifests.overrides import given
from tests.clustertools import tool
from tests.unit.cli.manifests.test_chart import DEPLOY, EVERYTHING

HELM, KUBECTL = tool("helm"), tool("kubectl")
PART_OF: Final = "app.kubernetes.io/part-of"

Object = dict[str, Any]


def done(*command: str | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def by_name(items: list[Object]) -> dict[tuple[str, ...], Object]:
    found = {}
    for item in filter(None, items):
        metadata = item["metadata"]
        found[item["apiVersion"], item["kind"], metadata["name"]] = item
    return found


def helm(folder: Path, values: object) -> subprocess.CompletedProcess[str]:
    file = folder / "values.yaml"
    file.write_bytes(msgspec.yaml.encode(values))
    chart = str(DEPLOY / "chart")
    return done(HELM, "template", "t9ksched", chart, "--include-crds", "--namespace", "t9k-system", "-f", str(file))


@pytest.mark.skipif(HELM is None, reason="helm is not installed")
@pytest.mark.parametrize(
    "assignments",
    [
        (),
        EVERYTHING,
        (
            "podDisruptionBudget.enabled=false",
            "networkPolicy.enabled=false",
            "rights.create=false",
            "rights.admissionPolicies=false",
            "namespace.create=false",
            "controller.replicas=0",
        ),
    ],
    ids=["defaults", "everything", "little"],
)
def test_helm_renders_the_same(assignments: tuple[str, ...], tmp_path: Path) -> None:
    values = given((), assignments)
    ended = helm(tmp_path, values)
    assert ended.returncode == 0, ended.stderr
    theirs = by_name(list(yaml.load_all(ended.stdout, Loader=yaml.CSafeLoader)))
    assert theirs == by_name(list(objects(render(values))))


@pytest.mark.skipif(HELM is None, reason="helm is not installed")
def test_helm_refuses_what_we_refuse(tmp_path: Path) -> None:
    chart = str(DEPLOY / "chart")
    misspelt = done(HELM, "template", chart, "--namespace", "t9k-system", "--set", "scheduler.replica=3")
    assert misspelt.returncode != 0
    assert "'replica' not allowed" in misspelt.stderr
    elsewhere = done(HELM, "template", chart, "--namespace", "default")
    assert "--namespace t9k-system" in elsewhere.stderr
    lint = done(HELM, "lint", "--strict", chart, "--namespace", "t9k-system")
    assert lint.returncode == 0, lint.stdout


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.parametrize(("folder", "assignments"), [("base", ()), ("overlays/exec", ("api.exec=true",))])
def test_kustomize_builds_the_same(folder: str, assignments: tuple[str, ...]) -> None:
    ended = done(KUBECTL, "kustomize", str(DEPLOY / folder))
    assert ended.returncode == 0, ended.stderr
    theirs = by_name(list(yaml.safe_load_all(ended.stdout)))
    for item in theirs.values():
        labels = item["metadata"].get("labels", {})
        assert labels.pop(PART_OF, "t9ksched") == "t9ksched"
        if not labels:
            item["metadata"].pop("labels", None)
    ours = by_name([item for item in objects(render(given((), assignments))) if "CustomResource" not in item["kind"]])
    assert set(theirs) == set(ours)
    assert [name for name in ours if _sorted(ours[name]) != _sorted(theirs[name])] == []


def _sorted(item: Object) -> Object:
    """With the environment of containers in one order: an overlay adds at the end."""
    for container in item["spec"]["template"]["spec"]["containers"] if item["kind"] == "Deployment" else ():
        container["env"].sort(key=lambda one: one["name"])
    return item
