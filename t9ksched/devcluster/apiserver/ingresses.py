"""Ingresses, kept and not served: simulated pods have no network. The rules are those of a kube-apiserver."""

import ipaddress
from typing import Any, Final

from t9ksched.devcluster.apiserver import names
from t9ksched.devcluster.apiserver.status import Cause, bad_value, misnamed, required
from t9ksched.devcluster.apiserver.status import unsupported as unsupported_value
from t9ksched.devcluster.apiserver.strategy import Strategy

Object = dict[str, Any]
OLD_CLASS: Final = "kubernetes.io/ingress.class"
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_PATHS: Final = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_THE_END: Final = ("/..", "/.")
_PORT_NAME_LENGTH: Final = 15


class IngressStrategy(Strategy):
    """Ingresses."""

    has_status = True
    counts_generation = True

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = {"loadBalancer": {}}

    def validate(self, obj: Object) -> list[Cause]:
        return [*_rules(obj["spec"]), *_classes(obj)]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return _rules(new["spec"])


def _rules(spec: Object) -> list[Cause]:
    causes: list[Cause] = []
    if not spec.get("rules") and "defaultBackend" not in spec:
        text = "either `defaultBackend` or `rules` must be specified"
        causes.append(bad_value("spec", spec.get("rules") or [], text))
    if "defaultBackend" in spec:
        causes += _backend(spec["defaultBackend"], "spec.defaultBackend")
    for number, rule in enumerate(spec.get("rules") or ()):
        causes += _rule(rule, f"spec.rules[{number}]")
    for number, one in enumerate(spec.get("tls") or ()):
        causes += _tls(one, f"spec.tls[{number}]")
    if (name := spec.get("ingressClassName")) is not None and (fault := names.subdomain_fault(name)):
        causes.append(bad_value("spec.ingressClassName", name, fault))
    return causes


def _classes(obj: Object) -> list[Cause]:
    """Before there was a field for it, an annotation named the class: a new object has no two."""
    old, name = (obj["metadata"].get("annotations") or {}).get(OLD_CLASS), obj["spec"].get("ingressClassName")
    if old is None or name is None or old == name:
        return []
    return [bad_value(f"annotations.{OLD_CLASS}", old, "must match `ingressClassName` when both are specified")]


def _rule(rule: Object, at: str) -> list[Cause]:
    causes = _host(rule.get("host", ""), f"{at}.host")
    if "http" not in rule:
        return causes
    paths = rule["http"].get("paths") or []
    if not paths:
        causes.append(required(f"{at}.http.paths"))
    for number, path in enumerate(paths):
        causes += _path(path, f"{at}.http.paths[{number}]")
    return causes


def _host(host: str, at: str) -> list[Cause]:
    if not host:
        return []
    causes = []
    try:
        ipaddress.ip_address(host)
        causes.append(bad_value(at, host, "must be a DNS name, not an IP address"))
    except ValueError:
        pass
    # The star stands for one label.
    if fault := names.subdomain_fault(host.removeprefix("*.")):
        causes.append(bad_value(at, host, fault))
    return causes


def _path(path: Object, at: str) -> list[Cause]:
    causes: list[Cause] = []
    where, kind = path.get("path", ""), path.get("pathType")
    if kind is None:
        causes.append(required(f"{at}.pathType", "pathType must be specified"))
    elif kind == "ImplementationSpecific":
        if where and not where.startswith("/"):
            causes.append(bad_value(f"{at}.path", where, "must be an absolute path"))
    elif kind not in _PATH_TYPES:
        causes.append(unsupported_value(f"{at}.pathType", kind, _PATH_TYPES))
    else:
        if not where.startswith("/"):
            causes.append(bad_value(f"{at}.path", where, "must be an absolute path"))
        if where:
            causes += [
                bad_value(f"{at}.path", where, f"must not contain '{bad}'") for bad in _NOT_IN_PATHS if bad in where
            ]
            causes += [
                bad_value(f"{at}.path", where, f"cannot end with '{bad}'")
                for bad in _NOT_AT_THE_END
                if where.endswith(bad)
            ]
    return causes + _backend(path.get("backend") or {}, f"{at}.backend")


def _backend(backend: Object, at: str) -> list[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [bad_value(at, "", "cannot set both resource and service backends")]
    if resource is not None:
        return [required(f"{at}.resource.{key}") for key in ("kind", "name") if not resource.get(key)]
    if service is None:
        return [bad_value(at, "", "resource or service backend is required")]
    causes = misnamed(f"{at}.service.name", service.get("name", ""), names.service_fault)
    return causes + _port(service.get("port") or {}, at)


def _port(port: Object, at: str) -> list[Cause]:
    name, number = port.get("name", ""), port.get("number", 0)
    if name and number:
        return [bad_value(at, "", "cannot set both port name & port number")]
    if name:
        if len(name) > _PORT_NAME_LENGTH:
            text = f"must be no more than {_PORT_NAME_LENGTH} characters"
            return [bad_value(f"{at}.service.port.name", name, text)]
        fault = names.label_fault(name)
        return [bad_value(f"{at}.service.port.name", name, fault)] if fault else []
    if number:
        text = "must be between 1 and 65535, inclusive"
        return [] if 0 < number < 65536 else [bad_value(f"{at}.service.port.number", number, text)]
    return [required(at, "port name or number is required")]


def _tls(one: Object, at: str) -> list[Cause]:
    causes: list[Cause] = []
    for number, host in enumerate(one.get("hosts") or ()):
        if fault := names.subdomain_fault(host.removeprefix("*.")):
            causes.append(bad_value(f"{at}.hosts[{number}]", host, fault))
    if (secret := one.get("secretName")) and (fault := names.subdomain_fault(secret)):
        causes.append(bad_value(f"{at}.secretName", secret, fault))
    return causes
