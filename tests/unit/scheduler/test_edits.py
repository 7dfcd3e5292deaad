"""Edits after acceptance do not count, and are told: once as an event, and in the explanation."""

from typing import Any

import pytest

from t9ksched.model import names
from t9ksched.scheduler.edits import ignored
from t9ksched.scheduler.explaining import explanation
from t9ksched.scheduler.shapes import job_view
from tests.unit.scheduler.test_state import decide, group, pod, state_with


def relabelled(made: Any, **labels: str) -> Any:
    more = {f"{names.SCHEDULER_GROUP}/{key}": value for key, value in labels.items()}
    made.metadata.labels = made.metadata.labels | more
    return made


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda: relabelled(pod("p", queue="q"), queue="other"), "it was accepted in 'q' and stays there"),
        (lambda: relabelled(pod("p", queue="q"), **{"group-name": "g"}), "came without a group and stays alone"),
    ],
)
async def test_labels_of_a_pod(change: Any, told: str) -> None:
    state = state_with(queues={"q": {}, "other": {}})
    state.upsert_pod(pod("p", 9, queue="q"))
    decide(state)
    gang = state.gangs_by_uid["pod-p"]
    assert ignored(gang) == ()
    state.changed_jobs.clear()
    state.upsert_pod(change())
    (text,) = ignored(gang)
    assert told in text
    assert "pod-p" in state.changed_jobs, "or no event would be written"
    assert gang.queue == "q"
    view = job_view(state, "pod-p")
    assert view is not None
    assert [one["message"] for one in (await explanation(view, state))["warnings"]] == [text]


def test_a_group_and_its_members() -> None:
    state = state_with(queues={"q": {}, "other": {}})
    state.upsert_group(group("g", 2, priority=3))
    state.upsert_pod(relabelled(pod("a", group="g"), role="worker"))
    state.upsert_pod(relabelled(pod("b", group="g"), queue="other"))
    decide(state)
    gang = state.gangs_by_uid["group-g"]
    (text,) = ignored(gang)
    assert "its group g is in queue 'q': the group's counts" in text
    state.upsert_group(group("g", 2, queue="other", priority=9))
    state.upsert_pod(relabelled(pod("a", group="g"), role="ps"))
    state.upsert_pod(relabelled(pod("b", group="g"), **{"group-name": "h"}))
    found = ignored(gang)
    assert [text.split(":")[0] for text in found] == [
        "the PodGroup g names queue 'other'",
        "the PodGroup g asks for priority 9",
        f"the label {names.ROLE_LABEL} of pod a says 'ps'",
        f"the label {names.GROUP_LABEL} of pod b says 'h'",
    ]
    assert (gang.queue, gang.priority) == ("q", 3)


def test_after_a_restart_a_pod_is_still_in_the_group_that_it_was_accepted_with() -> None:
    before = state_with()
    before.upsert_pod(pod("p", queue="q"))
    decide(before)
    state = state_with()
    state.accept(before.acceptances["pod-p"])
    state.upsert_group(group("g", 1))
    state.upsert_pod(relabelled(pod("p", queue="q"), **{"group-name": "g"}))
    assert state.gangs_by_uid["pod-p"].virtual
