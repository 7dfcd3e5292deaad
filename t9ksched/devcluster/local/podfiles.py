"""What a pod needs from this machine beside processes: its volumes as directories, and what cannot be had here.

`fault_of` says why a pod cannot run here at all, before anything is started. Volumes: `emptyDir`, `configMap`,
`secret`, `downwardAPI` and `projected` are made in the pod's folder; `hostPath`, and claims whose volume is a
`hostPath` or `local` one, are directories of this machine. Where processes cannot have mounts of their own, a volume of
files that is named by its path in what a container is started with is put there by the path that it has here.
"""

import base64
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from t9ksched.devcluster.controllers.volumes import PROVISIONER
from t9ksched.devcluster.local.environment import BadConfig, Source, amount, field
from t9ksched.devcluster.local.lifecycle import containers_of
from t9ksched.devcluster.local.names import path_pattern
from t9ksched.devcluster.local.setup import Mount

Object = dict[str, Any]
SHARED_MEMORY: Final = "/dev/shm"
_FILES: Final = ("configMap", "secret", "downwardAPI", "projected")
_MADE: Final = ("emptyDir", *_FILES)
_KINDS: Final = (*_MADE, "hostPath", "persistentVolumeClaim", "ephemeral")
_HANDLERS: Final = ("exec", "sleep")


def fault_of(pod: Object, user: int, group: int, no_mounts: str) -> str:
    """Why a pod cannot run on this machine, an empty text if it can. `no_mounts` says why there are no mounts here."""
    faults = (
        *_identities(pod, user, group),
        *_commands(pod),
        *_volume_kinds(pod),
        *_hooks(pod),
        *_mounts(pod, no_mounts),
    )
    return next(iter(faults), "")


def _identities(pod: Object, user: int, group: int) -> Iterator[str]:
    spec = pod["spec"]
    places = [("the pod", spec.get("securityContext") or {})]
    places += [(f"container {one['name']}", one.get("securityContext") or {}) for one in containers_of(pod)]
    for what, context in places:
        for key, own in (("runAsUser", user), ("runAsGroup", group)):
            wanted = context.get(key)
            if wanted is not None and wanted != own:
                kind = "user" if key == "runAsUser" else "group"
                yield (
                    f"{what} has {key}: {wanted}, and processes of this node run as {kind} {own}, who started it:"
                    f" leave {key} out"
                )
        if context.get("runAsNonRoot") and user == 0 and context.get("runAsUser") is None:
            yield f"{what} has runAsNonRoot, and processes of this node run as root, who started it"
        if context.get("privileged") and user:
            yield f"{what} is privileged, and processes of this node have the rights of user {user} alone"
    if spec.get("hostUsers") is False:
        yield "the pod has hostUsers: false, and this node gives pods no users of their own"


def _commands(pod: Object) -> Iterator[str]:
    for container in containers_of(pod):
        if not container.get("command"):
            yield (
                f"container {container['name']} has no command: images are not used on this node, so what would run is"
                " not known; write it in command"
            )


def _volume_kinds(pod: Object) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        kind = next((key for key in volume if key != "name"), "emptyDir")
        if kind not in _KINDS:
            yield f"volume {volume['name']} is a {kind}, which this node cannot mount: use {', '.join(_KINDS)}"
        for source in (volume.get("projected") or {}).get("sources") or ():
            # A token for the API server is left out: pods of a cluster get one unasked, and few use it.
            known = ("configMap", "secret", "downwardAPI", "serviceAccountToken")
            if other := next((key for key in source if key not in known), ""):
                yield f"volume {volume['name']} has a {other} in it, which this node cannot mount"
    for container in containers_of(pod):
        if container.get("volumeDevices"):
            yield f"container {container['name']} has volumeDevices, which this node cannot give"


def _hooks(pod: Object) -> Iterator[str]:
    for container in containers_of(pod):
        for name, handler in (container.get("lifecycle") or {}).items():
            if isinstance(handler, Mapping) and not any(kind in handler for kind in _HANDLERS):
                yield (
                    f"container {container['name']} has lifecycle.{name}.{next(iter(handler), '')}, which this node"
                    " does not do: use exec or sleep"
                )


