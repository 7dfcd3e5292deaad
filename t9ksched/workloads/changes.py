"""What follows when the spec of a workload that exists is edited, field by field: the table for users.

`CHANGES` names every field of every kind that our controllers run, and of WorkflowRuns, deeper where parts of a field
differ. Edits that are not allowed are refused by the rules of the custom resource definitions in `deploy/crds`, with
path and sentence. A test holds table and rules alike, so a field without a row is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class When(StrEnum):
    """When a field may change."""

    ANY_TIME = "any time"
    WITHIN_BOUNDS = "any time, within `minReplicas` and `maxReplicas`"
    PAUSED = "while paused"
    UNTIL_MADE = "until its PodGroup is made"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Change:
    """A field, as keys below `spec` joined by dots, when it may change, and what follows."""

    field: str
    when: When
    effect: str


_PODS: Final = "pods that run carry ranks, sizes and host names made from it: all are made anew when the job is resumed"
_AGAIN: Final = "delete the job and submit it again"


def _paused(*fields: str) -> tuple[Change, ...]:
    return tuple(Change(field, When.PAUSED, _PODS) for field in fields)


def _never(*fields: str) -> tuple[Change, ...]:
    return tuple(Change(field, When.NEVER, _AGAIN) for field in fields)


_SCHEDULER: Final = (
    Change("scheduler.t9kScheduler", When.NEVER, "whether t9ksched places the pods: " + _AGAIN),
    Change(
        "scheduler.t9kScheduler.queue",
        When.UNTIL_MADE,
        "a job keeps its queue: `update --queue` submits one that waits again elsewhere",
    ),
    Change(
        "scheduler.t9kScheduler.priority",
        When.UNTIL_MADE,
        "a job keeps the priority that it was made with: `update --priority` changes it while the job waits",
    ),
)
_RUN_MODE: Final = (
    *_paused("runMode.debug"),
    Change("runMode.pause.enabled", When.ANY_TIME, "the pods are deleted, or made anew"),
    *_never("runMode.pause.resumeSpecs"),
)
_POLICY: Final = (Change("runPolicy", When.ANY_TIME, "counts for what happens from then on"),)
_JOB: Final = (*_SCHEDULER, *_RUN_MODE)
_BOARD: Final = (
    Change("tensorboardSpec", When.ANY_TIME, "the job's TensorBoard follows, and goes when it is removed"),
)
_ELASTIC: Final = (
    *_never("elastic.enabled", "elastic.minReplicas", "elastic.maxReplicas"),
    Change(
        "elastic.expectedReplicas",
        When.WITHIN_BOUNDS,
        "pods are added, or deleted, the highest index first; those that stay run on",
    ),
)
_ANEW: Final = "the pod is made anew"
_STARTED: Final = "the machine is stopped, and started anew"
_SUSPEND: Final = Change("suspend", When.ANY_TIME, "the pod is deleted, or made anew")

CHANGES: Final[Mapping[str, tuple[Change, ...]]] = {
    "GenericJob": (
        *_JOB,
        *_paused("replicaSpecs", "service"),
        *(
            Change(field, When.ANY_TIME, "counts for what happens from then on")
            for field in ("successRules", "failureRules", "cleanUpPolicy")
        ),
    ),
    "PyTorchTrainingJob": (*_JOB, *_POLICY, *_paused("replicaSpecs", "torchrunConfig"), *_ELASTIC, *_BOARD),
    "TensorFlowTrainingJob": (*_JOB, *_POLICY, *_paused("replicaSpecs"), *_BOARD),
    "XGBoostTrainingJob": (*_JOB, *_POLICY, *_paused("replicaSpecs")),
    "DeepSpeedJob": (*_JOB, *_POLICY, *_paused("worker", "config", "disableCustomEnv"), *_ELASTIC),
    "ColossalAIJob": (
        *_JOB,
        *_POLICY,
        *_paused("replicaSpecs", "torchConfig", "ssh", "worker", "launcher"),
    ),
    "MPIJob": (
        *_JOB,
        *_POLICY,
        *_paused("replicaSpecs", "mpiConfig", "ssh", "worker", "launcher", "mpiHome", "mca"),
    ),
    "AutoTuneExperiment": (
        *(
            Change(field, When.ANY_TIME, "counts for what happens from then on")
            for field in ("maxTrialNum", "trialConcurrency", "maxExecSeconds")
        ),
        Change("runMode", When.ANY_TIME, "the pods of trials are deleted, or made anew"),
        *(
            Change(
                field,
                When.NEVER,
                "trials before would not be like those after: delete the experiment and submit it again",
            )
            for field in ("searchSpace", "tuner", "assessor", "trainingConfig")
        ),
        *(Change(field, When.ANY_TIME, "no effect") for field in ("advisor", "storage", "aistore")),
    ),
    "BeamJob": (*_JOB, *_POLICY, *_paused("flinkClusterTemplate", "jobTemplate")),
    "WorkflowRun": (
        Change(
            "scheduler.t9kScheduler", When.NEVER, "whether t9ksched places the pods: delete the run and submit it again"
        ),
        *(
            Change(f"scheduler.t9kScheduler.{field}", When.NEVER, "delete the run and submit it again")
            for field in ("queue", "priority")
        ),
        *(
            Change(field, When.ANY_TIME, "as the controller that runs the steps takes it; none for t9ksched")
            for field in (
                "workflowTemplateRef",
                "workflowTemplateSpec",
                "params",
                "workspaces",
                "serviceAccountName",
                "timeout",
                "depth",
            )
        ),
    ),
    "Notebook": (
        Change("template", When.ANY_TIME, _ANEW),
        Change("scheduler", When.ANY_TIME, _ANEW + ", in the new queue"),
        Change("ssh", When.ANY_TIME, _ANEW + ", with the new keys; the Service follows"),
        _SUSPEND,
        Change("runMode", When.ANY_TIME, "the older way to suspend"),
        Change("type", When.ANY_TIME, "no effect"),
    ),
    "TensorBoard": (
        *(Change(field, When.ANY_TIME, _ANEW) for field in ("image", "logDir", "trainingLogFilesets", "resources")),
        Change("scheduler", When.ANY_TIME, _ANEW + ", in the new queue"),
        _SUSPEND,
    ),
    "Explorer": (
        *(Change(field, When.ANY_TIME, _ANEW) for field in ("storageName", "image", "codeServerImage", "resources")),
        Change("storageType", When.ANY_TIME, "`pvc` is the only one"),
        Change("scheduler", When.ANY_TIME, _ANEW + ", in the new queue"),
        _SUSPEND,
    ),
    "VirtualServer": (
        Change("scheduler.t9kScheduler", When.NEVER, "whether t9ksched places the pods: delete it and submit it again"),
        Change("scheduler.t9kScheduler.queue", When.ANY_TIME, _STARTED + ", in the new queue"),
        Change("scheduler.t9kScheduler.priority", When.ANY_TIME, "counts once it is suspended and resumed"),
        *(
            Change(field, When.ANY_TIME, _STARTED)
            for field in ("resources", "firmware", "useVirtioTransitional", "cloudInit")
        ),
        Change("storage", When.ANY_TIME, _STARTED + "; a root disk that is there stays as it is"),
        Change("network", When.ANY_TIME, "the Service follows; of anything but ports " + _STARTED),
        Change("runStrategy", When.ANY_TIME, "the machine is started or stopped as it says"),
        Change("suspend", When.ANY_TIME, "the machine is stopped, or started"),
    ),
    "MLService": (
        Change("scheduler.t9kScheduler", When.NEVER, "whether t9ksched places the pods: delete it and submit it again"),
        Change("scheduler.t9kScheduler.queue", When.ANY_TIME, "all pods end, and are made anew in the new queue"),
        Change("scheduler.t9kScheduler.priority", When.ANY_TIME, "counts once it is paused and resumed"),
        Change("releases", When.ANY_TIME, "pods of releases that changed are replaced; those of one that is gone end"),
        Change("transformer", When.ANY_TIME, "its pods are replaced"),
        Change("default", When.ANY_TIME, "another release answers"),
        *(
            Change(field, When.ANY_TIME, "Knative divides requests anew; no effect without it")
            for field in ("canary", "canaryTrafficPercent")
        ),
        Change("runMode", When.ANY_TIME, "all pods are deleted, or made anew"),
    ),
    "SimpleMLService": (
        Change("scheduler.t9kScheduler", When.NEVER, "whether t9ksched places the pods: delete it and submit it again"),
        Change("scheduler.t9kScheduler.queue", When.ANY_TIME, "all pods end, and are made anew in the new queue"),
        Change("scheduler.t9kScheduler.priority", When.ANY_TIME, "counts once it is scaled to 0 and up again"),
        Change("replicas", When.ANY_TIME, "pods are added, or deleted; 0 deletes all"),
        *(
            Change(field, When.ANY_TIME, "pods are replaced as `strategy` says")
            for field in ("tensorflow", "pytorch", "custom", "storage")
        ),
        Change("strategy", When.ANY_TIME, "counts for what is replaced from then on"),
        Change("service", When.ANY_TIME, "the Service follows"),
    ),
}
"""By kind, every field of its spec."""
