"""How people name an object on the command line: `KIND/NAME`, with the short names that kubectl takes too.

The service knows many more kinds than have a short name; whatever is not listed here is passed on as it was written.
"""

from dataclasses import dataclass
from typing import Final

from t9ksched.cli.failure import BAD_USAGE, Failure

_SHORT: Final[dict[str, str]] = {
    "pj": "PyTorchTrainingJob",
    "ptj": "PyTorchTrainingJob",
    "pytorch": "PyTorchTrainingJob",
    "pytorchtrainingjob": "PyTorchTrainingJob",
    "mj": "MPIJob",
    "mpi": "MPIJob",
    "mpijob": "MPIJob",
    "nb": "Notebook",
    "notebook": "Notebook",
    "po": "Pod",
    "pod": "Pod",
    "job": "Job",
    "pg": "PodGroup",
    "podgroup": "PodGroup",
    "tj": "TensorFlowTrainingJob",
    "tftj": "TensorFlowTrainingJob",
    "tensorflowtrainingjob": "TensorFlowTrainingJob",
    "xj": "XGBoostTrainingJob",
    "xgbj": "XGBoostTrainingJob",
    "xgboosttrainingjob": "XGBoostTrainingJob",
    "dj": "DeepSpeedJob",
    "dsj": "DeepSpeedJob",
    "deepspeedjob": "DeepSpeedJob",
    "caij": "ColossalAIJob",
    "colossalaijob": "ColossalAIJob",
    "bj": "BeamJob",
    "beamjob": "BeamJob",
    "at": "AutoTuneExperiment",
    "autotuneexperiment": "AutoTuneExperiment",
    "explorer": "Explorer",
    "vs": "VirtualServer",
    "virtualserver": "VirtualServer",
    "wr": "WorkflowRun",
    "workflowrun": "WorkflowRun",
    "tb": "TensorBoard",
    "tensorboard": "TensorBoard",
    "mls": "MLService",
    "mlservice": "MLService",
    "smls": "SimpleMLService",
    "simplemlservice": "SimpleMLService",
    "gj": "GenericJob",
    "genericjob": "GenericJob",
    "deploy": "Deployment",
    "deployment": "Deployment",
    "rs": "ReplicaSet",
    "replicaset": "ReplicaSet",
    "sts": "StatefulSet",
    "statefulset": "StatefulSet",
}


@dataclass(frozen=True)
class Target:
    """One object as the service names it."""

    namespace: str
    kind: str
    name: str

    @property
    def path(self) -> str:
        """The object's address below `/apis/v1/workloads`."""
        return f"/apis/v1/workloads/{self.namespace}/{self.kind}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def parse_target(text: str, namespace: str) -> Target:
    """Read `KIND/NAME`, any case, singular or plural. Raises Failure (bad usage) for anything else."""
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise Failure(
            f"'{text}' does not name an object.",
            remedy="Write KIND/NAME, such as pj/resnet, mpijob/walk or notebook/lab.",
            code=BAD_USAGE,
        )
    key = kind.lower()
    known = _SHORT.get(key) or _SHORT.get(key.removesuffix("s")) or kind
    return Target(namespace, known, name)
