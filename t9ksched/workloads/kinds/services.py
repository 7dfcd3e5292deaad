"""Platform services (read only): VirtualServer and the like.

Pods that a kind's controller makes up are counted by the resources the user gave, as far as the object shows any.
"""

from t9ksched.workloads.fields import Field
from t9ksched.workloads.podspec import generated_template
from t9ksched.workloads.shape import Template


def read_generated(root: Field) -> list[Template]:
    """VirtualServer: one pod with `spec.resources`, if any are given."""
    spec = root["spec"]
    return [generated_template(spec, root["kind"].text().lower(), spec["resources"])]


def read_nothing(root: Field) -> list[Template]:
    """Project: the object has no pods."""
    return []
