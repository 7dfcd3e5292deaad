"""DeepSpeedJob: workers that run sshd; worker 0 waits for them and starts `deepspeed`, which reaches them by pdsh.

Hosts and ssh settings stand in the ConfigMap `<job>-deepspeed`, the key pair in the Secret `<job>-<uid>-ssh`
(`sshgang.py`); worker 0 finds them at `/t9k/hostfile` and in `/root/.ssh`. The variables that the template sets are
written to `/root/.deepspeed_env` when worker 0 starts, for the processes on the other workers.

Of an elastic job, worker 0 waits for a minute for all workers, then starts with those that answer, at least
`minReplicas`. It is made anew when the number of workers changes: the training goes on from its last checkpoint.
"""

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from t9ksched.workloads.actions import NO_CHILDREN, Children, Expansion, Object
from t9ksched.workloads.controller import job_controller
from t9ksched.workloads.ending import led_by
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job, has_been_paused, revision
from t9ksched.workloads.jobspec import (
    Elastic,
    Override,
    ReplicaType,
    RunMode,
    RunPolicy,
    check_pod_names,
    pod_suffixes,
    read_elastic,
    read_restart_word,
    read_run_mode,
    read_run_policy,
)
from t9ksched.workloads.launcher import WORKER
from t9ksched.workloads.parts import (
    Owner,
    follow_run_mode,
    headless_service,
    job_pod,
    pod_group,
    pod_name,
    training_container,
)
from t9ksched.workloads.podspec import read_template
from t9ksched.workloads.shape import Template
from t9ksched.workloads.sshgang import (
    KEY_FILES,
    SSH_PORT,
    USUAL_SSHD,
    cards_of,
    client_settings,
    config_of,
    hostfile,
    keys_of,
    mount_in,
    run_sshd,
    secret_of,
    sshd_options,
    wait_for_hosts,
)

FIXED_WHILE_RUNNING: Final = ("worker", "config", "disableCustomEnv")
"""Fields of the spec that may change only while the job is paused; `runMode.debug` as well."""

HOSTFILE: Final = "/t9k/hostfile"
KEYS_PATH: Final = "/root/.ssh"
ENV_FILE: Final = "/root/.deepspeed_env"
_PRESENT: Final = "/tmp/hostfile"
"""Where worker 0 of an elastic job, in its container, lists the workers that answer."""
_TRIES: Final = 30
"""How often worker 0 of an elastic job looks for all workers, with two seconds in between."""
_RUNS: Final = {"python": (), "module": ("--module",), "exec": ("--no_python",)}
_SET_ELSEWHERE: Final = {
    "--no_local_rank": "spec.config.localRank",
    "--autotuning": "spec.config.autotune",
    "--module": "spec.config.run.module",
    "--no_python": "spec.config.run.exec",
    "--hostfile": "the controller, which lists the workers there",
    "-H": "the controller, which lists the workers there",
}
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOTE_VARIABLE: Final = r"""nl='
'
note() {
  case "$2" in
    *"$nl"*) ;;
    *[!A-Za-z0-9_./:=,@%+-]*) printf "%s='%s'\n" "$1" "$(printf %s "$2" | sed "s/'/'\\\\''/g")" ;;
    *) printf '%s=%s\n' "$1" "$2" ;;
  esac
}"""
"""Writes a variable as `NAME=value`, in quotes where a shell needs them; a value of several lines cannot be written."""


@dataclass(frozen=True, slots=True)
class DeepSpeedSpec:
    """The spec of a DeepSpeedJob. `arguments` are those of `deepspeed`, options first; with `custom` a shell runs that
    command instead.
    """

    workers: ReplicaType
    elastic: Elastic | None
    slots: int
    arguments: tuple[str, ...]
    custom: str
    pass_env: bool
    run_policy: RunPolicy
    run_mode: RunMode


