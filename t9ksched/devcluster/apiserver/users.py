"""What every authenticated user may do on a laptop's cluster: create and read workloads outside system namespaces.

A real cluster has its own roles for this; the bare dev cluster, as any API server, grants nothing. RBAC has no grant of
all namespaces but some, so each open namespace has a RoleBinding of its own, made in the same step as the namespace.
"""

from typing import Any, Final

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.auth import AUTHENTICATED
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.policies import ACTING
from t9ksched.devcluster.apiserver.storage import Entry
from t9ksched.model.names import BATCH_GROUP, PLATFORM_GROUP, SCHEDULER_GROUP, is_system_namespace

Object = dict[str, Any]
ROLE: Final = "t9ksched-dev-user"
"""Of the ClusterRole, and of its binding in each open namespace."""
_CLOSED: Final = "closed"
"""Value of the annotation `ROLE` of a namespace whose binding was deleted."""
_RBAC: Final = "rbac.authorization.k8s.io"
_VERBS: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]
_FORMER: Final = [
    {"apiGroups": [""], "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"], "verbs": _VERBS},
    {"apiGroups": ["batch", "apps", BATCH_GROUP, PLATFORM_GROUP], "resources": ["*"], "verbs": _VERBS},
    {"apiGroups": [SCHEDULER_GROUP], "resources": ["podgroups"], "verbs": _VERBS},
]
"""What former releases granted."""
_RULES: Final = [
    *_FORMER,
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
]


def open_to_users(api: Api) -> None:
    """Grant it in the namespaces that there are, and in each that will be made.

    A role or a binding that exists stays as an administrator left it, but a role that is as a former release made it
    becomes as this one makes it: a binding without subjects closes its namespace. A
    binding that is deleted is not made again: its namespace is annotated with that. The grant of all namespaces that
    former releases made is taken back.
    """
    everywhere = api.kind(_RBAC, "v1", "clusterrolebindings")
    if ROLE in api.collection(everywhere).entries:
        api.delete(everywhere, None, ROLE)
    roles = api.kind(_RBAC, "v1", "clusterroles")
    known = api.collection(roles).entries.get(ROLE)
    if known is None:
        api.create(roles, None, {"metadata": {"name": ROLE}, "rules": _RULES})
    elif known.object.get("rules") == _FORMER:
        api.edit(roles, known, lambda role: role.update(rules=_RULES))
    for entry in list(api.collection(api.kind("", "v1", "namespaces")).entries.values()):
        _open(api, entry.object)

    def observe(kind: Kind, entry: Entry, removed: bool) -> None:
        if kind.collection == "namespaces" and not removed:
            _open(api, entry.object)
        elif kind.group == _RBAC and kind.plural == "rolebindings" and removed:
            meta = entry.object["metadata"]
            if meta["name"] == ROLE:
                _close(api, meta["namespace"])

    api.observers.append(observe)


def _close(api: Api, name: str) -> None:
    """Its binding was deleted: note that on the namespace, unless it is being deleted too, for later starts."""
    namespaces = api.kind("", "v1", "namespaces")
    entry = api.collection(namespaces).entries.get(name)
    if entry is None or "deletionTimestamp" in entry.object["metadata"]:
        return
    acting = ACTING.set(None)
    try:
        api.edit(namespaces, entry, lambda made: made["metadata"].setdefault("annotations", {}).update({ROLE: _CLOSED}))
    finally:
        ACTING.reset(acting)


def _open(api: Api, namespace: Object) -> None:
    meta = namespace["metadata"]
    name = meta["name"]
    kind = api.kind(_RBAC, "v1", "rolebindings")
    found = kind.key(name, ROLE) in api.collection(kind).entries
    closed = (meta.get("annotations") or {}).get(ROLE) == _CLOSED
    if found or closed or is_system_namespace(name) or "deletionTimestamp" in meta:
        return
    binding = {
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": AUTHENTICATED}],
    }
    acting = ACTING.set(None)  # the cluster itself writes it, whichever user made the namespace
    try:
        api.create(kind, name, binding)
    finally:
        ACTING.reset(acting)
