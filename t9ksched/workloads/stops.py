"""How a job of each kind is told to stop: the change of its spec that takes its pods away and keeps them away."""

from typing import Any, Final

from t9ksched.model.names import BATCH_GROUP, PLATFORM_GROUP

_TO_NOTHING: Final = {"spec": {"replicas": 0}}
_PAUSED: Final = {"spec": {"runMode": {"pause": {"enabled": True}}}}
STOPS: Final[dict[tuple[str, str], Any]] = {
    ("apps", "Deployment"): _TO_NOTHING,
    ("apps", "StatefulSet"): _TO_NOTHING,
    ("apps", "ReplicaSet"): _TO_NOTHING,
    ("batch", "Job"): {"spec": {"suspend": True}},
    (BATCH_GROUP, "MPIJob"): _PAUSED,
    (BATCH_GROUP, "ColossalAIJob"): _PAUSED,
    (BATCH_GROUP, "DeepSpeedJob"): _PAUSED,
    (BATCH_GROUP, "GenericJob"): _PAUSED,
    (BATCH_GROUP, "PyTorchTrainingJob"): _PAUSED,
    (BATCH_GROUP, "TensorFlowTrainingJob"): _PAUSED,
    (BATCH_GROUP, "XGBoostTrainingJob"): _PAUSED,
    (PLATFORM_GROUP, "Notebook"): {"spec": {"suspend": True}},
    (PLATFORM_GROUP, "TensorBoard"): {"spec": {"suspend": True}},
    (PLATFORM_GROUP, "MLService"): {"spec": {"runMode": "paused"}},
    (PLATFORM_GROUP, "SimpleMLService"): _TO_NOTHING,
}
"""Merge patches by group and kind. A kind without one can only be deleted."""
