"""Explorer: the files of a claim in a browser, until it is suspended (`server.py`).

The pod is `managed-explorer-<name>-0` with File Browser and code-server; the claim is mounted at `/t9k/mnt`. Neither
asks who comes, and code-server is a shell: both listen on 127.0.0.1 in the pod alone, which those reach whom the
cluster lets forward ports of the pod. So there is no Service.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from t9ksched.workloads.actions import Expansion, Object
from t9ksched.workloads.activity import Use
from t9ksched.workloads.controller import Controller
from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import check_pod_names
from t9ksched.workloads.launcher import LAUNCHER_RESOURCES
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.podspec import read_pod_spec
from t9ksched.workloads.server import Server, hash_of, placed, reconcile, withdraw
from t9ksched.workloads.shape import Template

PREFIX: Final = "managed-explorer-"
TEMPLATE_HASH_ANNOTATION: Final = "explorer.tensorstack.dev/template-hash"
FILES, CODE = "file-browser", "code-server"
FILES_IMAGE: Final = "filebrowser/filebrowser:v2.32.0"
CODE_IMAGE: Final = "codercom/code-server:4.96.4"
FILES_PORT: Final = 8000
CODE_PORT: Final = 8080
MOUNT: Final = "/t9k/mnt"
_MADE_FROM: Final = ("storageName", "image", "codeServerImage", "resources", "scheduler")


@dataclass(frozen=True, slots=True)
class ExplorerSpec:
    """The spec of an Explorer."""

    pod: Mapping[str, Any]
    suspended: bool
    template: Template


def read_spec(root: Field) -> ExplorerSpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    check_pod_names(root, [f"{PREFIX}-0"], service=False)
    spec["storageType"].choice(("pvc",), "pvc")
    claim = spec["storageName"].object_name("is missing: name the PersistentVolumeClaim whose files are shown")
    pod = _pod_spec(spec, claim)
    # What is written down of the generated containers is about `resources` alone.
    found = Field(pod, spec.path)
    template = read_pod_spec(found, Field({}, "metadata", found.faults))
    for fault in found.faults:
        _, _, below = fault.path.partition(".resources")
        Field(None, f"{spec['resources'].path}{below}", spec.faults).fault(fault.message)
    suspended = spec["suspend"].flag()
    count = 0 if suspended else 1
    return ExplorerSpec(pod, suspended, replace(template, replicas=count, min_replicas=count, path=spec.path))


def _pod_spec(spec: Field, claim: str) -> Object:
    mount = [{"name": "storage", "mountPath": MOUNT}]
    given = spec["resources"].mapping() or LAUNCHER_RESOURCES
    files: Object = {
        "name": FILES,
        "image": spec["image"].text(FILES_IMAGE),
        "args": [
            "--noauth",
            "--address=127.0.0.1",
            f"--port={FILES_PORT}",
            f"--root={MOUNT}",
            "--database=/tmp/filebrowser.db",
        ],
        "ports": [{"name": "http", "containerPort": FILES_PORT}],
        "resources": copy.deepcopy(LAUNCHER_RESOURCES),
        "volumeMounts": mount,
    }
    code: Object = {
        "name": CODE,
        "image": spec["codeServerImage"].text(CODE_IMAGE),
        "args": ["--auth=none", f"--bind-addr=127.0.0.1:{CODE_PORT}", MOUNT],
        "ports": [{"name": "code", "containerPort": CODE_PORT}],
        "resources": copy.deepcopy(dict(given)),
        "volumeMounts": mount,
    }
    volume = {"name": "storage", "persistentVolumeClaim": {"claimName": claim}}
    return {"restartPolicy": "Always", "containers": [files, code], "volumes": [volume]}


def read(root: Field) -> list[Template]:
    """The pod, for admission and lists; one that is suspended asks for nothing."""
    return [read_spec(root).template]


def expand(obj: Mapping[str, Any], spec: ExplorerSpec, owner: Owner) -> Expansion:
    """The pod."""
    name = f"{PREFIX}{owner.name}"
    meta = owner.metadata(f"{name}-0", {owner.component: owner.name})
    mark = hash_of(*(obj["spec"].get(key) for key in _MADE_FROM))
    meta["annotations"] = {**owner.scheduling_annotations, TEMPLATE_HASH_ANNOTATION: mark}
    body = {**copy.deepcopy(dict(spec.pod)), "hostname": f"{name}-0"}
    pod = placed({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}, owner)
    return Expansion(pods=(pod,))


def _server(obj: Mapping[str, Any], owner: Owner) -> Server:
    spec = read_spec(Field(obj))
    return Server(
        around=expand(obj, spec, owner),
        suspended=spec.suspended,
        url="",
        mark=TEMPLATE_HASH_ANNOTATION,
        use=Use("its programs listen in the pod alone, where nothing asks them, and nothing before it reports it"),
    )


CONTROLLER: Final = Controller(
    expand=lambda obj, owner: expand(obj, read_spec(Field(obj)), owner),
    reconcile=lambda obj, owner, children, now: reconcile(obj, _server(obj, owner), children, now),
    withdraw=withdraw,
)
