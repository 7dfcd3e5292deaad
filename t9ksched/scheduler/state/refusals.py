"""What the scheduler makes of verdicts: reasons with the code, the message and the remedy that REST would answer with.

New work is `refused`. What `waits` is judged again by itself: jobs beyond a limit, pods kept out of a group, pods of
accepted work. `CODES` has the codes that waiting reasons call by another name.
"""

from collections.abc import Mapping
from typing import Final

from t9ksched.admission.verdict import (
    FORBIDDEN,
    QUEUE_NOT_PERMITTED,
    SUBMITTER_UNKNOWN,
    UNSUPPORTED_CLAIM,
    Verdict,
)
from t9ksched.model.reasons import Code, Reason

CODES: Final[Mapping[str, Code]] = {FORBIDDEN: Code.NOT_PERMITTED, QUEUE_NOT_PERMITTED: Code.NOT_PERMITTED}


def refused(verdict: Verdict) -> Reason:
    """Why new work may not come in at all. What this version cannot place waits: a later one may."""
    return _reason(Code(verdict.code), verdict, refused=verdict.code != UNSUPPORTED_CLAIM)


def waiting(verdict: Verdict) -> Reason:
    """Why something waits that nothing was refused of yet."""
    return _reason(CODES.get(verdict.code) or Code(verdict.code), verdict)


def withdrawn(verdict: Verdict) -> Reason | None:
    """Why an owner that was accepted gets no more pods."""
    if verdict.allowed:
        return None
    message = f"what runs goes on, but nothing more of it is started: {verdict.message}"
    return Reason(Code.NOT_PERMITTED, message, unblocks=_unblocks(verdict))


def unknown(verdict: Verdict) -> Reason | None:
    """The refusal that the submitter is unknown, if that is why it may not go on."""
    return waiting(verdict) if verdict.code == SUBMITTER_UNKNOWN else None


def _reason(code: Code, verdict: Verdict, *, refused: bool = False) -> Reason:
    return Reason(code, verdict.message, verdict.needs, verdict.has, unblocks=_unblocks(verdict), refused=refused)


def _unblocks(verdict: Verdict) -> tuple[str, ...]:
    return (verdict.remedy,) if verdict.remedy else ()
