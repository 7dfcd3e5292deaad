"""Which nodes hand out a resource by DRA: classes and the names they claim, slices and their nodes, device plugins."""

from typing import Any

import msgspec
import pytest

from t9ksched.model.dra import (
    NOT_SUPPORTED,
    ByDra,
    Device,
    DeviceClass,
    ResourceSlice,
    claimed_names,
    devices_of,
    drivers_named,
    offers,
    places_of,
    pools_of,
)
from t9ksched.model.node import NodeFacts, decode_node, node_facts

GPU = "nvidia.com/gpu"
NVIDIA = "gpu.nvidia.com"
OFFERED = {GPU: ByDra("gpus", (NVIDIA,))}


def device_class(name: str, *expressions: str, claims: str | None = GPU, created: int = 0) -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": one}} for one in expressions], "extendedResourceName": claims}
    meta = {"name": name, "creationTimestamp": f"2026-01-01T00:00:{created:02}Z"}
    return msgspec.convert({"metadata": meta, "spec": spec}, DeviceClass)


def slice_of(*, generation: int = 1, count: int = 1, name: str = "s", **more: Any) -> ResourceSlice:
    placed = more.keys() & {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"}
    spec = {
        "driver": NVIDIA,
        "pool": {"name": "p", "generation": generation, "resourceSliceCount": count},
        "devices": [{"name": "gpu-0"}],
        **({} if placed else {"nodeName": "n"}),
        **more,
    }
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


@pytest.mark.parametrize(
    ("expression", "drivers"),
    [
        ("device.driver == 'a'", {"a"}),
        (' "a"==device.driver ', {"a"}),
        ("((device.driver == 'a'))", {"a"}),
        ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'", {"gpu.nvidia.com"}),
        ("device.attributes['x'].on && (device.driver == 'a')", {"a"}),
        ("device.driver == 'a' || device.driver == 'b'", {"a", "b"}),
        ("(device.driver == 'a' || device.driver == 'b') && device.driver == 'b'", {"b"}),
        ("device.driver in ['a', \"b\"]", {"a", "b"}),
        ("device.attributes['x'].note == \"|| device.driver == 'z'\" && device.driver == 'a'", {"a"}),
        ("", None),
        ("true", None),
        ("device.driver == 'a' || true", None),
        ("device.driver == 'a' ? true : true", None),
        ("!(device.driver == 'a')", None),
        ("device.driver != 'a'", None),
        ("device.driver.startsWith('a')", None),
        ("device.driver == 'a\\n'", None),
        ("true // && device.driver == 'a'", None),
        ("device.driver in ['a', other]", None),
        ("device.driver == 'a'" + " " * 3000, None),
        ("(" * 40 + "device.driver == 'a'" + ")" * 40, None),
        (")(", None),
        ("'", None),
    ],
)
def test_the_drivers_that_an_expression_names(expression: str, drivers: set[str] | None) -> None:
    assert drivers_named(expression) == (None if drivers is None else frozenset(drivers))


def test_all_selectors_of_a_class_hold() -> None:
    names = claimed_names([device_class("one", "device.driver in ['a', 'b']", "device.driver == 'b'", "true")])
    assert names[GPU].drivers == {"b"}
    never = claimed_names([device_class("one", "device.driver == 'a'", "device.driver == 'b'")])
    assert offers(never, ["a", "b"]) == {}
    any_of = claimed_names([device_class("one")])
    assert offers(any_of, ["b", "a"]) == {GPU: ByDra("one", ("a", "b"))}
    assert offers(any_of, []) == {}


@pytest.mark.parametrize(
    ("classes", "wins"),
    [
        ([device_class("a", created=1), device_class("b", created=2)], "b"),
        ([device_class("b", created=2), device_class("a", created=1)], "b"),
        ([device_class("b", created=1), device_class("a", created=1)], "a"),
        ([device_class("a", created=1), device_class("b", created=2, claims=None)], "a"),
    ],
)
def test_the_newest_class_has_a_name(classes: list[DeviceClass], wins: str) -> None:
    assert claimed_names(classes)[GPU].device_class == wins


RACK: dict[str, Any] = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "r", "operator": "In", "values": ["1"]}]}]}


