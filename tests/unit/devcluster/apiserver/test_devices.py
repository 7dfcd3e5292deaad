"""DeviceClasses and ResourceSlices: what the server takes, fills in and refuses, as kube-apiserver does."""

from typing import Any

import pytest

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.discovery import Discovery
from t9ksched.devcluster.apiserver.kinds import Registry
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.devcluster.apiserver.storage import Storage

Object = dict[str, Any]
NVIDIA = "gpu.nvidia.com"


@pytest.fixture
def api() -> Api:
    return Api(Storage(), Registry())


def made(api: Api, plural: str, spec: Object, name: str = "x") -> Object:
    kind = api.kind("resource.k8s.io", "v1", plural)
    return api.create(kind, None, {"metadata": {"name": name}, "spec": spec}).object


def faults(api: Api, plural: str, spec: Object) -> set[tuple[str, str]]:
    with pytest.raises(StatusError) as caught:
        made(api, plural, spec)
    assert caught.value.code == 422
    causes = (caught.value.details or {})["causes"]
    return {(cause["field"], cause["reason"].removeprefix("FieldValue")) for cause in causes}


def sliced(**more: Any) -> Object:
    pool = {"name": "n", "generation": 0, "resourceSliceCount": 1}
    return {"driver": NVIDIA, "pool": pool, "nodeName": "n", "devices": [{"name": "gpu-0"}], **more}


def devices(*found: Object, **more: Any) -> Object:
    return sliced(devices=[{"name": f"gpu-{at}", **one} for at, one in enumerate(found)], **more)


def test_a_class_and_a_slice_as_a_driver_writes_them(api: Api) -> None:
    expression = f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'gpu'"
    spec: Object = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": "nvidia.com/gpu"}
    kept = made(api, "deviceclasses", spec)
    assert kept["spec"] == spec
    assert kept["metadata"]["generation"] == 1
    attributes = {"type": {"string": "gpu"}, "cudaDriverVersion": {"version": "13.0.0"}, "cores": {"int": 132}}
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}
    device = {"attributes": attributes, "capacity": {"memory": {"value": "81920Mi"}}, "taints": [taint]}
    kept = made(api, "resourceslices", devices(device))
    (shown,) = kept["spec"]["devices"]
    assert shown["attributes"] == attributes
    assert shown["capacity"] == {"memory": {"value": "80Gi"}}
    assert shown["taints"][0]["timeAdded"].endswith("Z")
    assert kept["spec"]["pool"]["generation"] == 0


def test_an_empty_class_selects_everything(api: Api) -> None:
    kind = api.kind("resource.k8s.io", "v1", "deviceclasses")
    assert api.create(kind, None, {"metadata": {"name": "any"}}).object["spec"] == {}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"extendedResourceName": "gpu"}, {("spec.extendedResourceName", "Invalid")}),
        ({"extendedResourceName": "deviceclass.resource.kubernetes.io/x"}, {("spec.extendedResourceName", "Invalid")}),
        ({"selectors": [{}]}, {("spec.selectors[0].cel", "Required")}),
        ({"selectors": [{"cel": {"expression": ""}}]}, {("spec.selectors[0].cel.expression", "Required")}),
        ({"selectors": [{"cel": {"expression": "true"}}] * 33}, {("spec.selectors", "TooMany")}),
        ({"config": [{}]}, {("spec.config[0].opaque", "Required")}),
        (
            {"config": [{"opaque": {"driver": "", "parameters": {"a": 1}}}]},
            {("spec.config[0].opaque.driver", "Required")},
        ),
    ],
)
def test_faulty_classes(api: Api, spec: Object, found: set[tuple[str, str]]) -> None:
    assert faults(api, "deviceclasses", spec) == found


