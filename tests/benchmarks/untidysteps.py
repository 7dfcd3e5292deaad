"""The cycles of a scheduler on the cluster of `untidy.py`, phase by phase and without a service: prints JSON.

    python -m tests.benchmarks.untidysteps [--nodes 1000,5000] [--rounds 20] [--profile PHASE] [--record]

The same objects are taken into a state. Then, before each cycle, as many events come as `untidy.py` has in a tenth of a
second: pods end and come, pods, a node and a budget change. Told are CPU milliseconds, the median and the least of the
cycles: of the events, of following the running groups (`running`), of judging what waits (`judge`), of the view, of the
engine until its first gang has its turn and after that, of telling why gangs wait (`tell`), and of the longest piece of
all these. `--profile` prints where the time of one phase goes.
"""

import argparse
import asyncio
import cProfile
import pstats
import statistics
import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from time import process_time
from typing import Any
from unittest.mock import Mock

import msgspec

from t9ksched.admission.access import Members
from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Planner
from t9ksched.engine.scheduler_conf import parse_conf
from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.volumes import Claim, PersistentVolume
from t9ksched.scheduler.decide.telling import Telling
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.budgets import DisruptionBudget
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.snapshot import snapshot
from t9ksched.scheduler.state.state import ClusterState
from tests.benchmarks import untidycluster as cluster
from tests.benchmarks.timing import calm, report
from tests.benchmarks.untidy import CONF

try:
    from t9ksched.scheduler.act.evictable_gangs import EvictableGangs
except ModuleNotFoundError:  # an older commit (`against.py`) has it here
    from t9ksched.scheduler.act.preemption import EvictableGangs  # type: ignore[attr-defined]

NOW = 1_800_000_000_000_000_000
_WORK_A_STEP = 100_000
"""As in the loop of the scheduler."""
CREATED = "2026-01-01T00:00:00Z"


