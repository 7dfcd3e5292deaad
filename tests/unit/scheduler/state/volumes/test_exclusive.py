"""Gangs whose members share claims that one pod at a time may use: which can never run whole, and what is told."""

import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model import names
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.volumes.claims import Claim, PersistentVolume
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with


def using(name: str, *claims: str, role: str = "", of: str = "g") -> object:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    made = pod(name, 1, group=of, volumes=volumes)
    made.metadata.labels[names.ROLE_LABEL] = role
    return made


def with_claims(*names_: str, mode: str = "ReadWriteOncePod") -> ClusterState:
    state = state_with(node("n1", 8))
    claim(state, *names_, mode=mode)
    return state


def claim(state: ClusterState, *names_: str, mode: str = "ReadWriteOncePod") -> None:
    for name in names_:
        spec = {"accessModes": [mode], "volumeName": name, "storageClassName": ""}
        made = {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": {"phase": "Bound"}}
        state.storage.upsert_volume(
            decoder(PersistentVolume)({"metadata": {"name": name}, "status": {"phase": "Bound"}})
        )
        state.storage.upsert_claim(decoder(Claim)(made))


def told(state: ClusterState) -> tuple[Reason, ...]:
    (found,) = [one for one in plan(state.view(NOW), Policy(), NOW).waiting if one.gang == "group-g"]
    return found.reasons


@pytest.mark.parametrize(
    ("least", "roles", "pods", "needs", "has"),
    [
        (2, (), [("a", "y"), ("b", "y")], {"members": 2}, {"members": 1}),
        (3, (), [("a", "y"), ("b", "y"), ("c",)], {"members": 3}, {"members": 2}),
        (4, (), [("a", "y"), ("b", "y"), ("c", "z"), ("d", "z", "y")], {"members": 4}, {"members": 2}),
        (3, (("w", 2),), [("a", "y", "w"), ("b", "y", "w"), ("c",), ("d",)], {"role:w": 2}, {"role:w": 1}),
    ],
)
def test_a_gang_that_can_never_run_whole_is_told_the_numbers(
    least: int,
    roles: tuple[tuple[str, int], ...],
    pods: list[tuple[str, ...]],
    needs: dict[str, int],
    has: dict[str, int],
) -> None:
    state = with_claims("y", "z")
    state.upsert_group(group("g", least, roles=[{"name": role, "minMember": count} for role, count in roles]))
    for name, *uses in pods:
        claims = [one for one in uses if one in ("y", "z")]
        state.upsert_pod(using(name, *claims, role="w" if "w" in uses else ""))
    assert decide(state) == []
    (reason,) = told(state)
    assert (reason.code, reason.needs, reason.has) == (Code.NEVER_FITS, needs, has)
    assert "'y'" in reason.message
    assert "volume claim of its own" in reason.unblocks[0]


def test_it_is_taken_back_when_a_pod_has_a_claim_of_its_own() -> None:
    state = with_claims("y", "z")
    state.upsert_group(group("g", 2))
    state.upsert_pod(using("a", "y"))
    state.upsert_pod(using("b", "y"))
    assert [one.code for one in told(state)] == [Code.NEVER_FITS]
    state.remove_pod("pod-b")
    assert [one.code for one in told(state)] == [Code.GANG_INCOMPLETE]
    state.upsert_pod(using("c", "z"))
    assert sorted(one.pod for one in decide(state)) == ["pod-a", "pod-c"]


def test_a_member_that_has_a_place_counts_though_its_claim_was_seen_later() -> None:
    state = with_claims()
    state.upsert_group(group("g", 2))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "y"}}]
    state.upsert_pod(pod("a", 1, group="g", node="n1", phase="Running", volumes=volumes))
    state.upsert_pod(using("b", "y"))
    claim(state, "y")
    assert [one.code for one in told(state)] == [Code.NEVER_FITS]


def test_of_a_gang_that_needs_fewer_the_first_starts() -> None:
    state = with_claims("y")
    state.upsert_group(group("g", 1))
    state.upsert_pod(using("a", "y"))
    state.upsert_pod(using("b", "y"))
    assert [one.pod for one in decide(state)] == ["pod-a"]


def test_a_claim_that_several_may_use_is_no_hindrance() -> None:
    state = with_claims("y", mode="ReadWriteMany")
    state.upsert_group(group("g", 2))
    state.upsert_pod(using("a", "y"))
    state.upsert_pod(using("b", "y"))
    assert len(decide(state)) == 2


def test_a_gang_whose_claim_another_pod_uses_waits_for_that() -> None:
    state = with_claims("y")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "y"}}]
    state.upsert_pod(pod("other", 1, queue="q", node="n1", phase="Running", volumes=volumes))
    state.upsert_group(group("g", 2))
    state.upsert_pod(using("a", "y"))
    state.upsert_pod(using("b"))
    assert [one.code for one in told(state)] == [Code.VOLUME_NOT_BOUND]
    assert "in use by another pod" in told(state)[0].message
