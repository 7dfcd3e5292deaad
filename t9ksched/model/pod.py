"""Pods as far as scheduling reads them.

Objects of users pass through as plain dicts; these structs name the few fields that decide anything and are decoded
straight from JSON (msgspec, 4 µs a pod). Requests follow the effective-request rule of Kubernetes: the larger of the
running containers' sum and the largest init phase, sidecars counted in both, plus overhead.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from t9ksched.model.card_requests import UNCOUNTED, Asking, with_count
from t9ksched.model.cardchoice import card_choice
from t9ksched.model.cards import CardRequest, ContainerKind
from t9ksched.model.cards_asked import card_requests
from t9ksched.model.ending import ContainerStatus, Ending, ending, hindrance
from t9ksched.model.labels import NodeSelector
from t9ksched.model.podclass import HostPort, PodClass
from t9ksched.model.podrules import parse_rules
from t9ksched.model.quantity import to_units
from t9ksched.model.resources import is_accelerator
from t9ksched.model.taints import Toleration

Quantities = dict[str, str | int | float]


class OwnerReference(msgspec.Struct, gc=False, rename="camel"):
    """An owner of an object; at most one owner is the controller."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def title(self) -> str:
        """For people: `Kind/name`."""
        return f"{self.kind}/{self.name}"


class Metadata(msgspec.Struct, gc=False, rename="camel"):
    """The part of ObjectMeta that is read. Times are RFC 3339 texts as the server wrote them."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner
        return None


class Resources(msgspec.Struct, gc=False):
    """`resources` of a container or pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(msgspec.Struct, gc=False, rename="camel"):
    """A declared port; only one with a host port matters for placement."""

    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(msgspec.Struct, gc=False, rename="camel"):
    """A container's name, resources and ports. An init container with restartPolicy Always is a sidecar."""

    name: str = ""
    resources: Resources | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class TolerationField(msgspec.Struct, gc=False):
    """A toleration as Kubernetes writes it."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class ClaimSource(msgspec.Struct, gc=False, rename="camel"):
    """Reference of a volume to a PersistentVolumeClaim."""

    claim_name: str = ""


class Volume(msgspec.Struct, gc=False, rename="camel"):
    """A volume; only claims and ephemeral claims matter for placement."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    """The part of a pod's spec that decides where it may run."""

    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: dict[str, Any] | None = None
    tolerations: list[TolerationField] | None = None
    topology_spread_constraints: list[dict[str, Any]] | None = None
    volumes: list[Volume] | None = None
    scheduling_gates: list[dict[str, Any]] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    scheduling_group: dict[str, Any] | None = None
    workload_ref: dict[str, Any] | None = None
    host_network: bool | None = None
    priority: int | None = None
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: Any = None

    @property
    def grace(self) -> int | None:
        """Seconds that the pod gets to end; None where it says nothing that is a number. Other faults of a pod that is
        submitted are told beside that of this field.
        """
        seconds = self.termination_grace_period_seconds
        return seconds if isinstance(seconds, int) else None


class PodStatus(msgspec.Struct, gc=False, rename="camel"):
    """The part of a pod's status that is read."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None

    @property
    def ending(self) -> Ending:
        """How it ended; to be asked of a pod that failed."""
        return ending(self.reason, self.message, self._containers)

    @property
    def hindrance(self) -> tuple[str, str] | None:
        """What keeps it from running, as its node says; None where nothing is wrong, and once it runs."""
        told = self.phase == "Pending" and (self.init_container_statuses or self.container_statuses)
        return hindrance(self._containers) if told else None

    @property
    def ended_at(self) -> str:
        """When the last of its containers ended, as the kubelet says; empty if none did."""
        ends = (each.state.terminated for each in self._containers if each.state is not None)
        return max((end.finished_at for end in ends if end is not None and end.finished_at), default="")

    @property
    def _containers(self) -> Iterable[ContainerStatus]:
        return (*(self.init_container_statuses or ()), *(self.container_statuses or ()))


class Pod(msgspec.Struct, gc=False):
    """A pod as far as scheduling reads it.

    `put_there` is true if its creator named its node, so that no scheduler was asked: it is charged on its node and to
    no queue. `disruption` is the reason of its condition DisruptionTarget while that is true: why it is being evicted.
    """

    metadata: Metadata
    spec: PodSpec
    status: PodStatus = msgspec.field(default_factory=PodStatus)
    put_there: bool = False
    disruption: str = ""


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""


class _Conditions(msgspec.Struct, gc=False):
    conditions: list[_Condition] | None = None


class _Conditioned(msgspec.Struct, gc=False):
    """A pod's conditions, which are read of few pods."""

    status: _Conditions = msgspec.field(default_factory=_Conditions)


