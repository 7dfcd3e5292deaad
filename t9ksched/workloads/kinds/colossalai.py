"""ColossalAIJob, both generations: workers that run sshd, and a launcher that waits for them and runs `colossalai run`.

First generation: `spec.worker` with the program in `worker.command`, and `spec.launcher` with image, working folder,
environment and resources of the launcher, which is like a worker in all else. Second: `spec.replicaSpecs` with types
launcher and worker, the program in `torchConfig.script`. All else is as with every job that has a launcher
(`launched.py`). `colossalai run` changes into the launcher's working folder on every worker, and takes its environment
there. Workers cannot come back into a training that runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from t9ksched.workloads.actions import NO_CHILDREN, Children
from t9ksched.workloads.controller import job_controller
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job
from t9ksched.workloads.launched import Launched, Tool, is_newer, launched_job, launcher_like, read_newer, read_older
from t9ksched.workloads.launcher import LAUNCHER, WORKER
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.podspec import check_resources
from t9ksched.workloads.shape import Template

FIXED_WHILE_RUNNING: Final = ("replicaSpecs", "torchConfig", "launcher", "worker", "ssh")
"""Fields of the spec that may change only while the job is paused; `runMode.debug` as well."""
TOOL: Final = Tool(
    name="colossalai",
    fixed=FIXED_WHILE_RUNNING,
    containers={LAUNCHER: (LAUNCHER,), WORKER: (WORKER,)},
)
_OF_THE_LAUNCHER: Final = ("image", "workingDir", "resources")


@dataclass(frozen=True, slots=True)
class ColossalAISpec:
    """The spec of a ColossalAIJob, generations aside. `script` is the program with its arguments, `extra` has options
    of torchrun, and `processes` is the number on each worker.
    """

    pods: Launched
    script: tuple[str, ...]
    extra: tuple[str, ...]
    processes: int


def read_spec(root: Field) -> ColossalAISpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    if is_newer(spec):
        config = spec["torchConfig"]
        pods = read_newer(root, TOOL)
        script, extra, processes = config["script"], config["extraArgs"], config["procPerWorker"]
    else:
        worker, launcher = spec["worker"], spec["launcher"]
        pods = read_older(root, TOOL, lambda template: _launcher(launcher, template))
        script, extra, processes = worker["command"], worker["torchArgs"], worker["procPerWorker"]
    if pods.run_mode.debug is None:
        script.some("is missing: write the program that colossalai shall start, as a list of words")
    for word in extra.items():
        if "," in word.text():
            word.fault(f"{word.value!r} has a comma, which colossalai takes for the end of an option: leave it out")
    return ColossalAISpec(
        pods=pods,
        script=tuple(script.texts()),
        extra=tuple(extra.texts()),
        processes=processes.whole(1, low=1),
    )


def _launcher(launcher: Field, worker: Template) -> Template:
    """The launcher of the first generation."""
    launcher["image"].text()
    launcher["workingDir"].text()
    check_resources(launcher["resources"])
    given = {key: launcher[key].value for key in _OF_THE_LAUNCHER if launcher[key].present}
    env = [each.value for each in launcher["env"].items() if each.mapping()]
    if env:
        names = {each.get("name") for each in env}
        like = launcher_like(worker, TOOL).spec.get("containers") or [{}]
        given["env"] = [each for each in like[0].get("env") or () if each.get("name") not in names] + env
    return launcher_like(worker, TOOL, **given)


def read(root: Field) -> list[Template]:
    """The pod templates, for admission and lists: the launcher counts."""
    return read_spec(root).pods.templates


def job(obj: Mapping[str, Any], spec: ColossalAISpec, owner: Owner, children: Children = NO_CHILDREN) -> Job:
    """The job with everything it consists of; `children` say how far its keys are made."""
    command = ["colossalai", "run", "--hostfile", TOOL.hostfile, "--nproc_per_node", str(spec.processes)]
    if options := _torch_options(spec.extra):
        command += ["--extra_launch_args", ",".join(options)]
    return launched_job(obj, spec.pods, TOOL, owner, children, [*command, *spec.script])


def _torch_options(words: tuple[str, ...]) -> list[str]:
    """Options of torchrun as colossalai takes them: without dashes, each with its value behind `=`."""
    options: list[str] = []
    for word in words:
        if word.startswith("-") or not options or "=" in options[-1]:
            options.append(word.lstrip("-"))
        else:
            options[-1] += f"={word}"
    return options


CONTROLLER: Final = job_controller(lambda obj, owner, children: job(obj, read_spec(Field(obj)), owner, children))
