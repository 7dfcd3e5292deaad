"""Node objects from a nodes file: a YAML list under `nodes:`, each entry a node or `count` alike ones.

Every fault is reported at once, with the path of its field (`nodes[2].allocatable.cpu`). A node gets what a real one
would have: hostname and platform labels, 110 pods, a Ready condition, and with NVIDIA GPUs the labels of GPU Feature
Discovery. What the file says itself always wins over what is filled in here.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from t9ksched.model.errors import FieldError, Invalid, child, faulty, shown
from t9ksched.model.labels import key_fault, value_fault
from t9ksched.model.names import CARD_MODE_ANNOTATION, HONOURS_INDEX, PLUGIN_CHOOSES
from t9ksched.model.quantity import QuantityError, is_extended, parse
from t9ksched.model.taints import EFFECTS
from t9ksched.model.text import YamlFault, read
from t9ksched.model.whole import whole_number

Object = dict[str, Any]

MAX_NODES: Final = 100_000
_ENTRY_KEYS: Final = ("name", "count", "labels", "annotations", "taints", "cardMode", "allocatable")
_TAINT_KEYS: Final = ("key", "value", "effect")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_FILLED_IN: Final = {"pods": "110", "ephemeral-storage": "1Ti"}
_DEFAULT_PRODUCT: Final = "NVIDIA-A100-PCIE-80GB"
_MEMORY_MIB: Final = {"NVIDIA-GeForce-GTX-1070": 8192, "NVIDIA-TITAN-X": 12288}
_GIGABYTES: Final = re.compile(r"(\d+)GB")
_READY_SINCE: Final = "2024-01-01T00:00:00Z"
"""When the nodes became ready; a fixed time, so that the same file gives the same objects."""


def parse_nodes(text: str) -> list[Object]:
    """Complete Node objects from the text of a nodes file.

    Raises:
        Invalid: the text is no YAML (the message has the line), or naming every faulty field.
    """
    try:
        document = read(text)
    except YamlFault as fault:
        raise Invalid.at(fault.path, f"not YAML: {fault}") from None
    if not isinstance(document, Mapping):
        raise Invalid.at("", "a nodes file is a mapping with one list under 'nodes:'")
    return nodes_from(document)


def nodes_from(document: Mapping[str, Any]) -> list[Object]:
    """Complete Node objects from a decoded nodes file; errors as in `parse_nodes`."""
    faults = [FieldError(str(key), "is unknown: a nodes file has only 'nodes'") for key in document if key != "nodes"]
    entries = document.get("nodes")
    if not isinstance(entries, list):
        faults.append(FieldError("nodes", "is required and must be a list of nodes"))
        raise Invalid(faults)
    nodes: list[tuple[str, _Entry]] = []
    first_use: dict[str, str] = {}
    for index, entry in enumerate(entries):
        path = f"nodes[{index}]"
        before = len(faults)
        read = _Entry(entry, path, faults)
        if len(faults) > before:
            continue
        if len(nodes) + len(read.names) > MAX_NODES:
            faults.append(FieldError(child(path, "count"), f"makes more than {MAX_NODES:,} nodes in all"))
            continue
        for name in read.names:
            if name in first_use:
                faults.append(
                    FieldError(child(path, "name"), f"the node {name!r} exists already, by {first_use[name]}")
                )
                break
            first_use[name] = path
            nodes.append((name, read))
    if faults:
        raise Invalid(faults)
    return [entry.node(name, number) for number, (name, entry) in enumerate(nodes)]


def _quoted(value: object) -> str:
    """How a value is written as a text that YAML reads as something else: `n` and `y` are no and yes."""
    if isinstance(value, bool):
        words = '"y" or "yes"' if value else '"n" or "no"'
        return f": YAML reads {value} here, so write such a name in quotes ({words})"
    return f', in quotes ("{value}")' if isinstance(value, int) else ""


class _Entry:
    """One entry of the list, checked; faults go to the shared list."""

    def __init__(self, raw: Any, path: str, faults: list[FieldError]) -> None:
        self.names: list[str] = []
        if not isinstance(raw, Mapping):
            faults.append(FieldError(path, "must be a mapping with at least 'name' and 'allocatable'"))
            return
        self._path, self._faults = path, faults
        for key in raw:
            if key not in _ENTRY_KEYS:
                self._fault(str(key), f"is unknown: use {', '.join(_ENTRY_KEYS)}")
        self.names = self._read_names(raw)
        self.labels = self._texts(raw, "labels", check_values=True)
        self.annotations = self._texts(raw, "annotations", check_values=False)
        self.taints = self._read_taints(raw.get("taints"))
        self.allocatable = self._read_allocatable(raw.get("allocatable"))
        mode = raw.get("cardMode")
        if mode is None:
            self.annotations.setdefault(CARD_MODE_ANNOTATION, HONOURS_INDEX)
        elif mode in (HONOURS_INDEX, PLUGIN_CHOOSES):
            self.annotations[CARD_MODE_ANNOTATION] = mode
        else:
            self._fault("cardMode", f"{shown(mode)} is unknown: use {HONOURS_INDEX} or {PLUGIN_CHOOSES}")

    def _fault(self, key: str, message: str) -> None:
        self._faults.append(FieldError(f"{self._path}.{key}", message))

    def _read_names(self, raw: Mapping[str, Any]) -> list[str]:
        name, count = raw.get("name"), raw.get("count")
        if not isinstance(name, str) or not name:
            self._fault("name", f"is required and must be a text{_quoted(name)}")
            return []
        if len(name) > 57 or not _NAME.fullmatch(name):
            self._fault("name", f"{name!r} is not a node name: at most 57 of a-z, 0-9, '-' and '.', such as gpu-a")
            return []
        if count is None:
            return [name]
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_NODES:
            self._fault("count", f"{shown(count)} is out of range: use a whole number from 0 to {MAX_NODES:,}")
            return []
        return [f"{name}-{number}" for number in range(count)]

    def _texts(self, raw: Mapping[str, Any], field: str, check_values: bool) -> dict[str, str]:
        found = raw.get(field) or {}
        if not isinstance(found, Mapping):
            self._fault(field, "must be a mapping of keys to texts")
            return {}
        for key, value in found.items():
            fault = key_fault(str(key))
            if not fault and not isinstance(value, str):
                fault = f"{shown(value)} must be a text: put it in quotes"
            elif not fault and check_values:
                fault = value_fault(value)
            if fault:
                self._faults.append(FieldError(child(child(self._path, field), str(key)), fault))
        return {str(key): value for key, value in found.items() if isinstance(value, str)}

    def _read_taints(self, raw: Any) -> list[Object]:
        if raw is None:
            return []
        if not isinstance(raw, list):
            self._fault("taints", "must be a list of {key, value, effect}")
            return []
        taints: list[Object] = []
        for index, taint in enumerate(raw):
            place = f"taints[{index}]"
            if not isinstance(taint, Mapping):
                self._fault(place, "must be a mapping with key, value and effect")
                continue
            for key in taint:
                if key not in _TAINT_KEYS:
                    self._fault(f"{place}.{key}", f"is unknown: use {', '.join(_TAINT_KEYS)}")
            key, value, effect = taint.get("key"), taint.get("value"), taint.get("effect")
            if not isinstance(key, str) or not key:
                self._fault(f"{place}.key", "is required and must be a label key")
            elif fault := key_fault(key):
                self._fault(f"{place}.key", fault)
            if value is not None and not isinstance(value, str):
                self._fault(f"{place}.value", f"{shown(value)} must be a text: put it in quotes")
            elif value and (fault := value_fault(value)):
                self._fault(f"{place}.value", fault)
            if effect not in EFFECTS:
                self._fault(f"{place}.effect", f"{faulty(effect, 'is unknown')}: use one of {', '.join(EFFECTS)}")
            taints.append({name: taint[name] for name in _TAINT_KEYS if taint.get(name) is not None})
        return taints

    def _read_allocatable(self, raw: Any) -> dict[str, str]:
        if not isinstance(raw, Mapping) or not raw:
            self._fault("allocatable", "is required: amounts by resource, such as {cpu: 96, memory: 1Ti}")
            return {}
        path = child(self._path, "allocatable")
        amounts = dict(_FILLED_IN)
        for name, value in raw.items():
            if fault := key_fault(str(name)) or _amount_fault(str(name), value):
                self._faults.append(FieldError(child(path, str(name)), fault))
            else:
                amounts[name] = str(value).strip()
        return amounts

    def node(self, name: str, number: int) -> Object:
        """The Node object of that name, the `number`-th of the cluster."""
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **_feature_labels(self.labels, self.allocatable),
            **self.labels,
        }
        spec: Object = {"taints": [dict(taint) for taint in self.taints]} if self.taints else {}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": dict(self.annotations)},
            "spec": spec,
            "status": {
                "capacity": dict(self.allocatable),
                "allocatable": dict(self.allocatable),
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "KubeletReady",
                        "message": "the simulated kubelet runs",
                        "lastHeartbeatTime": _READY_SINCE,
                        "lastTransitionTime": _READY_SINCE,
                    }
                ],
                "addresses": [
                    {
                        "type": "InternalIP",
                        "address": f"172.{16 + number // 65536}.{number // 256 % 256}.{number % 256}",
                    },
                    {"type": "Hostname", "address": name},
                ],
                "nodeInfo": {
                    "machineID": "",
                    "systemUUID": "",
                    "bootID": "",
                    "kernelVersion": "simulated",
                    "osImage": "t9ksched simulated node",
                    "containerRuntimeVersion": "simulated://1",
                    "kubeletVersion": "v1.34.0-simulated",
                    "kubeProxyVersion": "",
                    "operatingSystem": "linux",
                    "architecture": "amd64",
                },
            },
        }


def _amount_fault(name: str, value: Any) -> str:
    """Why an amount cannot be what a node has of a resource, or an empty text."""
    try:
        amount = parse(value)
    except QuantityError as error:
        return str(error)
    if amount < 0:
        return f"{value!r} is negative: a node cannot have less than nothing"
    if (is_extended(name) or name == "pods") and amount.denominator != 1:
        return f"{value!r} must be a whole number"
    return ""


def _feature_labels(own: Mapping[str, str], allocatable: Mapping[str, str]) -> dict[str, str]:
    """What GPU Feature Discovery and Node Feature Discovery would say of a node with these amounts."""
    whole = int(parse(allocatable.get("nvidia.com/gpu", "0")))
    shared = int(parse(allocatable.get("nvidia.com/gpu.shared", "0")))
    profiles = [name for name in allocatable if name.startswith("nvidia.com/mig-")]
    if not (whole or shared or profiles):
        return {}
    product = own.get("nvidia.com/gpu.product", _DEFAULT_PRODUCT)
    replicas = own.get("nvidia.com/gpu.replicas", "1")
    labels = {
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.replicas": replicas,
    }
    if memory := _memory_mib(product):
        labels["nvidia.com/gpu.memory"] = str(memory)
    if whole:
        labels["nvidia.com/gpu.count"] = str(whole)
    elif shared and (times := whole_number(replicas)):
        labels["nvidia.com/gpu.count"] = str(shared // times)
    if profiles:
        labels["nvidia.com/mig.strategy"] = "mixed"
    return labels


def _memory_mib(product: str) -> int:
    """Memory of one card by its product name; 0 when the name does not tell."""
    match = _GIGABYTES.search(product)
    return int(match[1]) * 1024 if match else _MEMORY_MIB.get(product, 0)