_NODE_OWNED: Final = b'"f:nodeName"'
"""How `metadata.managedFields` says that a client wrote the node's name; one that a binding set has no owner there."""
_SCHEDULED: Final = b'"PodScheduled"'
"""The condition that the server sets with a binding."""
_DISRUPTED: Final = b'"DisruptionTarget"'
"""The condition of a pod that is being evicted."""
_STATUS: Final = b'"status":{'
"""Where the status begins, which servers write last; it has no object of this name in it."""
_decoder = msgspec.json.Decoder(Pod)
_conditions = msgspec.json.Decoder(_Conditioned)


def decode_pod(raw: bytes | Mapping[str, Any], known: Mapping[str, object] | None = None) -> Pod:
    """A pod from its JSON text or from a plain dict. Whether it was `put_there` is not asked of those that are `known`.

    Raises:
        msgspec.ValidationError: a field that is read has the wrong type; the message has its path.
    """
    if isinstance(raw, bytes):
        pod = _decoder.decode(raw)
        if pod.spec.node_name:  # a search costs a fraction of decoding what is nowhere else read
            if known is None or pod.metadata.uid not in known:
                pod.put_there = _NODE_OWNED in raw or _SCHEDULED not in raw
            if raw.find(_DISRUPTED, max(0, raw.rfind(_STATUS))) >= 0:
                pod.disruption = _disruption(_conditions.decode(raw))
        return pod
    pod = msgspec.convert(raw, Pod)
    if pod.spec.node_name:
        if known is None or pod.metadata.uid not in known:
            scheduled = any(one.get("type") == "PodScheduled" for one in raw.get("status", {}).get("conditions") or ())
            owned = "'f:nodeName'" in str(raw["metadata"].get("managedFields", "")).replace('"', "'")
            pod.put_there = owned or not scheduled
        pod.disruption = _disruption(msgspec.convert(raw, _Conditioned))
    return pod


def _disruption(pod: _Conditioned) -> str:
    found = (one for one in pod.status.conditions or () if one.type == "DisruptionTarget" and one.status == "True")
    return next((one.reason for one in found), "")


def decode_pod_spec(raw: Mapping[str, Any]) -> PodSpec:
    """The spec of a pod or of a pod template from a plain dict; errors as in `decode_pod`.

    A field that is null counts as absent, as the API server reads it.
    """
    return msgspec.convert(_without_nulls(raw), PodSpec)


_LEAVES: Final = (str, int, float)  # told first, because most values are leaves and Mapping is slow to tell


def _without_nulls(value: Any) -> Any:
    """The value without null fields, on any level; its depth is limited where it is read."""
    if isinstance(value, _LEAVES):
        return value
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def declared(resources: Resources | None) -> dict[str, int]:
    """What a container asks for, in units: its requests, and its limits where it names no request."""
    if resources is None:
        return {}
    amounts = dict(resources.limits or {})
    amounts.update(resources.requests or {})
    return {name: to_units(name, value) for name, value in amounts.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)


