"""SimpleMLService: a model that a Deployment serves behind a Service, both named after it (`served.py`).

TensorFlow Serving and TorchServe get their command from here; with `custom` the pod is the user's own. `replicas: 0`
pauses it.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from t9ksched.model.errors import shown
from t9ksched.workloads import modelstore, served
from t9ksched.workloads.actions import Actions, Children, Expansion, Object
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.controller import Controller
from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import check_pod_names
from t9ksched.workloads.modelstore import ModelStore, read_store, with_model
from t9ksched.workloads.parts import Owner, pod_group
from t9ksched.workloads.podspec import check_labels, generated_template, read_pod_spec
from t9ksched.workloads.served import Ports, read_ports
from t9ksched.workloads.server import service
from t9ksched.workloads.shape import Template

FRAMEWORKS: Final = ("tensorflow", "pytorch", "custom")
PORT: Final = 8080
GRPC_PORT: Final = 9090
CONTAINER: Final = "server"
ROLLING: Final = "RollingUpdate"
STRATEGIES: Final = (ROLLING, "Recreate")


@dataclass(frozen=True, slots=True)
class SimpleMLServiceSpec:
    """The spec of a SimpleMLService; `pod` is the pod spec of a replica, `metadata` what the user gave its pods."""

    template: Template
    pod: Mapping[str, Any]
    metadata: Mapping[str, Any]
    store: ModelStore
    ports: Ports
    strategy: Mapping[str, Any]

    @property
    def replicas(self) -> int:
        """Pods wanted now."""
        return self.template.replicas


def read_spec(root: Field) -> SimpleMLServiceSpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    check_pod_names(root, [""])
    replicas, store = spec["replicas"].whole(1), read_store(spec["storage"])
    ports, strategy = read_ports(spec["service"], PORT), _strategy(spec["strategy"])
    given = [name for name in FRAMEWORKS if spec[name].present]
    if len(given) != 1:
        spec.fault(f"gives {' and '.join(given) or 'none of them'}: give exactly one of tensorflow, pytorch and custom")
    if "custom" in given:
        custom = spec["custom"]
        pod = _with_nodes(custom) if custom["spec"].present else custom  # the older place
        template = read_pod_spec(pod, custom["metadata"], "", replicas)
        own = {key: value for key, value in pod.mapping().items() if pod is not custom or key != "metadata"}
        return SimpleMLServiceSpec(template, own, custom["metadata"].mapping(), store, ports, strategy)
    framework = spec[given[0]] if given else spec
    template = generated_template(framework, CONTAINER, framework["resources"], "", replicas)
    made = {"containers": [_server(root, framework, given[0], store)] if given else []}
    return SimpleMLServiceSpec(template, made, {}, store, ports, strategy)


def _strategy(strategy: Field) -> Mapping[str, Any]:
    """How a Deployment replaces its pods, as Kubernetes has it."""
    if strategy["type"].choice(STRATEGIES, ROLLING) != ROLLING and strategy["rollingUpdate"].present:
        strategy["rollingUpdate"].fault(f"belongs to the type {ROLLING}: leave it out, or use that type")
    return strategy.mapping()


def _with_nodes(custom: Field) -> Field:
    """The pod's spec, with the labels of nodes that are beside it, where they stood before."""
    spec, older = custom["spec"], custom["nodeSelector"]
    check_labels(older)
    newer = spec["nodeSelector"]
    if not older.labels() or not isinstance(newer.value, Mapping | None):
        return spec
    for key, value in older.entries():
        if newer[key].value not in (None, value.value):
            value.fault(
                f"is {shown(value.value)}, but {newer[key].path} is {shown(newer[key].value)}: keep one of them"
            )
    return Field({**spec.mapping(), "nodeSelector": {**older.labels(), **newer.mapping()}}, spec.path, spec.faults)


def _server(root: Field, framework: Field, name: str, store: ModelStore) -> Object:
    if not framework["image"].text():
        framework["image"].fault(f"is missing: name an image that has {_PROGRAMS[name]}")
    command = [
        "/usr/bin/tensorflow_model_server",
        f"--port={GRPC_PORT}",
        f"--rest_api_port={PORT}",
        f"--model_name={root['metadata']['name'].text()}",
        f"--model_base_path={store.path}",
    ]
    if name == "pytorch":
        # In the background, as it starts without --foreground, the container would end at once.
        command = ["torchserve", "--start", "--foreground", f"--model-store={store.path}"]
        models = framework["modelsFlag"].text()
        command += ["--models", models] if models else []
    return {
        "name": CONTAINER,
        "image": framework["image"].text(),
        "command": command,
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": copy.deepcopy(dict(framework["resources"].mapping())),
        "readinessProbe": {"tcpSocket": {"port": PORT}},
    }


_PROGRAMS: Final = {"tensorflow": "TensorFlow Serving", "pytorch": "TorchServe"}


def read(root: Field) -> list[Template]:
    """The pods, for admission and lists."""
    return [read_spec(root).template]


def expand(spec: SimpleMLServiceSpec, owner: Owner) -> Expansion:
    """The group, the Service and the Deployment."""
    pod = copy.deepcopy(dict(spec.pod))
    with_model(pod, spec.store)
    door = {"type": spec.ports.type, "ports": [copy.deepcopy(port) for port in spec.ports.ports]}
    return Expansion(
        podgroup=pod_group(owner, (), 1),
        services=(service(owner, owner.name, door),),
        makers=(served.deployment(owner, owner.name, pod, spec.metadata, spec.replicas, strategy=spec.strategy),),
    )


def reconcile(obj: Mapping[str, Any], owner: Owner, children: Children, now: datetime) -> Actions:
    """What to do about it now."""
    spec = read_spec(Field(obj))
    old: Mapping[str, Any] = obj.get("status") or {}
    conditions = Conditions(old, now)
    found = served.find(children, owner.name)
    work = served.kept(expand(spec, owner), children)
    ready, reason, message = served.available(found)
    if not spec.replicas:
        ready, reason, message = False, "Paused", "it has no replicas"
    modelstore.tell(spec.store, children.pods, conditions)
    conditions.set("Ready", ready, reason, message)
    have, replicas = served.counts(found)
    ports = [{key: port[key] for key in ("name", "port", "protocol") if key in port} for port in spec.ports.ports]
    status = {
        "phase": "Paused" if not spec.replicas else "Running" if ready else "Pending",
        "address": {"url": f"{owner.name}.{owner.namespace}.svc.cluster.local", "ports": ports},
        "replicas": replicas,
        "readyReplicas": have,
    }
    return served.concluded(old, status, conditions, children, work, f"Deployment {owner.name} is made")


def withdraw(obj: Mapping[str, Any], old: Object, conditions: Conditions, children: Children) -> Actions:
    """One with faults may be scaled to nothing."""
    replicas = Field(obj)["spec"]["replicas"]
    if not replicas.present or replicas.whole(1):
        return Actions()
    conditions.set("Ready", False, "Paused", "it has no replicas")
    return replace(served.emptied(children), status={**old, "phase": "Paused"})


CONTROLLER: Final = Controller(
    expand=lambda obj, owner: expand(read_spec(Field(obj)), owner),
    reconcile=reconcile,
    withdraw=withdraw,
)
