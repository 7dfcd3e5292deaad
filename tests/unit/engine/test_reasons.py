"""All reasons at once: a gang that waits for several things has a reason for each of them, with its numbers."""

from dataclasses import replace

import pytest

from t9ksched.engine.explain.excluded import TRIED_AGAIN
from t9ksched.engine.view import dump, load
from t9ksched.model.dra import ByDra, dra_only
from t9ksched.model.gang import Gang
from t9ksched.model.readiness import Unready
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.taints import Taint
from tests.builders import gang, node, pod_class, queue, running, view
from tests.unit.engine.deciding import codes, decide

FOUR = [node(f"n{at}", cpu=8, gpu=4) for at in range(4)]
FULL = [running(f"r{at}", "other", [f"n{at}"], cpu=6, gpu=4, cards=[15]) for at in range(4)]
GATED = Reason(Code.SCHEDULING_GATED, "a gate is closed")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (gang("a", cpu=4), ["QuotaExceeded", "InsufficientResources"]),
        (gang("a", cpu=2, pods=2), ["QuotaExceeded"]),
        (gang("a", cpu=9), ["QuotaExceeded", "NeverFits"]),
        (gang("a", cpu=4, selector={"pool": "x"}), ["QuotaExceeded", "NoNodeMatches"]),
        (gang("a", gpu=1, cpu=1), ["InsufficientResources"]),
        (
            gang("a", members=[*gang("b", gpu=1, cpu=1).waiting, *gang("c", cpu=4).waiting]),
            ["QuotaExceeded", "InsufficientResources", "InsufficientResources"],
        ),
        (gang("a", cpu=1, min_member=3, blocked=[GATED]), ["GangIncomplete", "SchedulingGated"]),
    ],
    ids=["quota and room", "quota", "quota, never", "quota, nowhere", "room", "each kind of pods", "members and gates"],
)
def test_every_failed_check_is_told(asked: Gang, expected: list[str]) -> None:
    queues = {"q": queue(quota={"cpu": 3}), "other": queue()}
    found = decide(view(FOUR, [asked], queues, running=FULL))
    assert codes(found) == {"a": expected}
    assert all(reason.message for entry in found.waiting for reason in entry.reasons)


def test_room_that_is_short_is_told_with_its_numbers() -> None:
    found = decide(view(FOUR, [gang("a", of=pod_class(cpu=1, gpu=2))], {"q": queue(), "other": queue()}, running=FULL))
    (reason,) = found.waiting[0].reasons
    assert reason.message == "needs 2 × nvidia.com/gpu on one node; 4 nodes match, best has 0 free"
    assert dict(reason.nodes) == {"match": 4, "fit": 0}


def test_idle_cards_that_are_cordoned_are_told_with_the_reason() -> None:
    cards = {"unusable": {"nvidia.com/gpu": 0b1001}}
    nodes = [replace(node("n0", gpu=4, **cards), why_cordoned={0: "fan", 3: ""}), FOUR[1], node("n2", gpu=4)]
    held = [running("r", "other", ["n0"], gpu=3, cards=[0b111]), running("s", "other", ["n1"], gpu=1, cards=[0b1])]
    asked = gang("a", of=pod_class(cpu=1, gpu=4), pods=2)
    (reason,) = decide(view(nodes, [asked], {"q": queue(), "other": queue()}, running=held)).waiting[0].reasons
    assert reason.message.endswith("3 nodes match, now with room for 1; 1/3 CardCordoned: card 3 of n0")
    assert dict(reason.nodes) == {"match": 3, "fit": 1, "CardCordoned": 1}
    assert "uncordon" in reason.unblocks[-1]
    nodes[1] = replace(node("n1", gpu=2, unusable={"nvidia.com/gpu": 0b1}), why_cordoned={0: "fan"})
    (reason,) = decide(view(nodes, [asked], {"q": queue(), "other": queue()}, running=held[:1])).waiting[0].reasons
    assert "2/3 CardCordoned: card 3 of n0; card 0 (fan) of n1" in reason.message


def test_gpus_that_are_not_ready_are_told_with_node_state_and_remedy() -> None:
    why = Unready("nvidia.com/mig.config.state=pending", "its MIG layout is being changed", "wait for the MIG manager")
    away = [replace(node(name, gpu=8), mode="NotReady", unready=why) for name in ("m0", "m1")]
    (reason,) = decide(view(away, [gang("a", of=pod_class(cpu=1, gpu=4))], {"q": queue()})).waiting[0].reasons
    assert reason.message == (
        "no node of 2 may run it: 2 have GPUs that are not ready:"
        " m0, m1 (nvidia.com/mig.config.state=pending: its MIG layout is being changed)"
    )
    assert reason.unblocks[:2] == ("m0: wait for the MIG manager", "m1: wait for the MIG manager")
    held = [running("r", "other", ["n0"], cpu=6, gpu=4, cards=[15])]
    nodes, queues = [FOUR[0], *away], {"q": queue(), "other": queue()}
    (reason,) = decide(view(nodes, [gang("a", cpu=1, gpu=1)], queues, running=held)).waiting[0].reasons
    assert "; 2 more have GPUs that are not ready: m0, m1 (nvidia.com/mig" in reason.message
    assert dict(reason.nodes) == {"match": 1, "fit": 0, "accelerators not ready": 2}
    found = decide(view(nodes, [gang("a", cpu=1)], queues, running=held))
    assert not found.waiting, "pods without GPUs are placed there"


