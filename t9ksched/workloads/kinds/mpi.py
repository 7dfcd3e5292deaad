"""MPIJob, both generations: workers that run sshd, and a launcher that waits for them and then runs mpirun.

First generation: `spec.worker` with the command in `worker.cmd`; the launcher is made up from the worker's template.
Second: `spec.replicaSpecs` with types launcher and worker, the command in `mpiConfig.script`. The launcher is a member
of the gang; its init container waits until every worker answers, so that a gang placed whole starts whole.
Hostfile and ssh settings stand in the ConfigMap `<job>-mpi`, mounted at /etc/mpi; the key pair in the Secret
`<job>-<uid>-ssh`. Controllers may create Secrets and not read them, so the ConfigMap says whether the Secret is theirs:
they create it right after the ConfigMap, which owns it, and write its name on the ConfigMap (`KEYS_ANNOTATION`) before
any pod. A ConfigMap without that name is of an attempt that did not complete: it is deleted, the garbage collector
deletes what it owned, and both are created again. A Secret that exists although its ConfigMap is new belongs to another
owner.

Jobs that run since a release that called the Secret `<job>-ssh` keep it as long as a pod of theirs mounts it.
"""

import posixpath
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from t9ksched.model.errors import Invalid
from t9ksched.model.pod import container_cards, decode_pod_spec, effective_requests
from t9ksched.workloads import phase
from t9ksched.workloads.actions import NO_CHILDREN, Children, Expansion, Object, metadata, name_of
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
from t9ksched.workloads.keypair import KEYS_ANNOTATION
from t9ksched.workloads.launcher import LAUNCHER, WORKER, fill_launcher, launcher_spec
from t9ksched.workloads.parts import (
    Owner,
    add_env,
    headless_service,
    host,
    job_pod,
    override,
    pod_group,
    pod_name,
    training_container,
)
from t9ksched.workloads.podspec import read_template
from t9ksched.workloads.shape import Template

FIXED_WHILE_RUNNING: Final = ("replicaSpecs", "mpiConfig", "launcher", "worker", "mpiHome", "mca", "ssh")
"""Fields of the spec that may change only while the job is paused; `runMode.debug` as well. Pods that run carry ranks,
sizes and host names made from them. The rules of the definition in deploy/crds refuse an edit.
"""

SSH_PORT: Final = 22
CONFIG_PATH: Final = "/etc/mpi"
PRIVATE_KEY: Final = "id_ed25519"
_CONTAINERS: Final = {LAUNCHER: ("launcher", "mpi-launcher"), WORKER: ("worker", "mpi-worker")}
_SSHD: Final = "/usr/sbin/sshd"
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
    resume = spec.run_mode.resume if has_been_paused(obj) else {}
    types = (spec.launcher, spec.workers)
    members = 1 + spec.workers.replicas
    config, keys = _config(owner, spec), _keys(owner, children)

    def build(kind: ReplicaType, index: int) -> Object:
        if kind is spec.launcher:
            return _launcher_pod(owner, spec, keys.secret, resume.get(LAUNCHER))
        return _worker_pod(owner, spec, keys.secret, index, resume.get(WORKER))

    return Job(
        owner=owner,
        types=types,
        run_policy=spec.run_policy,
        paused=spec.run_mode.paused,
        around=Expansion(
            podgroup=pod_group(owner, types, members),
            services=(headless_service(owner, owner.name, {"ssh": SSH_PORT}),),
            configmaps=(config,),
            secrets=() if keys.made else (_secret(owner, keys.secret),),
        ),
        build=build,
        anew=keys.unfinished,
        ending=led_by(pod_name(owner, spec.launcher, 0), any_failure=True),
        min_member=members,
        revision=revision(obj, FIXED_WHILE_RUNNING),
    )


def slots(workers: ReplicaType) -> int:
    """Processes a worker takes: one a card of its container, at least one."""
    try:
        asked = container_cards(decode_pod_spec(workers.template.spec), workers.template.annotations)
    except Invalid:  # its pods wait with a reason, whatever is written here
        return 1
    return max(1, sum(cards.count for cards in asked))


@dataclass(frozen=True, slots=True)
class _Keys:
    """The Secret of a job's keys, whether it is on record as made, and ConfigMaps of tries that did not end."""

    secret: str
    made: bool
    unfinished: tuple[Object, ...] = ()


def _keys(owner: Owner, children: Children) -> _Keys:
    secret, before = f"{owner.name}-{owner.uid}-ssh", f"{owner.name}-ssh"
    if any(_mounts(pod, before) for pod in children.pods if _lives(pod)):
        return _Keys(before, made=True)
    name = f"{owner.name}-mpi"
    files = [each for each in children.companions if (each["kind"], name_of(each)) == ("ConfigMap", name)]
    if any((metadata(each).get("annotations") or {}).get(KEYS_ANNOTATION) == secret for each in files):
        return _Keys(secret, made=True)
    return _Keys(secret, made=False, unfinished=tuple(files))


def _lives(pod: Object) -> bool:
    return not phase.is_terminating(pod) and phase.phase(pod) not in ("Succeeded", "Failed")


def _mounts(pod: Object, secret: str) -> bool:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return any((volume.get("secret") or {}).get("secretName") == secret for volume in volumes)


