"""Bad input, one row a fault: the path of the field and a word of the message. Nothing malformed may raise."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.workloads.read import validate
from tests.unit.workloads.builders import block, container, mpi_v1, mpi_v2, notebook, obj, pytorch, template

CONTAINER = "spec.replicaSpecs[0].template.spec.containers[0]"
LONG = "c" * 44


def with_container(**change: Any) -> dict[str, Any]:
    job = pytorch()
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0].update(change)
    return job


def with_resources(requests: Any = None, limits: Any = None) -> dict[str, Any]:
    return with_container(resources={"requests": requests, "limits": limits})


def with_spec(**change: Any) -> dict[str, Any]:
    job = pytorch()
    job["spec"].update(change)
    return job


def with_replica(**change: Any) -> dict[str, Any]:
    job = pytorch()
    job["spec"]["replicaSpecs"][0].update(change)
    return job


def with_pod(**change: Any) -> dict[str, Any]:
    job = pytorch()
    job["spec"]["replicaSpecs"][0]["template"]["spec"].update(change)
    return job


def named(job: dict[str, Any], name: Any) -> dict[str, Any]:
    job["metadata"]["name"] = name
    return job


def priority(value: Any) -> dict[str, Any]:
    return with_spec(scheduler={"t9kScheduler": {"queue": "q", "priority": value}})


ELASTIC = {"torchrunConfig": {"enabled": True}}

TABLE: list[tuple[dict[str, Any], str, str]] = [
    # amounts
    (with_resources({"cpu": "-1"}), f"{CONTAINER}.resources.requests.cpu", "negative"),
    (with_resources({"memory": "1 apple"}), f"{CONTAINER}.resources.requests.memory", "not a quantity"),
    (with_resources({"cpu": None}), f"{CONTAINER}.resources.requests.cpu", "empty"),
    (with_resources({"cpu": True}), f"{CONTAINER}.resources.requests.cpu", "not a quantity"),
    (with_resources({"cpu": 2}, {"cpu": 1}), f"{CONTAINER}.resources.requests.cpu", "more than the limit"),
    (with_resources({"nvidia.com/gpu": 2}), f"{CONTAINER}.resources.limits[nvidia.com/gpu]", "is missing"),
    (
        with_resources({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 4}),
        f"{CONTAINER}.resources.limits[nvidia.com/gpu]",
        "is 4, but the request is 1",
    ),
    (with_resources(None, {"nvidia.com/gpu": "0.5"}), f"{CONTAINER}.resources.limits[nvidia.com/gpu]", "whole"),
    (
        with_resources(None, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1024, "nvidia.com/gpumem-percentage": 50}),
        f"{CONTAINER}.resources.limits[nvidia.com/gpumem-percentage]",
        "together",
    ),
    (with_resources("much"), f"{CONTAINER}.resources.requests", "must be a mapping"),
    # containers
    (with_container(name=LONG, resources={"limits": {"nvidia.com/gpu": 1}}), f"{CONTAINER}.name", "at most 43"),
    (with_container(name=""), f"{CONTAINER}.name", "is missing"),
    (with_container(name="Upper"), f"{CONTAINER}.name", "not a valid name"),
    (with_container(image=None), f"{CONTAINER}.image", "is missing"),
    (with_pod(containers=[]), "spec.replicaSpecs[0].template.spec.containers", "at least one"),
    (with_pod(containers="x"), "spec.replicaSpecs[0].template.spec.containers", "must be a list"),
    (with_pod(containers=["x"]), CONTAINER, "must be a mapping"),
    (
        with_pod(containers=[container("a"), container("a")]),
        "spec.replicaSpecs[0].template.spec.containers[1].name",
        "two containers",
    ),
    (
        with_pod(initContainers=[container(LONG, gpu=1)]),
        "spec.replicaSpecs[0].template.spec.initContainers[0].name",
        "at most 43",
    ),
    (with_pod(nodeSelector={"a": 1}), "spec.replicaSpecs[0].template.spec.nodeSelector.a", "must be a text"),
    (
        with_pod(tolerations="all"),
        "spec.replicaSpecs[0].template.spec.tolerations",
        "is not what a pod has there: expected `array",
    ),
    (with_pod(volumes=[None]), "spec.replicaSpecs[0].template.spec.volumes[0]", "is null"),
    (with_pod(tolerations=[{}, None]), "spec.replicaSpecs[0].template.spec.tolerations[1]", "is null"),
    (
        with_pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [None]}}),
        "spec.replicaSpecs[0].template.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]",
        "is null",
    ),
    (
        with_pod(containers=[{"name": "a", "image": "i", "env": [{"name": "A"}, None]}]),
        "spec.replicaSpecs[0].template.spec.containers[0].env[1]",
        "is null",
    ),
    (
        with_pod(containers=[{"name": "a", "image": "i", "ports": [{"containerPort": "x"}]}]),
        "spec.replicaSpecs[0].template.spec.containers[0].ports[0].containerPort",
        "is not what a pod has there",
    ),
    (
        with_pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 3}}),
        "spec.replicaSpecs[0].template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "must be a mapping",
    ),
    (with_replica(template=None), "spec.replicaSpecs[0].template.spec.containers", "is missing"),
    (
        with_replica(template=template(metadata={"labels": {"bad key!": "x"}})),
        "spec.replicaSpecs[0].template.metadata.labels.bad key!",
        "not a label key",
    ),
    # the job
    (priority(101), "spec.scheduler.t9kScheduler.priority", "0 to 100"),
    (priority(-1), "spec.scheduler.t9kScheduler.priority", "0 to 100"),
    (priority("high"), "spec.scheduler.t9kScheduler.priority", "0 to 100"),
    (priority(True), "spec.scheduler.t9kScheduler.priority", "0 to 100"),
    (with_spec(scheduler="t9k"), "spec.scheduler", "must be a mapping"),
    (with_spec(scheduler={"t9kScheduler": []}), "spec.scheduler.t9kScheduler", "must be a mapping"),
    (with_spec(scheduler=block("no such name!")), "spec.scheduler.t9kScheduler.queue", "queue name"),
    (with_spec(scheduler={"t9kScheduler": {"queue": 7}}), "spec.scheduler.t9kScheduler.queue", "must be a text"),
    (with_spec(replicaSpecs=None), "spec.replicaSpecs", "is missing"),
    (with_spec(replicaSpecs=[]), "spec.replicaSpecs", "is missing"),
    (with_spec(replicaSpecs={}), "spec.replicaSpecs", "must be a list"),
    (with_spec(replicaSpecs=[3]), "spec.replicaSpecs[0]", "must be a mapping"),
    (with_replica(replicas=-1), "spec.replicaSpecs[0].replicas", "out of range"),
    (with_replica(replicas="2"), "spec.replicaSpecs[0].replicas", "out of range"),
    (with_replica(replicas=0), "spec.replicaSpecs[0].replicas", "holds the master"),
    (with_replica(type=None), "spec.replicaSpecs[0].type", "is missing"),
    (with_replica(type="a_b"), "spec.replicaSpecs[0].type", "pod names"),
    (with_replica(restartPolicy="Sometimes"), "spec.replicaSpecs[0].restartPolicy", "Never, OnFailure"),
    (
        with_spec(replicaSpecs=[{"type": "w", "template": template()}, {"type": "W", "template": template()}]),
        "spec.replicaSpecs[1].type",
        "twice",
    ),
    (with_spec(runPolicy={"activeDeadlineSeconds": 0}), "spec.runPolicy.activeDeadlineSeconds", "from 1"),
    (with_spec(runPolicy={"backoffLimit": -1}), "spec.runPolicy.backoffLimit", "from 0"),
    (with_spec(runPolicy={"cleanUpPolicy": "Some"}), "spec.runPolicy.cleanUpPolicy", "Unfinished"),
    (with_spec(runMode={"pause": {"enabled": "yes"}}), "spec.runMode.pause.enabled", "true or false"),
    (
        with_spec(elastic={"enabled": True, "minReplicas": 4, "maxReplicas": 2}, **ELASTIC),
        "spec.elastic.maxReplicas",
        "less than minReplicas",
    ),
    (
        with_spec(elastic={"enabled": True, "minReplicas": 2, "maxReplicas": 4, "expectedReplicas": 5}, **ELASTIC),
        "spec.elastic.expectedReplicas",
        "outside the range 2 to 4",
    ),
    (with_spec(elastic={"enabled": True, "minReplicas": 1}), "spec.elastic.enabled", "torchrun"),
    (
        with_spec(torchrunConfig={"enabled": True, "rdzvBackend": "etcd"}),
        "spec.torchrunConfig.rdzvBackend",
        "--rdzv_endpoint",
    ),
    (
        with_spec(torchrunConfig={"enabled": True, "rdzvBackend": "etcd-v2", "extraOptions": ["--rdzv_conf=a=b"]}),
        "spec.torchrunConfig.rdzvBackend",
        "is etcd-v2, but nothing says where that is",
    ),
    (with_spec(torchrunConfig={"enabled": True, "procPerNode": "all"}), "spec.torchrunConfig.procPerNode", "gpu"),
    # names
    (named(pytorch(), None), "metadata.name", "is missing"),
    (named(pytorch(), 5), "metadata.name", "must be a text"),
    (named(pytorch(), "Net"), "metadata.name", "not a valid name"),
    (named(pytorch(), "9net"), "metadata.name", "begin with a letter"),
    (named(pytorch(), "a.b"), "metadata.name", "begin with a letter"),
    (named(pytorch(), "n" * 60), "metadata.name", "at most 54"),
    (named(notebook(), "n" * 50), "metadata.name", "at most 44"),
    (named(obj("Job", {"template": template()}, "batch/v1"), "n" * 64), "metadata.name", "at most 63"),
    (named(obj("StatefulSet", {"template": template()}, "apps/v1"), "n" * 53), "metadata.name", "at most 52"),
    (named(obj("PodGroup", {}, "scheduler.tensorstack.dev/v1beta1"), "n" * 64), "metadata.name", "at most 63"),
    (obj("PyTorchTrainingJob", None), "spec", "is missing"),  # type: ignore[arg-type]
    (obj("PyTorchTrainingJob", []), "spec", "must be a mapping"),  # type: ignore[arg-type]
    # other kinds
    (mpi_v1(worker={"template": template()}), "spec.worker.cmd", "is missing"),
    (mpi_v1(ssh={"sshdPath": "sshd"}), "spec.ssh.sshdPath", "not absolute"),
    (mpi_v1(ssh={"sshAuthMountPath": "keys"}), "spec.ssh.sshAuthMountPath", "not absolute"),
    (mpi_v2(replicaSpecs=[{"type": "launcher", "template": template()}]), "spec.replicaSpecs", "no entry of type work"),
    (mpi_v2(worker={"type": "helper"}), "spec.replicaSpecs[1].type", "launcher, worker"),
    (mpi_v2(worker={"restartPolicy": "Never"}), "spec.replicaSpecs[1].restartPolicy", "must be a mapping"),
    (notebook(template=None), "spec.template.spec.containers", "is missing"),
    (notebook(suspend="yes"), "spec.suspend", "true or false"),
    (notebook(ssh={"enabled": True, "serviceType": "Open"}), "spec.ssh.serviceType", "ClusterIP"),
    (
        obj("XGBoostTrainingJob", {"replicaSpecs": [{"type": "worker", "template": template()}]}),
        "spec.replicaSpecs",
        "no entry of type master",
    ),
    (
        obj("SimpleMLService", {"custom": template(), "pytorch": {}}, "tensorstack.dev/v1beta1"),
        "spec",
        "pytorch and custom",
    ),
    (obj("MLService", {"releases": []}, "tensorstack.dev/v1beta1"), "spec.releases", "is missing"),
    (
        obj("PodGroup", {"minMember": 0}, "scheduler.tensorstack.dev/v1beta1"),
        "spec.minMember",
        "from 1",
    ),
    (obj("Pod", {"containers": [container(LONG, gpu=1)]}, "v1"), "spec.containers[0].name", "at most 43"),
    (obj("Job", {"template": {"spec": {}}}, "batch/v1"), "spec.template.spec.containers", "is missing"),
]


@pytest.mark.parametrize(("given_object", "path", "word"), TABLE)
def test_each_fault_has_its_path(given_object: dict[str, Any], path: str, word: str) -> None:
    faults = validate(given_object)
    assert [fault.path for fault in faults] == [path], faults
    assert word in faults[0].message


def test_all_faults_at_once() -> None:
    job = with_resources({"cpu": "-1", "memory": "x"}, {"nvidia.com/gpu": 0.5})
    job["spec"]["scheduler"]["t9kScheduler"]["priority"] = 500
    job["spec"]["runPolicy"] = {"backoffLimit": "many"}
    assert len(validate(job)) == 5


@pytest.mark.parametrize(
    "given_object",
    [
        with_container(name=LONG),  # long names matter only with cards
        with_resources(None, {"nvidia.com/gpu": 0}),
        with_resources({"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": 2}),
        with_resources({"cpu": 0.5, "memory": "1e9"}),
        obj("Pod", {"containers": [container()]}, "v1", name=None, generateName="p-"),
        named(pytorch(), "n" * 54),
        named(obj("Job", {"template": template()}, "batch/v1"), "n" * 63),
        named(obj("StatefulSet", {"template": template()}, "apps/v1"), "n" * 52),
        named(obj("Deployment", {"template": template()}, "apps/v1"), "n" * 99),
        with_spec(runMode=None, runPolicy=None, elastic=None),
        with_spec(torchrunConfig={"enabled": False, "rdzvBackend": "etcd"}),
        with_spec(torchrunConfig={"enabled": True, "rdzvBackend": "etcd", "extraOptions": ["--rdzv-endpoint", "e:1"]}),
        with_spec(torchrunConfig={"enabled": True, "rdzvBackend": "etcd-v2", "extraOptions": ["--rdzv_endpoint=e:1"]}),
        with_spec(torchrunConfig={"enabled": True, "rdzvBackend": "etcd"})
        | {
            "spec": {
                **with_container(env=[{"name": "PET_RDZV_ENDPOINT", "value": "e:1"}])["spec"],
                "torchrunConfig": {"enabled": True, "rdzvBackend": "etcd"},
            }
        },
    ],
)
def test_what_is_fine(given_object: dict[str, Any]) -> None:
    assert validate(given_object) == []


SAMPLES = [pytorch(gpu=1), mpi_v1(gpu=1), mpi_v2(), notebook(), obj("Pod", {"containers": [container()]}, "v1")]
junk = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=4),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        found += [place for key, below in value.items() for place in places(below, (*path, key))]
    if isinstance(value, list):
        found += [place for index, below in enumerate(value) for place in places(below, (*path, index))]
    return found


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_junk_anywhere_is_reported_not_raised(data: st.DataObject) -> None:
    sample = copy.deepcopy(data.draw(st.sampled_from(SAMPLES)))
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from(places(sample)))
        target: Any = sample
        for key in above:
            target = target[key]
        target[last] = data.draw(junk)
        if not isinstance(sample.get("kind"), str):
            break
    assert all(fault.message for fault in validate(sample))


def test_a_template_of_no_workers_that_cannot_be_read_is_reported_not_raised() -> None:
    template = {"spec": {"containers": [None]}}
    walk = next(copy.deepcopy(one) for one in SAMPLES if one["kind"] == "MPIJob" and "worker" in one["spec"])
    walk["spec"]["worker"] |= {"replicas": 0, "template": template}
    assert validate(walk)


def test_bounds_that_contradict_each_other_are_told_once() -> None:
    (fault,) = validate(
        with_spec(elastic={"enabled": True, "minReplicas": 3, "maxReplicas": 2, "expectedReplicas": 1}, **ELASTIC)
    )
    assert (fault.path, "2 is less than minReplicas 3" in fault.message) == ("spec.elastic.maxReplicas", True)
