"""What annotations say of cards: models as people write them, kinds of cards, and every wrong text with its key."""

from typing import Any

import pytest

from t9ksched.model.card_models import is_model
from t9ksched.model.cardchoice import CardChoice, admits, card_choice, faults, kind_of, kinds
from t9ksched.model.labels import LabelSelector, NodeSelector, Requirement
from t9ksched.model.names import GPU_MODE_ANNOTATION, GPU_MODEL_ANNOTATION, GPU_MODEL_PREFIX

MODEL, MODE = GPU_MODEL_ANNOTATION, GPU_MODE_ANNOTATION
GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("product", "asked", "matches"),
    [
        ("NVIDIA-A100-SXM4-80GB", "A100", True),
        ("NVIDIA-A100-SXM4-80GB", "a100", True),
        ("NVIDIA-A100-SXM4-80GB", "A100-SXM4-80GB", True),
        ("NVIDIA-A100-SXM4-80GB", "A100-80GB", True),
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA A100", True),
        ("NVIDIA-A100-SXM4-80GB", "A10", False),
        ("NVIDIA-A100-SXM4-80GB", "A100-40GB", False),
        ("NVIDIA-A100-SXM4-80GB", "80GB-A100", False),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "A100", True),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "A100-MIG-1g.10gb", True),
        ("NVIDIA-A100-PCIE-40GB-SHARED", "A100", True),
        ("NVIDIA-A10", "A10", True),
        ("NVIDIA-A10", "A100", False),
        ("NVIDIA-L40S", "L40", False),
        ("NVIDIA-H100-80GB-HBM3", "H100", True),
        ("Tesla-V100-SXM2-32GB", "V100", True),
        ("NVIDIA-GeForce-RTX-3090", "RTX 3090", True),
        ("AMD_Instinct_MI300X_OAM", "MI300X", True),
    ],
)
def test_models_match_by_words(product: str, asked: str, matches: bool) -> None:
    assert is_model(product, asked) is matches


def choice(annotations: dict[str, str], **amounts: int) -> CardChoice | None:
    return card_choice(annotations, [("main", {GPU: 1} | amounts), ("side", {})])


def test_what_is_read() -> None:
    assert choice({}) is None
    assert choice({"other": "x"}) is None
    assert choice({MODEL: " H100 , A100,"}) == CardChoice((("A100", "H100"),))
    both = choice({MODEL: "A100,H100", f"{GPU_MODEL_PREFIX}main": "H100", MODE: "any"})
    assert both == CardChoice((("A100", "H100"), ("H100",)), "any")
    assert choice({MODEL: "!", MODE: "some"}) is None, "what cannot be read is told elsewhere"
    crowded = card_choice({}, [("main", {"nvidia.com/gpu.shared": 2})])
    assert crowded == CardChoice(crowded=True)
    assert card_choice({}, [("a", {"nvidia.com/gpu.shared": 1}), ("b", {"nvidia.com/gpu.shared": 1})]) is None


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        (MODE, "slices", "'slices' is none of whole, slice, shared, any"),
        (MODE, "", "'' is none of"),
        (MODEL, "", "'' names no model"),
        (MODEL, " , ", "names no model"),
        (MODEL, "A100,-x", "'-x' is no model"),
        (MODEL, "A" * 64, "is no model"),
        (MODEL, ",".join(f"A{at}" for at in range(17)), "it names 17 models"),
        (f"{GPU_MODEL_PREFIX}nobody", "A100", "there is no container 'nobody': the pod has main, side"),
    ],
)
def test_what_is_wrong(key: str, text: str, says: str) -> None:
    ((at, message),) = faults({key: text, "other": "!"}, ["main", "side"])
    assert at == key
    assert says in message


@pytest.mark.parametrize(
    ("mode", "plain", "kind"),
    [
        ("Whole", True, "whole"),
        ("", True, "whole"),
        ("HAMi", True, "whole"),
        ("MIGSingle", True, "slice"),
        ("MIGMixed", True, "whole"),
        ("MIGMixed", False, "slice"),
        ("TimeSliced", True, "shared"),
        ("TimeSliced", False, "shared"),
        ("MPS", True, "shared"),
    ],
)
def test_what_a_unit_is(mode: str, plain: bool, kind: str) -> None:
    assert kind_of(mode, plain=plain) == kind


