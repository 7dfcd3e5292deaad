"""The status a kubelet writes on a pod, as pure functions of the pod and of what happened to it.

Each function gives a strategic merge patch of `status`: conditions merge by type, everything else is replaced.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from t9ksched.devcluster.controllers.timers import to_seconds, to_text
from t9ksched.devcluster.names import MESSAGE_ANNOTATION

Object = dict[str, Any]

TERMINAL: Final = ("Succeeded", "Failed")
CRASH_LOOP: Final = "CrashLoopBackOff"


@dataclass(frozen=True)
class Run:
    """One life of a pod's containers.

    Attributes:
        started: when the pod was admitted.
        since: when its containers last started; equal to `started` until one is restarted.
        restarts: how often they were restarted.
        stopped: when they last stopped, while they wait to be started again; None while they run.
        exit_code: of the last stop.
        earlier: from when to when they ran before the last restart; None if that is not known.
    """

    started: float
    since: float
    restarts: int = 0
    stopped: float | None = None
    exit_code: int = 0
    earlier: tuple[float, float] | None = None

    def stop(self, when: float, exit_code: int) -> "Run":
        """The run once its containers have stopped."""
        return replace(self, stopped=when, exit_code=exit_code)

    def restart(self, when: float) -> "Run":
        """The run once its containers, which had stopped, were started again."""
        earlier = (self.since, self.stopped or self.since)
        return replace(self, since=when, restarts=self.restarts + 1, stopped=None, earlier=earlier)


def phase_of(pod: Object) -> str:
    """The phase, `Pending` when there is none."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminal(pod: Object) -> bool:
    """Whether the pod has ended for good."""
    return phase_of(pod) in TERMINAL


def read_run(pod: Object) -> Run | None:
    """The run that a pod's status tells of; None when its containers never started."""
    status = pod.get("status") or {}
    started = to_seconds(status.get("startTime"))
    containers = status.get("containerStatuses") or []
    if started is None or status.get("phase") != "Running" or not containers:
        return None
    first = containers[0]
    state, last = first.get("state") or {}, (first.get("lastState") or {}).get("terminated") or {}
    since = to_seconds((state.get("running") or {}).get("startedAt"))
    restarts, code = int(first.get("restartCount") or 0), int(last.get("exitCode") or 0)
    before, stopped = to_seconds(last.get("startedAt")), to_seconds(last.get("finishedAt"))
    if since is None:
        return Run(started, before or started, restarts, stopped or started, code)
    earlier = None if before is None or stopped is None else (before, stopped)
    return Run(started, since, restarts, exit_code=code, earlier=earlier)


def _condition(kind: str, status: bool, when: float, reason: str = "") -> Object:
    found: Object = {"type": kind, "status": str(status), "lastTransitionTime": to_text(when)}
    return {**found, "reason": reason} if reason else found


def conditions(pod: Object, ready: bool, when: float, reason: str = "", *, initialized: bool = True) -> list[Object]:
    """Those of the kubelet's conditions that change; merged by type, those of others stay."""
    known = {entry["type"]: entry for entry in (pod.get("status") or {}).get("conditions") or []}
    before = {kind: entry.get("status") for kind, entry in known.items()}
    own = [
        _condition("Initialized", initialized, when, "" if initialized else "ContainersNotInitialized"),
        _condition("Ready", ready, when, reason),
        _condition("ContainersReady", ready, when, reason),
        _condition("PodScheduled", True, when),
    ]
    changed = [entry for entry in own if before.get(entry["type"]) != entry["status"]]
    for entry in changed:
        if "reason" not in entry and known.get(entry["type"], {}).get("reason"):
            entry["reason"] = None  # taken away by the patch
    return changed


def _sidecar(container: Object) -> bool:
    return container.get("restartPolicy") == "Always"


def _entry(
    container: Object, uid: str, run: Run | None, state: Object, ready: bool, last: Object | None = None
) -> Object:
    """The status of one container. An end in it names the instance that ended."""
    restarts = run.restarts if run else 0
    entry: Object = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
    if run is not None:
        name = f"simulated://{uid}/{container['name']}"
        entry["containerID"] = f"{name}/{restarts}"
        entry["state"] = _named(state, f"{name}/{restarts}")
        entry["lastState"] = _named(last or {}, f"{name}/{restarts if 'waiting' in state else restarts - 1}")
    return entry


