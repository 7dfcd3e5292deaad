"""Strategies of what drivers publish for dynamic resource allocation: DeviceClasses and ResourceSlices.

CEL expressions are stored and not compiled.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from t9ksched.devcluster.apiserver import metadata, names
from t9ksched.devcluster.apiserver.selectors import METADATA_FIELDS, at
from t9ksched.devcluster.apiserver.status import Cause, bad_value, duplicate, required, unsupported
from t9ksched.devcluster.apiserver.strategy import Strategy

Object = dict[str, Any]

_MOST_IN_CLASS: Final = 32
_MOST_DEVICES: Final = 128
_MOST_ADVANCED: Final = 64
"""Devices in a slice in which one has taints, lists as attributes, or draws from counters."""
_MOST_PROPERTIES: Final = 32
_MOST_TAINTS: Final = 16
_MOST_SETS: Final = 8
_DRIVER_LENGTH: Final = 63
_POOL_LENGTH: Final = 253
_ID_LENGTH: Final = 32
_EFFECTS: Final = ("None", "NoSchedule", "NoExecute")
_LISTS: Final = ("bools", "ints", "strings", "versions")
_VALUES: Final = ("bool", "int", "string", "version", *_LISTS)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def _too_many(field: str, count: int, most: int) -> Cause:
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {most} items", field)


def _too_long(field: str, most: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {most} bytes", field)


def _bounded(items: list[Any], most: int, field: str) -> list[Cause]:
    return [_too_many(field, len(items), most)] if len(items) > most else []


def _named(name: str, field: str, fault: Callable[[str], str]) -> list[Cause]:
    if not name:
        return [required(field)]
    return [bad_value(field, name, text)] if (text := fault(name)) else []


def _driver(name: str, field: str) -> list[Cause]:
    if len(name) > _DRIVER_LENGTH:
        return [_too_long(field, _DRIVER_LENGTH)]
    return _named(name, field, lambda text: names.subdomain_fault(text.lower()))


def _pool(pool: Object, root: str) -> Iterator[Cause]:
    name = pool.get("name") or ""
    if len(name) > _POOL_LENGTH:
        yield _too_long(f"{root}.name", _POOL_LENGTH)
    for part in name.split("/"):
        yield from _named(part, f"{root}.name", names.subdomain_fault)
    if (count := pool.get("resourceSliceCount") or 0) <= 0:
        yield bad_value(f"{root}.resourceSliceCount", count, "must be greater than zero")
    if (generation := pool.get("generation") or 0) < 0:
        yield bad_value(f"{root}.generation", generation, "must be greater than or equal to zero")


def _extended(name: str) -> bool:
    """Whether a resource name is one of an extended resource, that is of neither Kubernetes itself nor a quota."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not names.label_key_fault(f"requests.{name}")


class DeviceClassStrategy(Strategy):
    """DeviceClasses: which devices a class selects, and under which resource name they are asked for."""

    counts_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        selectors, config = spec.get("selectors") or [], spec.get("config") or []
        causes = _bounded(selectors, _MOST_IN_CLASS, "spec.selectors")
        for at_, selector in enumerate(selectors):
            if "cel" not in selector:
                causes.append(required(f"spec.selectors[{at_}].cel"))
            elif not (selector["cel"] or {}).get("expression"):
                causes.append(required(f"spec.selectors[{at_}].cel.expression"))
        causes += _bounded(config, _MOST_IN_CLASS, "spec.config")
        for at_, each in enumerate(config):
            opaque = each.get("opaque")
            if opaque is None:
                causes.append(required(f"spec.config[{at_}].opaque"))
                continue
            causes += _driver(opaque.get("driver") or "", f"spec.config[{at_}].opaque.driver")
            if not opaque.get("parameters"):
                causes.append(required(f"spec.config[{at_}].opaque.parameters"))
        name = spec.get("extendedResourceName")
        if name is not None and not _extended(name):
            causes.append(bad_value("spec.extendedResourceName", name, "must be a valid extended resource name"))
        return causes


