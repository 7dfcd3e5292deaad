"""Reconciles a workload whose spec has faults: nothing is created for it, but edits that remove something take effect.
A pause, a suspension, a removed key and a closed port must not wait until a fault elsewhere in the spec is corrected.
The condition `Initialized` says what is wrong until it is.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from t9ksched.model.errors import Invalid
from t9ksched.model.names import EVENT_REFUSED
from t9ksched.workloads.actions import Actions, Children, Event, Object
from t9ksched.workloads.conditions import INITIALIZED, Conditions
from t9ksched.workloads.controller import Controller

INVALID: Final = "InvalidSpec"
"""Reason of the condition `Initialized` (False) of a workload with faults."""
_FINISHED: Final = ("Succeeded", "Failed")


def sound_again(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object without what its status says of faults that it no longer has."""
    status = obj.get("status") or {}
    conditions = status.get("conditions") or ()
    left = [each for each in conditions if (each.get("type"), each.get("reason")) != (INITIALIZED, INVALID)]
    return obj if len(left) == len(conditions) else {**obj, "status": {**status, "conditions": left}}


def reconcile(
    obj: Mapping[str, Any], control: Controller, error: Invalid, children: Children, now: datetime
) -> Actions:
    """What to do about a workload with these faults, of a kind with that controller."""
    old: Object = dict(obj.get("status") or {})
    conditions = Conditions(old, now)
    told = conditions.reason(INITIALIZED) == INVALID and conditions.message(INITIALIZED) == str(error)
    conditions.set(INITIALIZED, False, INVALID, str(error))
    finished = old.get("phase") in _FINISHED
    done = Actions() if finished else control.withdraw(obj, old, conditions, children)
    status = {"phase": "Pending", **(old if done.status is None else done.status)}
    status["conditions"] = conditions.as_list()
    events = done.events if told else (*done.events, Event(EVENT_REFUSED, str(error), "Warning"))
    return replace(done, status=status if status != old else None, events=events)
