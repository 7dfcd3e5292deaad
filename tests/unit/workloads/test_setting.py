"""`--set PATH=VALUE`: what it changes, and what it cannot."""

import copy
from typing import Any

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.workloads.compose.setting import change, read_settings

JOB: dict[str, Any] = {"spec": {"replicas": [{"type": "worker", "n": 1}], "words": ["a", "b"]}, "kind": "X"}


def changed(*texts: str) -> dict[str, Any]:
    obj = copy.deepcopy(JOB)
    change(obj, read_settings(texts))
    return obj


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("spec.replicas[0].n=4", {"replicas": [{"type": "worker", "n": 4}]}),
        ("spec.replicas[1].n=4", {"replicas": [{"type": "worker", "n": 1}, {"n": 4}]}),
        ("spec.replicas[0].n=4,spec.on=true", {"replicas": [{"type": "worker", "n": 4}], "on": True}),
        ("spec.cpu=0.5", {"cpu": "0.5"}),
        ("spec.code=007", {"code": "007"}),
        ("spec.limits[nvidia.com/gpu]=2", {"limits": {"nvidia.com/gpu": 2}}),
        (r"spec.limits.nvidia\.com/gpu=2", {"limits": {"nvidia.com/gpu": 2}}),
        ("spec.args={--lr=1,2}", {"args": ["--lr=1", 2]}),
        ("spec.args={}", {"args": []}),
        (r"spec.text=a\,b=c", {"text": "a,b=c"}),
        ("spec.text=", {"text": ""}),
        ("spec.replicas=null", {"replicas": None}),
        ("spec.words[0]=null", {"words": ["b"]}),
        ("spec.words[2]=null", {}),
        ("spec.other.deep[0].x=y", {"other": {"deep": [{"x": "y"}]}}),
    ],
)
def test_what_is_set(text: str, spec: dict[str, Any]) -> None:
    wanted = {key: value for key, value in (JOB["spec"] | spec).items() if value is not None}
    assert changed(text) == {"kind": "X", "spec": wanted}


def test_values_as_text() -> None:
    (number, word) = read_settings(["a=1,b=null"], as_text=True)
    assert (number.value, word.value) == ("1", "null")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("spec", "'spec' changes nothing: write PATH=VALUE"),
        ("=1", "'' is no path: a key is empty"),
        ("a..b=1", "a key is empty"),
        ("a[0.b=1", "changes nothing"),
        ("a]b[=1", "changes nothing"),
        ("spec.replicas[3].n=1", "spec.replicas[3].n cannot be set: spec.replicas has 1 item, counted from 0"),
        ("spec.replicas.n=1", "spec.replicas is a list, which has no field n"),
        ("spec[0]=1", "spec is a mapping and no list"),
        ("kind.name=1", "kind is 'X', which has no field name"),
    ],
)
def test_what_cannot_be_set(text: str, why: str) -> None:
    with pytest.raises(Invalid) as told:
        changed(text)
    assert why in str(told.value)
    assert {fault.path for fault in told.value.errors} == {"set"}
