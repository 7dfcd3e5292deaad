"""The garbage collector that a bare API server lacks, as far as tests need it: what lost its owners is deleted."""

import asyncio
from contextlib import suppress
from typing import Final

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.resources import (
    CONFIGMAPS,
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
from tests.kinds import MPIJOBS, NOTEBOOKS, PYTORCHTRAININGJOBS

_LEAVES_FIRST: Final = (
    PODS,
    PODGROUPS,
    SERVICES,
    SECRETS,
    CONFIGMAPS,
    REPLICASETS,
    STATEFULSETS,
    DEPLOYMENTS,
    JOBS,
    PYTORCHTRAININGJOBS,
    MPIJOBS,
    NOTEBOOKS,
)
"""An owner is older than what it owns: read later and not there, it is gone."""
_OWNERS: Final = frozenset(res.kind for res in _LEAVES_FIRST)
_PAUSE: Final = 0.25


async def collect(client: Client, namespace: str) -> None:
    """Look again and again until cancelled."""
    while True:
        with suppress(ApiError):
            await _once(client, namespace)
        await asyncio.sleep(_PAUSE)


async def _once(client: Client, namespace: str) -> None:
    alive: set[str] = set()
    owned = []
    for res in _LEAVES_FIRST:
        for item in (await client.list(res, namespace)).items:
            meta = item["metadata"]
            alive.add(meta["uid"])
            if (owners := meta.get("ownerReferences")) and not meta.get("deletionTimestamp"):
                owned.append((res, meta, owners))
    for res, meta, owners in owned:
        if all(owner["kind"] in _OWNERS and owner["uid"] not in alive for owner in owners):
            with suppress(NotFound, Conflict):
                await client.delete(res, meta["name"], namespace, uid=meta["uid"], propagation="Background")
