"""What simulated containers have written, as a function of the pod and the time: nothing is kept, and a restarted
cluster tells the same.

A container writes its command first, then a line of progress each second, or at its start what an annotation of the
pod says. `instance_of` finds the container as a kubelet does, with a kubelet's words where there is none to read.
"""

import math
import shlex
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from t9ksched.devcluster.controllers.timers import to_seconds
from t9ksched.devcluster.nodes.wishes import log_lines, run_seconds

Object = dict[str, Any]
_IMAGE_REASONS: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


class NotReadable(Exception):
    """There is no log, for the reason that it says."""


class Instance(msgspec.Struct, frozen=True):
    """One run of a container: its ID, when it started, and when it ended (None while it runs)."""

    id: str
    started: float
    ended: float | None


def instance_of(pod: Object, container: str, *, previous: bool = False) -> Instance:
    """The run of the container that has the newest log, or the one before its last restart.

    Raises:
        NotReadable: there is none.
    """
    where = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    status = _status_of(pod, container)
    if status is None:
        if (pod.get("status") or {}).get("phase", "Pending") == "Pending":
            raise NotReadable(f"{where} is waiting to start: ContainerCreating")
        raise NotReadable(f"{where} is not available")
    last = (status.get("lastState") or {}).get("terminated")
    if previous:
        if not last or not last.get("containerID"):
            raise NotReadable(f"previous terminated {where} not found")
        return _ended(last)
    state = status.get("state") or {}
    if running := state.get("running"):
        return Instance(str(status.get("containerID")), to_seconds(running.get("startedAt")) or 0.0, None)
    terminated = state.get("terminated") or last
    if terminated:
        if not terminated.get("containerID"):
            raise NotReadable(f"{where} is terminated")
        return _ended(terminated)
    reason = (state.get("waiting") or {}).get("reason", "ContainerCreating")
    raise NotReadable(f"{where} is waiting to start: {_IMAGE_REASONS.get(reason, reason)}")


def again(pod: Object, container: str, instance: Instance) -> Instance | None:
    """The same run as the pod tells of it now; None if the pod does not any more."""
    status = _status_of(pod, container) or {}
    for state in (status.get("state") or {}, status.get("lastState") or {}):
        if (state.get("terminated") or {}).get("containerID") == instance.id:
            return _ended(state["terminated"])
    running = "running" in (status.get("state") or {}) and status.get("containerID") == instance.id
    return instance if running else None


def _status_of(pod: Object, container: str) -> Object | None:
    status = pod.get("status") or {}
    listed = (entry for key in _STATUSES for entry in status.get(key) or ())
    return next((entry for entry in listed if entry.get("name") == container), None)


def _ended(terminated: Object) -> Instance:
    started, ended = to_seconds(terminated.get("startedAt")) or 0.0, to_seconds(terminated.get("finishedAt")) or 0.0
    return Instance(terminated["containerID"], started, ended)


class ContainerLog:
    """The lines of one run of a container, by their index from 0."""

    def __init__(self, pod: Object, container: str, instance: Instance) -> None:
        spec = pod["spec"]
        found = next(
            one for one in (*spec["containers"], *(spec.get("initContainers") or ())) if one["name"] == container
        )
        passing = found not in spec["containers"] and found.get("restartPolicy") != "Always"
        self._first = _first_line(found)
        self._lines = 0 if passing else log_lines(pod)
        self._started = instance.started
        limit = run_seconds(pod)
        # An end is told in whole seconds, rounded down.
        ends = (
            math.inf if limit is None else instance.started + limit,
            math.inf if instance.ended is None else instance.ended + 1,
        )
        self._before = min(ends)

    def count(self, now: float) -> int:
        """How many lines there are by then."""
        match self._lines:
            case None:
                seconds = min(math.floor(now - self._started) + 1, self._before - self._started)
                return max(1, math.ceil(seconds))
            case int():
                return self._lines + 1
        return len(self._lines)

    def at(self, index: int) -> float:
        """When a line was written."""
        return self._started + (index if self._lines is None else 0)

    def due(self, index: int) -> float:
        """When a line that is not there yet will be written, as far as that is known; infinite for never."""
        return self.at(index) if self._lines is None and self.at(index) < self._before else math.inf

    def line(self, index: int) -> str:
        """A line, without its end."""
        if isinstance(self._lines, tuple):
            return self._lines[index]
        return f"step {index}" if index else self._first

    def since(self, moment: float, count: int) -> int:
        """The index of the first line of so many that was not written before that moment; `count` if all were."""
        if self._lines is not None:
            return 0 if self._started >= moment else count
        return min(count, max(0, math.ceil(moment - self._started)))

    def written(self, start: int, end: int) -> Iterator[tuple[float, str]]:
        """The lines from one index to before another, each with its time."""
        return ((self.at(index), self.line(index)) for index in range(start, end))


def _first_line(container: Object) -> str:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    told = shlex.join(map(str, words)) if words else f"the command of image {container.get('image', '')}"
    return f"simulated: {told}"
