"""BeamJob: a Flink cluster, one job manager and its task managers, and the pod that submits a pipeline to it.

All are one gang: the submitting pod is made with the cluster, and an init container of it waits until every task
manager has registered. The job ends as that pod does.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from t9ksched.workloads import lifecycle, phase
from t9ksched.workloads.actions import NO_CHILDREN, Actions, Children, Expansion, Object
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.controller import Controller, job_controller
from t9ksched.workloads.ending import led_by
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job, has_been_paused, revision
from t9ksched.workloads.jobspec import (
    ReplicaType,
    RestartPolicy,
    RunMode,
    RunPolicy,
    check_pod_names,
    pod_suffixes,
    read_run_mode,
)
from t9ksched.workloads.parts import Owner, add_env, follow_run_mode, headless_service, job_pod, pod_group, pod_name
from t9ksched.workloads.podspec import generated_template, read_template
from t9ksched.workloads.shape import Template
from t9ksched.workloads.sshgang import native_resources

MANAGER, WORKER, SUBMIT = "flinkcluster-jobmanager", "flinkcluster-taskmanager", "batchjob"
FIXED_WHILE_RUNNING: Final = ("flinkClusterTemplate", "jobTemplate")
PORTS: Final = {"rpc": 6123, "blob": 6124, "query": 6125, "ui": 8081}
SCOPES: Final = {
    "Cluster": "ClusterIP",
    "VPC": "LoadBalancer",
    "External": "LoadBalancer",
    "NodePort": "NodePort",
    "Headless": "ClusterIP",
}
"""Types of the Service before the job manager."""
_OF_PODS: Final = ("nodeSelector", "tolerations", "affinity", "volumes", "securityContext", "serviceAccountName")
_BACKOFF: Final = 6
_WAIT: Final = (
    "until (exec 3<>/dev/tcp/{host}/{port} && printf 'GET /overview HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n' >&3 &&"
    ' found=$(sed -n \'s/.*"taskmanagers":\\([0-9]*\\).*/\\1/p\' <&3) && [ "${{found:-0}}" -ge {count} ]) 2>/dev/null;'
    " do sleep 1; done"
)
"""Asks the job manager with nothing but bash, which Flink's own scripts need too."""


@dataclass(frozen=True, slots=True)
class BeamSpec:
    """The spec of a BeamJob; `types` are job manager, task managers and the submitting pod, in this order."""

    types: tuple[ReplicaType, ...]
    scope: str
    run_policy: RunPolicy
    run_mode: RunMode


def read_spec(root: Field) -> BeamSpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    cluster = spec.at("flinkClusterTemplate", "spec")
    manager, workers = cluster["jobManager"], cluster["taskManager"]
    if not cluster["image"]["name"].text():
        cluster["image"]["name"].fault("is missing: name the image of Flink")
    scope = manager["accessScope"].choice(tuple(SCOPES), "Cluster")
    properties = {key: str(field.value) for key, field in cluster["flinkProperties"].entries()}
    always = RestartPolicy("Always")
    submit = spec.at("jobTemplate", "spec")
    for field in ("parallelism", "completions"):
        if submit[field].whole(1) != 1:
            submit[field].fault(f"is {submit[field].value}, but one pod submits the pipeline: write 1")
    deadline = submit["activeDeadlineSeconds"]
    types = (
        ReplicaType(_flink(root, cluster, manager, MANAGER, 1, properties), always),
        ReplicaType(_flink(root, cluster, workers, WORKER, workers["replicas"].whole(1, low=1), properties), always),
        ReplicaType(
            read_template(submit["template"], SUBMIT),
            RestartPolicy("OnFailure", submit["backoffLimit"].whole(_BACKOFF)),
        ),
    )
    check_pod_names(root, [f"-{MANAGER}", *pod_suffixes(types)])
    policy = RunPolicy(
        active_deadline=deadline.whole(0, low=1, high=10**9) if deadline.present else None,
        backoff_limit=None,
        clean_up="All" if spec["runPolicy"]["cleanUpCluster"].flag() else "None",
        kept_roles=frozenset({SUBMIT}),
    )
    return BeamSpec(types, scope, policy, read_run_mode(spec["runMode"]))


def _flink(root: Field, cluster: Field, part: Field, role: str, count: int, properties: Mapping[str, str]) -> Template:
    """The template of job or task managers: what the user says of them, around a container that the image starts."""
    word = role.rpartition("-")[2]
    asked = generated_template(part, word, part["resources"], role, count)
    image = cluster["image"]
    host = f"{root['metadata']['name'].text()}-{MANAGER}"
    lines = {"jobmanager.rpc.address": host, "jobmanager.rpc.port": PORTS["rpc"], "blob.server.port": PORTS["blob"]}
    text = "\n".join(f"{key}: {value}" for key, value in {**lines, **properties}.items())
    env = [{"name": "JOB_MANAGER_RPC_ADDRESS", "value": host}, {"name": "FLINK_PROPERTIES", "value": text}]
    container: Object = {
        "name": word,
        "image": image["name"].text(),
        "args": [word],
        "env": [*env, *(each.value for each in cluster["envVars"].items())],
        "resources": copy.deepcopy(dict(part["resources"].mapping())),
        "volumeMounts": [each.value for each in part["volumeMounts"].items()],
    }
    if image["pullPolicy"].present:
        container["imagePullPolicy"] = image["pullPolicy"].text()
    spec: Object = {key: copy.deepcopy(part[key].value) for key in _OF_PODS if part[key].present}
    spec["containers"] = [container, *(each.value for each in part["sidecars"].items())]
    if part["initContainers"].present:
        spec["initContainers"] = [each.value for each in part["initContainers"].items()]
    if image["pullSecrets"].present:
        spec["imagePullSecrets"] = [each.value for each in image["pullSecrets"].items()]
    return replace(asked, spec=spec)


