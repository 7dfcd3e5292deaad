"""What a container's command is started with: its environment, and its words with variables filled in.

The rules are a kubelet's: `env` wins over `envFrom`, later entries over earlier ones, `$(NAME)` is filled in from what
stands before, `$$(NAME)` is left as `$(NAME)`. In place of an image's environment there is a part of that of `up`:
where programs and libraries are found, the language, proxies; nothing else of it, and no secret of the service.
"""

import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from t9ksched.model.quantity import QuantityError, parse

Object = dict[str, Any]
Source = tuple[str, str]
"""`configMap` or `secret`, and the name."""

INHERITED: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "LANG", "LANGUAGE"),
        *("LD_LIBRARY_PATH", "CPATH", "LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDNN_PATH", "ROCM_PATH"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "HF_HOME", "TORCH_HOME"),
    }
)
_REFERENCE: Final = re.compile(r"\$(?P<escaped>\$)?\((?P<name>[^()$]+)\)")
_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_IN_BRACKETS: Final = re.compile(r"metadata\.(?P<map>labels|annotations)\['(?P<key>[^']+)'\]")


class BadConfig(Exception):
    """A container cannot be created as its pod describes it; the text says why."""


def inherited(own: Mapping[str, str]) -> dict[str, str]:
    """What every container has of the environment of `up`."""
    return {key: value for key, value in own.items() if key in INHERITED or key.startswith("LC_")}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """The text with `$(NAME)` filled in; a name that is not known stays as it is written."""

    def fill(found: re.Match[str]) -> str:
        if found["escaped"]:
            return found[0][1:]
        return variables.get(found["name"], found[0])

    return _REFERENCE.sub(fill, text)


def sources(container: Object) -> Iterator[tuple[Source, bool]]:
    """The objects that the environment is read from, each with whether it may be missing."""
    for entry in container.get("envFrom") or ():
        for kind in ("configMap", "secret"):
            if ref := entry.get(f"{kind}Ref"):
                yield (kind, ref["name"]), bool(ref.get("optional"))
    for entry in container.get("env") or ():
        for kind in ("configMap", "secret"):
            if ref := (entry.get("valueFrom") or {}).get(f"{kind}KeyRef"):
                yield (kind, ref["name"]), bool(ref.get("optional"))


def variables(
    pod: Object, container: Object, ip: str, host_ip: str, found: Mapping[Source, Mapping[str, str] | None]
) -> dict[str, str]:
    """The variables that the pod gives a container. `found` has the data of each source, None of one that is missing.

    Raises:
        BadConfig: one cannot be made out.
    """
    result: dict[str, str] = {}
    for entry in container.get("envFrom") or ():
        for kind in ("configMap", "secret"):
            if ref := entry.get(f"{kind}Ref"):
                data = found.get((kind, ref["name"])) or {}
                prefix = entry.get("prefix") or ""
                result |= {f"{prefix}{key}": value for key, value in data.items() if _NAME.fullmatch(prefix + key)}
    for entry in container.get("env") or ():
        name, source = entry["name"], entry.get("valueFrom")
        if not source:
            result[name] = expand(str(entry.get("value") or ""), result)
            continue
        value = _value(pod, container, source, ip, host_ip, found)
        if value is not None:
            result[name] = value
    return result


def _value(
    pod: Object,
    container: Object,
    source: Object,
    ip: str,
    host_ip: str,
    found: Mapping[Source, Mapping[str, str] | None],
) -> str | None:
    if ref := source.get("fieldRef"):
        return field(pod, ref["fieldPath"], ip, host_ip)
    if ref := source.get("resourceFieldRef"):
        return amount(pod, container, ref)
    for kind, title in (("configMap", "configmap"), ("secret", "secret")):
        if ref := source.get(f"{kind}KeyRef"):
            data = found.get((kind, ref["name"]))
            if data is not None and ref["key"] in data:
                return data[ref["key"]]
            if ref.get("optional"):
                return None
            raise BadConfig(f"couldn't find key {ref['key']} in {title} {ref['name']}")
    raise BadConfig(f"valueFrom {', '.join(source) or 'nothing'} is not supported on this node")


def field(pod: Object, path: str, ip: str, host_ip: str) -> str:
    """A field of the pod, as `fieldRef` names it.

    Raises:
        BadConfig: there is no such field.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    if found := _IN_BRACKETS.fullmatch(path):
        return str((metadata.get(found["map"]) or {}).get(found["key"], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = sorted((metadata.get(path.removeprefix("metadata.")) or {}).items())
        return "\n".join(f'{key}="{value}"' for key, value in pairs)
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": ip,
        "status.podIPs": ip,
    }
    if path not in known:
        raise BadConfig(f"fieldPath {path} is not supported")
    return str(known[path])


def amount(pod: Object, container: Object, ref: Object) -> str:
    """A request or a limit in units of the divisor, rounded up; 0 where the container says nothing.

    Raises:
        BadConfig: it names no container or no amount.
    """
    name = ref.get("containerName")
    everyone = (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))
    owner = next((one for one in everyone if one["name"] == name), None) if name else container
    which, _, resource = str(ref.get("resource") or "").partition(".")
    if owner is None or which not in ("limits", "requests"):
        raise BadConfig(f"resourceFieldRef {ref.get('resource')} of container {name or container['name']} is unknown")
    given = (owner.get("resources") or {}).get(which) or {}
    try:
        value, divisor = parse(given.get(resource, "0")), parse(ref.get("divisor") or "1")
    except QuantityError as error:
        raise BadConfig(str(error)) from None
    return str(math.ceil(Fraction(value) / (Fraction(divisor) or 1)))


def words(container: Object, known: Mapping[str, str]) -> list[str]:
    """Command and arguments with variables filled in."""
    return [expand(str(word), known) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