@pytest.mark.parametrize(
    ("key", "operator", "values", "admitted"),
    [
        ("nvidia.com/gpu.product", "In", ("NVIDIA-A100-MIG-1g.5gb",), ("slice",)),
        ("nvidia.com/gpu.product", "In", ("NVIDIA-A100-SHARED",), ("shared",)),
        ("nvidia.com/gpu.product", "In", ("NVIDIA-A100",), ()),
        ("nvidia.com/gpu.product", "Exists", (), ()),
        ("nvidia.com/gpu.product", "NotIn", ("NVIDIA-A100-MIG-1g.5gb",), ()),
        ("nvidia.com/device-plugin.config", "In", ("shared-4",), ("slice", "shared")),
        ("nvidia.com/device-plugin.config", "Exists", (), ("slice", "shared")),
        ("nvidia.com/device-plugin.config", "DoesNotExist", (), ()),
        ("nvidia.com/gpu.sharing-strategy", "In", ("mps",), ("shared",)),
        ("nvidia.com/gpu.sharing-strategy", "In", ("none",), ()),
        ("nvidia.com/gpu.replicas", "In", ("4",), ("shared",)),
        ("nvidia.com/gpu.replicas", "In", ("1",), ()),
        ("nvidia.com/gpu.replicas", "Gt", ("1",), ("shared",)),
        ("nvidia.com/gpu.replicas", "Gt", ("0",), ()),
        ("nvidia.com/mig.config", "In", ("all-1g.5gb",), ("slice",)),
        ("nvidia.com/mig.config", "In", ("all-disabled",), ()),
        ("nvidia.com/mig.strategy", "In", ("single",), ("slice",)),
        ("nvidia.com/mig.capable", "In", ("true",), ()),
        ("nvidia.com/gpu.slices.gi", "Exists", (), ("slice",)),
        ("pool", "In", ("mig",), ()),
    ],
)
def test_which_labels_admit_parts_of_cards(
    key: str, operator: Any, values: tuple[str, ...], admitted: tuple[str, ...]
) -> None:
    asked = Requirement(key, operator, values)
    assert admits(asked) == admitted
    wanted = tuple(kind for kind in ("whole", "slice", "shared") if kind == "whole" or kind in admitted)
    queue = LabelSelector((asked,)) if operator != "Gt" else None
    if queue is not None:
        assert kinds(None, True, (), None, queue) == wanted
    terms = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    assert kinds(None, True, (), NodeSelector.parse([terms], ""), None) == wanted
    if operator == "In":
        assert kinds(None, True, ((key, values[0]),), None, None) == wanted


def test_the_annotation_comes_before_selectors() -> None:
    selector = (("nvidia.com/gpu.product", "NVIDIA-A100-MIG-1g.5gb"),)
    assert kinds(CardChoice(mode="whole"), True, selector, None, None) == ("whole",)
    assert kinds(CardChoice(mode="any"), True, (), None, None) == ("whole", "slice", "shared")
    assert kinds(CardChoice((("A100",),)), True, (), None, None) == ("whole",)
    assert kinds(None, False, (), None, None) == ("whole", "slice", "shared"), "parts by name need no word"
    assert kinds(CardChoice(mode="slice"), False, (), None, None) == ("slice",)


def test_models_of_one_container_are_its_own_where_several_ask_for_cards() -> None:
    said = {MODEL: "A100,H100", f"{GPU_MODEL_PREFIX}b": "H100", f"{GPU_MODEL_PREFIX}a": "A100"}
    both = [("a", {GPU: 1}), ("b", {"nvidia.com/gpumem": 1000}), ("c", {"cpu": 1})]
    found = card_choice(said, both)
    assert found == CardChoice((("A100", "H100"),), of_containers=(("a", ("A100",)), ("b", ("H100",))))
    only = found.single if found is not None else None
    assert only is not None
    of_b, of_c = only.of_container("b"), only.of_container("c")
    assert of_b is not None
    assert of_c is not None
    assert [of_b.allows(model, "") for model in ("A100", "H100", "V100")] == [False, True, False]
    assert [of_c.allows(model, "") for model in ("A100", "H100", "V100")] == [True, True, False]
    # One that asks for no cards names what all of them are to be.
    found = card_choice({f"{GPU_MODEL_PREFIX}c": "H100"}, both)
    assert found == CardChoice((("H100",),))
