"""MLService: releases of a model, each served by pods that scale by load where the cluster has Knative (`knative.py`),
else by a Deployment of `minReplicas` pods behind a Service of its own, with a Service before all of them (`served.py`).

The pods of a release come from the MLServiceRuntime that it names, under what the release says itself (`serving.py`).
The condition Autoscaled says which of both it is, and why.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from t9ksched.workloads import knative, served, serving
from t9ksched.workloads.actions import Actions, Children, Expansion, Object, name_of
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.controller import Controller
from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import check_pod_names, read_pause
from t9ksched.workloads.modelstore import ModelStore, read_store, with_model
from t9ksched.workloads.parts import Owner, pod_group
from t9ksched.workloads.podspec import DNS_LABEL, check_resources, generated_template, read_pod_spec
from t9ksched.workloads.served import PART_LABEL
from t9ksched.workloads.server import service
from t9ksched.workloads.serving import CannotFill, Unready, filled, merged
from t9ksched.workloads.shape import Template

RUNTIME: Final = "MLServiceRuntime"
CONTAINER: Final = "user-container"
PORT: Final = 8080
TRANSFORMER: Final = "transformer"
_PVC: Final = "pvc://"


@dataclass(frozen=True, slots=True)
class Part:
    """A predictor of a release, or the transformer.

    Attributes:
        name: of the release; `transformer`, which no release is called.
        template: what it asks for, as far as it says so itself.
        runtime: the MLServiceRuntime that it is made from, empty for none.
        parameters: what its runtime is told.
        patch: what it says of the pod template itself.
        resources: by name of a container.
        store: where its model is.
        most: its largest number of pods; 0 for any.
        concurrency: how many requests a pod takes at a time; None where it does not say.
    """

    name: str
    template: Template
    runtime: str
    parameters: Mapping[str, str]
    patch: Mapping[str, Any]
    resources: Mapping[str, Any]
    store: ModelStore
    most: int = 0
    concurrency: int | None = None

    def called(self, owner: Owner) -> str:
        """The name of its Deployment and its Service."""
        return f"{owner.name}-transform" if self.name == TRANSFORMER else f"{owner.name}-predict-{self.name}"


@dataclass(frozen=True, slots=True)
class MLServiceSpec:
    """The spec of an MLService."""

    parts: tuple[Part, ...]
    default: str
    canary: str
    percent: int
    paused: bool

    def shares(self) -> dict[str, int]:
        """The percent of requests to the service by release, where they are divided."""
        percent = self.percent if self.canary and self.canary != self.default else 0
        return {self.default: 100 - percent, **({self.canary: percent} if percent else {})}


def read_spec(root: Field) -> MLServiceSpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    parts: list[Part] = []
    for release in spec["releases"].some("is missing: a service needs at least one release with a predictor"):
        name = release["name"].text()
        if not DNS_LABEL.fullmatch(name):
            release["name"].fault(
                f"{name!r} becomes part of names: use a-z, 0-9 and -, no - at either end" if name else "is missing"
            )
        elif name == TRANSFORMER or any(part.name == name for part in parts):
            release["name"].fault(f"{name!r} is there twice: give each release a name of its own")
        parts.append(_part(release["predictor"], name, f"predictor-{name}" if name else "predictor"))
    names = [part.name for part in parts]
    if spec["transformer"].present:
        parts.append(_part(spec["transformer"], TRANSFORMER, TRANSFORMER))
    check_pod_names(root, [f"-predict-{name}" for name in names] + ["-transform"])
    default, canary = spec["default"].text(names[0] if len(names) == 1 else ""), spec["canary"].text()
    for field, value in ((spec["default"], default), (spec["canary"], canary)):
        if value and names and value not in names:
            field.fault(f"{value!r} is no release: use one of {', '.join(names)}")
    if canary and canary == default:
        spec["canary"].fault(f"{canary!r} is the default too: name another release, or leave canary out")
    if not default and names:
        spec["default"].fault(f"is missing: name the release that answers, one of {', '.join(names)}")
    percent = spec["canaryTrafficPercent"].whole(0, high=100)
    return MLServiceSpec(tuple(parts), default, canary, percent, read_pause(spec["runMode"]))


def _part(part: Field, name: str, role: str) -> Part:
    low, high = part["minReplicas"], part["maxReplicas"]
    minimum = low.whole(1)
    if high.present and high.whole(minimum) and high.whole(minimum) < minimum:
        high.fault(f"{high.value} is less than minReplicas {minimum}")
    model, template = part["model"], part["template"]
    resources: dict[str, Any] = {}
    for entry in part["containersResources"].items():
        check_resources(entry["resources"])
        if not entry["name"].text():
            entry["name"].fault("is missing: name the container that these are for")
        resources[entry["name"].text()] = entry["resources"].value
    parameters = {key: field.text() for key, field in model["parameters"].entries()}
    patch = {key: template[key].mapping() for key in ("metadata", "spec") if template[key].present}
    return Part(
        name,
        _template(part, role, minimum, resources),
        model["runtime"].text(),
        parameters,
        patch,
        resources,
        _store(part["storage"], model["modelUri"]),
        high.whole(0),
        part["containerConcurrency"].whole(0) if part["containerConcurrency"].present else None,
    )


def _store(storage: Field, uri: Field) -> ModelStore:
    """`storage`, or the older `model.modelUri: pvc://CLAIM/PATH`."""
    text = uri.text()
    if not text or storage.present:
        return read_store(storage)
    claim, _, path = text.removeprefix(_PVC).partition("/")
    if not text.startswith(_PVC) or not claim:
        uri.fault(f"{text!r} is not read: write pvc://CLAIM/PATH, or give storage")
    return read_store(Field({"pvc": {"name": claim, "subPath": path.strip("/")}}, uri.path, uri.faults))


def _template(part: Field, role: str, replicas: int, resources: Mapping[str, Any]) -> Template:
    """What a part asks for, as far as it says so itself: the runtime's defaults are not known here."""
    template = part["template"]
    spec = dict(template["spec"].mapping())
    containers = template["spec"]["containers"].items()
    names = [each["name"].text() for each in containers]
    own_pod = not part["model"]["runtime"].text()  # without a runtime the template says all
    if own_pod:
        template["spec"]["containers"].some("is missing: give containers, or name an MLServiceRuntime in model.runtime")
        _check_named(part["containersResources"], names)
    if not containers and (own_pod or not resources):
        return generated_template(part, CONTAINER, part["resources"], role, replicas)
    own = [{"name": name, "resources": amounts} for name, amounts in resources.items() if name in names or not own_pod]
    spec["containers"] = merged([each.value for each in containers], own, "containers")
    whole = Field(spec, template["spec"].path, part.faults)
    return read_pod_spec(whole, template["metadata"], role, replicas, images=own_pod)


