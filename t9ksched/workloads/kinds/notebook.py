"""Notebook: one pod that lives until it is suspended (`server.py`).

The pod is `managed-notebook-<name>-0`, with a Service `managed-notebook-<name>` before it. A change of the user's
template, queue or scheduler makes the pod anew. No authenticating proxy is added: Jupyter is asked whether it is used
(`workloads/activity.py`).
"""

import copy
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from t9ksched.workloads import phase
from t9ksched.workloads.actions import Actions, Children, Event, Expansion, Object
from t9ksched.workloads.activity import Use
from t9ksched.workloads.answers import Question
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.controller import Controller
from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import check_pod_names, read_pause
from t9ksched.workloads.parts import Owner, add_env, training_container
from t9ksched.workloads.podspec import read_template
from t9ksched.workloads.server import Server, hash_of, placed, question, reconcile, service, suspend_faulty, without_pod
from t9ksched.workloads.shape import Template
from t9ksched.workloads.upkeep import Upkeep, upkeep

PREFIX: Final = "managed-notebook-"
NAME_LABEL: Final = "notebook.tensorstack.dev/name"
TEMPLATE_HASH_ANNOTATION: Final = "notebook.tensorstack.dev/template-hash"
CONTAINER: Final = "notebook"
DEFAULT_PORT: Final = 8888
JUPYTER: Final = "jupyter"
"""The type of a Notebook that can be asked whether it is used; of others nothing is known."""
SSH_PORT: Final = 22


@dataclass(frozen=True, slots=True)
class NotebookSpec:
    """The spec of a Notebook."""

    template: Template
    suspended: bool
    ssh: bool
    ssh_service: str
    authorized_keys: tuple[str, ...]
    jupyter: bool = True


def read_spec(root: Field) -> NotebookSpec:
    """The spec, its faults written down in `root`. `runMode` is the older way to suspend."""
    spec = root["spec"]
    paused = read_pause(spec["runMode"])
    ssh = spec["ssh"]
    keys = ssh["authorized_keys"].texts()
    enabled = ssh["enabled"].flag()
    door = ssh["serviceType"].choice(("ClusterIP", "NodePort", "LoadBalancer"), "ClusterIP")
    template = read_template(spec["template"])
    check_pod_names(root, [f"{PREFIX}-0"], service=False)
    suspended, asked = spec["suspend"].flag() or paused, spec["type"].text(JUPYTER).lower() == JUPYTER
    return NotebookSpec(template, suspended, enabled, door, tuple(keys), asked)


def read(root: Field) -> list[Template]:
    """The pod template, for admission and lists; a suspended Notebook asks for nothing."""
    spec = read_spec(root)
    count = 0 if spec.suspended else 1
    return [replace(spec.template, replicas=count, min_replicas=count)]


def expand(obj: Mapping[str, Any], spec: NotebookSpec, owner: Owner) -> Expansion:
    """The pod with the Services before it."""
    name = f"{PREFIX}{owner.name}"
    pods, services = (_pod(obj, spec, owner, name),), (_web_service(spec, owner, name), *_ssh_services(spec, owner))
    return Expansion(pods=pods, services=services, configmaps=_key_files(spec, owner))


def follow_ssh(spec: NotebookSpec, owner: Owner, companions: tuple[Object, ...], faults: Container[str] = ()) -> Upkeep:
    """What brings the keys and the ssh Service to what the spec says, for a spec of which other parts have faults.

    Where the type of the Service is among the `faults`, which are paths, it stays as it is.
    """
    name = f"{PREFIX}{owner.name}-ssh"
    mine = tuple(each for each in companions if each["metadata"]["name"] == name)
    if "spec.ssh.serviceType" in faults:
        types = (each["spec"].get("type") for each in mine if each["kind"] == "Service")
        spec = replace(spec, ssh_service=next(types, None) or spec.ssh_service)
    return upkeep((*_ssh_services(spec, owner), *_key_files(spec, owner)), mine)


def withdraws_keys(spec: NotebookSpec, owner: Owner, companions: tuple[Object, ...]) -> bool:
    """Whether a key that opens the notebook now is none of those that its spec names."""
    there = (each.get("data") or {} for each in companions if each["kind"] == "ConfigMap")
    known = {line for data in there for line in data.get("authorized_keys", "").splitlines()}
    wanted = (file["data"]["authorized_keys"].splitlines() for file in _key_files(spec, owner))
    return not known <= {line for lines in wanted for line in lines}


def _key_files(spec: NotebookSpec, owner: Owner) -> tuple[Object, ...]:
    if not spec.ssh or not spec.authorized_keys:
        return ()
    data = {"authorized_keys": "\n".join(spec.authorized_keys) + "\n"}
    meta = owner.metadata(f"{PREFIX}{owner.name}-ssh")
    return ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data},)


