"""MPIJob, both generations: workers that run sshd, and a launcher that waits for them and then runs mpirun.

First generation: `spec.worker` with the command in `worker.cmd`; the launcher is made up from the worker's template.
Second: `spec.replicaSpecs` with types launcher and worker, the command in `mpiConfig.script`. All else is as with every
job that has a launcher (`launched.py`).
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from t9ksched.workloads.actions import NO_CHILDREN, Children
from t9ksched.workloads.controller import job_controller
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job
from t9ksched.workloads.jobspec import Override, ReplicaType
from t9ksched.workloads.launched import Launched, Tool, is_newer, launched_job, read_newer, read_older
from t9ksched.workloads.launcher import LAUNCHER, WORKER
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.shape import Template
from t9ksched.workloads.sshgang import cards_of, run_sshd

FIXED_WHILE_RUNNING: Final = ("replicaSpecs", "mpiConfig", "launcher", "worker", "mpiHome", "mca", "ssh")
"""Fields of the spec that may change only while the job is paused; `runMode.debug` as well. Pods that run carry ranks,
sizes and host names made from them. The rules of the definition in deploy/crds refuse an edit.
"""
_DEBUG_SSHD: Final = "/usr/bin/sshd"
"""Where the workers of a job in debug mode look for sshd unless told, as the platform documents."""


def _idle(spec: Launched) -> Override:
    return Override(tuple(run_sshd(spec.sshd or _DEBUG_SSHD, spec.keys_path)))


def _labels(owner: Owner, kind: ReplicaType) -> dict[str, str]:
    """The job as `mpi-job`, and as `app` unless the template says what that is."""
    own = kind.template.metadata.get("labels") or {}
    return {"mpi-job": owner.name, **({} if "app" in own else {"app": owner.name})}


TOOL: Final = Tool(
    name="mpi",
    fixed=FIXED_WHILE_RUNNING,
    containers={LAUNCHER: ("launcher", "mpi-launcher"), WORKER: ("worker", "mpi-worker")},
    idle=_idle,
    labels=_labels,
    env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    before="-ssh",
)


@dataclass(frozen=True, slots=True)
class MPISpec:
    """The spec of an MPIJob, generations aside. `command` is what mpirun starts, `mca` its parameters, `slots` how many
    processes a worker takes; None: one a card.
    """

    pods: Launched
    command: tuple[str, ...]
    extra: tuple[str, ...]
    mca: Mapping[str, str]
    home: str
    slots: int | None = None


def read_spec(root: Field) -> MPISpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    slots = spec["worker"]["processesPerWorker"]
    if is_newer(spec):
        config = spec["mpiConfig"]
        pods = read_newer(root, TOOL)
        home, command, extra = config["home"], config["script"], config["extraArgs"]
    else:
        config, worker = spec, spec["worker"]
        pods = read_older(root, TOOL)
        home, command, extra = spec["mpiHome"], worker["cmd"], worker["extraMPIArgs"]
    if pods.run_mode.debug is None:
        command.some("is missing: write the program that mpirun shall start, as a list of words")
    return MPISpec(
        pods=pods,
        command=tuple(command.texts()),
        extra=tuple(extra.texts()),
        mca={key: str(field.value) for key, field in config["mca"].entries()},
        home=home.text(),
        slots=slots.whole(low=1) if slots.present else None,
    )


def read(root: Field) -> list[Template]:
    """The pod templates, for admission and lists: the launcher counts."""
    return read_spec(root).pods.templates


def job(obj: Mapping[str, Any], spec: MPISpec, owner: Owner, children: Children = NO_CHILDREN) -> Job:
    """The job with everything it consists of; `children` say how far its keys are made."""
    mpirun = posixpath.join(spec.home, "bin", "mpirun") if spec.home else "mpirun"
    command = [mpirun, *_mpirun_options(spec), *spec.extra, *spec.command]
    slots = spec.slots or cards_of(spec.pods.workers.template)
    return launched_job(obj, spec.pods, TOOL, owner, children, command, slots)


def _mpirun_options(spec: MPISpec) -> list[str]:
    options = ["--hostfile", TOOL.hostfile]
    if spec.home:
        options += ["--prefix", spec.home]
    mca = {"plm_rsh_agent": "ssh", "plm_rsh_args": f"-F {TOOL.ssh_config}", **spec.mca}
    return [*options, *(word for key, value in mca.items() for word in ("--mca", key, value))]


CONTROLLER: Final = job_controller(lambda obj, owner, children: job(obj, read_spec(Field(obj)), owner, children))
