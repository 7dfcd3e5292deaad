"""A queue's usage and conditions, as the status of its object and REST show them."""

from t9ksched.model.volumes import ATTACH_PREFIX
from t9ksched.scheduler.counts import PHASES
from t9ksched.scheduler.shapes import Json, quantities
from t9ksched.scheduler.state import ClusterState


def queue_status(state: ClusterState, name: str, now: str) -> Json:
    """A queue's usage and conditions, as its object's status and REST show them."""
    queue = state.queues.get(name)
    used = {
        resource: amount
        for resource, amount in state.charges.queue_used[name].items()
        if amount and resource != "pods" and not resource.startswith(ATTACH_PREFIX)
    }
    shown = dict.fromkeys(queue.spec.quota if queue else (), 0) | used
    return {
        "allocated": quantities(shown.items()),
        "podGroups": {"total": state.counts.groups[name]},
        "pods": {phase.lower(): state.counts.pods[name][phase] for phase in PHASES},
        "conditions": _queue_conditions(state, name, used, now),
    }


def _queue_conditions(state: ClusterState, name: str, used: dict[str, int], now: str) -> list[Json]:
    queue = state.queues.get(name)
    closed = queue is not None and queue.spec.closed
    quota = queue.spec.quota if queue else {}
    pressed = sorted(r for r, nominal in quota.items() if used.get(r, 0) * 10 > nominal * 9)
    stops = [
        {
            "type": f"{stop.what.capitalize()}Stopped",
            "status": "True",
            "reason": "StoppedByAdministrator",
            "message": f"by {stop.by}" + (f": {stop.why}" if stop.why else ""),
            "lastTransitionTime": now,
        }
        for stop in state.stops
    ]
    return [
        {
            "type": "QueueClosed",
            "status": "True" if closed else "False",
            "reason": "QueueClosed" if closed else "QueueOpen",
            "message": "takes no new workloads" if closed else "takes new workloads",
            "lastTransitionTime": now,
        },
        {
            "type": "ResourcePressure",
            "status": "True" if pressed else "False",
            "reason": "QueueHasResourcePressure" if pressed else "QueueHasNoResourcePressure",
            "message": f"more than 90 % of the quota is in use: {', '.join(pressed)}" if pressed else "",
            "lastTransitionTime": now,
        },
        *stops,
    ]
