"""What a workload's status says while an object that it needs cannot be made: its name belongs to another object, or
the API server refuses it, or a change of it.

The condition `Initialized` is False. With the reason `NameTaken` it names the other object, with `FailedCreate` and
`FailedUpdate` it has the server's words. The first reconciliation that finds nothing left to make removes it.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from t9ksched.model.names import SUBMITTED_BY_ANNOTATION
from t9ksched.model.reasons import Code
from t9ksched.workloads.actions import Actions, Object, metadata
from t9ksched.workloads.conditions import INITIALIZED, Conditions
from t9ksched.workloads.faulty import INVALID

NAME_TAKEN: Final = str(Code.NAME_TAKEN)
"""Reason of the condition of an object whose name another has."""
FAILED_CREATE: Final = "FailedCreate"
"""Reason of the event and of the condition of an object that the API server refuses."""
FAILED_UPDATE: Final = "FailedUpdate"
"""The same where the object is there, and a change of it is refused."""
_OURS: Final = (NAME_TAKEN, FAILED_CREATE, FAILED_UPDATE)
_MOST_SHOWN = 63
"""The most characters shown of a name that another user wrote."""


def told(obj: Mapping[str, Any], reason: str, message: str, now: datetime) -> Object | None:
    """The workload's status with the condition, `reason` being `NameTaken`, `FAILED_CREATE` or `FAILED_UPDATE`.

    None if it says so already, or says what is wrong with the spec.
    """
    old: Object = dict(obj.get("status") or {})
    conditions = Conditions(old, now)
    if conditions.reason(INITIALIZED) == INVALID:
        return None  # faults of its own spec are reported first
    conditions.set(INITIALIZED, False, reason, message)
    status = {"phase": "Pending", **old, "conditions": conditions.as_list()}
    return status if status != old else None


def forgotten(obj: Mapping[str, Any], actions: Actions) -> Actions:
    """The same actions, and the condition taken back when nothing is left to make."""
    if actions.create or actions.update:
        return actions
    status = obj.get("status") or {} if actions.status is None else actions.status
    left = [each for each in status.get("conditions") or () if not _is_ours(each)]
    if len(left) == len(status.get("conditions") or ()):
        return actions
    return replace(actions, status={**status, "conditions": left})


def message_of(status: Mapping[str, Any], *reasons: str) -> str:
    """What the condition with one of these reasons says; empty if it is not there."""
    for each in status.get("conditions") or ():
        if each.get("type") == INITIALIZED and each.get("reason") in reasons:
            return str(each.get("message") or "")
    return ""


def refusal_of(status: Mapping[str, Any]) -> str:
    """The words with which the API server refuses what the workload needs; empty if it refuses nothing."""
    return message_of(status, FAILED_CREATE, FAILED_UPDATE)


def sentence(there: Mapping[str, Any], kind: str) -> str:
    """A sentence that names the object which has the name that a workload of that kind needs, and says what to do.
    Owner and submitter are marked as claims of that object.
    """
    meta = metadata(there)
    submitted_by = (meta.get("annotations") or {}).get(SUBMITTED_BY_ANNOTATION)
    what = f"{there['kind']}/{meta.get('name')}"
    owners = meta.get("ownerReferences") or ()
    above = next((one for one in owners if one.get("controller")), next(iter(owners), None))
    whose, ask = "", "ask who may delete it in this namespace"
    if above is not None:
        whose = f" It belongs to {_short(above.get('kind'))}/{_short(above.get('name'))}."
        ask = f"ask whose {_short(above.get('kind'))}/{_short(above.get('name'))} that is"
    elif submitted_by:
        whose = f" It says that {_short(submitted_by)!r} submitted it."
        ask = f"ask {_short(submitted_by)!r}"
    command = f"kubectl delete {str(there['kind']).lower()}/{meta.get('name')} -n {meta.get('namespace')}"
    return (
        f"{what} exists already and is not part of this {kind}.{whose} It goes on when that object is gone:"
        f" {ask}, or delete it if it is yours ({command}); or submit this {kind} by another name"
    )


def _short(text: object) -> str:
    written = str(text)
    return written if len(written) <= _MOST_SHOWN else f"{written[:_MOST_SHOWN]}…"


def _is_ours(condition: Mapping[str, Any]) -> bool:
    return condition.get("type") == INITIALIZED and condition.get("reason") in _OURS
