"""The table of kinds that can name a queue: for each its API, its reader, and where it says who schedules it.

Kinds with a scheduler block carry `{t9kScheduler: {queue, priority}}` at `block`; Kubernetes' own kinds carry labels
and `schedulerName` on the pod template at `pod`; a PodGroup has queue and priority in its spec.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from t9ksched.model.names import BATCH_API, PLATFORM_API, SCHEDULER_API
from t9ksched.workloads.fields import Field
from t9ksched.workloads.kinds import mpi, notebook, pytorch
from t9ksched.workloads.kinds.autotune import read_autotune_experiment
from t9ksched.workloads.kinds.beam import read_beam_job
from t9ksched.workloads.kinds.colossalai import read_colossalai_job
from t9ksched.workloads.kinds.deepspeed import read_deepspeed_job
from t9ksched.workloads.kinds.native import read_batch_job, read_pod, read_pod_group, read_replicated
from t9ksched.workloads.kinds.replicajobs import read_generic_job, read_tensorflow_job, read_xgboost_job
from t9ksched.workloads.kinds.services import read_generated, read_ml_service, read_nothing, read_simple_ml_service
from t9ksched.workloads.shape import Template

Reader = Callable[[Field], list[Template]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of workload.

    Attributes:
        name, api_version: as objects of this kind carry them.
        read: its pod templates; faults go into the Field.
        block: keys that lead to the scheduler block, empty if the kind has none.
        pod: keys that lead to the pod template that carries labels instead; empty for the Pod itself.
        controlled: whether our controllers turn it into pods.
    """

    name: str
    api_version: str
    read: Reader
    block: tuple[str, ...] = ("spec", "scheduler")
    pod: tuple[str, ...] | None = None
    controlled: bool = False


_TEMPLATE: Final = ("spec", "template")

_TABLE: Final = (
    Kind("GenericJob", BATCH_API, read_generic_job),
    Kind("PyTorchTrainingJob", BATCH_API, pytorch.read, controlled=True),
    Kind("TensorFlowTrainingJob", BATCH_API, read_tensorflow_job),
    Kind("XGBoostTrainingJob", BATCH_API, read_xgboost_job),
    Kind("DeepSpeedJob", BATCH_API, read_deepspeed_job),
    Kind("ColossalAIJob", BATCH_API, read_colossalai_job),
    Kind("MPIJob", BATCH_API, mpi.read, controlled=True),
    Kind("BeamJob", BATCH_API, read_beam_job),
    Kind("WorkflowRun", BATCH_API, read_nothing),
    Kind("AutoTuneExperiment", PLATFORM_API, read_autotune_experiment, ("spec", "trainingConfig", "scheduler")),
    Kind("Notebook", PLATFORM_API, notebook.read, controlled=True),
    Kind("SimpleMLService", PLATFORM_API, read_simple_ml_service),
    Kind("MLService", PLATFORM_API, read_ml_service),
    Kind("TensorBoard", PLATFORM_API, read_generated),
    Kind("Explorer", PLATFORM_API, read_generated),
    Kind("VirtualServer", PLATFORM_API, read_generated),
    Kind("Project", PLATFORM_API, read_nothing, ("spec", "defaultScheduler")),
    Kind("PodGroup", SCHEDULER_API, read_pod_group, ()),
    Kind("Pod", "v1", read_pod, (), ()),
    Kind("Job", "batch/v1", read_batch_job, (), _TEMPLATE),
    Kind("Deployment", "apps/v1", read_replicated, (), _TEMPLATE),
    Kind("StatefulSet", "apps/v1", read_replicated, (), _TEMPLATE),
)

KINDS: Final = {kind.name: kind for kind in _TABLE}
ALIASES: Final = {"DeepspeedJob": "DeepSpeedJob"}
"""Spellings found in older samples (OQ-21)."""
CONTROLLED: Final = tuple(kind.name for kind in _TABLE if kind.controlled)


def kind_named(name: str) -> Kind | None:
    """The kind of that name, older spellings included; None if there is none."""
    return KINDS.get(ALIASES.get(name, name))
