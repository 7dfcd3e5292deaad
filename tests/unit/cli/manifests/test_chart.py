"""The chart: what it installs, what its values are, and what follows from it is as it is written."""

import json
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import jsonschema_rs
import msgspec
import pytest
import yaml
from kubernetes.client import models

from t9ksched.cli.manifests import writing
from t9ksched.cli.manifests.chart import ORDER, images, objects, render
from t9ksched.cli.manifests.gotemplate import TemplateError
from t9ksched.cli.manifests.overrides import given, paths
from t9ksched.cli.manifests.values import Values
from t9ksched.kube.setup.foreign_rights import PROJECTS
from t9ksched.kube.setup.rbac import API, CONTROLLER, ROLES, SCHEDULER
from t9ksched.model.names import SYSTEM_NAMESPACE
from tests.integration import accounts
from tests.sources import ROOT

DEPLOY: Final = ROOT / "deploy"
DIGEST: Final = f"sha256:{64 * '0'}"
EVERYTHING: Final = (
    "image.repository=registry.example:5000/a/t9ksched",
    f"image.digest={DIGEST}",
    "image.pullSecrets={one,two}",
    "database.secretName=postgresql-app",
    "scheduler.replicas=3",
    "scheduler.env.T9KSCHED_LOG_LEVEL=debug",
    'scheduler.env.QUOTED=a "b" \\\\ 1',
    "scheduler.nodeSelector[node-role.kubernetes.io/control-plane]=",
    "scheduler.tolerations[0].key=a",
    "scheduler.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=rack",
    "scheduler.podAnnotations[a.b/c]=true",
    "controller.podAnnotations.a=b",
    "api.exec=true",
    "api.podAnnotations.a=b",
    "api.service.type=LoadBalancer",
    "api.service.annotations.a=b",
    "api.priorityClassName=",
    "ingress.enabled=true",
    "ingress.host=t9ksched.example",
    "ingress.className=nginx",
    "ingress.tlsSecretName=certificate",
    "ingress.annotations[cert-manager.io/cluster-issuer]=ours",
    "gateway.enabled=true",
    "gateway.name=public",
    "gateway.namespace=infra",
    "gateway.sectionName=https",
    "gateway.host=t9ksched.example",
    "priorityClass.create=true",
    "networkPolicy.egress.enabled=true",
    "networkPolicy.egress.rules[0].ports[0].port=587",
    f"rights.foreign={{{','.join(project.name for project in PROJECTS)}}}",
    "monitoring.enabled=true",
    "monitoring.dashboards={operator,team,capacity}",
)
"""Each value that makes or changes something."""
Object = dict[str, Any]


@cache
def installed(*assignments: str) -> tuple[Object, ...]:
    return tuple(objects(render(given((), assignments))))


def deployments(*assignments: str) -> dict[str, Object]:
    found = (item for item in installed(*assignments) if item["kind"] == "Deployment")
    return {item["metadata"]["name"]: item["spec"]["template"]["spec"] for item in found}


def named(items: Iterable[Object], kind: str) -> set[str]:
    return {item["metadata"]["name"] for item in items if item["kind"] == kind}


def test_the_base_and_the_values_are_what_make_reference_writes() -> None:
    assert (DEPLOY / "chart/values.yaml").read_text() == writing.values_yaml()
    assert (DEPLOY / "chart/values.schema.json").read_text() == writing.values_schema()
    written = {path.name: path.read_text() for path in (DEPLOY / "base").iterdir()}
    expected = writing.base() | {name: (DEPLOY / name).read_text() for name in ("rbac.yaml", "admission.yaml")}
    assert written == expected, "run make reference"


def test_every_template_is_a_part() -> None:
    templates = {path.stem for path in (DEPLOY / "chart/templates").glob("*.yaml")}
    assert templates | {"crds"} == set(ORDER)
    assert [part.name for part in render(given((), EVERYTHING))] == list(ORDER)


def test_values_and_their_schema_agree() -> None:
    defaults = yaml.safe_load((DEPLOY / "chart/values.yaml").read_text())
    assert msgspec.convert(defaults, Values) == Values()
    schema = json.loads((DEPLOY / "chart/values.schema.json").read_text())
    check = jsonschema_rs.Draft202012Validator(schema)
    assert not list(check.iter_errors(defaults))
    assert not list(check.iter_errors(msgspec.to_builtins(given((), EVERYTHING))))
    assert not list(check.iter_errors({"global": {"a": 1}, "scheduler": {"replicas": 0}}))
    for bad in ({"replica": 1}, {"scheduler": {"replicas": -1}}, {"rights": {"foreign": ["ray"]}}):
        assert list(check.iter_errors(bad)), bad


def test_every_value_does_something() -> None:
    """Each name of a value stands in a template."""
    templates = "".join(path.read_text() for path in (DEPLOY / "chart/templates").iterdir())
    leaves = [path for path in paths() if not any(other.startswith(f"{path}.") for other in paths())]
    # `resources` is handed on whole.
    names = {path.rpartition(".")[2] for path in leaves if ".resources." not in path}
    assert {name for name in names if f".{name}" not in templates} == set()


