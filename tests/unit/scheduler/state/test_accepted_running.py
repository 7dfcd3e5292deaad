"""What runs when a scheduler starts is accepted as it is: of most jobs users see nothing new, and nothing is told."""

import random
from typing import Any

from t9ksched.admission.access import Members
from t9ksched.model import names
from t9ksched.scheduler.report.job_shape import job_view
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.state.edits import ignored
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from tests.unit.scheduler.state.test_start_times import owned
from tests.unit.scheduler.state.test_state import NOW, group, node, pod, state_with


def _seen(state: ClusterState) -> dict[str, tuple[Any, ...]]:
    """What users see of each job, and which of its edits count for nothing."""
    found = {}
    for gang in state.gangs_by_uid.values():
        uid = gang.owner.uid if gang.owner is not None else gang.uid
        view = observed_job(state, uid)
        assert view is not None
        found[uid] = job_view(view, state), tuple(map(ignored, view.gangs))
    return found


def _some_job(state: ClusterState, rng: random.Random, name: str) -> None:
    queue, phase = rng.choice(("", "q", "small", "nobody")), rng.choice(("Running", "Pending", "Succeeded"))
    what = rng.choice(("pod", "pod", "submitted", "limited", "relabelled", "owned", "claimed", "group"))
    made = pod(name, rng.choice((0, 1)), queue=queue, node="n1", phase=phase, group=name if what == "group" else "")
    made.status.start_time = "2026-01-01T00:00:00Z" if phase != "Pending" else None
    if what == "submitted":
        space = rng.choice(("ns", "other"))
        state.accept(Acceptance(uid=made.metadata.uid, kind="Pod", namespace=space, name=name, submitter="ann"))
    elif what == "limited":
        made.metadata.annotations = {names.TIME_LIMIT_ANNOTATION: rng.choice(("1h", "9h", "rubbish"))}
    elif what == "owned":
        owned(made, f"job-{name}")
    elif what == "group":
        state.upsert_group(group(name, 1, queue=queue or "q", priority=rng.choice((0, 9))))
    state.upsert_pod(made)
    if what == "relabelled":
        made.metadata.labels = {names.QUEUE_LABEL: "q"}
        state.upsert_pod(made)
    elif what == "claimed":
        state.upsert_pod(owned(made, f"job-{name}"))


def test_each_job_of_which_users_see_something_new_is_told() -> None:
    changed: set[str] = set()
    for seed in range(30):
        rng = random.Random(f"running {seed}")
        state = state_with(node(gpus=64), queues={"q": {}, "default": {}, "small": {"maxDuration": "2h"}, "nobody": {}})
        state.permit(dict.fromkeys(("q", "default", "small"), Members(everyone=True, max_priority=5)))
        for count in range(12):
            _some_job(state, rng, f"p{count}")
        state.settle()
        jobs, before = state.feed.jobs.follow(), _seen(state)
        jobs.take()
        while state.accept_running(NOW):
            pass
        after, told = _seen(state), set(jobs.take())
        changed |= (now := {uid for uid in before if after[uid] != before[uid]})
        assert now <= told
    assert changed


def test_a_pod_with_a_limit_is_told_because_its_clock_has_one_from_now_on() -> None:
    state = state_with(node(gpus=8))
    made = pod("a", node="n1", phase="Running")
    made.metadata.annotations = {names.TIME_LIMIT_ANNOTATION: "1h"}
    state.upsert_pod(made)
    state.settle()
    jobs = state.feed.jobs.follow()
    jobs.take()
    while state.accept_running(NOW):
        pass
    assert jobs.take() == ["pod-a"]


def test_plain_pods_that_run_are_not_told_again_because_they_are_on_record_now() -> None:
    state = state_with(node(gpus=8))
    for name in "abc":
        state.upsert_pod(pod(name, node="n1", phase="Running"))
    state.settle()
    jobs = state.feed.jobs.follow()
    assert jobs.take() == ["pod-a", "pod-b", "pod-c"]
    while state.accept_running(NOW):
        pass
    assert state.acceptances.keys() == {"pod-a", "pod-b", "pod-c"}
    assert state.feed.owners.follow().take() == ["pod-a", "pod-b", "pod-c"]
    assert jobs.take() == []
