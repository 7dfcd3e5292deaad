"""From a script with `#SBATCH` lines to the objects of a job, and to what is told of each line.

The script lies in a ConfigMap of the job, beside the programs of `shims.py`. A job on one node is a batch Job; one on
several is a gang of one pod a node, in each of which the script runs.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from t9ksched.model.errors import FieldError, Invalid, child
from t9ksched.model.names import (
    AFTER_ANNOTATION,
    AFTER_CANCEL_ANNOTATION,
    ARRAY_INDEX_VARIABLE,
    ARRAY_LABEL,
    GROUP_LABEL,
    QUEUE_LABEL,
    RESERVATION_ANNOTATION,
    SIGNAL_BEFORE_ANNOTATION,
    START_AFTER_ANNOTATION,
    TIME_LIMIT_ANNOTATION,
)
from t9ksched.workloads.arrays import read_array
from t9ksched.workloads.compose.asked import Asked, Mount
from t9ksched.workloads.compose.job import Composed, compose
from t9ksched.workloads.compose.sbatch.lines import Given, Script
from t9ksched.workloads.compose.sbatch.meanings import MEANINGS, REFUSED, UNMET
from t9ksched.workloads.compose.sbatch.plan import Around, Plan, plan
from t9ksched.workloads.compose.sbatch.shims import FOLDER, SIGNAL, SIGNAL_TO, programs
from t9ksched.workloads.compose.sbatch.words import TERM, duration
from t9ksched.workloads.queueing import annotate

_VOLUME: Final = "t9ksched-script"
_GRACE: Final = 30
"""Seconds that Kubernetes leaves a pod that is told to stop, unless it says otherwise."""
_HOSTNAME: Final = "kubernetes.io/hostname"
_ANNOTATIONS: Final = {
    "time": TIME_LIMIT_ANNOTATION,
    "begin": START_AFTER_ANNOTATION,
    "reservation": RESERVATION_ANNOTATION,
    "dependency": AFTER_ANNOTATION,
}
_WORDS: Final = {
    "name": ("job-name",),
    "queue": ("partition",),
    "replicas": ("nodes",),
    "cpu": ("cpus-per-task", "cpus-per-gpu", "mincpus", "ntasks", "ntasks-per-node"),
    "memory": ("mem", "mem-per-cpu", "mem-per-gpu"),
    "gpus": ("gres", "gpus-per-node", "gpus", "gpus-per-task"),
    "gpu-model": ("constraint", "gres", "gpus-per-node", "gpus", "gpus-per-task"),
    "image": ("container-image",),
    "workdir": ("chdir", "container-workdir"),
}
"""By the words of `Asked` the options that fill them."""
_BODY: Final = (
    (re.compile(r"^\s*srun\b"), "srun", True, "starts the tasks of its own pod"),
    (re.compile(r"^\s*srun\s.*--container-"), "srun --container-…", False, "a step has the image of the job: --image"),
    (
        re.compile(r"^\s*srun\s.*--mpi=pm"),
        "srun --mpi",
        False,
        "processes of MPI do not find each other by it: see MPIJob",
    ),
    (re.compile(r"^\s*(?:module|ml)\s"), "module", False, "there are no modules: the image has what is needed"),
    (
        re.compile(r"^\s*(?:sbatch|squeue|scancel|sinfo|sacct|scontrol)\b"),
        "commands of Slurm",
        False,
        "they are not in the image, and its pods have no rights to submit",
    ),
    (re.compile(r"SLURM_(?:JOB_)?NODELIST"), "$SLURM_NODELIST", False, "is not set: MASTER_ADDR is the first pod"),
)
_MPI: Final = re.compile(r"^\s*(?:mpirun|mpiexec)\b")


@dataclass(frozen=True, slots=True)
class Told:
    """What became of an option or a line; `met` is False if it has no counterpart."""

    line: int
    written: str
    becomes: str
    met: bool = True

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"line": self.line, "written": self.written, "becomes": self.becomes, "counterpart": self.met}


@dataclass(frozen=True, slots=True)
class Translation:
    """The job, first of `objects`, and its ConfigMap. `fields` says by the paths of the job's fields which line filled
    them, or which option of ours. `array` are the indices of an array of the job; None for one job.
    """

    objects: tuple[dict[str, Any], ...]
    told: tuple[Told, ...]
    fields: Mapping[str, str]
    array: str | None = None


def translate(script: Script, around: Around, mounts: Sequence[Mount] = (), env: Mapping[str, str] = {}) -> Translation:
    """The job that a script asks for.

    Raises:
        Invalid: a line cannot be read, or asks for what cannot be left out; paths are lines, or words of ours.
    """
    given, values = _values(script, around)
    wanted = plan(given, values, around.features)
    composed = compose(_asked(wanted, around, mounts, env))
    name = f"{around.name}-script"
    _dress(composed, wanted, around, name)
    for option, annotation in _ANNOTATIONS.items():
        if values.get(option) is not None:
            annotate(composed.obj, annotation, values[option])
    if values.get("kill-on-invalid-dep"):
        annotate(composed.obj, AFTER_CANCEL_ANNOTATION, "true")
    files = {"script": script.text} | programs()
    meta = {key: value for key, value in composed.obj["metadata"].items() if key == "namespace"} | {"name": name}
    kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": files}
    return Translation(
        (composed.obj, kept),
        (*_told(script, given, wanted, around), *_told_of_body(script, wanted)),
        _lines(composed, given),
        values.get("array"),
    )


def _values(script: Script, around: Around) -> tuple[dict[str, Given], dict[str, Any]]:
    given: dict[str, Given] = {}
    values: dict[str, Any] = {}
    faults: list[FieldError] = []
    for one in script.options:
        if one.name in around.overridden:
            continue
        if one.name in REFUSED:
            faults.append(FieldError(f"line {one.line}", f"{one.written}: {REFUSED[one.name]}"))
        elif (meaning := MEANINGS.get(one.name)) is not None:
            try:
                values[one.name] = meaning.read(one.value or "", around)
                given[one.name] = one
            except ValueError as error:
                faults.append(FieldError(f"line {one.line}", f"{one.written}: {error}"))
    if faults:
        raise Invalid(faults)
    return given, values


def _asked(wanted: Plan, around: Around, mounts: Sequence[Mount], env: Mapping[str, str]) -> Asked:
    values = wanted.values
    asked = Asked(
        name=around.name,
        command=(f"{FOLDER}/start", *around.arguments),
        image=around.image or values.get("container-image", ""),
        namespace=around.namespace,
        gpus=wanted.cards,
        gpu_model=wanted.model,
        replicas=wanted.nodes if wanted.nodes > 1 else None,
        cpu=wanted.cpu,
        memory=wanted.memory,
        queue=str(values.get("partition", "")).split(",")[0],
        priority=around.priority,
        workdir=around.workdir or values.get("chdir") or values.get("container-workdir") or "",
        environment=_environment(wanted, around) | values.get("export", {}) | dict(env),
        mounts=tuple(mounts),
    )
    if "signal" in values:
        asked = replace(asked, annotations={SIGNAL_BEFORE_ANNOTATION: duration(values["signal"].seconds)})
    return asked


def _environment(wanted: Plan, around: Around) -> dict[str, str]:
    """The variables that Slurm sets and that are the same in each pod."""
    values = wanted.values
    found: dict[str, object] = {
        "SLURM_JOB_ID": around.name,
        "SLURM_JOBID": around.name,
        "SLURM_JOB_NAME": values.get("job-name", around.name),
        "SLURM_JOB_PARTITION": str(values.get("partition", "")).split(",")[0],
        "SLURM_JOB_NUM_NODES": wanted.nodes,
        "SLURM_NNODES": wanted.nodes,
        "SLURM_NTASKS": wanted.tasks,
        "SLURM_NPROCS": wanted.tasks,
        "SLURM_NTASKS_PER_NODE": wanted.tasks_here,
        "SLURM_CPUS_PER_TASK": values.get("cpus-per-task", ""),
        "SLURM_CPUS_ON_NODE": wanted.cpu,
        "SLURM_GPUS_ON_NODE": wanted.cards or "",
        "SLURM_GPUS_PER_TASK": values["gpus-per-task"].number if "gpus-per-task" in values else "",
    }
    if (asked := values.get("signal")) is not None:
        found |= {SIGNAL: asked.name if asked.name != TERM else "", SIGNAL_TO: "script" if asked.script else "steps"}
    if "array" in values:
        indices = read_array(values["array"]).indices
        found |= {"SLURM_ARRAY_JOB_ID": around.name, "SLURM_ARRAY_TASK_COUNT": len(indices)}
        # The name of the element: scripts make folders of this name, each its own.
        found |= dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), f"{around.name}-$({ARRAY_INDEX_VARIABLE})")
        found |= {"SLURM_ARRAY_TASK_MIN": indices[0], "SLURM_ARRAY_TASK_MAX": indices[-1]}
    return {name: str(value) for name, value in found.items() if value != ""}


def _dress(composed: Composed, wanted: Plan, around: Around, files: str) -> None:
    """Give the pods the script, and the nodes that it asks for."""
    spec = composed.obj["spec"]
    template = spec["template"] if "template" in spec else spec["replicaSpecs"][0]["template"]
    pod = template["spec"]
    if "signal" in wanted.values:
        pod["terminationGracePeriodSeconds"] = max(_GRACE, wanted.values["signal"].seconds)
    pod.setdefault("volumes", []).append({"name": _VOLUME, "configMap": {"name": files, "defaultMode": 0o555}})
    pod["containers"][0].setdefault("volumeMounts", []).append({"name": _VOLUME, "mountPath": FOLDER})
    affinity: dict[str, Any] = {}
    if terms := _node_terms(wanted):
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    apart: dict[str, Any] | None = None
    if wanted.values.get("exclusive"):
        anyone = {"matchExpressions": [{"key": QUEUE_LABEL, "operator": "Exists"}]}
        apart = {"labelSelector": anyone, "namespaceSelector": {}}
    elif wanted.nodes > 1 and ("array" in wanted.values or "array" in around.overridden):
        # Each element is a group of its own name.
        template.setdefault("metadata", {}).setdefault("labels", {})[ARRAY_LABEL] = around.name
        apart = {"labelSelector": {"matchLabels": {ARRAY_LABEL: around.name}}, "matchLabelKeys": [GROUP_LABEL]}
    elif wanted.nodes > 1:
        apart = {"labelSelector": {"matchLabels": {GROUP_LABEL: around.name}}}
    if apart is not None:
        term = apart | {"topologyKey": _HOSTNAME}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if affinity:
        pod["affinity"] = affinity


def _node_terms(wanted: Plan) -> list[dict[str, Any]]:
    hosts = [
        {"key": _HOSTNAME, "operator": operator, "values": wanted.values[option]}
        for option, operator in (("nodelist", "In"), ("exclude", "NotIn"))
        if option in wanted.values
    ]
    places: Sequence[Sequence[Any]] = wanted.places or ((),)
    terms = [
        [{"key": label.key, "operator": "In", "values": [label.value]} for label in place] + hosts for place in places
    ]
    return [{"matchExpressions": term} for term in terms] if all(terms) else []


def _told(script: Script, given: Mapping[str, Given], wanted: Plan, around: Around) -> list[Told]:
    found = []
    for one in script.options:
        if (option := around.overridden.get(one.name)) is not None:
            found.append(Told(one.line, one.written, f"overridden by {option}"))
        elif one.name not in MEANINGS:
            why = UNMET.get(one.name)
            found.append(Told(one.line, one.written, f"no counterpart{f': {why}' if why else ''}", met=False))
        elif given[one.name] is not one:
            found.append(Told(one.line, one.written, f"overridden by line {given[one.name].line}"))
        else:
            becomes = MEANINGS[one.name].tell(wanted.values[one.name], wanted, around)
            found.append(Told(one.line, one.written, becomes))
    late = "not read: it stands behind the first command, and sbatch does not read it either"
    return found + [Told(line, "#SBATCH", late, met=False) for line in script.late]


def _told_of_body(script: Script, wanted: Plan) -> list[Told]:
    """What lines of the script mean that Slurm gives a meaning, the first of each sort."""
    found: dict[str, Told] = {}
    for number, line in enumerate(script.text.split("\n"), 1):
        if line.lstrip().startswith("#"):
            continue
        for pattern, name, met, text in _BODY:
            if name not in found and pattern.search(line):
                found[name] = Told(number, name, text, met)
        if wanted.nodes > 1 and "mpirun" not in found and _MPI.search(line):
            text = "reaches its own pod alone: a job of MPI over several is an MPIJob"
            found["mpirun"] = Told(number, "mpirun", text, met=False)
    if wanted.nodes > 1:
        text = f"runs once in each of its {wanted.nodes} pods, and not on the first node alone"
        found["script"] = Told(1, "the script", text)
    return sorted(found.values(), key=lambda one: one.line)


def _lines(composed: Composed, given: Mapping[str, Given]) -> dict[str, str]:
    """By path the option that filled it, with its line."""
    found = {}
    for path, word in composed.fields.items():
        source = next((given[name] for name in _WORDS.get(word, ()) if name in given), None)
        found[path] = f"--{word}" if source is None else _at(source)
    for option, annotation in _ANNOTATIONS.items():
        if option in given:
            found[child("metadata.annotations", annotation)] = _at(given[option])
    if "kill-on-invalid-dep" in given:
        found[child("metadata.annotations", AFTER_CANCEL_ANNOTATION)] = _at(given["kill-on-invalid-dep"])
    if "array" in given:
        found["array"] = _at(given["array"])
    return found


def _at(source: Given) -> str:
    return f"line {source.line}, {source.written}"