def read(root: Field) -> list[Template]:
    """All pods count: the job manager, the task managers and the one that submits."""
    return [kind.template for kind in read_spec(root).types]


def build(obj: Mapping[str, Any], owner: Owner, children: Children = NO_CHILDREN) -> Job:
    """The job with everything it consists of."""
    spec = read_spec(Field(obj))
    manager, workers, submit = spec.types
    host, resumed = f"{owner.name}-{MANAGER}", has_been_paused(obj)

    def pod(kind: ReplicaType, index: int) -> Object:
        made = job_pod(owner, kind, index)
        if kind is not submit:
            return made
        container = made["spec"]["containers"][0]
        follow_run_mode(made["spec"], container, spec.run_mode, kind, resumed=resumed)
        add_env(made["spec"], {"FLINK_MASTER": f"{host}:{PORTS['ui']}"})
        script = _WAIT.format(host=host, port=PORTS["ui"], count=workers.replicas)
        waits = {
            "name": "wait-for-cluster",
            "image": manager.template.spec["containers"][0]["image"],
            "command": ["bash", "-c", script],
            "resources": native_resources(container),
        }
        made["spec"]["initContainers"] = [waits, *(made["spec"].get("initContainers") or ())]
        return made

    return Job(
        owner=owner,
        types=spec.types,
        run_policy=spec.run_policy,
        paused=spec.run_mode.paused,
        around=Expansion(
            podgroup=pod_group(owner, spec.types, sum(kind.replicas for kind in spec.types)),
            services=(headless_service(owner, owner.name, {"rpc": PORTS["rpc"]}), _door(owner, spec)),
        ),
        build=pod,
        ending=led_by(pod_name(owner, submit, 0)),
        min_member=sum(kind.replicas for kind in spec.types),
        revision=revision(obj, FIXED_WHILE_RUNNING),
    )


def _door(owner: Owner, spec: BeamSpec) -> Object:
    """The Service before the job manager, ready or not: task managers come to it while it starts."""
    made = headless_service(owner, f"{owner.name}-{MANAGER}", PORTS)
    made["spec"]["selector"]["replica-type"] = MANAGER
    if spec.scope != "Headless":
        del made["spec"]["clusterIP"]
        made["spec"]["type"] = SCOPES[spec.scope]
    return made


def _told(obj: Mapping[str, Any], owner: Owner, children: Children, actions: Actions, now: datetime) -> Actions:
    """The actions with a status that says how cluster and submission are, and where the cluster's pages are."""
    old: Mapping[str, Any] = obj.get("status") or {}
    status: Mapping[str, Any] = old if actions.status is None else actions.status
    if not status:
        return actions
    conditions = Conditions(status, now)
    up = dict.fromkeys((MANAGER, WORKER, SUBMIT), 0)
    for each in children.pods:
        role = str((each["metadata"].get("labels") or {}).get("replica-type"))
        up[role] = up.get(role, 0) + (phase.phase(each) == "Running" and not phase.is_terminating(each))
    wanted = {kind.role: kind.replicas for kind in read_spec(Field(obj)).types}
    cluster, submitted = all(up[role] >= wanted[role] for role in (MANAGER, WORKER)), up[SUBMIT] > 0
    ended = status.get("phase") in lifecycle.FINISHED and old.get("phase") not in lifecycle.FINISHED
    for kind, holds in (("ClusterRunning", cluster), ("JobRunning", submitted)):
        if ended and not holds and status.get("startTime"):
            conditions.passed(kind)
        else:
            conditions.set(kind, holds)
    url = f"http://{owner.name}-{MANAGER}.{owner.namespace}.svc:{PORTS['ui']}/"
    new = {**status, "conditions": conditions.as_list(), "jobURL": url}
    return replace(actions, status=new if new != old else None)


_JOB: Final = job_controller(build)


def reconcile(obj: Mapping[str, Any], owner: Owner, children: Children, now: datetime) -> Actions:
    """What to do about it now."""
    actions = lifecycle.reconcile(obj, build(obj, owner, children), children, now)
    return _told(obj, owner, children, actions, now)


CONTROLLER: Final = Controller(expand=_JOB.expand, reconcile=reconcile, withdraw=_JOB.withdraw)
