"""MPIJob, both generations: workers that run sshd, and a launcher that waits for them and then runs mpirun.

First generation: `spec.worker` with the command in `worker.cmd`; the launcher is made up from the worker's template.
Second: `spec.replicaSpecs` with types launcher and worker, the command in `mpiConfig.script`. The launcher is a member
of the gang; its init container waits until every worker answers, so that a gang placed whole starts whole.
Hostfile and ssh settings stand in the ConfigMap `<job>-mpi`, mounted at /etc/mpi; the key pair in the Secret
`<job>-<uid>-ssh` (`sshgang.py`).
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from t9ksched.model.pod import effective_requests
from t9ksched.workloads.actions import NO_CHILDREN, Children, Expansion, Object
from t9ksched.workloads.controller import job_controller
from t9ksched.workloads.ending import led_by
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job, has_been_paused, revision
from t9ksched.workloads.jobspec import (
    Override,
    ReplicaType,
    RestartPolicy,
    RunMode,
    RunPolicy,
    check_pod_names,
    pod_suffixes,
    read_replica_types,
    read_run_mode,
)
from t9ksched.workloads.launcher import LAUNCHER, WORKER, fill_launcher, launcher_spec
from t9ksched.workloads.parts import (
    Owner,
    add_env,
    follow_run_mode,
    headless_service,
    job_pod,
    pod_group,
    pod_name,
    skips_init,
    training_container,
)
from t9ksched.workloads.podspec import read_template
from t9ksched.workloads.shape import Template
from t9ksched.workloads.sshgang import (
    SSH_PORT,
    USUAL_SSHD,
    cards_of,
    client_settings,
    config_of,
    hostfile,
    keys_of,
    keys_volume,
    mount_in,
    run_sshd,
    secret_of,
    sshd_options,
    wait_for_hosts,
    waiting_container,
)

FIXED_WHILE_RUNNING: Final = ("replicaSpecs", "mpiConfig", "launcher", "worker", "mpiHome", "mca", "ssh")
"""Fields of the spec that may change only while the job is paused; `runMode.debug` as well. Pods that run carry ranks,
sizes and host names made from them. The rules of the definition in deploy/crds refuse an edit.
"""

CONFIG_PATH: Final = "/etc/mpi"
_CONTAINERS: Final = {LAUNCHER: ("launcher", "mpi-launcher"), WORKER: ("worker", "mpi-worker")}
_DEBUG_SSHD: Final = "/usr/bin/sshd"
"""Where the workers of a job in debug mode look for it unless told, as the platform documents."""
_ROOT_MAY_RUN: Final = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True, slots=True)
class MPISpec:
    """The spec of an MPIJob, generations aside. `command` is what mpirun starts, `mca` its parameters; `sshd` is empty
    unless the job says where it is.
    """

    launcher: ReplicaType
    workers: ReplicaType
    command: tuple[str, ...]
    extra: tuple[str, ...]
    mca: Mapping[str, str]
    home: str
    ssh_path: str
    sshd: str
    run_policy: RunPolicy
    run_mode: RunMode


def read_spec(root: Field) -> MPISpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    run_mode = read_run_mode(spec["runMode"])
    if spec["replicaSpecs"].present or not spec["worker"].present:
        config = spec["mpiConfig"]
        launcher, workers = _read_types(spec["replicaSpecs"])
        home, command, extra = config["home"], config["script"], config["extraArgs"]
    else:
        config, worker = spec, spec["worker"]
        template = read_template(worker["template"], WORKER, worker["replicas"].whole(1))
        workers = ReplicaType(template, RestartPolicy("Never"))
        launcher = ReplicaType(_launcher_like(template), RestartPolicy("Never"))
        home, command, extra = spec["mpiHome"], worker["cmd"], worker["extraMPIArgs"]
    command.some("is missing: write the program that mpirun shall start, as a list of words")
    ssh = spec["ssh"]
    sshd = ssh["sshdPath"].text()
    if sshd and not sshd.startswith("/"):
        ssh["sshdPath"].fault(f"{sshd!r} is not absolute: sshd starts only by its full path, such as /usr/sbin/sshd")
    old, new = ssh["sshAuthMountPath"], ssh["authMountPath"]
    ssh_path = (old if old.present else new).text("/root/.ssh")
    if not ssh_path.startswith("/"):
        (old if old.present else new).fault(f"{ssh_path!r} is not absolute: write it from / on, such as /root/.ssh")
    check_pod_names(root, pod_suffixes((launcher, workers)))
    policy = spec["runPolicy"]
    deadline = policy["activeDeadlineSeconds"]
    return MPISpec(
        launcher=launcher,
        workers=workers,
        command=tuple(command.texts()),
        extra=tuple(extra.texts()),
        mca={key: str(field.value) for key, field in config["mca"].entries()},
        home=home.text(),
        ssh_path=ssh_path,
        sshd=sshd,
        run_policy=RunPolicy(
            active_deadline=deadline.whole(1, low=1, high=10**9) if deadline.present else None,
            backoff_limit=None,
            clean_up="All" if policy["cleanUpWorkers"].flag() else "None",
            kept_roles=frozenset({LAUNCHER}),
        ),
        run_mode=run_mode,
    )


def read(root: Field) -> list[Template]:
    """The pod templates, for admission and lists: the launcher counts."""
    spec = read_spec(root)
    return [spec.launcher.template, spec.workers.template]


def _read_types(specs: Field) -> tuple[ReplicaType, ReplicaType]:
    specs = fill_launcher(specs, *_CONTAINERS[WORKER])
    types = {kind.role: kind for kind in read_replica_types(specs, objects=True, allowed=(LAUNCHER, WORKER))}
    workers = types.get(WORKER)
    if workers is None:
        if types and types.keys() <= {LAUNCHER, WORKER}:
            specs.fault("has no entry of type worker: an MPIJob needs one")
        workers = ReplicaType(Template(WORKER, 0, 0, {}, {}, f"{specs.path}[0].template.spec"))
    launcher = types.get(LAUNCHER) or ReplicaType(_launcher_like(workers.template))
    if launcher.replicas != 1:
        for entry in specs.items():
            if entry["type"].value == LAUNCHER:
                entry["replicas"].fault(
                    f"is {launcher.replicas}, but there is exactly one launcher: leave it out or write 1"
                )
    return launcher, workers


def _launcher_like(worker: Template) -> Template:
    """A launcher from the worker's template: same image, volumes and node choice, small resources and no cards."""
    spec = launcher_spec(worker.spec, *_CONTAINERS[WORKER], name="mpi-launcher")
    sound = bool(worker.requests) or worker.replicas == 0
    try:
        requests = effective_requests(spec) if sound and spec.get("containers") else {}
    except (msgspec.ValidationError, ValueError):
        requests = {}  # the faults of the template were recorded when it was read
    return replace(worker, role=LAUNCHER, replicas=1, min_replicas=1, spec=spec, requests=requests)


