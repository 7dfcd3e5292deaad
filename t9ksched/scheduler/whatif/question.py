"""What a replica of REST asks: objects that are judged already, and a change; the change is read here."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from t9ksched.admission.oddities import nearest
from t9ksched.engine.plugins import Factory
from t9ksched.engine.policy import Policy
from t9ksched.engine.scheduler_conf import parse_conf
from t9ksched.model.dns import is_subdomain
from t9ksched.model.errors import FieldError, Invalid, child, faulty, shown
from t9ksched.model.labels import key_fault, value_fault
from t9ksched.model.names import CARD_MODE_ANNOTATION, HONOURS_INDEX, PLUGIN_CHOOSES
from t9ksched.model.node import Condition, Node, NodeFacts, NodeSpec, NodeStatus, TaintField, node_facts
from t9ksched.model.pod import Metadata
from t9ksched.model.quantity import QuantityError, to_units
from t9ksched.model.queue import QueueSpec, parse_queue_spec
from t9ksched.model.taints import OF_KUBERNETES
from t9ksched.scheduler.state.objects import HOSTNAME
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.whatif.newcomers import Submitted
from t9ksched.simulation.whatif import Change

MOST_ADDED: Final = 10_000
"""Nodes that a change may add."""
_ENTRY: Final = ("name", "count", "like", "labels", "taints", "allocatable", "cardMode")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MODES: Final = (HONOURS_INDEX, PLUGIN_CHOOSES)


class AskedChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change as REST passes it on: whole specs of queues by name, the rest as the user wrote it."""

    queues: dict[str, Any] = {}
    nodesGone: list[Any] = []
    nodesAdded: list[Any] = []
    policy: str | None = None


class Question(msgspec.Struct, frozen=True):
    """What is asked, and for whom; `horizon` is in seconds."""

    user: str
    groups: list[str] = []
    items: list[Submitted] = []
    change: AskedChange = AskedChange()
    horizon: int = 7 * 86_400


def read_change(asked: Question, state: ClusterState, plugins: Callable[[], Mapping[str, Factory]]) -> Change:
    """The change, without what is submitted. `plugins` makes installed plugins, by name.

    Raises:
        Invalid: naming every faulty field below `change`.
    """
    form = asked.change
    faults: list[FieldError] = []
    queues: dict[str, QueueSpec] = {}
    used = {item.queue for item in asked.items} | {gang.queue for gang in state.gangs.values()}
    for nth, (name, spec) in enumerate(form.queues.items()):
        if name not in state.queues and name not in used:
            near = nearest(name, sorted(state.queues))
            hint = f"; did you mean {near!r}?" if near else ""
            text = f"there is no queue {name!r}, and no job asks for one of that name{hint}"
            faults.append(FieldError(f"change.queues[{nth}].name", text))
        try:
            queues[name] = parse_queue_spec(spec, f"change.queues[{name}].spec")
        except Invalid as error:
            faults += error.errors
    gone: list[str] = []
    for nth, name in enumerate(form.nodesGone):
        if not isinstance(name, str) or name not in state.node_objects:
            faults.append(FieldError(f"change.nodesGone[{nth}]", f"there is no node {name!r}"))
        else:
            gone.append(name)
    added = _added(form.nodesAdded, state, frozenset(gone), faults)
    policy = _policy(form.policy, plugins, faults)
    if faults:
        raise Invalid(faults)
    return Change(queues=queues, gone=tuple(dict.fromkeys(gone)), added=added, policy=policy)


def _policy(text: str | None, plugins: Callable[[], Mapping[str, Factory]], faults: list[FieldError]) -> Policy | None:
    if text is None:
        return None
    try:
        return parse_conf(text, plugins())
    except Invalid as error:
        faults += [FieldError("change.policy", str(one)) for one in error.errors]
        return None


def _added(
    entries: list[Any], state: ClusterState, gone: frozenset[str], faults: list[FieldError]
) -> tuple[NodeFacts, ...]:
    """The nodes that come."""
    found: dict[str, NodeFacts] = {}
    for nth, raw in enumerate(entries):
        entry = _Nodes(raw, f"change.nodesAdded[{nth}]", faults, state)
        for facts in entry.nodes(MOST_ADDED - len(found)):
            if facts.name in found or (facts.name in state.node_objects and facts.name not in gone):
                faults.append(FieldError(f"{entry.path}.name", f"the node {facts.name!r} exists already"))
                break
            found[facts.name] = facts
    return tuple(found.values())


