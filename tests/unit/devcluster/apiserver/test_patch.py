"""Merge patch and JSON patch, case by case; neither touches its arguments."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.devcluster.apiserver import patch

MERGES = [  # the examples of RFC 7386, appendix A
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "change", "result"), MERGES)
def test_merge_patch(target: Any, change: Any, result: Any) -> None:
    before = copy.deepcopy((target, change))
    assert patch.merge(target, change) == result
    assert (target, change) == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_a_merge_patch_twice_is_a_merge_patch_once(target: Any, change: Any) -> None:
    once = patch.merge(target, change)
    assert patch.merge(once, change) == once


DOCUMENT = {"a": 1, "list": ["x", "y"], "deep": {"k/e~y": "v"}}
PATCHES = [
    ([{"op": "add", "path": "/b", "value": 2}], {**DOCUMENT, "b": 2}),
    ([{"op": "replace", "path": "/new", "value": 2}], {**DOCUMENT, "new": 2}),
    ([{"op": "remove", "path": "/a"}], {"list": ["x", "y"], "deep": {"k/e~y": "v"}}),
    ([{"op": "add", "path": "/list/1", "value": "m"}], {**DOCUMENT, "list": ["x", "m", "y"]}),
    ([{"op": "add", "path": "/list/-", "value": "z"}], {**DOCUMENT, "list": ["x", "y", "z"]}),
    ([{"op": "remove", "path": "/list/0"}], {**DOCUMENT, "list": ["y"]}),
    ([{"op": "replace", "path": "/list/0", "value": "q"}], {**DOCUMENT, "list": ["q", "y"]}),
    ([{"op": "replace", "path": "/deep/k~1e~0y", "value": "w"}], {**DOCUMENT, "deep": {"k/e~y": "w"}}),
    ([{"op": "copy", "from": "/a", "path": "/c"}], {**DOCUMENT, "c": 1}),
    ([{"op": "move", "from": "/a", "path": "/c"}], {"list": ["x", "y"], "deep": {"k/e~y": "v"}, "c": 1}),
    ([{"op": "test", "path": "/a", "value": 1}], DOCUMENT),
    ([{"op": "test", "path": "/deep", "value": {"k/e~y": "v"}}], DOCUMENT),
    ([{"op": "test", "path": "/list", "value": ["x", "y"]}], DOCUMENT),
    ([{"op": "test", "path": "/absent", "value": None}], DOCUMENT),
    ([{"op": "replace", "path": "", "value": {"all": "new"}}], {"all": "new"}),
    ([], DOCUMENT),
]


@pytest.mark.parametrize(("operations", "result"), PATCHES)
def test_json_patch(operations: list[Any], result: Any) -> None:
    before = copy.deepcopy(DOCUMENT)
    assert patch.apply(DOCUMENT, operations) == result
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "test", "path": "/list", "value": ["x"]},
        {"op": "test", "path": "/deep", "value": {"k/e~y": 1}},
        {"op": "remove", "path": "/absent"},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "/absent/deep", "value": 1},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "add", "path": "/x"},
        {"op": "copy", "from": "/absent", "path": "/x"},
        {"op": "fly", "path": "/x"},
        {"op": "add"},
    ],
)
def test_json_patch_that_cannot_be_done(operation: dict[str, Any]) -> None:
    with pytest.raises(patch.PatchFailed):
        patch.apply(DOCUMENT, [operation])
