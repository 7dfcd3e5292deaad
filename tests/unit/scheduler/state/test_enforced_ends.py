"""Expected ends follow what changes: whatever happens, they are those that a full calculation finds."""

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from t9ksched.model.gang import ExpectedEnd
from t9ksched.model.pod import OwnerReference
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code
from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.enforced_ends import EnforcedEnds
from t9ksched.scheduler.state.job_events import JobEvents
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.records import job_of
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.job_overrides import JobControl
from t9ksched.store.runs import Run
from tests.unit.scheduler.planning import HOUR, MOST_GRACE, SECOND, START_TIMEOUT, cycle, limited, whole
from tests.unit.scheduler.state.test_state import GPU, NOW, decide, group, node, state_with

EVENTS = 40
HISTORIES = 60


def found(state: ClusterState) -> dict[str, ExpectedEnd]:
    """The ends as they are kept, by group."""
    ends = whole(state.expect_ends(START_TIMEOUT, MOST_GRACE).follow(NOW))
    return {one.gang: msgspec.structs.replace(one, rooms=tuple(sorted(one.rooms, key=str))) for one in ends}


def anew(state: ClusterState) -> dict[str, ExpectedEnd]:
    """The ends as a scheduler that starts would find them."""
    other = EnforcedEnds(state, START_TIMEOUT, MOST_GRACE)
    try:
        ends = whole(other.follow(NOW))
    finally:
        other.close()
    return {one.gang: msgspec.structs.replace(one, rooms=tuple(sorted(one.rooms, key=str))) for one in ends}


def job(deadline: int | None, started: int = 0, phase: str = "Running", uid: str = "owner") -> JobRecord:
    since = NOW + started * SECOND if started else 0
    return JobRecord(uid, "v1", "Job", "ns", uid, 1, "q", 0, phase, deadline=deadline, started=since)


def owned(name: str, uid: str = "owner", kind: str = "Job", **more: Any) -> Any:
    made = limited(name, **more)
    made.metadata.owner_references = [OwnerReference("batch/v1", kind, uid, uid, True)]
    return made


def again(state: ClusterState, made: Any, **spec: Any) -> None:
    """The pod with these fields of its spec."""
    text = msgspec.to_builtins(made)
    state.upsert_pod(msgspec.convert(text | {"spec": text["spec"] | spec}, type(made)))


def end(state: ClusterState) -> int | None:
    """Seconds from now until the only end."""
    ends = found(state)
    return (next(iter(ends.values())).at - NOW) // SECOND if ends else None


@pytest.fixture
def state() -> ClusterState:
    """A pod `p` of a Job without a deadline, with a limit of an hour."""
    made = state_with(node("n1", 64))
    made.upsert_job(job(None))
    made.upsert_pod(owned("p", limit="1h"))
    decide(made)
    assert end(made) == START_TIMEOUT + 3600 + 10
    return made


def test_a_shorter_max_duration_and_none(state: ClusterState) -> None:
    for text, expected in (("10m", 600), ("2h", 3600), ("5m", 300), ("", 3600)):
        state.set_queues([Queue("q", parse_queue_spec({"maxDuration": text} if text else {}))])
        assert end(state) == START_TIMEOUT + expected + 10, text
    state.set_queues([Queue("q", parse_queue_spec({"maxDuration": "1s", "maxDurationFrom": "Creation"}))])
    before = end(state)
    assert before is not None
    state.set_queues([Queue("q", parse_queue_spec({"maxDuration": "1s", "maxDurationFrom": "Start"}))])
    assert end(state) == START_TIMEOUT + 1 + 10 != before
    state.set_queues([])
    assert end(state) == START_TIMEOUT + 3600 + 10


@pytest.mark.parametrize("limit", ["99y", "300y", "99999999999999y"])
def test_an_end_in_the_next_century_is_none(state: ClusterState, limit: str) -> None:
    state.upsert_pod(owned("far", uid="far", kind="GenericJob", limit=limit))
    (waiting,) = state.view(NOW).gangs
    assert waiting.lasts == 0
    decide(state)
    assert end(state) == START_TIMEOUT + 3600 + 10
    state.upsert_job(job(10**14, started=-1))
    assert end(state) == START_TIMEOUT + 3600 + 10
    state.set_queues([Queue("q", parse_queue_spec({"maxDuration": limit}))])
    assert len(found(state)) == 1


