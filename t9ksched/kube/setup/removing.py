"""Reads a cluster for an uninstallation, waits until nobody schedules any more, and carries out the steps."""

import asyncio
import socket
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.port import Object
from t9ksched.kube.resources import CRDS, DEPLOYMENTS, JOBS, LEASES, NAMESPACES, NODES, PODS
from t9ksched.kube.setup.rbac import LEADING, ROLES
from t9ksched.kube.setup.removal import INSTALLED, OUR_GROUPS, TEMPLATED, Found, Step
from t9ksched.kube.setup.save_file import MADE_FROM, Saved, SaveFile
from t9ksched.kube.transport.client import Client
from t9ksched.model.api_resource import Resource
from t9ksched.model.names import SCHEDULER_GROUP, SYSTEM_NAMESPACE

_POLL_SECONDS: Final = 0.2
SAVED_IN: Final = f"{SCHEDULER_GROUP}/uninstall-saved-in"
"""Annotation of our namespace while an uninstallation has not ended: where its save file is."""


class StillLeading(RuntimeError):
    """A scheduler or controller works on, so that what is handed back would be taken again."""


async def look(client: Client, definitions: Sequence[Object], named: Collection[tuple[str, str]]) -> Found:
    """The cluster as an uninstallation needs to know it.

    `definitions` are those of this release, `named` has kind and name of what its manifests have.

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
        owners={one: await _listed(client, one) for one in TEMPLATED},
        installed={one: await _listed(client, one, SYSTEM_NAMESPACE if one.namespaced else None) for one in INSTALLED},
        nodes=await _listed(client, NODES),
        definitions=there,
        kept=kept,
        named=named,
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


async def stop(client: Client, seconds: float) -> None:
    """Scale the roles down and wait until no lease is held.

    Raises:
        StillLeading: after so many seconds one still is.
        ApiError: something cannot be read or written.
    """
    for name in ROLES:
        with suppress(NotFound):
            await client.get(DEPLOYMENTS, name, SYSTEM_NAMESPACE)
            await client.patch(DEPLOYMENTS, name, SYSTEM_NAMESPACE, {"spec": {"replicas": 0}}, subresource="scale")
    end = datetime.now(UTC) + timedelta(seconds=seconds)
    while holders := [one async for one in _holders(client)]:
        if datetime.now(UTC) > end:
            raise StillLeading(f"still at work: {', '.join(holders)}")
        await asyncio.sleep(_POLL_SECONDS)


async def _holders(client: Client) -> AsyncIterator[str]:
    """Who holds a lease that has not run out."""
    for name in LEADING:
        try:
            spec = (await client.get(LEASES, name, SYSTEM_NAMESPACE)).get("spec") or {}
        except NotFound:
            continue
        renewed = spec.get("renewTime")
        if not spec.get("holderIdentity") or not renewed:
            continue
        ends = datetime.fromisoformat(renewed)
        if ends + timedelta(seconds=spec.get("leaseDurationSeconds") or 0) > datetime.now(UTC):
            yield f"{name} ({spec['holderIdentity']})"


async def cluster_uid(client: Client) -> str:
    """What tells this cluster from others: the UID of a namespace that every cluster has."""
    uid: str = (await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    return uid


async def claimed(client: Client) -> str:
    """The save file of an uninstallation that has not ended, as host:path; empty if there is none."""
    try:
        metadata = (await client.get(NAMESPACES, SYSTEM_NAMESPACE))["metadata"]
    except NotFound:
        return ""
    return str((metadata.get("annotations") or {}).get(SAVED_IN, ""))


async def claim(client: Client, file: str | None) -> None:
    """Remember in the cluster where the save file is, or, with None, that it is needed no more."""
    with suppress(NotFound):
        await client.patch(NAMESPACES, SYSTEM_NAMESPACE, None, {"metadata": {"annotations": {SAVED_IN: file}}})


async def left_over(client: Client, save: SaveFile) -> list[Step]:
    """What earlier runs deleted, or began to, and did not make again."""
    steps = []
    for uid, body in save.left():
        resource = JOBS if body["kind"] == JOBS.kind else PODS
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        there = await _found(client, resource, namespace, name)
        if there is not None:
            metadata = there["metadata"]
            if _made_from(there) == uid or (metadata["uid"] == uid and not metadata.get("deletionTimestamp")):
                continue
        why = "made again: an earlier run deleted it"
        steps.append(Step("hand back", resource, namespace, name, why, body, uid))
    return steps


async def _found(client: Client, resource: Resource, namespace: str, name: str) -> Object | None:
    try:
        return await client.get(resource, name, namespace or None)
    except NotFound:
        return None


def _made_from(obj: Object) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(MADE_FROM, ""))


async def carry_out(client: Client, steps: Sequence[Step], save: SaveFile, seconds: float) -> list[str]:
    """Do all steps in order; what failed, each as a line. A step whose object is gone is done.

    What is made again stands in the save file before the first step. What goes slowly, because of finalizers, is
    waited for so long, all of it together.
    """
    again = [Saved(step.uid, step.body) for step in steps if step.verb == "hand back" and step.body is not None]
    save.add(again)
    for uid in {one.uid for one in save.left()} - {one.uid for one in again}:
        save.made(uid)  # it is there, or the one in whose place it was to come
    bodies = {one.uid: one.body for one in save.left()}
    if bodies:
        await claim(client, f"{socket.gethostname()}:{save.path.absolute()}")
    failed = await _carried_out(client, steps, save, bodies, seconds)
    if not save.left():
        await claim(client, None)
    return failed


async def _carried_out(
    client: Client, steps: Sequence[Step], save: SaveFile, bodies: Mapping[str, Object], seconds: float
) -> list[str]:
    failed: list[str] = []
    slow: list[Step] = []
    for step in steps:
        if step.verb in ("leave", "keep"):
            continue
        try:
            if not await _do(client, step, save, bodies):
                slow.append(step)
        except NotFound:
            continue
        except ApiError as error:
            failed.append(_line(step, error.message))
    end = datetime.now(UTC) + timedelta(seconds=seconds)
    while slow:
        last = datetime.now(UTC) > end
        slow, held = await _still(client, slow, save, bodies, failed)
        if last:
            return failed + held
        if slow:
            await asyncio.sleep(_POLL_SECONDS)
    return failed


def _line(step: Step, what: str) -> str:
    return f"{step.verb} {step.resource.api_kind} {step.namespace or ''} {step.name}: {what}"


async def _do(client: Client, step: Step, save: SaveFile, bodies: Mapping[str, Object]) -> bool:
    """Begin a step; whether it is done."""
    namespace = step.namespace or None
    if step.verb == "tell":
        assert step.body is not None
        await client.create(step.resource, step.body, namespace)
    elif step.verb == "change":
        await client.patch(step.resource, step.name, namespace, step.body)
    elif step.verb == "hand back":
        with suppress(NotFound):
            await client.delete(step.resource, step.name, namespace, uid=step.uid, grace=0, propagation="Background")
        return await _in_the_way(client, step, save, bodies[step.uid]) is None
    else:
        propagation = "Orphan" if step.verb == "release" else "Background"
        answer = await client.delete(step.resource, step.name, namespace, uid=step.uid or None, propagation=propagation)
        # A server answers with a status when the object is gone, and with the object while it is going.
        return answer.get("kind") == "Status"
    return True


async def _in_the_way(client: Client, step: Step, save: SaveFile, body: Object) -> Object | None:
    """Create an object in the place of one that was deleted; the old one, while it is there.

    Raises:
        ApiError: it cannot be made.
    """
    try:
        await client.create(step.resource, body, step.namespace)
    except Conflict:
        there = await _found(client, step.resource, step.namespace, step.name)
        if there is None:
            return body  # it went just now
        if _made_from(there) != step.uid:
            if there["metadata"]["uid"] != step.uid:
                raise Conflict(409, "AlreadyExists", f"another one of that name is there; {save.path} has it") from None
            return there
    save.made(step.uid)
    return None


async def _still(
    client: Client, slow: Sequence[Step], save: SaveFile, bodies: Mapping[str, Object], failed: list[str]
) -> tuple[list[Step], list[str]]:
    """Which of those steps are not done yet, and a line on each: what holds it. New failures are added to `failed`."""
    left, held = [], []
    for step in slow:
        try:
            if step.verb == "hand back":
                there = await _in_the_way(client, step, save, bodies[step.uid])
            else:
                there = await _found(client, step.resource, step.namespace, step.name)
                if there is not None and (step.uid or there["metadata"]["uid"]) != there["metadata"]["uid"]:
                    there = None
            if there is None:
                continue
        except ApiError as error:
            failed.append(_line(step, error.message))
            continue
        left.append(step)
        holders = ", ".join(there["metadata"].get("finalizers") or ()) or "nothing known"
        again = "; it is made again by a repetition once it is gone" if step.verb == "hand back" else ""
        held.append(_line(step, f"still there, held by {holders}{again}"))
    return left, held
