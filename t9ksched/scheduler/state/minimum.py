"""The minimum of a group that must run together."""

from typing import NamedTuple

from t9ksched.store.acceptances import Acceptance


class Minimum(NamedTuple):
    """Members that must run together: in all, and as `(role, members)`."""

    members: int
    roles: tuple[tuple[str, int], ...]

    @classmethod
    def on_record(cls, acceptance: Acceptance | None) -> "Minimum | None":
        """The minimum with which a group began to run; None if none is recorded, or if it has lost its place since."""
        if acceptance is None or not acceptance.began_with:
            return None
        return cls(acceptance.began_with, tuple(acceptance.began_roles.items()))
