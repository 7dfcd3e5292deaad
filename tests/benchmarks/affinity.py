"""What rules about other pods cost: prints JSON.

    python tests/benchmarks/affinity.py [--pods 5000,20000] [--gangs 250,1000] [--nodes 2000] [--record]

CPU time. `deployments`: so many pods run, of 60 Deployments that keep apart by host, as Helm charts make them; beside
them one job in ten waits in vain. Told are seconds to take all pods into a fresh state, one Deployment after the other,
the longest event in milliseconds, and milliseconds of cycles, view included: the first one, one in which nothing
changed, one after a pod came to another node; each beside `plain`, the same pods without rules. `gangs`: so many gangs
of two pods wait in vain, each with an affinity of its own for its own rack. Milliseconds of cycles of the engine alone:
until the first gang has its turn (`begin`), in all, the longest step, and when nothing changed; MiB that a cycle and
what is kept of it take.
"""

import argparse
import contextlib
import gc
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2]))

from msgspec import structs

from t9ksched.admission.access import Members
from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Planner
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model import names
from t9ksched.model.gang import Gang, Member
from t9ksched.model.node import Node, decode_node
from t9ksched.model.pod import Pod, decode_pod
from t9ksched.model.podrules import parse_rules
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.state.state import ClusterState
from tests.benchmarks.timing import calm, report, stepped
from tests.builders import node, pod_class, table, view
from tests.builders import queue as engine_queue

DEPLOYMENTS = 60
PODS_A_NODE = 10
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NOW = 1_700_000_000_000_000_000
ROUNDS = 5


def term(key: str, **labels: str) -> dict[str, Any]:
    return {REQUIRED: [{"labelSelector": {"matchLabels": labels}, "topologyKey": key}]}


