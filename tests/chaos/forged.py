"""What users may write into objects that are theirs, or that they may edit, and that decides something: one table.

Each row names the kind, the moment from which an edit must not count any more (`agreed`: the group was accepted;
`bound`: the pod has its place, and the database says so; empty: at any moment), and draws what is written. A user who
may edit a pod may edit its labels, annotations and owners; one who may edit a PodGroup its spec, and with rights on its
subresource its status. Conditions and phases of pods are their kubelets' to write.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from t9ksched.kube.resources import PODGROUPS, PODS, PVCS
from t9ksched.model.api_resource import Resource
from tests.chaos.invariant_checker import QUEUE

Object = dict[str, Any]
_OURS = "scheduler.tensorstack.dev"
AGREED, BOUND = "agreed", "bound"
_SELECTED = "volume.kubernetes.io/selected-node"


@dataclass(frozen=True)
class Field:
    """One field, or fields that are written together. `write` gives a merge patch, of the status if `status`."""

    words: str
    resource: Resource
    since: str
    write: Callable[[Random, Object, list[str]], Object]
    """Of the dice, the object and `name/uid` of PodGroups of those who stand by."""
    status: bool = False


def _labels(key: str, *values: Any) -> Callable[[Random, Object, list[str]], Object]:
    return lambda dice, obj, others: {"metadata": {"labels": {key: dice.choice(values)}}}


def _annotations(*keys: str, values: tuple[Any, ...]) -> Callable[[Random, Object, list[str]], Object]:
    return lambda dice, obj, others: {"metadata": {"annotations": {dice.choice(keys): dice.choice(values)}}}


def _spec(key: str, *values: Any) -> Callable[[Random, Object, list[str]], Object]:
    return lambda dice, obj, others: {"spec": {key: dice.choice(values)}}


def _owners(dice: Random, obj: Object, others: list[str]) -> Object:
    """A group of an uninvolved user is named as an owner too, and as the controller if there is none."""
    kept = obj["metadata"].get("ownerReferences") or []
    if not others:
        return {}
    owner = {"apiVersion": "scheduler.tensorstack.dev/v1beta1", "kind": "PodGroup"}
    name, _, uid = dice.choice(others).partition("/")
    more = owner | {"name": name, "uid": uid, "controller": not kept and dice.random() < 0.5}
    return {"metadata": {"ownerReferences": [*kept, more]}}


def _group(dice: Random, obj: Object, others: list[str]) -> Object:
    """Another group, none, or the group of an uninvolved user."""
    names = [one.partition("/")[0] for one in others]
    return {"metadata": {"labels": {f"{_OURS}/group-name": dice.choice(("no-such-group", None, *names))}}}


def _condition(kind: str, status: str) -> Object:
    return {"type": kind, "status": status, "reason": "Forged", "message": "forged", "transitionID": "0"}


def _status(dice: Random, obj: Object, others: list[str]) -> Object:
    kinds = ("GroupScheduled", "Evicted", "SufficientGroupMember", "WaitingForVictims")
    conditions = [_condition(kind, dice.choice(("True", "False"))) for kind in dice.sample(kinds, dice.randint(0, 3))]
    return {"status": {"conditions": conditions, "running": dice.choice((0, 99)), "pending": dice.choice((0, 99))}}


_DURATIONS = ("1s", "0", "-1h", "soon", "9" * 400, "1000000h", None)
_MOMENTS = ("2020-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "soon", "2030-01-01", "", "9" * 400, None)
"""None to come: a job that waits for its moment would wait past the end of the test."""
FIELDS = (
    Field("queue of a pod", PODS, AGREED, _labels(QUEUE, "qa", "qb", "default", "none", "", None)),
    Field("group of a pod", PODS, BOUND, _group),
    Field("role of a pod", PODS, "", _labels(f"{_OURS}/role", "lead", "worker", "", None)),
    Field(
        "times of a pod",
        PODS,
        AGREED,
        _annotations(f"{_OURS}/time-limit", f"{_OURS}/signal-before", values=_DURATIONS),
    ),
    Field("start of a pod", PODS, "", _annotations(f"{_OURS}/start-after", values=_MOMENTS)),
    Field(
        "marks of a submission",
        PODS,
        "",
        _annotations(f"{_OURS}/submitted-by", f"{_OURS}/submission", values=("root", "", "x" * 300, None)),
    ),
    Field(
        "share of a card",
        PODS,
        BOUND,
        _annotations(
            f"{_OURS}/gpu-memory",
            f"{_OURS}/gpu-cores",
            f"{_OURS}/gpu-mode",
            values=("1", "0", "-5", "1Gi", "MPS", None),
        ),
    ),
    Field(
        "disruption of a pod",
        PODS,
        "",
        _annotations(
            "cluster-autoscaler.kubernetes.io/safe-to-evict", f"{_OURS}/reservation", values=("true", "x", "")
        ),
    ),
    Field("owners of a pod", PODS, BOUND, _owners),
    Field("queue of a group", PODGROUPS, AGREED, _spec("queue", "qa", "qb", "default", "none")),
    Field("priority of a group", PODGROUPS, AGREED, _spec("priority", 0, 50, 100)),
    Field("least members of a group", PODGROUPS, "", _spec("minMember", 1, 2, 5, 1_000_000)),
    Field(
        "roles of a group",
        PODGROUPS,
        "",
        _spec("roles", [{"name": "lead", "minMember": 1}], [{"name": "worker", "minMember": 99}], []),
    ),
    Field("topology of a group", PODGROUPS, AGREED, _annotations(f"{_OURS}/topology-key", values=("zone", "x", None))),
    Field("times of a group", PODGROUPS, AGREED, _annotations(f"{_OURS}/time-limit", values=_DURATIONS)),
    Field("start of a group", PODGROUPS, "", _annotations(f"{_OURS}/start-after", values=_MOMENTS)),
    Field("status of a group", PODGROUPS, "", _status, status=True),
    Field("node of a claim", PVCS, "", _annotations(_SELECTED, values=("n0", "n1", "no-such-node", "", None))),
    Field("labels of a claim", PVCS, "", _labels("app", "x", None)),
)
