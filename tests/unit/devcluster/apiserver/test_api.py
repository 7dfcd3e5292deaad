"""The operations behind the API, on rules that the recordings do not reach: our kinds, pods, owners, roles."""

from typing import Any

import pytest
import yaml

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.auth import Attributes, Authorizer, User
from t9ksched.devcluster.apiserver.cells import duration
from t9ksched.devcluster.apiserver.crd import Definitions
from t9ksched.devcluster.apiserver.gc import GarbageCollector
from t9ksched.devcluster.apiserver.kinds import Registry
from t9ksched.devcluster.apiserver.options import DeleteOptions, WriteOptions
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.devcluster.apiserver.storage import Storage
from t9ksched.devcluster.cluster import install
from t9ksched.packaged import folder

Object = dict[str, Any]


@pytest.fixture(scope="module")
def api() -> Api:
    made = Api(Storage(), Registry())
    Definitions(made)
    install(made, [])
    return made


def pod(name: str, spec: Object | None = None, /, **container: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i:1", **container}], **(spec or {})},
    }


def refusal(api: Api, body: Object, group: str, version: str, plural: str, namespace: str) -> list[tuple[str, str]]:
    with pytest.raises(StatusError) as caught:
        api.create(api.kind(group, version, plural), namespace, body)
    assert caught.value.code == 422
    return [(cause["field"], cause["reason"]) for cause in (caught.value.details or {})["causes"]]


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        (pod("p", resources={"requests": {"cpu": "-1"}}), "spec.containers[0].resources.requests[cpu]", "Invalid"),
        (pod("p", resources={"requests": {"nvidia.com/gpu": 1}}), "spec.containers[0].resources.limits", "Required"),
        (
            pod("p", resources={"requests": {"amd.com/gpu": 1}, "limits": {"amd.com/gpu": 2}}),
            "spec.containers[0].resources.requests",
            "Invalid",
        ),
        (pod("p", name="Bad_Name"), "spec.containers[0].name", "Invalid"),
        (pod("p", ports=[{"containerPort": 0}]), "spec.containers[0].ports[0].containerPort", "Invalid"),
        (
            pod("p", volumeMounts=[{"name": "x", "mountPath": "/x"}]),
            "spec.containers[0].volumeMounts[0].name",
            "NotFound",
        ),
        (pod("p", {"restartPolicy": "Sometimes"}), "spec.restartPolicy", "NotSupported"),
        (pod("p", {"initContainers": [{"name": "c", "image": "i"}]}), "spec.initContainers[0].name", "Duplicate"),
        (pod("p", {"tolerations": [{"operator": "Equal"}]}), "spec.tolerations[0].operator", "Invalid"),
        (pod("p", {"activeDeadlineSeconds": 0}), "spec.activeDeadlineSeconds", "Invalid"),
        (pod("p", {"volumes": [{"name": "v"}, {"name": "v"}]}), "spec.volumes[1].name", "Duplicate"),
        (pod("Bad_Pod"), "metadata.name", "Invalid"),
    ],
)
def test_pods_that_are_refused(api: Api, body: Object, field: str, reason: str) -> None:
    assert (field, f"FieldValue{reason}") in refusal(api, body, "", "v1", "pods", "default")


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": 1}}, "Burstable"),
        ({"limits": {"cpu": 1}}, "Burstable"),
        ({"limits": {"cpu": 1, "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"nvidia.com/gpu": 1}}, "BestEffort"),
    ],
)
def test_quality_of_service(api: Api, resources: Object, quality: str) -> None:
    body = pod("x", resources=resources)
    body["metadata"] = {"generateName": "qos-"}
    entry = api.create(api.kind("", "v1", "pods"), "default", body)
    assert entry.object["status"]["qosClass"] == quality


QUEUE = "scheduler.tensorstack.dev"


def queue(spec: Object) -> Object:
    return {"apiVersion": f"{QUEUE}/v1beta1", "kind": "Queue", "metadata": {"generateName": "q-"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"priority": 101}, "spec.priority"),
        ({"priority": -1}, "spec.priority"),
        ({"priority": 1.5}, "spec.priority"),
        ({"maxDuration": "1.5h"}, "spec.maxDuration"),
        ({"maxDuration": "45m2h"}, "spec.maxDuration"),
        ({"maxDuration": "90"}, "spec.maxDuration"),
        ({"ordering": "Random"}, "spec.ordering"),
        ({"overQuota": "Maybe"}, "spec.overQuota"),
        ({"quota": {"requests": {"cpu": "-1"}}}, "spec.quota.requests.cpu"),
        ({"quota": {"requests": {"cpu": -1}}}, "spec.quota.requests.cpu"),
        ({"quota": {"requests": {"cpu": "much"}}}, "spec.quota.requests.cpu"),
        ({"preemptible": "yes"}, "spec.preemptible"),
        ({"starvation": {"after": "soon"}}, "spec.starvation.after"),
        ({"starvation": {"after": ""}}, "spec.starvation.after"),
        ({"starvation": {"maxHeldShare": "101%"}}, "spec.starvation.maxHeldShare"),
        ({"startWindows": [{"from": "20:00"}]}, "spec.startWindows[0].to"),
        ({"startWindows": [{"from": "9:00", "to": "10:00"}]}, "spec.startWindows[0].from"),
        ({"startWindows": [{"from": "20:00", "to": "24:01"}]}, "spec.startWindows[0].to"),
        ({"startWindows": [{"from": "20:00", "to": "20:00"}]}, "spec.startWindows[0]"),
        ({"startWindows": [{"from": "24:00", "to": "00:00"}]}, "spec.startWindows[0]"),
        ({"startWindows": [{"from": "20:00", "to": "06:00", "days": ["Monday"]}]}, "spec.startWindows[0].days[0]"),
        ({"startWindows": [{"from": "20:00", "to": "06:00", "days": []}]}, "spec.startWindows[0].days"),
        ({"startWindows": [{"from": "20:00", "to": "06:00", "timeZone": "+08:00"}]}, "spec.startWindows[0].timeZone"),
        ({"nodeSelector": {"matchExpressions": [{"operator": "In"}]}}, "spec.nodeSelector.matchExpressions[0].key"),
    ],
)
def test_queues_that_are_refused(api: Api, spec: Object, field: str) -> None:
    assert field in [at for at, _ in refusal(api, queue(spec), QUEUE, "v1beta1", "queues", "t9k-system")]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {
            "priority": 100,
            "maxDuration": "3d12h",
            "quota": {"requests": {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": 16}},
        },
        {"maxDuration": ""},
        {"maxDuration": "0", "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
        {
            "ordering": "Strict",
            "overQuota": "Reject",
            "maxDurationFrom": "Creation",
            "closed": True,
            "preemptible": False,
        },
        {"starvation": {"after": "0", "maxHeldShare": "20%"}},
        {"startWindows": []},
        {
            "startWindows": [
                {"from": "20:00", "to": "06:00", "days": ["Mon", "Fri"], "timeZone": "America/Argentina/Ushuaia"},
                {"from": "00:00", "to": "24:00"},
            ]
        },
    ],
)
def test_queues_that_are_taken_as_written(api: Api, spec: Object) -> None:
    entry = api.create(api.kind(QUEUE, "v1beta1", "queues"), "t9k-system", queue(spec))
    assert entry.object["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": 0}, "spec.minMember"),
        ({"priority": 200}, "spec.priority"),
        ({"topologyPolicy": "Close"}, "spec.topologyPolicy"),
        ({"roles": [{"minMember": 1}]}, "spec.roles[0].name"),
        ({"roles": [{"name": "a"}, {"name": "a"}]}, "spec.roles[1]"),
    ],
)
def test_pod_groups_that_are_refused(api: Api, spec: Object, field: str) -> None:
    body = {"apiVersion": f"{QUEUE}/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    assert field in [at for at, _ in refusal(api, body, QUEUE, "v1beta1", "podgroups", "default")]


def test_a_pod_template_of_a_job_is_kept_whole(api: Api) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "anything": {"goes": 1}}]}}
    spec = {
        "replicaSpecs": [{"type": "worker", "template": template}],
        "torchrunConfig": {"enabled": True},
    }
    body = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "PyTorchTrainingJob",
        "metadata": {"name": "j"},
        "spec": spec,
    }
    kind = api.kind("batch.tensorstack.dev", "v1beta1", "pytorchtrainingjobs")
    unknown = {**body, "spec": {**spec, "future": True}}
    assert api.create(kind, "default", unknown).object["spec"] == spec, "without the field that nothing knows"


