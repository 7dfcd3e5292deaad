"""Kubernetes' own kinds (read only): Pod, Job, Deployment, StatefulSet; and the PodGroup.

They name their queue by labels on the pod, so that no controller needs to know of queues.
"""

from typing import Final

from t9ksched.model.errors import Invalid
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.workloads.fields import Field
from t9ksched.workloads.podspec import read_pod_spec, read_template
from t9ksched.workloads.shape import Template

_LONGEST_LABEL: Final = 63
_REVISION: Final = "-5d4f8c7b9d"
"""What the controller of StatefulSets adds to the name in a label of the pods, at its longest."""


def read_pod(root: Field) -> list[Template]:
    """A Pod is its own template."""
    return [read_pod_spec(root["spec"], root["metadata"])]


def read_batch_job(root: Field) -> list[Template]:
    """batch/v1 Job: `parallelism` pods at once, fewer if fewer completions are wanted, none while suspended."""
    _check_label(root, "its pods have the name as a label")
    spec = root["spec"]
    count = spec["parallelism"].whole(1)
    if spec["completions"].present:
        count = min(count, spec["completions"].whole(count))
    if spec["suspend"].flag():
        count = 0
    return [read_template(spec["template"], "", count)]


def read_replicated(root: Field) -> list[Template]:
    """Deployment and StatefulSet."""
    if root["kind"].value == "StatefulSet":
        _check_label(root, f"its pods have the name with an end such as {_REVISION!r} as a label", len(_REVISION))
    spec = root["spec"]
    return [read_template(spec["template"], "", spec["replicas"].whole(1))]


def read_pod_group(root: Field) -> list[Template]:
    """A PodGroup made by hand: its members are Pods of their own."""
    _check_label(root, "its pods name it by a label")
    try:
        PodGroupSpec.parse(root["spec"].value)
    except Invalid as error:
        root.faults.extend(error.errors)
    return []


def _check_label(root: Field, why: str, added: int = 0) -> None:
    """Check that the name, and so many characters added to it, can be the value of a label."""
    place = root["metadata"]["name"]
    name, most = place.text(), _LONGEST_LABEL - added
    if len(name) > most:
        place.fault(f"has {len(name)} characters, and {why}: use at most {most}")
