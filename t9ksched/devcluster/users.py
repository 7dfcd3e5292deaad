"""What everybody who signs in may do on a laptop's cluster: create and look at work, in any namespace.

A real cluster has its own roles for this; the bare dev cluster, as any API server, grants nothing.
"""

from contextlib import suppress
from typing import Final

from t9ksched.kube.errors import AlreadyExists
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import CLUSTERROLEBINDINGS, CLUSTERROLES
from t9ksched.model.names import BATCH_GROUP, PLATFORM_GROUP, SCHEDULER_GROUP

ROLE: Final = "t9ksched-dev-user"
_VERBS: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]
_RULES: Final = [
    {"apiGroups": [""], "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"], "verbs": _VERBS},
    {"apiGroups": ["batch", "apps", BATCH_GROUP, PLATFORM_GROUP], "resources": ["*"], "verbs": _VERBS},
    {"apiGroups": [SCHEDULER_GROUP], "resources": ["podgroups"], "verbs": _VERBS},
]


async def open_to_users(port: ClusterPort) -> None:
    """Grant it to every authenticated user, unless that was done before."""
    rbac = CLUSTERROLES.group
    role = {"metadata": {"name": ROLE}, "rules": _RULES}
    binding = {
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "system:authenticated"}],
    }
    for resource, obj in ((CLUSTERROLES, role), (CLUSTERROLEBINDINGS, binding)):
        with suppress(AlreadyExists):
            await port.create(resource, obj)
