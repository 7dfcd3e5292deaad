"""References to replicas in the commands and the environment of a GenericJob.

`$(type)`, `$(rank)`, `$(replicas[TYPE])`, `$(service.TYPE[RANK].host)` and `$(service.port[NAME])` are replaced where
they stand whole. Everything else in `$( )` is left to Kubernetes or to a shell, and so is what is escaped as `$$( )`.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

_REFERENCE: Final = re.compile(
    r"\$\$|\$\((?P<what>type|rank|replicas\[[^\[\]]*\]|service\.[^\[\]()$]*\[[^\[\]]*\](?:\.host)?)\)"
)
_PART: Final = re.compile(r"(?P<name>replicas|service\.port|service\.(?P<type>.*))\[(?P<key>[^\[\]]*)\](?:\.host)?")

Object = dict[str, Any]


class Unknown(ValueError):
    """A reference to something that the job does not have; the message says what."""


def references(text: str) -> Iterator[str]:
    """What stands between the brackets of each reference."""
    return (found["what"] for found in _REFERENCE.finditer(text) if found["what"])


def parts(reference: str) -> tuple[str, str, str]:
    """A reference as what it asks for (`type`, `rank`, `replicas`, `host`, `port`), of which type, and its key."""
    found = _PART.fullmatch(reference)
    if found is None:
        return reference, "", ""
    if found["name"] == "replicas":
        return "replicas", "", found["key"]
    if found["name"] == "service.port":
        return "port", "", found["key"]
    return "host", found["type"], found["key"]


def replaced(text: str, value: Callable[[str], str]) -> str:
    """The text with each reference replaced by its value."""
    return _REFERENCE.sub(lambda found: value(found["what"]) if found["what"] else found[0], text)


def replace_in(spec: Object, value: Callable[[str], str]) -> None:
    """Replace the references in commands, arguments and environment of every container of a pod."""
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for key in ("command", "args"):
            if container.get(key):
                container[key] = [replaced(word, value) for word in container[key]]
        for variable in container.get("env") or ():
            if isinstance(variable.get("value"), str):
                variable["value"] = replaced(variable["value"], value)
