"""What a scrape of the scheduler's metrics costs: prints JSON.

    python tests/benchmarks/scrape.py [--nodes 5000] [--pods 44000] [--queues 200] [--record]

A state of nodes with 8 cards each, gangs of 8 pods with a card each that fill them, as many queues, and gangs that
wait. `first`: the page after a start. `same`: nothing has changed since the last one. `changed`: a tenth of the nodes
have changed. `all`: every node has. Told are the CPU milliseconds of the page, of its longest piece between two places
where other tasks run, and its size.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from t9ksched.admission.access import Members
from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.report.metrics import MetricsPage
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.state import ClusterState
from tests.benchmarks.memory import SIZE, group, node, pod, through_json
from tests.benchmarks.timing import least, report

NOW = 1_800_000_000_000_000_000
ROUNDS = 5


def filled(nodes: int, pods: int, queues: Sequence[str]) -> ClusterState:
    """Gangs of 8 one after the other on the nodes, in these queues, the last few of them waiting."""
    state = ClusterState()
    spec = {"quota": {"requests": {"cpu": "9999", "memory": "999Ti", "nvidia.com/gpu": "9999"}}}
    state.set_queues(Queue(name, parse_queue_spec(spec)) for name in queues)
    state.permit(dict.fromkeys(queues, Members(everyone=True)))
    for at in range(nodes):
        state.upsert_node(decode_node(node(at)))
    for at in range(pods // SIZE):
        made = group(at)
        made["spec"]["queue"] = queues[at % len(queues)]
        state.upsert_group(through_json(made, decoder(PodGroupObject)))
    for at in range(pods // SIZE * SIZE):
        state.upsert_pod(decode_pod(standing(at, nodes, queues)))
    while state.accept_running(NOW):
        pass
    return state


def standing(at: int, nodes: int, queues: Sequence[str]) -> dict[str, Any]:
    """A pod of a gang: eight on each node, and those of gangs that find no more cards wait."""
    full = at // SIZE >= nodes
    made = pod(at, "" if full else f"node-{at // SIZE:05}", cards=True)
    made["metadata"]["labels"][names.QUEUE_LABEL] = queues[at // SIZE % len(queues)]
    return made


def scraped(page: MetricsPage) -> dict[str, float]:
    """CPU milliseconds of a page and of its longest piece, and its size."""
    coroutine, pieces, text = page.exposition(False), [], b""
    gc.collect()
    while True:
        began = thread_time()
        try:
            coroutine.send(None)
        except StopIteration as end:
            text = end.value
        pieces.append(thread_time() - began)
        if text:
            break
    return {"cpu_ms": 1e3 * sum(pieces), "longest_piece_ms": 1e3 * max(pieces), "kib": len(text) / 1024}


def measured(state: ClusterState, nodes: int) -> dict[str, dict[str, float]]:
    """Each case, the least of a few pages."""
    page = MetricsPage(state)
    figures = {"first": scraped(page)}

    def touch(part: float) -> Callable[[int], None]:
        def change(nth: int) -> None:
            for at in range(int(nodes * part)):
                one = node(at)
                one["spec"]["unschedulable"] = nth % 2 == 0
                state.upsert_node(decode_node(one))
            state.card_audit.settle()  # as each cycle does

        return change

    for name, part in (("same", 0.0), ("changed", 0.1), ("all", 1.0)):
        figures[name] = least(lambda: scraped(page), touch(part), 2 * ROUNDS)
    return {name: {key: round(value, 2) for key, value in found.items()} for name, found in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="What a scrape of the scheduler's metrics costs.")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=44_000)
    parser.add_argument("--queues", type=int, default=200)
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    options = parser.parse_args()
    nodes, queues = options.nodes, [f"q{at}" for at in range(options.queues)]
    state = filled(nodes, options.pods, queues)
    gc.freeze()  # as in the service
    figures = measured(state, nodes)
    counts = {"nodes": nodes, "pods": options.pods, "queues": len(queues)}
    report("scrape", options.record, **counts, figures=figures)


if __name__ == "__main__":
    main()
