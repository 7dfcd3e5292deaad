"""What an uninstallation would do, from objects: whom it tells, what it hands back, what it leaves, what goes."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from t9ksched.cli.manifests.chart import installed_names, objects, render
from t9ksched.cli.manifests.values import Egress, NetworkPolicy, Values
from t9ksched.kube.resources import (
    CLUSTERROLES,
    CRDS,
    CRONJOBS,
    DAEMONSETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    REPLICASETS,
    SECRETS,
    SERVICES,
    STATEFULSETS,
)
from t9ksched.kube.setup.removal import INSTALLED, Found, Step, steps
from t9ksched.model.api_resource import Resource

Json = dict[str, Any]
NOW = datetime(2031, 1, 2, tzinfo=UTC)
DEPLOY = Path(__file__).parents[4] / "deploy"
BY_KIND = {one.kind: one for one in INSTALLED}
NETWORK_POLICIES, PRIORITY_CLASSES = BY_KIND["NetworkPolicy"], BY_KIND["PriorityClass"]
EGRESS = Values(network_policy=NetworkPolicy(egress=Egress(enabled=True)))
QUEUES = Resource("scheduler.tensorstack.dev", "v1beta1", "queues", "Queue")


def obj(name: str, owner: tuple[str, str, str] | None = None, **more: Any) -> Json:
    metadata: Json = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "7"}
    if owner is not None:
        api_version, kind, of = owner
        reference = {"apiVersion": api_version, "kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}
        metadata["ownerReferences"] = [reference]
    return {"metadata": metadata | more.pop("metadata", {}), **more}


def pod(name: str, owner: tuple[str, str, str] | None = None, node: str = "", scheduler: str = "t9k-scheduler") -> Json:
    spec = {"schedulerName": scheduler, "containers": []} | ({"nodeName": node} if node else {})
    return obj(name, owner, spec=spec, status={"phase": "Running" if node else "Pending"})


def planned(*pods: Json, kinds: bool = False, **found: Any) -> list[Step]:
    given: Json = {"owners": {}, "installed": {}, "nodes": (), "definitions": (), "kept": {}, "named": ()} | found
    return steps(Found(pods=pods, **given), kinds=kinds, now=NOW)


def short(those: list[Step]) -> list[tuple[str, str, str]]:
    return [(one.verb, one.resource.api_kind, one.name) for one in those]


TEMPLATE = {"metadata": {"labels": {"a": "b", "controller-uid": "x"}}, "spec": {"schedulerName": "t9k-scheduler"}}


def test_pods_of_others_and_pods_that_ended_are_left_out() -> None:
    done = pod("done")
    done["status"]["phase"] = "Succeeded"
    going = pod("going")
    going["metadata"]["deletionTimestamp"] = "2031-01-01T00:00:00Z"
    assert planned(done, going, pod("theirs", scheduler="volcano")) == []


def test_a_pod_is_made_again_without_what_the_server_gave_it() -> None:
    (told, back) = planned(pod("p", ("batch.tensorstack.dev/v1beta1", "PyTorchTrainingJob", "j")))
    assert (told.verb, told.name, told.body and told.body["type"]) == ("tell", "PyTorchTrainingJob/j", "Warning")
    assert back.body is not None
    assert back.body["spec"] == {"schedulerName": "default-scheduler", "containers": []}
    assert back.body["metadata"].keys() == {"name", "namespace", "ownerReferences"}
    assert back.uid == "uid-p"
    last = planned(pod("p", ("batch.tensorstack.dev/v1beta1", "PyTorchTrainingJob", "j")), kinds=True)[-1]
    assert last.body is not None
    assert "ownerReferences" not in last.body["metadata"]


def test_what_runs_is_told_and_never_touched() -> None:
    definition = {"metadata": {"name": "queues.scheduler.tensorstack.dev"}}
    queue = obj("q")
    those = planned(pod("r", node="n"), kinds=True, definitions=[definition], kept={QUEUES: [queue]})
    assert short(those) == [
        ("tell", "Event", "Pod/r"),
        ("release", "Queue", "q"),
        ("delete", CRDS.kind, "queues.scheduler.tensorstack.dev"),
    ]
    assert those[0].body is not None
    assert those[0].body["type"] == "Normal"


def test_controllers_of_the_cluster_are_changed_unless_something_of_them_runs() -> None:
    owners = {
        DEPLOYMENTS: [obj("web", spec={"template": TEMPLATE}), obj("busy", spec={"template": TEMPLATE})],
        REPLICASETS: [obj("web-1", ("apps/v1", "Deployment", "web")), obj("busy-1", ("apps/v1", "Deployment", "busy"))],
        STATEFULSETS: [obj("db", spec={"template": TEMPLATE})],
    }
    those = planned(
        pod("w", ("apps/v1", "ReplicaSet", "web-1")),
        pod("b", ("apps/v1", "ReplicaSet", "busy-1")),
        pod("b2", ("apps/v1", "ReplicaSet", "busy-1"), node="n"),
        pod("db-0", ("apps/v1", "StatefulSet", "db")),
        owners=owners,
    )
    assert [one for one in short(those) if one[0] != "tell"] == [
        ("change", "Deployment", "web"),
        ("leave", "Pod", "b"),
        ("change", "StatefulSet", "db"),
        ("delete", "Pod", "db-0"),
    ]
    assert {one.name for one in those if one.verb == "tell"} == {"Deployment/web", "Deployment/busy", "StatefulSet/db"}


def test_a_job_is_made_again_if_nothing_of_it_began() -> None:
    job = obj("j", spec={"selector": {"matchLabels": {"controller-uid": "x"}}, "template": TEMPLATE})
    begun = obj("k", spec={"template": TEMPLATE}, status={"succeeded": 1})
    jobs = {JOBS: [job, begun]}
    those = planned(pod("a", ("batch/v1", "Job", "j")), pod("c", ("batch/v1", "Job", "k")), owners=jobs)
    made = next(one for one in those if one.verb == "hand back")
    assert made.body == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "labels": {}},
        "spec": {
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"schedulerName": "default-scheduler"}},
        },
    }
    assert [one.name for one in those if one.verb == "leave"] == ["c"]


def test_what_makes_pods_later_is_changed_or_named() -> None:
    """Nothing of these waits now; what runs is not restarted."""
    spec = {"template": TEMPLATE}
    on_delete = spec | {"updateStrategy": {"type": "OnDelete"}}
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    owners = {
        DEPLOYMENTS: [
            obj("zero", spec=spec | {"replicas": 0}),
            obj("busy", spec=spec),
            obj("theirs", spec={"template": {"spec": {}}}),
            obj("made", ("example.com/v1", "App", "app"), spec=spec),
        ],
        REPLICASETS: [obj("busy-1", ("apps/v1", "Deployment", "busy"), spec=spec), obj("rs", spec=spec)],
        STATEFULSETS: [obj("empty", spec=spec), obj("by-hand", spec=on_delete)],
        DAEMONSETS: [obj("agent", spec=spec), obj("nowhere", spec=spec)],
        JOBS: [
            obj("susp", spec=spec | {"suspend": True}),
            obj("goes", spec=spec),
            obj("half", spec=spec, status={"succeeded": 1}),
            obj("done", spec=spec, status=ended),
            obj("tonight-1", ("batch/v1", "CronJob", "tonight"), spec=spec | {"suspend": True}),
        ],
        CRONJOBS: [obj("tonight", spec={"jobTemplate": {"spec": spec}})],
    }
    those = planned(
        pod("b", ("apps/v1", "ReplicaSet", "busy-1"), node="n", scheduler="default-scheduler"),
        pod("r", ("apps/v1", "ReplicaSet", "rs"), node="n"),
        pod("h", ("apps/v1", "StatefulSet", "by-hand"), node="n"),
        pod("a", ("apps/v1", "DaemonSet", "agent"), node="n"),
        pod("g", ("batch/v1", "Job", "goes"), node="n"),
        owners=owners,
    )
    assert [one for one in short(those) if one[0] != "tell"] == [
        ("change", "Deployment", "zero"),
        ("leave", "Deployment", "busy"),
        ("leave", "Deployment", "made"),
        ("change", "ReplicaSet", "rs"),
        ("change", "StatefulSet", "empty"),
        ("change", "StatefulSet", "by-hand"),
        ("leave", "DaemonSet", "agent"),
        ("change", "DaemonSet", "nowhere"),
        ("hand back", "Job", "susp"),
        ("leave", "Job", "goes"),
        ("leave", "Job", "half"),
        ("hand back", "Job", "tonight-1"),
        ("change", "CronJob", "tonight"),
    ]
    changed = {"spec": {"template": {"spec": {"schedulerName": "default-scheduler"}}}}
    bodies = {one.name: one.body for one in those}
    assert (bodies["zero"], bodies["tonight"]) == (changed, {"spec": {"jobTemplate": changed}})
    susp = bodies["susp"]
    assert susp is not None
    assert susp["spec"]["suspend"] is True


def test_annotations_of_nodes_go() -> None:
    cordoned = {"scheduler.tensorstack.dev/cordoned-cards": "0", "mine": "1"}
    (step,) = planned(nodes=[obj("n", metadata={"annotations": cordoned}), obj("m")])
    assert step.body == {"metadata": {"annotations": {"scheduler.tensorstack.dev/cordoned-cards": None}}}


PART_OF = {"app.kubernetes.io/part-of": "t9ksched"}
OF_DATABASE = ("postgresql.cnpg.io/v1", "Cluster", "t9ksched-db")


def system(name: str, owner: tuple[str, str, str] | None = None, **labels: str) -> Json:
    return obj(name, owner, metadata={"namespace": "t9k-system", "labels": labels})


def installed(**found: Any) -> list[tuple[str, str, str]]:
    return short(planned(named=installed_names(), **found))


def test_only_what_the_installation_made_is_deleted() -> None:
    """Roles, priorities, Secrets, policies and leases of others stay, whatever their names begin with."""
    there = {
        SERVICES: [system("t9ksched-api"), system("t9ksched-mine"), system("t9ksched-db-rw", OF_DATABASE)],
        NETWORK_POLICIES: [system("t9ksched-egress"), system("t9ksched-db")],
        SECRETS: [system("t9ksched"), system("t9ksched-mine", **PART_OF), system("other", **PART_OF)],
        LEASES: [system("t9k-scheduler"), system("t9ksched-controller-standby"), system("t9ksched-other")],
        PRIORITY_CLASSES: [obj("t9ksched"), obj("t9ksched-important")],
        CLUSTERROLES: [
            obj("t9ksched-api-exec"),
            obj("t9k-scheduler-kuberay"),
            obj("t9ksched-teamtools"),
            obj("t9k-own-pods"),
            obj("renamed", metadata={"labels": PART_OF}),
        ],
    }
    assert installed(installed=there) == [
        ("delete", "Service", "t9ksched-api"),
        ("keep", "Service", "t9ksched-mine"),
        ("delete", "NetworkPolicy", "t9ksched-egress"),
        ("keep", "NetworkPolicy", "t9ksched-db"),
        ("keep", "Secret", "t9ksched"),
        ("keep", "Secret", "t9ksched-mine"),
        ("delete", "Lease", "t9k-scheduler"),
        ("delete", "Lease", "t9ksched-controller-standby"),
        ("keep", "Lease", "t9ksched-other"),
        ("delete", "PriorityClass", "t9ksched"),
        ("keep", "PriorityClass", "t9ksched-important"),
        ("delete", "ClusterRole", "t9ksched-api-exec"),
        ("delete", "ClusterRole", "t9k-scheduler-kuberay"),
        ("keep", "ClusterRole", "t9ksched-teamtools"),
        ("delete", "ClusterRole", "renamed"),
    ]
    assert installed(installed={SERVICES: [obj("t9ksched-api")]}) == [], "in a namespace of others"


def test_nobody_is_told_when_there_is_only_what_stays() -> None:
    assert installed(installed={SECRETS: [system("t9ksched")]}) == [("keep", "Secret", "t9ksched")]
    running = planned(pod("r", node="n"), installed={SECRETS: [system("t9ksched")]})
    assert short(running) == [("keep", "Secret", "t9ksched")]


def test_everything_that_can_be_installed_is_found() -> None:
    """But the namespace, in which other things may be."""
    kinds, named = {one.kind for one in INSTALLED}, installed_names()
    for folder in ("base", "foreign", "overlays/exec"):
        for file in (DEPLOY / folder).glob("*.yaml"):
            for one in yaml.safe_load_all(file.read_text()):
                if one["kind"] not in ("Namespace", "Kustomization"):
                    assert one["kind"] in kinds, file
                    assert (one["kind"], one["metadata"]["name"]) in named, file


def test_the_job_of_the_way_back_reaches_the_database() -> None:
    """Its label is one that the policies of the chart and of the example's database let through."""
    page = (DEPLOY.parent / "docs/operations/upgrade.md").read_text()
    job = next(one for text in page.split("```yaml\n")[1:] for one in yaml.safe_load_all(text.split("```")[0]))
    label = job["spec"]["template"]["metadata"]["labels"]["app"]
    policies = {
        one["metadata"]["name"]: one["spec"] for one in objects(render(EGRESS)) if one["kind"] == "NetworkPolicy"
    }
    assert label in policies["t9ksched-egress"]["podSelector"]["matchExpressions"][0]["values"]
    text = (DEPLOY / "postgresql/cloudnative-pg.yaml").read_text()
    database = next(one for one in yaml.safe_load_all(text) if one["kind"] == "NetworkPolicy")
    assert label in database["spec"]["ingress"][0]["from"][0]["podSelector"]["matchExpressions"][0]["values"]