def job(obj: Mapping[str, Any], spec: MPISpec, owner: Owner, children: Children = NO_CHILDREN) -> Job:
    """The job with everything it consists of; `children` say how far its keys are made."""
    resumed = has_been_paused(obj)
    types = (spec.launcher, spec.workers)
    members = 1 + spec.workers.replicas
    config, keys = _config(owner, spec), keys_of(owner, children, _config_name(owner), f"{owner.name}-ssh")

    def build(kind: ReplicaType, index: int) -> Object:
        if kind is spec.launcher:
            return _launcher_pod(owner, spec, keys.secret, resumed)
        return _worker_pod(owner, spec, keys.secret, index, resumed)

    return Job(
        owner=owner,
        types=types,
        run_policy=spec.run_policy,
        paused=spec.run_mode.paused,
        around=Expansion(
            podgroup=pod_group(owner, types, members),
            services=(headless_service(owner, owner.name, {"ssh": SSH_PORT}),),
            configmaps=(config,),
            secrets=secret_of(owner, keys, _config_name(owner)),
        ),
        build=build,
        anew=keys.unfinished,
        ending=led_by(pod_name(owner, spec.launcher, 0), any_failure=True),
        min_member=members,
        revision=revision(obj, FIXED_WHILE_RUNNING),
    )


