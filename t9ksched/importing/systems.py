"""The schedulers whose queues can be imported: a row for each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from t9ksched.importing import kai, kueue, volcano
from t9ksched.importing.objects import PRIORITY_CLASSES, Document, Kinds, Objects, sort
from t9ksched.importing.report import Choices, Report

_CLASSES: Final = Kinds(PRIORITY_CLASSES, ("v1",), {"PriorityClass": ("priorityclasses", False)})


@dataclass(frozen=True, slots=True)
class System:
    """One scheduler: its name for people, its group with what is read of it, and how that is translated."""

    name: str
    title: str
    kinds: Kinds
    translate: Callable[[Objects, Report], None]

    @property
    def groups(self) -> tuple[Kinds, ...]:
        """Everything that is read for it: its own group, and classes of priorities."""
        return (self.kinds, _CLASSES)


_KUEUE: Final = {
    "ResourceFlavor": ("resourceflavors", False),
    "Cohort": ("cohorts", False),
    "ClusterQueue": ("clusterqueues", False),
    "LocalQueue": ("localqueues", True),
    "WorkloadPriorityClass": ("workloadpriorityclasses", False),
}
_QUEUE: Final = {"Queue": ("queues", False)}

SYSTEMS: Final = {
    one.name: one
    for one in (
        System("kueue", "Kueue", Kinds("kueue.x-k8s.io", ("v1beta2", "v1beta1"), _KUEUE), kueue.translate),
        System("volcano", "Volcano", Kinds("scheduling.volcano.sh", ("v1beta1",), _QUEUE), volcano.translate),
        System("kai", "KAI", Kinds("scheduling.run.ai", ("v2",), _QUEUE), kai.translate),
    )
}
"""By name; of each the versions of its group, the newest first."""


def translate(system: System, documents: Iterable[Document], choices: Choices = Choices()) -> tuple[Report, int]:
    """Translate documents; the report, and how many objects of other groups were passed over."""
    report = Report(system.name, choices)
    objects = sort(documents, system.groups, report)
    system.translate(objects, report)
    return report, objects.others