class ResourceSliceStrategy(Strategy):
    """ResourceSlices: some of the devices of a pool of a driver, and from which nodes they can be used."""

    counts_generation = True
    fields = METADATA_FIELDS | {"spec.nodeName": at("spec", "nodeName"), "spec.driver": at("spec", "driver")}

    def default(self, obj: Object) -> None:
        for device in obj.setdefault("spec", {}).get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", metadata.now())

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = _driver(spec.get("driver") or "", "spec.driver")
        causes += _pool(spec.get("pool") or {}, "spec.pool")
        causes += _where(spec, "spec", _PLACES, "")
        sets, devices = spec.get("sharedCounters"), spec.get("devices")
        if sets and devices:
            causes.append(bad_value("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
        causes += _bounded(sets or [], _MOST_SETS, "spec.sharedCounters")
        causes += _devices(devices or [], per_device=bool(spec.get("perDeviceNodeSelection")))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        for path in (("pool", "name"), ("driver",), ("nodeName",)):
            before, after = _dig(old["spec"], path), _dig(new["spec"], path)
            if before != after:
                causes.append(bad_value(".".join(("spec", *path)), after, "field is immutable"))
        return causes


def _dig(spec: Object, path: Iterable[str]) -> Any:
    found: Any = spec
    for key in path:
        found = (found or {}).get(key)
    return found


def _where(spec: Object, root: str, places: tuple[str, ...], more: str) -> Iterator[Cause]:
    """Faults in what says from which nodes devices can be used: exactly one of the fields says it."""
    given = [name for name in places if name in spec]
    shown = ", ".join(f"`{name}`" for name in places)
    text = f"exactly one of {shown} is required{more}"
    if not given:
        yield required(root, text)
    elif len(given) > 1:
        listed = ", ".join(f"`{name}`" for name in given)
        yield bad_value(root, f"{{{listed}}}", f"{text}, but multiple fields are set")
    if "nodeName" in spec:
        yield from _named(spec["nodeName"], f"{root}.nodeName", names.subdomain_fault)
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            yield bad_value(f"{root}.{name}", False, "must be either unset or set to true")
    terms = (spec.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if "nodeSelector" in spec and len(terms) != 1 and root == "spec":
        yield bad_value(f"{root}.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term")


def _advanced(device: Object) -> bool:
    lists = any(name in each for each in (device.get("attributes") or {}).values() for name in _LISTS)
    return bool(device.get("taints") or device.get("consumesCounters") or lists)


def _devices(devices: list[Object], *, per_device: bool) -> Iterator[Cause]:
    most = _MOST_ADVANCED if any(map(_advanced, devices)) else _MOST_DEVICES
    yield from _bounded(devices, most, "spec.devices")
    seen: set[str] = set()
    for number, device in enumerate(devices):
        root, name = f"spec.devices[{number}]", device.get("name") or ""
        yield from _named(name, f"{root}.name", names.label_fault)
        if name in seen:
            yield duplicate(root, name)
        seen.add(name)
        yield from _properties(device, root)
        yield from _taints(device.get("taints") or [], root)
        if per_device:
            more = " when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            yield from _where(device, root, _PLACES[:3], more)
        elif any(name in device for name in _PLACES[:3]):
            text = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true"
                " in the ResourceSlice spec"
            )
            yield bad_value(root, None, text)


def _properties(device: Object, root: str) -> Iterator[Cause]:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if (count := len(attributes) + len(capacity)) > _MOST_PROPERTIES:
        text = f"the total number of attributes and capacities must not exceed {_MOST_PROPERTIES}"
        yield bad_value(root, count, text)
    for name, value in attributes.items():
        yield from _qualified(name, f"{root}.attributes")
        if sum(kind in value for kind in _VALUES) != 1:
            yield bad_value(f"{root}.attributes[{name}]", value or "", "exactly one value must be specified")
    for name in capacity:
        yield from _qualified(name, f"{root}.capacity")


def _qualified(name: str, field: str) -> Iterator[Cause]:
    domain, slash, rest = name.rpartition("/")
    if slash and not domain:
        yield bad_value(field, "", "the domain must not be empty")
    elif slash:
        yield from _driver(domain, field)
    if len(rest) > _ID_LENGTH:
        yield _too_long(field, _ID_LENGTH)
    if not _IDENTIFIER.fullmatch(rest):
        text = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric"
        yield bad_value(field, rest, f"{text} characters or '_'")


def _taints(taints: list[Object], root: str) -> Iterator[Cause]:
    yield from _bounded(taints, _MOST_TAINTS, f"{root}.taints")
    for number, taint in enumerate(taints):
        path = f"{root}.taints[{number}]"
        yield from _named(taint.get("key") or "", f"{path}.key", names.label_key_fault)
        if fault := names.label_value_fault(taint.get("value") or ""):
            yield bad_value(f"{path}.value", taint["value"], fault)
        if not (effect := taint.get("effect")):
            yield required(f"{path}.effect")
        elif effect not in _EFFECTS:
            yield unsupported(f"{path}.effect", effect, _EFFECTS)
