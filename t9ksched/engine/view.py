"""What one cycle decides on, as one value.

A view is everything `plan` reads: the nodes at one moment, the queues with what they use, the gangs that ask for room
and the room already promised. `dump` and `load` write and read it; the plan of a copy equals the plan of the original.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

import msgspec
from msgspec import structs

from t9ksched.engine.members import with_kinds
from t9ksched.engine.nodes import FrozenNodes, NodeTable
from t9ksched.model.card_forms import read_request
from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.gang import ExpectedEnd, Gang, Member, Neighbours, Running, RunningPod
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import ClassTable, HostPort, PodClass, SharedVolume
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reservation import Reservation
from t9ksched.model.reserved_room import ReservedRoom


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue and what its placed pods use, in units by resource (bindings in flight included)."""

    spec: QueueSpec = field(default_factory=QueueSpec)
    used: Mapping[str, int] = field(default_factory=dict)
    draining: bool = False


@dataclass(frozen=True)
class View:
    """The cluster at one moment: nodes, queues, waiting gangs, reservations, and gangs that may be evicted.

    Attributes:
        running: groups whose members hold places, with nothing of theirs still being bound. Only preemption reads them,
            so a shell that does not preempt leaves them out. Passing the same value again saves work, and so does
            one that shares parts with the one before (`parted.py`).
        neighbours: pods that have a place, needed only while some pod, waiting or placed, has rules about others.
        namespaces: labels by namespace, for rules that select namespaces.
        expected_ends: when gangs give their room back; only planned starts read them. Gangs that it does not name are
            never expected to end.
        reserved: what administrators reserved, one value for each time span.
        usual: classes of pods that have arrived so far, and how many of each, for policies that pack cards for them
            (`engine.usual_pods`).
    """

    nodes: FrozenNodes
    queues: Mapping[str, QueueState] = field(default_factory=dict)
    gangs: tuple[Gang, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    running: Sequence[Running] = ()
    neighbours: tuple[Neighbours, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    expected_ends: tuple[ExpectedEnd, ...] = ()
    reserved: tuple[ReservedRoom, ...] = ()
    usual: tuple[tuple[PodClass, int], ...] = ()


class _Node(msgspec.Struct):
    facts: NodeFacts
    generation: int
    used: dict[str, int]
    cards_used: CardGrant
    ports: tuple[HostPort, ...]
    volumes: tuple[tuple[str, str, int], ...] = ()


class _Member(msgspec.Struct):
    uid: str
    name: str
    role: str
    pod_class: int
    labels: tuple[tuple[str, str], ...] = ()


class _Gang(msgspec.Struct):
    gang: Gang
    waiting: list[_Member]


class _Reservation(msgspec.Struct):
    reservation: Reservation
    pod_class: int


class RunningPodForm(msgspec.Struct):
    """A running pod as a dump has it."""

    uid: str
    name: str
    role: str
    node: str
    pod_class: int
    cards: CardGrant = NO_CARDS
    leaving: bool = False
    asked: bool = True
    kept: bool = False


class _Running(msgspec.Struct):
    running: Running
    pods: list[RunningPodForm]


class _ExpectedEnd(msgspec.Struct):
    gang: str
    queue: str
    at: int
    rooms: list[tuple[str, int, int]]
    parts: tuple[tuple[str, CardGrant], ...] = ()


class _ReservedRoom(msgspec.Struct):
    room: ReservedRoom
    inside: list[tuple[str, str, int, int]]


class _Dump(msgspec.Struct):
    """The JSON form of a view. Pod classes are written once and named by their position."""

    nodes: list[_Node]
    queues: dict[str, QueueState]
    classes: list[PodClass]
    gangs: list[_Gang]
    reservations: list[_Reservation]
    running: list[_Running]
    neighbours: tuple[Neighbours, ...] = ()
    namespaces: dict[str, dict[str, str]] = {}
    expected_ends: list[_ExpectedEnd] = []
    reserved: list[_ReservedRoom] = []
    usual: list[tuple[int, int]] = []


_ANY_CLASS = PodClass()
_TOGETHER: Final = 100
"""Nodes, gangs and the like that make a piece of a dump."""


class Positions(dict[PodClass, int]):
    """Pod classes by the position at which a document lists them; those asked for are added."""

    def __missing__(self, pod_class: PodClass) -> int:
        found = self[pod_class] = len(self)
        return found


def dump(view: View) -> bytes:
    """The view as JSON."""
    return b"".join(pieces(view, Positions()))


def pieces(view: View, position: Positions) -> Iterator[bytes]:
    """The JSON of the view in pieces that take about a millisecond each; joined they are what `dump` gives. What is
    written of other things before the last piece may use the same positions of classes.
    """
    nodes, static = view.nodes, view.nodes.static
    parts: dict[str, Iterator[object]] = {
        "nodes": (
            _Node(
                facts=static.facts[row],
                generation=static.generation[row],
                used={
                    name: int(nodes.used[at, row]) for at, name in enumerate(static.resources) if nodes.used[at, row]
                },
                cards_used=static.cards.grant(nodes.cards_used, row),
                ports=nodes.ports.get(static.names[row], ()),
                volumes=tuple(
                    (*volume, count) for volume, count in sorted(nodes.volumes.get(static.names[row], {}).items())
                ),
            )
            for row in range(len(nodes))
        ),
        "gangs": (_Gang(structs.replace(gang, waiting=()), _members(gang, position)) for gang in view.gangs),
        "reservations": (
            _Reservation(replace(reservation, pod_class=_ANY_CLASS), position[reservation.pod_class])
            for reservation in view.reservations
        ),
        "running": (
            _Running(structs.replace(group, pods=()), running_pods(group.pods, position)) for group in view.running
        ),
        "neighbours": iter(view.neighbours),
        "expected_ends": (
            _ExpectedEnd(
                one.gang, one.queue, one.at, [(node, position[of], pods) for node, of, pods in one.rooms], one.parts
            )
            for one in view.expected_ends
        ),
        "reserved": (
            _ReservedRoom(
                structs.replace(room, inside=()),
                [(gang, node, position[of], pods) for gang, node, of, pods in room.inside],
            )
            for room in view.reserved
        ),
        "usual": ((position[of], count) for of, count in view.usual),
    }
    encode = msgspec.json.encode
    yield b'{"queues":%s' % encode(view.queues)
    for name, values in parts.items():
        yield b',"%s":[' % name.encode()
        comma = b""
        while some := list(islice(values, _TOGETHER)):
            yield comma + encode(some)[1:-1]
            comma = b","
        yield b"]"
    namespaces = {name: dict(labels) for name, labels in view.namespaces.items()}
    yield b',"namespaces":%s,"classes":%s}' % (encode(namespaces), encode(list(position)))


def load(text: bytes | msgspec.Raw) -> View:
    """A view from what `dump` wrote.

    Raises:
        msgspec.ValidationError: the text is no dump of a view; the message has the path.
    """
    return load_with_classes(text)[0]


def load_with_classes(text: bytes | msgspec.Raw) -> tuple[View, list[PodClass]]:
    """A view and the classes of its pods by position, for what was written beside it; errors as in `load`."""
    paper = msgspec.json.decode(text, type=_Dump, dec_hook=read_request)
    table = ClassTable()
    classes = [table.intern(pod_class) for pod_class in paper.classes]
    view = View(
        nodes=_nodes(paper.nodes),
        queues=paper.queues,
        gangs=tuple(
            structs.replace(
                entry.gang,
                waiting=with_kinds(
                    Member(m.uid, m.name, m.role, classes[m.pod_class], m.labels) for m in entry.waiting
                ),
            )
            for entry in paper.gangs
        ),
        reservations=tuple(
            replace(entry.reservation, pod_class=classes[entry.pod_class]) for entry in paper.reservations
        ),
        running=tuple(structs.replace(entry.running, pods=read_pods(entry.pods, classes)) for entry in paper.running),
        neighbours=paper.neighbours,
        namespaces=paper.namespaces,
        expected_ends=tuple(
            ExpectedEnd(
                one.gang, one.queue, one.at, tuple((node, classes[of], pods) for node, of, pods in one.rooms), one.parts
            )
            for one in paper.expected_ends
        ),
        reserved=tuple(
            structs.replace(
                entry.room, inside=tuple((gang, node, classes[of], pods) for gang, node, of, pods in entry.inside)
            )
            for entry in paper.reserved
        ),
        usual=tuple((classes[of], count) for of, count in paper.usual),
    )
    return view, classes


def _members(gang: Gang, position: Positions) -> list[_Member]:
    return [_Member(m.uid, m.name, m.role, position[m.pod_class], m.labels) for m in gang.waiting]


def running_pods(pods: Iterable[RunningPod], position: Positions) -> list[RunningPodForm]:
    """Running pods as they are written."""
    return [
        RunningPodForm(
            pod.uid,
            pod.name,
            pod.role,
            pod.node,
            position[pod.pod_class],
            pod.cards,
            pod.leaving,
            pod.asked,
            pod.kept,
        )
        for pod in pods
    ]


def read_pods(forms: Iterable[RunningPodForm], classes: Sequence[PodClass]) -> tuple[RunningPod, ...]:
    """Running pods from what was written."""
    return tuple(
        RunningPod(
            pod.uid,
            pod.name,
            pod.role,
            classes[pod.pod_class],
            pod.node,
            pod.cards,
            pod.leaving,
            pod.asked,
            pod.kept,
        )
        for pod in forms
    )


def _nodes(entries: list[_Node]) -> FrozenNodes:
    nodes = NodeTable()
    for entry in entries:
        row = nodes.upsert(entry.facts)
        nodes.generation[row] = entry.generation
        used = PodClass(requests=tuple(sorted(entry.used.items())), host_ports=entry.ports)
        nodes.charge(row, used, entry.cards_used)
        nodes.restore(entry.facts.name, {SharedVolume(limit, name): count for limit, name, count in entry.volumes})
    return nodes.freeze()
