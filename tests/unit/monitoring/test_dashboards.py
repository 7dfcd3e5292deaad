"""The dashboards are those that their code writes, and every query names metrics and labels that exist."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched.api import meters as rest
from t9ksched.controller import meters as controllers
from t9ksched.scheduler.report import families
from tests import promql
from tests.sources import script
from tests.unit.monitoring.test_rules import known_names

FOLDER = Path(__file__).parents[3] / "deploy/monitoring"
ALL = (*families.FAMILIES, *rest.FAMILIES, *controllers.FAMILIES)
LABELS = {label for one in ALL for label in one.labels} | {"le"}


def committed() -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((FOLDER / "dashboards").glob("*.json"))}


def test_they_are_current(tmp_path: Path) -> None:
    module = script("deploy/monitoring/dashboards.py")
    module.main(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        assert path.read_text() == (FOLDER / "dashboards" / path.name).read_text(), "run `make dashboards`"
    assert committed().keys() == {board.name for board in module.BOARDS} == {"operator", "team", "capacity"}


@pytest.mark.parametrize("name", ["operator", "team", "capacity"])
def test_every_panel_asks_for_metrics_and_labels_that_exist(name: str) -> None:
    board = committed()[name]
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len(panels) >= 9
    assert len({panel["title"] for panel in panels}) >= len(panels) - 1
    for panel in panels:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            expression = target["expr"]
            assert promql.names(expression) <= known_names(), expression
            asked = {each for group in re.findall(r"by \(([^)]*)\)", expression) for each in group.split(", ")}
            asked |= set(re.findall(r"{{(\w+)}}", target["legendFormat"])) | set(re.findall(r"(\w+)=~?\"", expression))
            assert asked <= LABELS, expression
            assert target["datasource"]["uid"] == "${datasource}"
    uses = set(re.findall(r"\$(\w+)", json.dumps(panels)))
    assert uses <= {one["name"] for one in board["templating"]["list"]}


def test_no_two_panels_overlap() -> None:
    for name, board in committed().items():
        taken: dict[tuple[int, int], str] = {}
        for panel in board["panels"]:
            at = panel["gridPos"]
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    assert x < 24, (name, panel["title"])
                    assert (x, y) not in taken, (name, panel["title"], taken.get((x, y)))
                    taken[x, y] = panel["title"]


def test_the_manifests_name_what_exists() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert all((FOLDER / name).exists() for name in kustomization["resources"])
    files = {name for one in kustomization["configMapGenerator"] for name in one["files"]}
    assert files == {f"dashboards/{name}.json" for name in committed()}
    base = FOLDER.parent / "base"
    scheduler = [one for one in yaml.safe_load_all((base / "scheduler.yaml").read_text()) if one]
    service = next(one for one in scheduler if one["kind"] == "Service")
    monitor = yaml.safe_load((FOLDER / "servicemonitor.yaml").read_text())["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {one["port"] for one in monitor["endpoints"]} == {one["name"] for one in service["spec"]["ports"]}
    api = next(one for one in yaml.safe_load_all((base / "api.yaml").read_text()) if one["kind"] == "Deployment")
    pods, controller_pods = (one["spec"] for one in yaml.safe_load_all((FOLDER / "podmonitor.yaml").read_text()))
    deployment = next(yaml.safe_load_all((base / "controller.yaml").read_text()))["spec"]["template"]
    assert controller_pods["selector"]["matchLabels"].items() <= deployment["metadata"]["labels"].items()
    (served,) = deployment["spec"]["containers"][0]["ports"]
    assert controller_pods["podMetricsEndpoints"][0]["port"] == served["name"]
    assert deployment["metadata"]["annotations"]["prometheus.io/port"] == str(served["containerPort"])
    template = api["spec"]["template"]
    assert pods["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (endpoint,) = pods["podMetricsEndpoints"]
    (container,) = template["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["T9KSCHED_HEALTH_PORT"] == str(ports[endpoint["port"]])
    assert env["T9KSCHED_HEALTH_HOST"] == "0.0.0.0"
    kept = re.compile(endpoint["metricRelabelings"][0]["regex"])
    assert all(kept.fullmatch(one.name) for one in rest.FAMILIES)
    assert not any(kept.fullmatch(one.name) for one in (*families.FAMILIES, *controllers.FAMILIES))
