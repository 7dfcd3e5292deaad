"""Reads a cluster for an uninstallation, waits until nobody schedules any more, and carries out the steps."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.port import Object
from t9ksched.kube.resources import CRDS, DEPLOYMENTS, LEASES, NODES, PODS
from t9ksched.kube.setup.removal import INSTALLED, OUR_GROUPS, OWNING, Found, Step
from t9ksched.kube.transport.client import Client
from t9ksched.model.api_resource import Resource
from t9ksched.model.names import SYSTEM_NAMESPACE

_ROLES: Final = ("t9k-scheduler", "t9ksched-controller", "t9ksched-api")
_LEADING: Final = ("t9k-scheduler", "t9ksched-controller")
_POLL_SECONDS: Final = 0.2


class StillLeading(RuntimeError):
    """A scheduler or controller works on, so that what is handed back would be taken again."""


async def look(client: Client, definitions: Sequence[Object]) -> Found:
    """The cluster as an uninstallation needs to know it. `definitions` are those of this release.

    Raises:
        ApiError: something cannot be read.
    """
    names = {definition["metadata"]["name"] for definition in definitions}
    there = [one for one in await _listed(client, CRDS) if one["metadata"]["name"] in names]
    kept: dict[Resource, Sequence[Object]] = {}
    for definition in there:
        resource = _resource(definition)
        if resource.group in OUR_GROUPS:
            kept[resource] = await _listed(client, resource)
    return Found(
        pods=await _listed(client, PODS),
        owners={one: await _listed(client, one) for one in OWNING},
        installed={one: await _listed(client, one, SYSTEM_NAMESPACE if one.namespaced else None) for one in INSTALLED},
        nodes=await _listed(client, NODES),
        definitions=there,
        kept=kept,
    )


def _resource(definition: Object) -> Resource:
    spec = definition["spec"]
    version = next(one["name"] for one in spec["versions"] if one["storage"])
    kind, plural = spec["names"]["kind"], spec["names"]["plural"]
    return Resource(spec["group"], version, plural, kind, spec["scope"] == "Namespaced")


async def _listed(client: Client, resource: Resource, namespace: str | None = None) -> list[Object]:
    """All objects of a kind; none of one that the server does not have."""
    try:
        return (await client.list(resource, namespace)).items
    except NotFound:
        return []


async def stop(client: Client, seconds: float) -> list[str]:
    """Scale the roles down and wait until no lease is held; which Deployments were scaled.

    Raises:
        StillLeading: after so many seconds one still is.
        ApiError: something cannot be read or written.
    """
    scaled = []
    for name in _ROLES:
        with suppress(NotFound):
            await client.get(DEPLOYMENTS, name, SYSTEM_NAMESPACE)
            await client.patch(DEPLOYMENTS, name, SYSTEM_NAMESPACE, {"spec": {"replicas": 0}}, subresource="scale")
            scaled.append(name)
    end = datetime.now(UTC) + timedelta(seconds=seconds)
    while holders := [one async for one in _holders(client)]:
        if datetime.now(UTC) > end:
            raise StillLeading(f"still at work: {', '.join(holders)}")
        await asyncio.sleep(_POLL_SECONDS)
    return scaled


async def _holders(client: Client) -> AsyncIterator[str]:
    """Who holds a lease that has not run out."""
    for name in _LEADING:
        try:
            spec = (await client.get(LEASES, name, SYSTEM_NAMESPACE)).get("spec") or {}
        except NotFound:
            continue
        renewed = spec.get("renewTime")
        if not spec.get("holderIdentity") or not renewed:
            continue
        ends = datetime.fromisoformat(renewed.replace("Z", "+00:00"))
        if ends + timedelta(seconds=spec.get("leaseDurationSeconds") or 0) > datetime.now(UTC):
            yield f"{name} ({spec['holderIdentity']})"


async def carry_out(client: Client, steps: Sequence[Step]) -> list[str]:
    """Do all steps in order; what failed, each as a line. A step whose object is gone is done."""
    failed = []
    for step in steps:
        if step.verb == "leave":
            continue
        try:
            await _do(client, step)
        except NotFound:
            continue
        except ApiError as error:
            failed.append(f"{step.verb} {step.resource.api_kind} {step.namespace or ''} {step.name}: {error.message}")
    return failed


async def _do(client: Client, step: Step) -> None:
    namespace = step.namespace or None
    if step.verb == "tell":
        assert step.body is not None
        await client.create(step.resource, step.body, namespace)
    elif step.verb == "change":
        await client.patch(step.resource, step.name, namespace, step.body)
    elif step.verb == "hand back":
        assert step.body is not None
        with suppress(NotFound):
            await client.delete(step.resource, step.name, namespace, uid=step.uid, grace=0, propagation="Background")
        await _made(client, step, step.body)
    else:
        propagation = "Orphan" if step.verb == "release" else "Background"
        await client.delete(step.resource, step.name, namespace, uid=step.uid or None, propagation=propagation)


async def _made(client: Client, step: Step, body: Object) -> None:
    """Create an object in the place of one that is being deleted."""
    for last in (*(False,) * 50, True):
        try:
            await client.create(step.resource, body, step.namespace)
        except Conflict:
            if last:
                raise
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return
