"""What is to be done for a pod and what is to be told of it, from what is known of its containers: pure functions.

The order is a kubelet's: init containers one after the other, sidecars among them from then on, then the main ones
together. A container that ended starts again as the pod's `restartPolicy` says, after a pause that doubles with each
start and is forgotten once it ran for ten minutes. Sidecars end last. `activeDeadlineSeconds` ends everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from t9ksched.devcluster.controllers.timers import to_seconds, to_text
from t9ksched.devcluster.local.runtime import Attempt
from t9ksched.devcluster.nodes.podagent import BACKOFF
from t9ksched.devcluster.nodes.podstatus import CRASH_LOOP, conditions

Object = dict[str, Any]
Runs = Mapping[str, Sequence[Attempt]]
"""The runs of each container by its name, oldest first; the newest two suffice."""

LONG_ENOUGH: Final = 600.0
"""Seconds after which the pauses between restarts begin anew."""
LAST_GRACE: Final = 2.0
"""Seconds that sidecars have once the main containers have ended."""


@dataclass
class PodStep:
    """What follows.

    Attributes:
        start: containers to start now, each with the number of its run.
        stop: IDs of running containers to end, each with its seconds of grace.
        due: when to look again, if nothing happens before.
        status: what to write.
        over: the pod has ended for good.
    """

    start: list[tuple[Object, int]] = field(default_factory=list)
    stop: list[tuple[str, float]] = field(default_factory=list)
    due: float | None = None
    status: Object = field(default_factory=dict)
    over: bool = False

    def wait(self, until: float) -> None:
        """Look again at that time at the latest."""
        self.due = until if self.due is None else min(self.due, until)


def containers_of(pod: Object) -> list[Object]:
    """All containers of a pod in the order in which they start."""
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def next_step(pod: Object, runs: Runs, now: float, address: str, host: str, troubles: Mapping[str, Object]) -> PodStep:
    """Bring a pod on. `troubles` has the waiting state of each container that could not be created."""
    step = PodStep()
    inits, mains = pod["spec"].get("initContainers") or [], pod["spec"]["containers"]
    policy = pod["spec"].get("restartPolicy") or "Always"
    started = to_seconds((pod.get("status") or {}).get("startTime")) or now
    limit = pod["spec"].get("activeDeadlineSeconds")
    late = limit is not None and started + limit <= now
    begun = any(_last(runs, one) is not None for one in mains)
    ready, failed = True, False
    for container in inits if not late else ():
        last, sidecar = _last(runs, container), _sidecar(container)
        if begun and not sidecar:
            continue
        if last is not None and last.ended is None:
            ready = sidecar
        elif last is not None and not sidecar and last.code == 0:
            continue
        elif last is not None and not sidecar and policy == "Never":
            ready, failed = False, True
        else:
            ready = _again(step, container, last, now) and sidecar
        if not ready and not begun:
            break
    ready = ready or begun
    for container in mains if ready and not late else ():
        last = _last(runs, container)
        if last is None or (last.ended is not None and _restarts(policy, last.code)):
            _again(step, container, last, now)
    if late or failed or _ended(runs, mains, policy):
        _wind_up(step, pod, runs)
        alive = [one for one in containers_of(pod) if (last := _last(runs, one)) is not None and last.ended is None]
        step.over = not alive
    if limit is not None and not late:
        step.wait(started + limit)
    step.status = _status(pod, runs, address, host, troubles, now, initialized=ready, over=step.over)
    if step.over:
        reason, text = "", ""
        if late:
            reason = "DeadlineExceeded"
            text = f"the pod was active longer than its activeDeadlineSeconds of {limit}"
        codes = [last.code for one in mains if (last := _last(runs, one)) is not None]
        bad = late or failed or any(codes)
        step.status["phase"] = "Failed" if bad else "Succeeded"
        step.status |= {"reason": reason, "message": text} if reason else {}
    return step


def _last(runs: Runs, container: Object) -> Attempt | None:
    seen = runs.get(container["name"]) or ()
    return seen[-1] if seen else None


def _sidecar(container: Object) -> bool:
    return container.get("restartPolicy") == "Always"


def _restarts(policy: str, code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _again(step: PodStep, container: Object, last: Attempt | None, now: float) -> bool:
    """Start a container, at once or when its pause is over; whether it starts now."""
    if last is None:
        step.start.append((container, 0))
        return True
    due = (last.ended or now) + _pause(last)
    if due > now:
        step.wait(due)
        return False
    step.start.append((container, last.number + 1))
    return True


def _pause(last: Attempt) -> float:
    if last.ended is not None and last.ended - last.started >= LONG_ENOUGH:
        return 0.0
    return BACKOFF[min(last.number, len(BACKOFF) - 1)]


def _ended(runs: Runs, mains: Sequence[Object], policy: str) -> bool:
    """Whether no main container runs or will run again."""
    for container in mains:
        last = _last(runs, container)
        if last is None or last.ended is None or _restarts(policy, last.code):
            return False
    return True


def _wind_up(step: PodStep, pod: Object, runs: Runs) -> None:
    """End what still runs: main containers with the pod's grace, sidecars soon after the last of them."""
    step.start.clear()
    grace = pod["spec"].get("terminationGracePeriodSeconds")
    mains = {one["name"] for one in pod["spec"]["containers"]}
    for container in containers_of(pod):
        last = _last(runs, container)
        if last is not None and last.ended is None:
            full = 30.0 if grace is None else float(grace)
            step.stop.append((last.id, full if container["name"] in mains else min(full, LAST_GRACE)))


