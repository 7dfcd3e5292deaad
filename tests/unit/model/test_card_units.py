"""What pods hold of nodes that are laid out anew under them."""

import pytest

from t9ksched.model.card_units import reshaped, units
from t9ksched.model.cards import NO_CARDS, CardGrant, CardPart
from t9ksched.model.node import NodeFacts, decode_node, node_facts
from t9ksched.model.podclass import PodClass

GPU, SLICE, PRODUCT = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.product"
A100 = "NVIDIA-A100-SXM4-40GB"


def node(product: str = A100, labels: dict[str, str] | None = None, honours: bool = False, **has: int) -> NodeFacts:
    amounts = {key.replace("__", "/").replace("_", "-"): str(amount) for key, amount in has.items()}
    notes = {"scheduler.tensorstack.dev/card-mode": "honours-index"} if honours else {}
    metadata = {"name": "n", "labels": {PRODUCT: product, **(labels or {})}, "annotations": notes}
    return node_facts(decode_node({"metadata": metadata, "status": {"allocatable": amounts}}))


def asks(name: str = GPU) -> PodClass:
    return PodClass(requests=(("cpu", 1), (name, 2)))


REPLICAS = {"nvidia.com/gpu.replicas": "4"}
NODES = {
    "whole": node(**{"nvidia.com__gpu": 4}),
    "fewer": node(**{"nvidia.com__gpu": 2}),
    "single": node(f"{A100}-MIG-1g.5gb", **{"nvidia.com__gpu": 28}),
    "larger": node(f"{A100}-MIG-3g.20gb", **{"nvidia.com__gpu": 8}),
    "mixed": node(**{"nvidia.com__gpu": 2, "nvidia.com__mig_1g.5gb": 14}),
    "slices": node(**{"nvidia.com__gpu": 0, "nvidia.com__mig_1g.5gb": 28}),
    "turns": node(labels=REPLICAS, **{"nvidia.com__gpu": 16}),
    "more turns": node(labels={"nvidia.com/gpu.replicas": "8"}, **{"nvidia.com__gpu": 32}),
    "mps": node(labels=REPLICAS | {"nvidia.com/gpu.sharing-strategy": "mps"}, **{"nvidia.com__gpu": 16}),
    "shared slices": node(
        labels={f"{SLICE}.replicas": "2"}, **{"nvidia.com__gpu": 0, "nvidia.com__mig_1g.5gb.shared": 56}
    ),
    "more shared slices": node(
        labels={f"{SLICE}.replicas": "4"}, **{"nvidia.com__gpu": 0, "nvidia.com__mig_1g.5gb.shared": 112}
    ),
    "renamed": node(labels=REPLICAS, **{"nvidia.com__gpu.shared": 16}),
    "none": node(),
    "changing": node(labels=REPLICAS | {"nvidia.com/mig.config.state": "pending"}, **{"nvidia.com__gpu": 28}),
    "upgraded": node(labels={"nvidia.com/gpu-driver-upgrade-state": "drain-required"}, **{"nvidia.com__gpu": 4}),
    "amd": node("", **{"amd.com__gpu": 4}),
    "by index": node(f"{A100}-MIG-1g.5gb", honours=True, **{"nvidia.com__gpu": 28}),
    "by index and whole": node(honours=True, **{"nvidia.com__gpu": 4}),
}


@pytest.mark.parametrize(
    ("was", "name", "now", "said"),
    [
        ("whole", GPU, "single", "was a whole card and is a MIG slice 1g.5gb of node n now"),
        ("single", GPU, "whole", "was a MIG slice 1g.5gb and is a whole card of node n now"),
        ("single", GPU, "larger", "was a MIG slice 1g.5gb and is a MIG slice 3g.20gb"),
        ("whole", GPU, "turns", "was a whole card and is a turn on a card, shared by 4 of node n now"),
        ("turns", GPU, "whole", "was a turn on a card, shared by 4 and is a whole card"),
        (
            "turns",
            GPU,
            "more turns",
            "was a turn on a card, shared by 4 and is a turn on a card, shared by 8 of node n",
        ),
        (
            "turns",
            GPU,
            "mps",
            "was a turn on a card, shared by 4 and is a part of a card by MPS, shared by 4 of node n",
        ),
        ("mps", GPU, "whole", "was a part of a card by MPS, shared by 4 and is a whole card"),
        (
            "shared slices",
            f"{SLICE}.shared",
            "more shared slices",
            f"was one {SLICE}.shared, shared by 2 and is one {SLICE}",
        ),
        ("whole", GPU, "renamed", "offers no nvidia.com/gpu any more, which it holds, and offers nvidia.com/g"),
        ("whole", GPU, "slices", "offers no nvidia.com/gpu any more, which it holds, and offers nvidia.com/mig-1g.5gb"),
        ("slices", SLICE, "whole", "offers no nvidia.com/mig-1g.5gb any more, which it holds, and"),
        ("slices", SLICE, "single", "offers no nvidia.com/mig-1g.5gb any more"),
        ("whole", GPU, "by index", "was a whole card and is a MIG slice"),
        ("whole", GPU, "mixed", ""),
        ("mixed", SLICE, "slices", ""),
        ("whole", GPU, "fewer", ""),
        ("whole", GPU, "upgraded", ""),
        ("single", GPU, "single", ""),
        ("turns", GPU, "turns", ""),
        ("mps", GPU, "mps", ""),
        # Its device plugin may be starting, and labels and amounts change at different moments.
        ("whole", GPU, "none", ""),
        ("whole", GPU, "changing", ""),
        ("changing", GPU, "whole", ""),
        # Cards of another vendor, something that the node did not offer, cards that are looked at one by one.
        ("whole", GPU, "amd", ""),
        ("whole", SLICE, "whole", ""),
        ("single", GPU, "by index and whole", ""),
    ],
)
def test_what_was_given_is_compared_with_what_is_offered(was: str, name: str, now: str, said: str) -> None:
    found = reshaped(NODES[now], units(NODES[was], asks(name), NO_CARDS))
    assert said in found
    assert bool(said) == bool(found)


def test_cards_by_index_are_whole_ones_wherever_they_are() -> None:
    cards = CardGrant.of({GPU: (0, 1)})
    for facts in (None, NODES["single"], NODES["none"]):
        assert units(facts, asks(), cards) == ((GPU, "card"),)
    parts = CardGrant.of_parts([CardPart(GPU, 0, 500, 10)])
    assert "was a part of a card and is a whole card" in reshaped(NODES["whole"], units(None, asks(), parts))
    assert not reshaped(NODES["whole"], units(None, asks(), CardGrant.of_parts([CardPart(GPU, 0, 1000, 10)])))


def test_a_pod_without_accelerators_has_nothing_of_it() -> None:
    assert units(NODES["whole"], PodClass(requests=(("cpu", 1),)), NO_CARDS) == ()
