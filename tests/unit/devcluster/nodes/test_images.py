"""Which images the simulated nodes have."""

import asyncio

import pytest

from t9ksched.devcluster.nodes.images import BACK_OFF, INVALID, fault_of
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import RUN, container, pod, world


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("busybox", ""),
        ("example/torch:2.4-cuda12", ""),
        ("Registry.Example.com:5000/team/a_b__c--d:V1@sha256:" + "0" * 64, ""),
        ("localhost/x", ""),
        ("not-invalid/x", ""),
        ("invalid.example.com/x", ""),
        ("registry.invalid/torch:1", BACK_OFF),
        ("registry.INVALID:5000/torch", BACK_OFF),
        ("Example/Torch", INVALID),
        ("torch:", INVALID),
        ("torch@sha256:12", INVALID),
        ("a b", INVALID),
    ],
)
def test_only_impossible_images_cannot_be_had(image: str, reason: str) -> None:
    found = fault_of(pod("a", containers=[{**container(), "image": image}]))
    assert (found.reason if found else "") == reason
    assert not found or image in found.message


@on_virtual_time
async def test_a_pod_whose_image_cannot_be_pulled_waits_and_says_so() -> None:
    async with world() as w:
        first = {**container("init"), "image": "registry.invalid/tools"}
        await w.run(pod("a", initContainers=[first], annotations={RUN: "1"}), "gpu-a")
        await asyncio.sleep(5)
        status = (await w.get("a"))["status"]
        assert status["phase"] == "Pending"
        waiting = status["containerStatuses"][0]["state"]["waiting"]
        assert waiting["reason"] == BACK_OFF
        assert "no such host" in waiting["message"]