def read_spec(root: Field) -> DeepSpeedSpec:
    """The spec, its faults written down in `root`. `slotPerWorker` is the older spelling."""
    spec = root["spec"]
    run_mode = read_run_mode(spec["runMode"], (WORKER,))
    elastic = read_elastic(spec["elastic"])
    worker, config = spec["worker"], spec["config"]
    count = minimum = worker["replicas"].whole(1)
    if elastic is not None:
        count, minimum = elastic.expected, elastic.minimum
    elif not count:
        worker["replicas"].fault("is 0, but worker 0 starts the job: use 1 or more")
    workers = ReplicaType(
        read_template(worker["template"], WORKER, count, minimum), read_restart_word(worker["restartPolicy"])
    )
    check_pod_names(root, pod_suffixes((workers,)))
    _check_mounts(worker["template"]["spec"])
    slots = config["slotsPerWorker"] if config["slotsPerWorker"].present else config["slotPerWorker"]
    custom = config["customCommand"].text()
    return DeepSpeedSpec(
        workers=workers,
        elastic=elastic,
        slots=slots.whole(1, low=1) if slots.present else cards_of(workers.template),
        arguments=_read_arguments(config, needed=not custom and run_mode.debug is None),
        custom=custom,
        pass_env=not spec["disableCustomEnv"].flag(),
        run_policy=read_run_policy(spec["runPolicy"]),
        run_mode=run_mode,
    )


def read(root: Field) -> list[Template]:
    """The pod template, for admission and lists; an elastic range overrides `worker.replicas`."""
    return [read_spec(root).workers.template]


def _read_arguments(config: Field, *, needed: bool) -> tuple[str, ...]:
    run = config["run"]
    forms = [form for form in _RUNS if run[form].present]
    for key, field in run.entries():
        if key not in _RUNS and field.present:
            field.fault("is unknown: give exactly one of python, module and exec")
    if len(forms) > 1:
        run.fault(f"names {' and '.join(forms)}: give exactly one of python, module and exec")
    if not forms and needed:
        run.fault("is missing: say what to start, by one of python, module and exec, as a list of words")
    words = run[forms[0]].texts() if forms else []
    if forms and not words and needed:
        run[forms[0]].fault("is empty: write the program and its arguments, as a list of words")
    options = [*(_RUNS[forms[0]] if forms else ()), *_read_options(config), *_read_others(config["otherArgs"])]
    return (*options, *words)


def _read_options(config: Field) -> list[str]:
    tune = config["autotune"].choice(("none", "run", "tune"), "none")
    options = [] if config["localRank"].flag(True) else ["--no_local_rank"]
    return options + ([] if tune == "none" else ["--autotuning", tune])


def _read_others(others: Field) -> list[str]:
    words, places = others.texts(), others.items()
    for index, (word, place) in enumerate(zip(words, places, strict=True)):
        name, given, value = word.partition("=")
        if name in _SET_ELSEWHERE:
            place.fault(f"{word!r} is set by {_SET_ELSEWHERE[name]}: take it out")
        if name == "--launcher":
            chosen = value if given else words[index + 1] if index + 1 < len(words) else ""
            if chosen.lower() != "pdsh":
                place.fault(f"asks for the launcher {chosen!r}, and workers are reached by pdsh alone: take it out")
    return words


def _check_mounts(spec: Field) -> None:
    """Report volumes that the user mounts where the controller puts files of its own."""
    for container in spec["containers"].items():
        for mount in container["volumeMounts"].items():
            path = posixpath.normpath(mount["mountPath"].text() or ".")
            for taken in (KEYS_PATH, HOSTFILE, ENV_FILE):
                if path == taken or path.startswith(f"{taken}/"):
                    mount["mountPath"].fault(f"{path!r} cannot be mounted: the job has {taken} there; use another path")


def job(obj: Mapping[str, Any], spec: DeepSpeedSpec, owner: Owner, children: Children = NO_CHILDREN) -> Job:
    """The job with everything it consists of; `children` say how far its keys are made."""
    config_name = f"{owner.name}-deepspeed"
    keys = keys_of(owner, children, config_name)
    data = {
        "hostfile": hostfile(owner, spec.workers, spec.slots),
        "ssh_config": client_settings(KEYS_PATH),
    }
    leader, now = pod_name(owner, spec.workers, 0), revision(obj, FIXED_WHILE_RUNNING)
    resumed = has_been_paused(obj)
    size = f"{now}-{spec.workers.replicas}"
    return Job(
        owner=owner,
        types=(spec.workers,),
        run_policy=spec.run_policy,
        paused=spec.run_mode.paused,
        around=Expansion(
            podgroup=pod_group(owner, (spec.workers,), spec.workers.template.min_replicas),
            services=(headless_service(owner, owner.name, {"ssh": SSH_PORT}),),
            configmaps=(config_of(owner, config_name, data),),
            secrets=secret_of(owner, keys, config_name),
        ),
        build=lambda _, index: _pod(owner, spec, config_name, keys.secret, index, resumed=resumed),
        ending=led_by(leader, any_failure=spec.elastic is None),
        min_member=spec.workers.template.min_replicas,
        revision=now,
        revisions={leader: size} if spec.elastic is not None else {},
        anew=keys.unfinished,
    )


