"""XGBoostTrainingJob: a master, which runs the tracker and leads, and workers, which meet at its address.

Every replica has MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE; the master has rank 0, the workers follow.
"""

from collections.abc import Mapping
from typing import Final

from t9ksched.workloads.controller import job_controller
from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import ReplicaType
from t9ksched.workloads.parts import Owner, host
from t9ksched.workloads.shape import Template
from t9ksched.workloads.training import Framework, TrainingSpec, read_spec, training_job


def _env(framework: Framework, owner: Owner, spec: TrainingSpec, kind: ReplicaType, index: int) -> Mapping[str, str]:
    master, place = spec.types[0], spec.types.index(kind)
    return {
        "MASTER_ADDR": host(owner, master, 0),
        "MASTER_PORT": str(framework.port_of(master)),
        "RANK": str(sum(each.replicas for each in spec.types[:place]) + index),
        "WORLD_SIZE": str(sum(each.replicas for each in spec.types)),
    }


FRAMEWORK: Final = Framework(
    roles=("master", "worker"),
    leads=("master",),
    container="xgboost",
    port=9991,
    port_name="xgboost-port",
    env=_env,
)


def read(root: Field) -> list[Template]:
    """The pod templates, for admission and lists."""
    return [kind.template for kind in read_spec(root, FRAMEWORK).types]


CONTROLLER: Final = job_controller(
    lambda obj, owner, _: training_job(obj, read_spec(Field(obj), FRAMEWORK), owner, FRAMEWORK)
)
