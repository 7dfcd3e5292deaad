"""How people name an object on the command line: `KIND/NAME`, with the short names that kubectl takes too.

What is not in the table of kinds is passed on as it was written.
"""

from dataclasses import dataclass

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.workloads.registry import SHORT_NAMES


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
    known = SHORT_NAMES.get(key) or SHORT_NAMES.get(key.removesuffix("s")) or kind
    return Target(namespace, known, name)
