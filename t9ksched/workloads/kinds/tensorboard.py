"""TensorBoard: one pod that shows training logs on volumes, until it is suspended (`server.py`).

The pod is `managed-tensorboard-<name>-0`, with a Service `managed-tensorboard-<name>` before it. Each place of logs is
mounted read-only below `/t9k/logs`, where TensorBoard finds the runs. No authenticating proxy is added: whether it is
used is known only where something reports it (`workloads/activity.py`).
"""

import posixpath
import re
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
from t9ksched.workloads.podspec import generated_template
from t9ksched.workloads.server import Server, hash_of, placed, reconcile, service, withdraw
from t9ksched.workloads.shape import Template

PREFIX: Final = "managed-tensorboard-"
TEMPLATE_HASH_ANNOTATION: Final = "tensorboard.tensorstack.dev/template-hash"
CONTAINER: Final = "tensorboard"
PORT: Final = 6006
USUAL_IMAGE: Final = "tensorflow/tensorflow:2.17.0"
LOGS: Final = "/t9k/logs"
_FILESET: Final = re.compile(r"t9k://pvc/(?P<claim>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(/(?P<path>.*))?")
_HOW: Final = "write t9k://pvc/CLAIM/PATH"


@dataclass(frozen=True, slots=True)
class Logs:
    """A place of logs: a folder of a claim; the whole claim if `path` is empty."""

    claim: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class TensorBoardSpec:
    """The spec of a TensorBoard."""

    image: str
    logs: tuple[Logs, ...]
    resources: Mapping[str, Any]
    suspended: bool
    template: Template


def read_spec(root: Field) -> TensorBoardSpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    check_pod_names(root, [f"{PREFIX}-0"], service=False)
    logs = (*_read_filesets(spec["trainingLogFilesets"]), *_read_sources(spec["logDir"]))
    if not logs and not root.faults:
        spec["logDir"].fault(
            "is missing: say where the training logs are, such as pvc: [{name: CLAIM, subPath: [logs]}]"
        )
    resources = spec["resources"]
    given = resources.value if resources.present else LAUNCHER_RESOURCES
    template = generated_template(spec, CONTAINER, Field(given, resources.path, resources.faults))
    suspended = spec["suspend"].flag()
    count = 0 if suspended else 1
    return TensorBoardSpec(
        image=spec["image"].text(USUAL_IMAGE),
        logs=logs,
        resources=resources.mapping() or LAUNCHER_RESOURCES,
        suspended=suspended,
        template=replace(template, replicas=count, min_replicas=count),
    )


def read(root: Field) -> list[Template]:
    """The pod, for admission and lists; one that is suspended asks for nothing."""
    return [read_spec(root).template]


def _read_filesets(filesets: Field) -> list[Logs]:
    """`t9k://pvc/CLAIM/PATH`, the older way."""
    found = []
    for each in filesets.items():
        text = each.text()
        match = _FILESET.fullmatch(text)
        if match is not None:
            found.append(_logs(match["claim"], match["path"] or "", each))
        elif text.startswith("t9k://minio/"):
            each.fault(f"{text!r} lies in MinIO, and logs are read from volumes alone: {_HOW}")
        elif isinstance(each.value, str):
            each.fault(f"{text!r} is no place of logs: {_HOW}")
    return found


def _read_sources(source: Field) -> list[Logs]:
    """`logDir`, the newer way."""
    for kind in ("s3", "http"):
        if source[kind].present:
            source[kind].fault("is not read: logs are read from volumes alone, give them in pvc")
    found = []
    for claim in source["pvc"].items():
        paths = claim["subPath"]
        name = claim["name"].object_name("is missing: name the PersistentVolumeClaim that has the logs")
        found += [_logs(name, path.text(), path) for path in paths.items()] or [Logs(name)]
    return found


def _logs(claim: str, path: str, place: Field) -> Logs:
    folder = posixpath.normpath(path.strip("/")) if path.strip("/") else ""
    if folder == ".." or folder.startswith("../"):
        place.fault(f"{path!r} leads out of the volume: write the path within it")
    return Logs(claim, "" if folder == "." else folder)


def expand(obj: Mapping[str, Any], spec: TensorBoardSpec, owner: Owner) -> Expansion:
    """The pod with the Service before it."""
    name = f"{PREFIX}{owner.name}"
    web = service(owner, name, {"ports": [{"name": "http", "port": 80, "targetPort": PORT}]})
    return Expansion(pods=(_pod(obj, spec, owner, name),), services=(web,))


def _pod(obj: Mapping[str, Any], spec: TensorBoardSpec, owner: Owner, name: str) -> Object:
    claims = list(dict.fromkeys(logs.claim for logs in spec.logs))
    mounts = [
        {
            "name": f"logs-{claims.index(logs.claim)}",
            "mountPath": f"{LOGS}/{index}",
            "readOnly": True,
            **({"subPath": logs.path} if logs.path else {}),
        }
        for index, logs in enumerate(spec.logs)
    ]
    container = {
        "name": CONTAINER,
        "image": spec.image,
        "command": ["tensorboard", "--logdir", LOGS, "--host", "0.0.0.0", "--port", str(PORT)],
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": dict(spec.resources),
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}},
        "volumeMounts": mounts,
    }
    volumes = [
        {"name": f"logs-{index}", "persistentVolumeClaim": {"claimName": claim}} for index, claim in enumerate(claims)
    ]
    meta = owner.metadata(f"{name}-0", {owner.component: owner.name})
    meta["annotations"] = {**owner.scheduling_annotations, TEMPLATE_HASH_ANNOTATION: _template_hash(obj)}
    pod = {"hostname": f"{name}-0", "restartPolicy": "Always", "containers": [container], "volumes": volumes}
    return placed({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod}, owner)


def _template_hash(obj: Mapping[str, Any]) -> str:
    spec = obj["spec"]
    return hash_of(*(spec.get(key) for key in ("image", "trainingLogFilesets", "logDir", "resources", "scheduler")))


def _server(obj: Mapping[str, Any], owner: Owner) -> Server:
    spec = read_spec(Field(obj))
    return Server(
        around=expand(obj, spec, owner),
        suspended=spec.suspended,
        url=f"http://{PREFIX}{owner.name}.{owner.namespace}.svc/",
        mark=TEMPLATE_HASH_ANNOTATION,
        use=Use("TensorBoard cannot be asked for it, and nothing before it reports it"),
    )


CONTROLLER: Final = Controller(
    expand=lambda obj, owner: expand(obj, read_spec(Field(obj)), owner),
    reconcile=lambda obj, owner, children, now: reconcile(obj, _server(obj, owner), children, now),
    withdraw=withdraw,
)
