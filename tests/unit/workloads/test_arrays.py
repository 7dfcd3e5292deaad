"""Job arrays: how they are written, and the objects that become of one."""

import re
from typing import Any

import pytest

from t9ksched.model.names import ARRAY_ANNOTATION, ARRAY_LABEL
from t9ksched.workloads.arrays import MOST, Array, Element, elements, read_array, read_element
from t9ksched.workloads.read import read
from tests.unit.workloads.builders import mpi_v2, pytorch

POD_SPEC = {"containers": [{"name": "a", "image": "i"}]}


@pytest.mark.parametrize(
    ("text", "indices", "most"),
    [
        ("0-3", (0, 1, 2, 3), None),
        ("7", (7,), None),
        ("1,3,5-9:2", (1, 3, 5, 7, 9), None),
        ("5, 1-2 %2", (1, 2, 5), 2),
        ("0-10:4%100", (0, 4, 8), 100),
        ("3,3,1-4", (1, 2, 3, 4), None),
        (f"0-{MOST - 1}", tuple(range(MOST)), None),
        ("999999", (999_999,), None),
    ],
)
def test_indices_are_written_as_for_slurm(text: str, indices: tuple[int, ...], most: int | None) -> None:
    assert read_array(text) == Array(indices, most)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "'' is no array: write indices such as 0-99"),
        ("a-b", "'a-b' is no array"),
        ("-1", "'-1' is no array"),
        ("1,,2", "'1,,2' is no array"),
        ("5-1", "5-1 ends before it begins, at 5"),
        ("0-9:0", "0-9:0 has the step 0"),
        ("0-9%0", "'0-9%0' ends in %0, which is no number of 1 or more"),
        ("0-9%", "ends in %,"),
        ("0-9%x", "ends in %x"),
        (f"0-{MOST}", f"has {MOST + 1} elements, and an array has {MOST} at most"),
        ("0-999999999999", "has 1000000000000 elements, and an array has 1000 at most"),
        ("0-999,0-999", "has 2000 elements"),
        ("1000000", "has the index 1000000, and the largest is 999999"),
        ("9" * 5000, "is no array"),
    ],
)
def test_what_is_no_array_or_too_large_is_told(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)) as error:
        read_array(text)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize(
    ("text", "element"),
    [
        ("sweep[7]%8", Element("sweep", 7, 8)),
        ("sweep%8", Element("sweep", None, 8)),
        ("sweep[7]", Element("sweep", 7)),
        (" sweep ", Element("sweep")),
        ("sweep%0", None),
        ("Sweep", None),
        ("sweep[x]", None),
        ("sweep[7", None),
        ("", None),
        ("a" * 64, None),
    ],
)
def test_an_element_names_its_array(text: str, element: Element | None) -> None:
    if element is None:
        with pytest.raises(ValueError, match="names no array"):
            read_element(text)
    else:
        assert read_element(text) == element
        assert read_element(str(element)) == element


def env(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


def test_each_element_has_its_name_its_label_and_its_index() -> None:
    spec = {
        "containers": [
            {"name": "a", "image": "i", "env": [{"name": "X", "value": "$(T9K_ARRAY_INDEX)"}]},
            {"name": "b", "image": "i", "env": [{"name": "T9K_ARRAY_INDEX", "value": "mine"}]},
        ],
        "initContainers": [{"name": "c", "image": "i"}],
    }
    meta = {"name": "sweep", "labels": {"team": "a"}, "annotations": {"x": "y"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": spec}}}
    made = elements(job, Array((2, 5), 3))
    assert [one["metadata"]["name"] for one in made] == ["sweep-2", "sweep-5"]
    last = made[-1]
    assert last["metadata"]["labels"] == {"team": "a", ARRAY_LABEL: "sweep"}
    assert last["metadata"]["annotations"] == {"x": "y", ARRAY_ANNOTATION: "sweep[5]%3"}
    assert last["spec"]["template"]["metadata"]["annotations"] == {ARRAY_ANNOTATION: "sweep[5]%3"}
    template = last["spec"]["template"]["spec"]
    first, second = template["containers"]
    assert list(env(first).items()) == [("T9K_ARRAY_INDEX", "5"), ("X", "$(T9K_ARRAY_INDEX)")]
    assert env(second) == env(template["initContainers"][0]) == {"T9K_ARRAY_INDEX": "5"}
    assert job["metadata"] == {"name": "sweep", "labels": {"team": "a"}, "annotations": {"x": "y"}}, "left as it was"
    assert "metadata" not in job["spec"]["template"]


@pytest.mark.parametrize("obj", [pytorch(replicas=2), mpi_v2()])
def test_all_replica_types_have_it(obj: dict[str, Any]) -> None:
    (made,) = elements(obj, Array((4,)))
    containers = [one for template in read(made).templates for one in template.spec["containers"]]
    assert containers
    assert all(env(one)["T9K_ARRAY_INDEX"] == "4" for one in containers)


def test_a_launcher_that_was_left_open_stays_so() -> None:
    job = mpi_v2()
    job["spec"]["replicaSpecs"][0] = {"type": "launcher", "template": {}}
    (made,) = elements(job, Array((4,)))
    launcher, worker = (template.spec["containers"][0] for template in read(made).templates)
    assert made["spec"]["replicaSpecs"][0]["template"] == {}
    assert env(launcher) == env(worker) == {"T9K_ARRAY_INDEX": "4"}


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("PodGroup", "a", "PyTorchTrainingJob, TensorFlowTrainingJob or XGBoostTrainingJob, not of a PodGroup"),
        ("Notebook", "a", "not of a Notebook"),
        ("Pod", "a.b", "'a.b' is no name of an array"),
        ("Pod", "a" * 64, "is no name of an array"),
        ("Pod", "", "'' is no name of an array"),
        ("Pod", "a" * 62, "has 62 characters, and with '-1' that of an element would exceed 63: use at most 61"),
    ],
)
def test_of_other_kinds_and_names_there_are_no_arrays(kind: str, name: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        elements({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": POD_SPEC}, Array((1,)))
