"""AutoTuneExperiment (read only): trials of one training job, `trialConcurrency` of them at a time."""

from dataclasses import replace

from t9ksched.workloads.fields import Field
from t9ksched.workloads.podspec import read_template
from t9ksched.workloads.shape import Template


def read_autotune_experiment(root: Field) -> list[Template]:
    """The pods of one trial, times the trials that run at once."""
    spec = root["spec"]
    trials = spec["trialConcurrency"].whole(1, low=1)
    config = spec["trainingConfig"]
    if config["type"].present:
        config["type"].choice(("tensorflow", "pytorch", "xgboost"), "pytorch")
    found = []
    for task in config["tasks"].some("is missing: an experiment needs at least one task with a template"):
        one = read_template(task["template"], task["type"].text(), task["replicas"].whole(1))
        found.append(replace(one, replicas=one.replicas * trials, min_replicas=one.min_replicas * trials))
    return found
