"""What the last gate answers: of new work what REST would answer, of accepted work why no more of it starts."""

from collections.abc import Mapping

from t9ksched.admission.access import SUBMITTER_UNKNOWN, Access
from t9ksched.admission.verdict import OVER_QUOTA, Verdict
from t9ksched.model.queue import Queue
from t9ksched.model.reasons import Code, Reason


def withdrawn(access: Access) -> Reason | None:
    """Why an owner that was accepted gets no more pods."""
    if access.allowed:
        return None
    message = f"what runs goes on, but nothing more of it is started: {access.message}"
    return Reason(Code.NOT_PERMITTED, message, unblocks=(access.remedy,) if access.remedy else ())


def unknown(access: Access) -> Reason | None:
    """The refusal that the submitter is unknown, if that is why it may not go on."""
    if access.code != SUBMITTER_UNKNOWN:
        return None
    return Reason(Code.SUBMITTER_UNKNOWN, access.message, unblocks=(access.remedy,) if access.remedy else ())


def turned_away(access: Access) -> Reason | None:
    """Why new work may not come in at all."""
    if access.allowed:
        return None
    return Reason(Code(access.code), access.message, unblocks=(access.remedy,) if access.remedy else (), refused=True)


def refused(
    verdict: Verdict, queue: Queue, total: Mapping[str, int], fresh: Mapping[str, int], used: Mapping[str, int]
) -> Reason:
    needs: dict[str, int] = {}
    has: dict[str, int] = {}
    if verdict.code == OVER_QUOTA:
        quota = queue.spec.quota
        whole = {name for name, limit in quota.items() if total.get(name, 0) > limit}
        left = quota if whole else {name: max(0, limit - used.get(name, 0)) for name, limit in quota.items()}
        asked = total if whole else fresh
        needs = {name: asked[name] for name, limit in left.items() if asked.get(name, 0) > limit}
        has = {name: left[name] for name in needs}
    unblocks = (verdict.remedy,) if verdict.remedy else ()
    return Reason(Code(verdict.code), verdict.message, needs, has, unblocks=unblocks, refused=True)
