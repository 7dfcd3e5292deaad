"""Ingresses: what the server takes, fills in and refuses, as kube-apiserver does."""

from typing import Any

import pytest

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.kinds import Registry
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.devcluster.apiserver.storage import Storage
from t9ksched.devcluster.apiserver.tables import columns

Object = dict[str, Any]
SERVICE = {"service": {"name": "web", "port": {"name": "http"}}}
CLASS = "kubernetes.io/ingress.class"


@pytest.fixture
def api() -> Api:
    api = Api(Storage(), Registry())
    api.create(api.kind("", "v1", "namespaces"), None, {"metadata": {"name": "default"}})
    return api


def path(where: str = "/", kind: str | None = "Prefix", backend: Object = SERVICE) -> Object:
    return {"path": where, "backend": backend} | ({"pathType": kind} if kind else {})


def rules(*paths: Object, host: str = "web.example") -> Object:
    return {"rules": [{"host": host, "http": {"paths": list(paths)}}]}


def made(api: Api, spec: Object, **annotations: str) -> Object:
    kind = api.kind("networking.k8s.io", "v1", "ingresses")
    return api.create(kind, "default", {"metadata": {"name": "x", "annotations": annotations}, "spec": spec}).object


def test_one_as_people_write_it(api: Api) -> None:
    spec = rules(path(), path("/a", "Exact"), path("/b", "ImplementationSpecific"), host="*.example")
    spec |= {"ingressClassName": "nginx", "tls": [{"hosts": ["*.example"], "secretName": "certificate"}]}
    kept = made(api, spec, **{CLASS: "nginx"})
    assert kept["spec"] == spec
    assert kept["status"] == {"loadBalancer": {}}
    assert kept["metadata"]["generation"] == 1
    kind = api.kind("networking.k8s.io", "v1", "ingresses")
    assert [column.read(kept) for column in columns(kind)][:-1] == ["x", "nginx", "*.example", "", "80, 443"]
    assert [column.read({**kept, "spec": {}}) for column in columns(kind)][1:-1] == ["<none>", "*", "", "80"]


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        ({}, {("spec", "Invalid")}),
        (rules(), {("spec.rules[0].http.paths", "Required")}),
        (rules(path(), host="10.0.0.1"), {("spec.rules[0].host", "Invalid")}),
        (rules(path(), host="a b"), {("spec.rules[0].host", "Invalid")}),
        (rules(path(), host="a.*.b"), {("spec.rules[0].host", "Invalid")}),
        (rules(path(kind=None)), {("spec.rules[0].http.paths[0].pathType", "Required")}),
        (rules(path(kind="Regex")), {("spec.rules[0].http.paths[0].pathType", "NotSupported")}),
        (rules(path("a")), {("spec.rules[0].http.paths[0].path", "Invalid")}),
        (rules(path("a", "ImplementationSpecific")), {("spec.rules[0].http.paths[0].path", "Invalid")}),
        (rules(path("/a//b")), {("spec.rules[0].http.paths[0].path", "Invalid")}),
        (rules(path("/a/..")), {("spec.rules[0].http.paths[0].path", "Invalid")}),
        (rules(path(backend={})), {("spec.rules[0].http.paths[0].backend", "Invalid")}),
        ({"defaultBackend": SERVICE | {"resource": {}}}, {("spec.defaultBackend", "Invalid")}),
        (
            {"defaultBackend": {"resource": {"apiGroup": "a"}}},
            {("spec.defaultBackend.resource.kind", "Required"), ("spec.defaultBackend.resource.name", "Required")},
        ),
        (
            {"defaultBackend": {"service": {"name": "", "port": {}}}},
            {("spec.defaultBackend.service.name", "Required"), ("spec.defaultBackend", "Required")},
        ),
        (
            {"defaultBackend": {"service": {"name": "A", "port": {"name": "b", "number": 1}}}},
            {("spec.defaultBackend.service.name", "Invalid"), ("spec.defaultBackend", "Invalid")},
        ),
        (
            {"defaultBackend": {"service": {"name": "a", "port": {"number": 70000}}}},
            {("spec.defaultBackend.service.port.number", "Invalid")},
        ),
        (
            {"defaultBackend": {"service": {"name": "a", "port": {"name": "longer-than-fifteen"}}}},
            {("spec.defaultBackend.service.port.name", "Invalid")},
        ),
        (
            {"defaultBackend": SERVICE, "tls": [{"hosts": ["a", "a b"], "secretName": "A"}], "ingressClassName": "A"},
            {
                ("spec.tls[0].hosts[1]", "Invalid"),
                ("spec.tls[0].secretName", "Invalid"),
                ("spec.ingressClassName", "Invalid"),
            },
        ),
    ],
)
def test_faults(api: Api, spec: Object, faults: set[tuple[str, str]]) -> None:
    with pytest.raises(StatusError) as caught:
        made(api, spec)
    causes = (caught.value.details or {})["causes"]
    assert {(cause["field"], cause["reason"].removeprefix("FieldValue")) for cause in causes} == faults


def test_a_new_one_has_no_two_classes(api: Api) -> None:
    spec = rules(path()) | {"ingressClassName": "nginx"}
    with pytest.raises(StatusError, match="must match `ingressClassName`"):
        made(api, spec, **{CLASS: "other"})
    kept = made(api, spec)
    changed = {**kept, "metadata": {**kept["metadata"], "annotations": {CLASS: "other"}}}
    kind = api.kind("networking.k8s.io", "v1", "ingresses")
    entry, _ = api.replace(kind, "default", "x", changed)
    assert entry.object["metadata"]["annotations"] == {CLASS: "other"}
