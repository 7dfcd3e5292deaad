"""What events cost where pods share volume claims, and what disruption budgets cost a cycle: prints JSON.

    python tests/benchmarks/claims.py [--pods 500,4000] [--exclusive 100,400] [--groups 1000,5000] [--record]

CPU time. So many pods wait that share one claim for a data set; the others on 100 nodes run with it. Microseconds an
event: `pod_runs` (one of them starts), `pod_came`, `pod_gone`, `claim_touched` and `volume_touched` (an annotation that
decides nothing), `volume_came` (another one, bound), `node_came`. The same with `exclusive` claims, which one pod at a
time may use. Milliseconds for `budgets`: so many groups in the namespace of ten budgets that select all of them; what
is marked from one cycle to the next where nothing changed, one group came, or one budget allows another number.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from t9ksched.admission.access import Members
from t9ksched.model import names
from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.node import Node, decode_node
from t9ksched.model.pod import Pod, decode_pod
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.budgets import Budgets, DisruptionBudget
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.volumes.claims import Claim, PersistentVolume
from tests.benchmarks.timing import report

NODES = 100
EVENTS = 100
ROUNDS = 5


def node(name: str) -> Node:
    labels = {"kubernetes.io/hostname": name}
    status = {"allocatable": {"cpu": "96", "pods": "500"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return decode_node({"metadata": {"name": name, "uid": name, "labels": labels}, "status": status})


def pod(name: str, on: str = "", phase: str = "Pending") -> Pod:
    conditions = [{"type": "PodScheduled", "status": "True"}] if on else []
    spec = {
        "schedulerName": names.SCHEDULER_NAME,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    return decode_pod(
        {
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {names.QUEUE_LABEL: "q"}},
            "spec": spec | ({"nodeName": on} if on else {}),
            "status": {"phase": phase, "conditions": conditions},
        }
    )


def claim(mode: str, touched: int = 0) -> Claim:
    notes = {"example.com/touched": str(touched)}
    spec = {"accessModes": [mode], "volumeName": "data", "storageClassName": ""}
    meta = {"name": "data", "namespace": "ns", "uid": "data", "annotations": notes}
    return decoder(Claim)({"metadata": meta, "spec": spec, "status": {"phase": "Bound"}})


def volume(name: str, touched: int = 0) -> PersistentVolume:
    notes = {"example.com/touched": str(touched)}
    spec = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Ti"}}
    return decoder(PersistentVolume)(
        {"metadata": {"name": name, "annotations": notes}, "spec": spec, "status": {"phase": "Bound"}}
    )


class Events:
    """A state with pods that share a claim of an access mode."""

    def __init__(self, waiting: int, mode: str) -> None:
        self.state = state = ClusterState()
        self.mode = mode
        state.set_queues([Queue("q", parse_queue_spec({}))])
        state.permit({"q": Members(everyone=True)})
        for at in range(NODES):
            state.upsert_node(node(f"n{at:03}"))
        state.storage.upsert_volume(volume("data"))
        state.storage.upsert_claim(claim(mode))
        for at in range(waiting):
            state.upsert_pod(pod(f"w{at:05}"))
        self._numbers = iter(range(10**6))

    def figures(self) -> dict[str, float]:
        state = self.state

        def later(make: Callable[[int], Any], take: Callable[[Any], object]) -> Iterator[tuple[Any, Any]]:
            for at in self._numbers:
                yield make(at), take

        def running(at: int) -> Pod:
            return pod(f"w{at % 90:05}", f"n{at % NODES:03}", "Running")

        def gone(uid: str) -> None:
            state.remove_pod(uid)

        kinds = {
            "pod_came": later(lambda at: pod(f"c{at}"), state.upsert_pod),
            "claim_touched": later(lambda at: claim(self.mode, at), state.storage.upsert_claim),
            "volume_touched": later(lambda at: volume("data", at), state.storage.upsert_volume),
            "volume_came": later(lambda at: volume(f"other-{at}"), state.storage.upsert_volume),
            "node_came": later(lambda at: node(f"new-{at}"), state.upsert_node),
            "pod_runs": later(running, state.upsert_pod),
            "pod_gone": later(lambda at: sorted(state.pods)[0], gone),
        }
        return {name: several(events) for name, events in kinds.items()}


def several(events: Iterator[tuple[Any, Callable[[Any], object]]]) -> float:
    """Microseconds an event: the least of a few rounds of events."""
    found = []
    for _ in range(ROUNDS):
        some = [next(events) for _ in range(EVENTS // ROUNDS)]
        gc.collect()
        began = process_time()
        for one, take in some:
            take(one)
        found.append((process_time() - began) / len(some))
    return round(min(found) * 1e6, 1)


def groups(count: int) -> tuple[list[Running], dict[str, PodRecord]]:
    of = PodClass()
    found, pods = [], {}
    for at in range(count):
        members = tuple(RunningPod(f"r{at}-{one}", f"ns/r{at}-{one}", "", of, "n") for one in range(2))
        found.append(Running(f"r{at}", f"ns/r{at}", f"q{at % 4}", members, created=at * 7919 % count, min_member=2))
        for one in members:
            labels = {"team": f"t{at % 10}", "app": f"a{at}"}
            pods[one.uid] = PodRecord(one.uid, "ns", one.name, True, of, labels=labels)
    return found, pods


def budget(at: int, allowed: int) -> DisruptionBudget:
    return decoder(DisruptionBudget)(
        {
            "metadata": {"name": f"b{at}", "namespace": "ns"},
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"team": f"t{at}"}}},
            "status": {"disruptionsAllowed": allowed},
        }
    )


def marker(known: Budgets, pods: dict[str, PodRecord]) -> Callable[..., object]:
    """What marks all running groups, given all of them: those that came since the last call are behind the others."""
    try:
        from t9ksched.scheduler.state.guarded_groups import GuardedGroups
    except ImportError:  # an older program looks at all of them each time
        return lambda found, queues: known.guard(found, pods, queues)
    guarded, seen = GuardedGroups(known, pods), 0

    def mark(found: list[Running], queues: dict[str, Queue]) -> object:
        nonlocal seen
        fresh, seen = found[seen:], len(found)
        return guarded.mark({one.uid: one for one in fresh}, queues)

    return mark


def budgets(count: int) -> dict[str, float]:
    """Milliseconds to mark the groups, in a cycle after another one."""
    queues = {f"q{at}": Queue(f"q{at}", parse_queue_spec({"priority": at})) for at in range(4)}
    known = Budgets()
    for at in range(10):
        known.upsert(budget(at, count // 20))
    found, pods = groups(count)
    more, more_pods = groups(count + ROUNDS)
    pods |= more_pods

    mark = marker(known, pods)

    def cycle() -> float:
        began = process_time()
        mark(found, queues)
        return process_time() - began

    def came(nth: int) -> None:
        found.append(more[count + nth])

    def allows(nth: int) -> None:
        known.upsert(budget(3, count // 20 + nth + 1))

    def after(change: Callable[[int], None]) -> float:
        times = []
        for nth in range(ROUNDS):
            change(nth)
            gc.collect()
            times.append(cycle())
        return round(min(times) * 1e3, 2)

    first = round(cycle() * 1e3, 2)
    return {"first": first, "unchanged": after(lambda nth: None), "group_came": after(came), "allows": after(allows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pods", default="500,4000")
    parser.add_argument("--exclusive", default="100,400")
    parser.add_argument("--groups", default="1000,5000")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    given = (options.pods, options.exclusive, options.groups)
    pods, exclusive, many = ([int(number) for number in one.split(",") if number] for one in given)
    figures: dict[str, Any] = {}
    for count in pods:
        figures[f"{count}_pods"] = Events(count, "ReadWriteMany").figures()
    for count in exclusive:
        figures[f"{count}_pods_exclusive"] = Events(count, "ReadWriteOncePod").figures()
    for count in many:
        figures[f"{count}_groups_with_budgets"] = budgets(count)
    report("claims", options.record, pods=pods, exclusive=exclusive, groups=many, figures=figures)


if __name__ == "__main__":
    main()
