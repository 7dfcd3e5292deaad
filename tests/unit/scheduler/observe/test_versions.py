"""An object that a server shows in two versions is taken once."""

import sys
from unittest.mock import Mock

import pytest

from t9ksched.model.pod import Metadata
from t9ksched.scheduler.observe.informers import Informers
from t9ksched.scheduler.observe.versions import Versions
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.state import ClusterState


class Taken:
    """Says what became of objects, such as `new a`, `old a` and `gone a`."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.versions = Versions(lambda obj: self.said.append(f"gone {obj.metadata.uid}"))
        for name in ("new", "old"):
            self.versions.add(lambda obj, name=name: self.said.append(f"{name} {obj.metadata.uid}"))  # type: ignore[misc]

    def put(self, place: int, uid: str = "a") -> list[str]:
        self.versions.upsert(place, JobObject(Metadata(uid=uid)))
        return self.said

    def drop(self, place: int, *, served: bool = True) -> list[str]:
        self.versions.remove(place, "a", served=served)
        return self.said


def test_the_first_version_counts_in_whatever_order_they_come() -> None:
    assert Taken().put(0) == ["new a"]
    taken = Taken()
    assert (taken.put(1), taken.put(0), taken.put(1), taken.put(1, "b")) == (taken.said,) * 4
    assert taken.said == ["old a", "new a", "old b"]


def test_what_is_deleted_is_gone_in_all_versions() -> None:
    for first in (0, 1):
        taken = Taken()
        taken.put(0)
        taken.put(1)
        taken.drop(first)
        taken.put(1 - first) if first == 0 else taken.drop(1 - first)
        assert taken.said == ["new a", "gone a"]
        assert taken.drop(1 - first) == ["new a", "gone a"]


def test_a_version_that_is_not_served_any_more_leaves_objects_to_the_next() -> None:
    taken = Taken()
    taken.put(0)
    taken.put(1)
    assert taken.drop(0, served=False) == ["new a", "old a"]
    assert taken.put(0) == ["new a", "old a", "new a"]
    assert taken.drop(1, served=False) == ["new a", "old a", "new a"]
    assert taken.drop(0, served=False)[3:] == ["gone a"]
    assert taken.put(0)[4:] == ["new a"]


@pytest.mark.parametrize(("kind", "kept"), [("Job", 0), ("PyTorchTrainingJob", 0), ("MPIJob.kubeflow.org", 1)])
def test_objects_of_kinds_in_one_version_are_not_kept(kind: str, kept: int) -> None:
    """There may be a hundred thousand of them, some KB each."""
    informers = Informers(Mock(), ClusterState(), Mock(), lambda: None)
    reflector = next(one for one in informers.reflectors() if one.res.kind == kind)
    obj = JobObject(Metadata(name="a", namespace="ns", uid="a"))
    before = sys.getrefcount(obj)
    reflector._handler.on_upsert(obj)
    assert sys.getrefcount(obj) == before + kept
