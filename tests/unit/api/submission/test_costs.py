"""What a submission costs: handings over to threads, transactions, and looks at what others decided."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from t9ksched.admission.oddities import Vocabulary
from t9ksched.api.submission import advice
from t9ksched.store.database import Database
from t9ksched.workloads import shape
from tests.unit.api.world import World, pytorch

QUEUES = 30


def counted(found: Counter[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, counted by its name."""

    def called(*args: Any, **options: Any) -> Any:
        found[function.__name__] += 1
        return function(*args, **options)

    return called


async def test_a_submission_is_two_steps_beside_the_loop_and_reads_its_pods_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(QUEUES):
        spec = {"quota": {"requests": {f"example.com/r{number}": "1"}}}
        await world.store.queues.create(f"q{number}", {}, spec, {"everyone": True}, by="root")
    world.leader.vocabulary = Vocabulary(("cpu",))
    assert (await world.user("POST", "/apis/v1/workloads", pytorch("first", queue="q0"))).status == 201
    found: Counter[str] = Counter()
    for where, name in ((asyncio, "to_thread"), (Database, "write"), (shape, "pod_class"), (advice, "rules_of")):
        monkeypatch.setattr(where, name, counted(found, getattr(where, name)))
    answer = await world.user("POST", "/apis/v1/workloads", pytorch("second", queue="q0"))
    assert (answer.status, answer.job["gpus"]) == (201, 8)
    # What will be created is written before it is, and what was created after it; pods are of one role.
    assert found == {"to_thread": 2, "pod_class": 1, "rules_of": 1}
    # A queue that changed is looked at again.
    await world.store.queues.create("new", {}, {"quota": {"requests": {"example.com/dcu": "4"}}}, {}, by="root")
    odd = pytorch("third", queue="q0")
    odd["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"example.com/dcus": 1}
    }
    (warning,) = (await world.user("POST", "/apis/v1/workloads", odd)).body["warnings"]
    assert warning["nearest"] == "example.com/dcu"
