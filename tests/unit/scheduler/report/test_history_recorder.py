"""Jobs are written when their phase changes, and less often while only their counts do."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec import structs

from t9ksched.admission.access import Members
from t9ksched.engine.plan import Waiting
from t9ksched.model import names
from t9ksched.model.pod import Pod, decode_pod
from t9ksched.model.queue import Queue, QueueSpec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.report import history_recorder, job_recorder
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state import other_numbers
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event
from t9ksched.store.jobs import Gone, JobRecord, JobRow, Written
from tests.feeds import taken

WHY = Reason(Code.VOLUME_NOT_BOUND, "its claim finds no free volume")


class SqlWriter:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.jobs: list[JobRecord] = []
        self.events: list[str] = []
        self.told: list[Event] = []
        self.removed: list[str] = []
        self.ends: list[Gone] = []
        self.agreed: list[Acceptance] = []
        self.jobs_waiting = 0

    def accepted(self, acceptances: list[Acceptance]) -> None:
        self.agreed += acceptances

    def accepted_pod(self, acceptance: Acceptance, event: Event) -> None:
        self.accepted([acceptance])
        self.event(event)

    def job(self, job: JobRow) -> None:
        known = structs.asdict(job)
        del known["submitter"]
        self.jobs.append(JobRecord(**known | {"shape": msgspec.json.decode(job.shape)}))

    def gone(self, uid: str, gone: Gone) -> None:
        self.removed.append(uid)
        self.ends.append(gone)

    def tells_of(self, uid: str) -> bool:
        return any(event.uid == uid for event in self.told)

    def event(self, event: Event) -> None:
        self.events.append(event.event)
        self.told.append(event)


class Silent:
    """Writes no events."""

    def gang(self, *_: object, **__: object) -> None: ...


def see(state: ClusterState, *, node: str = "", phase: str = "Pending", queue: str = "") -> None:
    metadata: dict[str, object] = {"name": "p", "namespace": "ns", "uid": "u"}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    if queue:
        metadata["labels"] = {names.QUEUE_LABEL: queue}
    spec = {"schedulerName": "t9k-scheduler", "nodeName": node, "containers": [{"name": "main"}]}
    state.upsert_pod(decode_pod({"metadata": metadata, "spec": spec, "status": {"phase": phase}}))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class EventWriter:
    """Remembers the events that are written, by reason."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []

    def gang(self, _: object, reason: str, message: str, **__: object) -> None:
        self.written.append((reason, message))


class Telling:
    """A recorder at work, and what it wrote."""

    def __init__(self) -> None:
        self.state, self.sql_writer = ClusterState(), SqlWriter()
        self.recorder = HistoryRecorder(self.state, self.sql_writer, Silent(), lambda: 1)  # type: ignore[arg-type]

    def see(self, *, node: str = "", phase: str = "Pending", queue: str = "") -> None:
        see(self.state, node=node, phase=phase, queue=queue)
        self.recorder.wake()

    async def told(self, jobs: int) -> None:
        await until(lambda: len(self.sql_writer.jobs) == jobs)


@asynccontextmanager
async def telling(monkeypatch: pytest.MonkeyPatch, *, first: float, counts: float) -> AsyncGenerator[Telling, None]:
    """Jobs are looked at at once, new ones after `first` seconds, counts after `counts`."""
    monkeypatch.setattr(history_recorder, "JOB_PERIOD", 0.01)
    for name, seconds in {"FIRST_PERIOD": first, "COUNTS_PERIOD": counts}.items():
        monkeypatch.setattr(job_recorder, name, seconds)
    found = Telling()
    found.recorder.begun.set()
    task = asyncio.create_task(found.recorder.run())
    found.see()
    yield found
    task.cancel()


async def test_what_was_agreed_with_a_single_pod_is_written_once() -> None:
    one = Telling()
    one.state.set_queues([Queue("q", QueueSpec())])
    one.state.permit({"q": Members(everyone=True)})
    one.see(queue="q")
    one.state.view(1)
    one.recorder.accepted()
    assert [(agreed.uid, agreed.replicas) for agreed in one.sql_writer.agreed] == [("u", 1)]


