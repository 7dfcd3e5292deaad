"""Why a job waits: the leader's reasons with their numbers, and the jobs that hold what it needs. Explanations name
other jobs; REST removes the names that the caller may not see. Reasons name no job and no user.
"""

from collections.abc import Iterable
from typing import Final

from t9ksched.model.errors import child
from t9ksched.model.job import TERMINATING, JobReason
from t9ksched.model.names import ARRAY_ANNOTATION, START_AFTER_ANNOTATION, TIME_LIMIT_ANNOTATION
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.report.ended import failure
from t9ksched.scheduler.report.job_phase import goes_on, phase, why_ended
from t9ksched.scheduler.report.job_reason import POD_FAILED, refused, taken, unjudged, why_failed
from t9ksched.scheduler.report.job_shape import Json, job_shape
from t9ksched.scheduler.report.observed_job import ObservedJob, is_past
from t9ksched.scheduler.report.reason_shape import reason_shapes
from t9ksched.scheduler.report.restarts import restarting
from t9ksched.scheduler.serve.holders import holders
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.clocks import SECOND
from t9ksched.scheduler.state.edits import ignored
from t9ksched.scheduler.state.limits import limit_warning
from t9ksched.scheduler.state.node_backoff import not_yet
from t9ksched.scheduler.state.records import FINISHED, GangRecord, PodRecord
from t9ksched.scheduler.state.start_times import start_asked
from t9ksched.scheduler.state.state import ClusterState

_JUST_COME: Final = Reason(
    Code.GANG_INCOMPLETE,
    "it has only just come: it is judged in the next cycle",
    unblocks=("the scheduler judges it, a moment from now",),
)
_NAMELESS: Final = Reason(
    Code.SUBMITTER_UNKNOWN,
    f"it has only just come: who submitted it and what owns it is waited for, {NAMING_NS // SECOND} s at most",
    unblocks=("its submitter and its owner are known",),
)
_MOST_WARNED: Final = 20
_MOST_LINKED: Final = 100
"""Of so many pods it is told how their cards are linked."""
_FEW: Final = 3
"""Nodes that a sentence names."""
_FOR_ROOM: Final = frozenset(
    {
        Code.QUOTA_EXCEEDED,
        Code.INSUFFICIENT_RESOURCES,
        Code.TOPOLOGY_NOT_SATISFIED,
        Code.HELD_FOR_OTHER,
        Code.WAITING_FOR_VICTIMS,
        Code.BEHIND,
        Code.PLANNED_START,
    }
)
"""Reasons that room or quota is short: for these the explanation lists the jobs that hold it."""


