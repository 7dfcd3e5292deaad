"""The policies of deploy/admission.yaml, case by case: what our own accounts may write, and what the policies deny."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched.api.submission.kinds import ACCEPTED
from t9ksched.devcluster.apiserver import policies
from t9ksched.devcluster.apiserver.auth import Attributes, User
from t9ksched.devcluster.apiserver.policies import PolicyStrategy, denial
from t9ksched.kube.setup.rbac import API, CONTROLLER, SCHEDULER
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.workloads.keypair import with_keys
from t9ksched.workloads.reconcile import expand
from t9ksched.workloads.registry import CONTROLLED
from tests.unit.workloads.builders import mpi_v1

Object = dict[str, Any]
FILE = Path(__file__).parents[4] / "deploy" / "admission.yaml"
MGPU = {"vke.volcengine.com/assumed": "true", "vke.volcengine.com/gpu-index-container-main": "0,3"}
HAMI = {
    f"hami.io/{name}": "1"
    for name in (
        "vgpu-node",
        "vgpu-time",
        "vgpu-devices-to-allocate",
        "vgpu-devices-allocated",
        "bind-time",
        "bind-phase",
    )
}
GPUSHARE = {f"ALIYUN_COM_GPU_MEM_{name}": "1" for name in ("IDX", "POD", "DEV", "ASSIGNED", "ASSUME_TIME")}
KOORDINATOR = {"scheduling.koordinator.sh/device-allocated": "{}"}
DOCUMENTS: list[Object] = list(yaml.safe_load_all(FILE.read_text()))
POLICIES = [each for each in DOCUMENTS if each["kind"] == "ValidatingAdmissionPolicy"]
for each in POLICIES:
    PolicyStrategy().default(each)

OWNING = Attributes("own", "scheduler.tensorstack.dev", "pods", namespace="lab")
META = {"name": "x", "namespace": "lab", "labels": {"a": "b"}}
EXPANSION = expand(mpi_v1(replicas=1))
CONFIG = EXPANSION.configmaps[0]
SECRET = with_keys(EXPANSION.secrets[0], {"metadata": {"uid": "u"}}, "PRIVATE", "PUBLIC")
TOKEN: Object = {
    "type": "Opaque",
    "metadata": {
        **SECRET["metadata"],
        "name": "hpo-0-uid-results",
        "ownerReferences": [{"kind": "ConfigMap", "name": "hpo-0-trial"}],
    },
}
READY = {"type": "Ready", "status": "True"}
POD: Object = {
    "metadata": META,
    "spec": {"schedulerName": "t9k-scheduler", "containers": [{"name": "c"}]},
    "status": {"phase": "Running", "conditions": [READY]},
}
JOB: Object = {"metadata": META, "spec": {"parallelism": 2, "template": {"spec": {"containers": [{"image": "i"}]}}}}
TRAINING: Object = {"metadata": META, "spec": {"replicaSpecs": [], "runMode": {"debug": {"enabled": False}}}}
SERVICE: Object = {"metadata": META, "spec": {"releases": [], "replicas": 3}}
CLAIM: Object = {"metadata": META, "spec": {"storageClassName": "s"}}
VOLUME: Object = {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}}}
SCALE: Object = {"metadata": META, "spec": {"replicas": 3}, "status": {"replicas": 3}}
BINDING: Object = {
    "metadata": META | {"labels": {}, "annotations": {"scheduler.tensorstack.dev/gpu-index-container-c": "0,1"}},
    "target": {"kind": "Node", "name": "n"},
}
BINDING["metadata"].pop("labels")


def but(obj: Object, **paths: Any) -> Object:
    """The object with fields set, `metadata__labels={}`; None takes one away."""
    found = copy.deepcopy(obj)
    for path, value in paths.items():
        *parents, last = path.split("__")
        place = found
        for part in parents:
            place = place.setdefault(part, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return found


def judged(account: str, operation: str, resource: str, new: Object | None, old: Object | None) -> str:
    """The policy that denies a request, with its message; empty if none does."""
    group, _, name = resource.rpartition(":")
    plural, _, part = name.partition("/")
    ours = account in (SCHEDULER, CONTROLLER, API)
    username = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{account}" if ours else account
    system = username.startswith("system:serviceaccount:kube-system:")
    user = User(username, ("system:serviceaccounts:kube-system",) if system else ())
    meta = (new or old or {})["metadata"]
    request = policies._request(operation, (group, "v1", plural), part, meta, user)
    for policy in POLICIES:
        said = denial(policy, request, new, old, lambda wanted: account == OPERATOR and wanted == OWNING)
        if said is not None:
            return f"{policy['metadata']['name']}: {said[1]}"
    return ""


def conditions(*more: Object) -> Object:
    return but(POD, status__conditions=[*more])


TARGET = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
OWNED = POD | {"metadata": EXPANSION.pods[0]["metadata"]}
PAUSED = {"debug": {"enabled": False}, "pause": {"enabled": True}}
TRAININGS, PLATFORM = "batch.tensorstack.dev:mpijobs", "tensorstack.dev:"
SELECTED = {"volume.kubernetes.io/selected-node": "n"}
RESERVED = {"pv.kubernetes.io/bound-by-controller": "yes"}

NODE: Object = {
    "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {"mine": "1"}},
    "spec": {"podCIDR": "10/8"},
}
CORDONS = {"scheduler.tensorstack.dev/cordoned-cards": "3", "scheduler.tensorstack.dev/cordoned-cards-recorded": "1:3"}
CORDONED = but(NODE, metadata__annotations={"mine": "1"} | CORDONS)

RESUMED = {"debug": {"enabled": False}, "pause": {"enabled": False}}
ELASTIC = {"minReplicas": 1, "maxReplicas": 4, "expectedReplicas": 2}
ELASTIC_JOB = but(TRAINING, spec__elastic=ELASTIC)

ADMITTED: list[tuple[str, str, str, Object | None, Object | None]] = [
    (SCHEDULER, "CREATE", "pods/binding", BINDING, None),
    (SCHEDULER, "CREATE", "pods/binding", but(BINDING, metadata__annotations=None), None),
    (SCHEDULER, "CREATE", "pods/binding", but(BINDING, metadata__annotations=MGPU), None),
    (SCHEDULER, "CREATE", "pods/binding", but(BINDING, metadata__annotations=HAMI), None),
    (SCHEDULER, "CREATE", "pods/binding", but(BINDING, metadata__annotations=GPUSHARE), None),
    (SCHEDULER, "CREATE", "pods/binding", but(BINDING, metadata__annotations=KOORDINATOR), None),
    (SCHEDULER, "UPDATE", "nodes", but(NODE, metadata__annotations={"mine": "1", "hami.io/mutex.lock": "t"}), NODE),
    (SCHEDULER, "CREATE", "pods/binding", but(BINDING, metadata__labels={"topology.kubernetes.io/zone": "z"}), None),
    (SCHEDULER, "UPDATE", "pods/status", conditions(READY, TARGET), POD),
    (SCHEDULER, "UPDATE", "pods/status", conditions(TARGET), but(POD, status__conditions=None)),
    (SCHEDULER, "DELETE", "pods", None, POD),
    (SCHEDULER, "UPDATE", "batch:jobs", but(JOB, spec__suspend=True), JOB),
    (SCHEDULER, "UPDATE", "batch:jobs", but(JOB, spec__suspend=True), but(JOB, spec__suspend=False)),
    (SCHEDULER, "UPDATE", TRAININGS, but(TRAINING, spec__runMode=PAUSED), TRAINING),
    (API, "UPDATE", "batch:jobs", but(JOB, spec__suspend=True), JOB),
    (API, "UPDATE", "batch:jobs", but(JOB, spec__suspend=False), but(JOB, spec__suspend=True)),
    (API, "UPDATE", "batch:jobs", but(JOB, spec__parallelism=9), JOB),
    (API, "UPDATE", TRAININGS, but(TRAINING, spec__runMode=PAUSED), TRAINING),
    (API, "UPDATE", TRAININGS, but(TRAINING, spec__runMode=RESUMED), but(TRAINING, spec__runMode=PAUSED)),
    (API, "UPDATE", TRAININGS, but(TRAINING, spec__elastic=ELASTIC | {"expectedReplicas": 3}), ELASTIC_JOB),
    (API, "UPDATE", PLATFORM + "notebooks", but(JOB, spec__suspend=True), JOB),
    (SCHEDULER, "UPDATE", TRAININGS, but(JOB, spec__runMode={"pause": {"enabled": True}}), JOB),
    (SCHEDULER, "UPDATE", PLATFORM + "notebooks", but(JOB, spec__suspend=True), JOB),
    (SCHEDULER, "UPDATE", PLATFORM + "mlservices", but(JOB, spec__runMode="paused"), but(JOB, spec__runMode="running")),
    (SCHEDULER, "UPDATE", PLATFORM + "simplemlservices", but(SERVICE, spec__replicas=0), SERVICE),
    (SCHEDULER, "UPDATE", "apps:deployments/scale", but(SCALE, spec={}), SCALE),
    (SCHEDULER, "UPDATE", "apps:statefulsets/scale", but(SCALE, spec__replicas=0), SCALE),
    (SCHEDULER, "UPDATE", "persistentvolumeclaims", but(CLAIM, metadata__annotations=SELECTED), CLAIM),
    (SCHEDULER, "UPDATE", "persistentvolumeclaims", CLAIM, but(CLAIM, metadata__annotations=SELECTED)),
    (
        SCHEDULER,
        "UPDATE",
        "persistentvolumes",
        but(VOLUME, spec__claimRef={"name": "x"}, metadata__annotations=RESERVED),
        VOLUME,
    ),
    (
        SCHEDULER,
        "UPDATE",
        "persistentvolumes",
        VOLUME,
        but(VOLUME, spec__claimRef={"name": "x"}, metadata__annotations=RESERVED),
    ),
    (SCHEDULER, "UPDATE", "nodes", CORDONED, NODE),
    (SCHEDULER, "UPDATE", "nodes", NODE, CORDONED),
    (SCHEDULER, "CREATE", "events", {"metadata": META}, None),
    (SCHEDULER, "CREATE", "scheduler.tensorstack.dev:queues", {"metadata": META | {"namespace": "t9k-system"}}, None),
    (CONTROLLER, "CREATE", "configmaps", CONFIG, None),
    (CONTROLLER, "UPDATE", "configmaps", but(CONFIG, data={}), CONFIG),
    (CONTROLLER, "CREATE", "secrets", SECRET, None),
    (CONTROLLER, "CREATE", "secrets", TOKEN, None),
    (CONTROLLER, "CREATE", "pods", OWNED, None),
    (CONTROLLER, "DELETE", "pods", None, OWNED),
    (CONTROLLER, "CREATE", "scheduler.tensorstack.dev:podgroups", EXPANSION.podgroup, None),
    (API, "CREATE", "pods", POD, None),
    (API, "CREATE", "configmaps", CONFIG, None),
    (API, "DELETE", "pods", None, POD),
    ("kubernetes-admin", "UPDATE", "pods/status", but(POD, status__phase="Failed"), POD),
    (
        "system:serviceaccount:kube-system:job-controller",
        "CREATE",
        "pods",
        but(POD, metadata__namespace="kube-system"),
        None,
    ),
    ("system:serviceaccount:lab:t9k-scheduler", "DELETE", "pods", None, but(POD, spec__schedulerName="other")),
]
USER, OPERATOR = "ann", "system:serviceaccount:argo:argo"
JOBS_POD = but(POD, metadata__ownerReferences=[{"kind": "Job", "name": "j", "uid": "u", "controller": True}])
GROUP: Object = {"metadata": META, "spec": {"minMember": 2}}
JOBS_GROUP = GROUP | {"metadata": JOBS_POD["metadata"]}
OURS = but(JOB, spec__template__spec__schedulerName="t9k-scheduler")
KEPT = [{"kind": "ConfigMap", "name": "c", "uid": "u"}]
ADMITTED += [
    (USER, "CREATE", "pods", POD, None),
    (USER, "CREATE", "pods", but(POD, metadata__ownerReferences=KEPT), None),
    (USER, "CREATE", "pods", but(JOBS_POD, spec__schedulerName="default-scheduler"), None),
    (USER, "UPDATE", "pods", but(JOBS_POD, metadata__labels={"a": "c"}), JOBS_POD),
    (USER, "UPDATE", "pods", POD, JOBS_POD),
    (USER, "CREATE", "batch:jobs", JOB | {"metadata": JOBS_POD["metadata"]}, None),
    (USER, "CREATE", "scheduler.tensorstack.dev:podgroups", GROUP, None),
    (OPERATOR, "CREATE", "pods", JOBS_POD, None),
    (OPERATOR, "CREATE", "scheduler.tensorstack.dev:podgroups", JOBS_GROUP, None),
    (CONTROLLER, "CREATE", "pods", OWNED, None),
    ("system:kube-controller-manager", "CREATE", "pods", JOBS_POD, None),
    ("system:serviceaccount:kube-system:job-controller", "CREATE", "pods", JOBS_POD, None),
]
_FORGED = "by the account of a controller only"
DENIED: list[tuple[str, str, str, Object | None, Object | None, str]] = [
    *(
        (account, "CREATE", "pods", but(OWNED, metadata__namespace=namespace), None, "t9ksched-namespaces: ")
        for account in (SCHEDULER, CONTROLLER, API)
        for namespace in ("kube-system", "kube-public", "kube-node-lease")
    ),
    (API, "DELETE", "batch:jobs", None, but(JOB, metadata__namespace="kube-system"), "t9ksched-namespaces: "),
    (SCHEDULER, "CREATE", "events", {"metadata": META | {"namespace": "kube-system"}}, None, "t9ksched-namespaces: "),
    (SCHEDULER, "CREATE", "pods/binding", but(BINDING, target__kind="Pod"), None, "a pod is bound to a Node"),
    (SCHEDULER, "CREATE", "pods/binding", but(BINDING, target__kind=None), None, "a pod is bound to a Node"),
    (
        SCHEDULER,
        "CREATE",
        "pods/binding",
        but(BINDING, metadata__annotations={"cni.example/route": "x"}),
        None,
        "annotations of scheduler.tensorstack.dev and those",
    ),
    (
        SCHEDULER,
        "CREATE",
        "pods/binding",
        but(BINDING, metadata__annotations={"vke.volcengine.com/container-multiple-gpu": "2"}),
        None,
        "annotations of scheduler.tensorstack.dev and those",
    ),
    (SCHEDULER, "CREATE", "pods/binding", but(BINDING, metadata__labels={"app": "x"}), None, "writes no labels"),
    (SCHEDULER, "UPDATE", "pods/status", but(POD, status__phase="Failed"), POD, "conditions only"),
    (SCHEDULER, "UPDATE", "pods/status", but(POD, status__phase=None), POD, "conditions only"),
    (SCHEDULER, "UPDATE", "pods/status", but(POD, status__podIP="1.2.3.4"), POD, "conditions only"),
    (SCHEDULER, "UPDATE", "pods/status", conditions(TARGET), POD, "DisruptionTarget only"),
    (SCHEDULER, "UPDATE", "pods/status", conditions(READY | {"status": "False"}), POD, "DisruptionTarget only"),
    (SCHEDULER, "UPDATE", "pods/status", but(POD, metadata__labels={}), POD, "labels, annotations"),
    (SCHEDULER, "UPDATE", "pods/status", but(POD, metadata__annotations={"a": "b"}), POD, "labels, annotations"),
    (SCHEDULER, "UPDATE", "pods", but(POD, spec__nodeName="n"), POD, "no pod's spec"),
    (SCHEDULER, "DELETE", "pods", None, but(POD, spec__schedulerName="default-scheduler"), "its own pods only"),
    (SCHEDULER, "DELETE", "pods", None, but(POD, spec__schedulerName=None), "its own pods only"),
    (SCHEDULER, "UPDATE", "batch:jobs", but(JOB, spec__suspend=False), but(JOB, spec__suspend=True), "never resumes"),
    (SCHEDULER, "UPDATE", "batch:jobs", JOB, but(JOB, spec__suspend=True), "but whether it runs"),
    (SCHEDULER, "UPDATE", "batch:jobs", but(JOB, spec__parallelism=9), JOB, "but whether it runs"),
    (SCHEDULER, "UPDATE", "batch:jobs", but(JOB, spec__template={}, spec__suspend=True), JOB, "but whether it runs"),
    (SCHEDULER, "UPDATE", "batch:jobs", but(JOB, spec__parallelism=None), JOB, "but whether it runs"),
    (SCHEDULER, "UPDATE", "batch:jobs", but(JOB, metadata__labels={"a": "c"}), JOB, "labels, annotations"),
    (API, "UPDATE", "batch:jobs", but(JOB, spec__template={}), JOB, "whether it runs and its size"),
    (API, "UPDATE", "batch:jobs", but(JOB, spec__parallelism=None), JOB, "whether it runs and its size"),
    (API, "UPDATE", "batch:jobs", but(JOB, metadata__labels={"a": "c"}), JOB, "labels, annotations"),
    (
        API,
        "UPDATE",
        TRAININGS,
        but(TRAINING, spec__runMode={"pause": {"enabled": True}, "debug": {}}),
        TRAINING,
        "run mode",
    ),
    (
        API,
        "UPDATE",
        TRAININGS,
        but(TRAINING, spec__runMode=PAUSED | {"pause": {"enabled": True, "resumeSpecs": []}}),
        TRAINING,
        "run mode",
    ),
    (API, "UPDATE", TRAININGS, but(TRAINING, spec__elastic=ELASTIC | {"maxReplicas": 9}), ELASTIC_JOB, "elastic job"),
    (API, "UPDATE", TRAININGS, but(TRAINING, spec__elastic=ELASTIC), TRAINING, "elastic job"),
    (
        SCHEDULER,
        "UPDATE",
        TRAININGS,
        but(TRAINING, spec__runMode={"pause": {"enabled": False}}),
        TRAINING,
        "never resumes",
    ),
    (SCHEDULER, "UPDATE", TRAININGS, but(TRAINING, spec__runMode={}), TRAINING, "never resumes"),
    (
        SCHEDULER,
        "UPDATE",
        TRAININGS,
        but(TRAINING, spec__runMode={"pause": {"enabled": True}, "debug": {"enabled": True}}),
        TRAINING,
        "never resumes",
    ),
    (SCHEDULER, "UPDATE", PLATFORM + "mlservices", but(JOB, spec__runMode="running"), JOB, "never resumes"),
    (
        SCHEDULER,
        "UPDATE",
        PLATFORM + "simplemlservices",
        but(SERVICE, spec__replicas=9),
        SERVICE,
        "scales to nothing only",
    ),
    (SCHEDULER, "UPDATE", "apps:replicasets/scale", but(SCALE, spec__replicas=9), SCALE, "scales to nothing only"),
    (SCHEDULER, "UPDATE", "persistentvolumeclaims", but(CLAIM, spec__volumeName="v"), CLAIM, "of a claim no field"),
    (
        SCHEDULER,
        "UPDATE",
        "persistentvolumeclaims",
        but(CLAIM, metadata__annotations={"a": "b"}),
        CLAIM,
        "one annotation",
    ),
    (
        SCHEDULER,
        "UPDATE",
        "persistentvolumes",
        but(VOLUME, spec__capacity={"storage": "9Gi"}),
        VOLUME,
        "of a claim no field",
    ),
    (SCHEDULER, "UPDATE", "persistentvolumes", but(VOLUME, metadata__annotations=SELECTED), VOLUME, "one annotation"),
    (SCHEDULER, "UPDATE", "persistentvolumes", but(VOLUME, metadata__finalizers=["x"]), VOLUME, "finalizers"),
    (SCHEDULER, "UPDATE", "nodes", but(NODE, spec__unschedulable=True), NODE, "no node's spec"),
    (
        SCHEDULER,
        "UPDATE",
        "nodes",
        but(NODE, metadata__annotations={"mine": "2"}),
        NODE,
        "of cordoned cards and the lock of HAMi only",
    ),
    (
        SCHEDULER,
        "UPDATE",
        "nodes",
        but(NODE, metadata__annotations=CORDONS),
        NODE,
        "of cordoned cards and the lock of HAMi only",
    ),
    (SCHEDULER, "UPDATE", "nodes", but(NODE, metadata__labels={}), NODE, "labels, owners and finalizers"),
    (CONTROLLER, "CREATE", "pods", POD, None, "make only what belongs"),
    (CONTROLLER, "DELETE", "pods", None, POD, "delete only what belongs"),
    (CONTROLLER, "UPDATE", "services", CONFIG, {"metadata": META}, "delete only what belongs"),
    (CONTROLLER, "UPDATE", "configmaps", {"metadata": META}, CONFIG, "make only what belongs"),
    (CONTROLLER, "CREATE", "secrets", but(SECRET, type="Opaque"), None, "no other Secret"),
    (CONTROLLER, "CREATE", "secrets", but(SECRET, metadata__name="token"), None, "no other Secret"),
    (CONTROLLER, "CREATE", "secrets", but(SECRET, metadata__ownerReferences=None), None, "no other Secret"),
    (CONTROLLER, "CREATE", "secrets", but(TOKEN, metadata__name="hpo-0"), None, "no other Secret"),
    (CONTROLLER, "UPDATE", "secrets", SECRET, SECRET, "no other Secret"),
    (CONTROLLER, "DELETE", "secrets", None, SECRET, "no other Secret"),
    (API, "CREATE", "pods", but(POD, spec__nodeName="n"), None, "names its node"),
    (API, "CREATE", "configmaps", {"metadata": META}, None, "only ConfigMaps that belong to a job"),
    (USER, "CREATE", "pods", JOBS_POD, None, _FORGED),
    (API, "CREATE", "pods", JOBS_POD, None, _FORGED),
    (USER, "UPDATE", "pods", JOBS_POD, POD, _FORGED),
    (USER, "UPDATE", "pods", JOBS_POD, but(POD, metadata__ownerReferences=KEPT), _FORGED),
    (USER, "CREATE", "scheduler.tensorstack.dev:podgroups", JOBS_GROUP, None, _FORGED),
    (USER, "CREATE", "batch:jobs", OURS | {"metadata": JOBS_POD["metadata"]}, None, _FORGED),
    (USER, "CREATE", "apps:replicasets", OURS | {"metadata": JOBS_POD["metadata"]}, None, _FORGED),
    (
        USER,
        "CREATE",
        TRAININGS,
        {"metadata": JOBS_POD["metadata"], "spec": {"scheduler": {"t9kScheduler": {"queue": "q"}}}},
        None,
        _FORGED,
    ),
]


@pytest.mark.parametrize(("account", "operation", "resource", "new", "old"), ADMITTED)
def test_what_they_write_is_admitted(
    account: str, operation: str, resource: str, new: Object | None, old: Object | None
) -> None:
    assert judged(account, operation, resource, new, old) == ""


@pytest.mark.parametrize(("account", "operation", "resource", "new", "old", "message"), DENIED)
def test_what_they_never_write_is_denied(
    account: str, operation: str, resource: str, new: Object | None, old: Object | None, message: str
) -> None:
    assert message in judged(account, operation, resource, new, old)


def test_every_policy_denies_something_is_bound_and_fails_closed() -> None:
    denied = {judged(*case[:5]).partition(":")[0] for case in DENIED}
    assert denied == {each["metadata"]["name"] for each in POLICIES}
    bound = {
        each["spec"]["policyName"]: each["spec"]["validationActions"] for each in DOCUMENTS if each not in POLICIES
    }
    assert bound == {name: ["Deny"] for name in denied}
    said = {judged(*case[:5]) for case in DENIED}
    for policy in POLICIES:
        name = policy["metadata"]["name"]
        assert {f"{name}: {rule['message']}" for rule in policy["spec"]["validations"]} <= said, "a rule denies nothing"
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert PolicyStrategy().validate(policy) == []
        for rule in policy["spec"]["validations"]:
            assert rule["message"]
            assert rule["reason"] == "Forbidden"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda spec: spec["validations"][0].update(expression="object.x ="), "spec.validations[0].expression"),
        (lambda spec: spec.update(paramKind={"kind": "X"}), "spec.paramKind"),
        (lambda spec: spec["matchConstraints"].update(objectSelector={"matchLabels": {}}), "objectSelector"),
        (lambda spec: spec["matchConstraints"].update(resourceRules=[]), "resourceRules"),
    ],
)
def test_a_policy_that_cannot_be_followed_is_refused(change: Callable[[Object], None], field: str) -> None:
    policy = copy.deepcopy(POLICIES[0])
    change(policy["spec"])
    (cause,) = PolicyStrategy().validate(policy)
    assert field in cause.field


def test_the_kinds_that_policies_name_are_those_of_the_table() -> None:
    named = [set(re.findall(r"'([^']+)'", found)) for found in re.findall(r"kind in\s+\[([^]]+)\]", FILE.read_text())]
    controlled = {row.name for row in CONTROLLED}
    assert [kinds for kinds in named if "MPIJob" in kinds] == [controlled, controlled, set(ACCEPTED)]
