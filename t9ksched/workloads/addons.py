"""Projects whose objects our controllers make, where a cluster has them: KubeVirt's virtual machines, and
Knative's services.

A project is used while its kinds are served and the rights of `deploy/foreign` are granted. Its own controllers turn
what is made into pods: the objects between a pod and ours are followed, so that the pod is known to belong to the
workload.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from t9ksched.model.api_resource import Resource
from t9ksched.workloads.conditions import INITIALIZED, Conditions
from t9ksched.workloads.gangform import Project

MISSING: Final = "NotInstalled"
"""Reason of the condition `Initialized` (False) of a workload that needs a project that cannot be used."""


class Usable(StrEnum):
    """Whether a project can be used."""

    SERVED = "served"
    ABSENT = "absent"
    DENIED = "denied"


class Addon(msgspec.Struct, frozen=True):
    """A project.

    Attributes:
        project: whose it is.
        kind: the kind of workload that is made of its objects.
        made: the kinds of objects that our controllers make.
        between: the kinds of objects between a workload and its pods, those included.
        account: namespace and name of the account with which its controllers make pods, as it is installed.
    """

    project: Project
    kind: str
    made: tuple[Resource, ...]
    between: tuple[Resource, ...]
    account: tuple[str, str]

    def use(self, known: Mapping[str, Usable]) -> Usable:
        """Whether it can be used, by names of projects."""
        return known.get(self.project.name, Usable.ABSENT)

    def lack(self, known: Mapping[str, Usable]) -> str:
        """Why it cannot be used, and what to do; empty where it can."""
        use, title = self.use(known), self.project.title
        if use is Usable.ABSENT:
            return f"this cluster does not serve {self.made[0].api_version}: install {title}"
        if use is Usable.DENIED:
            file = f"deploy/foreign/{self.project.name}.yaml"
            return f"the controllers may not use {title}: kubectl apply -f {file}"
        return ""

    def tell(self, known: Mapping[str, Usable], conditions: Conditions) -> str:
        """The same, kept in the condition of a workload that cannot do without it."""
        lack = self.lack(known)
        if lack:
            conditions.set(INITIALIZED, False, MISSING, f"{lack}; it goes on by itself then")
        elif conditions.reason(INITIALIZED) == MISSING:
            conditions.drop(INITIALIZED)
        return lack


VIRTUAL_MACHINE: Final = Resource("kubevirt.io", "v1", "virtualmachines", "VirtualMachine")
KUBEVIRT: Final = Addon(
    Project("kubevirt", "KubeVirt"),
    "VirtualServer",
    (VIRTUAL_MACHINE,),
    (
        VIRTUAL_MACHINE,
        Resource("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance"),
    ),
    ("kubevirt", "kubevirt-controller"),
)
_KNATIVE: Final = "serving.knative.dev"
_KNATIVE_SERVICE: Final = Resource(_KNATIVE, "v1", "services", f"Service.{_KNATIVE}")
KNATIVE: Final = Addon(
    Project("knative", "Knative Serving"),
    "MLService",
    (_KNATIVE_SERVICE, Resource(_KNATIVE, "v1", "routes", f"Route.{_KNATIVE}")),
    (
        _KNATIVE_SERVICE,
        Resource(_KNATIVE, "v1", "configurations", f"Configuration.{_KNATIVE}"),
        Resource(_KNATIVE, "v1", "revisions", f"Revision.{_KNATIVE}"),
    ),
    ("knative-serving", "controller"),
)
ADDONS: Final = (KUBEVIRT, KNATIVE)
