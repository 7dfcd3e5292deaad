"""Arrays: how many elements run at once, whatever is placed, refused, ended or started again meanwhile."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.model import names
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.arrays import Arrays
from t9ksched.scheduler.state.asks import Asks
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.job_overrides import JobControl
from tests.unit.scheduler.state.test_start_times import owned
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with


def element(state: ClusterState, name: str, text: str = "sweep%2", phase: str = "", **of_pod: Any) -> None:
    """A batch Job with a pod."""
    state.upsert_job(JobRecord(name, "batch/v1", "Job", "ns", name, 0, "q", 0, phase, asks=Asks(array=text)))
    state.upsert_pod(owned(pod(f"{name}-p", queue="q", **of_pod), name))


def shown(state: ClusterState) -> list[str]:
    return [gang.name.removeprefix("ns/").removesuffix("-p") for gang in state.view(NOW).gangs]


def started(state: ClusterState) -> list[str]:
    found = {one.pod.removesuffix("-p").removeprefix("pod-") for one in decide(state)}
    state.settle()
    return sorted(found)


def test_no_more_elements_than_the_limit_are_seen_by_the_engine() -> None:
    state = state_with(node("n1"))
    for at in range(5):
        element(state, f"e{at}")
    element(state, "other", "else%1")
    element(state, "free", "sweep")
    assert shown(state) == ["e0", "e1", "other", "free"]
    (gang,) = state.gangs_of_owner("e2")
    (reason,) = gang.reasons
    assert (reason.code, gang.position, reason.refused) == (Code.ARRAY_LIMIT, None, False)
    assert reason.message == "at most 2 elements of its array 'sweep' run at once, and as many run or come first"
    assert shown(state) == ["e0", "e1", "other", "free"], "the same in the next cycle"


def test_what_has_places_counts_until_it_has_ended() -> None:
    state = state_with(node("n1"))
    for at in range(4):
        element(state, f"e{at}")
    assert started(state) == ["e0", "e1"]
    assert shown(state) == []
    (gang,) = state.gangs_of_owner("e3")
    assert gang.reasons[0].code == Code.ARRAY_LIMIT
    for phase, more in (("Running", []), ("Succeeded", ["e2"])):
        state.upsert_pod(owned(pod("e0-p", queue="q", node="n1", phase=phase), "e0"))
        assert shown(state) == more


def test_an_element_that_gives_its_place_back_makes_room_for_another() -> None:
    state = state_with(node("n1"))
    for at in range(3):
        element(state, f"e{at}", "sweep%1")
    assert started(state) == ["e0"]
    state.remove_job("e0")
    assert shown(state) == [], "its pod still ends"
    state.remove_pod("pod-e0-p")
    assert shown(state) == ["e1"]


def test_what_may_not_start_for_another_reason_takes_nobodys_turn() -> None:
    state = state_with(node("n1"))
    for at in range(3):
        element(state, f"e{at}", "sweep%1")
    asks = Asks(array="sweep%1", start="2099-01-01T00:00:00Z")
    state.upsert_job(JobRecord("e0", "batch/v1", "Job", "ns", "e0", 0, "q", 0, "", asks=asks))
    assert shown(state) == ["e1"]


def test_the_limit_may_be_edited() -> None:
    state = state_with(node("n1"))
    for at in range(3):
        element(state, f"e{at}", "sweep%1")
    assert shown(state) == ["e0"]
    state.upsert_job(JobRecord("e1", "batch/v1", "Job", "ns", "e1", 0, "q", 0, "", asks=Asks(array="sweep%2")))
    assert shown(state) == ["e0", "e1"]


def test_another_submitters_elements_do_not_count() -> None:
    state = state_with(node("n1"))
    for name, user in (("a", "ann"), ("b", "bob"), ("c", "ann")):
        head: dict[str, Any] = {"kind": "Job", "namespace": "ns", "name": name, "queue": "q"}
        state.accept(Acceptance(uid=name, submitter=user, **head))
        element(state, name, "sweep%1")
    assert started(state) == ["a", "b"]
    for name, user in (("d", "bob"), ("e", "cat")):
        state.accept(Acceptance(uid=name, submitter=user, kind="Job", namespace="ns", name=name, queue="q"))
        element(state, name, "sweep%1")
    assert shown(state) == ["e"]


def test_who_submitted_an_element_may_be_recorded_a_moment_after_it_is_seen() -> None:
    """Without a name it would not count among those of its submitter, nor they for it."""
    state = state_with(node("n1"))
    for name in "abc":
        state.announced.note(name, {names.SUBMISSION_ANNOTATION: f"request/{name}"})
        element(state, name, "sweep%1")
    assert started(state) == []
    for name, starts in (("a", ["a"]), ("b", []), ("c", [])):
        state.accept(Acceptance(uid=name, submitter="ann", kind="Job", namespace="ns", name=name, queue="q"))
        assert started(state) == starts
    element(state, "d", "other%1")
    assert shown(state) == ["d"], "nobody is about to record who made it"


def test_an_element_may_be_seen_before_its_job() -> None:
    """What only the Job says is not known until then."""
    state = state_with(node("n1"))
    state.upsert_pod(owned(pod("e0-p", queue="q"), "e0"))
    assert shown(state) == []
    state.upsert_job(JobRecord("e0", "batch/v1", "Job", "ns", "e0", 0, "q", 0, "", asks=Asks(array="sweep%1")))
    element(state, "e1", "sweep%1")
    assert shown(state) == ["e0"]
    state.upsert_pod(owned(pod("e2-p", queue="q"), "e2"))
    assert [gang.name for gang in state.view(NOW + NAMING_NS).gangs] == ["ns/e0-p"], "it is still waited for"
    assert [gang.name for gang in state.view(NOW + 2 * NAMING_NS).gangs] == ["ns/e0-p", "ns/e2-p"]


def test_a_second_look_in_the_same_pass_takes_no_second_turn() -> None:
    state = state_with(node("n1"))
    for at in range(2):
        element(state, f"e{at}", "sweep%1")
    assert shown(state) == ["e0"]
    first, second = (state.gangs_of_owner(f"e{at}")[0] for at in range(2))
    assert state.arrays.refusal(first) is None
    assert state.arrays.refusal(second) is not None


def test_namespaces_have_arrays_of_their_own() -> None:
    state = state_with(node("n1"))
    element(state, "a", "sweep%1")
    other = owned(pod("b-p", queue="q"), "b")
    other.metadata.namespace = "ml"
    state.upsert_job(JobRecord("b", "batch/v1", "Job", "ml", "b", 0, "q", 0, "", asks=Asks(array="sweep%1")))
    state.upsert_pod(other)
    assert len(state.view(NOW).gangs) == 2


def test_groups_and_pods_may_be_elements() -> None:
    state = state_with(node("n1"))
    for name in "ab":
        made = group(name, 1)
        made.metadata.annotations = {names.ARRAY_ANNOTATION: "sweep%1"}
        state.upsert_group(made)
        state.upsert_pod(pod(f"{name}-p", group=name))
    alone = pod("c", queue="q")
    alone.metadata.annotations = {names.ARRAY_ANNOTATION: "sweep%2"}
    state.upsert_pod(alone)
    assert [gang.name for gang in state.view(NOW).gangs] == ["ns/a", "ns/c"]


def test_pods_of_an_object_that_nobody_reads_are_elements_by_what_was_copied_to_them() -> None:
    state = state_with(node("n1"))
    for name in "abc":
        copied = pod(f"{name}-p", queue="q")
        copied.metadata.annotations = {names.ARRAY_ANNOTATION: "sweep%2"}
        state.upsert_pod(owned(copied, name, "Thing"))
    assert started(state) == ["a", "b"]
    assert shown(state) == []
    assert state.arrays.elements("ns", "sweep") == ["a", "b", "c"]
    state.remove_pod("pod-a-p")
    assert shown(state) == ["c"]


@pytest.mark.parametrize("text", ["Sweep%1", "sweep%0", "sweep[x]%1"])
def test_what_cannot_be_read_holds_nobody_up_and_is_told(text: str) -> None:
    state = state_with(node("n1"))
    for name in "ab":
        element(state, name, text)
    assert shown(state) == ["a", "b"]
    (gang,) = state.gangs_of_owner("a")
    assert state.arrays.fault(gang).startswith(f"the annotation {names.ARRAY_ANNOTATION} is ignored: ")


def test_a_state_that_is_built_anew_knows_what_runs() -> None:
    state = state_with(node("n1"))
    element(state, "e2")
    for at in range(2):
        element(state, f"e{at}", phase="Running", node="n1")
    assert shown(state) == []
    assert set(state.arrays.elements("ns", "sweep")) == {"e0", "e1", "e2"}
    assert state.arrays.elements("ml", "sweep") == []


def waits(state: ClusterState, name: str, text: str, start: str = "") -> None:
    """The annotations of the Job are changed."""
    asks = Asks(array=text, start=start)
    state.upsert_job(JobRecord(name, "batch/v1", "Job", "ns", name, 0, "q", 0, "", asks=asks))


def test_a_refusal_stands_until_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_with(node("n1"))
    for at in range(200):
        element(state, f"e{at:03}")
    assert started(state) == ["e000", "e001"]
    state.upsert_pod(owned(pod("e000-p", queue="q", node="n1", phase="Running"), "e000"))
    assert shown(state) == []
    looks, refusal = [], Arrays.refusal

    def counted(self: Arrays, gang: GangRecord) -> Reason | None:
        looks.append(gang.name)
        return refusal(self, gang)

    monkeypatch.setattr(Arrays, "refusal", counted)
    for _ in range(3):
        assert shown(state) == []
    assert looks == []
    state.upsert_pod(owned(pod("e000-p", queue="q", node="n1", phase="Succeeded"), "e000"))
    assert shown(state) == ["e002"]
    assert looks == ["e002-p"]
    waits(state, "e150", "sweep%9")
    assert shown(state) == ["e002", "e150"], "which counts two others"
    assert len(looks) == 4


def test_one_that_may_not_start_after_all_leaves_its_turn_to_the_next_in_the_same_pass() -> None:
    state = state_with(node("n1"))
    for at in range(6):
        element(state, f"e{at}", "sweep%1")
    assert shown(state) == ["e0"]
    for name in ("e0", "e1", "e2"):
        waits(state, name, "sweep%1", "2099-01-01T00:00:00Z")
    assert shown(state) == ["e3"]
    waits(state, "e1", "sweep%1")
    assert shown(state) == ["e1"], "it came before"
    state.remove_pod("pod-e1-p")
    assert shown(state) == ["e3"]


def test_one_that_is_held_leaves_its_turn_to_the_next() -> None:
    """Nothing changes of the job itself."""
    state = state_with(node("n1"))
    for at in range(3):
        element(state, f"e{at}", "sweep%1")
    assert shown(state) == ["e0"]
    state.direct({"e0": JobControl("e0", held=True)})
    assert shown(state) == ["e1"]
    state.direct({})
    assert shown(state) == ["e0"]


def test_one_whose_queue_drains_leaves_its_turn_to_one_of_another_queue() -> None:
    state = state_with(node("n1"))
    for name, queue in (("e0", "q"), ("e1", "default")):
        state.upsert_job(JobRecord(name, "batch/v1", "Job", "ns", name, 0, queue, 0, "", asks=Asks(array="sweep%1")))
        state.upsert_pod(owned(pod(f"{name}-p", queue=queue), name))
    assert shown(state) == ["e0"]
    state.set_queues(
        [Queue("q", parse_queue_spec({"closed": True}), draining=True), Queue("default", parse_queue_spec({}))]
    )
    assert shown(state) == ["e1"]


def test_nothing_is_kept_of_elements_that_are_gone() -> None:
    state = state_with(node("n1"))
    for at in range(9):
        element(state, f"e{at}")
    assert shown(state) == ["e0", "e1"]
    for at in range(9):
        state.remove_pod(f"pod-e{at}-p")
        state.remove_job(f"e{at}")
    assert shown(state) == []
    assert not state.arrays._refused._lines
    assert not state.arrays._refused._where


STEPS = st.lists(
    st.tuples(st.sampled_from(["comes", "comes", "plans", "plans", "ends", "goes", "waits", "may"]), st.integers(0, 7)),
    max_size=40,
)


@given(STEPS, st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_never_do_more_run_than_may(steps: list[tuple[str, int]], most: int) -> None:
    """Against a count over all pods."""
    state = state_with(node("n1"))
    there: dict[str, str] = {}
    later: set[str] = set()
    for step, at in steps:
        name = f"e{at}"
        if step == "comes" and name not in there:
            element(state, name, f"sweep%{most}")
            there[name] = "Pending"
        elif step == "plans":
            waiting = sum(phase == "Pending" for each, phase in there.items() if each not in later)
            free = most - sum(phase == "Running" for phase in there.values())
            seen = shown(state)
            assert len(seen) == min(waiting, free)
            for each in started(state):
                state.upsert_pod(owned(pod(f"{each}-p", queue="q", node="n1", phase="Running"), each))
                there[each] = "Running"
        elif step == "ends" and there.get(name) == "Running":
            state.upsert_pod(owned(pod(f"{name}-p", queue="q", node="n1", phase="Succeeded"), name))
            there[name] = "Succeeded"
        elif step == "goes" and name in there:
            state.remove_pod(f"pod-{name}-p")
            state.remove_job(name)
            del there[name]
            later.discard(name)
        elif step == "waits" and there.get(name) == "Pending":
            waits(state, name, f"sweep%{most}", "2099-01-01T00:00:00Z")
            later.add(name)
        elif step == "may" and name in later:
            waits(state, name, f"sweep%{most}")
            later.discard(name)
