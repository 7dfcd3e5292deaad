"""Cells of tables: the values that `kubectl get` shows of an object, each in a real server's words."""

from datetime import UTC, datetime
from typing import Any, Final

from t9ksched.devcluster.apiserver.schema import parse_time

Object = dict[str, Any]
NONE: Final = "<none>"
UNSET: Final = "<unset>"
UNKNOWN: Final = "<unknown>"


def age(since: str | None) -> str:
    """The time since a moment in the shortest useful form: `45s`, `3m12s`, `5h`, `12d`."""
    if not since:
        return UNKNOWN
    try:
        seconds = int((datetime.now(UTC) - parse_time(since)).total_seconds())
    except ValueError:
        return "<invalid>"
    return duration(max(0, seconds))


def duration(seconds: int) -> str:
    """A span in at most two units."""
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y{days % 365}d"


def dig(obj: Any, *path: str) -> Any:
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def pairs(labels: Object | None) -> str:
    return ",".join(f"{key}={value}" for key, value in (labels or {}).items()) or NONE


def created(obj: Object) -> str:
    return age(obj["metadata"].get("creationTimestamp"))


def pod_ready(obj: Object) -> str:
    statuses = obj["status"].get("containerStatuses") or []
    return f"{sum(bool(entry.get('ready')) for entry in statuses)}/{len(obj['spec'].get('containers') or [])}"


def pod_status(obj: Object) -> str:
    status = obj["status"]
    shown = str(status.get("reason") or status.get("phase", ""))
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            shown = "SchedulingGated"
    for entry in status.get("containerStatuses") or []:
        state = entry.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            shown = waiting["reason"]
        elif ended.get("reason"):
            shown = ended["reason"]
        elif ended:
            shown = f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
    if "deletionTimestamp" in obj["metadata"]:
        return UNKNOWN if status.get("reason") == "NodeLost" else "Terminating"
    return shown


def pod_restarts(obj: Object) -> str:
    statuses = obj["status"].get("containerStatuses") or []
    return str(sum(entry.get("restartCount", 0) for entry in statuses))


def node_status(obj: Object) -> str:
    ready = [c for c in obj["status"].get("conditions") or [] if c.get("type") == "Ready"]
    words = ["Unknown"] if not ready else ["Ready" if ready[0].get("status") == "True" else "NotReady"]
    if obj["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def node_roles(obj: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or NONE


def node_address(kind: str) -> Any:
    def read(obj: Object) -> str:
        for entry in obj["status"].get("addresses") or []:
            if entry.get("type") == kind:
                return str(entry.get("address"))
        return NONE

    return read


def ports(obj: Object) -> str:
    shown = []
    for port in obj["spec"].get("ports") or []:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def images(obj: Object) -> str:
    return ",".join(c.get("image", "") for c in dig(obj, "spec", "template", "spec", "containers") or [])


def containers(obj: Object) -> str:
    return ",".join(c.get("name", "") for c in dig(obj, "spec", "template", "spec", "containers") or [])


def selector(obj: Object) -> str:
    labels = dig(obj, "spec", "selector", "matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def job_status(obj: Object) -> str:
    kinds = {c.get("type") for c in obj["status"].get("conditions") or [] if c.get("status") == "True"}
    for name, shown in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if name in kinds:
            return shown
    return "Running" if "deletionTimestamp" not in obj["metadata"] else "Terminating"


def job_completions(obj: Object) -> str:
    done, wanted = obj["status"].get("succeeded", 0), obj["spec"].get("completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {obj['spec'].get('parallelism', 1)}" if obj["spec"].get("parallelism", 1) > 1 else f"{done}/1"


def job_duration(obj: Object) -> str:
    start, end = obj["status"].get("startTime"), obj["status"].get("completionTime")
    if not start:
        return ""
    if not end:
        return age(start)
    return duration(int((parse_time(end) - parse_time(start)).total_seconds()))


def event_object(obj: Object) -> str:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def event_seen(obj: Object) -> str:
    times = (dig(obj, "series", "lastObservedTime"), obj.get("lastTimestamp"), obj.get("eventTime"))
    return age(next((time for time in times if time), None))


def path(*path: str, missing: Any = NONE) -> Any:
    def read(obj: Object) -> Any:
        value = dig(obj, *path)
        return missing if value in (None, "") else value

    return read


def created_at(obj: Object) -> Any:
    return dig(obj, "metadata", "creationTimestamp")


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def modes(*path: str) -> Any:
    def read(obj: Object) -> str:
        return ",".join(short for mode, short in _MODES.items() if mode in (dig(obj, *path) or ()))

    return read


def storage_status(obj: Object) -> str:
    """Of a claim or a volume."""
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else str(dig(obj, "status", "phase") or "")


def volume_claim(obj: Object) -> str:
    about = obj["spec"].get("claimRef")
    return f"{about.get('namespace', '')}/{about.get('name', '')}" if about else ""


def external(obj: Object) -> str:
    return obj["spec"].get("externalName") or NONE if obj["spec"].get("type") == "ExternalName" else NONE


def amounts(limits: bool) -> Any:
    def read(obj: Object) -> str:
        hard, used = obj["status"].get("hard") or {}, obj["status"].get("used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits") is limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return read


def subjects(kind: str) -> Any:
    def read(obj: Object) -> str:
        found = (one for one in obj.get("subjects") or () if one.get("kind") == kind)
        return ", ".join(
            f"{one.get('namespace', '')}/{one['name']}" if kind[0] == "S" else one["name"] for one in found
        )

    return read


def addresses(obj: Object) -> str:
    found = [
        f"{address.get('ip', '')}:{port['port']}"
        for part in obj.get("subsets") or ()
        for port in part.get("ports") or ()
        for address in part.get("addresses") or ()
    ]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more or NONE


def last_schedule(obj: Object) -> str:
    last = obj["status"].get("lastScheduleTime")
    return age(last) if last else NONE


def of_job(read: Any) -> Any:
    return lambda obj: read(obj["spec"]["jobTemplate"])


def hosts(obj: Object) -> str:
    """The hosts of an Ingress, of many the first three."""
    found = [rule["host"] for rule in obj["spec"].get("rules") or () if rule.get("host")]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more or "*"
