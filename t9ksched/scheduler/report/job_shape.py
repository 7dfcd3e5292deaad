"""What only the leader knows, as the JSON that users see: jobs, and nodes with their cards.

A job is what the user made: an object of a kind we control, a batch Job, a PodGroup by hand or a plain pod. The groups
and pods below it are found by their controlling owner.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from t9ksched.engine.nodes import LARGEST
from t9ksched.model import names
from t9ksched.model.quantity import from_units
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.timelimit import written
from t9ksched.model.volumes import FREE_PREFIX
from t9ksched.model.whole import whole_number
from t9ksched.scheduler.report.ended import failure
from t9ksched.scheduler.report.restarts import restarting
from t9ksched.scheduler.state import records
from t9ksched.scheduler.state.charges import Charge, indices
from t9ksched.scheduler.state.limits import limit_of
from t9ksched.scheduler.state.owners import Owner, Root
from t9ksched.scheduler.state.records import FINISHED, TERMINATING, GangRecord, JobRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.workloads.stops import STOPS

Json = dict[str, Any]
POD_FAILED: Final = "PodFailed"
"""The code of a failed job whose pods are all that tells why."""
timestamp = lru_cache(maxsize=4096)(records.timestamp)


@dataclass(slots=True)
class JobView:
    """A job with the groups and pods that belong to it."""

    uid: str
    kind: str
    api_version: str
    namespace: str
    name: str
    created: int
    record: JobRecord | None = None
    gangs: list[GangRecord] = field(default_factory=list)
    agreed: Acceptance | None = None
    """What was agreed with an owner that a limit stopped, where neither of the others is there."""

    @property
    def pods(self) -> list[PodRecord]:
        """Members of all its groups."""
        return [pod for gang in self.gangs for pod in gang.members.values()]

    @property
    def queue(self) -> str | None:
        """The queue of its first group, else the one it names."""
        if self.gangs:
            return self.gangs[0].queue
        return self.record.queue if self.record else self.agreed.queue if self.agreed else None


def identity(gang: GangRecord) -> tuple[str, str, str, str]:
    """`(uid, kind, apiVersion, name)` of the job a group belongs to."""
    if gang.owner is not None:
        return gang.owner.uid, gang.owner.kind, gang.owner.api_version, gang.owner.name
    if gang.virtual:
        return gang.uid, "Pod", "v1", gang.name
    return gang.uid or f"{gang.namespace}/{gang.name}", "PodGroup", names.SCHEDULER_API, gang.name


def job_view(state: ClusterState, uid: str) -> JobView | None:
    """The job of that UID with its groups; None when neither its object nor any group of it is there.

    A PodGroup that only its members name has no UID, but stands for a job by its `namespace/name`.
    """
    record, gangs = state.jobs.get(uid), _groups(state, uid)
    if record is not None:
        head = (record.kind, record.api_version, record.namespace, record.name, record.created)
        return JobView(uid, *head, record, gangs)
    if not gangs:
        return _stopped(state, uid)
    first = gangs[0]
    _, kind, api_version, name = identity(first)
    owner = state.owners.titled(uid)
    created = (owner.created if owner else 0) or min(gang.created for gang in gangs)
    return JobView(uid, kind, api_version, first.namespace, name, created, None, gangs)


def _stopped(state: ClusterState, uid: str) -> JobView | None:
    """The job of a Deployment or StatefulSet that a limit scaled to 0: no pod of it is left."""
    owner = _ended_owner(state, uid)
    if owner is None:
        return None
    agreed = state.acceptances.get(owner.above.uid if owner.above else uid) or state.acceptances.get(uid)
    head = (owner.kind, owner.api_version, owner.namespace, owner.name, owner.created)
    return JobView(uid, *head, agreed=agreed)


def _ended_owner(state: ClusterState, uid: str) -> Owner | None:
    """The object of that UID, if a limit ended it and its root owner has no pods by another one."""
    clock = state.clocks.by_job.get(uid)
    owner = state.owners.titled(uid) if clock is not None and clock.run.ended_code else None
    if owner is None or owner.above is None:
        return owner
    return None if any(map(state.gangs_of_owner, state.owners.controllers(owner.above.uid))) else owner


def _groups(state: ClusterState, uid: str) -> list[GangRecord]:
    if gangs := state.gangs_of_owner(uid):
        return gangs
    alone = state.gangs_by_uid.get(uid) or _nameless(state, uid)
    return [alone] if alone is not None and alone.owner is None else []


def _nameless(state: ClusterState, key: str) -> GangRecord | None:
    namespace, _, name = key.partition("/")
    gang = state.gangs.get((namespace, name))
    return gang if gang is not None and name and not gang.uid else None


def phase_now(state: ClusterState, uid: str) -> str | None:
    """The phase of the job of that UID; None when there is none."""
    record, gangs = state.jobs.get(uid), _groups(state, uid)
    there = record is not None or bool(gangs) or _ended_owner(state, uid) is not None
    return _phase(state, uid, record, gangs) if there else None


def on_its_way(state: ClusterState, uid: str) -> bool:
    """Whether pods of the job of that UID are being bound."""
    return any(pod.assumed for gang in _groups(state, uid) for pod in gang.members.values())


def phase(view: JobView, state: ClusterState) -> str:
    """The job's own phase where its controller keeps one, else what its pods say."""
    return _phase(state, view.uid, view.record, view.gangs)


