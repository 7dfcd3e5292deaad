"""How long the event loop is held in one piece, case by case: prints JSON.

    python tests/benchmarks/blocks.py [--part 1.0] [--only NAME] [--record]

Each case is what the loop does between two places where other tasks run: steps of the view, taking it, the planner's
start, its steps, and handing on its result. Told are the CPU milliseconds of the longest piece of each phase, the least
of a few runs; `--part` makes everything smaller. Objects that are there are frozen (`gc`), and collections come as
seldom as in a service.

`singles`: so many single pods come at once. `victims`: so many pods run, and the first preemptor comes. `rack`, `host`:
a gang that must be in one rack, or on one host, and that others must go for, comes to a cluster that is full of such
pods. `mix`: gangs of several sizes, as the benchmark of the engine has them. `waiting`: so many gangs that are alike
wait and nothing changed. `frozen`: nodes are copied after one of them changed.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import thread_time

sys.path.insert(0, str(Path(__file__).parents[2]))

from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import Planner
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Gang, Running
from t9ksched.scheduler.state.snapshot import snapshot
from t9ksched.scheduler.state.state import ClusterState
from tests.benchmarks.engine import filling
from tests.benchmarks.memory import singles as waiting_singles
from tests.benchmarks.timing import calm, report
from tests.builders import GPU, gang, node, pod_class, queue, running, view

NOW = 1_800_000_000_000_000_000
PREEMPT = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "high": queue(priority=1)}
ONE = pod_class(gpu=1)
ROUNDS = 3
_WORK_A_STEP = 100_000
"""As in the loop of the scheduler."""
Pieces = dict[str, float]


class Watch:
    """The longest piece of each phase, in CPU seconds."""

    def __init__(self) -> None:
        self.longest: Pieces = {}
        self._last = thread_time()

    def begin(self) -> None:
        self._last = thread_time()

    def piece(self, phase: str) -> None:
        """A piece of this phase ends, and the next one begins."""
        now = thread_time()
        self.longest[phase] = max(self.longest.get(phase, 0.0), now - self._last)
        self._last = thread_time()


def planned(watch: Watch, given: View, policy: Policy, memory: Memory) -> Planner:
    """A plan in steps."""
    watch.begin()
    planner = Planner(given, policy, NOW, memory)
    watch.piece("start")
    while not planner.step(_WORK_A_STEP):
        watch.piece("steps")
    watch.piece("steps")
    planner.result()
    watch.piece("result")
    return planner


def seen(watch: Watch, state: ClusterState) -> View:
    """A view in steps."""
    watch.begin()
    steps = state.judge(NOW)
    while True:
        try:
            next(steps)
            watch.piece("view")
        except StopIteration as end:
            watch.piece("view")
            found = snapshot(state, end.value)
            watch.piece("snapshot")
            return found


def singles(watch: Watch, part: float) -> Iterator[None]:
    pods = int(30_000 * part)
    state = waiting_singles(int(4_000 * part), pods)
    yield
    planner = planned(watch, seen(watch, state), Policy(), Memory())
    assert planner.result().stats.placed == pods


def full(nodes: int, shape: object = None) -> tuple[NodeTable, tuple[Running, ...]]:
    """Nodes of 20 cards, in racks of 16, full of one-card pods of the queue `low`."""
    live = NodeTable()
    groups = []
    for at in range(nodes):
        row = live.upsert(node(f"n{at:05}", gpu=20, pods=300, labels={"rack": f"r{at // 16:04}"}))
        for card in range(20):
            name = f"g{at:05}-{card:02}"
            groups.append(running(name, "low", [f"n{at:05}"], of=ONE, cards=[1 << card], created=at * 20 + card))
            live.charge(row, ONE, CardGrant.packed({GPU: 1 << card}))
    return live, tuple(groups)


def preempting(wants: Callable[[], Gang], pods: int) -> Callable[[Watch, float], Iterator[None]]:
    def case(watch: Watch, part: float) -> Iterator[None]:
        live, groups = full(int(pods * part) // 20)
        given = view(live, [wants()], QUEUES, running=groups)
        memory = Memory()
        yield
        assert planned(watch, given, PREEMPT, memory).result().evictions

    return case


def together(pods: int, gpu: int, level: str) -> Callable[[], Gang]:
    return lambda: structs.replace(gang("p", "high", pods, of=pod_class(gpu=gpu)), topology="Required", levels=(level,))


def mix(watch: Watch, part: float) -> Iterator[None]:
    nodes = int(5_000 * part)
    live = NodeTable()
    for at in range(nodes):
        live.upsert(node(f"n{at:05}", gpu=8, cpu=128, memory="1Ti"))
    gangs = filling(8 * nodes, 1, (1, 32))
    given = view(live, gangs)
    yield
    planned(watch, given, Policy(), Memory())


def waiting(watch: Watch, part: float) -> Iterator[None]:
    live, _ = full(int(1_000 * part))
    gangs = [gang(f"a{at}", queue=f"q{at % 8}", pods=2, of=ONE, created=at) for at in range(int(100_000 * part))]
    memory = Memory()
    given = view(live, gangs)
    planned(Watch(), given, Policy(), memory)
    given = view(live, gangs)
    yield
    planned(watch, given, Policy(), memory)


def frozen(watch: Watch, part: float) -> Iterator[None]:
    live = NodeTable()
    for at in range(int(20_000 * part)):
        live.upsert(node(f"n{at:05}", gpu=8))
    live.freeze()
    live.upsert(node("n00007", gpu=8, unschedulable=True))
    yield
    watch.begin()
    live.freeze()
    watch.piece("freeze")


CASES: dict[str, Callable[[Watch, float], Iterator[None]]] = {
    "singles_30000": singles,
    "victims_100000": preempting(lambda: gang("p", "high", 4, gpu=20), 100_000),
    "rack_100000": preempting(together(4, 20, "rack"), 100_000),
    "host_100000": preempting(together(4, 5, "kubernetes.io/hostname"), 100_000),
    "mix_5000_nodes": mix,
    "waiting_100000": waiting,
    "frozen_20000": frozen,
}


def measured(case: Callable[[Watch, float], Iterator[None]], part: float) -> Pieces:
    found: Pieces = {}
    for _ in range(ROUNDS):
        watch = Watch()
        work = case(watch, part)
        next(work)
        with calm():
            for _ in work:
                pass
        for phase, seconds in watch.longest.items():
            found[phase] = min(found.get(phase, seconds), seconds)
    return {f"{phase}_ms": round(1e3 * seconds, 1) for phase, seconds in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="How long the event loop is held in one piece.")
    parser.add_argument("--part", default="0.25,1.0")
    parser.add_argument("--only", default="")
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    options = parser.parse_args()
    parts = [float(part) for part in options.part.split(",")]
    cases = {name: case for name, case in CASES.items() if name.startswith(options.only)}
    figures = {f"{name}_x{part}": measured(case, part) for name, case in cases.items() for part in parts}
    report("blocks", options.record, parts=parts, figures=figures)


if __name__ == "__main__":
    main()
