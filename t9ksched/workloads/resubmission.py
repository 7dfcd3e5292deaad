"""An object as it would be submitted anew: what the user asked for, without what servers, schedulers and controllers
have written since.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any, Final

from t9ksched.model.dns import ended
from t9ksched.model.errors import Invalid
from t9ksched.model.names import (
    ARRAY_ANNOTATION,
    ARRAY_LABEL,
    GPU_INDEX_PREFIX,
    GROUP_LABEL,
    MGPU_ASSUMED,
    MGPU_INDEX_PREFIX,
    SUBMISSION_ANNOTATION,
    SUBMITTED_BY_ANNOTATION,
)
from t9ksched.workloads.kind import Kind

Object = dict[str, Any]
_WRITTEN: Final = (
    ARRAY_ANNOTATION,
    ARRAY_LABEL,
    SUBMISSION_ANNOTATION,
    SUBMITTED_BY_ANNOTATION,
    GPU_INDEX_PREFIX,
    MGPU_INDEX_PREFIX,
    MGPU_ASSUMED,
    "ALIYUN_COM_GPU_MEM_",
    "batch.kubernetes.io/",
    "hami.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
    "scheduling.koordinator.sh/device-allocated",
)
"""Labels and annotations that are not the user's, or beginnings of them; an element of an array is a job by itself
when it is submitted again.
"""
_OF_A_JOB: Final = ("controller-uid", "job-name", "batch.kubernetes.io/")
"""Labels that the API server writes on the pods of a batch Job."""
_SLURM: Final = "SLURM_"
_TOKEN_VOLUME: Final = "kube-api-access-"
_ENDING: Final = re.compile(r"-[bcdfghjklmnpqrstvwxz2-9]{5}$")
"""What was put behind a name to make another one of it."""


def another_name(name: str, number: int) -> str:
    """That name with another end, which the number decides."""
    return ended(_ENDING.sub("", name) + "-", number)


def anew(obj: Mapping[str, Any], kind: Kind, name: str) -> Object:
    """A copy to be submitted under that name.

    Raises:
        Invalid: it is no whole job.
    """
    labels = obj["metadata"].get("labels") or {}
    if kind.name == "PodGroup" or (kind.name == "Pod" and GROUP_LABEL in labels):
        raise Invalid.at(
            "kind", "is a gang that was made by hand: its pods are objects of their own, submit them again"
        )
    made: Object = {"apiVersion": kind.api_version, "kind": kind.resource.api_kind, "metadata": {}}
    old, new = obj["metadata"], made["metadata"]
    new |= {"namespace": old["namespace"], "name": name}
    for field in ("labels", "annotations"):
        if kept := {key: value for key, value in (old.get(field) or {}).items() if not _written(key, kind)}:
            new[field] = kept
    spec: Object = copy.deepcopy(dict(obj.get("spec") or {}))
    if kind.stop is not None:
        _without(spec, kind.stop.patch.get("spec") or {})
    if kind.name == "Job":
        _plain_job(spec)
    elif kind.name == "Pod":
        _plain_pod(spec)
    _rename(spec, str(old["name"]), name)
    return made | {"spec": spec}


def _rename(part: Any, old: str, new: str) -> None:
    """Put the new name where a job says its own: as the group of its pods, and in Slurm's variables."""
    if isinstance(part, list):
        for one in part:
            _rename(one, old, new)
    elif isinstance(part, dict):
        if part.get(GROUP_LABEL) == old:
            part[GROUP_LABEL] = new
        if part.get("value") == old and str(part.get("name")).startswith(_SLURM):
            part["value"] = new
        for one in part.values():
            _rename(one, old, new)


def _written(key: str, kind: Kind) -> bool:
    return key.startswith(_WRITTEN) or (kind.name == "Job" and key.startswith(_OF_A_JOB))


def _without(spec: Object, patch: Mapping[str, Any]) -> None:
    """Take out what a stop has put in, so that the copy runs."""
    for key, value in patch.items():
        found = spec.get(key)
        if isinstance(value, Mapping) and isinstance(found, dict):
            _without(found, value)
            if not found:
                del spec[key]
        elif found == value:
            del spec[key]


def _plain_job(spec: Object) -> None:
    """Without the selector and the labels by which a Job finds its pods."""
    if not spec.pop("manualSelector", False):
        spec.pop("selector", None)
    meta = (spec.get("template") or {}).get("metadata") or {}
    meta.pop("creationTimestamp", None)
    if labels := meta.get("labels"):
        meta["labels"] = {key: value for key, value in labels.items() if not key.startswith(_OF_A_JOB)}


def _plain_pod(spec: Object) -> None:
    """Without its node, and without the volume that the API server mounts into every pod."""
    spec.pop("nodeName", None)
    if volumes := spec.get("volumes"):
        spec["volumes"] = [one for one in volumes if not str(one.get("name")).startswith(_TOKEN_VOLUME)]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if mounts := container.get("volumeMounts"):
            kept = [one for one in mounts if not str(one.get("name")).startswith(_TOKEN_VOLUME)]
            container["volumeMounts"] = kept