def why_ended(state: ClusterState, uid: str) -> Reason | None:
    """Why a limit ended the job of that UID, while it has not been resumed."""
    clock = state.clocks.by_job.get(uid)
    if clock is None or not clock.run.ended_code:
        return None
    code = Code(clock.run.ended_code)
    helps = "the job is resumed"
    if code is Code.TIME_LIMIT_EXCEEDED:
        helps = f"the job is resumed with a time limit other than {written(clock.run.ended_limit)}"
    return Reason(code, clock.run.message, unblocks=(helps,))


def _phase(state: ClusterState, uid: str, record: JobRecord | None, gangs: Iterable[GangRecord]) -> str:
    gangs = list(gangs)
    if (record is None or record.phase not in FINISHED) and _terminates(state, uid, record, gangs):
        return TERMINATING
    if record is not None and record.phase:
        return record.phase
    pods = [pod for gang in gangs for pod in gang.members.values()]
    clock = state.clocks.by_job.get(uid)
    if clock and clock.run.ended_code and not any(pod.holds and pod.uid not in clock.evicted for pod in pods):
        owner = next((gang.owner for gang in gangs if gang.owner is not None), None) or _ended_owner(state, uid)
        group = owner.api_version.rpartition("/")[0] if owner is not None else ""
        return "Paused" if owner is not None and (group, owner.kind) in STOPS else "Failed"
    phases = {pod.phase for gang in gangs for pod in gang.members.values()}
    if "Running" in phases:
        return "Running" if any(map(_is_up, gangs)) else "Pending"
    if not phases or not phases.issubset(FINISHED):
        return "Pending"
    if "Failed" not in phases:
        return "Succeeded"
    # The controller of a batch Job says when it gives up; until then it makes others of those that failed.
    return "Pending" if record is not None and record.wants_pods else "Failed"


def _terminates(state: ClusterState, uid: str, record: JobRecord | None, gangs: list[GangRecord]) -> bool:
    """Whether its object is being deleted, or is gone and what is left of it ends.

    A scheduler that starts has not seen the object go: there, that all its pods are being deleted tells.
    """
    if uid in state.deleted:
        return not any(pod.orphaned for gang in gangs for pod in gang.members.values())
    if record is not None or any(_has_object(state, gang) for gang in gangs):
        return False
    left = [pod for gang in gangs for pod in gang.members.values() if not pod.finished]
    return bool(left) and all(pod.deleting for pod in left)


def _has_object(state: ClusterState, gang: GangRecord) -> bool:
    """Whether the object of the group's job is there, or is of a kind that is not followed; a pod is its own."""
    if gang.owner is not None:
        return gang.owner.uid in state.owners or not state.owners.shows(gang.owner)
    return bool(gang.uid) and not gang.virtual


def _is_up(gang: GangRecord) -> bool:
    """Whether as many members run, or succeeded, as must; those that failed are not waited for, unless others came."""
    counts = Counter(pod.phase for pod in gang.members.values())
    failed, least = counts["Failed"], gang.minimum.members
    wanted = min(least, max(len(gang.members) - failed, least - failed))
    return counts["Running"] > 0 and counts["Running"] + counts["Succeeded"] >= wanted


def goes_on(view: JobView, now: str) -> bool:
    """Whether a job without a controller, whose phase is `now`, runs as it is: what failed of it is not made anew, and
    nothing of it waits.
    """
    if now != "Running" or (view.record is not None and view.record.phase):
        return False
    return not any(pod.waiting for pod in view.pods)


def submitter(view: JobView, state: ClusterState) -> str | None:
    """Who submitted the job, if anybody knows; where its PodGroup is gone, the one who submitted all of its pods."""
    acceptance = state.acceptances.get(view.uid) or (view.gangs[0].acceptance if view.gangs else view.agreed)
    if acceptance is None and view.gangs and not view.gangs[0].uid:
        records = [state.acceptances.get(pod.uid) for pod in view.pods]
        whose = {record.submitter if record else None for record in records}
        return whose.pop() if len(whose) == 1 else None
    return acceptance.submitter if acceptance else None


