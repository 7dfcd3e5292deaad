"""A queue's usage and conditions: one source for the status of its object, for REST and for the metrics page.

`QueueStatuses` remembers since when each condition has its status. It starts from the Queue object's conditions, and
records no change before the whole cluster has been read (`settle`), so that a restart changes no transition time.
"""

from collections.abc import Callable, Collection
from datetime import UTC
from typing import Any, Final

from t9ksched.model.quantity import CARDS
from t9ksched.model.resources import PODS
from t9ksched.model.volumes import counts_volumes
from t9ksched.scheduler.report.job_shape import Json
from t9ksched.scheduler.report.node_shape import quantities
from t9ksched.scheduler.state.counts import PHASES
from t9ksched.scheduler.state.state import ClusterState

PRESSURE_PERCENT: Final = 90
"""A queue is under pressure when it uses more than this share of its quota of any resource."""


def allocated(state: ClusterState, name: str) -> dict[str, int]:
    """What the placed pods of a queue request, in units; 0 for what its quota names and it does not use.

    Numbers of pods and of cards are reported only if the quota names them, numbers of volumes never.
    """
    queue = state.queues.get(name)
    quota = queue.spec.quota if queue else {}
    used = {
        resource: amount
        for resource, amount in state.charges.used(name, cards=CARDS in quota).items()
        if amount and not counts_volumes(resource) and (resource != PODS or PODS in quota)
    }
    return dict.fromkeys(quota, 0) | used


def pressed(state: ClusterState, name: str) -> list[str]:
    """The resources of which the queue uses more than `PRESSURE_PERCENT` of its quota, sorted."""
    queue, used = state.queues.get(name), allocated(state, name)
    quota = queue.spec.quota if queue else {}
    return sorted(one for one, nominal in quota.items() if used[one] * 100 > nominal * PRESSURE_PERCENT)


class QueueStatuses:
    """The status of each queue. `now` gives the present time as Kubernetes writes it (RFC 3339, to the second)."""

    def __init__(self, state: ClusterState, now: Callable[[], str]) -> None:
        self._state = state
        self._now = now
        self._since: dict[str, dict[str, tuple[str, str]]] = {}
        """By queue and type of condition: its status and since when."""
        self._met: set[str] = set()
        self._settled = False

    def settle(self) -> None:
        """The cluster has been read: from now on a condition that differs from what is remembered has changed."""
        self._settled = True
        self.keep(self._state.queues)

    def of(self, name: str) -> Json:
        """The queue's status, made anew; a condition whose status changed has changed now."""
        state = self._state
        return {
            "allocated": quantities(allocated(state, name).items()),
            "podGroups": {"total": state.counts.groups[name]},
            "pods": {phase.lower(): state.counts.pods[name][phase] for phase in PHASES},
            "conditions": [*self._conditions(name), *self._stops()],
        }

    def meet(self, name: str, item: dict[str, Any]) -> None:
        """Take over the transition times of a Queue object, the first time that it is seen."""
        if name in self._met:
            return
        self._met.add(name)
        known = self._since.setdefault(name, {})
        for condition in (item.get("status") or {}).get("conditions") or ():
            kind, status, since = (condition.get(key) for key in ("type", "status", "lastTransitionTime"))
            if not (isinstance(kind, str) and isinstance(status, str) and isinstance(since, str)):
                continue
            now, when = known.get(kind, (status, since))
            if now == status:
                known[kind] = (status, min(when, since))

    def keep(self, names: Collection[str]) -> None:
        """Note what changed of these queues, and forget all others."""
        for name in self._since.keys() - set(names):
            del self._since[name]
        self._met &= set(names)
        for name in names:
            self._closed(name)

    def _conditions(self, name: str) -> list[Json]:
        scarce = pressed(self._state, name)
        reason, message = "QueueHasNoResourcePressure", ""
        if scarce:
            reason = "QueueHasResourcePressure"
            message = f"more than {PRESSURE_PERCENT} % of the quota is in use: {', '.join(scarce)}"
        return [self._closed(name), self._condition(name, "ResourcePressure", bool(scarce), reason, message)]

    def _closed(self, name: str) -> Json:
        queue = self._state.queues.get(name)
        if queue is not None and queue.spec.closed:
            return self._condition(name, "QueueClosed", True, "QueueClosed", "takes no new workloads")
        return self._condition(name, "QueueClosed", False, "QueueOpen", "takes new workloads")

    def _condition(self, name: str, kind: str, holds: bool, reason: str, message: str) -> Json:
        status, known = str(holds), self._since.setdefault(name, {})
        before, since = known.get(kind, ("", ""))
        if before != status:
            since = self._now()
            if self._settled:
                known[kind] = (status, since)
        return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}

    def _stops(self) -> list[Json]:
        """What an administrator stopped is a condition of every queue for as long as the stop lasts."""
        return [
            {
                "type": f"{stop.what.capitalize()}Stopped",
                "status": "True",
                "reason": "StoppedByAdministrator",
                "message": f"by {stop.by}" + (f": {stop.why}" if stop.why else ""),
                "lastTransitionTime": stop.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            for stop in self._state.stops
        ]