@pytest.mark.parametrize(
    ("rule", "wanted", "allowed"),
    [
        (
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            Attributes("get", "", "pods", "", "default"),
            True,
        ),
        (
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            Attributes("list", "", "pods", "", "default"),
            False,
        ),
        (
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
            Attributes("create", "", "pods", "binding"),
            False,
        ),
        (
            {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
            Attributes("create", "", "pods", "binding"),
            True,
        ),
        (
            {"apiGroups": [""], "resources": ["*/status"], "verbs": ["patch"]},
            Attributes("patch", "", "nodes", "status"),
            True,
        ),
        ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, Attributes("delete", "apps", "deployments"), True),
        ({"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]}, Attributes("get", "", "jobs"), False),
        (
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]},
            Attributes("get", "", "pods", "", "default", "b"),
            False,
        ),
        ({"nonResourceURLs": ["/metrics*"], "verbs": ["get"]}, Attributes("get", path="/metrics/x"), True),
        ({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}, Attributes("get", path="/other"), False),
    ],
)
def test_roles(rule: Object, wanted: Attributes, allowed: bool) -> None:
    storage = Storage()
    api = Api(storage, Registry())
    group = "rbac.authorization.k8s.io"
    user = User("u", ("system:authenticated", "team"))
    assert not Authorizer(storage).allows(user, wanted)
    api.create(api.kind(group, "v1", "clusterroles"), None, {"metadata": {"name": "r"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "b"},
        "subjects": [{"kind": "Group", "name": "team"}],
        "roleRef": {"kind": "ClusterRole", "name": "r"},
    }
    api.create(api.kind(group, "v1", "clusterrolebindings"), None, binding)
    assert Authorizer(storage).allows(user, wanted) is allowed


def owned(name: str, *owners: Object, block: bool = True) -> Object:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        for owner in owners
    ]
    return {
        "metadata": {"name": name, "ownerReferences": [{**entry, "blockOwnerDeletion": block} for entry in references]}
    }


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("Background", {"other", "shared"}),
        ("Foreground", {"other", "shared"}),
        ("Orphan", {"child", "grandchild", "other", "shared"}),
    ],
)
async def test_what_an_owner_leaves_behind(policy: str, left: set[str]) -> None:
    api = Api(Storage(), Registry())
    install(api, [])
    collector = GarbageCollector(api)
    kind = api.kind("", "v1", "configmaps")

    def make(body: Object) -> Object:
        return api.create(kind, "default", body).object

    owner, other = make({"metadata": {"name": "owner"}}), make({"metadata": {"name": "other"}})
    child = make(owned("child", owner))
    make(owned("grandchild", child))
    make(owned("shared", owner, other))
    api.delete(kind, "default", "owner", DeleteOptions(propagation=policy))
    collector.work()
    found = {entry.object["metadata"]["name"]: entry.object for entry in api.collection(kind).range("default/")}
    assert set(found) == left
    uids = {item["metadata"]["uid"] for item in found.values()}
    references = [ref["uid"] for item in found.values() for ref in item["metadata"].get("ownerReferences", ())]
    assert set(references) <= uids


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (192, "3m12s"),
        (3600, "60m"),
        (10800, "3h"),
        (28800, "8h"),
        (172800, "2d"),
        (864000, "10d"),
    ],
)
def test_ages(seconds: int, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_definition_waits_for_objects_that_finalizers_hold() -> None:
    api = Api(Storage(), Registry())
    Definitions(api)
    install(api, [])
    crds = api.kind("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    queues = api.kind(QUEUE, "v1beta1", "queues")
    body = queue({})
    body["metadata"] = {"name": "held", "finalizers": ["example.com/hold"]}
    api.create(queues, "t9k-system", body)
    api.delete(crds, None, "queues.scheduler.tensorstack.dev")
    assert "deletionTimestamp" in api.get(queues, "t9k-system", "held").object["metadata"]
    assert api.get(crds, None, "queues.scheduler.tensorstack.dev")
    patch = {"metadata": {"finalizers": None}}
    api.patch(queues, "t9k-system", "held", patch, "application/merge-patch+json")
    assert api.registry.find(QUEUE, "v1beta1", "queues") is None
    assert "queues.scheduler.tensorstack.dev" not in api.collection(crds).entries


EXAMPLES = [
    pytest.param(document, id=f"{path.stem}-{document['kind']}")
    for path in sorted(folder("examples").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if document and "kind" in document  # a queue is no Kubernetes object
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_taken_without_an_unknown_field(api: Api, example: Object) -> None:
    group, _, version = example["apiVersion"].rpartition("/")
    kind = next(
        kind
        for kind in api.registry.all()
        if (kind.group, kind.version, kind.kind) == (group, version, example["kind"])
    )
    namespace = example["metadata"].get("namespace", "default")
    body = {**example, "metadata": {**example["metadata"], "namespace": namespace}}
    api.create(kind, namespace, body, WriteOptions(validation="Strict", dry_run=True))
