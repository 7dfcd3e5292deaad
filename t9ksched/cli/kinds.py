"""How people name an object on the command line: `KIND/NAME`, as `t9ksched.client.targets` reads it."""

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.client.targets import Target as Target
from t9ksched.client.targets import target_of


def parse_target(text: str, namespace: str) -> Target:
    """Read `KIND/NAME`, any case, singular or plural. Raises Failure (bad usage) for anything else."""
    try:
        return target_of(text, namespace)
    except ValueError:
        raise Failure(
            f"'{text}' does not name an object.",
            remedy="Write KIND/NAME, such as pj/resnet, mpijob/walk or notebook/lab.",
            code=BAD_USAGE,
        ) from None