async def explanation(view: ObservedJob, state: ClusterState, pod: PodRecord | None = None) -> Json:
    """Why a job waits, or that it does not, or why it failed, with the numbers and with the jobs that hold what it
    needs.

    With `pod`, one of its members: the verdict is the pod's, the reasons are those of its gang, without which it does
    not start.
    """
    gangs = view.gangs if pod is None else [gang for gang in view.gangs if gang is pod.gang]
    works = state.owners.works(view.uid) if not view.gangs else ()
    gangs = [*gangs, *(gang for uid in works for gang in state.gangs_of_owner(uid))]
    now = phase(view, state) if pod is None else pod.phase
    # A replacement runs in the place of the failed pod.
    current = [gang for gang in view.gangs if not is_past(gang)] or view.gangs
    runs_on = pod is None and goes_on(view, now)
    reasons = [] if now in (*FINISHED, TERMINATING) or runs_on else _of_all(gangs)
    if now == TERMINATING:
        reasons = [Reason(Code.TERMINATING, "it was deleted, and its last pods end")]
    elif not reasons:
        reasons = _stopped(view, state, now) or _unbound(view.pods, state)
    if now in FINISHED or (now == TERMINATING and not any(pod.placed for pod in view.pods)):
        verdict = "Finished"
    elif now == TERMINATING:
        verdict = "Placed"
    elif any(reason.refused for reason in reasons) and not (pod is not None and pod.placed):
        verdict = "Refused"
    elif pod is not None:
        own = _unbound([pod], state) if pod.placed else list(pod.blocked)
        verdict = "Placed" if pod.placed and not own else "Waiting"
        reasons = own if pod.placed else own + [reason for reason in reasons if reason not in own]
    elif runs_on:
        verdict = "Placed"
    elif reasons or not current or any(not gang.complete() for gang in current):
        verdict = "Waiting"
    else:
        verdict = "Placed"
    if works and now == "Running":
        verdict, reasons = "Placed", []  # its trials or steps are jobs of their own, each with an explanation
    if pod is None and verdict == "Waiting" and not reasons and (elsewhere := _elsewhere(view, state)) is not None:
        verdict, reasons = ("Placed", []) if now == "Running" else ("Waiting", [elsewhere])
    if verdict == "Waiting" and pod is None and (name_taken := taken(view)) is not None:
        reasons = [name_taken, *(reason for reason in reasons if reason.code != Code.GANG_INCOMPLETE)]
    if verdict == "Waiting" and not reasons and view.record is not None and view.record.fault and not view.pods:
        message = "its pods are not made: its spec cannot be followed"
        reasons = [Reason(Code.INVALID_POD, message, unblocks=("its spec is corrected",))]
    if verdict == "Waiting" and all(reason.code == Code.GANG_INCOMPLETE for reason in reasons):
        back = restarting(view.record, gangs, state)
        reasons = [back, *reasons] if back is not None else reasons
    if verdict == "Waiting" and not reasons:
        nameless = any(gang.nameless for gang in gangs)
        reasons = [unjudged(gangs) or (_NAMELESS if nameless else _JUST_COME)]
    held = (
        await holders(view, state, reasons)
        if verdict == "Waiting" and any(reason.code in _FOR_ROOM for reason in reasons)
        else []
    )
    failed = [_failure(view, pod)] if now == "Failed" and not reasons else []
    return {
        "job": job_shape(view, state),
        "verdict": verdict,
        "reasons": failed or reason_shapes(reasons),
        "holders": held,
        "unblocks": _addressed(view, state, reasons, held),
        "position": None if verdict in ("Placed", "Finished") else _position(view),
        "warnings": _warnings(view, state),
        "links": _links(view.pods if pod is None else [pod], state),
    }


def _position(view: ObservedJob) -> int | None:
    """The place in its queue of the first group that has one."""
    return next((gang.position for gang in view.gangs if gang.position is not None), None)


def _of_all(gangs: Iterable[GangRecord]) -> list[Reason]:
    """The reasons of groups; a reason that several groups have appears once."""
    found: list[Reason] = []
    for reason in (reason for gang in gangs for reason in gang.reasons):
        if reason not in found:
            found.append(reason)
    return found


def _addressed(view: ObservedJob, state: ClusterState, reasons: Iterable[Reason], holders: list[Json]) -> list[str]:
    """What would help, each once, with the job's name in the commands. A planned start is helped by what has the room
    until then.
    """
    root = state.owners.root(view.gangs[0]) if view.gangs else None
    title = root.title if root is not None else f"{view.kind}/{view.name}"
    name = title if view.namespace == "default" else f"{title} -n {view.namespace}"
    texts = (
        text
        for reason in reasons
        for text in (_ends(holders) if reason.code == Code.PLANNED_START and holders else reason.unblocks)
    )
    return list(dict.fromkeys(text.replace("KIND/NAME", name) for text in texts))


def _ends(holders: list[Json]) -> list[str]:
    """The ends that a planned start waits for."""
    found = []
    if any(one["from"] is None for one in holders):
        found.append("jobs that run there end, by then at the latest")
    if any(one["from"] and not one.get("reservation") for one in holders):
        found.append("jobs that are planned before it start and end, or are cancelled")
    reserved = [one for one in holders if one.get("reservation")]
    return found + [f"reservation {one['reservation']!r} ends, at {one['until']}" for one in reserved[:_FEW]]


