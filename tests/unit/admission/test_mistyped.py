"""Values of a wrong type in a pod's spec are refused with their path; what Kubernetes takes is let through."""

from typing import Any

import pytest

from t9ksched.admission.mistyped import mistyped_fields
from t9ksched.admission.podfields import POD_SPEC


def faults(spec: Any) -> list[str]:
    return [one.path for one in mistyped_fields(spec, POD_SPEC, "p")]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"hostAliases": {"a": 1}}, "p.hostAliases"),
        ({"hostAliases": [5]}, "p.hostAliases[0]"),
        ({"hostAliases": [{"ip": "1.2.3.4", "hostnames": "x"}]}, "p.hostAliases[0].hostnames"),
        ({"imagePullSecrets": "x"}, "p.imagePullSecrets"),
        ({"imagePullSecrets": ["x"]}, "p.imagePullSecrets[0]"),
        ({"dnsConfig": "x"}, "p.dnsConfig"),
        ({"dnsConfig": {"nameservers": [1]}}, "p.dnsConfig.nameservers[0]"),
        ({"containers": [{"volumeMounts": 5}]}, "p.containers[0].volumeMounts"),
        ({"containers": [{"command": "sleep 5"}]}, "p.containers[0].command"),
        ({"containers": [{"args": ["--lr", 0.1]}]}, "p.containers[0].args[1]"),
        ({"containers": [{"env": [{"name": "A", "value": 5}]}]}, "p.containers[0].env[0].value"),
        ({"containers": [{"tty": "yes"}]}, "p.containers[0].tty"),
        ({"containers": [{"ports": [{"containerPort": "80"}]}]}, "p.containers[0].ports[0].containerPort"),
        ({"securityContext": [1]}, "p.securityContext"),
        ({"securityContext": {"runAsUser": "x"}}, "p.securityContext.runAsUser"),
        ({"securityContext": {"runAsUser": True}}, "p.securityContext.runAsUser"),
        ({"securityContext": {"supplementalGroups": ["1"]}}, "p.securityContext.supplementalGroups[0]"),
        ({"terminationGracePeriodSeconds": "x"}, "p.terminationGracePeriodSeconds"),
        ({"terminationGracePeriodSeconds": 1.5}, "p.terminationGracePeriodSeconds"),
        ({"readinessGates": 5}, "p.readinessGates"),
        ({"volumes": [{"csi": {"volumeAttributes": {"a.b": 1}}}]}, "p.volumes[0].csi.volumeAttributes[a.b]"),
        ({"nodeSelector": ["x"]}, "p.nodeSelector"),
        ({"hostNetwork": 1}, "p.hostNetwork"),
        ({"subdomain": 5}, "p.subdomain"),
    ],
)
def test_what_is_refused(spec: Any, path: str) -> None:
    assert faults(spec) == [path]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"hostAliases": None, "containers": [{"tty": None, "command": None, "env": [{"name": "A", "value": None}]}]},
        {"overhead": {"cpu": 1, "memory": "1Gi"}},
        {"containers": [{"resources": {"limits": {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}}}]},
        {"containers": [{"livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5}}]},
        {"containers": [{"livenessProbe": {"tcpSocket": {"port": "http"}}}]},
        {"volumes": [{"emptyDir": {"sizeLimit": 1024}}, {"emptyDir": {"sizeLimit": "1Gi"}}]},
        {"volumes": [{"downwardAPI": {"items": [{"resourceFieldRef": {"divisor": 1}}]}}]},
        {"volumes": [{"configMap": {"defaultMode": 0o644}}]},
        {"volumes": [{"ephemeral": {"volumeClaimTemplate": {"metadata": {"creationTimestamp": None, "labels": {}}}}}]},
        {"terminationGracePeriodSeconds": 30.0},
        {"securityContext": {"runAsUser": 0, "runAsNonRoot": False}},
        {"somethingNewer": {"of": ["any", 1]}, "containers": [{"somethingNewer": 5}]},
    ],
)
def test_what_kubernetes_takes(spec: Any) -> None:
    assert faults(spec) == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"subdomain": 5}, "must be text, not 5: write it in quotes"),
        ({"hostAliases": {}}, "must be a list, not a mapping"),
        ({"hostIPC": "y" * 100}, "must be true or false, not '" + "y" * 59 + "…"),
        ({"priority": True}, "must be a whole number, not true"),
    ],
)
def test_what_is_said(spec: Any, text: str) -> None:
    assert [one.message for one in mistyped_fields(spec, POD_SPEC, "p")] == [text]
