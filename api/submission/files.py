"""ConfigMaps that come with a job and belong to it: the files that its pods mount.

A ConfigMap of a request belongs to the one object of the request whose pods name it. It is created after that object,
which owns it: when the object is deleted the cluster deletes it too, also after a submission that was lost half-way.
"""

from collections.abc import Sequence
from typing import Final

from api.http.problems import Problem, from_kube
from api.services import Services
from api.submission.configmaps import KIND, File
from api.submission.submission import Item, Object
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
        body = _owned(file, item, item.workload.name, _NO_UID)
        try:
            await services.kube.create(CONFIGMAPS, body, item.workload.namespace, dry_run=True)
        except ApiError as error:
            raise _refusal(error, file) from error


async def keep_files(services: Services, item: Item, owner: Object) -> None:
    """Create the files of an object that exists; those that an earlier attempt created are left as they are.

    Raises:
        Problem: the cluster refuses one, or there is another of its name.
    """
    for file in item.files:
        meta = owner["metadata"]
        body = _owned(file, item, meta["name"], meta["uid"])
        try:
            await services.kube.create(CONFIGMAPS, body, item.workload.namespace)
        except ApiError as error:
            if not (error.unknown or isinstance(error, AlreadyExists)):
                raise _refusal(error, file) from error
            try:
                there = await _is_there(services, file.name, item.workload.namespace, meta["uid"])
            except ApiError as second:
                raise _refusal(second, file) from error
            if not there:
                raise _refusal(error, file) from error


async def have_files(services: Services, entry: Entry, made: Sequence[Object]) -> bool:
    """Whether every object of a submission has its files.

    Raises:
        ApiError: the cluster does not answer.
    """
    for intent, obj in zip(entry.objects, made, strict=True):
        for name in intent.files:
            if not await _is_there(services, name, intent.namespace, obj["metadata"]["uid"]):
                return False
    return True


def _owned(file: File, item: Item, name: str, uid: str) -> Object:
    """The ConfigMap as that object owns it."""
    reference = {"apiVersion": item.resource.api_version, "kind": item.resource.kind, "name": name, "uid": uid}
    return file.obj | {"metadata": file.obj["metadata"] | {"ownerReferences": [reference]}}


async def _is_there(services: Services, name: str, namespace: str, owner: str) -> bool:
    try:
        found = await services.kube.get(CONFIGMAPS, name, namespace)
    except NotFound:
        return False
    return any(one.get("uid") == owner for one in found["metadata"].get("ownerReferences") or ())


def _refusal(error: ApiError, file: File) -> Problem:
    problem = from_kube(error, f"{KIND}/{file.name}", file.prefix)
    if isinstance(error, AlreadyExists):
        problem.remedy = _REMEDY
    return problem