def _pod(obj: Mapping[str, Any], spec: NotebookSpec, owner: Owner, name: str) -> Object:
    template = spec.template
    meta = owner.metadata(
        f"{name}-0", {**(template.metadata.get("labels") or {}), "notebook": owner.name, NAME_LABEL: owner.name}
    )
    meta["annotations"] = {
        **(template.metadata.get("annotations") or {}),
        **owner.scheduling_annotations,
        TEMPLATE_HASH_ANNOTATION: template_hash(obj),
    }
    pod: Object = copy.deepcopy(dict(template.spec))
    pod.update(hostname=f"{name}-0", restartPolicy="Always")
    add_env(pod, {"NB_PREFIX": url_prefix(owner), "ENABLE_SSH_SERVER": "true" if spec.ssh else "false"})
    if spec.ssh and spec.authorized_keys:
        container = training_container(pod, CONTAINER)
        volume = {"name": "authorized-keys", "configMap": {"name": f"{name}-ssh"}}
        mount = {"name": "authorized-keys", "mountPath": "/t9k/ssh", "readOnly": True}
        pod["volumes"] = [*(pod.get("volumes") or ()), volume]
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    return placed({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod}, owner)


def _web_service(spec: NotebookSpec, owner: Owner, name: str) -> Object:
    return service(owner, name, {"ports": [{"name": "http", "port": 80, "targetPort": _port(spec)}]})


def _port(spec: NotebookSpec) -> int:
    container = training_container(dict(spec.template.spec), CONTAINER)
    ports = [port.get("containerPort") for port in container.get("ports") or ()]
    return next((port for port in ports if port), DEFAULT_PORT)


def _use(spec: NotebookSpec) -> Use:
    """What is known of its use: a type that cannot be asked counts as used, and Jupyter sees no SSH sessions."""
    always = "" if spec.jupyter else "only Jupyter can be asked whether it is used: another type counts as used"
    ssh = "Jupyter does not see SSH sessions, and nothing reports them" if spec.ssh and spec.authorized_keys else ""
    return Use("nobody asks Jupyter: asking is turned off, or its pod is in the network of its node", always, ssh)


def _asks(obj: Mapping[str, Any], children: Children) -> Question | None:
    field = Field(obj)
    spec = read_spec(field)
    if field.faults or spec.suspended or not spec.jupyter:
        return None
    return question(children, url_prefix(Owner.of(obj, None, 0)), _port(spec))


def _ssh_services(spec: NotebookSpec, owner: Owner) -> tuple[Object, ...]:
    if not spec.ssh:
        return ()
    ports = [{"name": "ssh", "port": SSH_PORT, "targetPort": SSH_PORT}]
    return (service(owner, f"{PREFIX}{owner.name}-ssh", {"type": spec.ssh_service, "ports": ports}),)


def url_prefix(owner: Owner) -> str:
    """The path under which the notebook server answers, which Jupyter learns from NB_PREFIX."""
    return f"/notebook/{owner.namespace}/{owner.name}/"


def template_hash(obj: Mapping[str, Any]) -> str:
    """Changes when the pod must be made anew: template, scheduling or ssh."""
    spec = obj["spec"]
    return hash_of(spec.get("template"), spec.get("scheduler"), spec.get("ssh"))


def _server(obj: Mapping[str, Any], spec: NotebookSpec, owner: Owner) -> Server:
    name = f"{PREFIX}{owner.name}"
    return Server(
        around=expand(obj, spec, owner),
        suspended=spec.suspended,
        url=f"http://{name}.{owner.namespace}.svc{url_prefix(owner)}",
        mark=TEMPLATE_HASH_ANNOTATION,
        use=_use(spec),
    )


def withdraw(obj: Mapping[str, Any], old: Object, conditions: Conditions, children: Children) -> Actions:
    """A Notebook with faults may be suspended, and its ssh follows its spec. A pod that a removed key may have opened
    ends; it is made anew once the spec is sound.
    """
    field = Field(obj)
    spec = read_spec(field)
    owner = Owner.of(obj, None, 0)
    kept = follow_ssh(spec, owner, children.companions, {fault.path for fault in field.faults})
    live = any(not phase.is_terminating(pod) for pod in children.pods)
    if spec.suspended:
        gone = suspend_faulty(old, conditions, children)
        return replace(gone, delete=(*gone.delete, *kept.delete), update=kept.update)
    if live and withdraws_keys(spec, owner, children.companions):
        # The keys are taken out once the pod is gone: until then they say that it must go, also after a crash.
        message = "the pod is deleted: a key was removed, and another pod cannot be made before the spec is corrected"
        return replace(without_pod(old, conditions, children, "Pending"), events=(Event("Changed", message),))
    return Actions(delete=kept.delete, create=kept.create, update=kept.update)


CONTROLLER: Final = Controller(
    expand=lambda obj, owner: expand(obj, read_spec(Field(obj)), owner),
    reconcile=lambda obj, owner, children, now: reconcile(
        obj, _server(obj, read_spec(Field(obj)), owner), children, now
    ),
    withdraw=withdraw,
    asks=_asks,
)
