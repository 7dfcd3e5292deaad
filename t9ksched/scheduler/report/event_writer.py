"""Kubernetes events, written best effort: on the job where there is one, else on the group or pod."""

from typing import Any

from t9ksched.kube.write.events import EventRecorder, Regarding
from t9ksched.model.names import SCHEDULER_API
from t9ksched.scheduler.state.records import GangRecord


class EventWriter:
    """Writes events about jobs, groups and pods."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def event(self, item: dict[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """An event about an object given by apiVersion, kind and metadata."""
        self._recorder.record(item, reason, message, type="Warning" if warning else "Normal")

    def gang(self, gang: GangRecord, reason: str, message: str, *, warning: bool = False) -> None:
        """An event about a group: on its job, else on the PodGroup, else on the one pod or the first one."""
        if gang.owner is not None:
            kind = gang.owner.kind.partition(".")[0]  # of kinds of one name the group stands behind a dot here
            about = Regarding(gang.owner.api_version, kind, gang.namespace, gang.owner.name, gang.owner.uid)
        elif gang.foreign:
            pod = next(iter(gang.members.values()), None)
            if pod is None:
                return
            about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
        elif gang.virtual:
            about = Regarding("v1", "Pod", gang.namespace, gang.name, gang.uid)
        else:
            about = Regarding(SCHEDULER_API, "PodGroup", gang.namespace, gang.name, gang.uid)
        self._recorder.record(about, reason, message, type="Warning" if warning else "Normal")


def reference(api_version: str, kind: str, namespace: str, name: str, uid: str) -> dict[str, Any]:
    """As much of an object as an event needs."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name, "uid": uid}}
