"""The one door for controllers: `reconcile(obj, children, now)` for each kind they turn into pods.

`expand` shows what an object would become, without looking at what there is.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from t9ksched.model.errors import Invalid
from t9ksched.model.names import SCHEDULER_NAME
from t9ksched.workloads import faulty, lifecycle, taken
from t9ksched.workloads.actions import NO_CHILDREN, Actions, Children, Expansion
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job
from t9ksched.workloads.kinds import mpi, notebook, pytorch
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.read import read


def expand(obj: Mapping[str, Any]) -> Expansion:
    """Everything the workload consists of: PodGroup, pods, services, and so on.

    Raises:
        Invalid: with every fault; also for kinds that have no controller here.
    """
    owner = _owner(obj)
    if obj["kind"] == "Notebook":
        return notebook.expand(obj, notebook.read_spec(Field(obj)), owner)
    return _job(obj, owner).expansion


def reconcile(obj: Mapping[str, Any], children: Children, now: datetime) -> Actions:
    """What to do about a workload now, given the objects it owns."""
    try:
        owner = _owner(obj)
    except Invalid as error:
        return faulty.reconcile(obj, error, children, now)
    sound = faulty.sound_again(obj)
    if sound["kind"] == "Notebook":
        actions = notebook.reconcile(sound, notebook.read_spec(Field(sound)), owner, children, now)
    else:
        actions = lifecycle.reconcile(sound, _job(sound, owner, children), children, now)
    if sound is not obj and actions.status is None:
        actions = replace(actions, status=dict(sound["status"]))
    return taken.forgotten(sound, actions)


def _owner(obj: Mapping[str, Any]) -> Owner:
    workload = read(obj)
    queue = workload.queue if workload.scheduler == SCHEDULER_NAME else None
    return Owner.of(obj, queue, workload.priority)


def _job(obj: Mapping[str, Any], owner: Owner, children: Children = NO_CHILDREN) -> Job:
    match obj["kind"]:
        case "PyTorchTrainingJob":
            return pytorch.job(obj, pytorch.read_spec(Field(obj)), owner)
        case "MPIJob":
            return mpi.job(obj, mpi.read_spec(Field(obj)), owner, children)
    raise Invalid.at("kind", f"{obj['kind']} has no controller here: its pods are made by others")