def effective_requests(spec: PodSpec | Mapping[str, Any]) -> dict[str, int]:
    """What the pod occupies on its node, in units by resource, without zeros and without the pod slot itself.

    Raises:
        QuantityError: an amount is no quantity.
    """
    if not isinstance(spec, PodSpec):
        spec = decode_pod_spec(spec)
    running: dict[str, int] = {}
    for container in spec.containers:
        _add(running, with_count(declared(container.resources)))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers or ():
        own = with_count(declared(container.resources))
        if container.restart_policy == "Always":
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            phase = dict(sidecars)
            _add(phase, own)
            _raise_to(peak, phase)
    _add(running, sidecars)
    _raise_to(running, peak)
    if spec.resources is not None:
        running.update(declared(spec.resources))
    _add(running, {name: to_units(name, value) for name, value in (spec.overhead or {}).items()})
    return {name: amount for name, amount in running.items() if amount}


def container_cards(spec: PodSpec, annotations: Mapping[str, str] | None = None) -> tuple[CardRequest, ...]:
    """Which containers ask for cards, in the order in which they get their indices.

    Raises:
        Invalid: a part of a card is described in a way that means nothing.
    """
    mains: list[tuple[Container, ContainerKind]] = [(container, "main") for container in spec.containers]
    inits: list[tuple[Container, ContainerKind]] = [
        (container, "sidecar" if container.restart_policy == "Always" else "init")
        for container in spec.init_containers or ()
    ]
    asking = [
        Asking(container.name, kind, amounts, position)
        for part in (mains, inits)
        for position, (container, kind) in enumerate(part)
        if any(map(is_accelerator, amounts := declared(container.resources)))
    ]
    names = ([one.name for one, _ in part] for part in (mains, inits))
    return card_requests(asking, annotations or {}, *names) if asking else ()


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The node's ports that the pod takes, sorted."""
    found = {
        HostPort(port.host_port or (port.container_port if spec.host_network else 0), port.protocol, port.host_ip)
        for container in (*spec.containers, *(spec.init_containers or ()))
        for port in container.ports or ()
    }
    return tuple(sorted((port for port in found if port.port), key=lambda p: (p.port, p.protocol, p.ip)))


def required_node_affinity(spec: PodSpec) -> NodeSelector | None:
    """The pod's required node affinity.

    Raises:
        Invalid: it is malformed.
    """
    affinity = (spec.affinity or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return None
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    return NodeSelector.parse(required.get("nodeSelectorTerms") or [], path)


def pod_class(
    spec: PodSpec,
    volume_affinity: Iterable[NodeSelector] = (),
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    cards: tuple[CardRequest, ...] | None = None,
) -> PodClass:
    """The class of a pod. `volume_affinity` are the node affinities of its bound persistent volumes.

    Namespace and labels are read where a rule of the pod refers to them, annotations where they speak of cards;
    `cards` are its requests for cards where they are known.

    Raises:
        QuantityError, Invalid: the pod has a malformed amount, request for cards, or affinity.
    """
    requests = {name: amount for name, amount in effective_requests(spec).items() if name not in UNCOUNTED}
    requests["pods"] = 1
    tolerations = {
        Toleration(field.key or "", field.operator or "Equal", field.value or "", field.effect or "")
        for field in spec.tolerations or ()
    }
    cards = container_cards(spec, annotations) if cards is None else cards
    several = bool(cards) and len(spec.containers) + len(spec.init_containers or ()) > 1
    return PodClass(
        requests=tuple(sorted(requests.items())),
        cards=cards,
        containers=tuple(each.name for each in (*(spec.init_containers or ()), *spec.containers)) if several else (),
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        node_affinity=required_node_affinity(spec),
        tolerations=tuple(sorted(tolerations, key=lambda t: (t.key, t.operator, t.value, t.effect))),
        host_ports=host_ports(spec),
        volume_affinity=tuple(sorted(set(volume_affinity), key=str)),
        rules=parse_rules(spec.affinity, spec.topology_spread_constraints, namespace, labels or {}),
        choice=card_choice(
            annotations or {},
            ((each.name, declared(each.resources)) for each in (*spec.containers, *(spec.init_containers or ()))),
        ),
    )
