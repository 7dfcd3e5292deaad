"""Waiting gangs by queue and reason are those that a walk over all of them finds, whatever happens."""

from collections import Counter
from types import SimpleNamespace

from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.waiting_gangs import UNDECIDED, WaitingGangs
from tests.unit.scheduler.state.test_state import NOW, decide, group, pod, state_with


def walked(state: ClusterState) -> Counter[tuple[str, str]]:
    return Counter((gang.queue, str(gang.reasons[0].code) if gang.reasons else UNDECIDED) for gang in state.pending)


def test_counts_follow_every_change() -> None:
    state = state_with(queues={"q": {}, "other": {}, "default": {}})
    room = Reason(Code.GANG_INCOMPLETE, "waits")
    for name in ("a", "b"):
        state.upsert_group(group(name, 1))
        state.upsert_pod(pod(f"{name}-0", 1, group=name))
    assert walked(state) == state.waiting_gangs.counts == {("q", UNDECIDED): 2}
    state.progress.waits(state.gangs["ns", "a"], (room,), 1)
    assert walked(state) == state.waiting_gangs.counts == {("q", UNDECIDED): 1, ("q", str(room.code)): 1}
    state.refused(state.gangs["ns", "b"], room)
    assert state.waiting_gangs.counts == {("q", str(room.code)): 2}
    state.upsert_group(group("b", 1, queue="other"))
    assert walked(state) == state.waiting_gangs.counts == {("q", str(room.code)): 1, ("other", str(room.code)): 1}
    decided = decide(state)
    assert decided
    assert walked(state) == state.waiting_gangs.counts == {}
    state.refuse(decided[0].pod, room, NOW, keep_place=False)
    assert walked(state) == state.waiting_gangs.counts
    assert state.waiting_gangs.counts.total() == 1
    for name in ("a", "b"):
        state.remove_pod(f"pod-{name}-0")
        state.remove_group(group(name, 1))
    assert walked(state) == state.waiting_gangs.counts == {}


def test_a_queue_that_goes_leaves_no_word_behind() -> None:
    pending: dict[SimpleNamespace, None] = {}

    class Gang(SimpleNamespace):
        __hash__ = object.__hash__

    counted = WaitingGangs(pending)  # type: ignore[arg-type]
    for each in range(50):
        gang = Gang(queue=f"q{each}", reasons=(), waits_by=None)
        pending[gang] = None
        counted.note(gang)  # type: ignore[arg-type]
        del pending[gang]
        counted.note(gang)  # type: ignore[arg-type]
    assert not counted.counts
    assert not counted._words


def test_it_is_told_which_gangs_got_another_reason_from_anyone_but_a_plan() -> None:
    state = state_with()
    room = Reason(Code.INSUFFICIENT_RESOURCES, "waits")
    for name in ("a", "b"):
        state.upsert_pod(pod(name, queue="q"))
    a, b = (state.gangs_by_uid[f"pod-{name}"] for name in ("a", "b"))
    state.settle()
    state.refused(a, Reason(Code.RATE_LIMITED, "too many wait"))
    elsewhere = state.feed.told_elsewhere.follow()
    assert elsewhere.take() == [], "nobody followed"
    for gang in (a, b):
        state.progress.waits(gang, (room,), 1)
    assert elsewhere.take() == [], "as a plan does"
    state.refused(a, Reason(Code.RATE_LIMITED, "too many wait"))
    assert elsewhere.take() == [a.uid]
    state.refused(a, a.reasons[0])
    assert elsewhere.take() == [], "it had that reason"
    state.upsert_pod(pod("b", queue="q", node="n1", phase="Running"))
    state.settle()
    assert elsewhere.take() == [b.uid], "it has none any more"
    (decided,) = decide(state)
    elsewhere.take()
    state.refuse(decided.pod, room, NOW, keep_place=False)
    assert elsewhere.take() == [a.uid]