def test_a_cordoned_card_is_not_given_back() -> None:
    """What a plan is promised of a node is what its cards that take work give, also while others are held."""
    made = state_with(node("n1", 8))
    made.upsert_pod(limited("p", 8, limit="1h"))
    decide(made)
    made.upsert_pod(limited("whole", 8, limit="1h"))
    made.upsert_pod(limited("most", 7, limit="1h"))
    _, decided, _ = cycle(made)
    assert {one.owner for one in decided.planned} == {"pod-whole", "pod-most"}
    made.node_events.cordon_cards({"n1": {3: "fan"}})
    ((rooms,),) = [one.rooms for one in found(made).values()]
    assert dict(rooms[1].requests)[GPU] == 7
    _, decided, _ = cycle(made)
    assert {one.owner for one in decided.planned} == {"pod-most"}
    made.node_events.cordon_cards({})
    _, decided, _ = cycle(made)
    assert {one.owner for one in decided.planned} == {"pod-whole", "pod-most"}


def test_other_rules(state: ClusterState) -> None:
    kept = state.expect_ends(START_TIMEOUT, MOST_GRACE)
    assert state.expect_ends(START_TIMEOUT, MOST_GRACE) is kept
    (shorter,) = whole(state.expect_ends(60, MOST_GRACE).follow(NOW))
    assert (shorter.at - NOW) // SECOND == 60 + 3600 + 10
    state.expect_no_ends()
    assert state.enforced_ends is None


def test_the_clock(state: ClusterState) -> None:
    state.clocks.by_job["owner"] = Clock(Run(uid="owner", bound_at=NOW, ran_at=NOW - 60 * SECOND))
    state.clock_changed("owner")
    assert end(state) == 3600 - 60 + 10


def test_a_limit_that_a_manager_gives(state: ClusterState) -> None:
    state.direct({"owner": JobControl("owner", time_limit_seconds=60, at=datetime.now(UTC))})
    assert end(state) == START_TIMEOUT + 60 + 10


def test_the_jobs_deadline_and_when_it_began(state: ClusterState) -> None:
    state.upsert_job(job(600))
    assert end(state) == START_TIMEOUT + 600 + 10
    state.upsert_job(job(600, -100))
    assert end(state) == 500 + 10
    state.upsert_job(job(900, -100))
    assert end(state) == 800 + 10


def test_a_job_that_is_seen_after_its_pods() -> None:
    late = state_with(node("n1", 64))
    late.upsert_pod(owned("p", kind="GenericJob", limit="1h"))
    decide(late)
    found(late)
    late.upsert_job(job(600, -100))
    assert end(late) == 500 + 10


def test_a_pods_own_deadline(state: ClusterState) -> None:
    again(state, owned("p", limit="1h"), activeDeadlineSeconds=60)
    assert end(state) == START_TIMEOUT + 60 + 10


def test_a_pod_that_is_gone(state: ClusterState) -> None:
    state.remove_pod("pod-p")
    assert end(state) is None


def test_many_groups_are_looked_at_in_steps(state: ClusterState) -> None:
    for number in range(450):
        state.upsert_pod(limited(f"s{number}", 0, limit="1h"))
    decide(state)
    assert len(list(state.expect_ends(START_TIMEOUT, MOST_GRACE).follow(NOW))) == 2


# ---- whatever happens


