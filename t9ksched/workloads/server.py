"""Workloads of one pod that lives until it is suspended, with what stands before it: Notebook, TensorBoard, Explorer.

The pod is scheduled alone (its group is virtual; no PodGroup is made). A change of what it is made from, which an
annotation has a hash of, makes it anew; so does any end that is not the program's own success.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from t9ksched.model.names import QUEUE_LABEL, SCHEDULER_NAME
from t9ksched.workloads import phase
from t9ksched.workloads.actions import Actions, Children, Event, Expansion, Object, uid_of
from t9ksched.workloads.activity import STATUS_FIELD, Seen, Use, idle_times, not_running, tell
from t9ksched.workloads.answers import Question
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import RestartPolicy
from t9ksched.workloads.parts import COMPONENT_LABEL, OWNER_NAME_LABEL, Owner
from t9ksched.workloads.replica import Allowance, Record, judge
from t9ksched.workloads.upkeep import upkeep

_POLICY: Final = RestartPolicy("OnFailure")


@dataclass(frozen=True, slots=True)
class Server:
    """One such workload.

    Attributes:
        around: its pod and everything else that it consists of.
        suspended: whether it has no pod for now.
        url: where it answers.
        mark: the annotation of its pod with the hash of what that is made from.
        use: how far its use can be known.
    """

    around: Expansion
    suspended: bool
    url: str
    mark: str
    use: Use

    @property
    def pod(self) -> Object:
        """The pod as it is to be."""
        return self.around.pods[0]


def hash_of(*parts: Any) -> str:
    """A hash of what a pod is made from, as the user wrote it."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def placed(pod: Object, owner: Owner) -> Object:
    """The pod with its scheduling filled in."""
    if owner.queue is not None:
        pod["spec"]["schedulerName"] = SCHEDULER_NAME
        pod["metadata"]["labels"][QUEUE_LABEL] = owner.queue
    return pod


def service(owner: Owner, name: str, spec: Object) -> Object:
    """A Service before the pod."""
    selector = {COMPONENT_LABEL: owner.component, OWNER_NAME_LABEL: owner.name}
    meta = owner.metadata(name)
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": selector, **spec}}


def reconcile(obj: Mapping[str, Any], server: Server, children: Children, now: datetime) -> Actions:
    """What to do about it now. Its memory is `status.record` (see `replica.Record`)."""
    old: Mapping[str, Any] = obj.get("status") or {}
    wanted = server.pod
    name = wanted["metadata"]["name"]
    conditions = Conditions(old, now)
    record = Record.read({"name": name, **(old.get("record") or {})})
    pod = next((each for each in children.pods if each["metadata"]["name"] == name), None)
    live = [each for each in children.pods if not phase.is_terminating(each)]
    kept = upkeep(server.around.companions, children.companions)
    if server.suspended:
        events = _suspension(conditions)
        record = record.deleted()
        status, _ = _status(obj, server, conditions, record, None, children, now)
        doomed = (*live, *kept.delete)
        return Actions(status if status != old else None, doomed, (), events, update=kept.update)

    fate = judge(record, pod, _POLICY, Allowance(), now)
    events = (fate.event,) if fate.event is not None else ()
    delete = [pod] if fate.step == "delete" and pod is not None else []
    create = [wanted] if fate.step == "create" else []
    if pod is not None and not phase.is_terminating(pod) and not delete and _is_outdated(pod, server):
        delete = [pod]
        record = replace(fate.record, phase="Deleted")
        events = (*events, Event("Changed", "the pod is made anew: its template, queue or scheduler changed"))
    else:
        record = fate.record
    if not old:
        events = (Event("Created", f"pod {name} is made"), *events)
    status, seen = _status(obj, server, conditions, record, pod, children, now)
    return Actions(
        status if status != old else None,
        (*delete, *kept.delete),
        (*kept.create, *create),
        events,
        _look_again(fate.wait, seen),
        kept.update,
    )