@pytest.mark.parametrize(("phase", "said"), [("Pending", True), ("Running", False)])
async def test_the_binding_of_a_single_pod_says_its_submitter_before_it_runs(phase: str, said: bool) -> None:
    one = Telling()
    one.state.accept(Acceptance(uid="u", kind="Pod", namespace="ns", name="p", submitter="ann", queue="q"))
    one.see(queue="q")
    one.see(node="n1", phase=phase, queue="q")
    one.recorder.bound(one.state.gangs_by_uid["u"], one.state.pods["u"], "n1", {}, 1)
    assert [event.detail.get("submitter") for event in one.sql_writer.told] == ["ann" if said else None]


async def test_a_phase_is_written_soon_and_counts_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with telling(monkeypatch, first=0.05, counts=1e9) as one:
        await one.told(1)
        one.see(node="n1")
        await until(lambda: bool(one.recorder.jobs._later))
        assert len(one.sql_writer.jobs) == 1, "bound is a count, not a phase"
        one.see(node="n1", phase="Running")
        await one.told(2)
        assert one.sql_writer.jobs[-1].shape["members"]["bound"] == 1
        assert one.sql_writer.events == ["started"]
        assert not one.recorder.jobs._later


async def test_what_was_put_off_is_written_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with telling(monkeypatch, first=0.05, counts=0.2) as one:
        await one.told(1)
        one.see(node="n1")
        await one.told(2)
        assert one.sql_writer.jobs[-1].shape["members"]["bound"] == 1


async def test_of_many_jobs_whose_counts_change_each_is_written_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_recorder, "COUNTS_A_SECOND", 1e-9)
    async with telling(monkeypatch, first=0.05, counts=0) as one:
        await one.told(1)
        one.recorder.jobs._later["another"] = 1e12
        one.see(node="n1")
        await until(lambda: one.recorder.jobs._later.get("u", 0) > 1e6)
        assert len(one.sql_writer.jobs) == 1
        one.see(node="n1", phase="Running")
        await one.told(2)


async def test_a_job_that_is_being_bound_is_written_once_with_its_places(monkeypatch: pytest.MonkeyPatch) -> None:
    async with telling(monkeypatch, first=0.01, counts=0) as one:
        (pod,) = one.state.pods.values()
        pod.assumed = "n1"
        await until(lambda: bool(one.recorder.jobs._at_latest))
        assert not one.sql_writer.jobs
        pod.assumed = ""
        one.see(node="n1")
        await one.told(1)
        assert one.sql_writer.jobs[-1].shape["members"]["bound"] == 1
        assert not one.recorder.jobs._at_latest


async def test_a_job_whose_binding_takes_long_is_written_without_its_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_recorder, "BURST_PERIOD", 0.05)
    async with telling(monkeypatch, first=0.01, counts=1e9) as one:
        (pod,) = one.state.pods.values()
        pod.assumed = "n1"
        await one.told(1)


async def test_an_attempt_to_bind_that_fails_is_not_written_as_waiting_without_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with telling(monkeypatch, first=0.05, counts=0) as one:
        (pod,) = one.state.pods.values()
        assert pod.gang is not None
        one.recorder.waits("u", (WHY,), None, 1)
        await one.told(1)
        assert one.sql_writer.jobs[-1].shape["reason"] == {"code": str(WHY.code), "message": WHY.message}
        monkeypatch.setattr(job_recorder, "FIRST_PERIOD", 1e9)  # what is put off now waits for its refusal
        pod.assumed = "n1"
        one.recorder.placed("u", 2)
        one.state.feed.jobs.note("u")
        one.recorder.wake()
        await until(lambda: bool(one.recorder.jobs._later))
        one.state.refuse("u", WHY, 3, keep_place=False)
        one.state.feed.jobs.note("u")
        one.recorder.jobs._look_again("u", 0.0)
        one.recorder.wake()
        await until(lambda: not one.recorder.jobs._later)
        assert [job.shape["reason"] is None for job in one.sql_writer.jobs] == [False]


