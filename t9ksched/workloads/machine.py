"""The spec of KubeVirt's VirtualMachine that a VirtualServer asks for: resources, disks, file systems, network.

Sources of volumes, the source of the root disk and the firmware are KubeVirt's own forms, and handed on as they are.
"""

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from t9ksched.model.labels import key_fault
from t9ksched.model.quantity import QuantityError, parse
from t9ksched.workloads.actions import Object
from t9ksched.workloads.fields import Field
from t9ksched.workloads.podspec import check_resources

BUSES: Final = ("virtio", "sata", "scsi")
ROOT: Final = "root"
CLOUD_INIT: Final = "cloudinit"
INTERFACE: Final = "default"
SOURCES: Final = (
    "persistentVolumeClaim",
    "ephemeral",
    "configMap",
    "secret",
    "serviceAccount",
    "containerDisk",
    "dataVolume",
    "emptyDisk",
)
"""Sources of volumes that machines may have; others, such as files of the node, are refused."""
IMPORTED_FROM: Final = (
    "blank",
    "gcs",
    "http",
    "imageio",
    "pvc",
    "registry",
    "s3",
    "snapshot",
    "upload",
    "vddk",
)
"""Sources of a root disk, as KubeVirt's importer (CDI) has them."""
_DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_ACCESS_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Filesystem", "Block")
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(([:-])[0-9a-fA-F]{2})(\2[0-9a-fA-F]{2}){4}")
_MOST_CARDS: Final = 64
_ABOUT_DISKS: Final = ("name", "bus", "serial")


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine.

    Attributes:
        spec: of a VirtualMachineInstance, without scheduling.
        root: what its root disk is made from, as `dataVolumeTemplates` of KubeVirt have it; None where it has none.
        resources: what its pod requests for it, as of a container.
        ports: those at which it is reached, as of a Service.
    """

    spec: Object
    root: Object | None
    resources: Object
    ports: tuple[Object, ...]


def read_machine(spec: Field, root_name: str) -> Machine:
    """The machine of a VirtualServer's spec; its root disk has that name. Faults are written down in `spec`."""
    amounts, cards = _resources(spec["resources"])
    requests = {**spec["resources"]["requests"].mapping(), **amounts}
    limits = dict(spec["resources"]["limits"].mapping())
    disks, volumes, systems, root = _storage(spec["storage"], root_name)
    text = spec["cloudInit"].text()
    if text:
        disks.append({"name": CLOUD_INIT, "disk": {"bus": "virtio"}})
        volumes.append({"name": CLOUD_INIT, "cloudInitNoCloud": {"userData": text}})
    network = spec["network"]
    mac = network["macAddress"].text()
    if mac and not _MAC.fullmatch(mac):
        network["macAddress"].fault(f"{mac!r} is no address: write six bytes, such as de:ad:00:00:be:af")
    devices: Object = {
        "disks": disks,
        "interfaces": [{"name": INTERFACE, "masquerade": {}, **({"macAddress": mac} if mac else {})}],
    }
    if systems:
        devices["filesystems"] = systems
    if spec["useVirtioTransitional"].flag():
        devices["useVirtioTransitional"] = True
    gpu = spec["resources"]["gpu"]["type"].text()
    if cards:
        devices["gpus"] = [{"name": f"gpu-{nth}", "deviceName": gpu} for nth in range(cards)]
    asked = {key: each for key, each in (("requests", requests), ("limits", limits)) if each}
    domain: Object = {"devices": devices, "resources": copy.deepcopy(asked)}
    if model := spec["resources"]["cpu"]["model"].text():
        domain["cpu"] = {"model": model}
    if spec["firmware"].present:
        domain["firmware"] = copy.deepcopy(dict(spec["firmware"].mapping()))
    made: Object = {"domain": domain, "networks": [{"name": INTERFACE, "pod": {}}], "volumes": volumes}
    policy, config = network["dnsPolicy"].text(), network["dnsConfig"].mapping()
    if policy:
        network["dnsPolicy"].choice(_DNS_POLICIES, policy)
    made |= {"dnsPolicy": policy} if policy else {}
    made |= {"dnsConfig": copy.deepcopy(dict(config))} if config else {}
    asked["limits"] = {**limits, **({gpu: cards} if cards else {})}
    return Machine(made, root, asked, _ports(network))


