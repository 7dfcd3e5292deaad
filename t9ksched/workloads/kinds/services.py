"""Kinds of the platform that are read for information."""

from t9ksched.workloads.fields import Field
from t9ksched.workloads.shape import Template


def read_nothing(root: Field) -> list[Template]:
    """Project: the object has no pods."""
    return []