async def test_what_was_written_before_a_restart_is_not_written_again() -> None:
    state, sql_writer = ClusterState(), SqlWriter()
    see(state)
    see(state, node="n1", phase="Running")
    first = HistoryRecorder(state, sql_writer, None, lambda: 1)  # type: ignore[arg-type]
    first.jobs.tell("u")
    (job,) = sql_writer.jobs
    shape = msgspec.json.encode(job.shape).decode()
    written = Written(job.uid, job.kind, job.namespace, job.name, job.queue, job.phase, job.finished_at, shape)
    gone = written._replace(uid="another")

    second = HistoryRecorder(state, sql_writer, None, lambda: 2)  # type: ignore[arg-type]
    taken(state, "jobs")
    second.jobs.restore([written, gone])
    changed = taken(state, "jobs")
    assert changed == ["u", "another"], "both are looked at"
    for uid in changed:
        second.jobs.tell(uid)
    assert len(sql_writer.jobs) == 1
    assert sql_writer.events == ["started", "deleted"]
    assert sql_writer.removed == ["another"]
    see(state, node="n1", phase="Failed")
    second.jobs.tell("u")
    assert sql_writer.events[2:] == ["finished"]
    assert sql_writer.jobs[-1].phase == "Failed"


async def test_a_new_job_that_has_its_place_soon_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with telling(monkeypatch, first=0.3, counts=1e9) as one:
        await until(lambda: bool(one.recorder.jobs._later))
        one.see(node="n1")
        await until(lambda: bool(one.sql_writer.jobs))
        assert [job.shape["members"]["bound"] for job in one.sql_writer.jobs] == [1]


async def test_a_job_that_went_before_it_was_told_is_noted_as_gone() -> None:
    state, sql_writer = ClusterState(), SqlWriter()
    recorder = HistoryRecorder(state, sql_writer, None, lambda: 1)  # type: ignore[arg-type]
    see(state)
    state.remove_pod("u")
    recorder.jobs.tell("u")
    assert (sql_writer.jobs, sql_writer.removed) == ([], ["u"])