def _named(state: Object, container: str) -> Object:
    """A state; an end with the ID of the container that ended."""
    return {key: value | {"containerID": container} if key == "terminated" else value for key, value in state.items()}


def _ended(since: float, finished: float, code: int) -> Object:
    return {
        "terminated": {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "startedAt": to_text(since),
            "finishedAt": to_text(finished),
        }
    }


def _with_last_words(state: Object, pod: Object) -> Object:
    """The end of a container, with what it wrote as its last words."""
    said = (pod["metadata"].get("annotations") or {}).get(MESSAGE_ANNOTATION)
    return {"terminated": {**state["terminated"], "message": said}} if said else state


def _before(run: Run) -> Object:
    """How the containers ended before their last restart; empty if they were never restarted."""
    return _ended(*(run.earlier or (run.started, run.since)), run.exit_code) if run.restarts else {}


def _inits(pod: Object, run: Run, state: Object, ready: bool, last: Object) -> list[Object]:
    """Init containers succeed the moment they start; sidecars go with the main containers."""
    uid = pod["metadata"]["uid"]
    return [
        _entry(container, uid, run, state, ready, last)
        if _sidecar(container)
        else _entry(container, uid, Run(run.started, run.started), _ended(run.started, run.started, 0), True)
        for container in pod["spec"].get("initContainers") or []
    ]


def running(pod: Object, run: Run, ip: str, host_ip: str) -> Object:
    """The status while containers run, or wait to be started again."""
    uid = pod["metadata"]["uid"]
    ready = run.stopped is None
    if ready:
        state: Object = {"running": {"startedAt": to_text(run.since)}}
        last = _before(run)
    else:
        state = {"waiting": {"reason": CRASH_LOOP, "message": "waits before the container is started again"}}
        last = _ended(run.since, run.stopped or run.since, run.exit_code)
    when = run.since if ready else (run.stopped or run.since)
    status: Object = {
        "phase": "Running",
        "startTime": to_text(run.started),
        "hostIP": host_ip,
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": conditions(pod, ready, when, reason="" if ready else "ContainersNotReady"),
        "containerStatuses": [_entry(each, uid, run, state, ready, last) for each in pod["spec"]["containers"]],
    }
    if inits := _inits(pod, run, state, ready, last):
        status["initContainerStatuses"] = inits
    return status


def finished(pod: Object, run: Run, when: float, code: int, reason: str = "", message: str = "") -> Object:
    """The status of a pod whose containers have ended for good. `reason` names a cause outside the containers."""
    uid = pod["metadata"]["uid"]
    state, last = _with_last_words(_ended(run.since, when, code), pod), _before(run)
    failed = code != 0 or bool(reason)
    ending = "PodFailed" if failed else "PodCompleted"
    status: Object = {
        "phase": "Failed" if failed else "Succeeded",
        "startTime": to_text(run.started),
        "conditions": conditions(pod, False, when, reason=ending),
        "containerStatuses": [_entry(each, uid, run, state, False, last) for each in pod["spec"]["containers"]],
    }
    if inits := _inits(pod, run, state, False, last):
        status["initContainerStatuses"] = inits
    if reason:
        status |= {"reason": reason, "message": message}
    return status


def refused(pod: Object, when: float, reason: str, message: str) -> Object:
    """The status of a pod that the kubelet did not admit."""
    return {"phase": "Failed", "reason": reason, "message": message, "startTime": to_text(when)}


def unstartable(pod: Object, when: float, reason: str, message: str) -> Object:
    """The status of an admitted pod whose containers cannot be created as the pod describes them. A kubelet that was
    restarted tells the same: the pod keeps its start.
    """
    uid = pod["metadata"]["uid"]
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "phase": "Pending",
        "startTime": (pod.get("status") or {}).get("startTime") or to_text(when),
        "conditions": conditions(pod, False, when, reason="ContainersNotReady"),
        "containerStatuses": [_entry(container, uid, None, state, False) for container in pod["spec"]["containers"]],
    }
