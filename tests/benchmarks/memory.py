"""How much memory a scheduler's state and its plans take: prints JSON.

    python tests/benchmarks/memory.py [--nodes 10000] [--pods 100000] [--record]

Nodes and pods are decoded from the JSON a watch sends, each text given up at once, and put into the state as the
service does: gangs of 8 pods, the first on each node with a card each, the others without; and one gang that waits for
cards and finds them by preemption, so that every running group is told to the engine in every cycle. `rss_mib` is what
the process holds after each step, `peak_mib` the most it ever held.
"""

import argparse
import ctypes
import gc
import json
import resource
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from t9ksched.admission.access import Members
from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.act.evictable_gangs import EvictableGangs
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.state import ClusterState
from tests.benchmarks.timing import best, report

SIZE = 8
NOW = 1_800_000_000_000_000_000
CREATED = "2026-01-01T00:00:00Z"


def node(at: int) -> dict[str, Any]:
    """A node with the labels and conditions that a GPU node has."""
    labels = {"kubernetes.io/hostname": f"node-{at:05}", "nvidia.com/gpu.product": "A100", "rack": f"r{at % 64}"}
    allocatable = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8", "ephemeral-storage": "1Ti"}
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]
    meta = {"name": f"node-{at:05}", "uid": f"6f0e6a54-0000-4000-8000-{at:012}", "labels": labels}
    return {"metadata": meta, "spec": {}, "status": {"allocatable": allocatable, "conditions": conditions}}


def pod(at: int, where: str, cards: bool) -> dict[str, Any]:
    """A pod of gang `at // SIZE`, on a node or waiting."""
    group = f"job-{at // SIZE}"
    labels = {names.GROUP_LABEL: group, names.QUEUE_LABEL: f"q{at // SIZE % 8}", "app": group}
    amounts = {"cpu": str(1 + at // SIZE % 3), "memory": "32Gi"} | ({"nvidia.com/gpu": "1"} if cards else {})
    container = {
        "name": "main",
        "image": "registry.example.com/team/image:1",
        "resources": {"requests": amounts, "limits": amounts},
    }
    meta = {
        "name": f"{group}-worker-{at % SIZE}",
        "namespace": f"team-{at // SIZE % 32}",
        "uid": f"6f0e6a54-0000-4000-9000-{at:012}",
        "labels": labels,
        "creationTimestamp": CREATED,
        "annotations": {names.GPU_INDEX_PREFIX + "main": str(at % 8)} if where and cards else {},
        "ownerReferences": [
            {"kind": "PyTorchTrainingJob", "name": group, "uid": f"owner-{at // SIZE}", "controller": True}
        ],
    }
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [container]} | ({"nodeName": where} if where else {})
    scheduled = [{"type": "PodScheduled", "status": "True"}] if where else []
    status = {"phase": "Running" if where else "Pending", "conditions": scheduled}
    return {"metadata": meta, "spec": spec, "status": status}


def group(at: int) -> dict[str, Any]:
    """The PodGroup of a gang."""
    meta = {"name": f"job-{at}", "namespace": f"team-{at % 32}", "uid": f"group-{at}", "creationTimestamp": CREATED}
    return {"metadata": meta, "spec": {"minMember": SIZE, "queue": f"q{at % 8}"}}


def singles(nodes: int, pods: int, **spec: Any) -> ClusterState:
    """Nodes, and single pods with a card each that have just come to the queue `q` of this spec."""
    state = ClusterState()
    state.set_queues([Queue("q", parse_queue_spec(spec))])
    state.permit({"q": Members(everyone=True)})
    for at in range(nodes):
        state.upsert_node(decode_node(node(at)))
    for at in range(pods):
        one = pod(at, "", cards=True)
        del one["metadata"]["labels"][names.GROUP_LABEL]
        one["metadata"]["labels"][names.QUEUE_LABEL] = "q"
        state.upsert_pod(decode_pod(one))
    return state


def rss() -> int:
    """What the process holds now, in MiB, after everything that can be given back was."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // (1 << 20)


def through_json(item: dict[str, Any], decode: Any) -> Any:
    """As the watch gives it: no text is shared with anything."""
    return decode(json.loads(json.dumps(item)))


def measure(nodes: int, pods: int) -> dict[str, Any]:
    """Memory after each step."""
    steps = {"nothing": rss()}
    state = ClusterState()
    queues = {f"q{at}": {"priority": at, "ordering": "BestEffort"} for at in range(8)}
    state.set_queues(Queue(name, parse_queue_spec(spec)) for name, spec in queues.items())
    state.permit(dict.fromkeys(queues, Members(everyone=True)))
    for at in range(nodes):
        state.upsert_node(through_json(node(at), decode_node))
    steps["nodes"] = rss()
    for at in range(pods // SIZE):
        state.upsert_group(through_json(group(at), decoder(PodGroupObject)))
    for at in range(pods // SIZE * SIZE):
        waits = at // SIZE == pods // SIZE - 1
        where = "" if waits else f"node-{at // SIZE % nodes:05}"
        state.upsert_pod(through_json(pod(at, where, cards=waits or at // SIZE < nodes), decode_pod))
    while state.accept_running(NOW):
        pass
    steps["pods"] = rss()
    memory, evictable, policy = Memory(), EvictableGangs(state, set()), Policy(actions=("allocate", "preempt"))

    def cycle() -> None:
        plan(state.view(NOW, evictable.running(NOW)), policy, NOW, memory)

    first = best(cycle, 1)
    steps["first_cycle"] = rss()
    again = best(cycle, 5)
    steps["later_cycles"] = rss()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    told = len(evictable.running(NOW))
    return {
        "rss_mib": steps,
        "peak_mib": peak,
        "groups_told": told,
        "first_cycle": first.ms(),
        "later_cycle": again.ms(),
        "running_told_again": best(lambda: evictable.running(NOW), 5).ms(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="How much memory a scheduler's state and its plans take.")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    options = parser.parse_args()
    figures = measure(options.nodes, options.pods)
    report("memory", options.record, nodes=options.nodes, pods=options.pods, figures=figures)


if __name__ == "__main__":
    main()