def _resources(resources: Field) -> tuple[Object, int]:
    """Amounts of cpu and memory, as far as they are given, and the number of cards."""
    gpu = resources["gpu"]
    found: Object = {}
    for name, place in (("cpu", resources["cpu"]["cores"]), ("memory", resources["memory"])):
        if not place.present:
            continue
        found[name] = place.value
        checked = Field({"requests": {name: place.value}}, "")
        check_resources(checked)
        for fault in checked.faults:
            place.fault(fault.message)
    count = gpu["count"].whole(1 if gpu["type"].text() else 0)
    if count > _MOST_CARDS:
        gpu["count"].fault(f"{count} is more than a machine has: use at most {_MOST_CARDS}")
    if count and not gpu["type"].text():
        gpu["type"].fault("is missing: name the cards as nodes offer them, such as nvidia.com/GA102GL_A10")
    elif (kind := gpu["type"].text()) and ("/" not in kind or key_fault(kind)):
        gpu["type"].fault(f"{kind!r} is no resource of nodes: write domain/name, such as nvidia.com/GA102GL_A10")
    check_resources(resources)
    return found, min(count, _MOST_CARDS)


def _storage(storage: Field, root_name: str) -> tuple[list[Object], list[Object], list[Object], Object | None]:
    """Disks, volumes and file systems of the machine, and what its root disk is made from."""
    disks: list[Object] = []
    volumes: list[Object] = []
    systems: list[Object] = []
    root, made = storage["root"], None
    if root.present:
        made = _root(root)
        source: Object = {"dataVolume": {"name": root_name}}
        if root["ephemeral"].flag():
            source = {"ephemeral": {"persistentVolumeClaim": {"claimName": root_name}}}
        disks.append({"name": ROOT, "bootOrder": 1, **_disk(root)})
        volumes.append({"name": ROOT, **source})
    names = {ROOT, CLOUD_INIT}
    for entry in storage["additionalDisks"].items():
        serial = entry["serial"].text()
        disks.append({"name": _name(entry, names), **_disk(entry), **({"serial": serial} if serial else {})})
        volumes.append(_volume(entry))
    for entry in storage["filesystems"].items():
        systems.append({"name": _name(entry, names), "virtiofs": {}})
        volumes.append(_volume(entry))
    return disks, volumes, systems, made


def _root(root: Field) -> Object:
    """The claim of the root disk, and where what is on it comes from."""
    pvc = root["pvc"]
    if not pvc["size"].present:
        pvc["size"].fault("is missing: say how large the root disk is, such as 20Gi")
    else:
        _check_size(pvc["size"])
    claim: Object = {"resources": {"requests": {"storage": pvc["size"].value}}}
    claim["accessModes"] = [mode.choice(_ACCESS_MODES, "") for mode in pvc["accessModes"].items()] or ["ReadWriteOnce"]
    if pvc["volumeMode"].text():
        claim["volumeMode"] = pvc["volumeMode"].choice(_VOLUME_MODES, "")
    if pvc["storageClassName"].text():
        claim["storageClassName"] = pvc["storageClassName"].text()
    source = dict(root["source"].mapping()) or {"blank": {}}
    if len(source) > 1:
        root["source"].fault(f"names {' and '.join(sorted(map(str, source)))}: give exactly one")
    for key in source:
        if key not in IMPORTED_FROM:
            root["source"][str(key)].fault(f"is no source of a disk: use one of {', '.join(IMPORTED_FROM)}")
    return {"pvc": claim, "source": copy.deepcopy(source)}


def _check_size(size: Field) -> None:
    try:
        amount = parse(size.value)
    except QuantityError as error:
        size.fault(str(error))
    else:
        if amount <= 0:
            size.fault(f"{size.value!r} is no size of a disk: write an amount above 0, such as 20Gi")


def _disk(entry: Field) -> Object:
    return {"disk": {"bus": entry["bus"].choice(BUSES, "virtio")}}


def _name(entry: Field, names: set[str]) -> str:
    name = entry["name"].text()
    if not name:
        entry["name"].fault("is missing: name the volume")
    elif name in names:
        entry["name"].fault(f"{name!r} is there twice, or the name of a disk that every machine has: take another")
    names.add(name)
    return name


def _volume(entry: Field) -> Object:
    source = {key: copy.deepcopy(value) for key, value in entry.mapping().items() if key not in _ABOUT_DISKS}
    if len(source) != 1:
        told = " and ".join(sorted(map(str, source))) or "none"
        entry.fault(f"names {told} as its source: give exactly one, such as persistentVolumeClaim {{claimName}}")
    for key in source:
        if key not in SOURCES:
            entry[str(key)].fault(f"is no source that a machine may have: use one of {', '.join(SOURCES)}")
    return {"name": entry["name"].text(), **source}


def _ports(network: Field) -> tuple[Object, ...]:
    found: list[Object] = []
    for key in ("tcp", "udp"):
        for port in network[key].items():
            number = port.whole(0, low=1, high=65535)
            if any(each["name"] == f"{key}-{number}" for each in found) and number:
                port.fault(f"{number} is there twice: leave one out")
            found.append({"name": f"{key}-{number}", "port": number, "targetPort": number, "protocol": key.upper()})
    return tuple(found)


def firmware_of(machine: Mapping[str, Any]) -> Any:
    """The firmware of a VirtualMachine."""
    return (machine["spec"]["template"]["spec"].get("domain") or {}).get("firmware")
