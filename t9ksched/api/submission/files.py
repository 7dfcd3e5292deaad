"""ConfigMaps that come with a job and belong to it: the files that its pods mount.

A ConfigMap of a request belongs to the one object of the request whose pods name it, of an array to its elements. It is
created after them, and they own it: when they are deleted the cluster deletes it too, also after a submission that was
lost half-way.
"""

from collections.abc import Sequence
from typing import Final

from t9ksched.api.http.problems import Problem, from_kube
from t9ksched.api.services import Services
from t9ksched.api.submission.configmaps import KIND, File
from t9ksched.api.submission.submission import Item, Object
from t9ksched.kube.errors import AlreadyExists, ApiError, NotFound
from t9ksched.kube.resources import CONFIGMAPS
from t9ksched.store.outbox import Entry

_NO_UID: Final = "00000000-0000-0000-0000-000000000000"
"""Of an owner that does not exist yet, while it is tried out."""
_REMEDY: Final = "give it another name, and its volume too"


async def try_out_files(services: Services, item: Item) -> None:
    """See that the cluster would take the files of an object; nothing is created.

    Raises:
        Problem: it would refuse one.
    """
    for file in item.files:
        body = _owned(file, [(item, item.workload.name, _NO_UID)])
        try:
            await services.kube.create(CONFIGMAPS, body, item.workload.namespace, dry_run=True)
        except ApiError as error:
            raise _refusal(error, file) from error


async def keep_files(services: Services, items: Sequence[Item], made: Sequence[Object | None]) -> None:
    """Create the files of objects that exist; those that an earlier attempt created are left as they are.

    Raises:
        Problem: the cluster refuses one, or there is another of its name.
    """
    owners: dict[int, list[tuple[Item, Object]]] = {}
    files: dict[int, File] = {}
    for item, obj in zip(items, made, strict=True):
        for file in item.files if obj is not None else ():
            files[id(file)] = file
            owners.setdefault(id(file), []).append((item, obj))  # type: ignore[arg-type]
    for key, file in files.items():
        await _keep(services, file, owners[key])


async def _keep(services: Services, file: File, owners: Sequence[tuple[Item, Object]]) -> None:
    namespace = owners[0][0].workload.namespace
    uids = {obj["metadata"]["uid"] for _, obj in owners}
    body = _owned(file, [(item, obj["metadata"]["name"], obj["metadata"]["uid"]) for item, obj in owners])
    try:
        await services.kube.create(CONFIGMAPS, body, namespace)
    except ApiError as error:
        if not (error.unknown or isinstance(error, AlreadyExists)):
            raise _refusal(error, file) from error
        try:
            there = await _owners(services, file.name, namespace)
        except ApiError as second:
            raise _refusal(second, file) from error
        if not uids <= there:
            raise _refusal(error, file) from error


async def have_files(services: Services, entry: Entry, made: Sequence[Object]) -> bool:
    """Whether every object of a submission has its files.

    Raises:
        ApiError: the cluster does not answer.
    """
    known: dict[tuple[str, str], set[str]] = {}
    for intent, obj in zip(entry.objects, made, strict=True):
        for name in intent.files:
            key = (name, intent.namespace)
            if key not in known:
                known[key] = await _owners(services, *key)
            if obj["metadata"]["uid"] not in known[key]:
                return False
    return True


def _owned(file: File, owners: Sequence[tuple[Item, str, str]]) -> Object:
    """The ConfigMap as those objects own it, each told by its name and UID."""
    references = [
        {"apiVersion": item.resource.api_version, "kind": item.resource.api_kind, "name": name, "uid": uid}
        for item, name, uid in owners
    ]
    return file.obj | {"metadata": file.obj["metadata"] | {"ownerReferences": references}}


async def _owners(services: Services, name: str, namespace: str) -> set[str]:
    """The UIDs of those that own a ConfigMap; none where there is no such."""
    try:
        found = await services.kube.get(CONFIGMAPS, name, namespace)
    except NotFound:
        return set()
    return {str(one.get("uid")) for one in found["metadata"].get("ownerReferences") or ()}


def _refusal(error: ApiError, file: File) -> Problem:
    problem = from_kube(error, f"{KIND}/{file.name}", file.prefix)
    if isinstance(error, AlreadyExists):
        problem.remedy = _REMEDY
    return problem
