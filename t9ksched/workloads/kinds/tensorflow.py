"""TensorFlowTrainingJob: replicas that find each other by TF_CONFIG; the chief leads, else the first worker.

TF_CONFIG has the addresses of all replicas by type, and which of them this one is. An evaluator is told of the others,
and they are not told of it: it takes no part in the training.
"""

import json
from collections.abc import Mapping
from typing import Final

from t9ksched.workloads.controller import job_controller
from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import ReplicaType
from t9ksched.workloads.parts import Owner, host
from t9ksched.workloads.shape import Template
from t9ksched.workloads.training import Framework, TrainingSpec, read_spec, training_job

EVALUATOR: Final = "evaluator"


def _env(framework: Framework, owner: Owner, spec: TrainingSpec, kind: ReplicaType, index: int) -> Mapping[str, str]:
    cluster = {
        each.role: [f"{host(owner, each, number)}:{framework.port_of(each)}" for number in range(each.replicas)]
        for each in spec.types
        if each.replicas and each.role != EVALUATOR
    }
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind.role, "index": index}})}


FRAMEWORK: Final = Framework(
    roles=("chief", "worker", "ps", EVALUATOR),
    leads=("chief", "worker"),
    container="tensorflow",
    port=2222,
    port_name="tensorflow-port",
    env=_env,
    boards=True,
)


def read(root: Field) -> list[Template]:
    """The pod templates, for admission and lists."""
    return [kind.template for kind in read_spec(root, FRAMEWORK).types]


CONTROLLER: Final = job_controller(
    lambda obj, owner, _: training_job(obj, read_spec(Field(obj), FRAMEWORK), owner, FRAMEWORK)
)