def host(name: str) -> Node:
    status = {"allocatable": {"cpu": "96", "pods": "500"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return decode_node({"metadata": {"name": name, "uid": name, "labels": {HOST: name}}, "status": status})


def raw_pod(name: str, labels: dict[str, str], on: str, cpu: str, *, ours: bool = False, **spec: Any) -> Pod:
    asked = {"schedulerName": names.SCHEDULER_NAME} if ours else {}
    conditions = [{"type": "PodScheduled", "status": "True"}] if on else []
    return decode_pod(
        {
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
            | asked
            | ({"nodeName": on} if on else {})
            | spec,
            "status": {"phase": "Running" if on else "Pending", "conditions": conditions},
        }
    )


def of_deployment(at: int, of: int, on: str, rules: bool) -> Pod:
    app = f"app-{of}"
    labels = {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/instance": f"{app}-prod",
        "pod-template-hash": f"h{of}",
    }
    own = {name: labels[name] for name in ("app.kubernetes.io/name", "app.kubernetes.io/instance")}
    affinity = {"podAntiAffinity": term(HOST, **own)} if rules else {}
    return raw_pod(f"d{at}", labels, on, "100m", affinity=affinity)


class Running:
    """A state with pods of Deployments, and jobs that wait."""

    def __init__(self, pods: int, rules: bool) -> None:
        self.rules, self.nodes = rules, [f"n{at:05}" for at in range(pods // PODS_A_NODE)]
        self.state = ClusterState()
        self.state.set_queues([Queue("q", parse_queue_spec({}))])
        self.state.permit({"q": Members(everyone=True)})
        for name in self.nodes:
            self.state.upsert_node(host(name))
        self.size = pods // DEPLOYMENTS + 1
        # One Deployment after the other, as an API server lists them.
        made = [of_deployment(at, at // self.size, self.nodes[at % len(self.nodes)], rules) for at in range(pods)]
        labels = [{names.QUEUE_LABEL: "q", "app": f"j{at}"} for at in range(pods // 100)]
        made += [raw_pod(f"w{at}", one, "", f"{97_000 + at}m", ours=True) for at, one in enumerate(labels)]
        gc.collect()
        gc.disable()  # as in the service while it reads what is there
        self.longest = 0.0
        began = last = process_time()
        for one in made:
            self.state.upsert_pod(one)
            now = process_time()
            self.longest, last = max(self.longest, now - last), now
        self.start = last - began
        gc.freeze()
        gc.enable()
        self.memory = Memory()
        self._moved = 0

    def cycle(self) -> tuple[float, float]:
        """Milliseconds of CPU of a cycle, and of its longest step."""
        began = process_time()
        given = self.state.view(NOW)
        seen = (process_time() - began) * 1e3
        total, longest = one_cycle(given, self.memory)
        return seen + total, max(seen, longest)

    def moved(self) -> None:
        self._moved += 1
        self.state.remove_pod(f"d{self._moved}")
        on = self.nodes[(self._moved * 7) % len(self.nodes)]
        self.state.upsert_pod(of_deployment(self._moved, self._moved // self.size, on, self.rules))

    def figures(self) -> dict[str, float]:
        first, longest = self.cycle()
        unchanged = min(self.cycle()[0] for _ in range(ROUNDS))
        moved = []
        for _ in range(ROUNDS):
            self.moved()
            moved.append(self.cycle()[0])
        return {
            "start_s": round(self.start, 3),
            "longest_event_ms": round(self.longest * 1e3, 2),
            "first_cycle_ms": round(first, 2),
            "longest_step_ms": round(longest, 2),
            "unchanged_ms": round(unchanged, 2),
            "pod_moved_ms": round(min(moved), 2),
        }


def one_cycle(given: View, memory: Memory) -> tuple[float, float]:
    """Milliseconds of CPU of a cycle of the engine, and of its longest step."""
    _, spent = stepped(given, Policy(), memory, NOW)
    return spent["cpu_ms"], spent["longest_step_ms"]


def waiting(count: int) -> list[Gang]:
    """Gangs that want to be in one rack, each with a term of its own."""
    found = []
    for at in range(count):
        name = f"g{at}"
        rules = parse_rules({"podAffinity": term("rack", job=name)}, None, "test", {"job": name})
        of = replace(pod_class(cpu=5, memory=0), rules=rules)
        members = tuple(Member(f"{name}-{one}", f"test/{name}-{one}", "", of, (("job", name),)) for one in range(2))
        found.append(Gang(name, f"test/{name}", "q", created=at, min_member=2, waiting=members, total=2))
    return found


def gangs(count: int, nodes: int) -> dict[str, float]:
    full = table([node(f"n{at:05}", cpu=8, labels={"rack": f"r{at // 16}"}) for at in range(nodes)])
    for at in range(nodes):
        full.charge(full.row(f"n{at:05}"), pod_class(cpu=4, memory=0))
    given = view(full, waiting(count), {"q": engine_queue()})
    with calm():
        tracemalloc.start()
        begin(given, Memory())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        began = process_time()
        begin(given, Memory())
        first_turn = process_time() - began
        memory = Memory()
        total, longest = one_cycle(given, memory)
        again, step = zip(*(one_cycle(given, memory) for _ in range(ROUNDS)), strict=True)
        came = []
        for at in range(ROUNDS):
            more = waiting(count + at + 1)[count:]
            given = replace(given, gangs=(*given.gangs, *(structs.replace(one, uid=f"{one.uid}-{at}") for one in more)))
            came.append(one_cycle(given, memory)[0])
    return {
        "begin_ms": round(first_turn * 1e3, 2),
        "begin_MiB": round(peak / 2**20, 1),
        "first_cycle_ms": round(total, 2),
        "longest_step_ms": round(longest, 2),
        "unchanged_ms": round(min(again), 2),
        "unchanged_longest_step_ms": round(min(step), 2),
        "gangs_came_ms": round(min(came), 2),
    }


def begin(given: View, memory: Memory) -> None:
    """A cycle until the first gang has its turn."""

    def stop(*_: Any) -> Any:
        raise _Begun

    with patch.object(Planner, "_judge", stop), contextlib.suppress(_Begun):
        Planner(given, Policy(), NOW, memory).step(1 << 60)


class _Begun(Exception):
    """The first gang would have its turn now."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pods", default="5000,20000")
    parser.add_argument("--gangs", default="250,1000")
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    pods, many = ([int(one) for one in given.split(",") if one] for given in (options.pods, options.gangs))
    figures: dict[str, Any] = {}
    for count in pods:
        figures[f"{count}_pods_of_deployments"] = Running(count, True).figures()
        gc.unfreeze()
        figures[f"{count}_pods_plain"] = Running(count, False).figures()
        gc.unfreeze()
    for count in many:
        figures[f"{count}_gangs"] = gangs(count, options.nodes)
    report("affinity", options.record, pods=pods, gangs=many, nodes=options.nodes, figures=figures)


if __name__ == "__main__":
    main()
