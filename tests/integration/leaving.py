"""Nothing is left of the namespace of a test on a real server: the next test's scheduler would meet it."""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec

from t9ksched.kube.errors import Forbidden, NotFound
from t9ksched.kube.resources import ALL, EVENTS_V1, NAMESPACES, PVCS
from t9ksched.kube.transport.client import Client
from t9ksched.model.api_resource import Resource

_KINDS: Final = tuple(res for res in ALL if res.namespaced and res is not EVENTS_V1)
_PAUSE: Final = 0.2
_AT_ONCE: Final = msgspec.json.encode({"gracePeriodSeconds": 0, "propagationPolicy": "Background"})


async def delete_all(client: Client, res: Resource, namespace: str) -> None:
    """Delete all objects of a kind there."""
    with suppress(NotFound):  # a kind that is not installed
        await client.request("DELETE", res.path(namespace), body=_AT_ONCE)


async def leave(client: Client, namespace: str, *, controllers: bool) -> None:
    """Delete a namespace with all that is in it, and return once it has gone. The namespace controller of a cluster
    with `controllers` would do that too, but waits for five seconds first.
    """
    await client.delete(NAMESPACES, namespace)
    await _delete_everything(client, namespace)
    if controllers:
        while await _anything_left(client, namespace):  # until those that it belongs to let it go
            await asyncio.sleep(_PAUSE)
            await _delete_everything(client, namespace)
    else:
        await _let_go_of_claims(client, namespace)
    with suppress(NotFound, Forbidden):
        there = await client.get(NAMESPACES, namespace)
        whole = msgspec.json.encode({**there, "spec": {"finalizers": []}})
        await client.request("PUT", NAMESPACES.path(None, namespace, "finalize"), body=whole)
    with suppress(NotFound):
        while await client.get(NAMESPACES, namespace):  # noqa: ASYNC110
            await asyncio.sleep(_PAUSE)


async def _delete_everything(client: Client, namespace: str) -> None:
    for res in _KINDS:
        await delete_all(client, res, namespace)


async def _anything_left(client: Client, namespace: str) -> bool:
    for res in _KINDS:
        with suppress(NotFound):
            if (await client.list(res, namespace)).items:
                return True
    return False


async def _let_go_of_claims(client: Client, namespace: str) -> None:
    """Claims are kept while pods use them, and no controller sees that these have gone."""
    for claim in (await client.list(PVCS, namespace)).items:
        with suppress(NotFound):
            await client.patch(PVCS, claim["metadata"]["name"], namespace, {"metadata": {"finalizers": None}})
