"""What is kept in memory depends on what is there, not on what came and went.

The long form has a million jobs (`T9KSCHED_SOAK_JOBS`).
"""

import gc
import os
import sys
import types
from collections import deque
from dataclasses import replace
from functools import _lru_cache_wrapper
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from t9ksched.admission.access import Members
from t9ksched.engine import ends, past_failures, past_order, past_waits, usual_pods
from t9ksched.engine.memory import Memory
from t9ksched.engine.placement import feasibility
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Planning, Policy
from t9ksched.model import names
from t9ksched.model.gang import ExpectedEnd
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.state import admission_gate, admission_pass, sharing
from t9ksched.scheduler.state.state import ClusterState

NOW = 1_800_000_000_000_000_000
SECOND = 1_000_000_000
TOGETHER = 50
"""So many jobs are there at a time."""
POLICIES = [Policy(), Policy(planning=Planning(per_queue=5))]
MANY = int(os.environ.get("T9KSCHED_SOAK_JOBS", "1000000"))


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_MOST", 32)
    monkeypatch.setattr(usual_pods, "_MOST_CLASSES", 32)
    monkeypatch.setattr(admission_gate, "_MOST_KEPT", 32)
    monkeypatch.setattr(admission_pass, "_WORK_A_STEP", 32)
    monkeypatch.setattr(feasibility, "_MOST_COLUMNS", 32)
    monkeypatch.setattr(past_failures, "_FEW", 32)
    monkeypatch.setattr(past_waits, "_FEW", 32)
    monkeypatch.setattr(past_order, "_FEW", 32)
    monkeypatch.setattr(ends, "_FEW", 32)


def job(at: int, node: str = "") -> dict[str, Any]:
    """A single pod like no other one; every fifth finds no room."""
    amounts = {"cpu": f"{100 + at}m", "memory": "1Gi", "nvidia.com/gpu": "9" if at % 5 == 0 else "1"}
    container = {"name": "main", "image": "image", "resources": {"requests": amounts, "limits": amounts}}
    spec: dict[str, Any] = {"schedulerName": names.SCHEDULER_NAME, "containers": [container]}
    spec["tolerations"] = [{"key": f"t{at}", "operator": "Exists"}]
    if node:
        spec["nodeName"] = node
    meta = {"name": f"p{at}", "namespace": f"team-{at}", "uid": f"u{at}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    meta["labels"] = {names.QUEUE_LABEL: "q", "app": f"a{at}"}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running" if node else "Pending"}}


class Service:
    """A state, and the memory of its plans."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.state = ClusterState()
        self.state.set_queues([Queue("q", parse_queue_spec({}))])
        self.state.permit({"q": Members(everyone=True)})
        for at in range(4):
            allocatable = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
            status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
            self.state.upsert_node(decode_node({"metadata": {"name": f"n{at}", "uid": f"n{at}"}, "status": status}))
        self.memory = Memory()
        self.cursors = [one.follow() for one in vars(self.state.feed).values()]

    def lives(self, first: int, last: int) -> None:
        """These jobs come, run if there is room, and go."""
        for start in range(first, last, TOGETHER):
            now = NOW + start * SECOND
            jobs = range(start, start + TOGETHER)
            for at in jobs:
                self.state.upsert_pod(decode_pod(job(at)))
            for at in self._plan(now):
                self.state.upsert_pod(decode_pod(job(at, "n0")))
            self._plan(now, self._ends(jobs, now + 60 * SECOND))
            for at in jobs:
                self.state.remove_pod(f"u{at}")
        # What readers of the feed have taken, and what housekeeping drops when an hour has passed.
        for cursor in self.cursors:
            cursor.take()
        self.state.acceptances.clear()
        self.state.cards.over.clear()
        list(self.state.places.take_missing())

    def _plan(self, now: int, expected: tuple[ExpectedEnd, ...] = ()) -> list[int]:
        view = replace(self.state.view(now), expected_ends=expected)
        return [int(one.pod[1:]) for one in plan(view, self.policy, now, self.memory).assignments]

    def _ends(self, jobs: range, at: int) -> tuple[ExpectedEnd, ...]:
        pods = [self.state.pods[f"u{one}"] for one in jobs]
        return tuple(ExpectedEnd(pod.uid, "q", at, (("n0", pod.pod_class, 1),)) for pod in pods if pod.pod_class)

    def kept(self) -> dict[str, int]:
        """How many entries the containers have that state and memory refer to, by what holds them."""
        for name, module in list(sys.modules.items()):
            for one in vars(module).values() if name.startswith("t9ksched.") else ():
                if isinstance(one, _lru_cache_wrapper):
                    one.cache_clear()  # it has a bound of its own
        gc.collect()
        found: dict[str, int] = {}
        seen: set[int] = set()
        left: list[tuple[object, str]] = [(self.state, "state"), (self.memory, "memory")]
        while left:
            one, holder = left.pop()
            if id(one) in seen or isinstance(one, type | types.ModuleType | types.FunctionType):
                continue
            seen.add(id(one))
            if isinstance(one, dict | list | set | deque | WeakKeyDictionary):
                found[holder] = found.get(holder, 0) + len(one)
            elif type(one).__module__.startswith("t9ksched"):
                holder = type(one).__name__
            left += [(other, holder) for other in gc.get_referents(one)]
        return found


@pytest.mark.parametrize("policy", POLICIES, ids=["plain", "planning"])
def test_what_is_kept_does_not_grow_with_the_jobs_that_came_and_went(policy: Policy) -> None:
    service = Service(policy)
    service.lives(0, 200)
    before = service.kept()
    service.lives(200, 1000)
    grown = {holder: (before.get(holder, 0), count) for holder, count in service.kept().items()}
    # Tables that begin anew when they are full may be empty the first time and full the second.
    assert not {holder: (then, now) for holder, (then, now) in grown.items() if now > 2 * (then + TOGETHER)}


@pytest.mark.soak
@pytest.mark.parametrize("policy", POLICIES, ids=["plain", "planning"])
def test_memory_is_flat_over_a_million_jobs(policy: Policy) -> None:
    service = Service(policy)
    tenth = MANY // 10
    service.lives(0, tenth)
    most, blocks = sum(service.kept().values()), sys.getallocatedblocks()
    for part in range(1, 10):
        service.lives(part * tenth, (part + 1) * tenth)
        # Tables that begin anew when they are full may be empty one time and full another.
        assert sum(service.kept().values()) < 2 * most
        assert sys.getallocatedblocks() < 1.05 * blocks
