"""The status of a PodGroup, made from what the scheduler knows; pure."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from t9ksched.model.job import PlannedStart
from t9ksched.scheduler.report.node_shape import quantities
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.edits import ignored_minimum
from t9ksched.scheduler.state.records import GangRecord

_NODES_NAMED: Final = 8
_PHASES = {"Pending": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


def group_status(
    gang: GangRecord,
    before: dict[str, Any],
    charges: Charges,
    now: str,
    new_id: Callable[[], str],
    planned: PlannedStart | None = None,
) -> dict[str, Any]:
    """The whole status: member counts without zeros, what the members hold, and the conditions.

    A condition keeps its transition time and id from `before` while its status stays the same. `GroupScheduled` stays
    true once it was; that the group lost its place again as a whole is the condition `Evicted`.
    """
    counts = Counter(_PHASES.get(pod.phase, "unknown") for pod in gang.members.values())
    held: Counter[str] = Counter()
    for uid in gang.members:
        charge = charges.get(uid)
        if charge is not None:
            held.update({name: amount for name, amount in charge.pod_class.requests if name != "pods"})
    conditions = {
        condition.get("type"): condition for condition in before.get("conditions") or [] if isinstance(condition, dict)
    }

    def condition(kind: str, holds: bool, reason: str, message: str) -> dict[str, Any]:
        fresh = {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
        known = conditions.get(kind)
        if known is not None and known.get("status") == fresh["status"]:
            return known | fresh
        return fresh | {"transitionID": new_id(), "lastTransitionTime": now}

    status: dict[str, Any] = {
        "conditions": [
            _members(gang, condition),
            _scheduled(gang, condition),
            *([_evicted(gang, condition)] if gang.evicted or "Evicted" in conditions else []),
            *([_planned(gang, planned, condition)] if planned or "PlannedStart" in conditions else []),
        ],
        **dict(sorted(counts.items())),
    }
    if held:
        status["allocated"] = quantities(held.items())
    return status


def _members(gang: GangRecord, condition: Callable[[str, bool, str, str], dict[str, Any]]) -> dict[str, Any]:
    living = Counter(pod.role for pod in gang.living())
    total = sum(living.values())
    counts = gang.minimum
    short = [f"role {role}: {living[role]} of {least}" for role, least in counts.roles if living[role] < least]
    if total < counts.members:
        short.insert(0, f"{total} of {counts.members} members exist")
    edited = "".join(f". {text}" for text in ignored_minimum(gang))
    if short:
        return condition("SufficientGroupMember", False, "InsufficientMemberPod", "; ".join(short) + edited)
    return condition("SufficientGroupMember", True, "SufficientMemberPods", f"{total} members exist{edited}")


def _scheduled(gang: GangRecord, condition: Callable[[str, bool, str, str], dict[str, Any]]) -> dict[str, Any]:
    if gang.scheduled:
        return condition("GroupScheduled", True, "PodGroupScheduled", "the group has been given its place")
    if gang.spec_faults:
        return condition("GroupScheduled", False, "InvalidPodGroup", gang.spec_faults)
    if gang.reasons:
        return condition("GroupScheduled", False, str(gang.reasons[0].code), _why(gang))
    return condition("GroupScheduled", False, "NotScheduledYet", "the group waits for its turn")


def _evicted(gang: GangRecord, condition: Callable[[str, bool, str, str], dict[str, Any]]) -> dict[str, Any]:
    if gang.evicted is None:
        return condition("Evicted", False, "PodGroupScheduled", "the group has been given its place again")
    reason, message = gang.evicted
    now = f". It waits: {_why(gang)}" if gang.reasons else ""
    return condition("Evicted", True, reason, f"{message}{now}")


def _planned(
    gang: GangRecord, planned: PlannedStart | None, condition: Callable[[str, bool, str, str], dict[str, Any]]
) -> dict[str, Any]:
    if planned is not None:
        named = ", ".join(planned.nodes[:_NODES_NAMED])
        more = f" and {len(planned.nodes) - _NODES_NAMED} more" if len(planned.nodes) > _NODES_NAMED else ""
        text = f"it is planned to start at {planned.at} on {named}{more}"
        return condition("PlannedStart", True, "Firm" if planned.firm else "Tentative", text)
    if gang.complete():
        return condition("PlannedStart", False, "Started", "the group has been given its place")
    return condition("PlannedStart", False, "NotPlanned", "no start is planned for the group")


def _why(gang: GangRecord) -> str:
    """Why the group waits, and what would let it start."""
    message = "; ".join(reason.message for reason in gang.reasons)
    if helps := dict.fromkeys(text for reason in gang.reasons for text in reason.unblocks):
        message += f". It can start when: {'; or '.join(helps)}"
    return message
