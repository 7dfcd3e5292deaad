"""The entry point of the controllers: `reconcile(obj, children, now)` for each kind of which they create pods. `expand`
returns what an object consists of, regardless of what exists.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from t9ksched.model.errors import Invalid
from t9ksched.model.names import SCHEDULER_NAME
from t9ksched.workloads import faulty, taken
from t9ksched.workloads.actions import Actions, Children, Expansion, metadata, name_of, uid_of
from t9ksched.workloads.controller import Controller
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.read import read
from t9ksched.workloads.registry import kind_named


def expand(obj: Mapping[str, Any]) -> Expansion:
    """Everything the workload consists of: PodGroup, pods, services, and so on.

    Raises:
        Invalid: with every fault; also for kinds that have no controller here.
    """
    owner = _owner(obj)
    return _control(obj).expand(obj, owner)


class Owners:
    """Queue and priority of workloads without faults, read once for each generation of an object: most of a look at a
    workload would else be the reading of a spec that was read before.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[str, int, str | None, int]] = {}

    def of(self, obj: Mapping[str, Any]) -> Owner:
        """The workload as the owner of what it consists of.

        Raises:
            Invalid: its spec has faults.
        """
        meta = metadata(obj)
        key = str(obj["kind"]), str(meta.get("namespace", "")), name_of(obj)
        version = uid_of(obj), int(meta.get("generation") or 0)
        known = self._known.get(key)
        if known is not None and version[1] and known[:2] == version:
            return Owner.of(obj, *known[2:])
        owner = _owner(obj)
        self._known[key] = *version, owner.queue, owner.priority
        return owner

    def forget(self, key: tuple[str, str, str]) -> None:
        """The workload of that kind, namespace and name is gone."""
        self._known.pop(key, None)


def reconcile(obj: Mapping[str, Any], children: Children, now: datetime, owners: Owners | None = None) -> Actions:
    """What to do about a workload now, given the objects it owns; it is of a kind that has a controller here."""
    control = _control(obj)
    try:
        owner = _owner(obj) if owners is None else owners.of(obj)
    except Invalid as error:
        return faulty.reconcile(obj, control, error, children, now)
    sound = faulty.sound_again(obj)
    actions = control.reconcile(sound, owner, children, now)
    if sound is not obj and actions.status is None:
        actions = replace(actions, status=dict(sound["status"]))
    return taken.forgotten(sound, actions)


def _owner(obj: Mapping[str, Any]) -> Owner:
    workload = read(obj)
    queue = workload.queue if workload.scheduler == SCHEDULER_NAME else None
    return Owner.of(obj, queue, workload.priority)


def _control(obj: Mapping[str, Any]) -> Controller:
    kind = kind_named(obj["kind"])
    if kind is None or not kind.controlled:
        raise Invalid.at("kind", f"{obj['kind']} has no controller here: its pods are made by others")
    return kind.control