def _warnings(view: ObservedJob, state: ClusterState) -> list[Json]:
    """What was asked for or edited and does not count, and members that failed while the job goes on."""
    limit = child("metadata.annotations", TIME_LIMIT_ANNOTATION)
    start = child("metadata.annotations", START_AFTER_ANNOTATION)
    found = [(limit, limit_warning(state, gang)) for gang in view.gangs]
    found += [(start, start_asked(state, gang).fault) for gang in view.gangs]
    array = child("metadata.annotations", ARRAY_ANNOTATION)
    found += [(array, state.arrays.fault(gang)) for gang in view.gangs]
    found += [("", text) for gang in view.gangs[:_MOST_WARNED] for text in ignored(gang)]
    if (elsewhere := _elsewhere(view, state)) is not None:
        found.append(("spec", elsewhere.message))
    if view.record is not None and view.record.fault:
        found.append(("spec", f"its spec is not followed until it is corrected: {view.record.fault}"))
    if (now := phase(view, state)) not in (*FINISHED, TERMINATING):
        found.append(("spec", refused(view) if now != "Pending" else ""))
        # A single pod that failed has been replaced, or is the whole job.
        found.append(("", failure(pod for gang in view.gangs if not gang.virtual for pod in gang.members.values())))
    return [{"path": path, "message": text, "nearest": None} for path, text in dict.fromkeys(found) if text]


def _links(pods: Iterable[PodRecord], state: ClusterState) -> list[Json]:
    """How the cards of pods with several are linked, on nodes of which that is known: a few of the pods."""
    found: list[Json] = []
    for record in sorted(pods, key=lambda one: one.name):
        charge = state.charges.get(record.uid)
        known = state.node_objects.get(charge.node) if charge is not None and record.phase not in FINISHED else None
        # Where a device plugin chooses, cards by index are intended, not known.
        links = known[1].links if known is not None and known[1].honours else None
        if charge is None or links is None or len(found) >= _MOST_LINKED:
            continue
        for resource in charge.cards.resources:
            cards = charge.cards.indices(resource)
            if len(cards) > 1 and cards[-1] < len(links):
                told = links.told(cards)
                found.append({"pod": record.name, "node": charge.node, "cards": list(cards), "linked": told})
    return found


def _elsewhere(view: ObservedJob, state: ClusterState) -> Reason | None:
    """That the job's pods are not placed here, because it does not ask for that or they name their nodes themselves;
    None where they are.
    """
    if there := state.put_there.get(view.uid):
        nodes = ", ".join(sorted(set(there.values()))[:_FEW])
        message = (
            f"{len(there)} of its pods name their nodes themselves ({nodes}): the scheduler was not asked, and counts"
            " them to no queue and to no group"
        )
        return Reason(Code.OTHER_SCHEDULER, message, unblocks=("the template names no node: leave spec.nodeName out",))
    if view.gangs or view.record is None or view.record.queue is not None or view.record.phase in FINISHED:
        return None
    message = "it does not ask for this scheduler: another one places its pods, and they are not counted here"
    return Reason(Code.GANG_INCOMPLETE, message, unblocks=("the scheduler that it names places its pods",))


def _stopped(view: ObservedJob, state: ClusterState, now: str) -> list[Reason]:
    """Why a job that was paused, or ended by a limit, does not run."""
    if (ended := why_ended(state, view.uid)) is not None:
        return [ended]
    if now != "Paused":
        return []
    message = "it is paused or suspended: its pods are made when it is resumed"
    return [Reason(Code.PAUSED, message, unblocks=("the job is resumed",))]


def _unbound(pods: Iterable[PodRecord], state: ClusterState) -> list[Reason]:
    """Why placed pods are not bound yet: their cards are not recorded in the database yet, or their node is busy."""
    placed = [pod for pod in pods if pod.assumed]
    if not any(pod.uid in state.cards.unwritten for pod in placed):
        held_up = state.node_backoff.held_up
        found = dict.fromkeys(held_up[pod.uid] for pod in placed if pod.uid in held_up)
        helps = "the node's device plugin, or the scheduler whose pod it is, lets go of the node"
        return [Reason(Code.BIND_REFUSED, not_yet(why), unblocks=(helps,)) for why in found]
    message = "a place is found, and taken once the database knows which cards go there: it has not answered yet"
    return [Reason(Code.DATABASE_AWAY, message, unblocks=("the database answers",))]


def _failure(view: ObservedJob, pod: PodRecord | None) -> Json:
    """Why the job failed, or how one pod of it ended."""
    why = why_failed(view) if pod is None else JobReason(POD_FAILED, failure([pod]))
    return {"code": why.code, "message": why.message, "needs": {}, "has": {}, "nodes": {}}
