"""The objects of another scheduler as a cluster has them, for `t9ksched import --from-cluster`."""

import asyncio
from pathlib import Path

from t9ksched.cli.failure import Failure
from t9ksched.cli.foreign import failures
from t9ksched.cli.progress import working
from t9ksched.importing.objects import Document
from t9ksched.importing.systems import System
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.model.api_resource import Resource


def documents_of(system: System, kubeconfig: Path | None) -> list[Document]:
    """What the cluster has of a scheduler. Raises Failure."""
    with failures(), working():
        return asyncio.run(_read(system, kubeconfig))


async def _read(system: System, kubeconfig: Path | None) -> list[Document]:
    found: list[Document] = []
    served = False
    async with connect(kubeconfig) as client:
        for group in system.groups:
            for kind, (plural, namespaced) in group.kinds.items():
                for version in group.versions:
                    resource = Resource(group.group, version, plural, kind, namespaced)
                    if await client.serves(resource):
                        served = served or group is system.kinds
                        found += await _listed(client, resource)
                        break
    if not served:
        versions = ", ".join(f"{system.kinds.group}/{version}" for version in system.kinds.versions)
        raise Failure(
            f"The cluster serves none of the kinds of {system.title} that are read.",
            details=[f"read are {versions}"],
            remedy="Check the kubeconfig, or read files with -f DIR.",
        )
    return found


async def _listed(client: Client, resource: Resource) -> list[Document]:
    items = (await client.list(resource)).items
    return [
        Document("the cluster", {**item, "apiVersion": resource.api_version, "kind": resource.kind}) for item in items
    ]
