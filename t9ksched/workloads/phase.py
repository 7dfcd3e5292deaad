"""Reads from a pod's status how its replica ended or runs."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from t9ksched.model.ending import Ending, shorten
from t9ksched.model.names import TRIAL_LABEL
from t9ksched.model.pod import PodStatus
from t9ksched.workloads.actions import metadata

_REFUSED: Final = (
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "NodeShutdown",
    "Terminated",
    "Evicted",
    "Preempting",
    "Shutdown",
)
_REFUSED_PREFIX: Final = "OutOf"


def phase(pod: Mapping[str, Any]) -> str:
    """The pod's phase; Pending until its first status."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def has_run(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's own program runs or ran; one that failed may have been refused by its node."""
    return phase(pod) in ("Running", "Succeeded") or any(
        (each.get("state") or {}).get("terminated", {}).get("startedAt")
        for each in (pod.get("status") or {}).get("containerStatuses") or ()
    )


def is_scheduled(pod: Mapping[str, Any]) -> bool:
    """Whether a node has been chosen."""
    return bool((pod.get("spec") or {}).get("nodeName"))


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Whether the pod is being deleted."""
    return bool(metadata(pod).get("deletionTimestamp"))


def was_disrupted(pod: Mapping[str, Any]) -> bool:
    """Whether the cluster, not the pod's own program, made a pod fail.

    The kubelet refused it at admission (UnexpectedAdmissionError, OutOfcpu …, NodeAffinity), or it was evicted or
    preempted (condition DisruptionTarget). Such a pod is replaced, and its restart is not counted against the job.
    """
    status = pod.get("status") or {}
    reason = str(status.get("reason") or "")
    if reason in _REFUSED or reason.startswith(_REFUSED_PREFIX):
        return True
    conditions = status.get("conditions") or ()
    return any(each.get("type") == "DisruptionTarget" and each.get("status") == "True" for each in conditions)


def exit_code(pod: Mapping[str, Any]) -> int | None:
    """The first exit code other than 0 of the pod's containers, None if there is none to see."""
    codes = [state["exitCode"] for state in _terminations(pod) if isinstance(state.get("exitCode"), int)]
    return next((code for code in codes if code), codes[0] if codes else None)


def ending(pod: Mapping[str, Any]) -> Ending:
    """How a failed pod ended, for people."""
    try:
        return msgspec.convert(pod.get("status") or {}, PodStatus).ending
    except msgspec.ValidationError:
        return Ending("failed")


def ended_at(pod: Mapping[str, Any]) -> datetime | None:
    """When the pod failed or was disrupted, as well as its status tells."""
    status = pod.get("status") or {}
    times = [state.get("finishedAt") for state in _terminations(pod)]
    times += [
        each.get("lastTransitionTime")
        for each in status.get("conditions") or ()
        if each.get("type") in ("DisruptionTarget", "Ready")
    ]
    times += [status.get("startTime"), metadata(pod).get("creationTimestamp")]
    return next((parse_time(text) for text in times if text), None)


def containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Containers as a job's status shows them: name, state, and once ended exit code, signal, reason, last message."""
    shown = []
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        state: Mapping[str, Any] = status.get("state") or {}
        entry: dict[str, Any] = {"name": status.get("name", ""), "state": next(iter(state), "waiting")}
        if "terminated" in state:
            end: Mapping[str, Any] = state["terminated"] or {}
            entry["exitCode"] = end.get("exitCode", 0)
            entry |= {key: end[key] for key in ("signal", "reason") if end.get(key) and end[key] != "Completed"}
            if end.get("message") and (entry["exitCode"] or TRIAL_LABEL in (metadata(pod).get("labels") or {})):
                entry["message"] = shorten(str(end["message"]))  # of a trial that ended well, it may be its result
        shown.append(entry)
    return shown


def _terminations(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = pod.get("status") or {}
    found = []
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = (each.get("state") or {}).get("terminated")
        if state:
            found.append(state)
    return found


def parse_time(text: str) -> datetime:
    """A time as Kubernetes writes it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def format_time(moment: datetime) -> str:
    """A time as Kubernetes writes it, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
