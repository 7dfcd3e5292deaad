"""What a node lifecycle controller expects of a kubelet: a Lease that is renewed, and a status when the node is back.
Used on clusters with controllers of their own. A node whose lease in `kube-node-lease` is not renewed for 40 to 50 s is
given the status Unknown and taints, and five minutes later its pods are evicted. A silent node renews nothing.
"""

import asyncio
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from t9ksched.devcluster.controllers.timers import Clock, to_text
from t9ksched.kube.errors import AlreadyExists, ApiError, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import LEASES, NODES

Object = dict[str, Any]

NAMESPACE: Final = "kube-node-lease"
SECONDS: Final = 10.0
"""Between two renewals, as kubelets do it."""
_DURATION: Final = 40
_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_log = structlog.get_logger(__name__)


class Heartbeat:
    """Keeps the leases of `nodes` (by name, followed as they change), except those in `silent`."""

    def __init__(
        self,
        port: ClusterPort,
        nodes: Mapping[str, Object],
        played: Collection[str],
        silent: Collection[str],
        clock: Clock,
    ) -> None:
        self._port = port
        self._nodes = nodes
        self._played = played
        self._silent = silent
        self._clock = clock

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            for name in list(self._played):
                node = self._nodes.get(name)
                if node is not None and name not in self._silent:
                    await self._beat(node)
            await asyncio.sleep(SECONDS)

    async def _beat(self, node: Object) -> None:
        name = node["metadata"]["name"]
        try:
            await self._renew(node)
            ready = next((c for c in _conditions(node) if c["type"] == "Ready"), {})
            if ready.get("status") == "Unknown":
                now = to_text(self._clock())
                said = {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "kubelet is posting ready status",
                }
                times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
                body = {"status": {"conditions": [said | times]}}
                await self._port.patch(NODES, name, None, body, content_type=_STRATEGIC_PATCH, subresource="status")
        except NotFound:
            return  # the node was deleted meanwhile
        except ApiError as error:
            _log.info("heartbeat not delivered, the next one comes", node=name, error=str(error))

    async def _renew(self, node: Object) -> None:
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        now = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        lease: Object = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": _DURATION, "renewTime": now},
        }
        try:
            await self._port.patch(LEASES, name, NAMESPACE, lease)
        except NotFound:
            try:
                await self._port.create(LEASES, {**lease, "metadata": {**lease["metadata"], "namespace": NAMESPACE}})
            except AlreadyExists:
                return  # made by a previous run; the next heartbeat renews it


def _conditions(node: Object) -> list[Object]:
    return (node.get("status") or {}).get("conditions") or []