BOTH = sliced(allNodes=True)
NOWHERE = {key: value for key, value in sliced().items() if key != "nodeName"}
TAINTED: Object = {"taints": [{"key": "a", "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (sliced(driver=""), {("spec.driver", "Required")}),
        (sliced(driver="a" * 64), {("spec.driver", "TooLong")}),
        (sliced(pool={"name": "n", "generation": 1}), {("spec.pool.resourceSliceCount", "Invalid")}),
        (
            sliced(pool={"name": "n", "generation": -1, "resourceSliceCount": 1}),
            {("spec.pool.generation", "Invalid")},
        ),
        (sliced(pool={"name": "a//b", "generation": 1, "resourceSliceCount": 1}), {("spec.pool.name", "Required")}),
        (BOTH, {("spec", "Invalid")}),
        (NOWHERE, {("spec", "Required")}),
        ({**NOWHERE, "allNodes": False}, {("spec.allNodes", "Invalid")}),
        (
            {**NOWHERE, "nodeSelector": {"nodeSelectorTerms": []}},
            {("spec.nodeSelector.nodeSelectorTerms", "Invalid")},
        ),
        (sliced(devices=[{"name": "a"}, {"name": "a"}]), {("spec.devices[1]", "Duplicate")}),
        (sliced(devices=[{"name": "A_B"}]), {("spec.devices[0].name", "Invalid")}),
        (devices(*[{}] * 129), {("spec.devices", "TooMany")}),
        (devices(*[TAINTED] * 65), {("spec.devices", "TooMany")}),
        (devices(*[{"attributes": {"l": {"ints": [1, 2]}}}] * 65), {("spec.devices", "TooMany")}),
        (devices({"attributes": {"type": {}}}), {("spec.devices[0].attributes[type]", "Invalid")}),
        (
            devices({"attributes": {"type": {"string": "a", "int": 1}}}),
            {("spec.devices[0].attributes[type]", "Invalid")},
        ),
        (devices({"attributes": {"a-b": {"int": 1}}}), {("spec.devices[0].attributes", "Invalid")}),
        (devices({"attributes": {f"a{at}": {"int": 1} for at in range(33)}}), {("spec.devices[0]", "Invalid")}),
        (devices({"taints": [{"key": "a"}]}), {("spec.devices[0].taints[0].effect", "Required")}),
        (
            devices({"taints": [{"key": "a", "effect": "Never"}]}),
            {("spec.devices[0].taints[0].effect", "NotSupported")},
        ),
        (devices({"nodeName": "n"}), {("spec.devices[0]", "Invalid")}),
        ({**NOWHERE, "perDeviceNodeSelection": True}, {("spec.devices[0]", "Required")}),
        (
            sliced(sharedCounters=[{"name": "c", "counters": {"memory": {"value": "1Gi"}}}]),
            {("spec", "Invalid")},
        ),
    ],
)
def test_faulty_slices(api: Api, spec: Object, found: set[tuple[str, str]]) -> None:
    assert faults(api, "resourceslices", spec) == found


@pytest.mark.parametrize(
    "spec",
    [
        devices(*[{}] * 128),
        devices(*[TAINTED] * 64),
        {**NOWHERE, "allNodes": True},
        {
            **NOWHERE,
            "perDeviceNodeSelection": True,
            "devices": [{"name": "a", "nodeName": "n"}, {"name": "b", "allNodes": True}],
        },
        {
            **{key: value for key, value in sliced().items() if key != "devices"},
            "sharedCounters": [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}],
        },
    ],
)
def test_slices_that_are_taken(api: Api, spec: Object) -> None:
    assert made(api, "resourceslices", spec)["metadata"]["generation"] == 1


def test_what_of_a_slice_never_changes(api: Api) -> None:
    kind = api.kind("resource.k8s.io", "v1", "resourceslices")
    kept = made(api, "resourceslices", sliced())
    pool = {"name": "n", "generation": 2, "resourceSliceCount": 3}
    changed = api.replace(kind, None, "x", {**kept, "spec": sliced(pool=pool, devices=[])})[0].object
    assert changed["spec"]["pool"] == pool
    assert changed["metadata"]["generation"] == 2
    for more in ({"driver": "other.com"}, {"pool": {**pool, "name": "m"}}, {"nodeName": "m"}):
        with pytest.raises(StatusError, match="field is immutable"):
            api.replace(kind, None, "x", {**changed, "spec": {**changed["spec"], **more}})


def test_slices_are_found_by_node_and_driver_and_the_group_is_discovered(api: Api) -> None:
    kind = api.kind("resource.k8s.io", "v1", "resourceslices")
    made(api, "resourceslices", sliced(), "one")
    made(api, "resourceslices", sliced(nodeName="m", driver="other.com"), "two")
    for fields, names in (("spec.nodeName=n", ["one"]), ("spec.driver=other.com", ["two"])):
        matches = api.matcher(kind, "", fields)
        assert matches is not None
        found = [name for name in ("one", "two") if matches(api.get(kind, None, name).object)]
        assert found == names
    found = Discovery(api.registry).resources("resource.k8s.io", "v1")["resources"]
    assert [(one["name"], one["namespaced"]) for one in found] == [("deviceclasses", False), ("resourceslices", False)]