def job_shape(view: JobView, state: ClusterState) -> Json:
    """A job as REST and CLI show it."""
    gangs, pods = view.gangs, view.pods
    first = gangs[0] if gangs else None
    record, now = view.record, phase(view, state)
    waiting = None if goes_on(view, now) else next((gang for gang in gangs if gang.reasons), None)
    limited = why_ended(state, view.uid)
    ended = state.clocks.by_job[view.uid].run.ended_at if limited is not None and not waiting else 0
    if not ended and now in FINISHED:
        ended = max((pod.ended for pod in pods), default=0)
    bound, cards, lost = 0, 0, 0
    counts = dict.fromkeys(("Running", *FINISHED), 0)
    root = state.owners.root(first) if first and first.owner else _root_of(state, view)
    least = total = 0
    for gang in gangs:
        past = now not in FINISHED and is_past(gang)
        if not past:
            least, total = least + gang.minimum.members, total + len(gang.members)
        for pod in gang.members.values():
            if pod.phase in counts:
                counts[pod.phase] += 1
            bound += bool(pod.node) and not pod.finished
            if pod.pod_class is not None and not past:
                held = sum(pod.pod_class.card_counts.values())
                cards, lost = (cards, lost + held) if pod.phase == "Failed" else (cards + held, lost)
    started = _first_start(view, root, state, ended=now in FINISHED)
    if now in FINISHED:
        had = record.had if record is not None else None
        if had is None:
            accepted = first.acceptance if first is not None and first.owner is None else None
            total = max(total, (accepted and accepted.replicas) or 0)  # those that ended may be gone
            cards = max(cards + lost, sum(accepted.cards.values()) if accepted is not None else 0)
        else:  # pods that were replaced are still there, or those that ended are not
            least, total, cards = had.minimum, had.total, had.gpus
            counts["Succeeded"] = max(counts["Succeeded"], had.succeeded)
            counts["Failed"] = max(counts["Failed"], had.failed)
    return {
        "apiVersion": view.api_version,
        "namespace": view.namespace,
        "kind": view.kind,
        "name": view.name,
        "uid": view.uid,
        "group": next((gang.name for gang in gangs if not gang.virtual), None),
        "queue": view.queue,
        "priority": first.priority if first else (record.priority if record else 0),
        "submitter": submitter(view, state),
        "phase": now,
        "members": {
            "min": least,
            "total": total,
            "bound": bound,
            "running": counts["Running"],
            "succeeded": counts["Succeeded"],
            "failed": counts["Failed"],
        },
        "gpus": cards,
        "submittedAt": timestamp(view.created),
        "startedAt": timestamp(started),
        "finishedAt": timestamp(record.finished if record else ended if now in FINISHED else 0),
        "position": waiting.position if waiting else None,
        "reason": _reason(view, now, waiting, limited, state),
        "expectedStart": None,
        "timeLimit": limit_of(state, gangs, view.uid).to_json(),
        **({"root": root.title, "rootUid": root.uid} if root and root.uid != view.uid else {}),
    }


def _root_of(state: ClusterState, view: JobView) -> Root | None:
    """The root owner of a job without groups; None where it is known to be its own."""
    owner = state.owners.titled(view.uid) if view.record is None else None
    if owner is None or owner.above is None:
        return None
    above = owner.above
    return Root(above.uid, above.api_version, above.kind, view.namespace, above.name, state.owners.titled(above.uid))


def is_past(gang: GangRecord) -> bool:
    """Whether the group is one pod of a controller that has ended: another has come in its place, or none is wanted."""
    return gang.virtual and gang.owner is not None and all(pod.finished for pod in gang.members.values())


def _first_start(view: JobView, root: Root | None, state: ClusterState, *, ended: bool) -> int:
    """When the job, or the root owner that it belongs to, first had a place; 0 if it never had.

    Its pods say when those started that are there now; what was recorded at the first start outlives them. A batch
    Job's own `startTime` is when its controller first saw it, so it counts only where nothing else is known.
    """
    times = [pod.started for pod in view.pods]
    acceptance = state.acceptances.get(root.uid if root is not None else view.uid)
    if acceptance is not None and acceptance.started_at is not None:
        times.append(int(acceptance.started_at.timestamp() * 1e9))
    if view.record is not None and (view.record.kind != "Job" or (ended and not any(times))):
        times.append(view.record.started)
    return min((time for time in times if time), default=0)


def taken(view: JobView) -> Reason | None:
    """That a name the job needs is taken, or that the API server refuses what it needs; None where its controller says
    nothing of that.
    """
    if view.record is not None and view.record.taken:
        return Reason(Code.NAME_TAKEN, view.record.taken, unblocks=("the object of that name is deleted",))
    if view.record is not None and view.record.refused:
        message = f"the API server refuses what it needs: {view.record.refused}"
        return Reason(Code.INVALID_POD, message, unblocks=("its spec is corrected",))
    return None


