"""AutoTuneExperiment: training jobs, each with other hyperparameters, until a number of trials has ended.

A trial is a TensorFlowTrainingJob, PyTorchTrainingJob or XGBoostTrainingJob `<experiment>-<number>`, which belongs to
the experiment. `$(parameter.NAME)` in commands, arguments and variables of its containers is the trial's value.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from t9ksched.model.errors import FieldError
from t9ksched.workloads.actions import Actions, Children, Expansion, Object
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.controller import Controller
from t9ksched.workloads.fields import Field
from t9ksched.workloads.kinds import pytorch, tensorflow, xgboost
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.shape import Template
from t9ksched.workloads.tuning import experiment
from t9ksched.workloads.tuning.experiment import Experiment
from t9ksched.workloads.tuning.filling import unknown_references
from t9ksched.workloads.tuning.settings import read_assessor, read_tuner
from t9ksched.workloads.tuning.space import read_space

MOST_TRIALS: Final = 1000
"""Trials of one experiment: its status lists them all."""
MOST_AT_ONCE: Final = 100
_LONGEST: Final = 10**9
_FRAMEWORKS: Final[Mapping[str, tuple[str, Callable[[Field], list[Template]]]]] = {
    "tensorflow": ("TensorFlowTrainingJob", tensorflow.read),
    "pytorch": ("PyTorchTrainingJob", pytorch.read),
    "xgboost": ("XGBoostTrainingJob", xgboost.read),
}
_PASSED_ON: Final = ("runPolicy", "torchrunConfig")
"""Fields of `trainingConfig` that stand in the spec of each trial's job."""
_PLACES: Final = (
    ("spec.replicaSpecs", "spec.trainingConfig.tasks"),
    *((f"spec.{name}", f"spec.trainingConfig.{name}") for name in _PASSED_ON),
)


def read_spec(root: Field) -> tuple[Experiment, list[Template]]:
    """The experiment and the pods of one trial, the faults written down in `root`."""
    spec = root["spec"]
    config = spec["trainingConfig"]
    framework = config["type"].choice(tuple(_FRAMEWORKS), "pytorch")
    most, seconds = spec["maxTrialNum"], spec["maxExecSeconds"]
    if not most.present:
        most.fault("is missing: say after how many trials the experiment is done")
    space = read_space(spec["searchSpace"])
    tuner = read_tuner(spec, space)
    kind, reader = _FRAMEWORKS[framework]
    job: Object = {name: config[name].value for name in _PASSED_ON if config[name].present}
    if config["scheduler"].present:
        job["scheduler"] = config["scheduler"].value
    job["replicaSpecs"] = config["tasks"].value
    found = Experiment(
        kind=kind,
        space=space,
        tuner=tuner,
        assessor=read_assessor(spec, tuner),
        most=most.whole(1, low=1, high=MOST_TRIALS),
        at_once=spec["trialConcurrency"].whole(1, low=1, high=MOST_AT_ONCE),
        seconds=seconds.whole(0, high=_LONGEST),
        paused=spec["runMode"]["pause"]["enabled"].flag(),
        job=job,
    )
    return found, _read_trial(root, found, config, reader)


def _read_trial(
    root: Field, found: Experiment, config: Field, reader: Callable[[Field], list[Template]]
) -> list[Template]:
    """The pods of one trial, by the reader of its job's kind."""
    name = root["metadata"]["name"].value
    meta = {"name": f"{name}-{found.most - 1}"} if isinstance(name, str) and name else {}
    sample = Field({"metadata": meta, "spec": found.job})
    templates = reader(sample)
    known = {each.name for each in found.space}
    sample.faults += [] if sample.faults or not known else unknown_references(Field(found.job, "spec"), known)
    for fault in sample.faults:
        path, message = _placed(fault.path), fault.message
        if path == "metadata.name":
            message = f"must leave room for the number of a trial: {message}"
        root.faults.append(FieldError(path, message))
    if not config["tasks"].items() and config["tasks"].present:
        config["tasks"].fault("is empty: an experiment needs at least one task with a template")
    return [replace(each, path=_placed(each.path)) for each in templates]


def _placed(path: str) -> str:
    """Where a field of a trial's job stands in the experiment."""
    for there, here in _PLACES:
        if path == there or path.startswith((f"{there}.", f"{there}[")):
            return here + path.removeprefix(there)
    return path


def read(root: Field) -> list[Template]:
    """The pods of one trial, times the trials that run at once."""
    found, templates = read_spec(root)
    times = min(found.at_once, found.most)
    return [replace(each, replicas=each.replicas * times, min_replicas=each.min_replicas * times) for each in templates]


def _experiment(obj: Mapping[str, Any]) -> Experiment:
    return read_spec(Field(obj))[0]


def expand(obj: Mapping[str, Any], owner: Owner) -> Expansion:
    """The trials that run first."""
    return Expansion(jobs=experiment.first_trials(_experiment(obj), owner))


def withdraw(obj: Mapping[str, Any], old: Object, conditions: Conditions, children: Children) -> Actions:
    """One with faults may be paused."""
    if not Field(obj)["spec"]["runMode"]["pause"]["enabled"].flag():
        return Actions()
    return experiment.pause_faulty(old, conditions, children)


CONTROLLER: Final = Controller(
    expand=expand,
    reconcile=lambda obj, owner, children, now: experiment.reconcile(obj, _experiment(obj), owner, children, now),
    withdraw=withdraw,
)
