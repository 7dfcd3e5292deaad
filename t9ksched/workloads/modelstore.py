"""Where the model of a service comes from: a folder of a claim, which is mounted, or an S3 bucket, which an init
container copies into each pod before the server starts.

The credentials are a Secret with the key `.s3cfg`, a configuration of s3cmd; nothing of ours reads it.
"""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from t9ksched.workloads import phase
from t9ksched.workloads.actions import Object, name_of
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.fields import Field
from t9ksched.workloads.sshgang import native_resources

MODEL_PATH: Final = "/var/lib/t9k/model"
"""Where the model is in the containers unless the user says otherwise."""
DOWNLOADER: Final = "download-model"
"""The init container that copies a model from S3."""
DOWNLOADER_IMAGE: Final = "d3fk/s3cmd:stable"
_VOLUME, _KEYS = "t9k-model", "t9k-s3-config"
_KEYS_PATH: Final = "/t9k/s3"
_URI: Final = re.compile(r"s3://[^/\s]+(/\S*)?")
DOWNLOADED: Final = "ModelDownloaded"


@dataclass(frozen=True, slots=True)
class ModelStore:
    """One of the two places, or none.

    Attributes:
        path: where the model is in the containers.
        claim, folder: the claim and the folder in it, empty for all of it.
        uri, secret, image: the bucket, the Secret and the image of the copying container.
    """

    path: str = MODEL_PATH
    claim: str = ""
    folder: str = ""
    uri: str = ""
    secret: str = ""
    image: str = DOWNLOADER_IMAGE


def read_store(storage: Field) -> ModelStore:
    """`storage {pvc, s3}`, of which one is given; `containerPath` and `secretName` are older names of `mountPath` and
    `secretRef.name`.
    """
    pvc, s3 = storage["pvc"], storage["s3"]
    if pvc.present and s3.present:
        storage.fault("gives pvc and s3: give one of them")
    if pvc.present:
        claim = pvc["name"].object_name("is missing: name the PersistentVolumeClaim that has the model")
        return ModelStore(_path(pvc), claim, _folder(pvc["subPath"]))
    if not s3.present:
        if storage.mapping():
            storage.fault("says not where the model is: give pvc or s3")
        return ModelStore()
    uri, newer = s3["uri"].text(), s3["secretRef"]["name"]
    named = newer if newer.value or not s3["secretName"].present else s3["secretName"]
    if not _URI.fullmatch(uri):
        s3["uri"].fault(f"{uri!r} is no folder of a bucket: write s3://BUCKET/PATH" if uri else "is missing")
    secret = named.object_name("is missing: name the Secret that has the configuration of s3cmd in its key .s3cfg")
    return ModelStore(_path(s3), uri=uri, secret=secret, image=s3["image"].text(DOWNLOADER_IMAGE))


def _path(place: Field) -> str:
    field = place["mountPath"] if place["mountPath"].present else place["containerPath"]
    path = field.text(MODEL_PATH)
    if not path.startswith("/"):
        field.fault(f"{path!r} is no absolute path: begin it with /")
        return MODEL_PATH
    return path


def _folder(field: Field) -> str:
    path = field.text()
    if path.startswith("/"):
        field.fault(f"{path!r} begins with /: write the path within the volume")
        return ""
    folder = posixpath.normpath(path) if path else ""
    if folder == ".." or folder.startswith("../"):
        field.fault(f"{path!r} leads out of the volume: write the path within it")
        return ""
    return "" if folder == "." else folder


def with_model(spec: Object, store: ModelStore, only: str = "") -> None:
    """Give the model to every container of the pod spec, or to the one of that name.

    What copies it asks for as much cpu and memory as the first of them, so that the pod asks for no more than without.
    """
    if not (store.claim or store.uri):
        return
    volumes: list[Object] = []
    mount: Object = {"name": _VOLUME, "mountPath": store.path}
    if store.claim:
        volumes.append({"name": _VOLUME, "persistentVolumeClaim": {"claimName": store.claim}})
        if store.folder:
            mount["subPath"] = store.folder
    else:
        volumes.append({"name": _VOLUME, "emptyDir": {}})
        volumes.append({"name": _KEYS, "secret": {"secretName": store.secret}})
        keys = {"name": _KEYS, "mountPath": _KEYS_PATH, "readOnly": True}
        copy = ["s3cmd", "-c", f"{_KEYS_PATH}/.s3cfg", "sync", "--no-progress", store.uri, f"{store.path}/"]
        first = {
            "name": DOWNLOADER,
            "image": store.image,
            "command": copy,
            "resources": native_resources(spec["containers"][0]),
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [mount, keys],
        }
        spec["initContainers"] = [first, *(spec.get("initContainers") or ())]
    spec["volumes"] = [*(spec.get("volumes") or ()), *volumes]
    named = [each for each in spec["containers"] if each.get("name") == only]
    for container in named or spec["containers"]:
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def tell(store: ModelStore, pods: Sequence[Object], conditions: Conditions) -> None:
    """The condition ModelDownloaded: True once every pod has its copy."""
    if not store.uri:
        conditions.set(DOWNLOADED, True, "NotNeeded", "the model is on a volume" if store.claim else "")
        return
    live = [pod for pod in pods if not phase.is_terminating(pod)]
    states = [(pod, _download(pod)) for pod in live]
    failed = [(pod, end) for pod, (end, done) in states if end and not done]
    if failed:
        pod, end = failed[0]
        conditions.set(DOWNLOADED, False, "DownloadFailed", f"pod {name_of(pod)}: {end}")
    elif live and all(done for _, (_, done) in states):
        conditions.set(DOWNLOADED, True, "Downloaded")
    else:
        have = sum(done for _, (_, done) in states)
        told = f"{have} of {len(live)} pods have the model" if live else "no pod is there yet"
        conditions.set(DOWNLOADED, False, "Downloading", told)


def _download(pod: Object) -> tuple[str, bool]:
    """How copying failed last, empty if it did not; whether the pod has its copy."""
    for status in (pod.get("status") or {}).get("initContainerStatuses") or ():
        if status.get("name") != DOWNLOADER:
            continue
        for state in (status.get("state") or {}, status.get("lastState") or {}):
            ended = state.get("terminated")
            if ended is not None and ended.get("exitCode") == 0:
                return "", True
            if ended is not None:
                said = str(ended.get("message") or "").strip().splitlines()
                return f"s3cmd ended with {ended.get('exitCode')}" + (f": {said[-1]}" if said else ""), False
    return "", False
