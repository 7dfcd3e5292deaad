"""VirtualServer: a virtual machine, which KubeVirt runs in a pod until it is suspended.

A VirtualMachine `managed-virtualserver-<name>` is made, whose template names this scheduler and has the labels of the
queue: KubeVirt copies both to its pod `virt-launcher-…`, which is placed and charged like any other. A machine keeps
what it was started with, so for another template it is stopped first and started anew. `served.py` has what it shares
with workloads of Deployments.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from t9ksched.workloads import served
from t9ksched.workloads.actions import Actions, Children, Event, Expansion, Object
from t9ksched.workloads.addons import KUBEVIRT, MISSING, VIRTUAL_MACHINE
from t9ksched.workloads.conditions import INITIALIZED, Conditions
from t9ksched.workloads.controller import Controller
from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import check_pod_names
from t9ksched.workloads.machine import Machine, firmware_of, read_machine
from t9ksched.workloads.parts import MADE_FROM_ANNOTATION, RUN_STRATEGY_ANNOTATION, Owner, pod_group
from t9ksched.workloads.podspec import generated_template
from t9ksched.workloads.server import hash_of, service
from t9ksched.workloads.shape import Template
from t9ksched.workloads.upkeep import follow, strays

PREFIX: Final = "managed-virtualserver-"
KIND: Final = VIRTUAL_MACHINE.kind
CONTAINER: Final = "compute"
"""The container of KubeVirt's pods that asks for the resources of the machine."""
ALWAYS, HALTED = "Always", "Halted"
STRATEGIES: Final = (ALWAYS, "RerunOnFailure", "Manual", HALTED)
_IMPORTING: Final = ("", "Provisioning", "WaitingForVolumeBinding", "DataVolumeError", "ErrorPvcNotFound")
"""What KubeVirt says of a machine whose disks are not there yet."""
_WORDS: Final = ("the machine is stopped until it is resumed", "the machine is started", "the machine runs")


@dataclass(frozen=True, slots=True)
class VirtualServerSpec:
    """The spec of a VirtualServer; `strategy` is that of KubeVirt."""

    template: Template
    machine: Machine
    strategy: str
    suspended: bool


def read_spec(root: Field) -> VirtualServerSpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    check_pod_names(root, [PREFIX])
    suspended, strategy = spec["suspend"].flag(), spec["runStrategy"].choice(STRATEGIES, ALWAYS)
    machine = read_machine(spec, f"{PREFIX}{root['metadata']['name'].text()}-root")
    count = 0 if suspended or strategy == HALTED else 1
    asked = Field(machine.resources, spec["resources"].path)
    return VirtualServerSpec(generated_template(spec, CONTAINER, asked, "", count), machine, strategy, suspended)


def read(root: Field) -> list[Template]:
    """The pod, for admission and lists, without what KubeVirt adds; a machine that is stopped asks for nothing."""
    return [read_spec(root).template]


def expand(spec: VirtualServerSpec, owner: Owner) -> Expansion:
    """The group, the VirtualMachine, and the Service before it if it opens ports."""
    name = f"{PREFIX}{owner.name}"
    template, strategy = served.template_of(owner, spec.machine.spec, {}), HALTED if spec.suspended else spec.strategy
    body: Object = {"runStrategy": strategy, "template": template}
    if spec.machine.root is not None:
        body["dataVolumeTemplates"] = [{"metadata": {"name": f"{name}-root"}, "spec": spec.machine.root}]
    meta = owner.metadata(name)
    made_from = hash_of(template, body.get("dataVolumeTemplates"))
    meta["annotations"] = {MADE_FROM_ANNOTATION: made_from, RUN_STRATEGY_ANNOTATION: strategy}
    machine = {"apiVersion": VIRTUAL_MACHINE.api_version, "kind": KIND, "metadata": meta, "spec": body}
    ports = [dict(port) for port in spec.machine.ports]
    doors = (service(owner, name, {"ports": ports}),) if ports else ()
    return Expansion(podgroup=pod_group(owner, (), 1), services=doors, makers=(machine,))