def _launcher_pod(owner: Owner, spec: MPISpec, secret: str, resume: Override | None) -> Object:
    pod = job_pod(owner, spec.launcher, 0, _labels(owner, spec.launcher))
    container = training_container(pod["spec"], *_CONTAINERS[LAUNCHER])
    _mount(pod["spec"], container, owner, spec, secret)
    mpirun = posixpath.join(spec.home, "bin", "mpirun") if spec.home else "mpirun"
    container["command"] = [mpirun, *_mpirun_options(spec), *spec.extra, *spec.command]
    container.pop("args", None)
    if resume is not None:
        override(pod["spec"], container, resume)
    debug = (spec.run_mode.debug or {}).get(LAUNCHER, Override())
    if spec.run_mode.debug is not None:
        override(pod["spec"], container, replace(debug, command=debug.command or ("sleep", "inf")))
    if not debug.skip_init and not (resume is not None and resume.skip_init):
        pod["spec"]["initContainers"] = [*(pod["spec"].get("initContainers") or ()), _wait_for_workers(container)]
    add_env(pod["spec"], _ROOT_MAY_RUN)
    return pod


def _worker_pod(owner: Owner, spec: MPISpec, secret: str, index: int, resume: Override | None) -> Object:
    pod = job_pod(owner, spec.workers, index, _labels(owner, spec.workers))
    container = training_container(pod["spec"], *_CONTAINERS[WORKER])
    _mount(pod["spec"], container, owner, spec, secret)
    container["command"] = ["/bin/sh", "-c", f"mkdir -p /run/sshd && exec {shlex.join(_sshd(spec, _SSHD))}"]
    container.pop("args", None)
    if resume is not None:
        override(pod["spec"], container, resume)
    if spec.run_mode.debug is not None:
        what = spec.run_mode.debug.get(WORKER, Override())
        if what.command is None:
            program, *options = _sshd(spec, _DEBUG_SSHD)
            what = replace(what, command=(program, "-D"), args=tuple(word for word in options if word != "-D"))
        override(pod["spec"], container, what)
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


def _sshd(spec: MPISpec, usual: str) -> list[str]:
    """The worker's sshd, at its usual path unless the job says where it is. Its host key is the job's own key, so that
    images need none of theirs.
    """
    settings = {
        "AuthorizedKeysFile": f"{spec.ssh_path}/authorized_keys",
        "PermitRootLogin": "prohibit-password",
        "StrictModes": "no",  # the keys are mounted through links, which strict modes refuse
        "PidFile": "none",
    }
    words = [spec.sshd or usual, "-D", "-e", "-p", str(SSH_PORT), "-h", f"{spec.ssh_path}/{PRIVATE_KEY}"]
    for key, value in settings.items():
        words += ["-o", f"{key}={value}"]
    return words


def _wait_for_workers(launcher: Object) -> Object:
    """Waits until every host of the hostfile answers; the launcher's image has an ssh client, as mpirun needs one."""
    script = (
        f'while read -r host _; do until ssh -F {CONFIG_PATH}/ssh_config -n "$host" true; do sleep 1; done;'
        f" done < {CONFIG_PATH}/hostfile"
    )
    native = {
        part: {key: value for key, value in (amounts or {}).items() if key in ("cpu", "memory")}
        for part, amounts in (launcher.get("resources") or {}).items()
        if part in ("requests", "limits")
    }
    return {
        "name": "wait-for-workers",
        "image": launcher["image"],
        "command": ["/bin/sh", "-c", script],
        "resources": native,
        "volumeMounts": [each for each in launcher["volumeMounts"] if each["name"] in ("mpi-config", "mpi-ssh")],
        **({"securityContext": launcher["securityContext"]} if "securityContext" in launcher else {}),
    }


def _mount(spec_of_pod: Object, container: Object, owner: Owner, spec: MPISpec, secret: str) -> None:
    """Mount the hostfile and the keys."""
    keys = [("ssh-privatekey", PRIVATE_KEY), ("ssh-publickey", "authorized_keys")]
    volume = {
        "secretName": secret,
        "defaultMode": 0o600,
        "items": [{"key": key, "path": path} for key, path in keys],
    }
    spec_of_pod["volumes"] = [
        *(spec_of_pod.get("volumes") or ()),
        {"name": "mpi-config", "configMap": {"name": f"{owner.name}-mpi"}},
        {"name": "mpi-ssh", "secret": volume},
    ]
    container["volumeMounts"] = [
        *(container.get("volumeMounts") or ()),
        {"name": "mpi-config", "mountPath": CONFIG_PATH, "readOnly": True},
        {"name": "mpi-ssh", "mountPath": spec.ssh_path, "readOnly": True},
    ]


def _config(owner: Owner, spec: MPISpec) -> Object:
    per_worker = slots(spec.workers)
    hosts = [f"{host(owner, spec.workers, index)} slots={per_worker}" for index in range(spec.workers.replicas)]
    ssh = [
        "Host *",
        f"  IdentityFile {spec.ssh_path}/{PRIVATE_KEY}",
        "  StrictHostKeyChecking no",
        "  UserKnownHostsFile /dev/null",
        "  LogLevel ERROR",
        f"  Port {SSH_PORT}",
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owner.metadata(f"{owner.name}-mpi"),
        "data": {"hostfile": "\n".join(hosts) + "\n", "ssh_config": "\n".join(ssh) + "\n"},
    }


def _secret(owner: Owner, name: str) -> Object:
    """The Secret without its keys, which are random, and without the UID of the ConfigMap that owns it: the controller
    adds both when it creates the Secret (`with_keys`).
    """
    meta = owner.metadata(name)
    meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"{owner.name}-mpi"}]
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/ssh-auth", "immutable": True, "metadata": meta}


CONTROLLER: Final = job_controller(lambda obj, owner, children: job(obj, read_spec(Field(obj)), owner, children))
