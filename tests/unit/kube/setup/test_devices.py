"""What doctor says of devices of DRA: on nodes, in pools, and of servers without them."""

from typing import Any

import pytest

from t9ksched.kube.setup.devices import Published, judge_devices
from t9ksched.kube.setup.doctor import judge_nodes
from tests.unit.kube.setup.test_doctor import GPU, PCI, PRODUCT, node, told

DRIVER = "gpu.nvidia.com"
CLASS = {
    "metadata": {"name": "gpus", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {
        "selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}],
        "extendedResourceName": GPU,
    },
}


def sliced(count: int = 2, *, generation: int = 1, of: int = 1, taints: Any = (), name: str = "s", **where: Any) -> Any:
    devices: list[Any] = [{"name": f"gpu-{at}"} for at in range(count)]
    for at, effect in taints:
        devices[at]["taints"] = [{"key": f"{DRIVER}/xid", "value": "79", "effect": effect}]
    pool = {"name": "n", "generation": generation, "resourceSliceCount": of}
    spec = {"driver": DRIVER, "pool": pool, "devices": devices, **(where or {"nodeName": "n"})}
    return {"metadata": {"name": name}, "spec": spec}


WORDS = "nvidia.com/gpu stands for devices of gpu.nvidia.com there (DeviceClass gpus)"
ONLY = f"its GPUs are not ready and get no pods: DRA, not supported yet: {WORDS}"
BOTH = "a device plugin offers nvidia.com/gpu and DRA devices of gpu.nvidia.com there (DeviceClass gpus)"


@pytest.mark.parametrize(
    ("given", "slices", "words"),
    [
        (node(0, labels=PCI), [sliced()], ONLY),
        (node(0), [sliced(allNodes=True)], ONLY),
        (node(0, labels=PCI), [sliced(nodeName="m")], "it has NVIDIA cards and offers none of them yet"),
        (node(0, labels=PCI), [sliced(0)], "it has NVIDIA cards and offers none of them yet"),
        (
            node(0, labels=PCI),
            [sliced(name="old"), sliced(0, generation=2)],
            "it has NVIDIA cards and offers none of them yet",
        ),
        (node(8, labels=PRODUCT), [sliced()], BOTH),
    ],
)
def test_nodes(given: Any, slices: Any, words: str) -> None:
    found = [message for level, message in told(judge_nodes([given], (), Published.of([CLASS], slices)))]
    assert any(message.startswith(words) or words in message for message in found), found
    assert sum("DRA" in message for message in found) == (words in (ONLY, BOTH))


def test_a_resource_of_another_vendor_is_offered_by_a_plugin() -> None:
    given = node(0)
    given["status"]["allocatable"]["amd.com/gpu"] = "4"
    found = told(judge_nodes([given], (), Published.of([CLASS], [sliced()])))
    assert found == [("warning", f"DRA, not supported yet: {WORDS}"), ("ok", "1 nodes offer 4 cards")]


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([sliced()], [("ok", "DRA: 1 DeviceClasses, 1 pools with 2 devices")]),
        ([], [("ok", "DRA: 1 DeviceClasses, 0 pools with 0 devices")]),
        (
            [sliced(of=2)],
            [("warning", "the pool is not ready: 1 of 2 ResourceSlices of generation 1 are there")],
        ),
        (
            [sliced(of=1, name="old"), sliced(of=3, generation=2)],
            [("warning", "the pool is not ready: 1 of 3 ResourceSlices of generation 2 are there")],
        ),
        (
            [sliced(2, taints=[(0, "None"), (1, "NoExecute")])],
            [("warning", "1/2 devices are unhealthy by their taints: gpu-1 (gpu.nvidia.com/xid=79:NoExecute)")],
        ),
        ([sliced(2, taints=[(0, "None")])], [("ok", "DRA: 1 DeviceClasses, 1 pools with 2 devices")]),
        (
            [{"metadata": {"name": "s"}, "spec": {"driver": 3}}],
            [("ok", "DRA: 1 DeviceClasses, 0 pools with 0 devices")],
        ),
    ],
)
def test_pools(slices: Any, expected: Any) -> None:
    assert told(judge_devices(Published.of([CLASS], slices))) == expected


def test_many_unhealthy_devices_are_named_in_part() -> None:
    slices = [sliced(8, taints=[(at, "NoSchedule") for at in range(5)])]
    ((_, message),) = told(judge_devices(Published.of([], slices)))
    assert message.startswith("5/8 devices are unhealthy")
    assert message.endswith("gpu-2 (gpu.nvidia.com/xid=79:NoSchedule), and 2 more")


def test_an_older_server() -> None:
    ((level, message),) = told(judge_devices(Published(served=False)))
    assert (level, message) == ("ok", "the server does not serve resource.k8s.io/v1: DRA hands out nothing")
