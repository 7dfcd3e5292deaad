"""Workloads of one pod that lives until it is suspended, with what stands before it: Notebook and TensorBoard.

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
from t9ksched.workloads.conditions import Conditions
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
        unmeasured: why nothing says whether it is used.
    """

    around: Expansion
    suspended: bool
    url: str
    mark: str
    unmeasured: str

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
        status = _status(old, server, conditions, record, None)
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
    status = _status(old, server, conditions, record, pod)
    return Actions(
        status if status != old else None,
        (*delete, *kept.delete),
        (*kept.create, *create),
        events,
        fate.wait,
        kept.update,
    )


def suspend_faulty(old: Object, conditions: Conditions, children: Children) -> Actions:
    """Suspend one whose spec has faults."""
    events = _suspension(conditions)
    conditions.set("Suspended", True, "SuspendedByUser")
    return replace(without_pod(old, conditions, children, "Paused"), events=events)


def without_pod(old: Object, conditions: Conditions, children: Children, shown: str) -> Actions:
    """Delete the pod, and show that phase."""
    conditions.set("Ready", False, "PodNotReady")
    status = {**old, "phase": shown}
    if "record" in old:
        status["record"] = Record.read(old["record"]).deleted().write()
    status.pop("pod", None)
    return Actions(status, tuple(pod for pod in children.pods if not phase.is_terminating(pod)))


def _suspension(conditions: Conditions) -> tuple[Event, ...]:
    told = conditions.is_true("Suspended")
    return () if told else (Event("Suspended", "the pod is deleted until it is resumed"),)


def _is_outdated(pod: Object, server: Server) -> bool:
    made = (pod["metadata"].get("annotations") or {}).get(server.mark)
    return bool(made != server.pod["metadata"]["annotations"][server.mark])


def _status(
    old: Mapping[str, Any], server: Server, conditions: Conditions, record: Record, pod: Object | None
) -> Object:
    state = pod.get("status") or {} if pod is not None else {}
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in state.get("conditions") or ())
    ready = ready and pod is not None and not phase.is_terminating(pod)
    conditions.set("Suspended", server.suspended, "SuspendedByUser" if server.suspended else "-")
    conditions.set("Ready", ready, "PodReady" if ready else "PodNotReady")
    conditions.set("Idle", None, "NotMeasured", server.unmeasured)
    shown = record.phase if pod is not None or record.phase == "Succeeded" else "Pending"
    status: Object = {
        **old,
        "phase": "Paused" if server.suspended else shown,
        "conditions": conditions.as_list(),
        "url": server.url,
        "record": record.write(),
    }
    status.pop("pod", None)
    if pod is not None:
        reference = {"name": record.name, "uid": uid_of(pod)}
        status["pod"] = {"reference": reference, "phase": phase.phase(pod)}
    return status
