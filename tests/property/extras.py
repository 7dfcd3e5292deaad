"""Plugins that rank queues, gangs and nodes, and keep pods off some nodes."""

from collections.abc import Mapping

from t9ksched.engine.plugins import PluginUse
from t9ksched.model.gang import Gang
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import QueueSpec


class NoSmallPods:
    """Keeps pods that ask for no cards off zone b, and gives points for rack x."""

    def allows(self, pod: PodClass, node: NodeFacts) -> bool:
        return pod.accelerated or node.labels["zone"] != "b"

    def score(self, pod: PodClass, node: NodeFacts) -> int:
        return 100 if node.labels.get("rack") == "x" else 20


class LikesLarge:
    """Points by cpu."""

    def score(self, pod: PodClass, node: NodeFacts) -> int:
        return node.allocatable["cpu"] // 1000


class ByLetter:
    """Queues whose names are longer go first; then those that use cards."""

    def queue_rank(self, name: str, spec: QueueSpec, used: Mapping[str, int]) -> int:
        return -len(name) + (used.get("nvidia.com/gpu", 0) == 0)


class Smallest:
    """Gangs with fewer waiting members go first."""

    def gang_rank(self, gang: Gang, now: int) -> int:
        return len(gang.waiting)


PLUGINS = (
    PluginUse("no-small-pods", NoSmallPods(), weight=2),
    PluginUse("likes-large", LikesLarge(), weight=1),
    PluginUse("by-letter", ByLetter()),
    PluginUse("smallest", Smallest()),
)
