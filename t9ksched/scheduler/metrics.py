"""Metrics in Prometheus text: requests by node as the product documents them, queues and gangs as our own.

The page is written by hand from the state, node by node with a pause between slices: a client library's label objects
would cost ten times as much, and a large cluster must not hold the event loop.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from t9ksched.scheduler.state import ClusterState
from t9ksched.store.controls import STOPPABLE

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_UNITS: Final = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte"}
_NODES_A_SLICE: Final = 200


async def exposition(
    state: ClusterState,
    configuration_refused: bool,
    plugin_failures: Mapping[str, int] | None = None,
    plugin_slow: Mapping[str, int] | None = None,
) -> bytes:
    """The whole page."""
    lines = [
        "# HELP T9kScheduler_node_resource_requests Requests of non-terminated pods on a node.",
        "# TYPE T9kScheduler_node_resource_requests gauge",
    ]
    for count, name in enumerate(sorted(state.node_objects), start=1):
        used: defaultdict[str, int] = defaultdict(int)
        for charge in state.charges.on_node(name):
            for resource, amount in charge.pod_class.requests:
                used[resource] += amount
        used.pop("pods", None)
        lines.extend(_request(name, resource, amount) for resource, amount in sorted(used.items()))
        if count % _NODES_A_SLICE == 0:
            await asyncio.sleep(0)
    lines += ["# HELP t9ksched_queue_allocated Requests held through a queue.", "# TYPE t9ksched_queue_allocated gauge"]
    for queue in sorted(state.queues):
        lines.extend(
            f'''t9ksched_queue_allocated{{queue="{queue}",resource="{_text(resource)}"}} {amount}'''
            for resource, amount in sorted(state.charges.queue_used[queue].items())
        )
    stopped = {stop.what for stop in state.stops}
    lines += [
        "# HELP t9ksched_gangs_waiting Groups that wait for a place.",
        "# TYPE t9ksched_gangs_waiting gauge",
        f"t9ksched_gangs_waiting {len(state.pending)}",
        "# HELP t9ksched_stopped Whether an administrator stopped it for now.",
        "# TYPE t9ksched_stopped gauge",
        *(f't9ksched_stopped{{what="{what}"}} {int(what in stopped)}' for what in STOPPABLE),
        "# HELP t9ksched_database_away Whether the database does not answer, so that new groups wait.",
        "# TYPE t9ksched_database_away gauge",
        f"t9ksched_database_away {int(state.outage.away)}",
        "# HELP t9ksched_configuration_refused Whether the newest configuration is unusable.",
        "# TYPE t9ksched_configuration_refused gauge",
        f"t9ksched_configuration_refused {int(configuration_refused)}",
        "# HELP t9ksched_plugin_failures_total Cycles in which a plugin failed and was switched off.",
        "# TYPE t9ksched_plugin_failures_total counter",
        *(
            f't9ksched_plugin_failures_total{{plugin="{_text(name)}"}} {count}'
            for name, count in sorted((plugin_failures or {}).items())
        ),
        "# HELP t9ksched_plugin_slow_answers_total Answers of a plugin that took longer than 50 ms.",
        "# TYPE t9ksched_plugin_slow_answers_total counter",
        *(
            f't9ksched_plugin_slow_answers_total{{plugin="{_text(name)}"}} {count}'
            for name, count in sorted((plugin_slow or {}).items())
        ),
        "",
    ]
    return "\n".join(lines).encode()


def _request(node: str, resource: str, amount: int) -> str:
    value = f"{amount / 1000:g}" if resource == "cpu" else str(amount)
    labels = f'node="{_text(node)}",resource="{_text(resource)}",unit="{_UNITS.get(resource, "integer")}"'
    return f"T9kScheduler_node_resource_requests{{{labels}}} {value}"


def _text(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
