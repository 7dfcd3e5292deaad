"""Limits on jobs that wait hold for whatever was created, by REST or past it: beyond them nothing is accepted."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.model.pod import OwnerReference
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.waitinglimits import WaitingLimits, _Place
from t9ksched.store.acceptances import Acceptance
from tests.feeds import taken
from tests.unit.scheduler.state.test_admission_pieces import looks
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with

AT = datetime(2026, 1, 1, tzinfo=UTC)


def limited(user: int | None = None, queue: int | None = None, *nodes: Any) -> ClusterState:
    state = state_with(*nodes, queues={"q": {}, "r": {}})
    state.waiting_jobs.limits = WaitingLimits(user, queue)
    return state


def owned_pod(name: str, owner: str) -> Any:
    made = pod(name, queue="q")
    made.metadata.owner_references = [OwnerReference(kind="GenericJob", name=owner, uid=owner, controller=True)]
    return made


def look(state: ClusterState) -> list[str]:
    """The groups that the engine is told of, by name."""
    view = state.view(NOW)
    return sorted(state.gangs_by_uid[gang.uid].name for gang in view.gangs)


def refused(state: ClusterState) -> dict[str, str]:
    """What groups that were not accepted are told."""
    waiting = [gang for gang in state.gangs.values() if gang.acceptance is None]
    reasons = {gang.name: reason for gang in waiting for reason in gang.reasons if reason.code == Code.RATE_LIMITED}
    assert not any(reason.refused for reason in reasons.values())
    return {name: reason.message for name, reason in reasons.items()}


def test_a_queue_takes_no_more_than_may_wait() -> None:
    state = limited(queue=2)
    for name in ("a", "b", "c"):
        state.upsert_pod(pod(name, queue="q"))
    state.upsert_pod(pod("d", queue="r"))
    assert look(state) == ["a", "b", "d"]
    assert refused(state) == {"c": "2 jobs in the queue 'q' wait already, and at most 2 may wait"}
    assert "pod-c" not in state.acceptances
    state.remove_pod("pod-a")
    assert look(state) == ["b", "c", "d"]
    assert refused(state) == {}


def test_what_starts_makes_room_for_another() -> None:
    woken: list[None] = []
    state = limited(None, 1, node(gpus=1))
    state.wake = lambda: woken.append(None)
    for name in ("a", "b"):
        state.upsert_pod(pod(name, 1, queue="q"))
    woken.clear()
    assert [assignment.pod for assignment in decide(state)] == ["pod-a"]
    assert woken, "or the other would not be judged again"
    assert look(state) == ["b"]


def test_a_user_has_a_limit_in_all_queues_whatever_way_the_jobs_came() -> None:
    state = limited(user=1)
    for name in ("a", "b", "c"):
        state.accept(
            Acceptance(uid=f"job-{name}", kind="Job", namespace="ns", name=name, submitter="ann", accepted_at=AT)
        )
        made = owned_pod(name, owner=f"job-{name}")
        state.upsert_pod(made)
    assert len(look(state)) == 1
    assert set(refused(state).values()) == {"1 jobs of 'ann' wait already, and at most 1 may wait"}


def test_jobs_of_unknown_users_count_by_namespace() -> None:
    state = limited(user=1)
    state.upsert_pod(pod("a", queue="q"))
    state.upsert_pod(pod("b", queue="r"))
    assert look(state) == ["a"]
    assert "of namespace 'ns'" in refused(state)["b"]


def test_a_job_counts_once_however_many_pods_it_has() -> None:
    state = limited(queue=2)
    for name in ("a-0", "a-1", "a-2"):
        state.upsert_pod(owned_pod(name, owner="job-a"))
    state.upsert_group(group("g", 3))
    for number in range(3):
        state.upsert_pod(pod(f"g-{number}", group="g"))
    state.upsert_pod(pod("late", queue="q"))
    assert look(state) == ["a-0", "a-1", "a-2", "g"]
    assert set(refused(state)) == {"late"}
    assert state.waiting_jobs.jobs("q") == 2


def test_what_was_accepted_before_a_start_is_first() -> None:
    state = limited(queue=1)
    record = Acceptance(uid="pod-z", kind="Pod", namespace="ns", name="z", queue="q", priority=0, accepted_at=AT)
    state.accept(record)
    state.upsert_pod(pod("a", queue="q"))
    state.upsert_pod(pod("z", queue="q"))
    assert look(state) == ["z"]
    assert set(refused(state)) == {"a"}


def test_a_job_that_has_started_goes_on() -> None:
    """Its other pods, and those that replace lost ones, are no jobs that wait."""
    state = limited(None, 1, node(gpus=1))
    state.upsert_pod(owned_pod("a-0", owner="job-a"))
    decide(state)
    state.upsert_pod(pod("b", queue="q"))
    look(state)
    for name in ("a-1", "a-2"):
        state.upsert_pod(owned_pod(name, owner="job-a"))
    assert look(state) == ["a-1", "a-2", "b"]
    assert refused(state) == {}


def test_groups_that_lack_members_count() -> None:
    """Else anyone could keep the scheduler busy with groups that are never accepted."""
    state = state_with(queues={"q": {"quota": {"requests": {"nvidia.com/gpu": "10"}}}})
    state.waiting_jobs.limits = WaitingLimits(per_queue=1)
    for name in ("g", "h"):
        state.upsert_group(group(name, 3))
        state.upsert_pod(pod(f"{name}-0", group=name))
    assert look(state) == ["g"]
    assert set(refused(state)) == {"h"}


def test_thousands_beyond_the_limit_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    state = limited(queue=10)
    for number in range(3000):
        state.upsert_pod(pod(f"p{number:04d}", queue="q"))
    judged: list[str] = []
    judge = state.gate.refusal

    def judging(gang: GangRecord, now: int) -> Reason | None:
        judged.append(gang.name)
        return judge(gang, now)

    monkeypatch.setattr(state.gate, "refusal", judging)
    assert len(look(state)) == len(judged) == 10
    said = taken(state, "said")
    assert len(said) == 2990
    asked: list[str] = []
    jobs = state.waiting_jobs
    refusal = jobs.refusal

    def counted(gang: GangRecord, since: int) -> Reason | None:
        asked.append(gang.name)
        return refusal(gang, since)

    monkeypatch.setattr(jobs, "refusal", counted)
    with looks() as found:
        assert len(look(state)) == 10
    assert not found
    assert asked == []
    assert taken(state, "said") == []
    state.remove_pod("pod-p0000")
    assert len(look(state)) == 10
    assert asked == ["p0010"]
    assert taken(state, "said") == []
    state.waiting_jobs.limits = WaitingLimits(per_queue=8)
    assert len(look(state)) == 10
    assert len(refused(state)) == 2989
    assert set(refused(state).values()) == {"10 jobs in the queue 'q' wait already, and at most 8 may wait"}
    state.waiting_jobs.limits = WaitingLimits(per_user=12)
    assert len(look(state)) == 12
    assert set(refused(state).values()) == {"12 jobs of namespace 'ns' wait already, and at most 12 may wait"}
    state.waiting_jobs.limits = WaitingLimits()
    assert len(look(state)) == 2999
    jobs = state.waiting_jobs
    assert not any((jobs.refused, jobs._of, jobs._told, jobs._lines))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["comes", "comes", "comes", "looks", "starts", "goes", "goes", "limit", "queue"]),
        st.integers(0, 11),
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_who_is_refused_is_who_would_be_by_the_counts_of_now(steps: list[tuple[str, int]]) -> None:
    """Single pods, and jobs of several, in two queues of which one may be closed."""
    state = limited(2, 3, node("n1", gpus=100))
    there: set[str] = set()
    for step, at in steps:
        name, queue = f"p{at}", "qr"[at % 2]
        if step == "comes" and name not in there:
            made = pod(name, queue=queue)
            if at < 6:
                owner = OwnerReference(kind="Thing", name=f"job-{at % 2}", uid=f"job-{at % 2}", controller=True)
                made.metadata.owner_references = [owner]
            there.add(name)
            state.upsert_pod(made)
        elif step == "starts":
            decide(state)
        elif step == "goes" and name in there:
            state.remove_pod(f"pod-{name}")
            there.remove(name)
        elif step == "limit":
            most = [None, 1, 2, 3][at % 4], [None, 1, 4][at % 3]
            state.waiting_jobs.limits = WaitingLimits(*most)
        elif step == "queue":
            state.set_queues([Queue("q", parse_queue_spec({})), Queue("r", parse_queue_spec({"closed": at % 2 == 0}))])
        else:
            continue
        for _ in range(2):  # a queue that is full since the first pass is so for those of the first, too
            look(state)
        jobs = state.waiting_jobs
        for gang in state.pending:
            if gang.acceptance is None and gang not in jobs._let_in:
                job = jobs._job(gang)
                beyond = jobs._is_full(job) and job not in jobs._groups and not jobs._has_started(gang)
                told = [reason for reason in gang.reasons if reason.code == Code.RATE_LIMITED]
                assert bool(told) == beyond
                assert not told or told == [jobs._reason(_Place(job.queue, job.user))]
