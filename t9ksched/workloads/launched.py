"""Jobs whose launcher starts processes on workers that run sshd: MPIJob and ColossalAIJob, in both generations.

The launcher is a member of the gang. Its init container waits until every worker answers, so that a gang placed whole
starts whole. Hostfile and ssh settings stand in the ConfigMap `<job>-<tool>`, mounted at `/etc/<tool>`; the key pair in
the Secret `<job>-<uid>-ssh` (`sshgang.py`). The job ends as its launcher does; any worker that is lost fails it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from t9ksched.model.pod import effective_requests
from t9ksched.workloads.actions import Children, Expansion, Object
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
    read_run_policy,
)
from t9ksched.workloads.launcher import LAUNCHER, WORKER, drop_copied_faults, fill_launcher, launcher_spec
from t9ksched.workloads.parts import (
    IDLE,
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
    client_settings,
    config_of,
    hostfile,
    keys_of,
    keys_volume,
    mount_in,
    run_sshd,
    secret_of,
    wait_for_hosts,
    waiting_container,
)

USUAL_KEYS_PATH: Final = "/root/.ssh"


@dataclass(frozen=True, slots=True)
class Launched:
    """What such a job is, its tool aside; `sshd` is empty unless the job says where it is."""

    launcher: ReplicaType
    workers: ReplicaType
    keys_path: str
    sshd: str
    run_policy: RunPolicy
    run_mode: RunMode

    @property
    def templates(self) -> list[Template]:
        """The pod templates, for admission and lists: the launcher counts."""
        return [self.launcher.template, self.workers.template]


@dataclass(frozen=True, slots=True)
class Tool:
    """What differs from one tool to another.

    Attributes:
        name: in names of the ConfigMap, of volumes, and of the folder.
        fixed: fields of the spec that may change only while the job is paused; `runMode.debug` as well.
        containers: names of the training container, by type.
        idle: what workers run in debug mode.
        labels: what pods are labelled with besides.
        env: what the containers of the launcher have in their environment.
        before: the end of the name of the Secret of keys in older releases.
    """

    name: str
    fixed: tuple[str, ...]
    containers: Mapping[str, tuple[str, ...]]
    idle: Callable[[Launched], Override] = lambda _: IDLE
    labels: Callable[[Owner, ReplicaType], Mapping[str, str]] = lambda owner, kind: {}
    env: Mapping[str, str] | None = None
    before: str = ""

    @property
    def folder(self) -> str:
        """Where the hostfile and the settings of ssh are mounted."""
        return f"/etc/{self.name}"

    @property
    def hostfile(self) -> str:
        """The file of the hosts."""
        return f"{self.folder}/hostfile"

    @property
    def ssh_config(self) -> str:
        """The file of the settings of ssh."""
        return f"{self.folder}/ssh_config"


def is_newer(spec: Field) -> bool:
    """Whether the job is of the generation with replica types."""
    return spec["replicaSpecs"].present or not spec["worker"].present


def read_newer(root: Field, tool: Tool) -> Launched:
    """A job of the newer generation: `replicaSpecs` with a launcher and workers."""
    specs = fill_launcher(root["spec"]["replicaSpecs"], *tool.containers[WORKER])
    types = {kind.role: kind for kind in read_replica_types(specs, objects=True, allowed=(LAUNCHER, WORKER))}
    drop_copied_faults(root["spec"]["replicaSpecs"])
    workers = types.get(WORKER)
    if workers is None:
        if types and types.keys() <= {LAUNCHER, WORKER}:
            specs.fault("has no entry of type worker: the job needs one")
        workers = ReplicaType(Template(WORKER, 0, 0, {}, {}, f"{specs.path}[0].template.spec"))
    launcher = types.get(LAUNCHER) or ReplicaType(launcher_like(workers.template, tool))
    if launcher.replicas != 1:
        for entry in specs.items():
            if entry["type"].value == LAUNCHER:
                entry["replicas"].fault(
                    f"is {launcher.replicas}, but there is exactly one launcher: leave it out or write 1"
                )
    return _read_rest(root, launcher, workers)


def read_older(root: Field, tool: Tool, launcher: Callable[[Template], Template] | None = None) -> Launched:
    """A job of the older generation: `worker`, and a launcher like it, which `launcher` may change."""
    worker = root["spec"]["worker"]
    template = read_template(worker["template"], WORKER, worker["replicas"].whole(1))
    like = launcher_like(template, tool) if launcher is None else launcher(template)
    never = RestartPolicy("Never")
    return _read_rest(root, ReplicaType(like, never), ReplicaType(template, never))


def launcher_like(worker: Template, tool: Tool, **given: Any) -> Template:
    """A launcher from the worker's template: same image, volumes and node choice, small resources and no cards. What is
    `given` of its container counts instead.
    """
    spec = launcher_spec(worker.spec, *tool.containers[WORKER], name=tool.containers[LAUNCHER][-1])
    for container in spec.get("containers") or () if given else ():
        container.update(given)
    sound = bool(worker.requests) or worker.replicas == 0
    try:
        requests = effective_requests(spec) if sound and spec.get("containers") else {}
    except (msgspec.ValidationError, ValueError):
        requests = {}  # the faults of the template were recorded when it was read
    return replace(worker, role=LAUNCHER, replicas=1, min_replicas=1, spec=spec, requests=requests)


def _read_rest(root: Field, launcher: ReplicaType, workers: ReplicaType) -> Launched:
    spec = root["spec"]
    ssh = spec["ssh"]
    sshd = ssh["sshdPath"].text()
    if sshd and not sshd.startswith("/"):
        ssh["sshdPath"].fault(f"{sshd!r} is not absolute: sshd starts only by its full path, such as {USUAL_SSHD}")
    old, new = ssh["sshAuthMountPath"], ssh["authMountPath"]
    keys_path = (old if old.present else new).text(USUAL_KEYS_PATH)
    if not keys_path.startswith("/"):
        (old if old.present else new).fault(
            f"{keys_path!r} is not absolute: write it from / on, such as {USUAL_KEYS_PATH}"
        )
    check_pod_names(root, pod_suffixes((launcher, workers)))
    clean_up = "All" if spec["runPolicy"]["cleanUpWorkers"].flag() else "None"
    return Launched(
        launcher=launcher,
        workers=workers,
        keys_path=keys_path,
        sshd=sshd,
        run_policy=RunPolicy(
            active_deadline=read_run_policy(spec["runPolicy"]).active_deadline,
            backoff_limit=None,
            clean_up=clean_up,
            kept_roles=frozenset({LAUNCHER}),
        ),
        run_mode=read_run_mode(spec["runMode"], (LAUNCHER, WORKER)),
    )


def launched_job(
    obj: Mapping[str, Any],
    spec: Launched,
    tool: Tool,
    owner: Owner,
    children: Children,
    command: list[str],
    slots: int | None = None,
) -> Job:
    """The job with everything it consists of; `children` say how far its keys are made. Its launcher runs `command`,
    and the hostfile gives each worker so many slots.
    """
    resumed = has_been_paused(obj)
    types, members = (spec.launcher, spec.workers), 1 + spec.workers.replicas
    config = f"{owner.name}-{tool.name}"
    keys = keys_of(owner, children, config, f"{owner.name}{tool.before}" if tool.before else "")
    data = {"hostfile": hostfile(owner, spec.workers, slots), "ssh_config": client_settings(spec.keys_path)}

    def build(kind: ReplicaType, index: int) -> Object:
        pod = job_pod(owner, kind, index, tool.labels(owner, kind))
        container = training_container(pod["spec"], *tool.containers[kind.role])
        files = {"name": f"{tool.name}-config", "configMap": {"name": config}}
        mount_in(pod["spec"], container, files, mountPath=tool.folder)
        mount_in(pod["spec"], container, keys_volume(f"{tool.name}-ssh", keys.secret), mountPath=spec.keys_path)
        launches = kind is spec.launcher
        container["command"] = command if launches else run_sshd(spec.sshd or USUAL_SSHD, spec.keys_path)
        container.pop("args", None)
        idle = IDLE if launches else tool.idle(spec)
        follow_run_mode(pod["spec"], container, spec.run_mode, kind, resumed=resumed, idle=idle)
        if launches and _workers_serve(spec, tool, resumed=resumed):
            _wait_first(pod["spec"], container, spec, tool, resumed=resumed)
        if launches:
            add_env(pod["spec"], tool.env or {})
        return pod

    return Job(
        owner=owner,
        types=types,
        run_policy=spec.run_policy,
        paused=spec.run_mode.paused,
        around=Expansion(
            podgroup=pod_group(owner, types, members),
            services=(headless_service(owner, owner.name, {"ssh": SSH_PORT}),),
            configmaps=(config_of(owner, config, data),),
            secrets=secret_of(owner, keys, config),
        ),
        build=build,
        anew=keys.unfinished,
        ending=led_by(pod_name(owner, spec.launcher, 0), any_failure=True),
        min_member=members,
        revision=revision(obj, tool.fixed),
    )


def _workers_serve(spec: Launched, tool: Tool, *, resumed: bool) -> bool:
    """Whether the workers run sshd: a command of the run mode may stand in its place, and then nobody answers."""
    container: Object = {"command": run_sshd(spec.sshd or USUAL_SSHD, spec.keys_path)}
    follow_run_mode({}, container, spec.run_mode, spec.workers, resumed=resumed, idle=tool.idle(spec))
    return any("sshd" in word for word in (*container["command"], *container.get("args", ())))


def _wait_first(pod: Object, container: Object, spec: Launched, tool: Tool, *, resumed: bool) -> None:
    """Let the launcher wait for the workers, after its own init containers, unless these are to be skipped."""
    if skips_init(spec.run_mode, spec.launcher, resumed=resumed):
        return
    script = wait_for_hosts(tool.hostfile, f"ssh -F {tool.ssh_config}")
    waiting = waiting_container(container, script, (f"{tool.name}-config", f"{tool.name}-ssh"))
    pod["initContainers"] = [*(pod.get("initContainers") or ()), waiting]
