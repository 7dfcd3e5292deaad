"""What managers decided about a job counts for what runs as for what waits, also for a scheduler that starts."""

from t9ksched.kube.resources import DEPLOYMENTS, REPLICASETS
from t9ksched.scheduler.report.job_shape import job_shape
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.job_overrides import JobControl
from tests.unit.scheduler.state.test_lastgate import owned, replicated
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with


def arrive(state: ClusterState, *, where: str = "") -> None:
    """A PodGroup with one member, a single pod, and a pod of a Deployment, before its owners are seen."""
    phase = "Running" if where else "Pending"
    state.upsert_group(group("g", 1, priority=3))
    state.upsert_pod(pod("g-0", group="g", node=where, phase=phase))
    state.upsert_pod(pod("p", queue="q", node=where, phase=phase))
    state.upsert_pod(owned(pod("w", queue="q", node=where, phase=phase), "ReplicaSet", "web-1"))
    state.settle()
    state.owners.upsert_replicated(replicated("ReplicaSet", "web-1", 1, "web"), REPLICASETS)
    state.owners.upsert_replicated(replicated("Deployment", "web", 1), DEPLOYMENTS)
    state.settle()


def priorities(state: ClusterState) -> list[int]:
    found = []
    for uid in ("group-g", "pod-p", "web-1"):
        view = observed_job(state, uid)
        assert view is not None
        (gang,) = view.gangs
        found.append(gang.priority)
        assert job_shape(view, state)["priority"] == gang.priority
    return found


DECIDED = {uid: JobControl(uid, priority=10) for uid in ("group-g", "pod-p", "web")}


def test_a_priority_given_while_a_job_waited_is_that_of_what_runs() -> None:
    state = state_with(node("n1"))
    state.direct(DECIDED)
    arrive(state)
    state.view(NOW)
    decide(state)
    assert priorities(state) == [10, 10, 10]


def test_a_scheduler_that_starts_finds_the_priorities_that_what_runs_was_given() -> None:
    state = state_with(node("n1"))
    state.direct(DECIDED)
    arrive(state, where="n1")
    assert priorities(state) == [10, 10, 10]
    state.direct({})
    state.settle()
    assert priorities(state) == [3, 0, 0]
    state.direct(DECIDED)
    state.settle()
    assert priorities(state) == [10, 10, 10]