def _check_named(resources: Field, names: list[str]) -> None:
    for entry in resources.items():
        if names and (name := entry["name"].text()) and name not in names:
            entry["name"].fault(f"{name!r} is no container of its pods: use one of {', '.join(names)}")


def read(root: Field) -> list[Template]:
    """The pods of all releases and the transformer, each counted at its minReplicas; a paused service has none."""
    spec = read_spec(root)
    count = (lambda part: 0) if spec.paused else (lambda part: part.template.replicas)
    return [replace(part.template, replicas=count(part), min_replicas=count(part)) for part in spec.parts]


def _pod(part: Part, runtimes: Mapping[str, Object]) -> Object | Unready:
    """The template of its pods, `{metadata, spec}`."""
    template: Object = {}
    if part.runtime:
        runtime = runtimes.get(part.runtime)
        if runtime is None:
            return Unready(
                serving.RUNTIME_NOT_FOUND, f"there is no MLServiceRuntime {part.runtime!r} in this namespace"
            )
        spec = runtime.get("spec") or {}
        if spec.get("enabled") is False:
            return Unready(serving.RUNTIME_DISABLED, f"the MLServiceRuntime {part.runtime!r} is not enabled")
        try:
            template = filled(spec.get("template") or {}, part.parameters)
        except CannotFill as error:
            return Unready(serving.RUNTIME_INVALID, f"the MLServiceRuntime {part.runtime!r}: {error}")
    template = merged(template, part.patch)
    pod = template.setdefault("spec", {})
    found = pod.get("containers")
    pod["containers"] = _with_resources(found if isinstance(found, list) else [], part.resources)
    whole = Field(pod, "spec")
    read_pod_spec(whole, Field(template.get("metadata"), "metadata", whole.faults))
    named = Field([{"name": name} for name in part.resources], "containersResources", whole.faults)
    _check_named(named, [name for each in pod["containers"] if (name := _name(each))])
    if whole.faults:
        fault = whole.faults[0]
        return Unready(serving.POD_INVALID, f"its pods would be wrong at {fault.path}: {fault.message}")
    with_model(pod, part.store, CONTAINER)
    return template


