"""The launcher of a job in the shape of replica types, where the user left it open: `type: launcher, template: {}`.

A launcher only starts processes on the workers, so it needs their image, volumes and node choice, small resources and
no cards. It is filled in before the replica types are read, so that every reader sees a whole template.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any, Final

from t9ksched.model.errors import FieldError
from t9ksched.workloads.fields import Field

LAUNCHER: Final = "launcher"
WORKER: Final = "worker"
LAUNCHER_RESOURCES: Final = {
    "requests": {"cpu": "100m", "memory": "100Mi"},
    "limits": {"cpu": "200m", "memory": "200Mi"},
}
_KEY: Final = re.compile(r"[.\[]")
_OF_A_SERVER: Final = ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def launcher_spec(worker: Mapping[str, Any], *training: str, name: str = LAUNCHER) -> dict[str, Any]:
    """The pod spec of a launcher like these workers; as it is where its containers cannot be read.

    Args:
        worker: the pod spec of a worker.
        training: names that the worker's training container may have, in the order of preference.
        name: what the launcher's container is called.
    """
    spec: dict[str, Any] = copy.deepcopy(dict(worker))
    spec.pop("initContainers", None)
    container = _training(spec, training)
    if container is not None:
        for field in _OF_A_SERVER:
            container.pop(field, None)
        container.update(name=name, resources=copy.deepcopy(LAUNCHER_RESOURCES))
        spec["containers"] = [container]
    return spec


def fill_launcher(specs: Field, *training: str) -> Field:
    """The replica types with a launcher that has a whole template.

    Without containers it becomes a launcher like the workers, under what its own template says; a container without
    image has that of the workers. What cannot be read is left for the reader to report.
    """
    entries = specs.value
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        return specs
    worker = next((_pod(entry) for entry in entries if entry.get("type") == WORKER), {})
    container = _training(worker, training)
    if container is None:
        return specs
    filled = [
        _filled(entry, worker, container, training) if entry.get("type") == LAUNCHER else entry for entry in entries
    ]
    return Field(filled, specs.path, specs.faults, unreachable=specs.unreachable)


def drop_copied_faults(specs: Field) -> None:
    """Take back what was said of a launcher's template where it is the worker's: that has the fault, and was told."""
    entries = [entry for entry in specs.items() if isinstance(entry.value, Mapping)]
    launcher, worker = (
        next((one for one in entries if one["type"].value == role), None) for role in (LAUNCHER, WORKER)
    )
    if launcher is None or worker is None:
        return
    told = {fault.message for fault in specs.faults if fault.path.startswith(f"{worker.path}.template.spec.")}
    written = {key for key, value in _pod(launcher.value).items() if value or key != "containers"}

    def copied(fault: FieldError) -> bool:
        before, launches, below = fault.path.partition(f"{launcher.path}.template.spec.")
        filled = _KEY.split(below)[0] not in written or below.endswith("].image")
        return bool(launches) and not before and filled and fault.message in told

    specs.faults[:] = [fault for fault in specs.faults if not copied(fault)]


def _filled(
    entry: Mapping[str, Any], worker: Mapping[str, Any], training: Mapping[str, Any], names: tuple[str, ...]
) -> Mapping[str, Any]:
    template, own = entry.get("template"), _pod(entry)
    if not isinstance(template, Mapping | None) or not isinstance((template or {}).get("spec"), Mapping | None):
        return entry
    containers = own.get("containers")
    if not containers:
        given = {key: value for key, value in own.items() if key != "containers"}
        spec = {**launcher_spec(worker, *names), **given}
    elif isinstance(containers, list) and all(isinstance(each, Mapping) for each in containers):
        image = training.get("image")
        spec = {**own, "containers": [each if each.get("image") else {**each, "image": image} for each in containers]}
    else:
        return entry
    return {**entry, "template": {**(template or {}), "spec": spec}}


def _pod(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    template = entry.get("template")
    spec = template.get("spec") if isinstance(template, Mapping) else None
    return spec if isinstance(spec, Mapping) else {}


def _training(spec: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    """The container that does the work: the first with one of the names, else the first; None where there is none."""
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers or not all(isinstance(each, dict) for each in containers):
        return None
    found: dict[str, Any] = containers[0]
    return next((each for wanted in names for each in containers if each.get("name") == wanted), found)
