"""The shapes of the built-in kinds: which fields exist, of which type, and what their stored form is.

The field lists are those of the official client library (`models.py`). Decoding an object drops fields the server does
not know and fields without content, brings quantities and times to their canonical text, and always builds new dicts
and lists, so the result is the caller's own.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from t9ksched.devcluster.apiserver.models import fields
from t9ksched.devcluster.apiserver.quantities import PATTERN_MESSAGE, QuantityError, canonical

Unknown = list[str]
Decode = Callable[[Any, str, Unknown], Any]


class WrongType(ValueError):
    """A field holds something that its type cannot hold."""


QUANTITIES: Final = {
    "V1ResourceRequirements": {"limits", "requests"},
    "V1VolumeResourceRequirements": {"limits", "requests"},
    "V1NodeStatus": {"capacity", "allocatable"},
    "V1PodSpec": {"overhead"},
    "V1ContainerStatus": {"allocatedResources"},
    "V1PodStatus": {"allocatedResources"},
    "V1PersistentVolumeSpec": {"capacity"},
    "V1PersistentVolumeClaimStatus": {"capacity", "allocatedResources"},
    "V1ResourceQuotaSpec": {"hard"},
    "V1ResourceQuotaStatus": {"hard", "used"},
    "V1LimitRangeItem": {"default", "defaultRequest", "max", "min", "maxLimitRequestRatio"},
    "V1EmptyDirVolumeSource": {"sizeLimit"},
    "V1ResourceFieldSelector": {"divisor"},
    **{model: {"value"} for model in ("V1DeviceCapacity", "V1Counter")},
}
_MICRO: Final = {
    "V1LeaseSpec": {"acquireTime", "renewTime"},
    "CoreV1Event": {"eventTime"},
    "EventsV1Event": {"eventTime"},
    "CoreV1EventSeries": {"lastObservedTime"},
    "EventsV1EventSeries": {"lastObservedTime"},
}
_NODE_INFO: Final = dict.fromkeys(
    [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ],
    "",
)
ALWAYS: Final[dict[str, dict[str, Any]]] = {
    "V1Container": {"resources": {}},
    "V1ContainerStatus": {
        "state": {},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    },
    "V1PodCondition": {"lastProbeTime": None, "lastTransitionTime": None},
    "V1NodeCondition": {"lastHeartbeatTime": None, "lastTransitionTime": None},
    "V1NodeStatus": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": _NODE_INFO},
    "V1NodeDaemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "V1NodeSystemInfo": _NODE_INFO,
    "V1JobCondition": {"lastProbeTime": None, "lastTransitionTime": None},
    "V1Condition": {"lastTransitionTime": None},
    "V1Lease": {"spec": {}},
    "V1Pod": {"spec": {}, "status": {}},
    "V1Node": {"spec": {}, "status": {}},
    "V1Namespace": {"spec": {}, "status": {}},
    "V1Service": {"spec": {}, "status": {"loadBalancer": {}}},
    "V1ServiceStatus": {"loadBalancer": {}},
    "V1Job": {"spec": {}, "status": {}},
    "V1Deployment": {"spec": {}, "status": {}},
    "V1StatefulSet": {"spec": {}, "status": {}},
    "V1ReplicaSet": {"spec": {}, "status": {}},
    "V1DaemonSet": {"spec": {}, "status": {}},
    "V1CronJob": {"spec": {}, "status": {}},
    "V1PodDisruptionBudget": {"spec": {}, "status": {}},
    "V1PersistentVolume": {"spec": {}, "status": {}},
    "V1PersistentVolumeClaim": {"spec": {}, "status": {}},
    "V1PersistentVolumeClaimSpec": {"resources": {}},
    "V1ResourceQuota": {"spec": {}, "status": {}},
    "V1LimitRange": {"spec": {"limits": None}},
    "V1PodTemplateSpec": {"metadata": {}, "spec": {}},
    "V1JobTemplateSpec": {"metadata": {}, "spec": {}},
    "V1EnvVar": {"name": ""},
    "V1ObjectReference": {},
    "CoreV1Event": {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "V1StatefulSetStatus": {"replicas": 0, "availableReplicas": 0},
    "V1ReplicaSetStatus": {"replicas": 0},
    "V1DaemonSetStatus": {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    "V1PodDisruptionBudgetStatus": {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
}
"""Fields that a stored object always shows, with their value when nothing is given."""

_KEPT_EMPTY: Final = frozenset(
    {"storageClassName", "holderIdentity", "ingressClassName", "volumeAttributesClassName", "appProtocol", "namespace_"}
)
"""Text fields where empty differs from absent."""
_DROPPED_FALSE: Final = frozenset(
    {
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "stdin",
        "stdinOnce",
        "tty",
        "readOnly",
        "unschedulable",
        "publishNotReadyAddresses",
        "paused",
        "optional_",
        "recursiveReadOnly_",
    }
)
_DROPPED_ZERO: Final = frozenset(
    {
        "hostPort",
        "observedGeneration",
        "nodePort",
        "healthCheckNodePort",
        "generation",
        "succeeded",
        "failed",
        "active",
        "readyReplicas",
        "updatedReplicas",
        "unavailableReplicas",
        "currentReplicas",
        "fullyLabeledReplicas",
        "minReadySeconds",
        "count",
        "initialDelaySeconds",
        "signal",
    }
)
_TYPE: Final = re.compile(r"(List|Dict)\[(?:str, )?(.+)\]")
_SECONDS: Final = "%Y-%m-%dT%H:%M:%SZ"


@cache
def decoder(kind: str) -> Decode:
    """The function that decodes a type such as `V1Pod`, `List[V1Container]` or `Dict[str, str]`."""
    simple = _SCALARS.get(kind)
    if simple is not None:
        return simple
    match = _TYPE.fullmatch(kind)
    if match is None:
        return _model_decoder(kind)
    return (_list_of if match[1] == "List" else _map_of)(match[2])


def _list_of(item: str) -> Decode:
    inner: list[Decode] = []

    def decode(value: Any, path: str, unknown: Unknown) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise _mismatch(value, path, "an array")
        if not inner:
            inner.append(decoder(item))
        one = inner[0]
        return [one(element, f"{path}[{number}]", unknown) for number, element in enumerate(value)]

    return decode


def _map_of(item: str) -> Decode:
    inner: list[Decode] = []

    def decode(value: Any, path: str, unknown: Unknown) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _mismatch(value, path, "an object")
        if not inner:
            inner.append(decoder(item))
        one = inner[0]
        return {key: one(element, path, unknown) if element is not None else "" for key, element in value.items()}

    return decode


def _model_decoder(model: str) -> Decode:
    types, needed = fields(model)
    always = ALWAYS.get(model, {})
    compiled: dict[str, tuple[Decode, frozenset[str]]] = {}

    def compile_field(name: str) -> tuple[Decode, frozenset[str]]:
        kind = types[name]
        made: Decode
        if name in QUANTITIES.get(model, ()):
            made = _quantities if kind.startswith("Dict") else _quantity
        elif kind == "datetime" and name in _MICRO.get(model, ()):
            made = _micro_time
        else:
            made = decoder(kind)
        empty = {"drop"} if name not in needed and name not in always else set()
        if kind.startswith("Dict"):
            empty.add("map")
        compiled[name] = found = (made, frozenset(empty))
        return found

    def decode(value: Any, path: str, unknown: Unknown) -> Any:
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise _mismatch(value, path, "an object")
        result: dict[str, Any] = {}
        for name, element in value.items():
            if name not in types:
                unknown.append(f"{path}.{name}" if path else name)
                continue
            if element is None:
                continue
            one, flags = compiled.get(name) or compile_field(name)
            decoded = one(element, f"{path}.{name}" if path else name, unknown)
            if not decoded and _is_nothing(decoded, name, flags):
                continue
            result[name] = decoded
        for name, default in always.items():
            if name not in result:
                result[name] = _fresh(default)
        return result

    return decode


def _is_nothing(value: Any, name: str, flags: frozenset[str]) -> bool:
    """Whether an empty value is not stored."""
    if isinstance(value, dict):
        return "map" in flags
    if isinstance(value, list) or value is None:
        return True
    if "drop" not in flags:
        return False
    if value is False:
        return name in _DROPPED_FALSE
    if isinstance(value, str):
        return name not in _KEPT_EMPTY
    return name in _DROPPED_ZERO


def _fresh(value: Any) -> Any:
    return {key: _fresh(element) for key, element in value.items()} if isinstance(value, dict) else value


def _mismatch(value: Any, path: str, wanted: str) -> WrongType:
    found = {
        dict: "object",
        list: "array",
        str: "string",
        bool: "bool",
        int: "number",
        float: "number",
    }.get(type(value), "null")
    return WrongType(f"json: cannot unmarshal {found} into field {path} of type {wanted}")


def _text(value: Any, path: str, _: Unknown) -> Any:
    if not isinstance(value, str):
        raise _mismatch(value, path, "string")
    return value


def _whole(value: Any, path: str, _: Unknown) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise _mismatch(value, path, "int")
    return value


def _number(value: Any, path: str, _: Unknown) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(value, path, "float")
    return value


def _truth(value: Any, path: str, _: Unknown) -> Any:
    if not isinstance(value, bool):
        raise _mismatch(value, path, "bool")
    return value


def _anything(value: Any, path: str, unknown: Unknown) -> Any:
    if isinstance(value, dict):
        return {key: _anything(element, path, unknown) for key, element in value.items()}
    if isinstance(value, list):
        return [_anything(element, path, unknown) for element in value]
    return value


def _quantity(value: Any, path: str, _: Unknown) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise WrongType(f"{path}: {PATTERN_MESSAGE}")
    try:
        return canonical(value if isinstance(value, str) else repr(value))
    except QuantityError:
        raise WrongType(f"{path}: {PATTERN_MESSAGE}") from None


def _quantities(value: Any, path: str, unknown: Unknown) -> Any:
    if not isinstance(value, dict):
        raise _mismatch(value, path, "an object")
    return {name: _quantity(element, f"{path}[{name}]", unknown) for name, element in value.items()}


def parse_time(value: str) -> datetime:
    """An RFC 3339 time.

    Raises:
        ValueError: it is none.
    """
    if not re.match(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$", value):
        raise ValueError(f"{value!r} is not an RFC 3339 time")
    try:
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value.upper())).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{value!r} is not an RFC 3339 time: one of its numbers is out of range") from None


def _time(value: Any, path: str, _: Unknown) -> Any:
    if not isinstance(value, str):
        raise _mismatch(value, path, "time")
    try:
        return parse_time(value).strftime(_SECONDS)
    except ValueError as error:
        raise WrongType(f"parsing time in {path}: {error}") from None


def _micro_time(value: Any, path: str, _: Unknown) -> Any:
    if not isinstance(value, str):
        raise _mismatch(value, path, "time")
    try:
        return parse_time(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError as error:
        raise WrongType(f"parsing time in {path}: {error}") from None


_SCALARS: Final[dict[str, Decode]] = {
    "str": _text,
    "bytes": _text,
    "int": _whole,
    "float": _number,
    "bool": _truth,
    "datetime": _time,
    "object": _anything,
}