def _with_resources(containers: list[Object], named: Mapping[str, Any]) -> list[Object]:
    """`containersResources` take the place of what a container asked for."""
    return [{**each, "resources": named[each["name"]]} if _name(each) in named else each for each in containers]


def _name(container: Any) -> str:
    return str(container.get("name") or "") if isinstance(container, Mapping) else ""


def _port(pod: Object) -> int:
    """The one port that its containers declare."""
    ports = (port.get("containerPort") for each in pod["containers"] for port in each.get("ports") or ())
    return int(next((port for port in ports if port), PORT))


def expand(spec: MLServiceSpec, owner: Owner, pods: Mapping[str, Object | Unready]) -> Expansion:
    """The group, the Deployments of those parts of which `pods` has the template, and the Services."""
    makers, services = [], []
    front = TRANSFORMER if any(part.name == TRANSFORMER for part in spec.parts) else spec.default
    for part in spec.parts:
        template = pods[part.name]
        if isinstance(template, Unready):
            continue
        replicas = 0 if spec.paused else part.template.replicas
        name, pod = part.called(owner), template["spec"]
        makers.append(served.deployment(owner, name, pod, template.get("metadata") or {}, replicas, part=part.name))
        ports = [{"name": "http", "port": 80, "targetPort": _port(pod), "protocol": "TCP"}]
        services.append(_service(owner, name, part.name, ports))
        if part.name == front:
            services.append(_service(owner, owner.name, part.name, ports))
    return Expansion(podgroup=pod_group(owner, (), 1), services=tuple(services), makers=tuple(makers))


def on_knative(spec: MLServiceSpec, owner: Owner, pods: Mapping[str, Object | Unready]) -> Expansion:
    """The group, and while it is not paused the Services of Knative of those parts that `pods` has, and the Routes."""
    group = pod_group(owner, (), 1)
    if spec.paused:
        return Expansion(podgroup=group)
    names = {part.name: part.called(owner) for part in spec.parts}
    makers = [
        knative.service_of(
            owner, names[part.name], template, part.name, (part.template.replicas, part.most), part.concurrency
        )
        for part in spec.parts
        if not isinstance(template := pods[part.name], Unready)
    ]
    shares = {names[name]: percent for name, percent in spec.shares().items()}
    if TRANSFORMER in names:
        makers.append(knative.route_of(owner, owner.name, {names[TRANSFORMER]: 100}))
        makers.append(knative.route_of(owner, f"{owner.name}-predict", shares))
    else:
        makers.append(knative.route_of(owner, owner.name, shares))
    return Expansion(podgroup=group, makers=tuple(makers))


def _service(owner: Owner, name: str, part: str, ports: list[Object]) -> Object:
    made = service(owner, name, {"ports": copy.deepcopy(ports)})
    made["spec"]["selector"][PART_LABEL] = part
    return made


def reconcile(obj: Mapping[str, Any], owner: Owner, children: Children, now: datetime) -> Actions:
    """What to do about it now."""
    spec = read_spec(Field(obj))
    old: Mapping[str, Any] = obj.get("status") or {}
    conditions = Conditions(old, now)
    runtimes = {name_of(each): each for each in children.named if each["kind"] == RUNTIME}
    pods = {part.name: _pod(part, runtimes) for part in spec.parts}
    by = knative.served_by(old, children, paused=spec.paused)
    unready = {name: why for name, why in pods.items() if isinstance(why, Unready)}
    serving.tell({} if spec.paused or children.pods else unready, conditions)
    around = _around(spec, owner, children, pods, by)
    work = served.kept(around, children)
    shown = [_shown(part, owner, children, spec, unready.get(part.name), by) for part in spec.parts]
    wrong = next((each for each in shown if not each["ready"]), None)
    ready = wrong is None and not spec.paused
    conditions.set("Paused", spec.paused, "PausedByUser" if spec.paused else "-")
    if ready:
        conditions.set("Ready", True)
    elif spec.paused:
        conditions.set("Ready", False, "Paused")
    else:
        assert wrong is not None
        conditions.set("Ready", False, wrong["reason"], f"{wrong['name']}: {wrong['message'] or 'it is not ready'}")
    scales, reason, message = knative.told(by, children, ours=owner.queue is not None)
    conditions.set("Autoscaled", scales, reason, message if scales else message + _undivided(spec))
    status: Object = {
        "phase": "Paused" if spec.paused else "Running" if ready else "Pending",
        "address": {"url": knative.url_of(knative.find(children, "Route", owner.name), owner.name, owner.namespace)},
        "ready": ready,
        "defaultRelease": spec.default,
        "releases": [each for each in shown if each["name"] != TRANSFORMER],
    }
    status["servedBy"] = by or old.get("servedBy")
    for key, value in (("canaryRelease", spec.canary), ("transformer", next(_of(shown, TRANSFORMER), None))):
        if value:
            status[key] = value
    kept = {key: value for key, value in old.items() if key not in ("canaryRelease", "transformer")}
    count = len({part.called(owner) for part in spec.parts} & {name_of(each) for each in around.makers})
    what = ("Service", " of Knative") if by == knative.BY_KNATIVE else ("Deployment", "")
    message = f"{count} {what[0]}{'s' * (count > 1)}{what[1]} {'are' if count > 1 else 'is'} made" if count else ""
    return served.concluded(old, status, conditions, children, work, message, kept)


