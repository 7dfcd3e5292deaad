"""A journal changed by hand: each object that the cluster cannot use is named with its line before anything starts."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from t9ksched.devcluster.apiserver import shapes
from t9ksched.devcluster.apiserver.journal import CorruptJournal, Journal
from t9ksched.devcluster.cluster import DevCluster

Object = dict[str, Any]
GROUP_NAME = "scheduler.tensorstack.dev"
POD = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}
NODE = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8", "pods": "110"}}}
GROUP = {
    "apiVersion": f"{GROUP_NAME}/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"minMember": 2},
}


@pytest.fixture
async def lines(tmp_path: Path) -> list[list[Any]]:
    """The journal of a cluster with some objects."""
    directory = tmp_path / "before"
    cluster = DevCluster(directory, [NODE], controllers=False)
    await cluster.start()
    try:
        cluster.api.create(cluster.api.kind("", "v1", "pods"), "default", copy.deepcopy(POD))
        kind = cluster.api.registry.by_kind(GROUP_NAME, "PodGroup")
        assert kind is not None
        cluster.api.create(kind, "default", copy.deepcopy(GROUP))
    finally:
        await cluster.stop()
    return [msgspec.json.decode(line) for line in (directory / "cluster.journal").read_bytes().splitlines()]


def _without(*path: str) -> Callable[[Object], None]:
    def change(obj: Object) -> None:
        for part in path[:-1]:
            obj = obj[part]
        del obj[path[-1]]

    return change


def _with(value: Any, *path: str | int) -> Callable[[Object], None]:
    def change(obj: Any) -> None:
        for part in path[:-1]:
            obj = obj[part]
        obj[path[-1]] = value

    return change


CRD = f"podgroups.{GROUP_NAME}"
CPU = ("spec", "containers", 0, "resources", "requests", "cpu")


@pytest.mark.parametrize(
    ("key", "change", "told"),
    [
        ("default/p", dict.clear, "no metadata"),
        ("default/p", _with([], "metadata"), "metadata is no object"),
        ("default/p", _without("metadata", "uid"), "metadata.uid"),
        ("default/p", _with("q", "metadata", "name"), "default/q"),
        ("default/p", _without("metadata", "namespace"), "names p"),
        ("default/p", _with("now", "metadata", "creationTimestamp"), "creationTimestamp"),
        ("default/p", _with({"a": 1}, "metadata", "labels"), "metadata.labels"),
        ("default/p", _with("Node", "kind"), "kind"),
        ("default/p", _without("spec"), "no spec"),
        ("default/p", _without("spec", "containers"), "spec.containers"),
        ("default/p", _with("many", "spec", "containers"), "spec.containers"),
        ("default/p", _with("1 apple", *CPU), "quantities"),
        ("n", _with({"cpu": [8]}, "status", "capacity"), "status.capacity"),
        ("n", _with({"cpu": "eight"}, "status", "allocatable"), "status.allocatable"),
        ("n", _with("default", "metadata", "namespace"), "default/n"),
        ("default/g", _with("two", "spec", "minMember"), "minMember"),
        ("default/g", _with([], "spec"), "spec"),
        ("default/g", _with("Group", "kind"), "kind"),
        (CRD, _without("spec", "names", "plural"), "spec.names.plural"),
        (CRD, _with([], "spec", "versions"), "spec.versions"),
        (CRD, _without("spec", "versions", 0, "schema"), "versions"),  # type: ignore[arg-type]
        (CRD, _without("status"), "status"),
    ],
)
async def test_an_object_of_the_wrong_shape_is_named(
    lines: list[list[Any]], tmp_path: Path, key: str, change: Callable[[Object], None], told: str
) -> None:
    changed = copy.deepcopy(lines)
    number = max(number for number, line in enumerate(changed, start=1) if line[1] == key)
    change(changed[number - 1][3])
    file = tmp_path / "cluster.journal"
    raw = b"".join(msgspec.json.encode(line) + b"\n" for line in changed)
    file.write_bytes(raw)
    cluster = DevCluster(tmp_path, [NODE])
    with pytest.raises(CorruptJournal) as caught:
        await cluster.start()
    message = str(caught.value)
    assert message.startswith(f"{file}, line {number} ({changed[number - 1][0]} {key}): ")
    assert told in message
    assert "restore it from a copy" in message
    assert file.read_bytes() == raw


@pytest.mark.parametrize(
    "line",
    [b'["pods","a\xff",5,null]', b'["pods","a",5,' + b'{"a":' * 100_000, b'["pods","a",-5,null]', b"[]", b"{}"],
    ids=["no text", "deep", "version", "empty", "object"],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "cluster.journal").write_bytes(b'["","",4,null]\n' + line + b"\n")
    journal = Journal(tmp_path, shapes.faults)
    with pytest.raises(CorruptJournal, match="line 2"):
        journal.open()


def test_a_journal_that_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.journal").mkdir()
    with pytest.raises(CorruptJournal, match=r"cluster\.journal cannot be read"):
        Journal(tmp_path).open()


async def test_what_a_cluster_wrote_has_its_shape(lines: list[list[Any]], tmp_path: Path) -> None:
    (tmp_path / "cluster.journal").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    cluster = DevCluster(tmp_path, [NODE])
    await cluster.start()
    await cluster.stop()
