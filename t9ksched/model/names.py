"""The fixed names that users, manifests and other programs rely on.

They are part of the public interface: rows may be added, none renamed.
"""

from typing import Final

SCHEDULER_NAME: Final = "t9k-scheduler"
SYSTEM_NAMESPACE: Final = "t9k-system"
DEFAULT_QUEUE: Final = "default"

SCHEDULER_GROUP: Final = "scheduler.tensorstack.dev"
SCHEDULER_API: Final = f"{SCHEDULER_GROUP}/v1beta1"
BATCH_GROUP: Final = "batch.tensorstack.dev"
BATCH_API: Final = f"{BATCH_GROUP}/v1beta1"
PLATFORM_GROUP: Final = "tensorstack.dev"
PLATFORM_API: Final = f"{PLATFORM_GROUP}/v1beta1"

QUEUE_LABEL: Final = f"{SCHEDULER_GROUP}/queue"
GROUP_LABEL: Final = f"{SCHEDULER_GROUP}/group-name"
ROLE_LABEL: Final = f"{SCHEDULER_GROUP}/role"

GPU_INDEX_PREFIX: Final = f"{SCHEDULER_GROUP}/gpu-index-container-"
"""Annotation of a bound pod, one a container with cards: the indices, `"0,3"`. The binding writes it; on a pod that
another scheduler placed, its node may, to say which cards it gave."""
GPU_MODEL_ANNOTATION: Final = f"{SCHEDULER_GROUP}/gpu-model"
"""Annotation of a pod: the models of cards that will do, `"A100,H100"`."""
GPU_MODEL_PREFIX: Final = f"{SCHEDULER_GROUP}/gpu-model-container-"
"""The same for one container, whose name follows."""
GPU_MEMORY_ANNOTATION: Final = f"{SCHEDULER_GROUP}/gpu-memory"
GPU_CORES_ANNOTATION: Final = f"{SCHEDULER_GROUP}/gpu-cores"
"""Annotations of a pod: memory and percent of cores that it asks of each card; `-container-NAME`: of one container."""
GPU_MODE_ANNOTATION: Final = f"{SCHEDULER_GROUP}/gpu-mode"
"""Annotation of a pod: whether it takes whole cards, MIG slices, shared cards or any of them."""
MGPU_POLICY: Final = "vke.volcengine.com/mgpu-compute-policy"
"""Annotation of a pod and label of a node: how parts of one card share its cores. Both must agree."""
MGPU_INDEX_PREFIX: Final = "vke.volcengine.com/gpu-index-container-"
MGPU_ASSUMED: Final = "vke.volcengine.com/assumed"
"""The same in the words of Volcengine mGPU."""
SIGNAL_BEFORE_ANNOTATION: Final = f"{SCHEDULER_GROUP}/signal-before"
"""How long before its time limit a job is told to stop, so that its pods get SIGTERM in time."""
START_AFTER_ANNOTATION: Final = f"{SCHEDULER_GROUP}/start-after"
"""The moment before which a job does not start, as RFC 3339."""
AFTER_ANNOTATION: Final = f"{SCHEDULER_GROUP}/after"
"""The jobs that a job waits for, `"Job/prep, MPIJob/walk:any"`: `:ok` until they succeed, `:any` until they end."""
AFTER_CANCEL_ANNOTATION: Final = f"{SCHEDULER_GROUP}/after-cancel"
"""`"true"`: a job that waits for what can never come is ended."""
TIME_LIMIT_ANNOTATION: Final = f"{SCHEDULER_GROUP}/time-limit"
RESERVATION_ANNOTATION: Final = f"{SCHEDULER_GROUP}/reservation"
"""The reservation by administrators that a job is to run in; it uses no other room."""
TOPOLOGY_KEY_ANNOTATION: Final = f"{SCHEDULER_GROUP}/topology-key"
SUBMITTED_BY_ANNOTATION: Final = f"{SCHEDULER_GROUP}/submitted-by"
"""Shown to people, never trusted."""
SUBMISSION_ANNOTATION: Final = f"{SCHEDULER_GROUP}/submission"
"""The request that created the object; used only to find the result of a request whose response was lost."""

CARD_MODE_ANNOTATION: Final = f"{SCHEDULER_GROUP}/card-mode"
"""Annotation of a node: does it give a container the cards that our annotation names?"""
HONOURS_INDEX: Final = "honours-index"
PLUGIN_CHOOSES: Final = "plugin-chooses"
CORDONED_CARDS_ANNOTATION: Final = f"{SCHEDULER_GROUP}/cordoned-cards"
"""Annotation of a node: card indices that take no new work, `"1,5"`. The scheduler writes into it what is on record,
and takes over what administrators write into it."""
RECORDED_CORDONS_ANNOTATION: Final = f"{SCHEDULER_GROUP}/cordoned-cards-recorded"
"""Annotation of a node: what the scheduler last wrote there, and by which revision of the record, `"12:1,5"`."""
GPU_LINKS_ANNOTATION: Final = f"{SCHEDULER_GROUP}/gpu-links"
"""Annotation of a node: how well its cards are linked, a JSON matrix of weights or of names such as `NV12`."""

MAX_CARD_CONTAINER_NAME: Final = 43
"""A key's name part has 63 characters, of which `gpu-index-container-` takes 20."""

# Reasons of the events that people read with `kubectl describe`.
EVENT_SCHEDULED: Final = "Scheduled"
EVENT_WAITING: Final = "Waiting"
EVENT_PREEMPTED: Final = "Preempted"
EVENT_GANG_TAKEN_BACK: Final = "GangTakenBack"
EVENT_QUEUE_EDITED_OUTSIDE: Final = "QueueEditedOutside"
EVENT_MAX_DURATION_EXCEEDED: Final = "MaxDurationExceeded"
EVENT_TIME_LIMIT_NEAR: Final = "TimeLimitNear"
EVENT_TIME_LIMIT_EXCEEDED: Final = "TimeLimitExceeded"
EVENT_TIME_LIMIT_IGNORED: Final = "TimeLimitIgnored"
EVENT_START_AFTER_IGNORED: Final = "StartAfterIgnored"
"""The annotation cannot be read, or was edited after the job was accepted."""
EVENT_DEPENDENCY_NOT_MET: Final = "DependencyNotMet"
EVENT_START_TIMED_OUT: Final = "StartTimedOut"
EVENT_PLAN_MOVED: Final = "PlanMoved"
EVENT_RESERVATION_RELEASED: Final = "ReservationReleased"
EVENT_RESERVATION_MISSED: Final = "ReservationMissed"
EVENT_REFUSED: Final = "Refused"
EVENT_BYPASSED: Final = "SchedulerBypassed"
EVENT_CARD_DRIFT: Final = "CardDrift"
EVENT_LINKS_IGNORED: Final = "LinksIgnored"
"""What a node's annotation says of the links between its cards cannot be read."""
EVENT_CARDS_IGNORED: Final = "CardsIgnored"
"""What a node says of its cards, or of single ones, cannot be read or followed."""
EVENT_EDIT_IGNORED: Final = "EditIgnored"


def is_system_namespace(namespace: str) -> bool:
    """Whether a namespace is the scheduler's own or one of Kubernetes itself, in which users have no business."""
    return namespace == SYSTEM_NAMESPACE or namespace.startswith("kube-")
