"""Changes of jobs that run: pausing, resuming and scaling them, as merge patches."""

from collections.abc import Mapping
from typing import Any

from t9ksched.model.errors import Invalid
from t9ksched.workloads.kind import Kind

Object = dict[str, Any]


class NotScalable(Exception):
    """A job whose size is fixed."""


def can_pause(kind: Kind) -> bool:
    """Whether a job of the kind can be paused and resumed."""
    return kind.stop is not None and kind.stop.resume is not None and not kind.stop.subresource


def is_paused(obj: Mapping[str, Any], kind: Kind) -> bool:
    """Whether the object says that the job shall not run."""
    return kind.stop is not None and _holds(obj, kind.stop.patch)


def _holds(obj: Any, patch: Any) -> bool:
    """Whether an object is already as a merge patch makes it."""
    if isinstance(patch, Mapping):
        return isinstance(obj, Mapping) and all(_holds(obj.get(key), value) for key, value in patch.items())
    return bool(obj == patch)


def scaled(obj: Mapping[str, Any], kind: Kind, replicas: int) -> tuple[Object, int | None]:
    """The patch that gives a job so many replicas, and how many it was to have.

    Raises:
        NotScalable: a job like this cannot be.
        Invalid: not so far.
    """
    scale = kind.scale
    if scale is None:
        raise NotScalable(f"a {kind.name} cannot be scaled")
    if scale.enabled and _at(obj, scale.enabled) is not True:
        raise NotScalable(f"only a {kind.name} with {'.'.join(scale.enabled)} can be scaled, and this one has it not")
    low, high = (_at(obj, path) if path else None for path in (scale.least, scale.most))
    least = low if isinstance(low, int) else 0 if scale.pauses else 1
    if replicas < least or (isinstance(high, int) and replicas > high):
        told = f"from {least} to {high}" if isinstance(high, int) else f"{least} or more"
        raise Invalid.at("replicas", f"{replicas} is out of range: this job may have {told}")
    before = _at(obj, scale.path)
    patch: Any = replicas
    for key in reversed(scale.path):
        patch = {key: patch}
    return patch, before if isinstance(before, int) else None


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        obj = obj.get(key) if isinstance(obj, Mapping) else None
    return obj
