"""How a job of another project goes, as its own controller says; and whether another admission holds it."""

from collections.abc import Mapping
from typing import Any, Final

from t9ksched.workloads.gangform import Foreign
from t9ksched.workloads.gangs import at

_DONE: Final = ("Completed", "Complete", "Succeeded")
"""Conditions that say that a job is over, and did what it should."""
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""The label by which Kueue admits an object: it suspends it, and lets it run when there is quota."""


def phase_of(foreign: Foreign, spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """The phase of a job, by the words or the conditions of its status, and by whether it is suspended; empty where its
    pods say it.
    """
    known = dict(foreign.phases)
    for keys in foreign.phase:
        if (phase := known.get(str(at(status, keys) or ""))) is not None:
            return phase
    listed = status.get("conditions")
    true = {
        one.get("type")
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, Mapping) and one.get("status") == "True"
    }
    if "Failed" in true:
        return "Failed"
    if true.intersection(_DONE):
        return "Succeeded"
    return "Paused" if "Suspended" in true or is_suspended(spec) else ""


def is_suspended(spec: Mapping[str, Any]) -> bool:
    """Whether the spec of a job says that it shall not run."""
    return bool(at(spec, ("suspend",)) or at(spec, ("runPolicy", "suspend")))


def admitted_elsewhere(obj: Mapping[str, Any]) -> str:
    """The queue of Kueue that an object waits in, or was admitted by; empty where Kueue does not handle it."""
    return str(at(obj, ("metadata", "labels", KUEUE_QUEUE)) or "")
