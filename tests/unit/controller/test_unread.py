"""Unknown fields of a workload are told once for each generation of it, and never again after a restart."""

from typing import Any

import pytest

from t9ksched.controller.picture import Key
from t9ksched.controller.unread import Unread
from tests.unit.workloads.builders import notebook, pytorch

KEY = Key("PyTorchTrainingJob", "lab", "net")


def job(generation: int = 1, *, field: str | None = "frobnicate", **changes: Any) -> dict[str, Any]:
    made = pytorch()
    made["metadata"]["generation"] = generation
    if field is not None:
        made["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0][field] = 1
    return made | changes


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def unread(told: list[str]) -> Unread:
    def record(obj: Any, reason: str, message: str, *, type: str) -> None:
        assert (obj["kind"], reason, type) == ("PyTorchTrainingJob", "FieldsIgnored", "Warning")
        told.append(message)

    return Unread(record)


def test_once_for_each_generation(unread: Unread, told: list[str]) -> None:
    place = "spec.replicaSpecs[0].template.spec.containers[0]"
    unread.look(KEY, job())
    unread.look(KEY, job(status={"phase": "Running"}))
    assert told == [f"unknown fields, which nothing reads: {place}.frobnicate"]
    unread.look(KEY, job(2, field="comand", status={"phase": "Running"}))
    assert told[1:] == [f"unknown fields, which nothing reads: {place}.comand (did you mean 'command'?)"]
    unread.look(KEY, job(3, field=None))
    unread.forget(KEY)
    unread.look(KEY, job(4))
    assert len(told) == 3, "another object of that name"


def test_of_what_the_definition_of_the_cluster_let_pass(unread: Unread, told: list[str]) -> None:
    made = job(field=None)
    made["spec"] |= {f"bogus{number}": 1 for number in range(12)}
    unread.look(KEY, made)
    assert told[0].startswith("unknown fields, which nothing reads: spec.bogus0, spec.bogus1, ")
    assert told[0].endswith("spec.bogus9 and 2 more")


@pytest.mark.parametrize(
    "quiet",
    [
        job(field=None),
        job(status={"phase": "Running"}),
        job(spec={"replicaSpecs": [], "bogus": 1}),
        job(metadata=pytorch()["metadata"] | {"ownerReferences": [{"controller": True, "uid": "x"}]}),
    ],
    ids=["nothing is unknown", "seen before the restart", "faults are told instead", "its owner is told"],
)
def test_nothing_is_told(unread: Unread, told: list[str], quiet: dict[str, Any]) -> None:
    unread.look(KEY, quiet)
    assert told == []


def test_what_has_no_effect_is_told_too(told: list[str]) -> None:
    unread = Unread(lambda obj, reason, message, *, type: told.append(f"{reason} {message}"))
    made = notebook(ssh={"enabled": True, "authorized_keys": ["not a key"]})
    for _ in range(2):
        unread.look(Key("Notebook", "lab", "lab"), made)
    (one,) = told
    assert one.startswith("FieldsIgnored spec.ssh.authorized_keys[0]: is no public key")
