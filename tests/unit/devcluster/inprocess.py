"""The API of a dev cluster in this process, without its listener, on whatever loop the test runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.crd import Definitions
from t9ksched.devcluster.apiserver.gc import GarbageCollector
from t9ksched.devcluster.apiserver.inprocess import InProcessPort
from t9ksched.devcluster.apiserver.kinds import Registry
from t9ksched.devcluster.apiserver.storage import Storage
from t9ksched.kube.resources import CRDS, NAMESPACES, PODGROUPS

PODGROUP_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduler.tensorstack.dev"},
    "spec": {
        "group": PODGROUPS.group,
        "scope": "Namespaced",
        "names": {
            "plural": PODGROUPS.plural,
            "singular": "podgroup",
            "kind": PODGROUPS.kind,
            "listKind": "PodGroupList",
        },
        "versions": [
            {
                "name": PODGROUPS.version,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@contextlib.asynccontextmanager
async def new_port() -> AsyncIterator[InProcessPort]:
    """An empty cluster with the namespace `default` and our PodGroups."""
    api = Api(Storage(), Registry())
    Definitions(api)
    collector = asyncio.create_task(GarbageCollector(api).run())
    port = InProcessPort(api)
    await port.create(NAMESPACES, {"metadata": {"name": "default"}})
    await port.create(CRDS, PODGROUP_CRD)
    try:
        yield port
    finally:
        collector.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await collector