def reconcile(obj: Mapping[str, Any], owner: Owner, children: Children, now: datetime) -> Actions:
    """What to do about it now."""
    spec = read_spec(Field(obj))
    old: Mapping[str, Any] = obj.get("status") or {}
    conditions = Conditions(old, now)
    lacked = conditions.reason(INITIALIZED) == MISSING
    lack = KUBEVIRT.tell(children.addons, conditions)
    found = served.find(children, f"{PREFIX}{owner.name}", KIND)
    wanted = expand(spec, owner)
    around = Expansion() if lack else replace(wanted, makers=(_next(wanted.makers[0], found, children),))
    work = served.kept(around, children)
    tried = None if found is None or lack else _tried(wanted.makers[0], found, children)
    machine: Mapping[str, Any] = (found or {}).get("status") or {}
    shown = str(machine.get("printableStatus") or "")
    ready, reason, message = (False, MISSING, lack) if lack else _ready(machine, there=found is not None)
    stopped = spec.suspended or (shown == "Stopped" and not machine.get("created") and not _starts(wanted, found))
    if spec.suspended:
        ready, reason, message = False, "Suspended", "it is suspended"
    conditions.set("Suspended", spec.suspended, "SuspendedByUser" if spec.suspended else "-")
    conditions.set("Ready", ready, reason, message)
    if spec.machine.root is not None:
        conditions.set("DataImported", shown not in _IMPORTING, shown or "-")
    for each in machine.get("conditions") or ():
        if each.get("type") in ("Failure", "Paused"):
            value = {"True": True, "False": False}.get(str(each.get("status")))
            conditions.set(each["type"], value, str(each.get("reason") or "-"), str(each.get("message") or ""))
    status: Object = {"phase": "Paused" if stopped else "Running" if ready else "Pending"}
    if found is not None:
        strategy = str(found["spec"].get("runStrategy") or "")
        status |= {"vm": {"name": f"{PREFIX}{owner.name}"}, "printableStatus": shown, "runStrategy": strategy}
    kept = {key: value for key, value in old.items() if key not in ("vm", "printableStatus", "runStrategy")}
    actions = served.concluded(old, status, conditions, children, work, "", kept, _WORDS)
    told = []
    if any(each["kind"] == KIND for each in work.create):
        told.append(Event("Created", f"VirtualMachine {PREFIX}{owner.name} is made"))
    if lack and not lacked:
        told.append(Event(MISSING, lack, "Warning"))
    return replace(actions, events=(*told, *actions.events), tried=() if tried is None else (tried,))


def _next(wanted: Object, found: Object | None, children: Children) -> Object:
    """The VirtualMachine as it is to be next: one that runs is stopped before its template changes. Whoever starts or
    stops it otherwise is followed.
    """
    if found is None:
        return wanted
    before = found["metadata"].get("annotations") or {}
    if _must_stop(wanted, found, children):
        kept = {MADE_FROM_ANNOTATION: before.get(MADE_FROM_ANNOTATION, "")}
        return served.stopped({**found, "metadata": {**found["metadata"], "annotations": {**before, **kept}}})
    return _changed(wanted, found)


def _must_stop(wanted: Object, found: Object, children: Children) -> bool:
    """Whether the machine runs, and is to be made of another template."""
    notes, before = wanted["metadata"]["annotations"], found["metadata"].get("annotations") or {}
    runs = children.pods or (found.get("status") or {}).get("created")
    other = before.get(MADE_FROM_ANNOTATION) != notes[MADE_FROM_ANNOTATION] or strays(found, wanted)
    return bool(runs and other)


def _tried(wanted: Object, found: Object, children: Children) -> Object | None:
    """The VirtualMachine as it is to be once it has stopped for its change; None where it need not be stopped."""
    is_halted = HALTED in (wanted["spec"]["runStrategy"], found["spec"].get("runStrategy"))
    if is_halted or not _must_stop(wanted, found, children):
        return None
    return follow(found, _changed(wanted, found))


def _starts(wanted: Expansion, found: Object | None) -> bool:
    """Whether a machine that is stopped is about to start: always, or anew after we stopped it for a change."""
    there: Object = found or {"metadata": {}, "spec": {}}
    halted_by_us = (there["metadata"].get("annotations") or {}).get(RUN_STRATEGY_ANNOTATION) == HALTED
    anew = halted_by_us and wanted.makers[0]["spec"]["runStrategy"] != HALTED
    return bool(anew or there["spec"].get("runStrategy") == ALWAYS)


def _changed(wanted: Object, found: Object) -> Object:
    """The wanted VirtualMachine with what KubeVirt and users decided about the one that is there."""
    notes, before = wanted["metadata"]["annotations"], found["metadata"].get("annotations") or {}
    wanted = copy.deepcopy(wanted)
    if before.get(RUN_STRATEGY_ANNOTATION) == notes[RUN_STRATEGY_ANNOTATION]:
        wanted["spec"]["runStrategy"] = found["spec"].get("runStrategy", notes[RUN_STRATEGY_ANNOTATION])
    if (firmware := firmware_of(found)) and not firmware_of(wanted):  # KubeVirt writes the machine's identity there
        wanted["spec"]["template"]["spec"]["domain"]["firmware"] = copy.deepcopy(firmware)
    return wanted


def _ready(machine: Mapping[str, Any], *, there: bool) -> tuple[bool, str, str]:
    """Whether the machine runs, with reason and message."""
    if not there:
        return False, "MachineMissing", "the VirtualMachine is not there yet"
    if machine.get("ready"):
        return True, "-", ""
    told = {each.get("type"): each for each in machine.get("conditions") or ()}
    said = (told.get(kind) or {} for kind in ("Failure", "PodScheduled", "Ready"))
    words = next((str(each["message"]) for each in said if each.get("message")), "the machine is not up")
    return False, str(machine.get("printableStatus") or "Pending"), words


def withdraw(obj: Mapping[str, Any], old: Object, conditions: Conditions, children: Children) -> Actions:
    """One with faults may be suspended."""
    if not Field(obj)["spec"]["suspend"].flag():
        return Actions()
    conditions.set("Suspended", True, "SuspendedByUser")
    conditions.set("Ready", False, "Suspended", "it is suspended")
    return replace(served.emptied(children), status={**old, "phase": "Paused"})


CONTROLLER: Final = Controller(
    expand=lambda obj, owner: expand(read_spec(Field(obj)), owner),
    reconcile=reconcile,
    withdraw=withdraw,
)
