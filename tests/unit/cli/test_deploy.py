"""The manifests of `deploy/` name commands, options and variables that exist."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from t9ksched.cli.application import application
from t9ksched.settings import PREFIX, Settings

BASE = Path(__file__).parents[3] / "deploy" / "base"


def _objects(kind: str) -> list[dict[str, Any]]:
    found = [item for path in sorted(BASE.glob("*.yaml")) for item in yaml.safe_load_all(path.read_text())]
    return [item for item in found if item["kind"] == kind]


def _containers() -> list[tuple[str, dict[str, Any]]]:
    return [
        (item["metadata"]["name"], container)
        for item in _objects("Deployment")
        for container in item["spec"]["template"]["spec"]["containers"]
    ]


def test_every_file_is_listed() -> None:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    assert sorted([*listed, "kustomization.yaml"]) == sorted(path.name for path in BASE.iterdir())


@pytest.mark.parametrize(("name", "container"), _containers())
def test_commands_and_variables_exist(name: str, container: dict[str, Any]) -> None:
    assert CliRunner().invoke(application(), [*container["args"], "--help"]).exit_code == 0
    for variable in container.get("env", []):
        if variable["name"].startswith(PREFIX):
            assert variable["name"].removeprefix(PREFIX).lower() in Settings.model_fields


def test_the_overlay_for_commands_adds_a_right_and_a_variable_that_exists() -> None:
    overlay = BASE.parent / "overlays" / "exec"
    settings = yaml.safe_load((overlay / "kustomization.yaml").read_text())
    assert settings["resources"] == ["../../base", "rbac.yaml"]
    assert all((overlay / name).exists() for name in settings["resources"])
    (change,) = (one for patch in settings["patches"] for one in yaml.safe_load(patch["patch"]))
    name = change["value"]["name"]
    assert name.removeprefix(PREFIX).lower() in Settings.model_fields
    assert Settings.model_fields[name.removeprefix(PREFIX).lower()].default is False
    role, binding = yaml.safe_load_all((overlay / "rbac.yaml").read_text())
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    accounts = {item["metadata"]["name"] for item in _objects("ServiceAccount")}
    assert {one["name"] for one in binding["subjects"]} <= accounts


def test_every_role_has_an_account_with_rights() -> None:
    accounts = {item["metadata"]["name"] for item in _objects("ServiceAccount")}
    used = {item["spec"]["template"]["spec"]["serviceAccountName"] for item in _objects("Deployment")}
    bound = {
        subject["name"]: item["roleRef"]["name"]
        for item in _objects("ClusterRoleBinding")
        for subject in item["subjects"]
    }
    roles = {item["metadata"]["name"] for item in _objects("ClusterRole")}
    assert accounts == used == set(bound)
    assert set(bound.values()) == roles


@pytest.mark.parametrize(("name", "container"), _containers())
def test_a_restricted_namespace_takes_every_pod_and_a_kubelet_can_ask_after_it(
    name: str, container: dict[str, Any]
) -> None:
    context = container["securityContext"]
    assert context["runAsNonRoot"] is context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports


def test_metrics_can_be_scraped_as_deployed() -> None:
    """The Service finds the pods and names a port that the process serves, and the policy admits everybody there."""
    (deployment,) = (one for one in _objects("Deployment") if one["metadata"]["name"] == "t9k-scheduler")
    (service,) = (one for one in _objects("Service") if one["metadata"]["name"] == "t9k-scheduler")
    (policy,) = (one for one in _objects("NetworkPolicy") if one["metadata"]["name"] == "t9k-scheduler")
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    labels, ports = template["metadata"]["labels"], {one["name"]: one["containerPort"] for one in container["ports"]}
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert labels["app"] == deployment["metadata"]["labels"]["app"] == "t9k-scheduler"
    assert service["spec"]["selector"].items() <= labels.items()
    (port,) = service["spec"]["ports"]
    assert (port["port"], ports[port["targetPort"]]) == (8080, 8080)
    assert env["T9KSCHED_HEALTH_PORT"] == str(ports["http"]), "served by `probed`, see test_health"
    assert env["T9KSCHED_INTERNAL_PORT"] == str(ports["internal"])
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(ports["http"])
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    admitted = {one["port"]: rule.get("from") for rule in policy["spec"]["ingress"] for one in rule["ports"]}
    assert admitted == {"http": None, "internal": [{"podSelector": {"matchLabels": {"app": "t9ksched-api"}}}]}
    assert {"--leader-elect=true", "--v=2"} <= set(container["args"])
