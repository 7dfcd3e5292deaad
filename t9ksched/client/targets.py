"""How people name an object: `KIND/NAME`, with the short names that kubectl takes too.

What is not in the table of kinds is passed on as it was written.
"""

from dataclasses import dataclass
from typing import Any

from t9ksched.workloads.registry import spelled


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


def target_of(job: Any, namespace: str | None = None) -> Target:
    """The target that a text (`pj/resnet`, any case, singular or plural) or a `Job` names.

    Raises:
        ValueError: it names none.
    """
    if not isinstance(job, str):
        return Target(job.namespace, job.kind, job.name)
    kind, slash, name = job.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise ValueError(f"'{job}' does not name an object: write KIND/NAME, such as pj/resnet or notebook/lab")
    return Target(namespace or "default", spelled(kind) or kind, name)
