"""The pods of a PodGroup: those that its label names, or that name a group in the way of another scheduler."""

from collections.abc import Mapping
from typing import Any

import msgspec

from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODGROUPS, PODS
from t9ksched.model.api_resource import Resource
from t9ksched.model.names import GROUP_LABEL
from t9ksched.model.pod import decode_pod
from t9ksched.workloads.podgroups import named_group, selector_of, system_titled


def is_named_by_pods(resource: Resource, name: str) -> bool:
    """Whether a job of this name is a group that only pods name: it has no object of ours."""
    return resource == PODGROUPS and system_titled(name) is not None


async def pods_naming(kube: ClusterPort, namespace: str, group: str) -> list[dict[str, Any]]:
    """The pods that name the group.

    Raises:
        ApiError: the cluster does not answer.
    """
    if system_titled(group) is None:
        return list((await kube.list(PODS, namespace, label_selector=f"{GROUP_LABEL}={group}")).items)
    listed = await kube.list(PODS, namespace, label_selector=selector_of(group))
    return [pod for pod in listed.items if _names(pod, group)]


def _names(pod: Mapping[str, Any], group: str) -> bool:
    if (pod["metadata"].get("labels") or {}).get(GROUP_LABEL):
        return False  # our label counts before theirs
    try:
        named = named_group(decode_pod(pod))
    except msgspec.ValidationError:
        return False
    return named is not None and named.title == group
