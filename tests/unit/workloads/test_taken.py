"""The condition that says whose object has a name that a workload needs."""

from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched.workloads import taken
from t9ksched.workloads.actions import Actions

NOW = datetime(2031, 1, 1, tzinfo=UTC)
THERE = {"kind": "PodGroup", "metadata": {"name": "net", "namespace": "ml"}}
INVALID = [{"type": "Initialized", "status": "False", "reason": "InvalidSpec", "message": "spec.x is wrong"}]


def with_meta(**meta: Any) -> dict[str, Any]:
    return {**THERE, "metadata": {**THERE["metadata"], **meta}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (THERE, "ask who may delete it in this namespace"),
        (with_meta(annotations={"scheduler.tensorstack.dev/submitted-by": "bob"}), "It says that 'bob' submitted it"),
        (
            with_meta(annotations={"scheduler.tensorstack.dev/submitted-by": "b\n" + "o" * 99}),
            "'b\\n" + "o" * 61 + "…'",
        ),
        (with_meta(ownerReferences=[{"kind": "MPIJob", "name": "other"}]), "ask whose MPIJob/other that is"),
    ],
)
def test_whom_to_ask(there: dict[str, Any], said: str) -> None:
    text = taken.sentence(there, "Notebook")
    assert text.startswith("PodGroup/net exists already and is not part of this Notebook.")
    assert said in text
    assert "kubectl delete podgroup/net -n ml" in text


def test_it_is_told_once_and_forgotten_when_nothing_is_left_to_make() -> None:
    status = taken.told({"status": {"phase": "Running"}}, "NameTaken", "why", NOW)
    assert status is not None
    assert (status["phase"], taken.message_of(status, taken.NAME_TAKEN)) == ("Running", "why")
    obj = {"status": status}
    assert taken.told(obj, "NameTaken", "why", NOW) is None
    assert taken.told(obj, "NameTaken", "another", NOW) is not None
    for waiting in (Actions(create=(THERE,)), Actions(update=(THERE,))):
        assert taken.forgotten(obj, waiting) is waiting
    assert taken.forgotten(obj, Actions()).status == {"phase": "Running", "conditions": []}
    assert taken.forgotten({}, Actions()) == Actions()


def test_what_is_wrong_with_the_spec_is_told_first() -> None:
    assert taken.told({"status": {"conditions": INVALID}}, "NameTaken", "why", NOW) is None
