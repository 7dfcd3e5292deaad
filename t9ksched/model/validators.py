"""Pods with which the GPU operator tries a node, and what they say of its cards.

A validation that *fails* found cards that do not work: its node gets no pods that ask for accelerators until the pod
succeeds or is gone. One that does not come to run, because its image cannot be pulled, has found nothing: it is named
where a node offers no cards yet. Of one kind of validation the youngest pod on a node counts.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from t9ksched.model.ending import COMING, ContainerState, ContainerStatus
from t9ksched.model.pod import Pod, PodStatus
from t9ksched.model.readiness import Failing

OPERATOR_NAMESPACES: Final = frozenset({"gpu-operator", "gpu-operator-resources", "nvidia-gpu-operator"})
"""Where the GPU operator is installed; pods of its names elsewhere are anybody's."""
_VALIDATOR: Final = re.compile(
    r"(nvidia-operator-validator|nvidia-driver-validation|nvidia-device-plugin-validation"
    r"|nvidia-device-plugin-validator|nvidia-cuda-validator)(-.*)?"
)
_APP: Final = "app"
"""Label that names the operand of which a pod is."""
_NOT_TRIED: Final = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"),
        *("RegistryUnavailable", "SignatureValidationFailed", "CreateContainerConfigError"),
    }
)
"""Why a container does not run, and has not been tried."""
_TAKEN_AWAY: Final = frozenset(
    {"Evicted", "Preempting", "NodeShutdown", "Shutdown", "Terminated", "NodeLost", "NodeAffinity"}
)
"""Reasons of failed pods that say nothing of what they tried."""


class Validation(NamedTuple):
    """One such pod as it is seen: the kind of validation, when it was created, and how it fails, if it does."""

    kind: str
    created: str
    failing: Failing | None


def validation(pod: Pod) -> Validation | None:
    """What a pod says of its node; None of any other pod, of one without a node, and of one that is being deleted."""
    meta = pod.metadata
    if meta.namespace not in OPERATOR_NAMESPACES or not pod.spec.node_name or meta.deletion_timestamp is not None:
        return None
    names = (meta.name, (meta.labels or {}).get(_APP, ""))
    kind = next((found[1] for name in names if (found := _VALIDATOR.fullmatch(name))), None)
    if kind is None:
        return None
    how, tried = _failure(pod.status)
    return Validation(kind, meta.creation_timestamp, Failing(meta.name, how, tried) if how else None)


def failing(those: Iterable[Validation]) -> tuple[Failing, ...]:
    """Which validations of one node fail, by name. Of pods of a kind that were created in the same second the worst one
    counts.
    """
    latest: dict[str, Validation] = {}
    for one in those:
        known = latest.get(one.kind)
        if known is None or _rank(one) >= _rank(known):
            latest[one.kind] = one
    return tuple(sorted(one.failing for one in latest.values() if one.failing is not None))


def _rank(one: Validation) -> tuple[str, int]:
    return one.created, 0 if one.failing is None else 1 + one.failing.tried


def _failure(status: PodStatus) -> tuple[str, bool]:
    """How a validation fails, empty where it does not, and whether it ran."""
    if status.phase == "Succeeded":
        return "", False
    if status.phase == "Failed":
        return ("", False) if status.reason in _TAKEN_AWAY else ("Failed", True)
    found = ("", False)
    for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        how, tried = _of_container(container)
        if tried:
            return how, True
        found = found if found[0] else (how, tried)
    return found


def _of_container(container: ContainerStatus) -> tuple[str, bool]:
    if code := _exit_code(container.state):
        return f"exit code {code}", True
    state = container.state
    why = state.waiting.reason if state is not None and state.waiting is not None else None
    if why and why not in COMING:
        return why, why not in _NOT_TRIED
    ended = state is not None and state.terminated is not None
    if not container.ready and not ended and (code := _exit_code(container.last_state)):
        return f"exit code {code}, tried again", True
    return "", False


def _exit_code(state: ContainerState | None) -> int:
    return state.terminated.exit_code if state is not None and state.terminated is not None else 0