class Cycles:
    """A state with all of it, and cycles."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.state = state = ClusterState()
        queues = [("default", 0, True), *((f"b{at}", 0, True) for at in range(cluster.QUEUES)), ("quick", 5, True)]
        state.set_queues(
            [Queue(name, parse_queue_spec({"priority": rank, "preemptible": may})) for name, rank, may in queues]
        )
        state.permit({name: Members(everyone=True) for name, _, _ in queues})
        self.objects: dict[str, dict[str, Any]] = {}
        self.running: deque[str] = deque()
        self.made, self.now = 0, NOW
        self.policy = parse_conf(CONF)
        self.memory = Memory()
        self.evictable = EvictableGangs(state, ())
        self.telling = Telling(state, HistoryRecorder(state, Mock(), Mock(), lambda: self.now))
        self.spent: defaultdict[str, list[float]] = defaultdict(list)
        self.profile: tuple[str, cProfile.Profile] | None = None
        self._fill()

    # ---- objects

    def _fill(self) -> None:
        state = self.state
        claim, volume = decoder(Claim), decoder(PersistentVolume)
        for at in range(cluster.CLAIMS):
            spec = {"accessModes": cluster.MODES, "resources": {"requests": {"storage": "1Ti"}}}
            bound = spec | {"volumeName": f"pv-{at}", "storageClassName": ""}
            reference = {"namespace": "default", "name": f"data-{at}", "uid": f"data-{at}"}
            lies = {"accessModes": cluster.MODES, "capacity": {"storage": "1Ti"}, "claimRef": reference}
            state.storage.upsert_volume(
                volume(
                    {"metadata": {"name": f"pv-{at}", "uid": f"pv-{at}"}, "spec": lies, "status": {"phase": "Bound"}}
                )
            )
            meta = {"name": f"data-{at}", "namespace": "default", "uid": f"data-{at}"}
            state.storage.upsert_claim(claim({"metadata": meta, "spec": bound, "status": {"phase": "Bound"}}))
        for at in range(cluster.BUDGETS):
            self._budget(at, 10)
        for at, node in enumerate(cluster.node_objects(self.nodes)):
            node["metadata"].setdefault("uid", f"node-{at}")
            self.objects[f"bench-{at}"] = node
            state.upsert_node(decode_node(node))
            self._fill_node(at)
        group = decoder(PodGroupObject)
        for at in range(self.nodes):
            made, members = cluster.gang(at)
            made["metadata"] |= {"uid": made["metadata"]["name"], "creationTimestamp": CREATED}
            state.upsert_group(group(made))
            for member in members:
                self._pod(member)

    def _budget(self, at: int, allowed: int) -> None:
        spec = {"selector": {"matchLabels": {"team": f"t{at}"}}}
        meta = {"name": f"b{at}", "namespace": "default", "uid": f"b{at}"}
        self.state.budgets.upsert(
            decoder(DisruptionBudget)({"metadata": meta, "spec": spec, "status": {"disruptionsAllowed": allowed}})
        )

    def _pod(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        pod["metadata"] |= {"uid": name, "creationTimestamp": CREATED}
        self.objects[name] = pod
        self.state.upsert_pod(decode_pod(msgspec.json.encode(pod)))

    def _fill_node(self, at: int) -> None:
        host = f"bench-{at}"
        for card in range(cluster.CARDS_A_NODE):
            claim = at % cluster.CLAIMS if card == 0 else None
            name = f"r{at}-{card}"
            self._pod(cluster.runs(cluster.one_card(name, "default", claim), host, card))
            self.running.append(name)
        if at * 5 < self.nodes * 2:
            self._pod(cluster.runs(cluster.of_deployment(f"d{at}", f"d{at % cluster.DEPLOYMENTS}"), host))
        else:
            other = cluster.pod(f"c{at}", {"cpu": "1", "memory": "1Gi"}, {names.QUEUE_LABEL: "default"})
            self._pod(cluster.runs(other, host))
        self._pod(cluster.runs(cluster.pod(f"s{at}", {"cpu": "100m"}, {"app": "agent"}, ours=False), host))

    # ---- events

    def events(self) -> None:
        """As many as in a tenth of a second."""
        state = self.state
        for nth in range(5):
            self.made += 1
            kind = self.made % 10
            if kind in (0, 3, 6):
                name = self.running.popleft()
                del self.objects[name]
                state.remove_pod(name)
            elif kind in (1, 4, 7):
                claim = self.made % cluster.CLAIMS if self.made % 3 == 0 else None
                self._pod(cluster.one_card(f"{cluster.COMES}{self.made}", "quick", claim))
            elif kind in (2, 5):
                self._touch(self.running[(self.made * 37) % len(self.running)])
            elif kind == 8:
                self._touch(f"bench-{(self.made * 37) % self.nodes}")
            else:
                self._budget(self.made % cluster.BUDGETS, 9 + nth % 2)

    def _touch(self, name: str) -> None:
        one = self.objects[name]
        one["metadata"].setdefault("annotations", {})["example.com/touched"] = str(self.made)
        if name.startswith("bench-"):
            self.state.upsert_node(decode_node(one))
        else:
            self.state.upsert_pod(decode_pod(msgspec.json.encode(one)))

    # ---- cycles

    def cycle(self) -> int:
        """Returns how many pods were placed."""
        self.now += 100_000_000
        watch = Watch(self)
        with watch.phase("events"):
            self.events()
        self.drained(watch, "running", self.evictable.take_in(self.now).__await__())
        gangs = self.drained(watch, "judge", self.state.judge(self.now))
        with watch.phase("running"):
            running = self.evictable.running(self.now)
        with watch.phase("view"):
            view = snapshot(self.state, gangs, running)
        begun = False
        planner = Planner(view, self.policy, self.now, self.memory)
        while True:
            with watch.phase("turns" if begun else "begin"):
                done = planner.step(_WORK_A_STEP)
            begun = begun or getattr(planner, "_begun", True)
            if done:
                break
        with watch.phase("turns"):
            plan = planner.result()
            if hasattr(planner, "close"):  # an older commit (`against.py`) has it not
                planner.close()
        with watch.phase("assume"):
            for one in plan.assignments:
                self.state.assume(one.gang, [one], self.now)
        self.drained(watch, "tell", self.telling.tell((*plan.waiting, *plan.surplus), self.now).__await__())
        with watch.phase("tell"):
            self.state.progress.other_numbers.publish(self.now / 1e9)
        for name, seconds in watch.totals.items():
            self.spent[name].append(1e3 * seconds)
        self.spent["longest_piece"].append(1e3 * watch.longest)
        self.spent["cycle"].append(1e3 * (sum(watch.totals.values()) - watch.totals["events"]))
        for one in plan.assignments:
            pod = cluster.runs(self.objects[one.pod], one.node, one.cards[0][2][0])
            self._pod(pod)
            self.running.append(one.pod)
        return len(plan.assignments)

    def drained(self, watch: "Watch", phase: str, steps: Iterator[None]) -> Any:
        """What steps return."""
        while True:
            with watch.phase(phase):
                try:
                    next(steps)
                except StopIteration as end:
                    return end.value


class Watch:
    """CPU seconds by phase, and the longest piece."""

    def __init__(self, of: Cycles) -> None:
        self.totals: defaultdict[str, float] = defaultdict(float)
        self.longest = 0.0
        self._of, self._phase, self._began = of, "", 0.0

    def phase(self, name: str) -> "Watch":
        self._phase = name
        return self

    def __enter__(self) -> None:
        profile = self._of.profile
        if profile is not None and profile[0] == self._phase:
            profile[1].enable()
        self._began = process_time()

    def __exit__(self, *_: object) -> None:
        spent = process_time() - self._began
        profile = self._of.profile
        if profile is not None and profile[0] == self._phase:
            profile[1].disable()
        self.totals[self._phase] += spent
        if self._phase != "events":
            self.longest = max(self.longest, spent)


async def measured(nodes: int, rounds: int, profile: str) -> dict[str, Any]:
    """The figures of so many nodes."""
    cycles = Cycles(nodes)
    asyncio.get_running_loop().time = lambda: cycles.now / 1e9  # type: ignore[method-assign]
    with calm():
        while cycles.state.accept_running(cycles.now):
            pass
        for _ in range(3):
            cycles.cycle()
        first = {name: round(several[0], 1) for name, several in cycles.spent.items()}
        cycles.spent.clear()
        if profile:
            cycles.profile = profile, cProfile.Profile()
        placed = sum(cycles.cycle() for _ in range(rounds))
    if cycles.profile is not None:
        pstats.Stats(cycles.profile[1], stream=sys.stderr).sort_stats("cumulative").print_stats(60)
        pstats.Stats(cycles.profile[1], stream=sys.stderr).sort_stats("tottime").print_stats(40)
    later = {
        name: {"median_ms": round(statistics.median(several), 2), "least_ms": round(min(several), 2)}
        for name, several in cycles.spent.items()
    }
    return {"placed": placed, "first_ms": first, "later": later}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", default="1000,5000")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--profile", default="", help="a phase: running, judge, view, begin, turns, tell")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    sizes = [int(one) for one in given.nodes.split(",")]
    figures = {f"{nodes}_nodes": asyncio.run(measured(nodes, given.rounds, given.profile)) for nodes in sizes}
    report("untidysteps", given.record, nodes=sizes, figures=figures)


if __name__ == "__main__":
    main()