def _mounts(pod: Object, no_mounts: str) -> Iterator[str]:
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for container in containers_of(pod):
        for mount in container.get("volumeMounts") or ():
            path, volume = os.path.normpath(mount["mountPath"]), volumes.get(mount["name"], {})
            if in_place(volume, mount):
                continue
            what = f"container {container['name']} mounts volume {mount['name']} at {path}, "
            if no_mounts and any(kind in volume for kind in _FILES) and _names(container, path):
                continue
            if no_mounts:
                yield f"{what}and this machine lets its user mount nothing ({no_mounts}): use a hostPath of that path"
            elif not os.path.exists(path) and not needs_root(path):
                yield f"{what}which is not there on this machine: make that directory first"


def _names(container: Object, path: str) -> bool:
    """Whether what a container is started with has a path in it."""
    pattern = path_pattern([path])
    texts = [*(container.get("command") or ()), *(container.get("args") or ())]
    texts += [one.get("value") or "" for one in container.get("env") or ()]
    return any(pattern.search(str(text)) for text in texts)


def in_place(volume: Object, mount: Object) -> bool:
    """Whether a volume is at its place without being mounted: a directory of this machine, or its shared memory."""
    path = os.path.normpath(mount["mountPath"])
    below = mount.get("subPath") or ""
    if host := (volume.get("hostPath") or {}).get("path"):
        return os.path.normpath(os.path.join(host, below)) == path and not mount.get("readOnly")
    return path == SHARED_MEMORY and (volume.get("emptyDir") or {}).get("medium") == "Memory"


def needs_root(path: str) -> bool:
    """Whether a path lies below a directory of `/` that is not there: then it can be made in a root directory of the
    container's own. Elsewhere that would hide where files of this machine are written.
    """
    parts = Path(path).parts
    return len(parts) > 1 and not os.path.lexists(os.path.join(parts[0], parts[1]))