def _launcher_pod(owner: Owner, spec: MPISpec, secret: str, resumed: bool) -> Object:
    pod = job_pod(owner, spec.launcher, 0, _labels(owner, spec.launcher))
    container = training_container(pod["spec"], *_CONTAINERS[LAUNCHER])
    _mount(pod["spec"], container, owner, spec, secret)
    mpirun = posixpath.join(spec.home, "bin", "mpirun") if spec.home else "mpirun"
    container["command"] = [mpirun, *_mpirun_options(spec), *spec.extra, *spec.command]
    container.pop("args", None)
    follow_run_mode(pod["spec"], container, spec.run_mode, spec.launcher, resumed=resumed)
    if not skips_init(spec.run_mode, spec.launcher, resumed=resumed):
        script = wait_for_hosts(f"{CONFIG_PATH}/hostfile", f"ssh -F {CONFIG_PATH}/ssh_config") + ";"
        waiting = waiting_container(container, script, ("mpi-config", "mpi-ssh"))
        pod["spec"]["initContainers"] = [*(pod["spec"].get("initContainers") or ()), waiting]
    add_env(pod["spec"], _ROOT_MAY_RUN)
    return pod


def _worker_pod(owner: Owner, spec: MPISpec, secret: str, index: int, resumed: bool) -> Object:
    pod = job_pod(owner, spec.workers, index, _labels(owner, spec.workers))
    container = training_container(pod["spec"], *_CONTAINERS[WORKER])
    _mount(pod["spec"], container, owner, spec, secret)
    container["command"] = run_sshd(spec.sshd or USUAL_SSHD, spec.ssh_path)
    container.pop("args", None)
    idle = Override((spec.sshd or _DEBUG_SSHD, "-D"), tuple(sshd_options(spec.ssh_path)))
    follow_run_mode(pod["spec"], container, spec.run_mode, spec.workers, resumed=resumed, idle=idle)
    return pod


def _labels(owner: Owner, kind: ReplicaType) -> dict[str, str]:
    """What pods are labelled with besides: the job as `mpi-job`, and as `app` unless the template says what that is."""
    own = kind.template.metadata.get("labels") or {}
    return {"mpi-job": owner.name, **({} if "app" in own else {"app": owner.name})}


def _mpirun_options(spec: MPISpec) -> list[str]:
    options = ["--hostfile", f"{CONFIG_PATH}/hostfile"]
    if spec.home:
        options += ["--prefix", spec.home]
    mca = {"plm_rsh_agent": "ssh", "plm_rsh_args": f"-F {CONFIG_PATH}/ssh_config", **spec.mca}
    return [*options, *(word for key, value in mca.items() for word in ("--mca", key, value))]


def _mount(pod: Object, container: Object, owner: Owner, spec: MPISpec, secret: str) -> None:
    """Mount the hostfile and the keys."""
    config = {"name": "mpi-config", "configMap": {"name": _config_name(owner)}}
    mount_in(pod, container, config, mountPath=CONFIG_PATH)
    mount_in(pod, container, keys_volume("mpi-ssh", secret), mountPath=spec.ssh_path)


def _config_name(owner: Owner) -> str:
    return f"{owner.name}-mpi"


def _config(owner: Owner, spec: MPISpec) -> Object:
    data = {
        "hostfile": hostfile(owner, spec.workers, cards_of(spec.workers.template)),
        "ssh_config": client_settings(spec.ssh_path),
    }
    return config_of(owner, _config_name(owner), data)


CONTROLLER: Final = job_controller(lambda obj, owner, children: job(obj, read_spec(Field(obj)), owner, children))
