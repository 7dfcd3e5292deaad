"""When running groups are gone at the latest, and how long waiting ones hold their room: a table of every source of an
end.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model import names
from t9ksched.model.pod import OwnerReference
from t9ksched.model.reasons import Code
from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.end_rules import EndRules
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.objects import nanoseconds, timestamp
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.store.runs import Run
from tests.unit.scheduler.planning import SECOND, limited
from tests.unit.scheduler.state.test_state import CREATED, NOW, group, node, state_with

TIMEOUT, MOST_GRACE, SLACK, GRACE = 900, 60, 10, 7
Pods = list[Any]


def member(name: str, limit: str = "", *, job: str = "", started: int | None = None, **more: Any) -> Any:
    """A pod, perhaps of a batch Job; `started` are seconds from NOW at which its node began with it."""
    made = limited(name, limit=limit, grace=more.pop("grace", GRACE), **more)
    if job:
        made.metadata.owner_references = [OwnerReference("batch/v1", job, "owner", "owner", True)]
    if started is not None:
        made.status.start_time = timestamp(NOW + started * SECOND)
    return made


def of(kind: str, deadline: int | None, started: int = 0) -> JobRecord:
    since = NOW + started * SECOND if started else 0
    return JobRecord("owner", "v1", kind, "ns", "owner", 1, "q", 0, "Running", deadline=deadline, started=since)


class Scene:
    """Pods that are placed now, in a queue with that spec."""

    def __init__(self, pods: Pods, queue: dict[str, Any] | None = None, job: JobRecord | None = None) -> None:
        self.state = state_with(node("n1", 64), queues={"q": queue or {}})
        if job is not None:
            self.state.upsert_job(job)
        if any((one.metadata.labels or {}).get(names.GROUP_LABEL) for one in pods):
            self.state.upsert_group(group("g", len(pods)))
        for one in pods:
            self.state.upsert_pod(one)
        self.pods = pods
        self.lasts = {gang.name: self.rules().lasts(gang) // SECOND for gang in self.judged()}
        found = plan(self.state.view(NOW), Policy(), NOW)
        for uid in dict.fromkeys(one.gang for one in found.assignments):
            assert self.state.assume(uid, [one for one in found.assignments if one.gang == uid], NOW)

    def judged(self) -> list[GangRecord]:
        """All groups, once they are accepted."""
        self.state.view(NOW)
        return list(self.state.gangs.values())

    def rules(self, timeout: int = TIMEOUT) -> EndRules:
        return EndRules(self.state, timeout, MOST_GRACE)

    def run(self, *pods: int) -> None:
        """These pods run, all without any."""
        for at in pods or range(len(self.pods)):
            self.pods[at].spec.node_name, self.pods[at].status.phase = "n1", "Running"
            self.state.upsert_pod(self.pods[at])
        self.state.settle()

    def clock(self, gang: GangRecord, **run: Any) -> Clock:
        uid = gang.owner.uid if gang.owner is not None else gang.uid
        return self.state.clocks.by_job.setdefault(uid, Clock(Run(uid=uid, **run)))

    def end(self, timeout: int = TIMEOUT) -> int | None:
        """Seconds from NOW until the first group is gone."""
        gang, rules = next(iter(self.state.gangs.values())), self.rules(timeout)
        pods = rules.holding(gang)
        assert pods
        found = rules.end(gang, pods, NOW)
        return None if found is None else (found - NOW) // SECOND


def own(**more: Any) -> Pods:
    return [member("p", "1h", **more)]


HOUR, OVER = 3600, SLACK + GRACE
AGE = (NOW - nanoseconds(CREATED)) // SECOND
"""Seconds since the pods were made; the moment of these tests lies before it."""
BOUND: dict[str, tuple[Callable[[], Scene], int | None]] = {
    "nothing ends it": (lambda: Scene([member("p")]), None),
    "own limit": (lambda: Scene(own()), TIMEOUT + HOUR + OVER),
    "a limit of 0 is none": (lambda: Scene([member("p", "0")]), None),
    "the longest grace of its pods counts": (
        lambda: Scene([member("p", "1h", grace=3, group="g"), member("r", grace=20, group="g")]),
        TIMEOUT + HOUR + SLACK + 20,
    ),
    "no grace is longer than the longest": (lambda: Scene(own(grace=9999)), TIMEOUT + HOUR + SLACK + MOST_GRACE),
    "maxDuration": (lambda: Scene([member("p")], {"maxDuration": "1h"}), TIMEOUT + HOUR + OVER),
    "maxDuration from creation": (
        lambda: Scene([member("p")], {"maxDuration": "1h", "maxDurationFrom": "Creation"}),
        -AGE + HOUR + OVER,
    ),
    "maxDuration, an exempt pod": (
        lambda: Scene([member("p", group="g"), member("r", group="g", priority=2_000_000_000)], {"maxDuration": "1h"}),
        None,
    ),
    "the shortest counts": (lambda: Scene(own(), {"maxDuration": "30m"}), TIMEOUT + HOUR // 2 + OVER),
    "the Job's deadline, before its controller began": (
        lambda: Scene([member("p", job="Job")], job=of("Job", 600)),
        TIMEOUT + 600 + OVER,
    ),
    "the Job's deadline": (lambda: Scene([member("p", job="Job")], job=of("Job", 600, -100)), 500 + OVER),
    "a Job without a deadline": (lambda: Scene([member("p", job="Job")], job=of("Job", None, -100)), None),
    "the pods' deadlines, the last": (
        lambda: Scene(
            [member(name, group="g", activeDeadlineSeconds=after) for name, after in (("p", 100), ("r", 300))]
        ),
        TIMEOUT + 300 + OVER,
    ),
    "a pod without a deadline": (
        lambda: Scene([member("p", group="g", activeDeadlineSeconds=100), member("r", group="g")]),
        None,
    ),
}


@pytest.mark.parametrize("case", BOUND)
def test_the_end_of_what_is_bound_and_does_not_run_yet(case: str) -> None:
    make, expected = BOUND[case]
    assert make().end() == expected


def test_without_a_start_timeout_what_does_not_run_may_never_run() -> None:
    assert Scene(own()).end(timeout=0) is None
    assert Scene([member("p")], {"maxDuration": "1h"}).end(timeout=0) is None
    assert Scene([member("p", activeDeadlineSeconds=100)]).end(timeout=0) is None
    running = Scene(own(started=-5))
    running.run()
    assert running.end(timeout=0) == HOUR + 1 + OVER


LASTS: dict[str, int] = {
    "nothing ends it": 0,
    "own limit": TIMEOUT + HOUR + OVER,
    "maxDuration": TIMEOUT + HOUR + OVER,
    "maxDuration from creation": HOUR + OVER,
    "maxDuration, an exempt pod": 0,
    "the shortest counts": TIMEOUT + HOUR // 2 + OVER,
    "the Job's deadline, before its controller began": 600 + OVER,
    "the Job's deadline": 600 + OVER,
    "the pods' deadlines, the last": TIMEOUT + 300 + OVER,
    "a pod without a deadline": 0,
}


@pytest.mark.parametrize("case", LASTS)
def test_how_long_what_waits_holds_its_room(case: str) -> None:
    assert next(iter(BOUND[case][0]().lasts.values())) == LASTS[case]


SHORTEST: dict[str, int] = {
    "nothing ends it": 0,
    "own limit": HOUR,
    "maxDuration": HOUR,
    "maxDuration from creation": HOUR,
    "maxDuration, an exempt pod": 0,
    "the shortest counts": HOUR // 2,
    "the Job's deadline": 600,
    "the pods' deadlines, the last": 300,
    "a pod without a deadline": 0,
}


@pytest.mark.parametrize("case", SHORTEST)
def test_the_shortest_limit_counts_no_time_to_start_and_to_end(case: str) -> None:
    scene = BOUND[case][0]()
    (gang,) = scene.state.gangs.values()
    assert scene.rules().shortest(gang) // SECOND == SHORTEST[case]


def test_without_a_start_timeout_only_a_clock_that_runs_already_ends_what_waits() -> None:
    for case, expected in {
        "own limit": 0,
        "maxDuration": 0,
        "maxDuration from creation": HOUR + OVER,
        "the Job's deadline": 600 + OVER,
        "the pods' deadlines, the last": 0,
    }.items():
        scene = BOUND[case][0]()
        (gang,) = scene.state.gangs.values()
        assert scene.rules(0).lasts(gang) // SECOND == expected, case


def test_the_limit_counts_from_when_the_minimum_ran() -> None:
    scene = Scene(own())
    (gang,) = scene.state.gangs.values()
    scene.run()
    assert scene.end() == HOUR + 1 + OVER, "the clock follows within a second"
    scene.clock(gang, bound_at=NOW - 50 * SECOND, ran_at=NOW - 40 * SECOND)
    assert scene.end() == HOUR - 40 + OVER


def test_a_minimum_of_which_a_part_runs_does_not_run() -> None:
    scene = Scene([member("p", "1h", group="g"), member("r", group="g")])
    scene.run(0)
    assert scene.end() == TIMEOUT + HOUR + OVER


def test_the_time_of_binding_is_the_clocks() -> None:
    scene = Scene(own())
    (gang,) = scene.state.gangs.values()
    scene.clock(gang, bound_at=NOW - 100 * SECOND)
    assert scene.end() == TIMEOUT - 100 + HOUR + OVER


def test_without_any_record_it_was_bound_when_its_last_pod_began() -> None:
    pods = [member("p", "1h", group="g", started=-300), member("r", group="g", started=-200)]
    scene = Scene(pods)
    (gang,) = scene.state.gangs.values()
    scene.run(0)
    pods[1].spec.node_name = "n1"
    scene.state.upsert_pod(pods[1])
    gang.first_bound = 0
    assert scene.end() == TIMEOUT - 200 + HOUR + OVER


def test_max_duration_counts_from_the_start_of_each_pod() -> None:
    queue = {"maxDuration": "1h"}
    scene = Scene([member("p", group="g", started=-300), member("r", group="g")], queue)
    scene.run(0)
    assert scene.end() == TIMEOUT + HOUR + OVER, "the other has not begun"
    scene = Scene([member("p", group="g", started=-300), member("r", group="g", started=-200)], queue)
    scene.run()
    assert scene.end() == HOUR - 200 + OVER


def test_deadlines_of_pods_count_from_the_start_of_each() -> None:
    deadlines = (("p", 100, -50), ("r", 300, -290))
    scene = Scene([member(n, group="g", activeDeadlineSeconds=d, started=s) for n, d, s in deadlines])
    scene.run()
    assert scene.end() == 50 + OVER


def test_other_kinds_deadlines_count_from_their_first_start() -> None:
    for started, expected in ((0, TIMEOUT + 600), (-100, 500)):
        scene = Scene([member("p", job="MPIJob")], job=of("MPIJob", 600, started))
        assert scene.end() == expected + OVER
        assert next(iter(scene.lasts.values())) == TIMEOUT + 600 + OVER


def test_what_its_limit_ended_is_gone_soon() -> None:
    scene = Scene(own())
    (gang,) = scene.state.gangs.values()
    scene.run()
    scene.clock(gang, bound_at=NOW, ran_at=NOW)
    scene.state.note_end(gang, Code.TIME_LIMIT_EXCEEDED, "it reached 1h", NOW - 5 * SECOND, HOUR)
    assert scene.end() == -5 + OVER
    clock = scene.clock(gang)
    clock.evicted = frozenset()
    clock.set(bound_at=NOW)
    assert scene.end() == -5 + OVER, "a scheduler that starts while it leaves knows it from the record of its run"


def test_what_its_limit_ended_is_gone_no_later_than_was_expected() -> None:
    """That it is told to end comes a moment after its limit, on which plans rely."""
    scene = Scene(own())
    (gang,) = scene.state.gangs.values()
    scene.run()
    scene.clock(gang, bound_at=NOW - HOUR * SECOND - 8 * SECOND, ran_at=NOW - HOUR * SECOND - 8 * SECOND)
    before = scene.end()
    due = NOW - 8 * SECOND
    scene.state.note_end(gang, Code.TIME_LIMIT_EXCEEDED, "it reached 1h", NOW - 5 * SECOND, HOUR, due)
    assert scene.end() == before == -8 + OVER
    assert scene.clock(gang).run.ended_at == NOW - 5 * SECOND


def test_what_max_duration_ended_is_gone_soon_and_what_was_placed_since_is_not() -> None:
    scene = Scene([member("p", "1h")])
    (gang,) = scene.state.gangs.values()
    scene.run()
    scene.state.note_end(gang, Code.MAX_DURATION_EXCEEDED, "its queue's", NOW - 5 * SECOND)
    assert scene.end() == -5 + OVER
    scene.clock(gang).evicted = frozenset({"another pod"})
    gang.first_bound = NOW
    assert scene.end() == HOUR + 1 + OVER


def test_a_start_that_timed_out_and_the_next_one() -> None:
    scene = Scene(own())
    (gang,) = scene.state.gangs.values()
    scene.clock(gang, missed=1, missed_at=NOW - 5 * SECOND).evicted = frozenset({"pod-p"})
    assert scene.end() == -5 + OVER
    scene.clock(gang).evicted = frozenset()
    assert scene.end() == TIMEOUT + HOUR + OVER, "it was placed again, and its clock has not followed"
    scene.pods[0].metadata.deletion_timestamp, scene.pods[0].spec.node_name = CREATED, "n1"
    scene.state.upsert_pod(scene.pods[0])
    assert scene.end() == -5 + OVER


def test_pods_of_an_earlier_group_of_the_name_are_not_ended_with_it() -> None:
    scene = Scene([member("p", "1h", group="g"), member("r", "1h", group="g")])
    scene.run()
    scene.state.upsert_group(group("g", 2, uid="another"))
    (gang,) = scene.state.gangs.values()
    assert scene.rules().holding(gang) == []
    new = member("s", "1h", group="g", node="n1", phase="Running")
    scene.state.upsert_pod(new)
    assert [pod.name for pod in scene.rules().holding(gang)] == ["s"]


def test_a_group_that_is_gone_holds_nothing() -> None:
    scene = Scene(own())
    (gang,) = scene.state.gangs.values()
    assert [pod.name for pod in scene.rules().holding(gang)] == ["p"]
    scene.state.remove_pod("pod-p")
    assert scene.rules().holding(gang) == []


def test_the_annotation_counts_as_it_was_accepted() -> None:
    scene = Scene(own())
    edited = msgspec.convert(msgspec.to_builtins(scene.pods[0]), type(scene.pods[0]))
    edited.metadata.annotations[names.TIME_LIMIT_ANNOTATION] = "9h"
    scene.state.upsert_pod(edited)
    assert scene.end() == TIMEOUT + HOUR + OVER