def test_each_role_has_what_keeps_it_running() -> None:
    items = installed()
    assert named(items, "Deployment") == named(items, "PodDisruptionBudget") == {SCHEDULER, CONTROLLER, API}
    assert named(items, "NetworkPolicy") == {SCHEDULER, CONTROLLER, API}
    for name, pod in deployments().items():
        assert pod["priorityClassName"] == "system-cluster-critical"
        spread = {one["topologyKey"] for one in pod["topologySpreadConstraints"]}
        assert spread == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
        (container,) = pod["containers"]
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container), name
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert set(container["resources"]["limits"]) == {"memory"}
    for item in items:
        if item["kind"] == "Deployment":
            assert item["spec"]["replicas"] == 2


def test_each_variable_is_given_once() -> None:
    (scheduler,) = deployments("scheduler.env.T9KSCHED_LOG_FORMAT=console")["t9k-scheduler"]["containers"]
    env = {one["name"]: one.get("value") for one in scheduler["env"]}
    assert len(env) == len(scheduler["env"])
    assert env["T9KSCHED_LOG_FORMAT"] == "console"
    for name in {one["name"] for pod in deployments("api.exec=true").values() for one in pod["containers"][0]["env"]}:
        if name != "T9KSCHED_LOG_FORMAT":
            with pytest.raises(TemplateError, match=f"{name}: the chart sets it itself"):
                render(given((), (f"api.env.{name}=x",)))


def test_texts_are_texts() -> None:
    made = deployments("secretName=123", "scheduler.env.Y=no", "priorityClass.create=true", "priorityClass.name=1")
    pod = made["t9k-scheduler"]
    env = {one["name"]: one for one in pod["containers"][0]["env"]}
    assert env["T9KSCHED_DB"]["valueFrom"]["secretKeyRef"]["name"] == "123"
    assert env["Y"]["value"] == "no"
    assert pod["priorityClassName"] == "1"


def test_pods_meet_the_standard_restricted() -> None:
    """The rules of the Pod Security Standard, for pods on Linux."""
    chosen = [pod["securityContext"].get("runAsUser") for pod in deployments("runAsUser=0").values()]
    assert chosen == [None] * 3
    for name, pod in deployments(*EVERYTHING).items():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 65532, "that of the image"
        assert not {"hostNetwork", "hostPID", "hostIPC", "volumes", "initContainers", "hostUsers"} & set(pod), name
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["runAsNonRoot"] is True
            assert context["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost")
            assert context["readOnlyRootFilesystem"] is True
            assert not {"privileged", "procMount", "runAsUser", "seLinuxOptions", "windowsOptions"} & set(context)
            assert not any("hostPort" in port for port in container["ports"])
    (namespace,) = (item for item in installed() if item["kind"] == "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_accounts_are_those_whose_rights_are_tested() -> None:
    items = installed()
    assert named(items, "ServiceAccount") == set(ROLES)
    assert {name: pod["serviceAccountName"] for name, pod in deployments().items()} == {name: name for name in ROLES}
    rights = [item for item in items if item["apiVersion"].startswith("rbac") or item["kind"] == "ServiceAccount"]
    assert rights == accounts.documents()
    assert [item for item in items if item["apiVersion"].startswith("admission")] == accounts.policies()
    assert all(item["metadata"].get("namespace", SYSTEM_NAMESPACE) == SYSTEM_NAMESPACE for item in items)


def test_the_way_in_is_what_kubernetes_knows() -> None:
    """A server tries them in `tests/integration/test_kubectl.py`."""
    (ingress,) = (item for item in installed(*EVERYTHING) if item["kind"] == "Ingress")
    assert models.V1Ingress.model_validate(ingress).model_dump(by_alias=True, exclude_none=True) == ingress
    (route,) = (item for item in installed(*EVERYTHING) if item["kind"] == "HTTPRoute")
    (service,) = (
        item for item in installed(*EVERYTHING) if item["metadata"]["name"] == API and item["kind"] == "Service"
    )
    (parent,), (rule,) = route["spec"]["parentRefs"], route["spec"]["rules"]
    assert parent == {"name": "public", "namespace": "infra", "sectionName": "https"}
    assert rule["backendRefs"] == [{"name": API, "port": service["spec"]["ports"][0]["port"]}]


def test_secrets_are_named_and_never_written() -> None:
    items = installed(*EVERYTHING)
    assert not named(items, "Secret")
    for pod in deployments("secretName=ours", "database.secretName=pg", "database.secretKey=uri").values():
        (container,) = pod["containers"]
        sources = {
            one["name"]: one["valueFrom"]["secretKeyRef"]
            for one in container["env"]
            if "valueFrom" in one and "secretKeyRef" in one["valueFrom"]
        }
        assert sources.get("T9KSCHED_DB", {}) in ({"name": "pg", "key": "uri"}, {})


@pytest.mark.parametrize(
    ("assignments", "image"),
    [
        ((), "t9ksched:0.1.0"),
        (("image.repository=r.example/t", f"image.digest={DIGEST}"), f"r.example/t@{DIGEST}"),
        (("image.repository=r.example/t", "image.tag=1", f"image.digest={DIGEST}"), f"r.example/t@{DIGEST}"),
    ],
)
def test_the_image(assignments: tuple[str, ...], image: str) -> None:
    assert images(render(given((), assignments))) == [image]
    assert {one["image"] for pod in deployments(*assignments).values() for one in pod["containers"]} == {image}


def test_versions_are_those_of_the_package() -> None:
    from tomllib import loads

    version = loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((DEPLOY / "chart/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
