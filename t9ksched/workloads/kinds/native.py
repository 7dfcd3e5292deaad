"""Kubernetes' own kinds (read only): Pod, Job, Deployment, StatefulSet; and the PodGroup.

They name their queue by labels on the pod, so that no controller needs to know of queues.
"""

from t9ksched.model.errors import Invalid
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.workloads.fields import Field
from t9ksched.workloads.podspec import read_pod_spec, read_template
from t9ksched.workloads.shape import Template


def read_pod(root: Field) -> list[Template]:
    """A Pod is its own template."""
    return [read_pod_spec(root["spec"], root["metadata"])]


def read_batch_job(root: Field) -> list[Template]:
    """batch/v1 Job: `parallelism` pods at once, fewer if fewer completions are wanted, none while suspended."""
    spec = root["spec"]
    count = spec["parallelism"].whole(1)
    if spec["completions"].present:
        count = min(count, spec["completions"].whole(count))
    if spec["suspend"].flag():
        count = 0
    return [read_template(spec["template"], "", count)]


def read_replicated(root: Field) -> list[Template]:
    """Deployment and StatefulSet."""
    spec = root["spec"]
    return [read_template(spec["template"], "", spec["replicas"].whole(1))]


def read_pod_group(root: Field) -> list[Template]:
    """A PodGroup made by hand: its members are Pods of their own."""
    try:
        PodGroupSpec.parse(root["spec"].value)
    except Invalid as error:
        root.faults.extend(error.errors)
    return []
