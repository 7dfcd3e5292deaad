"""What a simulated node has and which pods occupy it: the admission check of its kubelet.

A pod that was bound here is admitted if the node really has room for it, else refused with the reason a kubelet gives:
`OutOf<resource>`, `NodeAffinity`, `NodePorts`, `TaintToleration`, or `UnexpectedAdmissionError` for cards. An extended
resource that the node does not list at all is not checked and not given, as by a real kubelet: the pod runs without it.
The check reads only this node, so its cost does not grow with the cluster.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from t9ksched.devcluster.nodes import deviceplugin, koordinatorhook
from t9ksched.devcluster.nodes.deviceplugin import CardsRefused, Given, Rack
from t9ksched.devcluster.nodes.gpushareplugin import GpuShareCards
from t9ksched.devcluster.nodes.hamiplugin import HamiCards
from t9ksched.devcluster.nodes.mgpuplugin import MgpuCards
from t9ksched.model.card_requests import with_count
from t9ksched.model.cards import CardRequest, ContainerKind, WholeCards
from t9ksched.model.errors import Invalid
from t9ksched.model.names import HONOURS_INDEX, SCHEDULER_NAME
from t9ksched.model.node import NodeFacts, decode_node, node_facts
from t9ksched.model.pod import Container, PodSpec, declared, decode_pod, pod_class
from t9ksched.model.podclass import HostPort, PodClass
from t9ksched.model.quantity import QuantityError, from_units, is_extended
from t9ksched.model.resources import NVIDIA_GPU, is_card_resource

Object = dict[str, Any]


class PodRefused(Exception):
    """The kubelet does not admit a pod; `reason` is what it writes into the pod's status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class _Occupant(msgspec.Struct, frozen=True):
    requests: tuple[tuple[str, int], ...]
    ports: tuple[HostPort, ...]