@pytest.mark.parametrize(
    ("where", "n", "m"),
    [
        ({"nodeName": "n"}, 1, 0),
        ({"allNodes": True}, 1, 1),
        ({"nodeSelector": RACK}, 0, 1),
        ({"nodeSelector": {"nodeSelectorTerms": "?"}}, 0, 0),
        ({"nodeSelector": {}}, 0, 0),
        (
            {
                "perDeviceNodeSelection": True,
                "devices": [{"name": "a", "nodeName": "n"}, {"name": "b", "allNodes": True}, {"name": "c"}],
            },
            2,
            1,
        ),
        ({"nodeName": "n", "devices": []}, 0, 0),
        ({"nodeName": "n", "devices": None}, 0, 0),
    ],
)
def test_for_which_nodes_a_slice_has_devices(where: dict[str, Any], n: int, m: int) -> None:
    spec = slice_of(**where).spec
    for name, labels, count in (("n", {}, n), ("m", {"r": "1"}, m)):
        assert len(devices_of(spec, name, labels)) == count
        assert any(place.has(name, labels) for place in places_of(spec)) is bool(count)


def test_a_pool_is_its_newest_generation_and_complete_with_all_its_slices() -> None:
    old = [slice_of(generation=1, count=2, name=name) for name in ("a", "b")]
    (pool,) = pools_of(old)
    assert pool.complete
    (pool,) = pools_of([*old, slice_of(generation=2, count=2, name="c")])
    assert (pool.generation, len(pool.slices), pool.complete) == (2, 1, False)
    (pool,) = pools_of([slice_of(generation=2, count=1, name="c"), *old])
    assert pool.complete


def test_which_taints_make_a_device_unhealthy() -> None:
    effects = ("None", "NoSchedule", "NoExecute")
    taints = [{"key": f"{NVIDIA}/xid", "value": "79", "effect": effect} for effect in effects]
    device = msgspec.convert({"name": "gpu-0", "taints": taints}, Device)
    assert [str(taint) for taint in device.unhealthy] == [
        "gpu.nvidia.com/xid=79:NoSchedule",
        "gpu.nvidia.com/xid=79:NoExecute",
    ]


def facts(allocatable: dict[str, str], labels: dict[str, str] | None = None) -> NodeFacts:
    meta = {"name": "n", "labels": labels or {}}
    return node_facts(decode_node({"metadata": meta, "status": {"allocatable": allocatable}}), dra=OFFERED)


PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}
INSTALLING = PCI | {"nvidia.com/gpu.deploy.driver": "true"}


@pytest.mark.parametrize(
    ("allocatable", "labels", "by_dra", "unready"),
    [
        ({GPU: "8"}, PCI, False, None),
        ({GPU: "0"}, {}, True, NOT_SUPPORTED),
        ({}, PCI, True, NOT_SUPPORTED),
        ({}, INSTALLING, True, NOT_SUPPORTED),
        ({}, PCI | {"nvidia.com/gpu.deploy.operands": "false"}, True, NOT_SUPPORTED),
        ({}, PCI | {"nvidia.com/mig.config.state": "pending"}, True, "nvidia.com/mig.config.state"),
        ({GPU: "0", "amd.com/gpu": "4"}, {}, True, None),
        ({"vke.volcengine.com/mgpu-core": "400", "vke.volcengine.com/mgpu-memory": "130040"}, {}, False, None),
    ],
    ids=["plugin", "zero", "absent", "operator", "operands", "mig", "another vendor", "divided"],
)
def test_a_device_plugin_goes_before_dra(
    allocatable: dict[str, str], labels: dict[str, str], by_dra: bool, unready: str | None
) -> None:
    found = facts(allocatable, labels)
    assert bool(found.by_dra) is by_dra
    assert str(found.unready).startswith(unready) if unready else found.unready is None, found.unready
    if GPU in found.cards:
        assert found == node_facts(
            decode_node({"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable}})
        ), "nothing changes"


def test_the_words_say_what_hands_it_out_and_what_to_do() -> None:
    unready = facts({}).unready
    assert unready is not None
    assert str(unready) == (
        "DRA, not supported yet: nvidia.com/gpu stands for devices of gpu.nvidia.com there (DeviceClass gpus)"
    )
    assert "let a device plugin offer nvidia.com/gpu there" in unready.remedy
