"""Strategies of nodes, namespaces, services, secrets, config maps, events, leases and priority classes."""

import base64
import binascii
from types import MappingProxyType
from typing import Any, Final

from t9ksched.devcluster.apiserver import names
from t9ksched.devcluster.apiserver.resources import amounts_causes
from t9ksched.devcluster.apiserver.schema import WrongType
from t9ksched.devcluster.apiserver.selectors import METADATA_FIELDS, at
from t9ksched.devcluster.apiserver.status import Cause, StatusError, bad_value, invalid, not_allowed, required
from t9ksched.devcluster.apiserver.status import unsupported as unsupported_value
from t9ksched.devcluster.apiserver.strategy import Context, Strategy

Object = dict[str, Any]
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NodeStrategy(Strategy):
    """Nodes: the status of a new node is kept, because a kubelet registers itself with it."""

    has_status = True
    fields = METADATA_FIELDS | {
        "spec.unschedulable": lambda obj: "true" if obj["spec"].get("unschedulable") else "false"
    }

    def default(self, obj: Object) -> None:
        status = obj["status"]
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, obj: Object) -> None:
        """Keep everything."""

    def validate(self, obj: Object) -> list[Cause]:
        causes = _taints(obj["spec"].get("taints") or [])
        for part in ("capacity", "allocatable"):
            causes += amounts_causes(obj["status"].get(part) or {}, f"status.{part}", container=False)
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = _taints(new["spec"].get("taints") or []) * 2
        for field in ("providerID",):
            if old["spec"].get(field) and new["spec"].get(field) != old["spec"][field]:
                text = 'node updates may not change providerID except from "" to valid'
                causes.append(not_allowed(f"spec.{field}", text))
        return causes

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        causes: list[Cause] = []
        for part in ("capacity", "allocatable"):
            causes += amounts_causes(new["status"].get(part) or {}, f"status.{part}", container=False)
        return causes


def _taints(taints: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(taints):
        root = f"metadata.taints[{number}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if fault := names.label_key_fault(key):
            causes.append(bad_value(f"{root}.key", key, fault))
        if not effect:
            causes.append(required(f"{root}.effect"))
        elif effect not in _EFFECTS:
            causes.append(unsupported_value(f"{root}.effect", effect, _EFFECTS))
        if fault := names.label_value_fault(taint.get("value", "")):
            causes.append(bad_value(f"{root}.value", taint["value"], fault))
        if (key, effect) in seen:
            causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{key}:{effect}"', root))
        seen.add((key, effect))
    return causes


class NamespaceStrategy(Strategy):
    """Namespaces, which end in two steps: emptied first, then removed when their finalizers are gone."""

    has_status = True
    answers_object = True
    name_fault = staticmethod(names.label_fault)
    fields = MappingProxyType({"metadata.name": at("metadata", "name"), "status.phase": at("status", "phase")})

    def default(self, obj: Object) -> None:
        meta = obj["metadata"]
        if name := meta.get("name"):
            meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": name}

    def prepare_create(self, obj: Object) -> None:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        new["spec"] = old["spec"]


class ServiceStrategy(Strategy):
    """Services: addresses and node ports come from the cluster and stay."""

    has_status = True
    answers_object = True
    name_fault = staticmethod(names.service_fault)
    fields = METADATA_FIELDS | {"spec.clusterIP": at("spec", "clusterIP"), "spec.type": at("spec", "type")}

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["type"] == "ExternalName":
            return
        spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port", 0))

    def admit(self, obj: Object, context: Context) -> StatusError | None:
        spec = obj["spec"]
        if spec["type"] == "ExternalName":
            return None
        headless = spec.get("clusterIP") == "None"
        try:
            address = "None" if headless else context.allocate_ip(spec.get("clusterIP", ""))
            if spec["type"] in ("NodePort", "LoadBalancer"):
                for port in spec.get("ports") or []:
                    port["nodePort"] = context.allocate_port(port.get("nodePort", 0))
        except ValueError as error:
            cause = bad_value("spec", spec.get("clusterIP", ""), str(error))
            return invalid("Service", "", obj["metadata"].get("name", ""), [cause])
        spec["clusterIP"] = address
        spec["clusterIPs"] = [address]
        dual = headless and not spec.get("selector")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if dual else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if dual else "SingleStack")
        return None

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        for field in ("clusterIP", "ipFamilies", "ipFamilyPolicy"):
            if field in old["spec"] and not new["spec"].get(field):
                new["spec"][field] = old["spec"][field]
        if "clusterIPs" in old["spec"]:
            unchanged = new["spec"].get("clusterIP") == old["spec"].get("clusterIP")
            new["spec"]["clusterIPs"] = old["spec"]["clusterIPs"] if unchanged else [new["spec"]["clusterIP"]]
        if new["spec"]["type"] in ("NodePort", "LoadBalancer"):
            ports = {
                (port["port"], port.get("protocol")): port.get("nodePort") for port in old["spec"].get("ports") or []
            }
            for port in new["spec"].get("ports") or []:
                known = ports.get((port.get("port"), port.get("protocol")))
                if "nodePort" not in port and known:
                    port["nodePort"] = known

    def admit_update(self, new: Object, context: Context) -> StatusError | None:
        if new["spec"]["type"] in ("NodePort", "LoadBalancer"):
            for port in new["spec"].get("ports") or []:
                if not port.get("nodePort"):
                    port["nodePort"] = context.allocate_port(0)
        return None

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes: list[Cause] = []
        kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
        if spec["type"] not in kinds:
            causes.append(unsupported_value("spec.type", spec["type"], kinds))
        ports = spec.get("ports") or []
        if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
            causes.append(required("spec.ports"))
        for number, port in enumerate(ports):
            if not 0 < port.get("port", 0) < 65536:
                text = "must be between 1 and 65535, inclusive"
                causes.append(bad_value(f"spec.ports[{number}].port", port.get("port", 0), text))
            if len(ports) > 1 and not port.get("name"):
                causes.append(required(f"spec.ports[{number}].name"))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        before = old["spec"].get("clusterIP")
        if before and new["spec"].get("clusterIP") != before and new["spec"]["type"] != "ExternalName":
            causes.append(bad_value("spec.clusterIPs[0]", [new["spec"].get("clusterIP")], "may not change once set"))
        return causes


