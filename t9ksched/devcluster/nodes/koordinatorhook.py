"""The hook of Koordinator's agent on a simulated node: which cards the containers of a pod see.

When a container is created it reads the annotation of its pod and writes the minors that stand there into the
container's environment (`NVIDIA_VISIBLE_DEVICES`), for each container of the pod the same. Without the annotation, or
with one that it cannot read, the container is created as it is. Annotations are read here anew.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from t9ksched.devcluster.names import DOMAIN

Object = dict[str, Any]

VISIBLE_PREFIX: Final = f"{DOMAIN}/visible-devices-container-"
"""Annotation of a running pod, one a container: the minors of the cards that it sees."""
_ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
_OFFERS: Final = "koordinator.sh/gpu"


def manages(resources: Iterable[str]) -> bool:
    """Whether a node that lists these resources has the agent."""
    return any(name.startswith(_OFFERS) for name in resources)


def environment(pod: Object) -> dict[str, str]:
    """The annotations that record what the hook gave the containers of a pod."""
    text = (pod["metadata"].get("annotations") or {}).get(_ALLOCATED)
    if text is None:
        return {}
    try:
        minors = [int(one["minor"]) for one in json.loads(text).get("gpu") or ()]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return {}
    if not minors:
        return {}
    spec = pod["spec"]
    names = [one["name"] for one in (*(spec.get("initContainers") or ()), *spec["containers"])]
    return {VISIBLE_PREFIX + name: ",".join(map(str, minors)) for name in names}