def _pod(owner: Owner, spec: DeepSpeedSpec, config: str, secret: str, index: int, *, resumed: bool) -> Object:
    pod = job_pod(owner, spec.workers, index)
    container = training_container(pod["spec"], WORKER)
    given = [each["name"] for each in container.get("env") or () if _VARIABLE.fullmatch(str(each.get("name")))]
    _mount(pod["spec"], container, config, secret)
    if index == 0:
        container["command"] = ["/bin/sh", "-c", _script(spec, given), "deepspeed"]
        container["args"] = [spec.custom] if spec.custom else list(spec.arguments)
    else:
        container["command"] = run_sshd(USUAL_SSHD, KEYS_PATH)
        container.pop("args", None)
    idle = Override(tuple(run_sshd(USUAL_SSHD, KEYS_PATH)))
    follow_run_mode(pod["spec"], container, spec.run_mode, spec.workers, resumed=resumed, idle=idle)
    return pod


def _mount(spec: Object, container: Object, config: str, secret: str) -> None:
    """Mount the hostfile and the keys; the settings of ssh lie beside the keys, where ssh and pdsh look."""
    hosts = {"name": "deepspeed-hosts", "configMap": {"name": config}}
    mount_in(spec, container, hosts, mountPath=HOSTFILE, subPath="hostfile")
    items = [{"key": key, "path": path} for key, path in KEY_FILES]
    sources = [
        {"secret": {"name": secret, "items": items}},
        {"configMap": {"name": config, "items": [{"key": "ssh_config", "path": "config"}]}},
    ]
    keys = {"name": "deepspeed-ssh", "projected": {"defaultMode": 0o600, "sources": sources}}
    mount_in(spec, container, keys, mountPath=KEYS_PATH)


def _script(spec: DeepSpeedSpec, variables: list[str]) -> str:
    """What worker 0 runs: sshd, the variables for the others, the wait for them, and then the program."""
    lines = ["mkdir -p /run/sshd", shlex.join([USUAL_SSHD, *sshd_options(KEYS_PATH)])]
    if spec.pass_env:
        notes = "; ".join(f'note {name} "${{{name}-}}"' for name in variables) or ":"
        lines += [_NOTE_VARIABLE, f"{{ {notes}; }} > {ENV_FILE}"]
    if spec.elastic is None:
        hosts, wait = HOSTFILE, [wait_for_hosts(HOSTFILE)]
    else:
        hosts, wait = _PRESENT, [_wait_for_some(spec.elastic)]
    program = 'exec /bin/sh -c "$1"' if spec.custom else f'exec deepspeed --hostfile {hosts} "$@"'
    return "\n".join(["set -e", *lines, *wait, program])


def _wait_for_some(elastic: Elastic) -> str:
    """Waits for all workers for a while, then until there are enough, and lists those that answer."""
    return f"""tries=0
while :; do
  while read -r host slots; do
    if ssh -o ConnectTimeout=5 -n "$host" true; then echo "$host $slots"; fi
  done < {HOSTFILE} > {_PRESENT}
  have=$(wc -l < {_PRESENT})
  if [ "$have" -ge {elastic.expected} ]; then break; fi
  tries=$((tries + 1))
  if [ "$tries" -gt {_TRIES} ] && [ "$have" -ge {elastic.minimum} ]; then break; fi
  sleep 2
done"""


CONTROLLER: Final = job_controller(lambda obj, owner, children: job(obj, read_spec(Field(obj)), owner, children))
