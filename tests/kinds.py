"""The resources of kinds that tests speak of by name."""

from t9ksched.workloads.registry import KINDS

MPIJOBS = KINDS["MPIJob"].resource
AUTOTUNE = KINDS["AutoTuneExperiment"].resource
NOTEBOOKS = KINDS["Notebook"].resource
PYTORCHTRAININGJOBS = KINDS["PyTorchTrainingJob"].resource
