"""Deleting the objects of a job, and recording who did."""

import contextlib
from collections.abc import Mapping
from typing import Any

from api.auth import Caller
from api.problems import from_kube
from api.services import Services
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.resources import PODGROUPS, PODS, Resource
from t9ksched.model.names import GROUP_LABEL
from t9ksched.store import history
from t9ksched.store.history import Event


async def delete_job(services: Services, caller: Caller, resource: Resource, job: Mapping[str, Any]) -> None:
    """Delete the job's object (its dependents follow) and, of a PodGroup made by hand, the pods that name it.

    Raises:
        Problem: the cluster refused.
    """
    namespace, name = job["namespace"], job["name"]
    members: list[dict[str, Any]] = []
    try:
        if resource == PODGROUPS:
            found = await services.kube.list(PODS, namespace, label_selector=f"{GROUP_LABEL}={name}")
            members = [pod for pod in found.items if not pod["metadata"].get("ownerReferences")]
        await services.kube.delete(resource, name, namespace, uid=job["uid"], propagation="Background")
        for pod in members:
            meta = pod["metadata"]
            with contextlib.suppress(NotFound):
                await services.kube.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])
    except ApiError as error:
        raise from_kube(error, f"{resource.kind}/{name}") from error
    await services.store.history.append(
        Event(
            event=history.DELETED,
            kind=resource.kind,
            namespace=namespace,
            name=name,
            uid=job["uid"],
            queue=job["queue"],
            actor=caller.user,
        )
    )
