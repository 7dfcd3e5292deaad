"""Whose pods keep those of a waiting job off nodes that have room for them: by anti-affinity, or by host ports."""

from collections.abc import Collection
from itertools import product

from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import namespace_labels
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.report.observed_job import ObservedJob
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.state import ClusterState


class KeptApart:
    """The pods of a job that wait for nothing but other pods to go or to come: what else runs does not matter."""

    def __init__(self, pods: Collection[PodRecord], state: ClusterState) -> None:
        # Of pods that are alike one says it all.
        self._pods = list({(pod.pod_class, tuple(sorted(pod.labels.items()))): pod for pod in pods}.values())
        self._state = state

    @classmethod
    def of(cls, view: ObservedJob, state: ClusterState, reasons: Collection[Reason]) -> "KeptApart | None":
        """None where the job waits for room, or for anything else."""
        pods = [pod for pod in view.pods if pod.waiting and pod.pod_class is not None]
        ports = any(pod.pod_class.host_ports for pod in pods if pod.pod_class is not None)
        if not (reasons and all(_is_by_rules(one) or (ports and _is_by_ports(one)) for one in reasons)):
            return None
        return cls(pods, state)

    def keeps_off(self, other: PodRecord, of: PodClass) -> bool:
        """Whether a running pod, of this class, keeps one of them off its node or its domain."""
        for pod in self._pods:
            assert pod.pod_class is not None
            if any(mine.conflicts(its) for mine, its in product(pod.pod_class.host_ports, of.host_ports)):
                return True
            if self._against(pod.pod_class, other) or self._against(of, pod):
                return True
        return False

    def _against(self, of: PodClass, other: PodRecord) -> bool:
        """Whether pods of a class must not be in one domain with that pod."""
        if of.rules is None:
            return False
        around = namespace_labels(other.namespace, self._state.namespaces.labels)
        return any(term.matches(other.namespace, other.labels, around) for term in of.rules.apart)


def _is_by_rules(reason: Reason) -> bool:
    return reason.code == Code.TOPOLOGY_NOT_SATISFIED and "left" in reason.nodes


def _is_by_ports(reason: Reason) -> bool:
    return reason.code == Code.INSUFFICIENT_RESOURCES and not reason.needs
