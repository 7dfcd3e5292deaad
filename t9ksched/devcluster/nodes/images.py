"""Images of the simulated nodes: every name that can be one is there, except those of registries that cannot exist.

A name is read as container runtimes read it (the grammar of the OCI distribution's references). Registries under the
domain `invalid`, which RFC 6761 keeps free of hosts, have nothing to pull: so a job whose image is missing can be seen.
"""

import re
from typing import Any, Final, NamedTuple

Object = dict[str, Any]
BACK_OFF: Final = "ImagePullBackOff"
INVALID: Final = "InvalidImageName"

_HOST: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(
    rf"(?:(?P<host>{_HOST}(?:\.{_HOST})*)(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::\w[\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


class Fault(NamedTuple):
    """Why a container waits for its image: the reason and the message of its state."""

    reason: str
    message: str


def fault_of(pod: Object) -> Fault | None:
    """Why the first container with an image that cannot be had waits; None if all images can."""
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    return next((found for each in containers if (found := _fault(str(each.get("image") or "")))), None)


def _fault(image: str) -> Fault | None:
    if not image:
        return None
    read = _REFERENCE.fullmatch(image)
    if read is None:
        text = f'couldn\'t parse image name "{image}": invalid reference format'
        return Fault(INVALID, f'Failed to apply default image tag "{image}": {text}')
    host = (read["host"] or "").lower()
    if host == "invalid" or host.endswith(".invalid"):
        text = f'failed to resolve reference "{image}": lookup {host}: no such host'
        return Fault(BACK_OFF, f'Back-off pulling image "{image}": ErrImagePull: {text}')
    return None