class NodeRoom:
    """One node: its amounts, the pods that occupy it, and its racks of cards."""

    def __init__(self, node: Object) -> None:
        self.used: dict[str, int] = {}
        self.occupants: dict[str, _Occupant] = {}
        self.racks: dict[str, Rack] = {}
        self.shared = MgpuCards()
        self.hami = HamiCards(node["metadata"]["name"])
        self.gpushare = GpuShareCards(node["metadata"]["name"])
        self._read: dict[str, PodClass] = {}
        """By uid: what pods that are promised room ask for."""
        self.update(node)

    def update(self, node: Object) -> None:
        """Take over a newer state of the node object; occupants stay."""
        self.facts: NodeFacts = node_facts(decode_node(node))
        self.listed = frozenset((node.get("status") or {}).get("allocatable") or {})
        addresses = (node.get("status") or {}).get("addresses") or []
        self.address = next((entry["address"] for entry in addresses if entry.get("type") == "InternalIP"), "")
        self.hami.update(node["metadata"].get("annotations") or {})
        # A device plugin has a device for each unit that it offers, be it a card or a part of one. That of HAMi is
        # asked beforehand.
        devices = {name: count for name, count in self.facts.allocatable.items() if is_card_resource(name)}
        if self.hami.cards:
            devices.pop(NVIDIA_GPU, None)
        for resource, count in devices.items():
            self.racks.setdefault(resource, Rack()).count = count
        for resource in self.racks.keys() - devices.keys():
            self.racks[resource].count = 0
        self.shared.update(self.facts.allocatable)
        self.gpushare.update(self.facts.allocatable)

    @property
    def honours(self) -> bool:
        """Whether containers get the cards that our annotation names."""
        return self.facts.card_mode == HONOURS_INDEX

    def promise(self, pod: Object) -> None:
        """Note the cards that a bound pod was promised, until it is admitted or goes."""
        try:
            uid = pod["metadata"]["uid"]
            wanted = self._read[uid] = _read(pod)
            request = deviceplugin.requested(_annotations(pod), wanted.cards)
        except (PodRefused, CardsRefused):
            return  # its admission reports the fault
        for cards in request.values():
            for resource, indices in cards.items():
                for index in indices:
                    self.racks.setdefault(resource, Rack()).promised.setdefault(index, uid)

    def restore(self, pod: Object) -> None:
        """Add a pod that runs here already, without a check of what it occupies."""
        try:
            wanted = self._of_listed(_read(pod))
        except PodRefused:
            return
        uid = pod["metadata"]["uid"]
        self._occupy(uid, wanted)
        self.shared.restore(pod)
        self.hami.restore(pod)
        for cards in deviceplugin.recorded(_annotations(pod), wanted.cards).values():
            for resource, indices in cards.items():
                for index in indices:
                    self.racks.setdefault(resource, Rack()).holders.setdefault(index, uid)

    def admit(self, pod: Object) -> dict[str, str]:
        """Give the pod its room and its cards.

        Returns:
            the annotations that record the cards given; none for a container that got what a node that honours
            requests was asked for, unless another scheduler placed the pod.

        Raises:
            PodRefused: the node cannot take it; nothing is occupied then.
        """
        uid = pod["metadata"]["uid"]
        known = self._read.pop(uid, None)
        wanted = self._of_listed(known or _read(pod))
        self._check(wanted)
        try:
            others = tuple(each for each in wanted.cards if not self.hami.cards or each.resource != NVIDIA_GPU)
            request = deviceplugin.requested(_annotations(pod), others) if self.honours else {}
            parts = self.shared.give(pod)
            given = deviceplugin.give(self.racks, uid, others, request, self.honours)
        except CardsRefused as error:
            self.shared.release(uid)
            raise PodRefused("UnexpectedAdmissionError", f"node {self.facts.name}: {error}") from None
        self._occupy(uid, wanted)
        for rack in self.racks.values():
            rack.promised = {index: owner for index, owner in rack.promised.items() if owner != uid}
        record = parts | deviceplugin.annotations_for(given, request)
        if koordinatorhook.manages(self.listed):
            record |= koordinatorhook.environment(pod)
        if given and _foreign(pod):
            record |= deviceplugin.announced(given, _annotations(pod))
        return record

    def _of_listed(self, wanted: PodClass) -> PodClass:
        """Without extended resources that the node does not list."""
        missing = {name for name in wanted.extended if is_extended(name) and name not in self.listed}
        if not missing:
            return wanted
        requests = tuple((name, amount) for name, amount in wanted.requests if name not in missing)
        return replace(
            wanted, requests=requests, cards=tuple(one for one in wanted.cards if one.resource not in missing)
        )

    def release(self, uid: str) -> None:
        """Free the room of a pod that was deleted or has ended."""
        occupant = self.occupants.pop(uid, None)
        if occupant is not None:
            for resource, amount in occupant.requests:
                self.used[resource] -= amount
        self._read.pop(uid, None)
        self.shared.release(uid)
        self.hami.release(uid)
        deviceplugin.release(self.racks, uid)

    def _occupy(self, uid: str, wanted: PodClass) -> None:
        self.occupants[uid] = _Occupant(wanted.requests, wanted.host_ports)
        for resource, amount in wanted.requests:
            self.used[resource] = self.used.get(resource, 0) + amount

    def _check(self, wanted: PodClass) -> None:
        name, labels = self.facts.name, self.facts.labels
        for key, value in wanted.node_selector:
            if labels.get(key) != value:
                raise PodRefused("NodeAffinity", f"node {name} has not the label {key}={value} that the pod selects")
        if wanted.node_affinity is not None and not wanted.node_affinity.matches(labels, name):
            raise PodRefused(
                "NodeAffinity", f"node {name} is not one of those the pod requires: {wanted.node_affinity}"
            )
        for taint in self.facts.taints:
            if taint.effect == "NoExecute" and not any(t.tolerates(taint) for t in wanted.tolerations):
                raise PodRefused("TaintToleration", f"node {name} has the taint {taint} that the pod does not tolerate")
        for resource, amount in wanted.requests:
            has, used = self.facts.allocatable.get(resource, 0), self.used.get(resource, 0)
            if used + amount > has:
                asked, taken, whole = (from_units(resource, units) for units in (amount, used, has))
                raise PodRefused(
                    f"OutOf{resource}", f"node {name}: {resource} requested {asked}, used {taken}, allocatable {whole}"
                )
        for port in wanted.host_ports:
            if any(port.conflicts(other) for occupant in self.occupants.values() for other in occupant.ports):
                raise PodRefused("NodePorts", f"port {port.port}/{port.protocol} of node {name} is taken")


def cards_of(pod: Object) -> Given:
    """The cards that each container of a pod that runs here has, as its annotations say.

    Raises:
        PodRefused: the pod cannot be read.
    """
    return deviceplugin.recorded(_annotations(pod), _read(pod).cards)


def _annotations(pod: Object) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def _foreign(pod: Object) -> bool:
    """Whether another than this scheduler placed the pod."""
    return pod["spec"].get("schedulerName") != SCHEDULER_NAME or decode_pod(pod).put_there


def _devices(spec: PodSpec) -> Iterator[CardRequest]:
    """What containers ask of device plugins that give whole cards: so many devices, whatever annotations say."""
    for container in spec.containers:
        yield from _of_container(container, "main")
    for container in spec.init_containers or ():
        yield from _of_container(container, "sidecar" if container.restart_policy == "Always" else "init")


def _of_container(container: Container, kind: ContainerKind) -> Iterator[CardRequest]:
    for name, count in sorted(with_count(declared(container.resources)).items()):
        if count > 0 and is_card_resource(name):
            yield WholeCards(container.name, name, count, kind)


def _read(pod: Object) -> PodClass:
    try:
        spec = decode_pod(pod).spec
        return pod_class(spec, cards=tuple(_devices(spec)))
    except (msgspec.ValidationError, QuantityError, Invalid) as error:
        raise PodRefused("UnexpectedAdmissionError", f"the pod cannot be read: {error}") from None
