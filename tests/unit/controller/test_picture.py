"""The picture of the cluster: who owns what, and whom a change concerns."""

import asyncio
import copy
from typing import Any

import pytest

from t9ksched.controller.picture import Key, Owned, Workloads
from t9ksched.controller.service import Controllers
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.workloads.reconcile import expand
from tests.unit.devcluster.virtualtime import on_virtual_time
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


def test_what_we_updated_counts_until_the_watch_brings_news(owned: Owned) -> None:
    def at(version: str, minimum: int) -> dict[str, Any]:
        return {**GROUP, "metadata": {**GROUP["metadata"], "resourceVersion": version}, "spec": {"minMember": minimum}}

    owned.on_upsert(at("1", 2))
    owned.updated(at("1", 3), at("2", 3))
    assert owned.of("uid-net").podgroup == at("2", 3)
    owned.on_upsert(at("4", 9))
    owned.updated(at("2", 5), at("3", 5))
    assert owned.of("uid-net").podgroup == at("4", 9), "the watch was faster"
    owned.updated({**FIRST}, FIRST)
    assert names(owned) == []


def test_workloads(told: list[Key]) -> None:
    workloads = Workloads("PyTorchTrainingJob", told.append)
    workloads.on_replace([JOB])
    newer = {**JOB, "status": {}}
    workloads.wrote(JOB, newer)
    assert workloads.get(KEY) is newer
    workloads.wrote(JOB, JOB)
    assert workloads.get(KEY) is newer, "another writer was faster"
    workloads.on_delete(JOB)
    assert workloads.get(KEY) is None
    assert told == [KEY, KEY]


def test_what_was_made_is_unseen_until_the_watch_brings_it_or_its_end(owned: Owned) -> None:
    owned.made(FIRST)
    owned.made(SECOND)
    assert list(owned.unseen) == ["u0", "u1"]
    owned.on_upsert(FIRST)
    owned.on_delete(SECOND)
    assert not owned.unseen
    owned.made(FIRST)
    owned.made(SECOND)
    assert not owned.unseen, "the answer to a creation came late"
    assert names(owned) == ["net-worker-0"]


class Server:
    """Has one answer to every question."""

    def __init__(self, answer: dict[str, Any] | ApiError) -> None:
        self.answer = answer

    async def get(self, *_: object) -> dict[str, Any]:
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (FIRST, ["net-worker-0"]),
        (made(FIRST, "successor"), []),
        (NotFound(404, "NotFound", "gone"), []),
        (ApiError(500, "InternalError", "no"), ["net-worker-0"]),
    ],
)
@on_virtual_time
async def test_what_the_watch_never_brings_is_asked_for(answer: Any, left: list[str]) -> None:
    """It was made and gone before a watch that had to read everything anew could tell of it."""
    controllers = Controllers(Server(answer))  # type: ignore[arg-type]
    controllers._owned.made(FIRST)
    asking = asyncio.create_task(controllers._look_for_unseen())
    await asyncio.sleep(15)
    assert names(controllers._owned) == ["net-worker-0"], "the watch has a moment"
    await asyncio.sleep(10)
    assert names(controllers._owned) == left
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
