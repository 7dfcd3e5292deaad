"""A pod class: everything about a pod that decides where it may run.

Replicas of a job are mostly alike. Pods with equal requests and constraints are one class and are placed together; the
class is the key of every cache of the engine. `intern` keeps one object a class, so that 100,000 pods share a few.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary, ref

import msgspec

from t9ksched.model.card_requests import MGPU_CORE
from t9ksched.model.card_size import CORES
from t9ksched.model.cardchoice import POLICIES, CardChoice
from t9ksched.model.cards import CardRequest, SharedCards
from t9ksched.model.labels import NodeSelector
from t9ksched.model.podrules import PodRules, PodTerm
from t9ksched.model.resources import is_accelerator, is_card_resource
from t9ksched.model.taints import Toleration


class HostPort(msgspec.Struct, frozen=True):
    """A port of the node that a pod takes. `ip` empty or 0.0.0.0 stands for all addresses."""

    port: int
    protocol: str = "TCP"
    ip: str = ""

    def conflicts(self, other: "HostPort") -> bool:
        """Whether both cannot be open on one node (the rule of kube-scheduler's NodePorts)."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        everywhere = ("", "0.0.0.0")
        return self.ip in everywhere or other.ip in everywhere or self.ip == other.ip


def ports_without(ports: tuple[HostPort, ...], those: Iterable[HostPort]) -> tuple[HostPort, ...]:
    """Open ports, each as often as pods have it, when these are closed. Raises ValueError if one is not open."""
    left = list(ports)
    for port in those:
        left.remove(port)
    return tuple(left)


class SharedVolume(NamedTuple):
    """A volume that several pods use: a node has it attached once, however many of them run there.

    Attributes:
        limit: the resource by which its driver counts volumes on a node.
        name: tells it from others.
    """

    limit: str
    name: str


class LeastUnit(NamedTuple):
    """The least that a card, slice or time slice must have: thousandths of a card's cores, MiB, and percent of a card's
    memory.
    """

    cores: int
    memory: int
    percent: int


@dataclass(frozen=True)
class PodClass:
    """Requests and hard constraints of a pod.

    Attributes:
        requests: effective requests in units (millicores, bytes, counts), sorted by resource, zeros left out, with
            `pods: 1`; card resources are in here too, by number.
        cards: what containers ask of cards, in the order containers get their indices.
        node_selector: `spec.nodeSelector`, sorted.
        node_affinity: required node affinity.
        tolerations, host_ports: as in the pod, sorted.
        volume_affinity: node affinities of the bound persistent volumes; every one must hold.
        volumes: those of its volumes with a limit a node that other pods use too, sorted; a volume that it alone uses
            is among its requests, by the resource of its driver.
        rules: about the pods around it, and its preferences.
        counted: terms of other pods' rules that select it; the engine sets this for the terms in use.
        choice: which cards it asks for beyond their number; None where it says nothing.
        unrecorded: its cards cannot be recorded now, so it is placed on no node that honours card indices.
        avoided: names of nodes that rejected a pod of its job a moment ago, sorted: it is kept off them for a while.
        containers: the names of all containers, init containers first, where it asks for cards and has several.
    """

    requests: tuple[tuple[str, int], ...] = (("pods", 1),)
    cards: tuple[CardRequest, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volume_affinity: tuple[NodeSelector, ...] = ()
    rules: PodRules | None = None
    counted: tuple[PodTerm, ...] = ()
    unrecorded: bool = False
    choice: CardChoice | None = None
    containers: tuple[str, ...] = ()
    volumes: tuple[SharedVolume, ...] = ()
    avoided: tuple[str, ...] = ()

    @cached_property
    def _hash(self) -> int:
        """No field: hashes differ between processes, and what is written of a class does not."""
        return hash(
            (
                self.requests,
                self.cards,
                self.node_selector,
                self.node_affinity,
                self.tolerations,
                self.host_ports,
                self.volume_affinity,
                self.rules,
                self.counted,
                self.unrecorded,
                self.choice,
                self.containers,
                self.volumes,
                self.avoided,
            )
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def asks(self) -> tuple[tuple[str, int], ...]:
        """What one pod needs of a node that has none of its volumes."""
        if not self.volumes:
            return self.requests
        counts = Counter(dict(self.requests))
        counts.update(volume.limit for volume in self.volumes)
        return tuple(sorted(counts.items()))

    @property
    def constraints(self) -> tuple[object, ...]:
        """What decides which nodes are allowed at all, apart from their free room: the key of a feasibility mask."""
        bounded = self.choice is not None and self.choice.most_cards > 0
        about_cards = (
            (self.requests, self.cards) if bounded else (),
            self.accelerated,
            self.plain,
            self.several,
            self.unrecorded,
            self.choice,
            self.least_unit,
            self.implied,
            self.policy,
            self.extended,
        )
        of_nodes = self.node_selector, self.node_affinity, self.tolerations, self.volume_affinity, self.avoided
        return (*of_nodes, about_cards)

    @cached_property
    def extended(self) -> tuple[str, ...]:
        """The resources it asks for that a node has from a device plugin, sorted."""
        return tuple(resource for resource, _ in self.requests if "/" in resource)

    @cached_property
    def accelerated(self) -> bool:
        """Whether it asks for cards, or for parts of cards under any name."""
        return bool(self.accelerators)

    @cached_property
    def accelerators(self) -> tuple[str, ...]:
        """The resources of those that it asks for, sorted."""
        return tuple(resource for resource, _ in self.requests if is_accelerator(resource))

    @cached_property
    def plain(self) -> bool:
        """Whether it asks for whole cards by name, which may be parts of cards on some nodes."""
        return any(is_card_resource(cards.resource) for cards in self.cards)

    @cached_property
    def least_unit(self) -> LeastUnit | None:
        """What each unit must have of which it asks for a part by the name of whole cards; None if of none."""
        parts = [each for each in self.cards if isinstance(each, SharedCards) and is_card_resource(each.resource)]
        if not parts:
            return None
        return LeastUnit(
            max(each.cores for each in parts),
            max(each.memory for each in parts),
            max(each.memory_percent for each in parts),
        )

    @cached_property
    def implied(self) -> bool:
        """Whether a container names parts of a card and no number of cards."""
        return any(isinstance(each, SharedCards) and each.implied for each in self.cards)

    @cached_property
    def policy(self) -> str:
        """How nodes of mGPU must share the cores of their cards for it; empty if it asks for no parts of them."""
        parts = (each for each in self.cards if isinstance(each, SharedCards) and each.cores < CORES)
        if not any(each.resource == MGPU_CORE for each in parts):
            return ""
        return (self.choice.policy if self.choice is not None else "") or POLICIES[0]

    @cached_property
    def several(self) -> bool:
        """Whether a container asks for more than one card of a resource."""
        return any(cards.count > 1 for cards in self.cards)

    def cards_of(self, resource: str) -> tuple[CardRequest, ...]:
        """What its containers ask of cards of a resource, in order."""
        return tuple(one for one in self.cards if one.resource == resource)

    @cached_property
    def card_counts(self) -> dict[str, int]:
        """Cards the pod holds while it runs, by resource: the larger of main containers with sidecars, and init."""
        requests = dict(self.requests)
        found: dict[str, int] = {}
        for resource in sorted({cards.resource for cards in self.cards}):
            asked = [cards for cards in self.cards if cards.resource == resource]
            if not is_card_resource(resource) or any(isinstance(cards, SharedCards) for cards in asked):
                running = sum(cards.count for cards in asked if cards.kind != "init")
                beside = sum(cards.count for cards in asked if cards.kind == "sidecar")
                before = max((cards.count for cards in asked if cards.kind == "init"), default=0)
                found[resource] = max(running, beside + before)
            else:
                found[resource] = requests[resource]
        return found


class ClassTable:
    """Interns pod classes. It keeps none alive: a class that no pod, row or cache refers to is forgotten."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[PodClass, ref[PodClass]] = WeakKeyDictionary()

    def intern(self, pod_class: PodClass) -> PodClass:
        """The one object that stands for this class."""
        known = self._known.get(pod_class)
        found = known() if known is not None else None
        if found is None:
            self._known[pod_class] = ref(pod_class)
            return pod_class
        return found
