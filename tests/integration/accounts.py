"""The service accounts of deploy/rbac.yaml on a test's cluster: what is being tested works with their rights, no more.

`install` applies the manifest and the policies of deploy/admission.yaml, `token_file` asks the server for a token of an
account (TokenRequest) and writes a kubeconfig for it. A user who may do neither is trusted: the manifest is applied,
and the user has its rights.
"""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from t9ksched.kube.errors import AlreadyExists, Forbidden
from t9ksched.kube.resources import CLUSTERROLEBINDINGS, ROLEBINDINGS, SERVICEACCOUNTS, of
from t9ksched.kube.setup.rbac import ROLES
from t9ksched.kube.transport.client import Client
from t9ksched.model.names import SCHEDULER_GROUP, SYSTEM_NAMESPACE

MANIFEST: Final = Path(__file__).parents[2] / "deploy" / "rbac.yaml"
POLICIES: Final = MANIFEST.with_name("admission.yaml")
EVERYTHING: Final = "t9ksched-test"
"""An account with all roles at once, for what runs everything in one process."""
_SECONDS: Final = 24 * 3600

Object = dict[str, Any]


def documents() -> list[Object]:
    """The objects of the manifest, in its order."""
    return _objects(MANIFEST)


def policies() -> list[Object]:
    """What keeps the accounts from fields and namespaces, in its order."""
    return _objects(POLICIES)


def _objects(path: Path) -> list[Object]:
    found: list[Object] = msgspec.json.decode(_as_json(path))
    return found


@cache
def _as_json(path: Path) -> bytes:
    """YAML is read once for all tests: it takes as long as the rest of a small one."""
    return msgspec.json.encode([item for item in yaml.safe_load_all(path.read_text()) if item])


def _everything() -> list[Object]:
    """An account bound to each role of the manifest."""
    subjects = [{"kind": "ServiceAccount", "name": EVERYTHING, "namespace": SYSTEM_NAMESPACE}]
    found: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": EVERYTHING, "namespace": SYSTEM_NAMESPACE},
        }
    ]
    for item in documents():
        if item["kind"] in (CLUSTERROLEBINDINGS.kind, ROLEBINDINGS.kind):
            name = f"{EVERYTHING}-{item['metadata']['name']}"
            found.append({**item, "metadata": {**item["metadata"], "name": name}, "subjects": subjects})
    return [*found, *owning(EVERYTHING, subjects)]


def owning(name: str, subjects: list[Object]) -> list[Object]:
    """The right to make what belongs to a controller, for who plays one."""
    rbac = CLUSTERROLEBINDINGS.group
    rule = {"apiGroups": [SCHEDULER_GROUP], "resources": ["pods"], "verbs": ["own"]}
    return [
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": f"{name}-own"},
            "rules": [rule],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{name}-own"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": f"{name}-own"},
            "subjects": subjects,
        },
    ]


async def install(client: Client) -> None:
    """Bring the manifest and the account with all its roles into the cluster, as this checkout has them."""
    for item in (*documents(), *_everything(), *policies()):
        try:
            await client.create(of(item), item)
        except AlreadyExists:
            if of(item) is not SERVICEACCOUNTS:
                with suppress(Forbidden):
                    await _replace(client, item)
        except Forbidden:
            return


async def _replace(client: Client, item: Object) -> None:
    """Write over what is there; policies are replaced with their version only."""
    meta = item["metadata"]
    there = await client.get(of(item), meta["name"], meta.get("namespace", ""))
    version = there["metadata"]["resourceVersion"]
    await client.replace(of(item), {**item, "metadata": {**meta, "resourceVersion": version}})


async def token_file(client: Client, given: Path, account: str, path: Path) -> Path:
    """A kubeconfig at `path` for one of the accounts on the cluster of `given`; `given` itself for who may not ask."""
    assert account in (*ROLES, EVERYTHING)
    url = SERVICEACCOUNTS.path(SYSTEM_NAMESPACE, account, "token")
    wanted = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _SECONDS},
    }
    try:
        answer = msgspec.json.decode(await client.request("POST", url, body=msgspec.json.encode(wanted)))
    except Forbidden:
        return given
    write_kubeconfig(path, given, account, answer["status"]["token"])
    return path


def write_kubeconfig(path: Path, given: Path, account: str, token: str) -> None:
    """Write a kubeconfig for the cluster of `given` with that token."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": _cluster(given)}],
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": account}}],
        "current-context": "c",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))


def _cluster(given: Path) -> Object:
    """The cluster of a kubeconfig's current context, without the credentials that a dev cluster puts into its URL."""
    config = yaml.safe_load(given.read_text())
    context = next(item["context"] for item in config["contexts"] if item["name"] == config["current-context"])
    cluster = dict(next(item["cluster"] for item in config["clusters"] if item["name"] == context["cluster"]))
    cluster["server"] = cluster["server"].partition("/as/")[0]
    if "certificate-authority" in cluster:
        cluster["certificate-authority"] = str((given.parent / cluster["certificate-authority"]).resolve())
    return cluster
