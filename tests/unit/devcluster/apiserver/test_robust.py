"""Whatever a client sends, the answer is an object or a Status: never a fault of ours."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t9ksched.devcluster.apiserver import protobuf, tables
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.apply import apply
from t9ksched.devcluster.apiserver.binding import bind
from t9ksched.devcluster.apiserver.crd import Definitions
from t9ksched.devcluster.apiserver.eviction import evict
from t9ksched.devcluster.apiserver.kinds import Registry
from t9ksched.devcluster.apiserver.options import (
    WriteOptions,
    delete_options,
    list_options,
    watch_options,
    write_options,
)
from t9ksched.devcluster.apiserver.patching import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.devcluster.apiserver.storage import Storage
from t9ksched.devcluster.cluster import install

Object = dict[str, Any]
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 1}],
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                "livenessProbe": {"httpGet": {"port": 1}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "volumes": [{"name": "v", "configMap": {"name": "m"}}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "nodeSelector": {"a": "b"},
        "schedulingGates": [{"name": "a.b/c"}],
    },
}
SELECTOR = {"matchLabels": {"a": "b"}}
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}}}
OBJECTS: list[Object] = [
    {"apiVersion": "v1", "kind": "Pod", **TEMPLATE},
    {
        "apiVersion": "v1",
        "kind": "Node",
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "spec": {"ports": [{"port": 1}], "selector": {"a": "b"}, "type": "NodePort"},
    },
    {"apiVersion": "v1", "kind": "Secret", "data": {"a": "YQ=="}, "stringData": {"b": "c"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "immutable": True},
    {"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": ["kubernetes"]}},
    {"apiVersion": "v1", "kind": "Event", "involvedObject": {"namespace": "default"}, "series": {"count": 1}},
    {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-01-01T00:00:00Z",
        "regarding": {"name": "x"},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": {}},
    },
    {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"selector": SELECTOR, "template": TEMPLATE}},
    {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": TEMPLATE, "parallelism": 2}},
    {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "spec": {"schedule": "*", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    },
    {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1, "selector": SELECTOR}},
    {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "spec": {"leaseDurationSeconds": 1, "holderIdentity": "x"},
    },
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "subjects": [{"kind": "User", "name": "u"}],
        "roleRef": {"kind": "Role", "name": "r"},
    },
    {
        "apiVersion": "scheduler.tensorstack.dev/v1beta1",
        "kind": "Queue",
        "spec": {"priority": 1, "quota": {"requests": {"cpu": "1"}}, "nodeSelector": SELECTOR},
    },
    {"apiVersion": "tensorstack.dev/v1beta1", "kind": "Notebook", "spec": {"template": TEMPLATE, "suspend": False}},
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"plural": "xs", "kind": "X"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                    "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
                    "selectableFields": [{"jsonPath": ".spec.a"}],
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".s"},
                    },
                }
            ],
        },
    },
]
META = {
    "name": "x",
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "finalizers": ["a/b"],
    "ownerReferences": [{"uid": "u"}],
}

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "x", "1", "-1", "a b"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "key", "a", "$patch"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [at] if at else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*at, key))
    return found


@st.composite
def broken(draw: st.DrawFn) -> tuple[Object, Object]:
    """An object of some kind, and the same with something else at one or two of its places."""
    whole = {**draw(st.sampled_from(OBJECTS)), "metadata": META}
    spoiled = copy.deepcopy(whole)
    for _ in range(draw(st.integers(min_value=1, max_value=2))):
        *parents, last = draw(st.sampled_from(places(spoiled)))
        holder: Any = spoiled
        for key in parents:
            holder = holder[key]
        holder[last] = draw(anything)
        if not isinstance(spoiled, dict) or not places(spoiled):
            break
    return copy.deepcopy(whole), spoiled


def fresh() -> Api:
    api = Api(Storage(), Registry())
    Definitions(api)
    install(api, [])
    return api


@pytest.fixture(scope="module")
def api() -> Api:
    return fresh()


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=400)
@given(broken())
def test_broken_objects(api: Api, pair: tuple[Object, Object]) -> None:
    whole, spoiled = pair
    group, _, version = whole["apiVersion"].rpartition("/")
    kind = next(k for k in api.registry.all() if (k.group, k.version, k.kind) == (group, version, whole["kind"]))
    namespace = "default" if kind.namespaced else None
    opts = WriteOptions(dry_run=True)
    with contextlib.suppress(StatusError):
        shown = api.create(kind, namespace, copy.deepcopy(spoiled), opts).object
        assert len(tables.row(kind, shown, "Metadata")["cells"]) == len(tables.columns(kind))
    with contextlib.suppress(StatusError):
        api.create(kind, namespace, copy.deepcopy({**whole, "metadata": {"name": "x"}}))
    for subresource in ("", "status"):
        with contextlib.suppress(StatusError):
            api.replace(kind, namespace, "x", copy.deepcopy(spoiled), opts, subresource)
        for language in (MERGE_PATCH, STRATEGIC_PATCH):
            with contextlib.suppress(StatusError):
                api.patch(kind, namespace, "x", copy.deepcopy(spoiled), language, opts, subresource)
    with contextlib.suppress(StatusError):
        apply(api, kind, namespace, "x", copy.deepcopy(spoiled), WriteOptions(dry_run=True, manager="m"))


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=200)
@given(anything)
def test_rubbish(api: Api, body: Any) -> None:
    pods = api.kind("", "v1", "pods")
    with contextlib.suppress(StatusError):
        api.create(pods, "default", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    for language in (MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH):
        with contextlib.suppress(StatusError):
            api.patch(pods, "default", "p", body, language, WriteOptions(dry_run=True))
    for wrapped in ([body], [{"op": "add", "path": "/spec", "value": body}], [{"op": body, "path": body}]):
        with contextlib.suppress(StatusError):
            api.patch(pods, "default", "p", wrapped, JSON_PATCH, WriteOptions(dry_run=True))
    for whole in (body, {"metadata": body, "target": body}, {"metadata": {}, "target": {"name": body, "kind": body}}):
        with contextlib.suppress(StatusError):
            bind(api, pods, "default", "p", whole, dry_run=True)
    for whole in (body, {"metadata": body, "deleteOptions": body}):
        with contextlib.suppress(StatusError):
            evict(api, pods, "default", "p", whole, dry_run=True)
    for whole in (
        body,
        {"preconditions": body, "dryRun": body},
        {"gracePeriodSeconds": body, "propagationPolicy": body},
    ):
        with contextlib.suppress(StatusError):
            delete_options({}, whole)


texts = st.sampled_from(["", "0", "1", "-1", "x", "true", "All", "Exact", "NotOlderThan", "a=b", "a in (", "9" * 30])
names = st.sampled_from(
    [
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "labelSelector",
        "fieldSelector",
        "dryRun",
        "fieldValidation",
        "watch",
        "timeoutSeconds",
        "allowWatchBookmarks",
        "sendInitialEvents",
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
    ]
)


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=300)
@given(st.dictionaries(names, texts | st.text(max_size=4), max_size=4))
def test_queries(api: Api, query: dict[str, str]) -> None:
    for read in (
        lambda: api.listing(api.kind("", "v1", "pods"), None, list_options(query)),
        lambda: watch_options(query),
        lambda: write_options(query, "CreateOptions"),
        lambda: delete_options(query, None),
    ):
        with contextlib.suppress(StatusError):
            read()


@given(st.binary(max_size=40))
def test_protocol_buffers(raw: bytes) -> None:
    for body in (raw, b"k8s\x00" + raw, b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12" + bytes([len(raw)]) + raw):
        with contextlib.suppress(protobuf.Unreadable, UnicodeDecodeError):
            assert isinstance(protobuf.read(body), dict)


def test_a_namespace_as_kubectl_sends_it() -> None:
    meta = b"\x0a\x03foo\x5a\x06\x0a\x01a\x12\x01b"
    message = b"\x0a" + bytes([len(meta)]) + meta
    body = b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12" + bytes([len(message)]) + message + b"\x1a\x00\x22\x00"
    assert protobuf.read(body) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "foo", "labels": {"a": "b"}},
    }
