"""What `t9ksched doctor` says of devices that drivers publish for DRA: incomplete pools, unhealthy devices."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from t9ksched.kube.errors import NotFound
from t9ksched.kube.port import Object
from t9ksched.kube.resources import DEVICECLASSES, RESOURCESLICES
from t9ksched.kube.setup.findings import Finding, Level
from t9ksched.kube.transport.client import Client
from t9ksched.model.dra import (
    Claimed,
    Device,
    DeviceClass,
    DevicePool,
    Offers,
    Place,
    ResourceSlice,
    claimed_names,
    offers,
    places_of,
    pools_of,
)

_MOST_NAMED: Final = 3
T = TypeVar("T")


@dataclass(frozen=True)
class Published:
    """What drivers publish for DRA.

    Attributes:
        served: the server serves `resource.k8s.io/v1`.
        classes: how many there are.
        names: the resource names that classes claim.
        pools: in their newest generations.
    """

    served: bool = True
    classes: int = 0
    names: Mapping[str, Claimed] = field(default_factory=dict)
    pools: tuple[DevicePool, ...] = ()
    _drivers: Mapping[str | None, Mapping[Place, set[str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, classes: Iterable[Object], slices: Iterable[Object]) -> "Published":
        """From the objects as lists show them; what cannot be read is left out."""
        known = _read(classes, DeviceClass)
        pools = tuple(pools_of(_read(slices, ResourceSlice)))
        drivers: defaultdict[str | None, defaultdict[Place, set[str]]] = defaultdict(lambda: defaultdict(set))
        for pool in pools:
            for one in pool.slices:
                for place in places_of(one.spec):
                    drivers[place.node][place].add(pool.driver)
        return cls(True, len(known), claimed_names(known), pools, drivers)

    def on(self, node: str, labels: Mapping[str, str]) -> Offers:
        """The resource names that could stand for devices of DRA on a node."""
        those = {**self._drivers.get(node, {}), **self._drivers.get(None, {})}
        return offers(self.names, {one for place, found in those.items() if place.has(node, labels) for one in found})


NOTHING_PUBLISHED: Final = Published()


def _read(items: Iterable[Object], kind: type[T]) -> list[T]:
    found = []
    for item in items:
        try:
            found.append(msgspec.convert(item, kind))
        except msgspec.ValidationError:
            continue
    return found


async def published(client: Client) -> Published:
    """Read it.

    Raises:
        ApiError: it may not be read, or the server does not answer.
    """
    try:
        classes = (await client.list(DEVICECLASSES)).items
        return Published.of(classes, (await client.list(RESOURCESLICES)).items)
    except NotFound:
        return Published(served=False)


def judge_devices(found: Published) -> list[Finding]:
    """Pools that are not complete, and devices that their drivers taint."""
    if not found.served:
        text = f"the server does not serve {DEVICECLASSES.api_version}: DRA hands out nothing"
        return [Finding("devices", Level.OK, "cluster", text)]
    findings = [finding for pool in found.pools for finding in _judge_pool(pool)]
    if not findings:
        count = sum(len(one.spec.devices or ()) for pool in found.pools for one in pool.slices)
        text = f"DRA: {found.classes} DeviceClasses, {len(found.pools)} pools with {count} devices"
        findings.append(Finding("devices", Level.OK, "cluster", text))
    return findings


def _judge_pool(pool: DevicePool) -> Iterable[Finding]:
    subject = f"{pool.driver} {pool.name}"
    remedy = f"look at the driver {pool.driver}"
    if not pool.complete:
        yield Finding(
            "devices",
            Level.WARNING,
            subject,
            f"the pool is not ready: {len(pool.slices)} of {pool.wanted} ResourceSlices of generation"
            f" {pool.generation} are there",
            f"wait until its driver has written them; if it lasts, {remedy}",
        )
    devices = [device for one in pool.slices for device in one.spec.devices or ()]
    if tainted := [device for device in devices if device.unhealthy]:
        more = f", and {len(tainted) - _MOST_NAMED} more" if len(tainted) > _MOST_NAMED else ""
        listed = ", ".join(map(_tainted, tainted[:_MOST_NAMED]))
        yield Finding(
            "devices",
            Level.WARNING,
            subject,
            f"{len(tainted)}/{len(devices)} devices are unhealthy by their taints: {listed}{more}",
            f"{remedy}, which takes the taints away",
        )


def _tainted(device: Device) -> str:
    return f"{device.name} ({', '.join(map(str, device.unhealthy))})"
