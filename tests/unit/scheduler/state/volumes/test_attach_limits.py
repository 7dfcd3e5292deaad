"""Attach limits of nodes: a volume counts once on a node, however many of its pods use it."""

from collections.abc import Sequence

import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import dump, load
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.volumes import ATTACH_PREFIX, CsiNode
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.volumes.claims import Claim, PersistentVolume
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with

DRIVER = "d.example.com"
LIMIT = ATTACH_PREFIX + DRIVER


def limit(state: ClusterState, name: str, count: int) -> None:
    drivers = [{"name": DRIVER, "allocatable": {"count": count}}]
    state.storage.upsert_csi_node(decoder(CsiNode)({"metadata": {"name": name}, "spec": {"drivers": drivers}}))


def volume(state: ClusterState, name: str, handle: str = "") -> None:
    """A volume with its claim, of one name."""
    spec = {"csi": {"driver": DRIVER, "volumeHandle": handle or f"handle-{name}"}}
    phase = {"phase": "Bound"}
    state.storage.upsert_volume(decoder(PersistentVolume)({"metadata": {"name": name}, "spec": spec, "status": phase}))
    meta = {"name": name, "namespace": "ns"}
    wanted = {"volumeName": name, "storageClassName": "", "accessModes": ["ReadWriteMany"]}
    state.storage.upsert_claim(decoder(Claim)({"metadata": meta, "spec": wanted, "status": phase}))


def use(state: ClusterState, name: str, *volumes: str, group: str = "", on: str = "", phase: str = "Running") -> None:
    used = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in volumes]
    queue = "" if group else "q"
    phase = phase if on else "Pending"
    state.upsert_pod(pod(name, 0, group=group, queue=queue, node=on, phase=phase, volumes=used))


def cluster(count: int, *volumes: str) -> ClusterState:
    state = state_with(node("n1"))
    limit(state, "n1", count)
    for name in volumes:
        volume(state, name)
    return state


def attached(state: ClusterState) -> int:
    """How many the next plan finds attached."""
    for _ in state.changes.settling():
        pass
    return state.nodes.used("n1").get(LIMIT, 0)


def told(state: ClusterState, gang: str) -> Reason:
    (found,) = [one for one in plan(state.view(NOW), Policy(), NOW).waiting if one.gang == gang]
    return found.reasons[0]


@pytest.mark.parametrize(
    ("count", "runs", "asks", "starts"),
    [
        (2, [("a",), ("b",)], [("a",)], True),  # attached already
        (2, [("a",), ("b",)], [("c",)], False),
        (2, [("a",), ("a",)], [("b",)], True),  # one volume of two pods
        (1, [], [("a",), ("a",)], True),  # one for a whole gang
        (1, [], [("a",), ("b",)], False),
        (3, [("a",)], [("a", "b"), ("a", "c")], True),
        (2, [("a",)], [("a", "b"), ("a", "c")], False),
        (3, [("a",)], [("b", "c"), ("b", "c"), ("a",)], True),
        (1, [("a",), ("b",)], [("b",)], True),  # more are attached than may be by now
        (1, [("a",), ("b",)], [("c",)], False),
    ],
)
def test_a_volume_counts_once_on_a_node(
    count: int, runs: list[Sequence[str]], asks: list[Sequence[str]], starts: bool
) -> None:
    state = cluster(count, "a", "b", "c")
    for at, names in enumerate(runs):
        use(state, f"r{at}", *names, on="n1")
    state.upsert_group(group("g", len(asks)))
    for at, names in enumerate(asks):
        use(state, f"g{at}", *names, group="g")
    view = state.view(NOW)
    assert plan(load(dump(view)), Policy(), NOW).to_bytes() == plan(view, Policy(), NOW).to_bytes()
    assert len(decide(state)) == (len(asks) if starts else 0)
    there = {one for names in (*runs, *(asks if starts else ())) for one in names}
    assert attached(state) == len(there)


def test_a_volume_is_attached_until_its_last_pod_is_gone() -> None:
    state = cluster(1, "a", "b")
    use(state, "p0", "a", on="n1")
    use(state, "p1", "a", on="n1")
    use(state, "q", "b")
    state.remove_pod("pod-p0")
    assert (attached(state), decide(state)) == (1, [])
    use(state, "p1", "a", on="n1", phase="Succeeded")
    assert attached(state) == 0
    assert [one.pod for one in decide(state)] == ["pod-q"]


def test_what_is_not_attached_any_more_is_noticed_where_as_many_are() -> None:
    state = cluster(1, "a", "b")
    use(state, "p", "a", on="n1")
    use(state, "x", "b")
    use(state, "y", "b")
    assert decide(state) == []
    state.remove_pod("pod-p")
    use(state, "r", "b", on="n1")
    assert sorted(one.pod for one in decide(state)) == ["pod-x", "pod-y"]


def test_volumes_of_one_handle_are_one() -> None:
    state = cluster(1, "a")
    use(state, "p", "a", on="n1")
    volume(state, "again", "handle-a")
    use(state, "q", "again")
    assert [one.pod for one in decide(state)] == ["pod-q"]
    assert attached(state) == 1


def test_pods_that_run_are_counted_when_a_driver_gets_its_first_limit() -> None:
    state = state_with(node("n1"))
    volume(state, "a")
    volume(state, "b")
    use(state, "p", "a", on="n1")
    limit(state, "n1", 1)
    use(state, "q", "b")
    assert (attached(state), decide(state)) == (1, [])


def test_a_copy_knows_who_uses_a_volume() -> None:
    state = cluster(1, "a")
    use(state, "p", "a", on="n1")
    copy = state_with(node("n1"))
    copy.storage = state.storage.for_a_copy(
        copy.node_events.look_again, copy.node_events.limits_changed, copy.nodes.__contains__
    )
    use(copy, "q", "a")
    of = copy.pods["pod-q"].pod_class
    assert of is not None
    assert of.volumes == ((LIMIT, "handle-a"),)


def test_reasons_have_the_numbers() -> None:
    state = cluster(2, "a", "b", "c", "d")
    use(state, "r", "a", "b", on="n1")
    use(state, "x", "c", "d")
    use(state, "y", "c", "d")
    reason = told(state, "pod-x")
    assert (reason.code, reason.needs, reason.has) == (Code.INSUFFICIENT_RESOURCES, {LIMIT: 2}, {LIMIT: 0})
    assert f"can attach 2 more volumes of {DRIVER}" in reason.message
    assert reason.unblocks == (f"pods end that use other volumes of {DRIVER} on one node",)
    for name in ("x", "y"):
        state.remove_pod(f"pod-{name}")
        use(state, f"{name}2", "a", "c", "d")
    reason = told(state, "pod-x2")
    assert (reason.code, reason.needs, reason.has) == (Code.NEVER_FITS, {LIMIT: 3}, {LIMIT: 2})
