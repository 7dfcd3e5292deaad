"""Models and kinds of cards as constraints of nodes: where pods go, and what those that wait are told."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from t9ksched.engine.plan import Plan
from t9ksched.model.card_size import CardSize
from t9ksched.model.card_table import CardTable
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.cards import SharedCards, WholeCards
from t9ksched.model.gang import Gang
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.reserved_room import ReservedRoom
from tests.ahead import HOUR, Pool
from tests.builders import GPU, divided_node, gang, member, node, pod_class, queue, shared_class, view
from tests.unit.engine.deciding import NOW, codes, decide, starts

PRODUCT = "nvidia.com/gpu.product"
A100, A40 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-A40"


def of(name: str, mode: str = "Whole", product: str = A100, gpu: int = 8) -> NodeFacts:
    made = replace(node(name, gpu=gpu, labels={PRODUCT: product}), mode=mode)
    return made if mode == "Whole" else replace(made, cards=CardTable())


def asks(gpu: int = 1, *, models: Any = (), mode: str = "", **more: Any) -> PodClass:
    made = pod_class(cpu=1, gpu=gpu, **more)
    return replace(made, choice=CardChoice(models, mode)) if models or mode else made


MIXED = [of("whole"), of("mig", "MIGSingle", f"{A100}-MIG-1g.10gb"), of("sliced", "TimeSliced", f"{A100}-SHARED")]


def allowed(pod: PodClass, nodes: list[NodeFacts], **spec: Any) -> set[str]:
    """The nodes on which the pod starts when it is alone there."""
    return {
        one.name for one in nodes if starts(decide(view([one], [gang("a", of=pod)], {"q": queue(**spec)}))) == ["a"]
    }


@pytest.mark.parametrize(
    ("pod", "nodes"),
    [
        (asks(), {"whole"}),
        (asks(mode="whole"), {"whole"}),
        (asks(mode="slice"), {"mig"}),
        (asks(mode="shared"), {"sliced"}),
        (asks(mode="any"), {"whole", "mig", "sliced"}),
        (asks(selector={PRODUCT: f"{A100}-MIG-1g.10gb"}), {"mig"}),
        (asks(selector={PRODUCT: f"{A100}-SHARED"}), {"sliced"}),
        (asks(models=(("A100",),)), {"whole"}),
        (asks(models=(("A100", "H100"),), mode="any"), {"whole", "mig", "sliced"}),
        (asks(models=(("A100",), ("H100",)), mode="any"), set()),
        (asks(models=(("A10",),), mode="any"), set()),
        (pod_class(cpu=1), {"whole", "mig", "sliced"}),
    ],
)
def test_where_a_pod_may_run(pod: PodClass, nodes: set[str]) -> None:
    assert allowed(pod, MIXED) == nodes


def test_parts_of_cards_get_whole_ones_that_are_large_enough_where_cards_are_not_divided() -> None:
    memory = "nvidia.com/gpu.memory"
    small, large = (replace(of(name), labels={memory: size}) for name, size in (("small", "40960"), ("large", "81920")))
    unknown, hami = of("unknown"), replace(of("hami"), mode="HAMi", layout="HAMi", labels={memory: "81920"})
    nodes = [small, large, unknown, hami, divided_node("divided", 2, memory=60_000)]
    assert allowed(shared_class(300, 50_000), nodes) == {"large", "divided"}
    assert allowed(shared_class(300, 30_000), nodes) == {"small", "large", "divided"}
    assert allowed(shared_class(300, percent=30), nodes) == {"small", "large", "unknown", "divided"}
    assert allowed(shared_class(0, 70_000), nodes) == {"large"}
    waits = decide(view([small, hami], [gang("a", of=shared_class(300, 50_000))], {"q": queue()})).waiting[0]
    assert "1 divides cards by a system, or a mode of one, that this scheduler does not use" in waits.reasons[0].message
    assert (
        "8/8 CardInsufficientMemory: the pod asks for 50000 MiB of a card, the largest has" in waits.reasons[0].message
    )


def test_parts_of_mgpu_go_where_cores_are_shared_as_they_ask() -> None:
    label, core = "vke.volcengine.com/mgpu-compute-policy", "vke.volcengine.com/mgpu-core"
    sizes = CardTable({core: 1}, divided={core: (CardSize(1000, 16),)})
    plain = replace(node("plain", **{core: 100}), cards=sizes, mode="MGPU", layout="MGPU")
    burst = replace(plain, name="burst", labels={label: "native-burst-share"})
    fixed = replace(plain, name="fixed", labels={label: "fixed-share"})
    nodes = [plain, burst, fixed]
    part = replace(pod_class(cpu=1, **{core: 30}), cards=(SharedCards("main", core, 1, cores=300, memory=256),))
    whole = replace(pod_class(cpu=1, **{core: 100}), cards=(WholeCards("main", core, 1),))
    assert allowed(part, nodes) == {"plain", "fixed"}
    assert allowed(replace(part, choice=CardChoice(policy="native-burst-share")), nodes) == {"burst"}
    assert allowed(whole, nodes) == {"plain", "burst", "fixed"}
    waits = decide(view([burst], [gang("a", of=part)], {"q": queue()})).waiting[0]
    assert (
        "1 shares the cores of a card by another compute policy: native-burst-share, and the pod takes fixed-share"
        in waits.reasons[0].message
    )


def test_a_queue_admits_by_its_selector() -> None:
    labels = {"nvidia.com/device-plugin.config": "x", "pool": "x"}
    nodes = [replace(one, labels={**one.labels, **labels}) for one in MIXED]
    assert allowed(asks(), nodes, selector={"nvidia.com/device-plugin.config": "x"}) == {"whole", "mig", "sliced"}
    assert allowed(asks(mode="whole"), nodes, selector={"nvidia.com/device-plugin.config": "x"}) == {"whole"}
    assert allowed(asks(), nodes, selector={"pool": "x"}) == {"whole"}


def test_more_than_one_is_not_placed_where_it_is_refused() -> None:
    mps, sliced = of("mps", "MPS", f"{A100}-SHARED"), MIXED[2]
    assert allowed(asks(1, mode="any"), [mps, sliced]) == {"mps", "sliced"}
    assert allowed(asks(2, mode="any"), [mps, sliced]) == {"sliced"}
    two = replace(asks(2, mode="any"), cards=(WholeCards("a", GPU, 1), WholeCards("b", GPU, 1)))
    assert allowed(two, [mps, sliced]) == {"mps", "sliced"}, "one for each container"
    found = decide(view([mps], [gang("a", of=asks(2, mode="any"))], {"q": queue()}))
    (reason,) = found.waiting[0].reasons
    assert reason.message == (
        "no node of 1 may run it: 1 shares cards by MPS, which fails a container that asks for more than one"
    )
    shared = "nvidia.com/gpu.shared"
    offers = replace(sliced, allocatable={**sliced.allocatable, shared: 8})
    pod = replace(pod_class(cpu=1), requests=(("cpu", 1000), (shared, 2), ("pods", 1)))
    by_mps = replace(mps, allocatable=offers.allocatable)
    assert allowed(replace(pod, choice=CardChoice(crowded=True)), [offers, by_mps]) == {"sliced"}
    assert allowed(pod, [offers, by_mps]) == {"sliced", "mps"}
    found = decide(view([by_mps, node("bare")], [gang("a", of=replace(pod, choice=CardChoice(crowded=True)))]))
    assert "1 has no nvidia.com/gpu.shared, 1 shares cards by MPS, which fails" in found.waiting[0].reasons[0].message


def shares(name: str, mode: str, **labels: str) -> NodeFacts:
    return replace(of(name, mode), labels={f"nvidia.com/{key.replace('_', '.')}": text for key, text in labels.items()})


A10 = {"gpu_memory": "24564", "gpu_replicas": "4"}


@pytest.mark.parametrize(
    ("pod", "nodes"),
    [
        # A client of MPS has its part of the memory and of the cores, a time slice of the cores; a slice its profile's.
        (shared_class(0, 6141), {"mps", "sliced", "whole"}),
        (shared_class(0, 6142), {"sliced", "whole"}),
        (shared_class(0, 24565), set()),
        (shared_class(0, 4864), {"mps", "sliced", "whole", "slice"}),
        (shared_class(140, 100), {"mps", "sliced", "whole", "slice"}),
        (shared_class(150, 100), {"mps", "sliced", "whole"}),
        (shared_class(250, 100), {"mps", "sliced", "whole"}),
        (shared_class(260, 100), {"whole"}),
        (shared_class(1000, percent=100), {"whole"}),
        (shared_class(0, percent=14), {"mps", "sliced", "whole", "slice"}),
        (shared_class(0, percent=25), {"mps", "sliced", "whole"}),
        (shared_class(0, percent=26), {"sliced", "whole"}),
    ],
)
def test_what_a_pod_says_of_cores_and_memory_holds_for_one_unit(pod: PodClass, nodes: set[str]) -> None:
    them = [
        shares("mps", "MPS", **A10),
        shares("sliced", "TimeSliced", **A10),
        shares("slice", "MIGSingle", gpu_product="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", gpu_memory="4864"),
        shares("whole", "Whole", gpu_memory="24564"),
        shares("unknown", "MPS", gpu_memory="24564"),
        shares("turns", "TimeSliced", gpu_memory="100"),
    ]
    least = pod.least_unit
    assert least is not None
    unsaid = {"turns"} if not least.cores and least.memory <= 100 else set()
    assert allowed(replace(pod, choice=CardChoice(mode="any")), them) == nodes | unsaid


def test_one_unit_that_is_too_small_is_told() -> None:
    pod = replace(shared_class(500, 10_000), choice=CardChoice(mode="shared"))
    waits = decide(view([shares("mps", "MPS", **A10)], [gang("a", of=pod)], {"q": queue()})).waiting[0]
    assert (
        "8/8 CardInsufficientCore: the pod asks for 50 % of the cores of a card, the largest has 25 %"
        in waits.reasons[0].message
    )
    pod = replace(shared_class(200, 10_000), choice=CardChoice(mode="shared"))
    waits = decide(view([shares("mps", "MPS", **A10)], [gang("a", of=pod)], {"q": queue()})).waiting[0]
    assert (
        "8/8 CardInsufficientMemory: the pod asks for 10000 MiB of a card, the largest has 6141 MiB"
        in waits.reasons[0].message
    )


def test_a_part_of_no_number_of_cards_is_of_one_card_of_hami() -> None:
    pod = replace(shared_class(0, 1000), cards=(SharedCards("main", GPU, 1, memory=1000, implied=True),))
    hami = replace(divided_node("hami", 1), mode="HAMi", layout="HAMi")
    nodes = [hami, shares("whole", "Whole", gpu_memory="24564"), node("bare")]
    assert allowed(pod, nodes) == {"hami"}
    waits = decide(view(nodes[1:], [gang("a", of=pod)], {"q": queue()})).waiting[0]
    assert "1 does not use HAMi: elsewhere a container gets no card" in waits.reasons[0].message


def test_the_reason_counts_and_says_what_would_do() -> None:
    nodes = [*MIXED[1:], of("other", product=A40), node("cpu")]
    found = decide(view(nodes, [gang("a", of=asks(models=(("A100",),)))], {"q": queue()}))
    assert codes(found) == {"a": ["CardTypeMismatch"]}
    (reason,) = found.waiting[0].reasons
    assert reason.message == (
        "no node of 4 may run it: 1 has no nvidia.com/gpu, 1/3 CardTypeMismatch: the pod asks for A100,"
        " 1 have NVIDIA-A40, 2/2 CardTypeMismatch: the pod takes whole cards, 1 have MIG slices (MIGSingle),"
        " 1 have shared cards (TimeSliced)"
    )
    assert (reason.nodes["CardTypeMismatch"], reason.nodes["resources"]) == (3, 1)
    assert reason.unblocks[:2] == (
        "ask for another model (scheduler.tensorstack.dev/gpu-model)",
        "allow it by the annotation scheduler.tensorstack.dev/gpu-mode: shared|slice|any, or select nodes by a label"
        " that says so, such as nvidia.com/gpu.product",
    )


def test_nodes_of_other_kinds_are_told_beside_those_that_are_full() -> None:
    nodes = [of("small", gpu=1), *MIXED[1:], of("other", product=A40, gpu=4)]
    found = decide(view(nodes, [gang("a", of=asks(2, models=(("A100",),)))], {"q": queue()}))
    (reason,) = found.waiting[0].reasons
    assert str(reason.code) == "NeverFits"
    assert reason.message.endswith(
        "; 1/4 CardTypeMismatch: the pod asks for A100, 1 have NVIDIA-A40; 2/3 CardTypeMismatch: the pod takes whole"
        " cards, 1 have MIG slices (MIGSingle), 1 have shared cards (TimeSliced)"
    )


def any_kind(name: str, pods: int, **more: Any) -> Gang:
    return gang(name, of=asks(mode="any"), pods=pods, **more)


def kinds_of(plan: Plan) -> dict[str, set[str]]:
    """The nodes on which each gang was placed."""
    found: dict[str, set[str]] = {}
    for one in plan.assignments:
        found.setdefault(one.gang, set()).add(one.node)
    return found


@pytest.mark.parametrize(
    ("whole", "slices", "shares", "lands"),
    [(4, 8, 8, "whole"), (3, 4, 8, "mig"), (3, 3, 4, "sliced"), (3, 3, 3, "")],
)
def test_members_of_a_role_never_mix_kinds(whole: int, slices: int, shares: int, lands: str) -> None:
    nodes = [of("whole", gpu=whole), of("mig", "MIGSingle", gpu=slices), of("sliced", "TimeSliced", gpu=shares)]
    found = decide(view(nodes, [any_kind("a", 4)], {"q": queue()}))
    assert kinds_of(found) == ({"a": {lands}} if lands else {})
    if not lands:
        (reason,) = found.waiting[0].reasons
        assert "CardTypeMismatch: pods of one role take one kind, now whole cards" in reason.message


def test_cards_that_are_reserved_from_a_gang_are_not_the_kind_that_it_waits_for() -> None:
    given = view([of("whole"), of("mig", "MIGSingle")], [any_kind("a", 4)], {"q": queue(), "other": queue()})
    room = ReservedRoom("course", NOW, NOW + HOUR, NOW, ("whole",), queues=("other",))
    assert kinds_of(decide(replace(given, reserved=(room,)))) == {"a": {"mig"}}


def test_cards_that_a_planned_start_needs_are_not_the_kind_that_a_gang_waits_for() -> None:
    """One of two nodes with whole cards is free until another job needs both."""
    pool = Pool(facts=[of("n0"), of("n1"), of("mig", "MIGSingle")])
    pool.submit("runs", 1, 10, of_class=asks(8, mode="whole"))
    pool.cycle(0)
    pool.submit("both", 2, 5, of_class=asks(8, mode="whole"))
    pool.submit("any", 4, of_class=asks(2, mode="any"))
    assert kinds_of(pool.cycle(0)) == {"any": {"mig"}}


def test_a_role_goes_on_with_the_kind_that_it_has() -> None:
    nodes = [of("whole"), of("mig", "MIGSingle")]
    growing = any_kind("a", 2, ran=True, placed={"": 2}, total=4)
    assert kinds_of(decide(view(nodes, [growing], {"q": queue()}))) == {"a": {"whole"}}
    growing = structs.replace(growing, card_nodes=(("", "mig"),))
    assert kinds_of(decide(view(nodes, [growing], {"q": queue()}))) == {"a": {"mig"}}
    full = [of("whole"), of("mig", "MIGSingle", gpu=1)]
    assert kinds_of(decide(view(full, [growing], {"q": queue()}))) in ({}, {"a": {"mig"}})


def test_roles_may_differ_in_kind() -> None:
    nodes = [of("whole", gpu=2), of("mig", "MIGSingle", f"{A100}-MIG-1g.10gb"), of("a40", product=A40)]
    slices = [member(f"s{at}", asks(mode="slice"), "slices") for at in range(2)]
    free = [member(f"f{at}", asks(mode="any", models=(("A40",),)), "free") for at in range(2)]
    found = decide(view(nodes, [gang("a", members=[*slices, *free])], {"q": queue()}))
    assert {one.pod: one.node for one in found.assignments} == {"s0": "mig", "s1": "mig", "f0": "a40", "f1": "a40"}


@pytest.mark.parametrize("role", ["", "worker"])
def test_a_role_whose_members_ask_for_different_kinds_waits(role: str) -> None:
    pods = [member("a", asks(mode="whole"), role), member("b", asks(mode="slice"), role)]
    plan = decide(view(MIXED, [gang("g", members=pods)], {"q": queue()}))
    assert not plan.assignments
    (reason,) = plan.waiting[0].reasons
    assert reason.code == "CardTypeMismatch"
    assert "ask for cards of different kinds, whole and slice" in reason.message
    apart = [structs.replace(one, role=one.uid) for one in pods]
    assert starts(decide(view(MIXED, [gang("g", members=apart)], {"q": queue()}))) == ["g"]
    alike = [member("a", asks(mode="any"), role), member("b", asks(mode="slice"), role)]
    assert kinds_of(decide(view(MIXED, [gang("g", members=alike)], {"q": queue()}))) == {"g": {"mig"}}
