"""Devices that are handed out by DRA, dynamic resource allocation (`resource.k8s.io/v1`), as far as scheduling reads
them: on which nodes a resource name stands for such devices.

A DeviceClass may claim the name of a resource (`extendedResourceName`); a ResourceSlice says which devices a driver has
for which nodes. A pod that asks for that resource gets a card of a device plugin where the node offers some; where it
offers none, Kubernetes expects the scheduler to allocate devices in a claim, and a kubelet that finds no claim runs the
pod without a card. This scheduler allocates none yet: it keeps such pods away.

Which devices a class selects is said in CEL, which is not evaluated: of an expression only the drivers are read that it
names (`drivers_named`). One that names none may select devices of any driver.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from t9ksched.model.errors import Invalid
from t9ksched.model.labels import NodeSelector
from t9ksched.model.pod import Metadata
from t9ksched.model.readiness import Unready
from t9ksched.model.resources import is_accelerator, is_card_resource

NOT_SUPPORTED: Final = "DRA, not supported yet"
"""What nodes are called whose devices are handed out by DRA."""
IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""With the name of a class: the resource name that every class has besides the one that it may claim. Pods that ask for
one are refused as those with resource claims are."""
_UNHEALTHY: Final = frozenset({"NoSchedule", "NoExecute"})

