"""The picture of the cluster: who owns what, and whom a change concerns."""

import copy
from typing import Any

import pytest

from t9ksched.controller.picture import Key, Owned, Workloads
from t9ksched.workloads.reconcile import expand
from tests.unit.workloads.builders import pytorch

JOB = pytorch()
KEY = Key("PyTorchTrainingJob", "lab", "net")


def made(obj: dict[str, Any], uid: str) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "uid": uid}}


FIRST, SECOND = (made(pod, f"u{number}") for number, pod in enumerate(expand(JOB).pods))
GROUP = made(expand(JOB).podgroup or {}, "g")


@pytest.fixture
def told() -> list[Key]:
    return []


@pytest.fixture
def owned(told: list[Key]) -> Owned:
    return Owned(("PyTorchTrainingJob",), told.append)


def names(owned: Owned) -> list[str]:
    return [pod["metadata"]["name"] for pod in owned.of("uid-net").pods]


def test_children_by_owner(owned: Owned, told: list[Key]) -> None:
    owned.on_replace([SECOND, GROUP, FIRST])
    assert names(owned) == ["net-worker-0", "net-worker-1"]
    assert owned.of("uid-net").podgroup == GROUP
    assert set(told) == {KEY}
    owned.on_delete(FIRST)
    assert names(owned) == ["net-worker-1"]


def test_an_object_that_changes_hands(owned: Owned) -> None:
    owned.on_upsert(FIRST)
    orphan = copy.deepcopy(FIRST)
    del orphan["metadata"]["ownerReferences"]
    owned.on_upsert(orphan)
    assert names(owned) == []


def test_owners_of_other_kinds_do_not_concern_us(owned: Owned, told: list[Key]) -> None:
    stranger = copy.deepcopy(FIRST)
    stranger["metadata"]["ownerReferences"][0]["kind"] = "Job"
    owned.on_upsert(stranger)
    assert told == []


def test_what_we_made_is_there_at_once(owned: Owned, told: list[Key]) -> None:
    owned.made(FIRST)
    assert names(owned) == ["net-worker-0"]
    assert told == [], "the watch will tell"


def test_news_of_the_watch_count_more_than_our_own(owned: Owned) -> None:
    running = {**FIRST, "status": {"phase": "Running"}}
    owned.on_upsert(running)
    owned.made(FIRST)
    assert owned.of("uid-net").pods == (running,)
    owned.on_delete(running)
    owned.made(FIRST)
    assert names(owned) == [], "it has come and gone before its creation was answered"


def test_workloads(told: list[Key]) -> None:
    workloads = Workloads("PyTorchTrainingJob", told.append)
    workloads.on_replace([JOB])
    newer = {**JOB, "status": {}}
    workloads.wrote(JOB, newer)
    assert workloads.get(KEY) is newer
    workloads.wrote(JOB, JOB)
    assert workloads.get(KEY) is newer, "somebody was faster"
    workloads.on_delete(JOB)
    assert workloads.get(KEY) is None
    assert told == [KEY, KEY]