def _around(
    spec: MLServiceSpec, owner: Owner, children: Children, pods: Mapping[str, Object | Unready], by: str
) -> Expansion:
    """What the service consists of, made by that; what it had of parts that cannot be made stays until they can."""
    if not by:
        return Expansion(podgroup=pod_group(owner, (), 1))
    names = {part.called(owner) for part in spec.parts if isinstance(pods[part.name], Unready)}
    if by == knative.BY_KNATIVE:
        around = on_knative(spec, owner, pods)
        there = [each for each in children.companions if name_of(each) in names and knative.is_knative(each)]
        return around if spec.paused else replace(around, makers=(*around.makers, *there))
    around = expand(spec, owner, pods)
    if names and all(name_of(each) != owner.name for each in around.services):
        names.add(owner.name)
    there = [each for each in children.companions if name_of(each) in names and not knative.is_knative(each)]
    return replace(
        around,
        makers=(*around.makers, *(_stopped(each, spec) for each in there if each["kind"] == served.KIND)),
        services=(*around.services, *(each for each in there if each["kind"] == "Service")),
    )


def _stopped(deployment: Object, spec: MLServiceSpec) -> Object:
    return {**deployment, "spec": {**deployment["spec"], "replicas": 0}} if spec.paused else deployment


def _of(shown: list[Object], name: str) -> Iterator[Object]:
    return (each for each in shown if each["name"] == name)


def _undivided(spec: MLServiceSpec) -> str:
    if spec.canary and spec.percent:
        return f"; the canary {spec.canary!r} gets no part of the requests to the service, only those to its own"
    return ""


def _shown(part: Part, owner: Owner, children: Children, spec: MLServiceSpec, why: Unready | None, by: str) -> Object:
    name = part.called(owner)
    if by == knative.BY_DEPLOYMENTS:
        found = served.find(children, name)
        (ready, reason, message), (have, total) = served.available(found), served.counts(found)
        url, shares = f"http://{name}.{owner.namespace}.svc/", {spec.default: 100}
    else:
        found = knative.find(children, "Service", name)
        (ready, reason, message), (have, total) = knative.ready(found), knative.counts(children, part.name)
        url, shares = knative.url_of(found, name, owner.namespace), spec.shares()
    if why is not None:
        ready, reason, message = False, why.reason, why.message
    one: Object = {
        "name": part.name,
        "ready": ready and not spec.paused,
        "readyReplicas": have,
        "totalReplicas": total,
        "url": url,
        "reason": "" if ready else reason,
        "message": "" if ready else message,
    }
    if part.name != TRANSFORMER:
        one["trafficPercent"] = shares.get(part.name, 0)
    return one


def withdraw(obj: Mapping[str, Any], old: Object, conditions: Conditions, children: Children) -> Actions:
    """One with faults may be paused."""
    if not read_pause(Field(obj)["spec"]["runMode"]):
        return Actions()
    conditions.set("Paused", True, "PausedByUser")
    conditions.set("Ready", False, "Paused")
    return replace(knative.ended(children), status={**old, "phase": "Paused"})


def _expand(obj: Mapping[str, Any], owner: Owner) -> Expansion:
    """What it consists of without any runtime."""
    spec = read_spec(Field(obj))
    return expand(spec, owner, {part.name: _pod(part, {}) for part in spec.parts})


CONTROLLER: Final = Controller(
    expand=_expand,
    reconcile=reconcile,
    withdraw=withdraw,
)