@pytest.mark.parametrize("free", [0, 4])
def test_what_dra_hands_out_is_given_to_no_pod_and_told(free: int) -> None:
    by_dra = {"nvidia.com/gpu": ByDra("gpus", ("gpu.nvidia.com",))}
    # What a node offers counts for nothing where DRA hands out the resource.
    away = [replace(node(name, gpu=free, **{"amd.com/gpu": 4}), by_dra=by_dra) for name in ("d0", "d1")]
    given = view(away, [gang("a", of=pod_class(cpu=1, gpu=1))], {"q": queue()})
    (reason,) = decide(given).waiting[0].reasons
    assert decide(load(dump(given))).waiting[0].reasons == (reason,)
    words = "nvidia.com/gpu stands for devices of gpu.nvidia.com there (DeviceClass gpus)"
    assert (reason.code, reason.message) == (
        Code.NO_NODE_MATCHES,
        f"no node of 2 may run it: 2/2 DRA, not supported yet: d0, d1 ({words})",
    )
    assert dict(reason.nodes) == {"total": 2, "match": 0, "DRA, not supported yet": 2}
    assert "let a device plugin offer nvidia.com/gpu" in reason.unblocks[0]
    held = [running("r", "other", ["n0"], cpu=6, gpu=4, cards=[15])]
    nodes, queues = [FOUR[0], *away], {"q": queue(), "other": queue()}
    (reason,) = decide(view(nodes, [gang("a", cpu=1, gpu=1)], queues, running=held)).waiting[0].reasons
    assert f"1 node matches, best has 0 free; 2/3 DRA, not supported yet: d0, d1 ({words})" in reason.message
    assert dict(reason.nodes) == {"match": 1, "fit": 0, "DRA, not supported yet": 2}
    for asked in ({"cpu": 1}, {"amd.com/gpu": 4}):
        found = decide(view(nodes, [gang("a", **asked)], queues, running=held))
        assert not found.waiting, "what a device plugin offers there is given as ever"


def test_a_node_of_which_all_accelerators_are_handed_out_by_dra_is_told_once() -> None:
    by_dra = {"nvidia.com/gpu": ByDra("gpus", ("gpu.nvidia.com",))}
    nodes = [FOUR[0], replace(node("d"), by_dra=by_dra, mode="NotReady", unready=dra_only(by_dra))]
    held = [running("r", "other", ["n0"], cpu=6, gpu=4, cards=[15])]
    queues = {"q": queue(), "other": queue()}
    (reason,) = decide(view(nodes, [gang("a", gpu=1)], queues, running=held)).waiting[0].reasons
    assert reason.message.count("DRA, not supported yet") == 1
    assert "1/2 DRA, not supported yet: d (nvidia.com/gpu stands" in reason.message


def test_a_job_is_told_which_nodes_it_avoids() -> None:
    nodes = [*FOUR[:2], replace(FOUR[3], ready=False)]
    asked = replace(pod_class(gpu=4), avoided=("n0", "n1", "n3"))
    (reason,) = decide(view(nodes, [gang("a", of=asked)], {"q": queue()})).waiting[0].reasons
    assert reason.code is Code.NO_NODE_MATCHES
    assert reason.message.startswith(
        "no node of 3 may run it: 1 is not ready, 2 are avoided for two minutes after a pod of the job was rejected"
    )
    assert "n0, n1 (avoided: it rejected a pod of the job)" in reason.message
    assert (reason.nodes["avoided"], reason.nodes["match"]) == (2, 0)
    assert reason.unblocks[0] == TRIED_AGAIN


def test_cordoned_nodes_are_named_apart_from_tainted_ones() -> None:
    nodes = [
        node("cordoned", unschedulable=True, taints=[Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")]),
        node("tainted", taints=[Taint("team", "red", "NoSchedule")]),
        node("both", unschedulable=True, taints=[Taint("team", "red", "NoSchedule")]),
    ]
    (reason,) = decide(view(nodes, [gang("g")])).waiting[0].reasons
    assert "2 are cordoned (unschedulable), 1 has taints it does not tolerate" in reason.message
    assert reason.nodes == {"total": 3, "match": 0, "unschedulable": 2, "taints": 1}


@pytest.mark.parametrize(
    ("asked", "helps"),
    [
        ({"gpu": 9}, "ask for no more than one node has, or use more and smaller pods"),
        ({"amd.com/gpu": 1}, "a node with amd.com/gpu is added, or ask for what the nodes have"),
    ],
)
def test_what_helps_a_pod_that_no_node_could_take(asked: dict[str, int], helps: str) -> None:
    (reason,) = decide(view(FOUR, [gang("g", **asked)])).waiting[0].reasons
    assert (reason.code, reason.unblocks) == (Code.NEVER_FITS, (helps,))
