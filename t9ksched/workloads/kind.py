"""A row of the table of kinds: everything that the rest of the project knows of one kind.

The code of a kind is named by its row as `module:name` below `workloads.kinds`, and imported when it is first used: the
table is read by commands that must start quickly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from t9ksched.model.api_resource import Resource

if TYPE_CHECKING:
    from t9ksched.workloads.controller import Controller
    from t9ksched.workloads.fields import Field
    from t9ksched.workloads.gangform import Foreign, GangForm
    from t9ksched.workloads.shape import Template

_KINDS: Final = "t9ksched.workloads.kinds"


@dataclass(frozen=True, slots=True)
class Stop:
    """How an object is stopped: merge patches.

    Attributes:
        patch: removes its pods, and keeps them removed.
        resume: resumes it; None if what it had before is not known.
        subresource: the part of the object that is patched, empty for the object itself.
    """

    patch: Mapping[str, Any]
    resume: Mapping[str, Any] | None = None
    subresource: str = ""


class Scale(msgspec.Struct, frozen=True):
    """Where an object says how many replicas it is to have while it runs: keys that lead there.

    Attributes:
        path: to the number.
        least: to the smallest number; empty: 1.
        most: to the largest number; empty: any.
        enabled: to a flag without which it cannot be scaled.
        pauses: whether it may be scaled to 0, which is how it is paused.
    """

    path: tuple[str, ...]
    least: tuple[str, ...] = ()
    most: tuple[str, ...] = ()
    enabled: tuple[str, ...] = ()
    pauses: bool = False


class Kind(msgspec.Struct, frozen=True):
    """One kind of workload.

    Attributes:
        resource: its API.
        reader: the function that reads its pod templates; empty for kinds that name no queue of their own.
        block: keys that lead to the scheduler block, empty if the kind has none.
        pod: keys that lead to the pod template that carries labels instead; empty for the Pod itself.
        short: further names of it on the command line.
        controller: the `Controller` by which our controllers turn it into pods; empty if others do.
        submitted: whether REST creates and deletes such objects. Kinds that the controllers of t9ksched handle always
            are.
        followed: `job` if the scheduler lists such objects with their state, `owner` if it follows them for the sake of
            the pods that they own, `no` if it learns of them by their pods alone.
        stop: how an object is stopped; None for a kind that can only be deleted.
        scale: how it is scaled while it runs; None for a kind that is not.
        endless: whether its pods are replaced until it is stopped.
        deploys: whether Deployments and the like of our controller make its pods, which are one group of it then.
        steps: whether others make its pods, one step after the other, and jobs and further objects of the kind that
            belong to it: whoever submitted it submitted them.
        gang: how its pods form a gang, of a kind that others turn into pods; None where each is placed by itself.
        foreign: what is particular to a kind of another project: its queue is named by a label or an annotation of the
            object, and clusters may not have it.
        phases: words of its status for its phase, and what they are among those that all jobs share.
    """

    resource: Resource
    reader: str = ""
    block: tuple[str, ...] = ("spec", "scheduler")
    pod: tuple[str, ...] | None = None
    short: tuple[str, ...] = ()
    controller: str = ""
    submitted: bool = False
    followed: Literal["no", "job", "owner"] = "no"
    stop: Stop | None = None
    scale: Scale | None = None
    endless: bool = False
    deploys: bool = False
    steps: bool = False
    gang: "GangForm | None" = None
    foreign: "Foreign | None" = None
    phases: tuple[tuple[str, str], ...] = ()

    def phase(self, status: Mapping[str, Any]) -> str:
        """What the status of an object of a kind of ours says of its phase, in the words that all jobs share."""
        word = str(status.get("phase") or "")
        return dict(self.phases).get(word, word)

    @property
    def name(self) -> str:
        """The kind as objects write it, with its group behind a dot where another kind has the same."""
        return self.resource.kind

    @property
    def api_version(self) -> str:
        """The apiVersion as objects write it."""
        return self.resource.api_version

    @property
    def controlled(self) -> bool:
        """Whether our controllers turn it into pods."""
        return bool(self.controller)

    @property
    def has_priority(self) -> bool:
        """Whether it names a priority; Kubernetes' own kinds and those of other projects do not."""
        return self.pod is None and self.foreign is None

    @property
    def readable(self) -> bool:
        """Whether it can name a queue of its own."""
        return bool(self.reader) or self.foreign is not None

    @property
    def read(self) -> "Callable[[Field], list[Template]]":
        """Reads its pod templates; faults go into the Field."""
        found: Callable[[Field], list[Template]]
        found = _code(self.reader) if self.reader else partial(_code("foreign:read"), self.gang)
        return found

    @property
    def control(self) -> "Controller":
        """What our controllers do for it; only for a kind that is `controlled`."""
        found: Controller = _code(self.controller)
        return found


@lru_cache(maxsize=256)
def _code(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(f"{_KINDS}.{module}"), name)