def joining(name: str, phase: str = "Pending", node: str = "") -> Pod:
    labels = {names.GROUP_LABEL: "g", names.QUEUE_LABEL: "q"}
    metadata = {"name": name, "namespace": "ns", "uid": name, "labels": labels}
    spec = {"schedulerName": "t9k-scheduler", "nodeName": node, "containers": [{"name": "main"}]}
    return decode_pod({"metadata": metadata, "spec": spec, "status": {"phase": phase}})


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded"])
@pytest.mark.parametrize("kind", ["Pod", "PodGroup", "PodGroup first"])
async def test_the_end_of_a_job_of_which_something_was_told_is_told_and_listed_once(kind: str, phase: str) -> None:
    one = Telling()
    state, node = one.state, "" if phase == "Pending" else "n1"
    metadata = {"name": "g", "namespace": "ns", "uid": "g1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    group = decoder(PodGroupObject)({"metadata": metadata, "spec": {"minMember": 2}})
    if kind == "Pod":
        one.see()
        one.see(node=node, phase=phase)
    else:
        state.upsert_group(group)
        for name in ("a", "b", "a", "b"):
            state.upsert_pod(joining(name, phase, node) if name in state.pods else joining(name))
    uid = "u" if kind == "Pod" else "g1"
    one.recorder._note("admitted", state.gangs_by_uid[uid], 1, {})
    if kind == "PodGroup first":
        state.remove_group(group)
    for name in ("u",) if kind == "Pod" else ("a", "b"):
        state.remove_pod(name)
    if kind == "PodGroup":
        state.remove_group(group)
    for _ in range(2):
        one.recorder.jobs.tell(uid)
    ended = {"Pending": [], "Running": ["started"], "Succeeded": ["finished"]}[phase]
    assert [event.event for event in one.sql_writer.told] == ["admitted", *ended, "deleted"]
    assert {(event.uid, event.kind) for event in one.sql_writer.told} == {(uid, kind.split()[0])}
    (job,) = one.sql_writer.jobs
    assert (job.uid, job.phase, job.shape["members"]["total"]) == (uid, phase, 1 if kind == "Pod" else 2)
    assert one.sql_writer.ends[0].phase == phase
    assert one.sql_writer.ends[0].told
    departed = one.recorder.jobs._departed
    assert not [*departed.note()]
    assert not departed._gangs and not departed._pods  # noqa: PT018


async def test_of_a_job_of_which_nothing_was_told_nothing_is_remembered_when_it_is_gone() -> None:
    one = Telling()
    one.see()
    one.state.remove_pod("u")
    one.recorder.jobs.tell("u", due=True)
    list(one.recorder.jobs._departed.note())
    assert one.sql_writer.removed == ["u"]
    assert not one.recorder.jobs._departed._gangs


async def test_what_left_of_jobs_that_are_written_is_not_remembered() -> None:
    one = Telling()
    one.see(node="n1", phase="Running")
    one.recorder.jobs.tell("u")
    one.state.remove_pod("u")
    list(one.recorder.jobs._departed.note())
    assert not one.recorder.jobs._departed._gangs


async def test_a_podgroup_made_by_hand_that_goes_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with telling(monkeypatch, first=0.01, counts=1e9) as one:
        metadata = {"name": "g", "namespace": "ns", "uid": "g1", "creationTimestamp": "2026-01-01T00:00:00Z"}
        group = decoder(PodGroupObject)({"metadata": metadata, "spec": {"minMember": 2}})
        one.state.upsert_group(group)
        one.recorder.wake()
        await one.told(2)
        assert one.sql_writer.jobs[-1].kind == "PodGroup"
        one.state.remove_group(group)
        one.recorder.wake()
        await until(lambda: one.sql_writer.removed == ["g1"])
        assert one.sql_writer.events == ["deleted"]


async def test_an_edit_that_does_not_count_is_told_once_however_often_the_job_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with telling(monkeypatch, first=0.01, counts=0.01) as now:
        events = EventWriter()
        now.recorder.jobs._events = events  # type: ignore[assignment]
        now.state.set_queues([Queue(name, QueueSpec()) for name in ("default", "other")])
        now.state.permit(dict.fromkeys(("default", "other"), Members(everyone=True)))
        now.state.view(1)
        assert now.state.gangs_by_uid["u"].acceptance is not None

        def told() -> list[str]:
            return [message for reason, message in events.written if reason == names.EVENT_EDIT_IGNORED]

        now.see(queue="other")
        await until(lambda: len(told()) == 1)
        for phase in ("Running", "Succeeded"):
            now.see(node="n", phase=phase, queue="other")
            await until(lambda wanted=phase: now.sql_writer.jobs[-1].shape["phase"] == wanted)  # type: ignore[misc]
        now.see(node="n", phase="Succeeded", queue="third")
        await until(lambda: "'third'" in told()[-1])
        assert ["'other'" in text for text in told()] == [True, False]


def test_a_gang_that_is_told_the_same_costs_nothing_and_misses_nothing() -> None:
    one = Telling()
    one.see()
    record = one.state.gangs_by_uid["u"]
    gangs = one.state.feed.gangs.follow()
    other = (Reason(Code.RATE_LIMITED, "too many wait"),)
    why = (WHY,)
    one.recorder.waits("u", why, 1, 1)
    gangs.take()
    one.recorder.waits("u", why, 1, 2)
    assert not gangs.take()
    one.recorder.waits("u", why, 2, 2)
    one.state.progress.other_numbers.publish(1.0)
    assert gangs.take(), "its position changed"
    # As the admission pass does it: the record has the reason before it is told.
    one.state.refused(record, other[0])
    one.recorder.waits("u", record.reasons, None, 3)
    one.recorder.waits("u", why, 2, 4)
    one.recorder.placed("u", 5)
    one.recorder.waits("u", why, 2, 6)
    assert one.sql_writer.events == ["waiting"] * 4
    assert record.reasons is why


@pytest.mark.parametrize("seed", range(5))
def test_other_numbers_of_many_are_recorded_as_one_by_one(seed: int) -> None:
    """Whatever was recorded before, by whom, and whether it is of the kind that it is said to be."""
    rng = random.Random(seed)
    codes = (Code.INSUFFICIENT_RESOURCES, Code.QUOTA_EXCEEDED, Code.GANG_INCOMPLETE)
    whys = [(Reason(rng.choice(codes), f"{at} free"),) for at in range(6)]
    single, many = Telling(), Telling()
    for one in (single, many):
        one.see()
    for now in range(40):
        why, place = rng.choice(whys), rng.randrange(3)
        does = rng.choice(["numbers", "numbers", "numbers", "waits", "refused", "placed", "turns"])
        for one in (single, many):
            record = one.state.gangs_by_uid["u"]
            if does == "refused":
                one.state.refused(record, why[0])
            elif does == "placed":
                one.recorder.placed("u", now)
            elif does == "turns":
                one.state.progress.other_numbers.publish(now)
            elif does == "waits" or one is single:
                one.recorder.waits("u", why, place or None, now)
            else:
                one.recorder.other_numbers([Waiting("u", why, place), Waiting("gone", why, 1)], now)
        here, there = (one.state.gangs_by_uid["u"] for one in (single, many))
        assert (here.reasons, here.position) == (there.reasons, there.position)
        assert single.sql_writer.events == many.sql_writer.events
        assert single.state.waiting_gangs.counts == many.state.waiting_gangs.counts
        assert bool(single.state.progress.other_numbers) <= bool(many.state.progress.other_numbers)


async def test_other_numbers_are_written_though_nothing_else_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last turns come after the last event."""
    monkeypatch.setattr(other_numbers, "AT_ONCE", 1)
    monkeypatch.setattr(other_numbers, "A_SECOND", 1000)
    async with telling(monkeypatch, first=0.01, counts=0.02) as one:
        await one.told(1)
        for free in range(2):
            why = (Reason(Code.INSUFFICIENT_RESOURCES, f"best has {free} free"),)
            one.recorder.waits("u", why, 1, 1)
            one.recorder.wake()
            await until(lambda text=why[0].message: text in str(one.sql_writer.jobs[-1].shape))  # type: ignore[misc]


@pytest.mark.parametrize("again", ["busy", "free"])
def test_a_job_that_is_turned_away_from_a_busy_node_is_told_once_it_is_bound_elsewhere(again: str) -> None:
    state, events, writer = ClusterState(), EventWriter(), SqlWriter()
    recorder = HistoryRecorder(state, writer, events, lambda: 1)  # type: ignore[arg-type]
    recorder._in_turn = lambda node: node.startswith("busy")  # type: ignore[method-assign]
    see(state)
    state.view(1)
    pod = state.pods["u"]
    for at, node in enumerate(("busy-1", f"{again}-2"), start=1):
        pod.assumed = node
        recorder.placed("u", at)
        if at == 1:
            pod.assumed = ""
            recorder.waits("u", (WHY,), 1, at)
            assert not [message for reason, message in events.written if reason == names.EVENT_SCHEDULED]
    recorder.bound(state.gangs_by_uid["u"], pod, pod.assumed, {}, 3)
    said = [message for reason, message in events.written if reason == names.EVENT_SCHEDULED]
    assert said == [f"1 pod placed on {again}-2"]
    assert writer.events.count("admitted") == 1


async def test_each_run_of_a_gang_is_told_to_have_its_places_and_how_long_it_waited() -> None:
    one = Telling()
    state, recorder = one.state, one.recorder
    metadata = {"name": "g", "namespace": "ns", "uid": "g1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    state.upsert_group(decoder(PodGroupObject)({"metadata": metadata, "spec": {"minMember": 2}}))
    for at, (begins, ended) in enumerate([("00", "Failed"), ("50", "")]):
        for name in (f"a{at}", f"b{at}"):
            made = joining(name)
            made.metadata.creation_timestamp = f"2026-01-01T00:00:{begins}Z"
            state.upsert_pod(made)
        for pod in (pods := [state.pods[f"{name}{at}"] for name in "ab"]):
            pod.assumed = "n1"
        now = int(datetime(2026, 1, 1, 0, 1, tzinfo=UTC).timestamp() * 1e9)
        recorder.placed("g1", now)
        state.settle()
        if at == 0:  # a refused binding is no second start
            for pod in pods:
                pod.assumed = ""
                state.changes.gang_changed(pod.gang)
            state.settle()
            for pod in pods:
                pod.assumed = "n1"
            recorder.placed("g1", now)
        for phase in ("Running", ended) if ended else ("Running",):
            for name in "ab":
                state.upsert_pod(joining(f"{name}{at}", phase, "n1"))
            state.settle()
    told = [event.detail["waitedSeconds"] for event in one.sql_writer.told if event.event == "admitted"]
    assert told == [60, 10]