_LONGEST: Final = 2048
_MOST_NESTED: Final = 32
"""Of an expression that is read: characters, and opening parentheses."""
_TEXT: Final = r"""(?:"([^"\\]*)"|'([^'\\]*)')"""
_EQUALS: Final = re.compile(rf"device\.driver\s*==\s*{_TEXT}|{_TEXT}\s*==\s*device\.driver")
_ONE_OF: Final = re.compile(r"device\.driver\s+in\s+\[(.*)\]", re.DOTALL)
_QUOTED: Final = re.compile(_TEXT)
_PIECES: Final = re.compile(
    r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[()\[\]{}]|&&|\|\||\?|[^"'()\[\]{}&|?]+|.""", re.DOTALL
)


class Cel(msgspec.Struct, gc=False):
    """An expression that is true of the devices that are meant."""

    expression: str = ""


class DeviceSelector(msgspec.Struct, gc=False):
    """One condition; other forms than CEL do not exist yet."""

    cel: Cel | None = None


class DeviceClassSpec(msgspec.Struct, gc=False, rename="camel"):
    """The part of a class's spec that is read. A device must satisfy all selectors."""

    selectors: list[DeviceSelector] | None = None
    extended_resource_name: str | None = None


class DeviceClass(msgspec.Struct, gc=False):
    """A DeviceClass object as far as scheduling reads it."""

    metadata: Metadata
    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


class Pool(msgspec.Struct, gc=False, rename="camel"):
    """Which pool a slice is a part of, in which generation, and of how many slices that one consists."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class DeviceTaint(msgspec.Struct, gc=False):
    """A taint of one device, as its driver sets it."""

    key: str = ""
    value: str | None = None
    effect: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Device(msgspec.Struct, gc=False, rename="camel"):
    """A device; its nodes are its own where the slice says so (`per_device_node_selection`)."""

    name: str = ""
    taints: list[DeviceTaint] | None = None
    node_name: str | None = None
    node_selector: dict[str, Any] | None = None
    all_nodes: bool | None = None

    @property
    def unhealthy(self) -> tuple[DeviceTaint, ...]:
        """The taints for which it takes no work."""
        return tuple(taint for taint in self.taints or () if taint.effect in _UNHEALTHY)


class SliceSpec(msgspec.Struct, gc=False, rename="camel"):
    """The part of a slice's spec that is read. One of the four last fields says for which nodes its devices are."""

    driver: str = ""
    pool: Pool = msgspec.field(default_factory=Pool)
    devices: list[Device] | None = None
    node_name: str | None = None
    node_selector: dict[str, Any] | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None


class ResourceSlice(msgspec.Struct, gc=False):
    """A ResourceSlice object as far as scheduling reads it."""

    metadata: Metadata
    spec: SliceSpec = msgspec.field(default_factory=SliceSpec)


class ByDra(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What hands out a resource on a node: a class, and the drivers of the devices there that it may select, sorted."""

    device_class: str
    drivers: tuple[str, ...]

    def words(self, resource: str) -> str:
        """For people, about the resource of that name."""
        whose = " and ".join(self.drivers)
        return f"{resource} stands for devices of {whose} there (DeviceClass {self.device_class})"

    def remedy(self, resource: str) -> str:
        """What to do, by the resource's name."""
        return (
            f"let a device plugin offer {resource} there in place of the driver {' and '.join(self.drivers)}, or leave"
            f" these nodes to kube-scheduler: devices of DRA are not given out here"
        )


Offers = Mapping[str, ByDra]
"""By resource name."""
NO_OFFERS: Final[Offers] = {}


def drivers_named(expression: str) -> frozenset[str] | None:
    """The drivers whose devices an expression can be true of; None where it names none that bind it.

    Read are `device.driver == "NAME"`, either way round, `device.driver in ["NAME", …]`, what `&&` adds to them, and
    alternatives by `||` of which each names some. All else, comments among it, may be true of devices of any driver.
    """
    if len(expression) > _LONGEST or expression.count("(") > _MOST_NESTED or "//" in expression:
        return None
    text = _bare(expression)
    if any(piece == "?" for _, piece in _outer(text)):
        return None
    alternatives = _split(text, "||")
    if len(alternatives) > 1:
        each = [drivers_named(one) for one in alternatives]
        found = [one for one in each if one is not None]
        return frozenset[str]().union(*found) if len(found) == len(each) else None
    parts = _split(text, "&&")
    if len(parts) > 1:
        found = [one for part in parts if (one := drivers_named(part)) is not None]
        return frozenset.intersection(*found) if found else None
    if match := _EQUALS.fullmatch(text):
        return frozenset(name for name in match.groups() if name is not None)
    if match := _ONE_OF.fullmatch(text):
        listed = match[1].split(",")
        names = [_QUOTED.fullmatch(one.strip()) for one in listed]
        if all(names):
            return frozenset(one[1] if one[1] is not None else one[2] for one in names if one is not None)
    return None


def _bare(expression: str) -> str:
    """Without blanks and parentheses around all of it."""
    text = expression.strip()
    while text.startswith("(") and text.endswith(")"):
        depths = [depth for depth, _ in _outer(text, closing=True)]
        if 0 in depths[1:-1]:
            break  # what opens at the beginning ends before the end
        text = text[1:-1].strip()
    return text


def _outer(text: str, *, closing: bool = False) -> Iterator[tuple[int, str]]:
    """The pieces outside brackets; with `closing` all pieces, each with the depth of brackets after it."""
    depth = 0
    for match in _PIECES.finditer(text):
        piece = match[0]
        if piece in "([{":
            depth += 1
        elif piece in ")]}":
            depth -= 1
        if closing:
            yield depth, piece
        elif depth == 0:
            yield match.start(), piece


def _split(text: str, operator: str) -> list[str]:
    """The text at an operator outside brackets and quotes."""
    cuts = [at for at, piece in _outer(text) if piece == operator]
    starts = [0, *(at + len(operator) for at in cuts)]
    return [text[start:end] for start, end in zip(starts, [*cuts, len(text)], strict=True)]


class Claimed(msgspec.Struct, frozen=True):
    """Whose a resource name is: a class, and the drivers that it selects, None for any."""

    device_class: str
    drivers: frozenset[str] | None


def claimed_names(classes: Iterable[DeviceClass]) -> dict[str, Claimed]:
    """Which resource names stand for devices of which class. Of classes that claim the same name the newest has it, of
    those made in one second the first by name, as Kubernetes decides it.
    """
    found: dict[str, Claimed] = {}
    by_name = sorted(classes, key=lambda one: one.metadata.name, reverse=True)
    for one in sorted(by_name, key=lambda one: one.metadata.creation_timestamp):
        if one.spec.extended_resource_name:
            found[one.spec.extended_resource_name] = Claimed(one.metadata.name, _drivers(one))
    return found


def _drivers(one: DeviceClass) -> frozenset[str] | None:
    found: frozenset[str] | None = None
    for selector in one.spec.selectors or ():
        named = drivers_named(selector.cel.expression) if selector.cel is not None else None
        if named is not None:
            found = named if found is None else found & named
    return found


class Place(msgspec.Struct, frozen=True):
    """For which nodes devices are: one by name, those that a selector matches, or all where both are None."""

    node: str | None = None
    selector: NodeSelector | None = None

    def has(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node of that name and these labels is one of them."""
        if self.node is not None:
            return self.node == name
        return self.selector is None or self.selector.matches(labels, name)


def place_of(where: SliceSpec | Device) -> Place | None:
    """For which nodes it says that it is; None where it does not say, or cannot be read."""
    if where.node_name is not None:
        return Place(where.node_name)
    if where.node_selector is not None:
        try:
            return Place(selector=NodeSelector.parse(where.node_selector.get("nodeSelectorTerms")))
        except Invalid:
            return None
    return Place() if where.all_nodes else None


def places_of(spec: SliceSpec) -> frozenset[Place]:
    """For which nodes a slice has devices."""
    each = spec.devices if spec.per_device_node_selection else [spec][: len(spec.devices or ())]
    return frozenset(place for where in each or () if (place := place_of(where)) is not None)


def devices_of(spec: SliceSpec, name: str, labels: Mapping[str, str]) -> list[Device]:
    """The devices of a slice that are for that node."""
    devices = spec.devices or []
    if spec.per_device_node_selection:
        return [each for each in devices if (place := place_of(each)) is not None and place.has(name, labels)]
    place = place_of(spec)
    return devices if place is not None and place.has(name, labels) else []


class DevicePool(msgspec.Struct, frozen=True):
    """The slices of one pool in its newest generation; older ones count no more."""

    driver: str
    name: str
    generation: int
    wanted: int
    slices: list[ResourceSlice] = msgspec.field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all of its slices are there: until then nothing of it may be given out."""
        return len(self.slices) == self.wanted


def pools_of(slices: Iterable[ResourceSlice]) -> list[DevicePool]:
    """The pools that slices make up, by driver and name."""
    by_pool: defaultdict[tuple[str, str], list[ResourceSlice]] = defaultdict(list)
    for one in slices:
        by_pool[one.spec.driver, one.spec.pool.name].append(one)
    found = []
    for (driver, name), those in sorted(by_pool.items()):
        generation = max(one.spec.pool.generation for one in those)
        newest = [one for one in those if one.spec.pool.generation == generation]
        wanted = max(one.spec.pool.resource_slice_count for one in newest)
        found.append(DevicePool(driver, name, generation, wanted, newest))
    return found


def handed_out(offered: Offers, has: Mapping[str, int], *, divided: bool) -> Offers:
    """What of it DRA hands out on a node with these allocatable amounts. Where there is a device plugin, that one does;
    cards that are `divided` among pods are in the hands of the system that divides them.
    """
    if not offered:
        return NO_OFFERS
    return {
        resource: one
        for resource, one in sorted(offered.items())
        if not has.get(resource) and not (divided and is_card_resource(resource))
    }


def dra_only(offered: Offers) -> Unready | None:
    """The reason why accelerators are not ready on a node that offers none but these; None where these are none."""
    found = {resource: one for resource, one in offered.items() if is_accelerator(resource)}
    if not found:
        return None
    words = "; ".join(one.words(resource) for resource, one in found.items())
    return Unready("", f"{NOT_SUPPORTED}: {words}", next(one.remedy(resource) for resource, one in found.items()))


def offers(names: Mapping[str, Claimed], drivers: Iterable[str]) -> dict[str, ByDra]:
    """Which resource names stand for devices of DRA on a node for which these drivers have some."""
    there = frozenset(drivers)
    found = {}
    for resource, claimed in names.items():
        those = there if claimed.drivers is None else there & claimed.drivers
        if those:
            found[resource] = ByDra(claimed.device_class, tuple(sorted(those)))
    return found