class ConfigMapStrategy(Strategy):
    """Config maps, which may declare themselves immutable."""

    def validate(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        for field in ("data", "binaryData"):
            for key in obj.get(field) or {}:
                if not names.CONFIG_KEY.fullmatch(key) or len(key) > 253:
                    text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
                    causes.append(bad_value(f"{field}[{key}]", key, text))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        if old.get("immutable"):
            if not new.get("immutable"):
                causes.append(not_allowed("immutable", "field is immutable when `immutable` is set"))
            for field in ("data", "binaryData"):
                if new.get(field) != old.get(field):
                    causes.append(not_allowed(field, "field is immutable when `immutable` is set"))
        return causes


class SecretStrategy(ConfigMapStrategy):
    """Secrets: `stringData` is a convenience for writing; what is kept is base64 in `data`."""

    fields = METADATA_FIELDS | {"type": at("type")}

    def default(self, obj: Object) -> None:
        for text in (obj.get("data") or {}).values():
            check_base64(text)
        if plain := obj.pop("stringData", None):
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}
        obj.setdefault("type", "Opaque")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = super().validate_update(new, old)
        if new["type"] != old["type"]:
            causes.append(bad_value("type", new["type"], "field is immutable"))
        return causes


def check_base64(text: str) -> None:
    """Raise WrongType unless the text is base64."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise WrongType("illegal base64 data at input byte 0") from None


class EventStrategy(Strategy):
    """Events of the core group; those of `events.k8s.io` are the same objects under other field names."""

    create_on_update = True
    fields = METADATA_FIELDS | {
        **{f"involvedObject.{part}": at("involvedObject", part) for part in ("kind", "namespace", "name", "uid")},
        **{
            f"involvedObject.{part}": at("involvedObject", part)
            for part in ("apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": at("reason"),
        "reportingComponent": at("reportingComponent"),
        "source": at("source", "component"),
        "type": at("type"),
    }

    def validate(self, obj: Object) -> list[Cause]:
        about = obj.get("involvedObject", {}).get("namespace", "")
        namespace = obj["metadata"].get("namespace", "")
        if about and about != namespace:
            return [bad_value("involvedObject.namespace", about, "does not match event.namespace")]
        if not about and namespace not in ("default", "kube-system"):
            return [bad_value("involvedObject.namespace", about, "does not match event.namespace")]
        return []


class NewEventStrategy(EventStrategy):
    """Events written through `events.k8s.io`, whose rules are stricter."""

    def validate(self, obj: Object) -> list[Cause]:
        for field in ("eventTime", "reportingController", "reportingInstance", "action", "reason"):
            if not obj.get(field):
                return [required(field)]
        return super().validate({**obj, "involvedObject": obj.get("regarding") or {}})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return []


class LeaseStrategy(Strategy):
    """Leases, which a PUT may create."""

    create_on_update = True
    unconditional_update = False

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec", {})
        causes = []
        if spec.get("leaseDurationSeconds", 1) <= 0:
            causes.append(
                bad_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
            )
        if spec.get("leaseTransitions", 0) < 0:
            text = "must be greater than or equal to 0"
            causes.append(bad_value("spec.leaseTransitions", spec["leaseTransitions"], text))
        return causes


class PriorityClassStrategy(Strategy):
    """Priority classes, whose value never changes."""

    counts_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return [] if new["value"] == old["value"] else [not_allowed("value", "may not be changed in an update.")]


class NetworkPolicyStrategy(Strategy):
    """Network policies, kept and not enforced: simulated pods have no network."""

    counts_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        spec.setdefault("policyTypes", ["Ingress", *(["Egress"] if spec.get("egress") else [])])
        for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


class RbacStrategy(Strategy):
    """Roles and their bindings, whose names are less restricted."""

    name_fault = staticmethod(names.path_fault)

    def default(self, obj: Object) -> None:
        if "roleRef" in obj:
            obj["roleRef"].setdefault("apiGroup", "rbac.authorization.k8s.io")
        for subject in obj.get("subjects") or []:
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", "rbac.authorization.k8s.io")
        if obj["kind"] in ("Role", "ClusterRole"):
            obj.setdefault("rules", None)
