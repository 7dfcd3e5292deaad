"""What a node lifecycle controller does for cordons: a node with `spec.unschedulable` has the taint that says so.

The taint is added once the node is cordoned and taken off once it is not. Its effect is `NoSchedule`: it evicts no pod.
A taint of its key with another effect is an administrator's, and stays.
"""

from typing import Any, Final

from t9ksched.devcluster.controllers.follow import Follower, Reconciler
from t9ksched.devcluster.controllers.timers import Timers, to_text
from t9ksched.kube.errors import NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES

Object = dict[str, Any]

CORDONED: Final = ("node.kubernetes.io/unschedulable", "NoSchedule")
"""Key and effect."""


class CordonTaints(Reconciler):
    """Reconciles nodes by name."""

    workers = 1

    def __init__(self, port: ClusterPort, follower: Follower, timers: Timers) -> None:
        super().__init__(timers)
        self._port = port
        self._nodes = follower.cache(NODES)
        self._nodes.listen(self._node_changed)

    def _node_changed(self, name: str, old: Object | None, new: Object | None) -> None:
        if new is not None and _is_tainted(new) != _is_cordoned(new):
            self.mark(name)

    async def reconcile(self, key: str) -> None:
        """Add the taint to a node, or take it off."""
        node = self._nodes.get(key)
        if node is None or _is_tainted(node) == _is_cordoned(node):
            return
        taints = [taint for taint in node["spec"].get("taints") or () if not _says_cordoned(taint)]
        if _is_cordoned(node):
            name, effect = CORDONED
            taints.append({"key": name, "effect": effect, "timeAdded": to_text(self.timers.clock())})
        unchanged = {"resourceVersion": node["metadata"]["resourceVersion"]}
        try:
            made = await self._port.patch(NODES, key, None, {"metadata": unchanged, "spec": {"taints": taints or None}})
        except NotFound:
            return
        self._nodes.learn(made)


def _is_cordoned(node: Object) -> bool:
    return bool(node["spec"].get("unschedulable"))


def _is_tainted(node: Object) -> bool:
    return any(_says_cordoned(taint) for taint in node["spec"].get("taints") or ())


def _says_cordoned(taint: Object) -> bool:
    return (taint.get("key"), taint.get("effect")) == CORDONED
