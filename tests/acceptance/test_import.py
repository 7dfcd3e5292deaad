"""`import` from outside: from the objects of a cluster, twice, and what users then may do."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from t9ksched.importing.systems import SYSTEMS
from t9ksched.model.api_resource import Resource
from tests.acceptance.conftest import Up
from tests.integration.scheduler.foreign import definition

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUEUE = SYSTEMS["kueue"].kinds


def resource(kind: str) -> Resource:
    plural, namespaced = KUEUE.kinds[kind]
    return Resource(KUEUE.group, "v1beta1", plural, kind, namespaced)


@pytest.fixture
def kueue(up: Up) -> Iterator[None]:
    """A cluster with objects of Kueue, of its older version."""
    for kind in KUEUE.kinds:
        made = definition(resource(kind))
        made["spec"]["scope"] = "Namespaced" if resource(kind).namespaced else "Cluster"
        assert up.kube("POST", CRDS, made)[0] == 201
    product = {"nvidia.com/gpu.product": "NVIDIA-A40-40GB"}
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "a40", "resources": resources}]}]
    objects: list[tuple[str, str, dict[str, Any], str | None]] = [
        ("ResourceFlavor", "a40", {"nodeLabels": product}, None),
        ("ClusterQueue", "speech", {"cohort": "all", "namespaceSelector": {}, "resourceGroups": groups}, None),
        ("LocalQueue", "lq", {"clusterQueue": "speech"}, "default"),
    ]
    for kind, name, spec, namespace in objects:
        one = resource(kind)
        body = {"apiVersion": one.api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        assert up.kube("POST", one.path(namespace), body)[0] == 201
    yield
    for kind in KUEUE.kinds:
        up.kube("DELETE", f"{CRDS}/{resource(kind)}")


def test_queues_of_a_cluster_are_imported_twice(up: Up, kueue: None) -> None:
    given = ("import", "kueue", "--from-cluster", "--kubeconfig", str(up.kubeconfig), "-o", "json")
    first = json.loads(up.must(*given))
    try:
        assert [(queue["name"], queue["done"]) for queue in first["queues"]] == [("speech", "create")]
        assert {(line["object"], line["path"], line["outcome"]) for line in first["fields"]} >= {
            ("ClusterQueue speech", "spec.cohort", "none"),
            ("LocalQueue default/lq", "spec.clusterQueue", "same"),
        }
        spec = up.rest("GET", "/apis/v1/admin/queues/speech")[1]["spec"]
        assert spec["quota"] == {"requests": {"nvidia.com/gpu": "8"}}
        up.must("queues", "edit", "speech", "--priority", "7")
        assert json.loads(up.must(*given))["queues"][0]["done"] == "none"
        job = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: NS}\nspec: {containers: [{name: c, image: i}]}"
        for namespace, code in (("default", 0), ("kube-node-lease", 1)):
            tried = up.cli("submit", "-f", "-", "--queue", "speech", "--dry-run", stdin=job.replace("NS", namespace))
            assert tried.code == code, tried.err
    finally:
        up.must("queues", "delete", "speech", "--yes")


def test_a_cluster_without_that_scheduler(up: Up) -> None:
    done = up.cli("import", "kai", "--from-cluster", "--kubeconfig", str(up.kubeconfig))
    assert (done.code, "serves none of the kinds of KAI" in done.err) == (1, True), done.err
