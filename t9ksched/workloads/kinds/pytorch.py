"""PyTorchTrainingJob: replicas that meet by MASTER_ADDR and MASTER_PORT, or through torchrun; may be elastic.

The master is the first replica of the first replica type; ranks follow the order of the types. One headless Service
named after the job gives every pod a DNS name, so that addresses are known before the pods are (the port is 29500,
which torch itself uses).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from t9ksched.model.whole import whole_number
from t9ksched.workloads.actions import Expansion, Object
from t9ksched.workloads.boards import board_of
from t9ksched.workloads.controller import job_controller
from t9ksched.workloads.ending import led_by
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job, has_been_paused, revision
from t9ksched.workloads.jobspec import (
    Elastic,
    ReplicaType,
    RunMode,
    RunPolicy,
    check_pod_names,
    pod_suffixes,
    read_elastic,
    read_replica_types,
    read_run_mode,
    read_run_policy,
)
from t9ksched.workloads.parts import (
    Owner,
    add_env,
    follow_run_mode,
    headless_service,
    host,
    job_pod,
    pod_group,
    pod_name,
    training_container,
)
from t9ksched.workloads.shape import Template

FIXED_WHILE_RUNNING: Final = ("replicaSpecs", "torchrunConfig")
"""Fields of the spec that may change only while the job is paused; `runMode.debug` as well. Pods that run carry ranks,
sizes and host names made from them. The rules of the definition in deploy/crds refuse an edit.
"""

MASTER_PORT: Final = 29500
CONTAINER_NAMES: Final = ("pytorch", "python")
_ENDPOINT: Final = re.compile(r"--?(rdzv[_-]endpoint|standalone)(=.*)?")
_ENDPOINT_VARIABLE: Final = "PET_RDZV_ENDPOINT"
"""From which torchrun takes what no option says."""


@dataclass(frozen=True, slots=True)
class Torchrun:
    """How torchrun is called."""

    procs_per_node: str
    max_restarts: int | None
    backend: str
    extra: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PyTorchSpec:
    """The spec of a PyTorchTrainingJob."""

    types: tuple[ReplicaType, ...]
    elastic: Elastic | None
    torchrun: Torchrun | None
    run_policy: RunPolicy
    run_mode: RunMode

    @property
    def world_size(self) -> int:
        """Pods wanted now."""
        return sum(kind.replicas for kind in self.types)

    @property
    def min_member(self) -> int:
        """Pods without which the job does not run."""
        return sum(kind.template.min_replicas for kind in self.types)


def read_spec(root: Field) -> PyTorchSpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    elastic = read_elastic(spec["elastic"])
    torchrun = _read_torchrun(spec["torchrunConfig"])
    if elastic is not None and torchrun is None:
        spec["elastic"]["enabled"].fault(
            "needs torchrun: set torchrunConfig.enabled, only torchrun can change its size"
        )
    types = read_replica_types(spec["replicaSpecs"], elastic)
    if types and not types[0].replicas:
        spec["replicaSpecs"].items()[0]["replicas"].fault(
            "is 0, but the first replica type holds the master: use 1 or more"
        )
    if torchrun is not None and not _meets(torchrun, types):
        spec["torchrunConfig"]["rdzvBackend"].fault(
            f"is {torchrun.backend}, but nothing says where that is: add --rdzv_endpoint=HOST:PORT to extraOptions"
        )
    check_pod_names(root, pod_suffixes(types))
    run_mode = read_run_mode(spec["runMode"], [kind.role for kind in types])
    return PyTorchSpec(types, elastic, torchrun, read_run_policy(spec["runPolicy"]), run_mode)


def read(root: Field) -> list[Template]:
    """The pod templates, for admission and lists."""
    return [kind.template for kind in read_spec(root).types]


def _read_torchrun(config: Field) -> Torchrun | None:
    restarts = config["maxRestarts"]
    per_node = config["procPerNode"]
    procs = "1"
    if isinstance(per_node.value, str) and whole_number(per_node.value) is None:
        procs = per_node.choice(("gpu", "cpu", "auto"), "gpu")
    elif isinstance(per_node.value, str):
        procs = per_node.value
    elif per_node.present:
        procs = str(per_node.whole(1, low=1))
    torchrun = Torchrun(
        procs,
        restarts.whole(0) if restarts.present else None,
        config["rdzvBackend"].choice(("c10d", "etcd", "etcd-v2"), "c10d"),
        tuple(config["extraOptions"].texts()),
    )
    return torchrun if config["enabled"].flag() else None


def _meets(torchrun: Torchrun, types: tuple[ReplicaType, ...]) -> bool:
    """Whether processes are told where they meet: only for c10d is that known here."""
    if torchrun.backend == "c10d" or any(map(_ENDPOINT.fullmatch, torchrun.extra)):
        return True
    containers = (each for kind in types for each in kind.template.spec.get("containers") or ())
    named = (each.get("name") for one in containers if isinstance(one, Mapping) for each in one.get("env") or ())
    return _ENDPOINT_VARIABLE in named


def job(obj: Mapping[str, Any], spec: PyTorchSpec, owner: Owner) -> Job:
    """The job with everything it consists of."""
    resumed = has_been_paused(obj)
    master = spec.types[0]
    return Job(
        owner=owner,
        types=spec.types,
        run_policy=spec.run_policy,
        paused=spec.run_mode.paused,
        around=Expansion(
            podgroup=pod_group(owner, spec.types, spec.min_member),
            services=(headless_service(owner, owner.name, {"master": MASTER_PORT}),),
            boards=board_of(owner, Field(obj)["spec"]),
        ),
        build=lambda kind, index: _pod(owner, spec, kind, index, resumed=resumed),
        ending=led_by(pod_name(owner, master, 0)),
        min_member=spec.min_member,
        revision=revision(obj, FIXED_WHILE_RUNNING),
    )


def _pod(owner: Owner, spec: PyTorchSpec, kind: ReplicaType, index: int, *, resumed: bool) -> Object:
    place = spec.types.index(kind)
    rank = sum(each.replicas for each in spec.types[:place]) + index
    pod = job_pod(owner, kind, index, {"job-role": "master"} if rank == 0 else None)
    container = training_container(pod["spec"], *CONTAINER_NAMES)
    env = {"MASTER_ADDR": host(owner, spec.types[0], 0), "MASTER_PORT": str(MASTER_PORT)}
    follow_run_mode(pod["spec"], container, spec.run_mode, kind, resumed=resumed)
    if spec.torchrun is None or spec.run_mode.debug is not None:
        env |= {"RANK": str(rank), "WORLD_SIZE": str(spec.world_size)}
    else:  # torchrun tells its own processes their ranks
        _use_torchrun(container, spec, owner, env["MASTER_ADDR"])
    add_env(pod["spec"], env)
    return pod


def _use_torchrun(container: Object, spec: PyTorchSpec, owner: Owner, master: str) -> None:
    """`torchrun <options> <args>`; the container's own command is ignored. The underscores suit every torch version."""
    assert spec.torchrun is not None
    nodes = f"{spec.elastic.minimum}:{spec.elastic.maximum}" if spec.elastic else str(spec.world_size)
    options = [
        f"--nnodes={nodes}",
        f"--nproc_per_node={spec.torchrun.procs_per_node}",
        f"--rdzv_backend={spec.torchrun.backend}",
        f"--rdzv_id={owner.uid or owner.name}",
    ]
    if spec.torchrun.backend == "c10d":
        options.append(f"--rdzv_endpoint={master}:{MASTER_PORT}")
    if spec.torchrun.max_restarts is not None:
        options.append(f"--max_restarts={spec.torchrun.max_restarts}")
    container["command"] = ["torchrun", *options, *spec.torchrun.extra]


CONTROLLER: Final = job_controller(lambda obj, owner, _: job(obj, read_spec(Field(obj)), owner))