def ended_state(run: Attempt) -> Object:
    """How a run ended, as a container's state."""
    state: Object = {
        "exitCode": run.code,
        "reason": run.reason or ("Completed" if run.code == 0 else "Error"),
        "startedAt": to_text(run.started),
        "finishedAt": to_text(run.ended or run.started),
        "containerID": run.id,
    }
    state |= {"signal": run.signal} if run.signal else {}
    return {"terminated": state | ({"message": run.message} if run.message else {})}


def _status(
    pod: Object,
    runs: Runs,
    address: str,
    host: str,
    troubles: Mapping[str, Object],
    now: float,
    *,
    initialized: bool,
    over: bool,
) -> Object:
    policy = pod["spec"].get("restartPolicy") or "Always"
    mains = pod["spec"]["containers"]
    begun = initialized and any(_last(runs, one) for one in mains)
    ready = all((last := _last(runs, one)) is not None and last.ended is None for one in mains)
    reason = "" if ready else "PodCompleted" if over else "ContainersNotReady"
    waiting = {"waiting": {"reason": "ContainerCreating" if initialized else "PodInitializing"}}
    first = {"waiting": {"reason": "PodInitializing"}}
    status: Object = {
        "phase": "Running" if begun else "Pending",
        "startTime": (pod.get("status") or {}).get("startTime") or to_text(now),
        "hostIP": host,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions(pod, ready, now, reason, initialized=initialized),
        "containerStatuses": [_entry(one, runs, troubles, waiting, policy) for one in mains],
    }
    if inits := pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = [
            _entry(one, runs, troubles, first, _init_policy(one, policy), init=True) for one in inits
        ]
    return status


def _init_policy(container: Object, policy: str) -> str:
    """When an init container starts again: as the pod's main containers do, but never once it succeeded."""
    return "Always" if _sidecar(container) else "Never" if policy == "Never" else "OnFailure"


def _entry(
    container: Object,
    runs: Runs,
    troubles: Mapping[str, Object],
    waiting: Object,
    policy: str,
    *,
    init: bool = False,
) -> Object:
    seen = runs.get(container["name"]) or ()
    last = seen[-1] if seen else None
    before = seen[-2] if len(seen) > 1 else None
    entry: Object = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": last is not None and last.ended is None,
        "started": last is not None and last.ended is None,
        "restartCount": last.number if last is not None else 0,
        "state": troubles.get(container["name"], waiting),
        "lastState": {},
    }
    if last is None:
        return entry
    entry["containerID"] = last.id
    if last.ended is None:
        entry["state"] = {"running": {"startedAt": to_text(last.started)}}
    elif _restarts(policy, last.code):
        crashed = {"reason": CRASH_LOOP, "message": "waits before the container is started again"}
        entry["state"] = troubles.get(container["name"], {"waiting": crashed})
        before = last
    else:
        entry["state"] = ended_state(last)
        entry["ready"] = init and last.code == 0
    if before is not None:
        entry["lastState"] = ended_state(before)
    return entry