def _look_again(wait: float | None, seen: Seen) -> float | None:
    """Seconds until it is looked at again: what is known of its use grows old."""
    if seen.again_in is None:
        return wait
    soon = seen.again_in.total_seconds()
    return soon if wait is None else min(wait, soon)


def withdraw(obj: Mapping[str, Any], old: Object, conditions: Conditions, children: Children) -> Actions:
    """One with faults may be suspended."""
    if not Field(obj)["spec"]["suspend"].flag():
        return Actions()
    return suspend_faulty(old, conditions, children)


def suspend_faulty(old: Object, conditions: Conditions, children: Children) -> Actions:
    """Suspend one whose spec has faults."""
    events = _suspension(conditions)
    conditions.set("Suspended", True, "SuspendedByUser")
    return replace(without_pod(old, conditions, children, "Paused"), events=events)


def without_pod(old: Object, conditions: Conditions, children: Children, shown: str) -> Actions:
    """Delete the pod, and show that phase."""
    conditions.set("Ready", False, "PodNotReady")
    not_running(conditions)
    status = {**old, "phase": shown}
    if "record" in old:
        status["record"] = Record.read(old["record"]).deleted().write()
    status.pop("pod", None)
    status.pop(STATUS_FIELD, None)
    return Actions(status, tuple(pod for pod in children.pods if not phase.is_terminating(pod)))


def _suspension(conditions: Conditions) -> tuple[Event, ...]:
    told = conditions.is_true("Suspended")
    return () if told else (Event("Suspended", "the pod is deleted until it is resumed"),)


def _is_outdated(pod: Object, server: Server) -> bool:
    made = (pod["metadata"].get("annotations") or {}).get(server.mark)
    return bool(made != server.pod["metadata"]["annotations"][server.mark])


def _status(
    obj: Mapping[str, Any],
    server: Server,
    conditions: Conditions,
    record: Record,
    pod: Object | None,
    children: Children,
    now: datetime,
) -> tuple[Object, Seen]:
    old = obj.get("status") or {}
    since = None if pod is None or phase.is_terminating(pod) else _ready_since(pod)
    _set_suspended(conditions, old, suspended=server.suspended)
    conditions.set("Ready", since is not None, "PodNotReady" if since is None else "PodReady")
    seen = tell(obj, server.use, children, conditions, since, now)
    shown = record.phase if pod is not None or record.phase == "Succeeded" else "Pending"
    status: Object = {
        **old,
        "phase": "Paused" if server.suspended else shown,
        "conditions": conditions.as_list(),
        **({"url": server.url} if server.url else {}),
        "record": record.write(),
    }
    status.pop("pod", None)
    status.pop(STATUS_FIELD, None)
    if seen.kept is not None:
        status[STATUS_FIELD] = seen.kept
    if pod is not None:
        reference = {"name": record.name, "uid": uid_of(pod)}
        status["pod"] = {"reference": reference, "phase": phase.phase(pod)}
    return status, seen


def question(children: Children, prefix: str, port: int) -> Question | None:
    """Where the pod of such a workload is asked; None while it has no address of its own."""
    for pod in children.pods:
        state = pod.get("status") or {}
        live = not phase.is_terminating(pod) and state.get("phase") == "Running"
        if live and state.get("podIP") and not pod["spec"].get("hostNetwork"):
            return Question(str(state["podIP"]), port, prefix)
    return None


def _ready_since(pod: Object) -> datetime | None:
    """Since when the pod is ready; None if it is not."""
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Ready" and each.get("status") == "True":
            return phase.parse_time(each.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])
    return None


def _set_suspended(conditions: Conditions, old: Mapping[str, Any], *, suspended: bool) -> None:
    """Whether it is suspended, and if nobody used it before, since when."""
    if suspended and conditions.is_true("Suspended"):
        return
    times = idle_times(old) if suspended else None
    message = f"nobody had used it since {phase.format_time(times[0])}" if times is not None else ""
    conditions.set("Suspended", suspended, ("WhileIdle" if times else "SuspendedByUser") if suspended else "-", message)
