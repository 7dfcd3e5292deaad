"""The auditor: each kind of broken cluster gives its finding, and a sound one none."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.devcluster.audit.auditor import amount, audit, occupied

Object = dict[str, Any]
ASKED = "scheduler.tensorstack.dev/gpu-index-container-"
GIVEN = "devcluster.tensorstack.dev/cards-container-"


def node(name: str = "n", mode: str = "honours-index", **allocatable: str) -> Object:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "4", **allocatable}
    return {
        "metadata": {"name": name, "annotations": {"scheduler.tensorstack.dev/card-mode": mode}},
        "status": {"allocatable": amounts},
    }


def without_cards() -> Object:
    """A node that does not list any, as where DRA hands them out: pods that ask for some run there without."""
    made = node()
    del made["status"]["allocatable"]["nvidia.com/gpu"]
    return made


def container(name: str = "main", gpu: int = 0, **requests: str) -> Object:
    limits = {"nvidia.com/gpu": str(gpu)} if gpu else {}
    return {"name": name, "resources": {"requests": requests, "limits": limits}}


def pod(
    name: str,
    cards: str | None = None,
    gpu: int = 0,
    on: str = "n",
    phase: str = "Running",
    reason: str = "",
    given: str | None = None,
    group: str = "",
    role: str = "",
    containers: list[Object] | None = None,
    **spec: Any,
) -> Object:
    annotations = {}
    if cards is not None:
        annotations[ASKED + "main"] = cards
    if given is not None:
        annotations[GIVEN + "main"] = given
    labels = {"scheduler.tensorstack.dev/group-name": group} if group else {}
    if role:
        labels["scheduler.tensorstack.dev/role"] = role
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": annotations, "labels": labels},
        "spec": {"nodeName": on, "containers": containers or [container(gpu=gpu)], **spec},
        "status": {"phase": phase, "reason": reason},
    }


def podgroup(name: str, minimum: int, scheduled: bool = False, **roles: int) -> Object:
    conditions = [{"type": "GroupScheduled", "status": "True"}] if scheduled else []
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minMember": minimum, "roles": [{"name": r, "minMember": n} for r, n in roles.items()]},
        "status": {"conditions": conditions},
    }


def two_cards(first: str, second: str) -> Object:
    two = pod("two", containers=[container("a", 1), container("b", 1)])
    two["metadata"]["annotations"] = {ASKED + "a": first, ASKED + "b": second}
    return two


@pytest.mark.parametrize(
    ("nodes", "pods", "kinds"),
    [
        ([node()], [pod("a", "0,1", 2), pod("b", "2", 1)], []),
        ([node()], [pod("a", "0,1", 2), pod("b", "1,2", 2)], ["CardGivenTwice"]),
        ([node()], [pod("a", "0", 1), pod("b", "0", 1, phase="Pending")], ["CardGivenTwice"]),
        ([node()], [pod("a", "0", 1, phase="Succeeded"), pod("b", "0", 1)], []),
        ([node()], [pod("a", "0", 1, phase="Failed", reason="OutOfcpu"), pod("b", "0", 1)], []),
        ([node("n"), node("m")], [pod("a", "0", 1), pod("b", "0", 1, on="m")], []),
        ([node()], [pod("a", "0", 1), pod("foreign", gpu=1, given="0")], ["CardGivenTwice"]),
        ([node()], [pod("a", "0", 1, given="3"), pod("b", "0", 1)], []),
        ([node(mode="plugin-chooses")], [pod("a", "0", 1), pod("b", "0", 1)], []),
        ([node(mode="plugin-chooses")], [pod("a", "0", 1, given="1"), pod("b", "1", 1, given="1")], ["CardGivenTwice"]),
        ([node()], [two_cards("0", "0")], ["CardGivenTwice"]),
        ([node()], [two_cards("0", "1")], []),
        ([node()], [pod("a", "4", 1)], ["CardOutOfRange"]),
        ([node()], [pod("a", "0", 2)], ["CardCountMismatch"]),
        ([node()], [pod("a", "0,0", 2)], ["CardCountMismatch"]),
        ([node()], [pod("a", "0", 0)], ["CardCountMismatch"]),
        ([node()], [pod("a", "zero", 1)], ["CardsUnreadable"]),
        ([node()], [pod("a", "-1", 1)], ["CardsUnreadable"]),
        ([node()], [pod("a", gpu=3), pod("b", gpu=2)], ["OverAllocatable"]),
        ([without_cards()], [pod("a", gpu=1)], ["OverAllocatable"]),
        ([node(cpu="1")], [pod("a", containers=[container(cpu="600m")]), pod("b", containers=[container(cpu="0.6")])],
         ["OverAllocatable"]),
        ([node(pods="1")], [pod("a"), pod("b")], ["OverAllocatable"]),
        ([node()], [pod("a", containers=[container(**{"example.com/fpga": "1"})])], ["OverAllocatable"]),
        ([node()], [pod("a", on="gone")], ["NodeMissing"]),
        ([node()], [pod("a", on="")], []),
        ([node()], [pod("a", on="gone", phase="Succeeded")], []),
    ],
)  # fmt: skip
def test_table(nodes: list[Object], pods: list[Object], kinds: list[str]) -> None:
    report = audit(nodes, pods)
    assert [finding.kind for finding in report.findings] == kinds, str(report)
    assert report.cards_given_twice == kinds.count("CardGivenTwice")
    assert report.ok is not bool(kinds)


def test_a_finding_names_the_card_and_the_pods() -> None:
    (finding,) = audit([node()], [pod("a", "3", 1), pod("b", "3", 1)]).findings
    assert finding.pods == ("ns/a", "ns/b")
    assert finding.node == "n"
    assert "card 3 of nvidia.com/gpu" in finding.detail


def test_each_card_held_twice_counts() -> None:
    assert audit([node()], [pod("a", "0,1", 2), pod("b", "0,1", 2)]).cards_given_twice == 2


def test_an_init_container_may_reuse_its_own_pods_cards_but_no_others() -> None:
    both = pod("a", "0", 1, initContainers=[container("setup", 1)])
    both["metadata"]["annotations"][ASKED + "setup"] = "0"
    assert audit([node()], [both]).ok
    assert audit([node()], [both, pod("b", "0", 1)]).cards_given_twice == 1


def test_a_sidecar_may_not() -> None:
    both = pod("a", "0", 1, initContainers=[{**container("proxy", 1), "restartPolicy": "Always"}])
    both["metadata"]["annotations"][ASKED + "proxy"] = "0"
    assert audit([node()], [both]).cards_given_twice == 1


def test_cards_of_any_vendor_beside_other_devices() -> None:
    busy = pod("a", "0,1", containers=[container(**{"huawei.com/Ascend910": "2", "rdma/shared": "1"})])
    assert audit([node(**{"huawei.com/Ascend910": "2", "rdma/shared": "1"})], [busy]).ok
    odd = pod("a", "0,1", containers=[container(**{"example.com/chip": "2"})])
    assert audit([node(**{"example.com/chip": "2"})], [odd]).ok


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container(cpu="1"), container(cpu="500m")]}, "1.5"),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), container(cpu="2")]}, "3"),
        ({"containers": [container(cpu="1")],
          "initContainers": [{**container(cpu="1"), "restartPolicy": "Always"}, container(cpu="2")]}, "3"),
        ({"containers": [container(cpu="3")],
          "initContainers": [{**container(cpu="1"), "restartPolicy": "Always"}, container(cpu="2")]}, "4"),
        ({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, "1.25"),
        ({"containers": [{"name": "x", "resources": {"limits": {"cpu": "2"}}}]}, "2"),
    ],
)  # fmt: skip
def test_effective_requests(spec: Object, cpu: str) -> None:
    assert occupied(spec)["cpu"] == amount(cpu)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("1500m", 1.5), ("2Ki", 2048), ("1e3", 1000), ("0.5", 0.5), ("3k", 3000), ("1M", 10**6), ("x", 0)],
)
def test_amounts(text: str, value: float) -> None:
    assert amount(text) == value


@pytest.mark.parametrize(
    ("groups", "pods", "partial"),
    [
        ([podgroup("g", 2)], [], []),
        ([podgroup("g", 2)], [pod("a", group="g")], [("ns/g", 1, 2)]),
        ([podgroup("g", 2)], [pod("a", group="g"), pod("b", group="g")], []),
        ([podgroup("g", 2)], [pod("a", group="g"), pod("b", group="g", on="")], [("ns/g", 1, 2)]),
        ([podgroup("g", 2)], [pod("a", group="g"), pod("b", group="g", phase="Succeeded")], []),
        ([podgroup("g", 2)], [pod("a", group="g"), pod("b", group="g", phase="Failed", reason="Error")], []),
        ([podgroup("g", 2)], [pod("a", group="g"), pod("b", group="g", phase="Failed", reason="OutOfcpu")],
         [("ns/g", 1, 2)]),
        ([podgroup("g", 2, scheduled=True)], [pod("a", group="g")], []),
        ([podgroup("g", 2, lead=1)], [pod("a", group="g"), pod("b", group="g")], [("ns/g", 2, 2)]),
        ([podgroup("g", 2, lead=1)], [pod("a", group="g", role="lead"), pod("b", group="g")], []),
        ([podgroup("g", 2), podgroup("h", 1)], [pod("a", group="h")], []),
    ],
)  # fmt: skip
def test_partial_gangs(groups: list[Object], pods: list[Object], partial: list[tuple[str, int, int]]) -> None:
    report = audit([node()], pods, groups)
    assert [(gang.group, gang.placed, gang.minimum) for gang in report.partial_gangs] == partial
    assert report.ok is not bool(partial)


placements = st.lists(
    st.tuples(st.integers(0, 2), st.sets(st.integers(0, 7), min_size=1, max_size=4)), min_size=1, max_size=12
)


@given(placements)
def test_random_placements(chosen: list[tuple[int, set[int]]]) -> None:
    """Exactly the cards that two pods hold are reported, whatever the placement."""
    nodes = [node(f"n{i}", **{"nvidia.com/gpu": "8", "pods": "100"}) for i in range(3)]
    pods = [
        pod(f"p{number}", ",".join(map(str, sorted(cards))), len(cards), on=f"n{where}")
        for number, (where, cards) in enumerate(chosen)
    ]
    held: dict[tuple[int, int], int] = {}
    for where, cards in chosen:
        for card in cards:
            held[where, card] = held.get((where, card), 0) + 1
    report = audit(nodes, json.loads(json.dumps(pods)))
    twice = {
        (finding.node, finding.detail.split(" of ")[0])
        for finding in report.findings
        if finding.kind == "CardGivenTwice"
    }
    assert twice == {(f"n{where}", f"card {card}") for (where, card), count in held.items() if count > 1}
    over = {finding.node for finding in report.findings if finding.kind == "OverAllocatable"}
    sums = {where: sum(len(cards) for on, cards in chosen if on == where) for where, _ in chosen}
    assert over == {f"n{where}" for where, total in sums.items() if total > 8}
