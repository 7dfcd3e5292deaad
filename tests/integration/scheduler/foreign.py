"""Stand-ins for other projects: their kinds, and their controllers as far as pods show of them (labels, owners, names).

The definitions are as small as an API server takes them; what is known of each kind stands in the table of kinds.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from t9ksched.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from t9ksched.kube.resources import JOBS, PODS, of
from t9ksched.model.api_resource import Resource
from t9ksched.workloads.registry import KINDS
from tests.integration.world import TIMEOUT, World

Object = dict[str, Any]
RIGHTS: Final = Path(__file__).parents[3] / "deploy" / "foreign"
JOBSETS: Final = KINDS["JobSet"].resource
PYTORCHJOBS: Final = KINDS["PyTorchJob"].resource
KUBEFLOW_MPIJOBS: Final = KINDS["MPIJob.kubeflow.org"].resource


def definition(resource: Resource) -> Object:
    """A CRD that takes everything, with a status of its own."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(resource), "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "kind": resource.api_kind, "listKind": f"{resource.api_kind}List"},
            "versions": [version],
        },
    }


@asynccontextmanager
async def played(step: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Meanwhile the controllers of a project take one step after the other."""

    async def play() -> None:
        while True:
            with suppress(NotFound, Conflict, Forbidden):  # the kind may have gone, or be going
                await step()
            await asyncio.sleep(0.05)

    task = asyncio.create_task(play())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def define(world: World, *resources: Resource) -> None:
    """Install the kinds; they go with the test."""
    for resource in resources:
        await world.define(definition(resource))


async def allow(world: World, *projects: str) -> None:
    """Apply the rights on the kinds of these projects."""
    for project in projects:
        for item in yaml.safe_load_all((RIGHTS / f"{project}.yaml").read_text()):
            try:
                await world.create_shared(of(item), item)
            except AlreadyExists:
                continue


def owned_by(owner: Object) -> list[Object]:
    """The controller reference that an owner's controller writes."""
    meta = owner["metadata"]
    own = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return [{**own, "controller": True, "blockOwnerDeletion": True}]


def child(owner: Object, template: Object, name: str, **labels: str) -> Object:
    """A pod that an owner's controller makes of a template."""
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": dict(meta.get("annotations") or {}),
            "ownerReferences": owned_by(owner),
        },
        "spec": template["spec"],
    }


def jobs_of(jobset: Object) -> list[Object]:
    """The batch Jobs that JobSet's controller makes; those of the cluster make the pods."""
    meta = jobset["metadata"]
    found = []
    for entry in jobset["spec"]["replicatedJobs"]:
        for index in range(entry.get("replicas", 1)):
            labels = {
                "jobset.sigs.k8s.io/jobset-name": meta["name"],
                "jobset.sigs.k8s.io/replicatedjob-name": entry["name"],
                "jobset.sigs.k8s.io/job-index": str(index),
            }
            spec = entry["template"]["spec"]
            pods = spec["template"]
            pods = {**pods, "metadata": {**pods.get("metadata", {}), "labels": labels}}
            job = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    "name": f"{meta['name']}-{entry['name']}-{index}",
                    "namespace": meta["namespace"],
                    "labels": labels,
                    "ownerReferences": owned_by(jobset),
                },
                "spec": {"completionMode": "Indexed", "backoffLimit": 9, **spec, "template": pods},
            }
            found.append(job)
    return found


def kubeflow_pods(job: Object, field: str) -> list[Object]:
    """The pods that the training operator makes."""
    meta = job["metadata"]
    found = []
    for role, replica in job["spec"][field].items():
        for index in range(replica.get("replicas", 1)):
            labels = {
                "training.kubeflow.org/job-name": meta["name"],
                "training.kubeflow.org/replica-type": role.lower(),
                "training.kubeflow.org/replica-index": str(index),
                "training.kubeflow.org/operator-name": f"{job['kind'].lower()}-controller",
            }
            found.append(child(job, replica["template"], f"{meta['name']}-{role.lower()}-{index}", **labels))
    return found


async def make(world: World, *objects: Object) -> None:
    """Create what a controller makes."""
    for obj in objects:
        await world.client.create(of(obj), obj)


async def pods(world: World) -> dict[str, str]:
    """The node of each pod by name, empty for one without; those that are leaving do not count."""
    listed = (await world.client.list(PODS, world.namespace)).items
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName") or ""
        for pod in listed
        if not pod["metadata"].get("deletionTimestamp")
    }


async def looks(world: World) -> AsyncIterator[dict[str, str]]:
    """The same, again whenever a pod changes."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            version = (await world.client.list(PODS, world.namespace)).resource_version
            yield await pods(world)
            async for _ in world.client.watch(PODS, world.namespace, resource_version=version, timeout=1):
                break


__all__ = ["JOBS", "JOBSETS", "KUBEFLOW_MPIJOBS", "PYTORCHJOBS"]
