"""Which nodes are allowed, which is chosen, and which cards of it, as tables."""

from dataclasses import replace

import pytest

from t9ksched.engine.placement.scores import Scores
from t9ksched.engine.policy import Binpack, Policy
from t9ksched.engine.view import View
from t9ksched.model.cards import CardGrant, WholeCards
from t9ksched.model.gang import Gang
from t9ksched.model.labels import NodeSelector
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import HostPort, SharedVolume
from t9ksched.model.reasons import Code
from t9ksched.model.taints import Toleration
from t9ksched.model.volumes import ATTACH_PREFIX
from tests.builders import GPU, gang, node, pod_class, queue, table, view
from tests.unit.engine.deciding import A100, FOUR, POOL, decide, indices, starts, where

# --- nodes


def at_names(*names: str) -> NodeSelector:
    return NodeSelector.parse(
        [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    )


@pytest.mark.parametrize(
    ("more", "possible"),
    [
        ({}, {"a0", "b0"}),
        ({"selector": A100}, {"a0"}),
        ({"tolerations": [Toleration("team", "Equal", "red")]}, {"a0", "a1", "b0"}),
        ({"tolerations": [Toleration("team", "Equal", "blue")]}, {"a0", "b0"}),
        ({"tolerations": [Toleration("", "Exists")]}, {"a0", "a1", "a2", "b0"}),
        ({"affinity": at_names("b0", "a3")}, {"b0"}),
        (
            {
                "affinity": NodeSelector.parse(
                    [{"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["5"]}]}]
                )
            },
            {"a0"},
        ),
        ({"volumes": [at_names("a0", "b0"), at_names("b0")]}, {"b0"}),
        ({"selector": {"none": "such"}}, set()),
    ],
    ids=["any", "selector", "tolerated", "other toleration", "tolerates all", "names", "Gt", "volumes", "none"],
)
def test_which_nodes_are_allowed(more: dict[str, object], possible: set[str]) -> None:
    of = pod_class(gpu=4, **more)  # type: ignore[arg-type]
    gangs = [gang(f"g{at}", of=of) for at in range(len(POOL))]
    assert set(where(decide(view(POOL, gangs))).values()) == possible


def test_the_queue_selects_nodes_too() -> None:
    gangs = [gang("g", pods=2, gpu=4)]
    found = decide(view(POOL, gangs, {"q": queue(selector=A100)}))
    (reason,) = found.waiting[0].reasons
    assert reason.code is Code.INSUFFICIENT_RESOURCES
    assert (reason.needs, reason.has) == ({"members": 2}, {"members": 1})
    assert reason.nodes == {"match": 1, "fit": 1, "not ready": 2, "unschedulable": 1}


@pytest.mark.parametrize(
    ("facts", "of", "pods", "fit"),
    [
        (node("n", pods=2), pod_class(), 3, 2),
        (node("n"), pod_class(ports=[80]), 2, 1),
        (node("n", **{"example.com/fpga": 3}), pod_class(**{"example.com/fpga": 2}), 2, 1),
        (node("n", cpu="1500m"), pod_class(cpu="500m"), 4, 3),
        (node("n", gpu=4, unusable={GPU: 0b0101}), pod_class(gpu=1), 4, 2),
    ],
    ids=["pod slots", "host port", "extended resource", "millicores", "cordoned cards"],
)
def test_what_a_node_has_room_for(facts: NodeFacts, of: object, pods: int, fit: int) -> None:
    gangs = [gang("g", pods=pods, min_member=1, of=of)]  # type: ignore[arg-type]
    assert len(decide(view([facts], gangs)).assignments) == fit


def test_host_ports_conflict_by_address() -> None:
    def at(ip: str) -> Gang:
        return gang(f"on-{ip}", of=pod_class(ports=[HostPort(80, "TCP", ip)]))

    found = decide(view([node("n")], [at("10.0.0.1"), at("10.0.0.2"), at("0.0.0.0")]))
    assert starts(found) == ["on-10.0.0.1", "on-10.0.0.2"]
    assert found.waiting[0].reasons[0].message == "its host ports are taken wherever it would fit; 1 node matches"


# --- scores


def half_full() -> View:
    live = table([node("full", gpu=8), node("half", gpu=8), node("empty", gpu=8)])
    live.charge(live.row("full"), pod_class(gpu=8), CardGrant.packed({GPU: 255}))
    live.charge(live.row("half"), pod_class(gpu=4), CardGrant.packed({GPU: 0b00110011}))
    return view(live, [gang("g", pods=5, min_member=5, gpu=1)])


@pytest.mark.parametrize(
    ("binpack", "expected"),
    [
        (Binpack(), ["half", "half", "half", "half", "empty"]),
        (Binpack("LeastAllocated"), ["empty", "empty", "empty", "empty", "half"]),
        (None, ["empty", "empty", "empty", "empty", "empty"]),
    ],
    ids=["MostAllocated", "LeastAllocated", "off: first by name"],
)
def test_node_choice(binpack: Binpack | None, expected: list[str]) -> None:
    found = decide(half_full(), Policy(binpack=binpack))
    assert [one.node for one in found.assignments] == expected


def test_binpack_that_is_never_off_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Scores.__init__
    monkeypatch.setattr(Scores, "__init__", lambda self, static, policy: made(self, static, policy or Binpack()))
    with pytest.raises(AssertionError):
        test_node_choice(None, ["empty"] * 5)


def test_weights_decide_between_resources() -> None:
    live = table([node("cpu-busy", cpu=10, memory="100Gi"), node("mem-busy", cpu=10, memory="100Gi")])
    live.charge(live.row("cpu-busy"), pod_class(cpu=6, memory="10Gi"))
    live.charge(live.row("mem-busy"), pod_class(cpu=1, memory="50Gi"))
    for weights, expected in (
        ((("cpu", 1), ("memory", 1)), "cpu-busy"),
        ((("cpu", 1), ("memory", 2)), "mem-busy"),
        ((("cpu", 0),), "mem-busy"),
    ):
        found = decide(view(live, [gang("g")]), Policy(binpack=Binpack(resources=weights)))
        assert where(found) == {"g-0": expected}, weights


def test_ties_go_to_the_first_by_name_whatever_the_order_of_events() -> None:
    for names in (["b", "a", "c"], ["c", "b", "a"]):
        assert where(decide(view([node(name, gpu=1) for name in names], [gang("g", gpu=1)]))) == {"g-0": "a"}


def test_large_gangs_choose_the_same_nodes_as_small_ones() -> None:
    nodes = [node(f"n{at:03}", gpu=8) for at in range(60)]
    live = table(nodes)
    for at in range(0, 60, 3):
        live.charge(at, pod_class(gpu=1 + at % 7), CardGrant.packed({GPU: (1 << (1 + at % 7)) - 1}))
    one = decide(view(live, [gang("g", pods=200, gpu=1)]))
    many = decide(view(live, [gang(f"g{at:03}", gpu=1, created=at) for at in range(200)]))
    assert [(a.node, a.grant.masks) for a in one.assignments] == [(a.node, a.grant.masks) for a in many.assignments]


# --- cards


def test_cards_are_the_lowest_free_ones() -> None:
    found = decide(half_full())
    assert indices(found) == {"g-0": (2,), "g-1": (3,), "g-2": (6,), "g-3": (7,), "g-4": (0,)}


def test_cards_of_a_container_by_container() -> None:
    of = replace(
        pod_class(gpu=4),
        cards=(
            WholeCards("train", GPU, 2),
            WholeCards("eval", GPU, 1),
            WholeCards("check", GPU, 3, "init"),
            WholeCards("log", GPU, 1, "sidecar"),
        ),
    )
    (one,) = decide(view(FOUR, [gang("g", of=of)])).assignments
    assert one.grant.masks == ((GPU, 0b1111),)
    assert one.cards == (
        ("train", GPU, (0, 1)),
        ("eval", GPU, (2,)),
        ("check", GPU, (0, 1, 2)),
        ("log", GPU, (3,)),
    )


@pytest.mark.parametrize(("cordoned", "fit"), [(0, 2), (0b1, 1), (0b11, 0)])
def test_a_pod_whose_cards_are_not_known_may_sit_on_any(cordoned: int, fit: int) -> None:
    live = table([node("n", gpu=4, unusable={GPU: cordoned})])
    live.charge(live.row("n"), pod_class(gpu=2))
    assert len(decide(view(live, [gang(f"g{at}", gpu=1) for at in range(4)])).assignments) == fit


def test_volumes_are_counted_of_however_many_drivers_that_the_node_does_not_name() -> None:
    live = table([node("n0")])
    limits = [f"{ATTACH_PREFIX}d{at}.example.com" for at in range(20)]
    of = replace(pod_class(), volumes=tuple(SharedVolume(limit, "v") for limit in limits))
    for _ in range(2):
        live.charge(live.row("n0"), of)
        assert {name: live.used("n0").get(name) for name in limits} == dict.fromkeys(limits, 1)
    for _ in range(2):
        live.discharge(live.row("n0"), of)
    assert not live.used("n0")