class _Nodes:
    """One entry of nodes that come: alike nodes, described or like one that there is."""

    def __init__(self, raw: Any, path: str, faults: list[FieldError], state: ClusterState) -> None:
        self.path = path
        self._faults = faults
        self._state = state
        self._before = len(faults)
        self._raw: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
        if not isinstance(raw, Mapping):
            faults.append(FieldError(path, "must be a mapping with name, and with like or allocatable"))
        for key in self._raw:
            if key not in _ENTRY:
                self._fault(str(key), f"is unknown: the fields are {', '.join(_ENTRY)}")

    def _fault(self, key: str, message: str) -> None:
        self._faults.append(FieldError(child(self.path, key), message))

    def nodes(self, most: int) -> list[NodeFacts]:
        """The nodes, at most so many; none where there are faults."""
        name, count = self._raw.get("name"), self._raw.get("count")
        if self._raw and (not isinstance(name, str) or not is_subdomain(name) or len(name) > 240):
            self._fault("name", f"{faulty(name, 'is not a node name')}: use a-z, 0-9, - and .")
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most):
            self._fault("count", f"{shown(count)} is out of range: use a whole number from 1 to {most}")
        first = self._facts()
        if len(self._faults) > self._before or first is None:
            return []
        names = [str(name)] if count is None else [f"{name}-{nth}" for nth in range(count)]
        return [replace(first, name=each, uid="", labels={**first.labels, HOSTNAME: each}) for each in names]

    def _facts(self) -> NodeFacts | None:
        like = self._raw.get("like")
        if like is not None:
            known = self._state.node_objects.get(like) if isinstance(like, str) else None
            if known is None:
                self._fault("like", f"there is no node {shown(like)}")
                return None
            for key in ("taints", "allocatable", "cardMode"):
                if self._raw.get(key) is not None:
                    self._fault(key, "is that of the node named by like: leave one of both out")
            labels = {**known[1].labels, **self._labels()}
            lasting = tuple(taint for taint in known[1].taints if not taint.key.startswith(OF_KUBERNETES))
            well = replace(known[1], labels=labels, taints=lasting, unschedulable=False, ready=True, deleting=False)
            return replace(well, unsure=False, why_unsure="")
        mode = self._raw.get("cardMode")
        if mode not in (None, *_MODES):
            self._fault("cardMode", f"{shown(mode)} is unknown: use {' or '.join(_MODES)}")
            mode = None
        meta = Metadata(labels=self._labels(), annotations={CARD_MODE_ANNOTATION: mode or HONOURS_INDEX})
        status = NodeStatus(self._allocatable(), [Condition("Ready", "True")])
        return node_facts(Node(meta, NodeSpec(taints=self._taints()), status))

    def _labels(self) -> dict[str, str]:
        found = self._raw.get("labels")
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            self._fault("labels", "must be a mapping of labels")
            return {}
        for key, value in found.items():
            text = "must be a text: write it with quotes"
            fault = key_fault(str(key)) or (value_fault(value) if isinstance(value, str) else text)
            if fault:
                self._fault(f"labels.{key}", fault)
        return {str(key): str(value) for key, value in found.items()}

    def _taints(self) -> list[TaintField]:
        found = []
        raw = self._raw.get("taints") or []
        if not isinstance(raw, list):
            self._fault("taints", "must be a list of {key, value, effect}")
            return []
        for nth, one in enumerate(raw):
            key = one.get("key") if isinstance(one, Mapping) else None
            if not isinstance(one, Mapping) or not isinstance(key, str) or one.get("effect") not in _EFFECTS:
                self._fault(f"taints[{nth}]", f"must have a key, and an effect of {', '.join(_EFFECTS)}")
                continue
            found.append(TaintField(key, str(one.get("value") or ""), str(one["effect"])))
        return found

    def _allocatable(self) -> dict[str, str | int | float]:
        raw = self._raw.get("allocatable")
        if not isinstance(raw, Mapping) or not raw:
            if self._raw:
                self._fault("allocatable", "is missing: write amounts by resource, or the name of a node as like")
            return {}
        for name, value in raw.items():
            try:
                if to_units(str(name), value) < 0:
                    self._fault(child("allocatable", str(name)), f"{value!r} is negative")
            except QuantityError as error:
                self._fault(child("allocatable", str(name)), str(error))
        return {"pods": 110, **raw}
