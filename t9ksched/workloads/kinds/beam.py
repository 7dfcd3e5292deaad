"""BeamJob (read only): a Flink cluster (job manager, task managers) and the job that submits to it; all are members."""

from t9ksched.workloads.fields import Field
from t9ksched.workloads.podspec import generated_template, read_template
from t9ksched.workloads.shape import Template


def read_beam_job(root: Field) -> list[Template]:
    """All three count: the submitting pod, the job manager and every task manager."""
    spec = root["spec"]
    cluster = spec.at("flinkClusterTemplate", "spec")
    manager, workers = cluster["jobManager"], cluster["taskManager"]
    spec["runPolicy"]["cleanUpCluster"].flag()
    return [
        read_template(spec.at("jobTemplate", "spec", "template"), "job"),
        generated_template(manager, "jobmanager", manager["resources"], "jobmanager"),
        generated_template(workers, "taskmanager", workers["resources"], "taskmanager", workers["replicas"].whole(1)),
    ]
