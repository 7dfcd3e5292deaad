"""Strategies of claims, volumes, storage classes and CSINodes."""

from typing import Any

from t9ksched.devcluster.apiserver import names
from t9ksched.devcluster.apiserver.resources import amounts_causes
from t9ksched.devcluster.apiserver.status import Cause, bad_value, required
from t9ksched.devcluster.apiserver.strategy import Strategy

Object = dict[str, Any]


def _protect(obj: Object, finalizer: str) -> None:
    """Keep what is deleted until it is out of use, as the admission of every server does."""
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


class ClaimStrategy(Strategy):
    """Persistent volume claims, whose spec is fixed once they exist."""

    has_status = True
    answers_object = True

    def default(self, obj: Object) -> None:
        obj["spec"].setdefault("volumeMode", "Filesystem")
        obj["status"].setdefault("phase", "Pending")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}
        _protect(obj, "kubernetes.io/pvc-protection")

    def validate(self, obj: Object) -> list[Cause]:
        causes = [] if obj["spec"].get("accessModes") else [required("spec.accessModes", "at least 1 access mode")]
        amounts = (obj["spec"].get("resources") or {}).get("requests") or {}
        if "storage" not in amounts:
            causes.append(required("spec.resources[storage]"))
        return causes + amounts_causes(amounts, "spec.resources.requests", container=False)


class VolumeStrategy(Strategy):
    """Persistent volumes."""

    has_status = True
    answers_object = True

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        spec.setdefault("volumeMode", "Filesystem")
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        obj["status"].setdefault("phase", "Pending")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Available"}
        _protect(obj, "kubernetes.io/pv-protection")

    def validate(self, obj: Object) -> list[Cause]:
        causes = [] if obj["spec"].get("accessModes") else [required("spec.accessModes")]
        return causes if obj["spec"].get("capacity") else [*causes, required("spec.capacity")]


class StorageClassStrategy(Strategy):
    """Storage classes."""

    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: Object) -> list[Cause]:
        return [] if obj.get("provisioner") else [required("provisioner")]


class CsiNodeStrategy(Strategy):
    """CSINodes: what CSI drivers report of a node; each driver has a name, and a name for the node."""

    unconditional_update = False

    def validate(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        for number, driver in enumerate(obj["spec"].get("drivers") or []):
            root, name = f"spec.drivers[{number}]", driver.get("name", "")
            if not name:
                causes.append(required(f"{root}.name"))
            elif fault := names.subdomain_fault(name.lower()):
                causes.append(bad_value(f"{root}.name", name, fault))
            if not driver.get("nodeID"):
                causes.append(required(f"{root}.nodeID"))
        return causes
