"""What is done about a workload whose spec has faults: nothing is made of it, but what takes away is followed.

A pause, a suspension, a key that was removed and a door that was closed must not wait until a fault elsewhere in the
spec is corrected. The condition `Initialized` says what is wrong until it is.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from t9ksched.model.errors import Invalid
from t9ksched.model.names import EVENT_REFUSED
from t9ksched.workloads import phase
from t9ksched.workloads.actions import Actions, Children, Event, Object
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import read_run_mode
from t9ksched.workloads.kinds import notebook
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.replica import Record

INVALID: Final = "InvalidSpec"
"""Reason of the condition `Initialized` (False) of a workload with faults."""
INITIALIZED: Final = "Initialized"
_FINISHED: Final = ("Succeeded", "Failed")


def sound_again(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object without what its status says of faults that it no longer has."""
    status = obj.get("status") or {}
    conditions = status.get("conditions") or ()
    left = [each for each in conditions if (each.get("type"), each.get("reason")) != (INITIALIZED, INVALID)]
    return obj if len(left) == len(conditions) else {**obj, "status": {**status, "conditions": left}}


def reconcile(obj: Mapping[str, Any], error: Invalid, children: Children, now: datetime) -> Actions:
    """What to do about a workload with these faults."""
    old: Object = dict(obj.get("status") or {})
    conditions = Conditions(old, now)
    told = conditions.reason(INITIALIZED) == INVALID and conditions.message(INITIALIZED) == str(error)
    conditions.set(INITIALIZED, False, INVALID, str(error))
    if old.get("phase") in _FINISHED:
        done = Actions()
    elif obj["kind"] == "Notebook":
        done = _notebook(obj, old, conditions, children)
    else:
        done = _job(obj, old, conditions, children)
    status = {"phase": "Pending", **(old if done.status is None else done.status)}
    status["conditions"] = conditions.as_list()
    events = done.events if told else (*done.events, Event(EVENT_REFUSED, str(error), "Warning"))
    return replace(done, status=status if status != old else None, events=events)


def _job(obj: Mapping[str, Any], old: Object, conditions: Conditions, children: Children) -> Actions:
    """A job may be paused: its pods go, and how they ended is forgotten, as with every pause."""
    if not read_run_mode(Field(obj)["spec"]["runMode"]).paused:
        return Actions()
    events = () if conditions.is_true("Paused") else (Event("Paused", "the job is paused: its pods are deleted"),)
    conditions.set("Running", False, "JobPaused")
    conditions.set("Paused", True, "JobPaused")
    tasks = [
        {**task, "replicas": [_blank(Record.read(each)).write() for each in task.get("replicas") or ()]}
        for task in old.get("tasks") or ()
    ]
    status = {**old, "phase": "Paused", **({"tasks": tasks} if tasks else {})}
    status.pop("startTime", None)
    doomed = tuple(pod for pod in children.pods if not phase.is_terminating(pod))
    return Actions(status, doomed, events=events)


def _notebook(obj: Mapping[str, Any], old: Object, conditions: Conditions, children: Children) -> Actions:
    """A Notebook may be suspended, and its ssh follows its spec. A pod that a removed key may have opened ends; it is
    made anew once the spec is sound.
    """
    field = Field(obj)
    spec = notebook.read_spec(field)
    owner = Owner.of(obj, None, 0)
    kept = notebook.follow_ssh(spec, owner, children.companions, {fault.path for fault in field.faults})
    live = tuple(pod for pod in children.pods if not phase.is_terminating(pod))
    if spec.suspended:
        told = conditions.is_true("Suspended")
        events = () if told else (Event("Suspended", "the pod is deleted until it is resumed"),)
        conditions.set("Suspended", True, "SuspendedByUser")
    elif live and notebook.withdraws_keys(spec, owner, children.companions):
        # The keys are taken out once the pod is gone: until then they say that it must go, also after a crash.
        message = "the pod is deleted: a key was removed, and another pod cannot be made before the spec is corrected"
        return replace(_without_pod(old, conditions, live, "Pending"), events=(Event("Changed", message),))
    else:
        return Actions(delete=kept.delete, create=kept.create, update=kept.update)
    gone = _without_pod(old, conditions, live, "Paused")
    return replace(gone, delete=(*live, *kept.delete), events=events, update=kept.update)


def _without_pod(old: Object, conditions: Conditions, live: tuple[Object, ...], shown: str) -> Actions:
    conditions.set("Ready", False, "PodNotReady")
    status = {**old, "phase": shown}
    if "record" in old:
        status["record"] = _blank(Record.read(old["record"])).write()
    status.pop("pod", None)
    return Actions(status, live)


def _blank(record: Record) -> Record:
    """A replica whose pod is deleted on purpose; its restarts stay counted."""
    return replace(record, uid="", phase="Deleted", containers=(), last_failed="")
