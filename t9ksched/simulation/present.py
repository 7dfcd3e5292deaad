"""The live cluster at one moment, with all that a walk on virtual time starts from, and its form on paper."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

import msgspec
from msgspec import structs

from t9ksched.engine.plugins import Factory, PluginUse
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import Positions, RunningPodForm, View, load_with_classes, pieces, read_pods, running_pods
from t9ksched.model.card_forms import read_request
from t9ksched.model.gang import Gang, Member, RunningPod
from t9ksched.model.reasons import Reason

_TOGETHER: Final = 100


class Occupant(msgspec.Struct, frozen=True, gc=False):
    """A group that holds places. Times are nanoseconds since the epoch.

    Attributes:
        gang: the group as it would wait if it lost them all: its `waiting` are the members that hold a place.
        pods: these members, in the same order.
        started: when it got its places.
        ends: when it gives them back at the latest; 0 where nothing enforces an end.
        grace: nanoseconds that its pods take to end at most.
        evictable: whether it may be a victim; `evictions` and `guarded` are as in `Running`.
        remade: whether pods that it loses are made again.
    """

    gang: Gang
    pods: tuple[RunningPod, ...]
    started: int = 0
    ends: int = 0
    grace: int = 0
    evictable: bool = True
    evictions: int = 0
    guarded: bool = False
    remade: bool = True


@dataclass(frozen=True)
class Present:
    """A moment of the live cluster.

    Attributes:
        at: the moment, nanoseconds since the epoch.
        view: without `running` and `expected_ends`: `occupants` say both.
        stopped: why nothing is started at all; None when nothing is stopped.
        resumes: when that ends, nanoseconds since the epoch; 0 for no time that is known.
        later: groups of the view that do not start before a moment, by UID; nanoseconds since the epoch.
        turns: of groups that are submitted as elements of arrays, the array, and how many of it run at once at most, by
            UID. It is not on paper.
    """

    at: int
    view: View
    policy: Policy
    occupants: tuple[Occupant, ...] = ()
    stopped: Reason | None = None
    resumes: int = 0
    later: Mapping[str, int] = field(default_factory=dict)
    turns: Mapping[str, tuple[str, int]] = field(default_factory=dict)


class _Use(msgspec.Struct):
    name: str
    weight: int
    arguments: tuple[tuple[str, str], ...]


class PolicyForm(msgspec.Struct):
    """A policy on paper: of installed plugins their names and arguments, from which each process makes its own."""

    policy: Policy
    uses: list[_Use] = []

    @classmethod
    def of(cls, policy: Policy) -> "PolicyForm":
        """As it is written."""
        uses = [_Use(use.name, use.weight, use.arguments) for use in policy.plugins]
        return cls(replace(policy, plugins=()), uses)

    def read(self, installed: Callable[[], Mapping[str, Factory]]) -> Policy:
        """The policy, with plugins that are made by the factories of `installed`, which is asked if there are any.

        Raises:
            ValueError: a plugin is not installed here, or cannot be made.
        """
        plugins = []
        factories = installed() if self.uses else {}
        for use in self.uses:
            if use.name not in factories:
                raise ValueError(f"the plugin {use.name!r} is not installed")
            plugins.append(PluginUse(use.name, factories[use.name](dict(use.arguments)), use.weight, use.arguments))
        return replace(self.policy, plugins=tuple(plugins))


class _Occupant(msgspec.Struct):
    occupant: Occupant
    pods: list[RunningPodForm]
    labels: list[tuple[tuple[str, str], ...]]
    """One a pod, or none where no rule reads them."""


class _Present(msgspec.Struct):
    at: int
    policy: PolicyForm
    stopped: Reason | None
    resumes: int
    later: dict[str, int]
    occupants: list[_Occupant]
    view: msgspec.Raw


def written(present: Present) -> Iterator[bytes]:
    """The JSON of a present in pieces that take about a millisecond each."""
    position = Positions()
    encode = msgspec.json.encode
    head = (present.at, encode(PolicyForm.of(present.policy)), encode(present.stopped), present.resumes)
    later = encode(dict(present.later))
    yield b'{"at":%d,"policy":%s,"stopped":%s,"resumes":%d,"later":%s,"occupants":[' % (*head, later)
    forms = (_form(one, position) for one in present.occupants)
    comma = b""
    while some := list(islice(forms, _TOGETHER)):
        yield comma + encode(some)[1:-1]
        comma = b","
    yield b'],"view":'
    yield from pieces(present.view, position)
    yield b"}"


def _form(one: Occupant, position: Positions) -> _Occupant:
    bare = structs.replace(one, gang=structs.replace(one.gang, waiting=()), pods=())
    labelled = any(member.labels for member in one.gang.waiting)
    labels = [member.labels for member in one.gang.waiting] if labelled else []
    return _Occupant(bare, running_pods(one.pods, position), labels)


def read(text: bytes | msgspec.Raw, installed: Callable[[], Mapping[str, Factory]]) -> Present:
    """A present from what `written` gave; `installed` gives the factories of installed plugins.

    Raises:
        msgspec.ValidationError: the text is none; the message has the path.
        ValueError: its policy needs a plugin that is not installed, or cannot be made.
    """
    paper = msgspec.json.decode(text, type=_Present, dec_hook=read_request)
    view, classes = load_with_classes(paper.view)
    occupants = []
    for entry in paper.occupants:
        pods = read_pods(entry.pods, classes)
        gang = structs.replace(entry.occupant.gang, waiting=members(pods, entry.labels))
        occupants.append(structs.replace(entry.occupant, gang=gang, pods=pods))
    policy = paper.policy.read(installed)
    return Present(paper.at, view, policy, tuple(occupants), paper.stopped, paper.resumes, paper.later)


def members(pods: Sequence[RunningPod], labels: Sequence[tuple[tuple[str, str], ...]] = ()) -> tuple[Member, ...]:
    """The members that hold these places, as they would wait; `labels` has one entry a pod, or none at all."""
    found = zip(pods, labels or ((),) * len(pods), strict=True)
    return tuple(Member(pod.uid, pod.name, pod.role, pod.pod_class, own) for pod, own in found)
