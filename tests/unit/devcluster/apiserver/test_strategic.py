"""Strategic merge patch: which lists merge by key, in which order, and the directives."""

from typing import Any

import pytest

from t9ksched.devcluster.apiserver import strategic

SPEC = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "nodeSelector": {"zone": "z"}}

CASES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("V1PodSpec", {"nodeSelector": {"disk": "ssd"}}, {}, {"nodeSelector": {"zone": "z", "disk": "ssd"}}),
    ("V1PodSpec", {"nodeSelector": {"zone": None}}, {}, {"nodeSelector": {}}),
    (
        "V1PodSpec",
        {"containers": [{"name": "b", "image": "2"}]},
        {},
        {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]},
    ),
    (
        "V1PodSpec",
        {"containers": [{"name": "new", "image": "2"}]},
        {},
        {"containers": [{"name": "new", "image": "2"}, *SPEC["containers"]]},
    ),
    (
        "V1PodSpec",
        {"containers": [{"name": "a", "$patch": "delete"}]},
        {},
        {"containers": [{"name": "b", "image": "1"}]},
    ),
    (
        "V1PodSpec",
        {"containers": [{"$patch": "replace"}, {"name": "only"}]},
        {},
        {"containers": [{"name": "only"}]},
    ),
    (
        "V1PodSpec",
        {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "2"}]},
        {},
        {"containers": [{"name": "b", "image": "1"}, {"name": "a", "image": "2"}]},
    ),
    ("V1PodSpec", {"nodeSelector": {"$patch": "replace", "only": "this"}}, {}, {"nodeSelector": {"only": "this"}}),
    ("V1PodSpec", {"tolerations": [{"key": "n"}]}, {"tolerations": [{"key": "o"}]}, {"tolerations": [{"key": "n"}]}),
    ("V1ObjectMeta", {"finalizers": ["z"]}, {"finalizers": ["y"]}, {"finalizers": ["z", "y"]}),
    (
        "V1ObjectMeta",
        {"$deleteFromPrimitiveList/finalizers": ["y"]},
        {"finalizers": ["x", "y"]},
        {"finalizers": ["x"]},
    ),
    (
        "V1PodStatus",
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"conditions": [{"type": "Ready", "status": "False", "reason": "r"}]},
        {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}]},
    ),
    ("V1NodeSpec", {"taints": [{"key": "b"}]}, {"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]}),
    ("", {"$retainKeys": ["a"], "a": 1}, {"b": 2}, {"a": 1}),
]


@pytest.mark.parametrize(("model", "patch", "target", "changed"), CASES)
def test_merge(model: str, patch: dict[str, Any], target: dict[str, Any], changed: dict[str, Any]) -> None:
    base = SPEC if model == "V1PodSpec" else target
    whole = {**base, **target}
    result = strategic.merge(whole, patch, model)
    assert {key: result[key] for key in changed} == changed
    untouched = set(whole) - {key.rpartition("/")[2] for key in patch} - {"b"}
    assert all(result[key] == whole[key] for key in untouched)


@pytest.mark.parametrize(
    "patch", [{"$patch": "explode"}, {"containers": [{"image": "no name"}]}, {"containers": ["no object"]}]
)
def test_bad_directives(patch: dict[str, Any]) -> None:
    with pytest.raises(strategic.BadDirective):
        strategic.merge(SPEC, patch, "V1PodSpec")