def _reason(
    view: JobView, now: str, waiting: GangRecord | None, limited: Reason | None, state: ClusterState
) -> Json | None:
    """Why it waits, why a limit ended it, or why it failed."""
    if now == "Failed" and limited is None:
        return why_failed(view)
    if now == "Pending" and (name_taken := taken(view)) is not None:
        return {"code": str(name_taken.code), "message": name_taken.message}
    reason = waiting.reasons[0] if waiting is not None and now not in FINISHED else limited
    if now == "Pending" and (reason is None or reason.code == Code.GANG_INCOMPLETE):
        reason = restarting(view.record, view.gangs, state) or reason
    return {"code": str(reason.code), "message": reason.message} if reason is not None else None


def why_failed(view: JobView) -> Json:
    """Why a failed job failed: what its controller says, else how its pods ended."""
    record, told = view.record, failure(view.pods)
    if record is not None and record.message:
        # The controllers of others say that it failed, ours say how.
        message = f"{record.message}: {told}" if told and record.kind == "Job" else record.message
        return {"code": record.code or POD_FAILED, "message": message}
    return {"code": POD_FAILED, "message": told or "a pod of it failed and is gone"}


def card_model(labels: Mapping[str, str]) -> str | None:
    """What kind of card a node carries, as its vendor's feature discovery says."""
    return labels.get("nvidia.com/gpu.product") or labels.get("amd.com/gpu.product-name")


def quantities(amounts: Iterable[tuple[str, int]]) -> Json:
    """Amounts in units as Kubernetes writes them."""
    return {name: from_units(name, amount) for name, amount in sorted(amounts)}


def node_shape(state: ClusterState, name: str) -> Json | None:
    """A node with its cards and whose they are; None when there is no such node."""
    known = state.node_objects.get(name)
    if known is None:
        return None
    facts = known[1]
    used: defaultdict[str, int] = defaultdict(int)
    holders: defaultdict[tuple[str, int], list[Json]] = defaultdict(list)
    drift = unknown = 0
    for charge in state.charges.on_node(name):
        for resource, amount in charge.pod_class.requests:
            used[resource] += amount
        pod = state.pods.get(charge.uid)
        if pod is not None:
            drifts = charge.uid in state.cards.drifting
            drift += drifts
            unknown += state.cards.unknown(charge, facts)
            for resource, index, container in container_cards(charge):
                holders[resource, index].append(_holder(pod, container, drifts))
    limited = {
        resource: amount
        for resource, amount in facts.allocatable.items()
        if amount < LARGEST and not resource.startswith(FREE_PREFIX)
    }
    product = card_model(facts.labels)
    memory = facts.labels.get("nvidia.com/gpu.memory", "")
    return {
        "name": name,
        "ready": facts.ready,
        "schedulable": not facts.unschedulable,
        "labels": dict(facts.labels),
        "allocatable": quantities(limited.items()),
        "allocated": quantities((resource, used[resource]) for resource in limited),
        "cardMode": facts.card_mode,
        "mode": facts.mode or None,
        "counted": [
            {
                "resource": resource,
                "model": product,
                "has": count,
                "held": used[resource],
                "cordoned": facts.cordoned.get(resource, 0),
            }
            for resource, count in facts.counted.items()
        ],
        "cardDrift": drift,
        "cardsUnknown": unknown,
        "gpus": [
            {
                "index": index,
                "resource": resource,
                "model": product or resource,
                "memoryMiB": whole_number(memory),
                "cordoned": bool(facts.unusable.get(resource, 0) >> index & 1),
                "healthy": True,
                "holders": holders[resource, index],
            }
            for resource, count in sorted(facts.cards.items())
            for index in range(count)
        ],
    }


def _holder(pod: PodRecord, container: str, drifts: bool) -> Json:
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "container": container,
        "whole": True,
        "cores": 100,
        "memoryMiB": None,
        "drift": drifts,
        "job": "/".join(identity(pod.gang)[1::2]) if pod.gang else None,
        "queue": pod.gang.queue if pod.gang else None,
    }


def container_cards(charge: Charge) -> list[tuple[str, int, str]]:
    """`(resource, index, container)` for every card a pod holds; main containers and sidecars first to last."""
    left = {resource: list(indices(mask)) for resource, mask in charge.cards.items()}
    found: list[tuple[str, int, str]] = []
    for cards in charge.pod_class.cards:
        if cards.kind == "init":
            continue
        free = left.get(cards.resource, [])
        found.extend((cards.resource, index, cards.container) for index in free[: cards.count])
        left[cards.resource] = free[cards.count :]
    return found
