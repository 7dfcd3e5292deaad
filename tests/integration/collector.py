"""The garbage collector that a bare API server lacks, as far as tests need it: what lost its owners is deleted."""

import asyncio
from contextlib import suppress
from typing import Any, Final

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.resources import (
    ALL,
    CONFIGMAPS,
    CRDS,
    DEPLOYMENTS,
    JOBS,
    PODGROUPS,
    PODS,
    REPLICASETS,
    SECRETS,
    SERVICES,
    STATEFULSETS,
)
from t9ksched.kube.transport.client import Client
from t9ksched.model.api_resource import Resource
from t9ksched.workloads import boards
from t9ksched.workloads.addons import ADDONS
from t9ksched.workloads.registry import KINDS
from t9ksched.workloads.tuning.experiment import TRIAL_KINDS

_BETWEEN: Final = tuple(res for addon in ADDONS for res in addon.between)
_OWNED: Final = (
    PODS,
    PODGROUPS,
    SERVICES,
    SECRETS,
    CONFIGMAPS,
    REPLICASETS,
    STATEFULSETS,
    DEPLOYMENTS,
    JOBS,
    KINDS[boards.KIND].resource,
    *(KINDS[kind].resource for kind in TRIAL_KINDS),
    *_BETWEEN,
)
"""What is made for something else: by our controllers, by those of a cluster, or by those of projects beside us."""
_OWNERS: Final = {(res.api_version, res.api_kind): res for res in (*_BETWEEN, *ALL)}
_PAUSE: Final = 0.25

Object = dict[str, Any]


async def collect(client: Client, namespace: str) -> None:
    """Look again and again until cancelled."""
    while True:
        with suppress(ApiError):
            await _once(client, namespace)
        await asyncio.sleep(_PAUSE)


async def _once(client: Client, namespace: str) -> None:
    there: dict[str, bool] = {}
    owned: list[tuple[Resource, Object, list[Object]]] = []
    for res in _OWNED:
        with suppress(NotFound):  # a kind that is not installed
            for item in (await client.list(res, namespace)).items:
                meta = item["metadata"]
                there[meta["uid"]] = True
                if (owners := meta.get("ownerReferences")) and not meta.get("deletionTimestamp"):
                    owned.append((res, meta, owners))
    for res, meta, owners in owned:
        for owner in owners:
            if owner["uid"] not in there:
                there[owner["uid"]] = await _is_there(client, namespace, owner)
        if not any(there[owner["uid"]] for owner in owners):
            with suppress(NotFound, Conflict):
                await client.delete(res, meta["name"], namespace, uid=meta["uid"], propagation="Background")


async def _is_there(client: Client, namespace: str, owner: Object) -> bool:
    """Whether an owner exists; of a kind that nobody knows nothing is collected."""
    res = _OWNERS.get((owner["apiVersion"], owner["kind"]))
    if res is None:
        return True
    try:
        found = await client.get(res, owner["name"], namespace if res.namespaced else None)
    except NotFound:
        return not await client.serves(res) and await _is_defined(client, res)
    return bool(found["metadata"]["uid"] == owner["uid"])


async def _is_defined(client: Client, res: Resource) -> bool:
    """Whether a kind is defined, perhaps in another version; without a definition its objects have gone."""
    try:
        await client.get(CRDS, str(res))
    except NotFound:
        return False
    return True
