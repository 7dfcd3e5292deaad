"""Jobs that are a list of replica types: GenericJob, TensorFlowTrainingJob, XGBoostTrainingJob (read only)."""

from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import check_pod_names, pod_suffixes, read_replica_types, read_run_mode, read_run_policy
from t9ksched.workloads.shape import Template


def read_generic_job(root: Field) -> list[Template]:
    """GenericJob: restart policies are objects, clean-up is a field of the spec itself."""
    spec = root["spec"]
    spec["cleanUpPolicy"].choice(("None", "Unfinished", "All"), "None")
    read_run_mode(spec["runMode"])
    types = read_replica_types(spec["replicaSpecs"], objects=True)
    check_pod_names(root, pod_suffixes(types))
    return [kind.template for kind in types]


def read_tensorflow_job(root: Field) -> list[Template]:
    """TensorFlowTrainingJob."""
    return _read_training_job(root, ("chief", "worker", "ps", "evaluator"))


def read_xgboost_job(root: Field) -> list[Template]:
    """XGBoostTrainingJob; it must have a master."""
    templates = _read_training_job(root, ("master", "worker"))
    if templates and not any(template.role == "master" for template in templates):
        root["spec"]["replicaSpecs"].fault("has no entry of type master: XGBoost needs one")
    return templates


def _read_training_job(root: Field, allowed: tuple[str, ...]) -> list[Template]:
    spec = root["spec"]
    read_run_policy(spec["runPolicy"])
    read_run_mode(spec["runMode"])
    types = read_replica_types(spec["replicaSpecs"], allowed=allowed)
    check_pod_names(root, pod_suffixes(types))
    return [kind.template for kind in types]
