"""The life cycle of a gang job: from the wanted and the existing objects to the next actions and the job's status.
`reconcile` is pure. Repeating it changes nothing more; carrying out only a part of its actions, in their order, and
reconciling again leads to the same end. The status is the job's memory: counts are written before the actions that
depend on them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from t9ksched.model.names import QUEUE_LABEL
from t9ksched.model.reasons import Code
from t9ksched.model.whole import whole_number
from t9ksched.workloads import phase
from t9ksched.workloads.actions import Actions, Children, Event, Object, metadata, name_of
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.ending import DEADLINE, End, end_of
from t9ksched.workloads.job import RESUMED, REVISION_ANNOTATION, Job
from t9ksched.workloads.jobspec import ReplicaType
from t9ksched.workloads.replica import Allowance, Fate, Record, judge
from t9ksched.workloads.settled import STATUS_FIELD, settled, tell, with_settled
from t9ksched.workloads.upkeep import Upkeep, upkeep, without

FINISHED = ("Succeeded", "Failed")
_LIMITS = (str(Code.MAX_DURATION_EXCEEDED), str(Code.TIME_LIMIT_EXCEEDED))
"""Limits at which the scheduler pauses a job."""
_UNFINISHED = ("Pending", "Running", "Unknown")


@dataclass(frozen=True, slots=True)
class _Replica:
    """A replica with what is remembered of it, and the pod there is."""

    kind: ReplicaType
    index: int
    name: str
    record: Record
    pod: Object | None


def reconcile(obj: Mapping[str, Any], job: Job, children: Children, now: datetime) -> Actions:
    """What to do about a job now."""
    old: Mapping[str, Any] = obj.get("status") or {}
    conditions = Conditions(old, now)
    replicas = _replicas(job, old, children)
    if old.get("phase") in FINISHED:
        return _clean_up(old, job, conditions, replicas, children)
    if job.paused:
        return _pause(old, with_settled(job, settled(old, job, children)), conditions, replicas, children)
    if conditions.is_true("Paused"):
        # The commands given for the resumption apply from the next reconciliation on, when the pause is in the status.
        conditions.set("Paused", False, RESUMED)
        status = _status(old, job, conditions, replicas, "Resuming")
        return Actions(status=status, events=(Event("Resumed", "the job runs on: its pods are made anew"),))
    return _advance(old, job, conditions, replicas, children, now)


def _replicas(job: Job, old: Mapping[str, Any], children: Children) -> list[_Replica]:
    records = {record.name: record for task in old.get("tasks") or () for record in _records(task)}
    pods = {name_of(pod): pod for pod in children.pods}
    return [
        _Replica(kind, index, name, records.get(name) or Record(name), pods.get(name))
        for kind, index, name in job.replicas()
    ]


def _records(task: Mapping[str, Any]) -> Iterable[Record]:
    """The replicas of one entry of the status."""
    return map(Record.read, task.get("replicas") or ())


def _advance(
    old: Mapping[str, Any],
    job: Job,
    conditions: Conditions,
    replicas: list[_Replica],
    children: Children,
    now: datetime,
) -> Actions:
    """A job that is to run: judge every replica, then the job."""
    fates = _judge_all(old, job, replicas, now)
    events = [fate.event for fate in fates if fate.event is not None]
    replicas = [replace(replica, record=fate.record) for replica, fate in zip(replicas, fates, strict=True)]
    started = _started(old)
    end = end_of(job.ending, job.run_policy, fates, started, now)
    if end is not None:
        return _finish(old, job, conditions, replicas, children, end, now, events)
    fixed = settled(old, job, children)
    if fixed is not None and job.owner.queue is not None:
        events += tell(job.owner.queue, fixed, conditions)
    lost = Counter(replica.kind.role for replica, fate in zip(replicas, fates, strict=True) if fate.lost)
    kept = _upkeep(without(with_settled(job, fixed), lost), children)
    delete = [
        replica.pod for replica, fate in zip(replicas, fates, strict=True) if fate.step == "delete" and replica.pod
    ]
    delete += _surplus(children, {replica.name for replica in replicas})
    delete += kept.delete
    queue = None if fixed is None else fixed.queue
    create = [
        _stamped(job.build(replica.kind, replica.index), queue, job.revision_of(replica.name))
        for replica, fate in zip(replicas, fates, strict=True)
        if fate.step == "create"
    ]

    counts = Counter(phase.phase(replica.pod) for replica in replicas if replica.pod is not None)
    up = counts["Running"] + sum(1 for replica in replicas if replica.record.phase == "Succeeded")
    running = up >= max(1, min(job.min_member, len(replicas) - lost.total()))
    now_phase = "Running" if running else "Unknown" if counts["Unknown"] else "Pending"
    if now_phase == "Pending" and started is None and conditions.reason("Paused") == RESUMED:
        now_phase = "Resuming"
    if any(replica.pod is not None and _is_outdated(replica.pod, job) for replica in replicas):
        events.append(Event("Changed", "pods are made anew: the spec that they were made from changed"))
    if not old:
        events.append(Event("Created", f"{len(replicas)} pods are made" + (" in one group" if queue else "")))
    if running and started is None:
        started = now
        events.append(Event("Start", f"the job runs: {up} of {len(replicas)} pods are up"))
    _initial(conditions)
    if not kept.create and not create:
        conditions.set("Initialized", True, "JobInitialized")
    conditions.set("Running", running, "JobRunning" if running else "-")
    failures = [replica.record.name for replica in replicas if replica.record.phase == "Failed"]
    _replica_failure(conditions, replicas, failures)
    status = _status(old, job, conditions, replicas, now_phase, started)
    if fixed is not None:
        status[STATUS_FIELD] = fixed.write()
    waits = [fate.wait for fate in fates if fate.wait is not None]
    if job.run_policy.active_deadline is not None and started is not None:
        until = started + timedelta(seconds=job.run_policy.active_deadline)
        waits.append(max(0.0, (until - now).total_seconds()))
    changed = status if status != old else None
    again_in = min(waits, default=None)
    return Actions(changed, tuple(delete), (*kept.create, *create), tuple(events), again_in, kept.update)


def _upkeep(job: Job, children: Children) -> Upkeep:
    """What the job's companions need. The minimum of a gang that runs is never raised above what it has: a gang short
    of members for long is evicted, and an edit is no reason for that. The minimum follows once the gang is complete, or
    has no pods.
    """
    companions = job.around.companions
    wanted, group = job.around.podgroup, children.podgroup
    if wanted is not None and group is not None:
        known = (group.get("spec") or {}).get("minMember") or 0
        held = sum(phase.is_scheduled(pod) and not phase.is_terminating(pod) for pod in children.pods)
        if known < wanted["spec"]["minMember"] and 0 < held < wanted["spec"]["minMember"]:
            companions = tuple(each for each in companions if each is not wanted)
    kept = upkeep(companions, tuple(each for each in children.companions if each not in job.anew))
    return replace(kept, delete=(*job.anew, *kept.delete))


def _surplus(children: Children, names: set[str]) -> list[Object]:
    """Pods that the job no longer wants, the highest index of each replica type first."""
    found = [pod for pod in children.pods if name_of(pod) not in names and not phase.is_terminating(pod)]
    return sorted(
        found, key=lambda pod: -(whole_number((metadata(pod).get("labels") or {}).get("replica-index") or "") or 0)
    )


def _judge_all(old: Mapping[str, Any], job: Job, replicas: list[_Replica], now: datetime) -> list[Fate]:
    used = old.get("backoffCount", 0)
    by_type = Counter({kind.role: 0 for kind in job.types})
    for replica in replicas:
        by_type[replica.kind.role] += replica.record.restarts
    fates = []
    for replica in replicas:
        limit, shared = replica.kind.restart.limit, job.run_policy.backoff_limit
        left = Allowance(
            shared=None if shared is None else shared - used,
            own=None if limit is None else limit - by_type[replica.kind.role],
        )
        if replica.pod is not None and _is_outdated(replica.pod, job):
            fates.append(Fate(replace(replica.record, uid="", phase="Pending", containers=()), "delete"))
            continue
        policy = replica.kind.restart
        if replica.name in job.ending.once and policy.policy == "Always":
            policy = replace(policy, policy="OnFailure")  # its success is the job's, not a reason to restart
        fate = judge(replica.record, replica.pod, policy, left, now)
        more = fate.record.restarts - replica.record.restarts
        used += more
        by_type[replica.kind.role] += more
        fates.append(fate)
    return fates


def _finish(
    old: Mapping[str, Any],
    job: Job,
    conditions: Conditions,
    replicas: list[_Replica],
    children: Children,
    end: End,
    now: datetime,
    events: list[Event],
) -> Actions:
    """Record the end of the job, and delete the pods that its clean-up policy names."""
    final, reason, message = end
    failed = final == "Failed"
    _initial(conditions)
    conditions.set("Initialized", True, "JobInitialized")  # its pods ended it, so they were made
    failures = [replica.record.name for replica in replicas if replica.record.phase == "Failed"]
    _replica_failure(conditions, replicas, failures)
    conditions.set("Completed", True, reason, message)
    conditions.set("Failed", failed, reason if failed else "-", message if failed else "")
    started = _started(old)
    if started is None and (started := _ran_since(replicas)) is not None:
        events = [*events, Event("Start", "the job ran, and was over before its start was seen")]
        conditions.passed("Running", reason)
    conditions.set("Running", False, reason)
    status = _status(old, job, conditions, replicas, final, started)
    status["completionTime"] = phase.format_time(now)
    events = [*events, Event(final, message, "Warning" if failed else "Normal")]
    return Actions(status, _left_over(job, conditions, children), (), tuple(events))


def _clean_up(
    old: Mapping[str, Any], job: Job, conditions: Conditions, replicas: list[_Replica], children: Children
) -> Actions:
    """A finished job stays as it ended; its remaining pods are shown, and deleted if the policy says so."""
    shown = []
    for replica in replicas:
        record = replica.record
        if replica.pod is not None:
            fate = phase.phase(replica.pod)
            record = replace(record, phase=fate, containers=tuple(phase.containers(replica.pod)))
        elif record.phase in _UNFINISHED:
            record = replace(record, phase="Deleted")
        shown.append(replace(replica, record=record))
    status = _status(old, job, conditions, shown, old["phase"], _started(old), active=False)
    return Actions(status if status != old else None, _left_over(job, conditions, children))


def _left_over(job: Job, conditions: Conditions, children: Children) -> tuple[Object, ...]:
    """Pods of a finished job that its policy deletes. A deadline stops whatever still runs, whatever the policy."""
    late = conditions.reason("Failed") == DEADLINE
    found = []
    for pod in children.pods:
        if phase.is_terminating(pod):
            continue
        unfinished = phase.phase(pod) in _UNFINISHED
        role = pod["metadata"].get("labels", {}).get("replica-type")
        spared = role in job.run_policy.kept_roles
        if spared and phase.phase(pod) == "Pending":  # it has no log to keep, and waits for what never comes
            found.append(pod)
            continue
        policy = job.run_policy.clean_up
        if (late and unfinished) or (not spared and (policy == "All" or (policy == "Unfinished" and unfinished))):
            found.append(pod)
    return tuple(found)


def _pause(
    old: Mapping[str, Any], job: Job, conditions: Conditions, replicas: list[_Replica], children: Children
) -> Actions:
    """Delete the pods and forget how they ended; restarts already used stay used."""
    events = () if conditions.is_true("Paused") else (Event("Paused", "the job is paused: its pods are deleted"),)
    blank = [
        replace(replica, record=replace(replica.record, uid="", phase="Deleted", containers=(), last_failed=""))
        for replica in replicas
    ]
    _initial(conditions)
    conditions.set("Running", False, "JobPaused")
    _replica_failure(conditions, blank, [])
    conditions.set("Paused", True, *_why_paused(children))
    status = _status(old, job, conditions, blank, "Paused", active=False)
    doomed = tuple(pod for pod in children.pods if not phase.is_terminating(pod))
    kept = _upkeep(job, children)
    return Actions(status if status != old else None, (*doomed, *kept.delete), (), events, update=kept.update)


def _why_paused(children: Children) -> tuple[str, str]:
    """Reason and message of the pause: the limit that the scheduler ended the job at, as its PodGroup has it, else that
    it was asked for.
    """
    group = children.podgroup or {}
    found: Iterable[Mapping[str, Any]] = (group.get("status") or {}).get("conditions") or ()
    for each in found:
        if each.get("type") == "Evicted" and each.get("status") == "True" and each.get("reason") in _LIMITS:
            return str(each["reason"]), str(each.get("message") or "")
    return "JobPaused", ""


def _initial(conditions: Conditions) -> None:
    """Every condition is there from the first status on."""
    for kind in ("Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused"):
        if not conditions.reason(kind):
            conditions.set(kind, False)


def _replica_failure(conditions: Conditions, replicas: list[_Replica], failures: list[str]) -> None:
    if failures:
        shown = ", ".join(failures[:3]) + (f" and {len(failures) - 3} more" if len(failures) > 3 else "")
        conditions.set("ReplicaFailure", True, "ErrorInPod", f"{len(failures)} of {len(replicas)} failed: {shown}")
    else:
        conditions.set("ReplicaFailure", False)


def _status(
    old: Mapping[str, Any],
    job: Job,
    conditions: Conditions,
    replicas: list[_Replica],
    now_phase: str,
    started: datetime | None = None,
    *,
    active: bool = True,
) -> Object:
    """The whole status. Fields that others may keep there stay."""
    tasks = []
    for kind in job.types:
        mine = [replica.record for replica in replicas if replica.kind is kind]
        tasks.append(
            {
                "type": kind.role,
                "restartCount": sum(record.restarts for record in mine),
                "replicas": [record.write() for record in mine],
            }
        )
    status: Object = {
        **old,
        "phase": now_phase,
        "conditions": conditions.as_list(),
        "aggregate": _aggregate(replicas, active),
        "tasks": tasks,
    }
    if job.run_policy.backoff_limit is not None:
        # Counted on from the previous total, because replicas that the job no longer wants are not in the list any
        # more.
        used = {each.name: each.restarts for task in old.get("tasks") or () for each in _records(task)}
        more = sum(replica.record.restarts - used.get(replica.name, 0) for replica in replicas)
        status["backoffCount"] = old.get("backoffCount", 0) + more
    status.pop("startTime", None)
    if started is not None:
        status["startTime"] = phase.format_time(started)
    return status


def _aggregate(replicas: list[_Replica], active: bool) -> dict[str, int]:
    """Pods by phase; one that is not scheduled yet counts as creating."""
    counts = dict.fromkeys(("creating", "pending", "running", "succeeded", "failed", "unknown", "deleted"), 0)
    for replica in replicas:
        if replica.pod is None:
            settled = replica.record.phase.lower()
            word = settled if settled in ("succeeded", "failed") else "creating" if active else "deleted"
        elif phase.phase(replica.pod) == "Pending":
            word = "pending" if phase.is_scheduled(replica.pod) else "creating"
        else:
            word = phase.phase(replica.pod).lower()
        counts[word if word in counts else "unknown"] += 1
    return counts


def _started(old: Mapping[str, Any]) -> datetime | None:
    return phase.parse_time(old["startTime"]) if old.get("startTime") else None


def _ran_since(replicas: Iterable[_Replica]) -> datetime | None:
    """When the first of the pods that ran was started, by its kubelet."""
    ran = (replica.pod for replica in replicas if replica.pod and phase.has_run(replica.pod))
    times = [text for pod in ran if (text := (pod.get("status") or {}).get("startTime"))]
    return phase.parse_time(min(times)) if times else None


def _is_outdated(pod: Object, job: Job) -> bool:
    """Whether a pod was made from another spec. One made by a release that did not say so is taken as it is."""
    made_from = (metadata(pod).get("annotations") or {}).get(REVISION_ANNOTATION)
    return made_from is not None and made_from != job.revision_of(name_of(pod)) and not phase.is_terminating(pod)


def _stamped(pod: Object, queue: str | None, revision: str) -> Object:
    """The pod with the queue that was settled and the revision of the spec that it was made from."""
    meta = pod["metadata"]
    labels = meta["labels"] if queue is None else {**meta["labels"], QUEUE_LABEL: queue}
    annotations = {**(meta.get("annotations") or {}), REVISION_ANNOTATION: revision}
    return {**pod, "metadata": {**meta, "labels": labels, "annotations": annotations}}
