"""What is started for a container: command, environment, mounts and limits, from its pod and the objects it names."""

import os
import signal
from typing import Any

from t9ksched.devcluster.controllers.follow import Follower
from t9ksched.devcluster.controllers.volumes import claim_names, is_bound
from t9ksched.devcluster.local import environment
from t9ksched.devcluster.local.cgroups import Limits
from t9ksched.devcluster.local.environment import BadConfig, Source
from t9ksched.devcluster.local.machine import ADDRESS, Machine
from t9ksched.devcluster.local.names import HOSTS, Translation, hostname, names_of
from t9ksched.devcluster.local.podfiles import Volumes, decoded, needs_root, volume_sources
from t9ksched.devcluster.local.setup import Mount, Spec
from t9ksched.devcluster.nodes.noderoom import cards_of
from t9ksched.kube.errors import NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import CONFIGMAPS, PODS, PVCS, PVS, SECRETS, SERVICES
from t9ksched.model.quantity import to_units
from t9ksched.model.resources import NVIDIA_GPU

Object = dict[str, Any]


def group_of(uid: str, container: str, number: int) -> str:
    """The name of the control groups of one run of a container."""
    return f"{uid}-{container}-{number}"


class Specs:
    """Makes specifications for the supervisors of containers."""

    def __init__(self, port: ClusterPort, machine: Machine, follower: Follower) -> None:
        self._port = port
        self._machine = machine
        self._pods = follower.cache(PODS)
        self._services = follower.cache(SERVICES)

    async def of(self, pod: Object, container: Object, address: str, group: str) -> Spec:
        """What the supervisor of a container is told. `group` is the name of its control groups.

        Raises:
            BadConfig: it cannot be made out.
            PodRefused: the pod cannot be read.
            OSError: a volume cannot be made.
        """
        machine, namespace = self._machine, pod["metadata"]["namespace"]
        found = await self._data(pod, container)
        folder = machine.runtime.pod_folder(pod["metadata"]["uid"])
        bound = await self._bound(pod)
        volumes = Volumes(pod, folder / "volumes", machine.claims, found, bound, address, ADDRESS)
        mounts = volumes.mounts(container)
        given = environment.variables(pod, container, address, ADDRESS, found)
        here = self._translation(pod, mounts)
        if machine.no_mounts:
            mounts = []
        else:
            mounts.insert(0, Mount(source=str(machine.names.file(namespace)), target=str(HOSTS), readOnly=False))
        variables = environment.inherited(os.environ) | {"HOSTNAME": hostname(pod)}
        variables |= here.variables(given) | self._card_variables(pod, container)
        root = ""
        if any(needs_root(mount["target"]) for mount in mounts):
            place = folder / "root"
            place.mkdir(exist_ok=True)
            root = str(place)
        spec: Spec = {
            "id": "",
            "argv": [here.text(word) for word in environment.words(container, given)],
            "env": variables,
            "cwd": container.get("workingDir") or variables.get("HOME") or "/",
            "namespace": not machine.no_mounts,
            "root": root,
            "mounts": mounts,
            "cgroups": machine.limits.make(group, _limits(container)),
        }
        lifecycle = container.get("lifecycle") or {}
        if hook := _hook(lifecycle.get("postStart")):
            spec["postStart"] = hook
        if hook := _hook(lifecycle.get("preStop")):
            spec["preStop"] = hook
        if (stop := str(lifecycle.get("stopSignal"))) in signal.Signals.__members__:
            spec["stopSignal"] = stop
        return spec

    def _translation(self, pod: Object, mounts: list[Mount]) -> Translation:
        """Ports of the pod's headless Service; addresses in place of names where those do not resolve, and the places
        of volumes where they are not mounted.
        """
        namespace, subdomain = pod["metadata"]["namespace"], pod["spec"].get("subdomain")
        known = self._machine.names.known(namespace)
        service = self._services.get(f"{namespace}/{subdomain}") if subdomain else None
        gang, ports = [], {}
        if service is not None:
            wanted = [entry["port"] for entry in service["spec"].get("ports") or ()]
            existing = (one["metadata"]["uid"] for one in self._services.objects.values())
            ports = self._machine.ports.of(service["metadata"]["uid"], wanted, existing)
            others = (one for one in self._pods.objects.values() if one["spec"].get("subdomain") == subdomain)
            gang = [name for one in others if one["metadata"]["namespace"] == namespace for name in names_of(one)]
        if not self._machine.no_mounts:
            return Translation(gang, ports)
        return Translation(gang, ports, known, {mount["target"]: mount["source"] for mount in mounts})

    def _card_variables(self, pod: Object, container: Object) -> dict[str, str]:
        """Which cards the container sees: those that it was given, and no other."""
        indices = cards_of(pod).get(container["name"], {}).get(NVIDIA_GPU, ())
        cards = [str(self._machine.cards[index].index) for index in indices if index < len(self._machine.cards)]
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(cards)}

    async def _data(self, pod: Object, container: Object) -> dict[Source, dict[str, str] | None]:
        found: dict[Source, dict[str, str] | None] = {}
        for (kind, name), optional in (*environment.sources(container), *volume_sources(pod)):
            if (kind, name) in found:
                continue
            try:
                obj = await self._port.get(
                    CONFIGMAPS if kind == "configMap" else SECRETS, name, pod["metadata"]["namespace"]
                )
                found[kind, name] = decoded(kind, obj)
            except NotFound:
                if not optional:
                    raise BadConfig(f'{kind.lower()} "{name}" not found') from None
                found[kind, name] = None
        return found

    async def _bound(self, pod: Object) -> dict[str, Object]:
        """The PersistentVolumes of the pod's claims, by the names of its volumes."""
        volumes = [
            one for one in pod["spec"].get("volumes") or () if {"persistentVolumeClaim", "ephemeral"} & one.keys()
        ]
        found = {}
        for volume, name in zip(volumes, claim_names(pod), strict=True):
            try:
                claim = await self._port.get(PVCS, name, pod["metadata"]["namespace"])
                if not is_bound(claim):
                    raise BadConfig(f'persistentvolumeclaim "{name}" is not bound')
                found[volume["name"]] = await self._port.get(PVS, claim["spec"]["volumeName"])
            except NotFound:
                raise BadConfig(f'persistentvolumeclaim "{name}" not found') from None
        return found


def _limits(container: Object) -> Limits:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return Limits(
        to_units("cpu", limits["cpu"]) if "cpu" in limits else None,
        to_units("memory", limits["memory"]) if "memory" in limits else None,
        to_units("cpu", requests.get("cpu", "0")),
    )


def _hook(handler: Object | None) -> Object | None:
    """A hook as the supervisor reads it."""
    if not handler:
        return None
    if "exec" in handler:
        return {"exec": [str(word) for word in handler["exec"].get("command") or ()]}
    return {"sleep": (handler.get("sleep") or {}).get("seconds", 0)}
