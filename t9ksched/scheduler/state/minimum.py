"""The minimum of a group that must run together."""

from collections import Counter
from collections.abc import Iterable
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

    def since(self, times: Iterable[tuple[int, str]]) -> int:
        """Since when the minimum runs, by when each member began, in nanoseconds since the epoch (0 where that is not
        known), and its role; 0 where fewer say so.
        """
        known = sorted(entry for entry in times if entry[0])
        for count, (since, _) in enumerate(known, start=1):
            roles = Counter(role for _, role in known[:count])
            if count >= self.members and all(roles[role] >= least for role, least in self.roles):
                return since
        return 0
