"""The pod template of a release: that of a runtime, with parameters filled in, under what the release says itself.

A runtime writes parameters as Go templates do. Of these `{{.NAME}}` and `{{if .NAME}}…{{else}}…{{end}}` are understood,
which may be nested; `{{-` and `-}}` take the blanks beside them away. Lists of a pod spec are merged by the names of
their entries, as Kubernetes' strategic merge patches do.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from t9ksched.model.ending import shorten
from t9ksched.workloads.conditions import INITIALIZED, Conditions

RUNTIME_NOT_FOUND: Final = "RuntimeNotFound"
RUNTIME_DISABLED: Final = "RuntimeDisabled"
RUNTIME_INVALID: Final = "RuntimeInvalid"
POD_INVALID: Final = "PodInvalid"
UNREADY: Final = (RUNTIME_NOT_FOUND, RUNTIME_DISABLED, RUNTIME_INVALID, POD_INVALID)
"""Why the pods of a release cannot be made: reasons of the condition `Initialized` of a service that has no pods."""

_NAME: Final = re.compile(r"\.([A-Za-z_]\w*)")
_MERGED_BY: Final[Mapping[str, str]] = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
}
"""By field of a pod spec that is a list: the field by which its entries are known."""


class Unready(msgspec.Struct, frozen=True):
    """Why the pods of a part cannot be made; `reason` is one of `UNREADY`."""

    reason: str
    message: str


def tell(unready: Mapping[str, Unready], conditions: Conditions) -> None:
    """Say in the condition `Initialized` why no pods are made, by the first part that cannot be; drop it if none."""
    if unready:
        name, why = next(iter(unready.items()))
        message = f"{name}: {why.message}; it goes on by itself when that is corrected"
        conditions.set(INITIALIZED, False, why.reason, message)
    elif conditions.reason(INITIALIZED) in UNREADY:
        conditions.drop(INITIALIZED)


class CannotFill(ValueError):
    """A text with more of Go's templates than is understood here."""


def filled(value: Any, parameters: Mapping[str, str]) -> Any:
    """The value with parameters in all its texts.

    Raises:
        CannotFill: a text cannot be read.
    """
    if isinstance(value, str):
        return _filled(value, parameters) if "{{" in value else value
    if isinstance(value, Mapping):
        return {key: filled(inner, parameters) for key, inner in value.items()}
    return [filled(inner, parameters) for inner in value] if isinstance(value, list) else value


def _filled(text: str, parameters: Mapping[str, str]) -> str:
    shown: list[str] = []
    shows: list[bool] = [True]
    """Whether what follows is shown, for each `if` around it."""
    rest = text
    while "{{" in rest:
        plain, _, rest = rest.partition("{{")
        inner, closed, rest = rest.partition("}}")
        if inner.startswith("-"):
            plain = plain.rstrip()
        if inner.endswith("-"):
            rest = rest.lstrip()
        if all(shows):
            shown.append(plain)
        words = inner.removeprefix("-").removesuffix("-").split()
        name = _NAME.fullmatch(words[-1]) if words and closed else None
        if len(words) == 1 and name is not None:
            if all(shows):
                shown.append(parameters.get(name[1], ""))
        elif len(words) == 2 and words[0] == "if" and name is not None:
            shows.append(bool(parameters.get(name[1])))
        elif words == ["else"] and len(shows) > 1:
            shows[-1] = not shows[-1]
        elif words == ["end"] and len(shows) > 1:
            shows.pop()
        else:
            tag = f"{{{{{inner}{closed}"
            raise CannotFill(f"{shorten(tag)!r} is not understood: only {{{{.NAME}}}} and {{{{if .NAME}}}} are")
    if len(shows) > 1:
        raise CannotFill(f"{shorten(text)!r} has an {{{{if}}}} without an {{{{end}}}}")
    return "".join(shown) + rest


def merged(below: Any, above: Any, field: str = "") -> Any:
    """What `above` says, over what `below` does; null takes a field away."""
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        found = {key: copy.deepcopy(value) for key, value in below.items() if key not in above}
        for key, value in above.items():
            if value is not None:
                found[key] = merged(below.get(key), value, str(key))
        return found
    key = _MERGED_BY.get(field)
    if key is None or not isinstance(below, list) or not isinstance(above, list):
        return copy.deepcopy(above)
    theirs = {each.get(key): each for each in above if isinstance(each, Mapping)}
    kept = [merged(each, theirs.pop(each.get(key), {})) if isinstance(each, Mapping) else each for each in below]
    return [*kept, *copy.deepcopy(list(theirs.values()))]
