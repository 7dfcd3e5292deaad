"""The custom resource definitions we ship: put into the cluster, never taken back to an older version.

Each carries the release that wrote it in the label `app.kubernetes.io/version`, and how often it changed within that
release in the annotation `t9ksched.tensorstack.dev/revision`. A definition that is missing is created, one that is
older by both is replaced, an equal or newer one is left as it is, so that two releases on one cluster do not fight.
Afterwards all of them are waited for until the server says they are Established. A user who may not touch definitions
needs an administrator's `kubectl apply -f deploy/crds` first; for such a user it is enough that the kinds without which
nothing works are served.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from t9ksched import version
from t9ksched.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import CRDS, NAMESPACES, PODGROUPS, QUEUES
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.model.text import read_all

VERSION_LABEL = "app.kubernetes.io/version"
REVISION_ANNOTATION = "t9ksched.tensorstack.dev/revision"
SHIPPED: Final = Path(__file__).with_name("crds.json")
"""The shipped definitions once more, as JSON by the digest of their YAML, which takes a hundred times as long to read:
a tenth of the CPU time of the start of a dev cluster. `make reference` writes it; a file that differs is read itself.
"""
_ATTEMPTS = 5


class NotEstablished(RuntimeError):
    """Definitions that the server did not establish in time; the message names them and the server's reasons."""


def read(folder: Path) -> list[Object]:
    """Every CustomResourceDefinition of the folder's YAML files, in the files' order.

    The shipped files carry the version label, so that `kubectl apply` brings it too; one without gets this release's.
    """
    definitions: list[Object] = []
    for path in sorted(folder.glob("*.yaml")):
        for document in msgspec.json.decode(_as_json(path.read_bytes())):
            if isinstance(document, dict) and document.get("kind") == CRDS.kind:
                labels = document["metadata"].setdefault("labels", {})
                if VERSION_LABEL not in labels:
                    labels[VERSION_LABEL] = version()
                definitions.append(document)
    return definitions


@lru_cache(maxsize=64)
def _as_json(text: bytes) -> bytes:
    """The documents of a YAML text as one JSON list. A process that both serves and installs definitions reads the same
    texts twice.
    """
    return _shipped().get(sha256(text).hexdigest()) or msgspec.json.encode(read_all(text))


@cache
def _shipped() -> dict[str, msgspec.Raw]:
    text = SHIPPED.read_bytes() if SHIPPED.is_file() else b"{}"
    return msgspec.json.decode(text, type=dict[str, msgspec.Raw])


def shipped(folder: Path) -> str:
    """What `SHIPPED` is to contain for the files of a folder: a line each."""
    texts = [path.read_bytes() for path in sorted(folder.glob("*.yaml"))]
    lines = [f'"{sha256(text).hexdigest()}":{msgspec.json.encode(read_all(text)).decode()}' for text in texts]
    return "{\n" + ",\n".join(lines) + "\n}\n"


async def ensure(
    port: ClusterPort,
    definitions: list[Object],
    *,
    timeout: float = 30.0,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> list[str]:
    """Bring the cluster to at least these definitions and wait until they serve; returns the names it wrote.

    Raises ApiError when the server refuses one, NotEstablished after about `timeout` seconds, or when the user may not
    install definitions and they are not there.
    """
    try:
        wrote = [name for definition in definitions if (name := await _bring(port, definition)) is not None]
    except Forbidden as refused:
        await _served(port, refused)
        return []
    pause, waited = 0.05, 0.0
    while waiting := await _not_established(port, definitions):
        if waited >= timeout:
            raise NotEstablished("definitions not established: " + "; ".join(waiting))
        await sleep(pause)
        waited += pause
        pause = min(pause * 2, 1.0)
    return wrote


async def ensure_namespace(port: ClusterPort) -> None:
    """Make the namespace of leases and Queue objects, unless it is there or the user may not look.

    Raises NotEstablished when it is missing and the user may not make it.
    """
    try:
        await port.create(NAMESPACES, {"metadata": {"name": SYSTEM_NAMESPACE}})
    except AlreadyExists:
        return
    except Forbidden:
        try:
            await port.get(NAMESPACES, SYSTEM_NAMESPACE)
        except NotFound:
            raise NotEstablished(
                f"there is no namespace {SYSTEM_NAMESPACE}, and this user may not make it: let an administrator run"
                f" kubectl create namespace {SYSTEM_NAMESPACE}"
            ) from None
        except Forbidden:
            return  # the next request in that namespace shows whether it exists


async def _served(port: ClusterPort, refused: Forbidden) -> None:
    for res in (PODGROUPS, QUEUES):
        try:
            await port.list(res, SYSTEM_NAMESPACE, limit=1)
        except NotFound:
            raise NotEstablished(
                f"{res} is not installed, and this user may not install it ({refused.message}): let an administrator"
                " run kubectl apply -f deploy/crds"
            ) from None


async def _bring(port: ClusterPort, definition: Object) -> str | None:
    name = str(definition["metadata"]["name"])
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            try:
                there = await port.get(CRDS, name)
            except NotFound:
                await port.create(CRDS, definition)
                return name
            if _version(there) >= _version(definition):
                return None
            metadata = {
                **there["metadata"],
                "labels": {**(there["metadata"].get("labels") or {}), **definition["metadata"].get("labels", {})},
                "annotations": {
                    **(there["metadata"].get("annotations") or {}),
                    **definition["metadata"].get("annotations", {}),
                },
            }
            await port.replace(CRDS, {**there, "metadata": metadata, "spec": definition["spec"]})
            return name
        except (AlreadyExists, Conflict):  # another client wrote it at the same time: read it again
            if not attempts_left:
                raise
    return None


async def _not_established(port: ClusterPort, definitions: list[Object]) -> list[str]:
    waiting = []
    for definition in definitions:
        name = str(definition["metadata"]["name"])
        try:
            there = await port.get(CRDS, name)
        except ApiError as error:
            waiting.append(f"{name}: {error}")
            continue
        conditions = {item.get("type"): item for item in there.get("status", {}).get("conditions") or ()}
        if conditions.get("Established", {}).get("status") != "True":
            refused = conditions.get("NamesAccepted", {})
            waiting.append(f"{name}: {refused.get('message') or 'no answer yet'}")
    return waiting


def _version(definition: Object) -> tuple[Any, ...]:
    """The version label as comparable numbers, then the revision; a definition without a label is older than any."""
    label = str((definition["metadata"].get("labels") or {}).get(VERSION_LABEL, ""))
    revision = str((definition["metadata"].get("annotations") or {}).get(REVISION_ANNOTATION, ""))
    return tuple(int(part) for part in re.findall(r"\d+", label)), int(revision) if revision.isdecimal() else 0