class History:
    """Random events about a few jobs and gangs. The moment stays, so that all calculations are about the same one."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.state = state_with(node("n1", 12), node("n2", 12), queues={"q": {}, "r": {"maxDuration": "2h"}})
        self.names = 0
        self.pods: dict[str, Any] = {}

    def step(self) -> str:
        events: tuple[Callable[[], None], ...] = (
            self.come,
            self.come,
            self.decide,
            self.decide,
            self.run,
            self.run,
            self.end_pod,
            self.remove,
            self.queues,
            self.clock,
            self.limit,
            self.job,
            self.deadline,
            self.stop,
            self.remake,
        )
        event = self.dice.choice(events)
        event()
        self.state.settle()
        return event.__name__

    def come(self) -> None:
        self.names += 1
        name, size = f"g{self.names}", self.dice.choice((1, 1, 2, 3))
        more: dict[str, Any] = {"limit": self.dice.choice(("", "1h", "3h"))}
        more |= self.dice.choice(({}, {"activeDeadlineSeconds": 100}, {"grace": 30}, {"priority": 2_000_000_000}))
        queue = self.dice.choice("qr")
        if size > 1:
            self.state.upsert_group(group(name, self.dice.randint(1, size), queue=queue))
        for at in range(size):
            made = limited(f"{name}-{at}", **(more | ({"group": name} if size > 1 else {"queue": queue})))
            if size == 1 and self.dice.random() < 0.5:
                made.metadata.owner_references = [OwnerReference("batch/v1", "Job", "owner", "owner", True)]
            self.pods[made.metadata.uid] = made
            self.state.upsert_pod(made)

    def decide(self) -> None:
        decide(self.state)

    def _some(self) -> Any:
        return self.dice.choice(list(self.pods.values())) if self.pods else None

    def run(self) -> None:
        one = self._some()
        record = one and self.state.pods.get(one.metadata.uid)
        if record and (record.assumed or record.node) and not record.finished:
            one.spec.node_name, one.status.phase = record.assumed or record.node, "Running"
            one.status.start_time = f"2023-11-14T22:0{self.dice.randint(0, 9)}:00Z"
            self.state.upsert_pod(one)

    def end_pod(self) -> None:
        one = self._some()
        if one and one.status.phase == "Running":
            one.status.phase = self.dice.choice(("Succeeded", "Failed"))
            self.state.upsert_pod(one)

    def remove(self) -> None:
        if one := self._some():
            self.state.remove_pod(one.metadata.uid)
            del self.pods[one.metadata.uid]

    def queues(self) -> None:
        lengths = {name: self.dice.choice(("", "1h", "4h")) for name in "qr"}
        since = self.dice.choice(("Start", "Creation"))
        self.state.set_queues(
            Queue(name, parse_queue_spec({"maxDuration": text, "maxDurationFrom": since} if text else {}))
            for name, text in lengths.items()
        )

    def _gang(self) -> Any:
        return self.dice.choice(list(self.state.gangs.values())) if self.state.gangs else None

    def clock(self) -> None:
        if (gang := self._gang()) is not None:
            clock = self.state.clocks.by_job.setdefault(job_of(gang), Clock(Run(uid=job_of(gang))))
            clock.set(bound_at=NOW, ran_at=self.dice.choice((0, NOW, NOW - HOUR)))
            self.state.clock_changed(job_of(gang))

    def limit(self) -> None:
        if (gang := self._gang()) is not None:
            control = JobControl(job_of(gang), time_limit_seconds=self.dice.choice((0, 60)), at=datetime.now(UTC))
            self.state.direct({**self.state.controls, job_of(gang): control})

    def job(self) -> None:
        self.state.upsert_job(job(self.dice.choice((None, 100, 900)), self.dice.choice((0, -50))))

    def deadline(self) -> None:
        if one := self._some():
            one.spec.active_deadline_seconds = self.dice.choice((None, 5, 50))
            self.state.upsert_pod(one)

    def stop(self) -> None:
        if (gang := self._gang()) is not None:
            code = self.dice.choice((Code.TIME_LIMIT_EXCEEDED, Code.MAX_DURATION_EXCEEDED))
            self.state.note_end(gang, code, "it is over", NOW, 60)

    def remake(self) -> None:
        groups = [gang for gang in self.state.gangs.values() if not gang.virtual and gang.uid]
        if groups:
            gang = self.dice.choice(groups)
            if self.dice.random() < 0.5:
                self.state.remove_group(group(gang.name, 1, uid=gang.uid))
            else:
                self.names += 1
                self.state.upsert_group(group(gang.name, 1, uid=f"again-{self.names}", queue=gang.queue))


def play(seed: int) -> None:
    history = History(seed)
    happened = []
    for _ in range(EVENTS):
        happened.append(history.step())
        assert found(history.state) == anew(history.state), (seed, happened)


@pytest.mark.parametrize("first", range(0, HISTORIES, 10))
def test_what_is_kept_is_what_a_full_calculation_finds(first: int) -> None:
    for seed in range(first, first + 10):
        play(seed)


def test_histories_meet_all_that_they_are_to() -> None:
    ends: set[bool] = set()
    codes: set[str] = set()
    for seed in range(HISTORIES):
        history = History(seed)
        for _ in range(EVENTS):
            history.step()
        ends |= {bool(found(history.state)), not found(history.state)}
        codes |= {clock.run.ended_code for clock in history.state.clocks.by_job.values()}
    assert ends == {True, False}
    assert codes == {"", "TimeLimitExceeded", "MaxDurationExceeded"}


class _Same(dict[str, Any]):
    """Equal to everything."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, _: object) -> bool:
        return True

    def __ne__(self, _: object) -> bool:
        return False


def _seen(self: EnforcedEnds) -> Any:
    return _Same() if vars(self).get("seen") else None


def _see(self: EnforcedEnds, value: object) -> None:
    vars(self)["seen"] = value is not None


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "clocks are not followed": (ClusterState, "clock_changed", lambda self, job: None),
    "queues are looked at once": (EnforcedEnds, "_lengths", property(_seen, _see)),
    "jobs are looked at once": (JobEvents, "upsert", lambda self, job: self._state.jobs.update({job.uid: job})),
    "limits of managers are not followed": (
        ClusterState,
        "direct",
        lambda self, controls: setattr(self, "controls", controls),
    ),
}


@pytest.mark.parametrize("fault", MUTANTS)
def test_each_fault_turns_a_history_red(fault: str) -> None:
    owner, attribute, new = MUTANTS[fault]
    with patch.object(owner, attribute, new, create=True), pytest.raises(AssertionError):
        list(map(play, range(HISTORIES)))
