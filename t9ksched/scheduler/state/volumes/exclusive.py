"""Claims that one pod at a time may use (`ReadWriteOncePod`): a gang whose members share one may never run whole.

How many members can run at once is bounded from above: each pod counts with the claim that it shares with most others,
and each such claim for one pod. What is said here is proved, whoever else uses the claims.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.volumes.claims import EXCLUSIVE

if TYPE_CHECKING:
    from t9ksched.scheduler.state.minimum import Minimum
    from t9ksched.scheduler.state.records import PodRecord

_MOST_NAMED: Final = 3


@lru_cache(maxsize=4096)
def in_use(claim: str) -> Reason:
    """Another pod comes first. It is not named: it may belong to another user."""
    text = f"the volume claim {claim!r} is {EXCLUSIVE} and in use by another pod"
    return Reason(Code.VOLUME_NOT_BOUND, text, unblocks=("the pod that uses it ends",))


def never_together(living: Iterable["PodRecord"], least: "Minimum") -> Reason | None:
    """Why the minimum cannot run at once, of a gang that has as many members; None where that is not proved."""
    pods = list(living)
    shared = Counter(name for pod in pods if not pod.finished for name in pod.exclusive)
    if not shared or max(shared.values()) < 2:
        return None
    asked = [("members", "members", least.members, pods)]
    named = {role for role, _ in least.roles}
    for role, count in least.roles:
        asked.append((f"role:{role}", f"members of role {role!r}", count, [pod for pod in pods if pod.role == role]))
    in_roles = sum(count for _, count in least.roles)
    asked.append(("members", "members in its roles", in_roles, [pod for pod in pods if pod.role in named]))
    for key, what, needs, those in asked:
        claims = _claims(those, shared)
        most = len(those) - claims.total() + len(claims)
        if most < needs <= len(those):
            return _reason(key, what, needs, most, claims)
    return None


def _claims(pods: Sequence["PodRecord"], shared: Counter[str]) -> Counter[str]:
    """How many of the pods count with each claim."""
    using = (pod.exclusive for pod in pods if pod.exclusive and not pod.finished)
    return Counter(min(names, key=lambda name: (-shared[name], name)) for names in using)


def _reason(key: str, what: str, needs: int, most: int, claims: Counter[str]) -> Reason:
    several = sorted(name for name, count in claims.items() if count > 1)
    sharing = sum(claims[name] for name in several)
    names = ", ".join(map(repr, several[:_MOST_NAMED])) + (", …" if len(several) > _MOST_NAMED else "")
    return Reason(
        Code.NEVER_FITS,
        f"needs {needs} {what} at once, and at most {most} can run at once: {sharing} of them share volume claims"
        f" that are {EXCLUSIVE}, for one pod at a time: {names}",
        {key: needs},
        {key: most},
        unblocks=(
            "give each of these pods a volume claim of its own, or share one with another access mode",
            f"ask for at most {most} of them at once",
        ),
    )