class Volumes:
    """The volumes of one pod; those that are made lie in `folder`. `claims` is where claims' volumes are made.

    Args:
        found: the data of config maps and secrets; None of what does not exist.
        bound: the PersistentVolume of each claim by the volume's name.
    """

    def __init__(
        self,
        pod: Object,
        folder: Path,
        claims: Path,
        found: Mapping[Source, Mapping[str, str] | None],
        bound: Mapping[str, Object],
        address: str = "",
        host: str = "",
    ) -> None:
        self._pod = pod
        self._folder = folder
        self._claims = claims
        self._found = found
        self._bound = bound
        self._address, self._host = address, host

    def mounts(self, container: Object) -> list[Mount]:
        """What a container has mounted, made where it is missing.

        Raises:
            BadConfig: a volume cannot be had.
        """
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes") or ()}
        wanted = sorted(container.get("volumeMounts") or (), key=lambda mount: mount["mountPath"].count("/"))
        mounts: list[Mount] = []
        for mount in wanted:
            volume = volumes.get(mount["name"])
            if volume is None or in_place(volume, mount):
                continue
            source = self._source(volume)
            below = str(mount.get("subPath") or "")
            if below:
                source = source / below
                if "emptyDir" in volume or "persistentVolumeClaim" in volume:
                    source.mkdir(parents=True, exist_ok=True)
                if not source.exists():
                    raise BadConfig(f"volume {mount['name']} has no {below}")
            target = os.path.normpath(mount["mountPath"])
            mounts.append({"source": str(source), "target": target, "readOnly": bool(mount.get("readOnly"))})
        return mounts

    def _source(self, volume: Object) -> Path:
        name = str(volume["name"])
        if name in self._bound:
            return self._of_claim(self._bound[name])
        if host := volume.get("hostPath"):
            return _host_path(name, Path(host["path"]), str(host.get("type") or ""))
        folder = self._folder / name
        if not folder.exists():
            fresh = folder.with_name(f"{name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            for path, text, mode in self._files(volume):
                file = fresh / path
                if ".." in file.parts:
                    raise BadConfig(f"volume {name}: {path} may not lead out of the volume")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text)
                file.chmod(mode)
            fresh.rename(folder)
        return folder

    def _of_claim(self, volume: Object) -> Path:
        spec = volume["spec"]
        annotations = volume["metadata"].get("annotations") or {}
        if annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER:
            made = self._claims / str(volume["metadata"]["name"])
            made.mkdir(parents=True, exist_ok=True)
            return made
        path = (spec.get("hostPath") or spec.get("local") or {}).get("path")
        if not path:
            kind = next((key for key in spec if isinstance(spec[key], Mapping) and key not in _OF_VOLUMES), "volume")
            raise BadConfig(f"PersistentVolume {volume['metadata']['name']} is a {kind}, which this node cannot mount")
        return _host_path(volume["metadata"]["name"], Path(path), "Directory")

    def _files(self, volume: Object) -> Iterator[tuple[str, bytes, int]]:
        projected = volume.get("projected") or {}
        sources = projected.get("sources") or [volume]
        mode = projected.get("defaultMode")
        for source in sources:
            for kind, key in (("configMap", "name"), ("secret", "secretName" if source is volume else "name")):
                if ref := source.get(kind):
                    yield from self._data(kind, ref.get(key, ""), ref, mode)
            if ref := source.get("downwardAPI"):
                for item in ref.get("items") or ():
                    text = self._told(item)
                    yield item["path"], text.encode(), item.get("mode") or mode or ref.get("defaultMode") or 0o644

    def _told(self, item: Object) -> str:
        if ref := item.get("fieldRef"):
            return field(self._pod, ref["fieldPath"], self._address, self._host)
        return amount(self._pod, self._pod["spec"]["containers"][0], item.get("resourceFieldRef") or {})

    def _data(self, kind: str, name: str, ref: Object, mode: int | None) -> Iterator[tuple[str, bytes, int]]:
        data = self._found.get((kind, name))
        mode = mode or ref.get("defaultMode") or 0o644
        if data is None:
            if ref.get("optional"):
                return
            raise BadConfig(f'{kind.lower()} "{name}" not found')
        if not ref.get("items"):
            yield from ((key, value.encode("utf-8", "surrogateescape"), mode) for key, value in data.items())
            return
        for item in ref["items"]:
            if item["key"] in data:
                text = data[item["key"]].encode("utf-8", "surrogateescape")
                yield item["path"], text, item.get("mode") or mode
            elif not ref.get("optional"):
                raise BadConfig(f"{kind.lower()} {name} has no key {item['key']}")


_OF_VOLUMES: Final = ("capacity", "claimRef", "nodeAffinity")


def volume_sources(pod: Object) -> Iterator[tuple[Source, bool]]:
    """The objects that volumes are filled from, each with whether it may be missing."""
    for volume in pod["spec"].get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or [volume]
        for source in sources:
            for kind, key in (("configMap", "name"), ("secret", "secretName" if source is volume else "name")):
                if ref := source.get(kind):
                    yield (kind, ref.get(key, "")), bool(ref.get("optional"))


def decoded(kind: str, obj: Object) -> dict[str, str]:
    """The data of a config map or a secret. Bytes that are no text are kept in surrogates."""
    data = dict(obj.get("data") or {}) if kind == "configMap" else {}
    raw = obj.get("binaryData") if kind == "configMap" else obj.get("data")
    for key, text in (raw or {}).items():
        data[key] = base64.b64decode(text).decode("utf-8", "surrogateescape")
    return data


def _host_path(name: str, path: Path, kind: str) -> Path:
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(exist_ok=True)
    fits = {"Directory": path.is_dir, "File": path.is_file, "": path.exists}.get(kind, path.exists)
    if not fits():
        raise BadConfig(f"volume {name}: {path} is not there on this machine, or no {kind or 'file'}")
    return path
