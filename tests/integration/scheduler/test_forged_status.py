"""The status of a PodGroup is the scheduler's own word: what another writes there is put right."""

from typing import Any

import pytest

from t9ksched.kube.resources import PODGROUPS
from tests.integration.scheduler.conftest import Start
from tests.integration.world import Object, World

pytestmark = pytest.mark.cluster
EVICTED = {
    "type": "Evicted",
    "status": "True",
    "reason": "Preempted",
    "message": "forged",
    "transitionID": "x",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
}
SCHEDULED = EVICTED | {"type": "GroupScheduled", "status": "False"}
FORGED: dict[str, dict[str, Any]] = {
    "numbers": {"running": 99, "failed": 3},
    "an eviction": {"conditions": [EVICTED]},
    "no place": {"conditions": [SCHEDULED]},
    "nothing": {"conditions": None, "running": None, "allocated": None},
}


def settled(group: Object) -> bool:
    """Whether all that is told of a group that runs is told."""
    return "True" in scheduled(group) and group["status"].get("running") == 2


def waiting(group: Object) -> bool:
    """Whether it is told why it waits, once all its pods are there."""
    return scheduled(group) == ["False", "NeverFits"] and group["status"].get("pending") == 2


def scheduled(group: Object) -> list[str]:
    """Status and reason of the condition `GroupScheduled`; nothing before it is there."""
    conditions = (group.get("status") or {}).get("conditions") or []
    return [str(one[key]) for one in conditions if one["type"] == "GroupScheduled" for key in ("status", "reason")]


@pytest.mark.parametrize("state", ["running", "waiting"])
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
async def test_what_another_writes_is_put_right(
    world: World, start: Start, queue: str, forged: dict[str, Any], state: str
) -> None:
    """With the times of its transitions, and without an eviction that there never was."""
    await world.play(1, 8)
    runs = state == "running"
    async with start():
        await world.gang("g", 2, 1 if runs else 8, queue)
        told = await world.until(PODGROUPS, "g", settled if runs else waiting)
        await world.client.patch(PODGROUPS, "g", world.namespace, {"status": forged}, subresource="status")
        await world.until(PODGROUPS, "g", lambda group: group["status"] == told["status"])
