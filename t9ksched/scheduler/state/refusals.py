"""What the scheduler makes of verdicts: reasons with the code, the message and the remedy that REST would answer with.

New work is `refused`. `waiting` is for what is not refused: jobs beyond a limit, pods that may not join a group.
`CODES` has the codes of verdicts that waiting reasons call by another name.
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
    """Why new work is not accepted. What this version cannot place waits, because a later one may place it."""
    return _reason(Code(verdict.code), verdict, refused=verdict.code != UNSUPPORTED_CLAIM)


def waiting(verdict: Verdict) -> Reason:
    """Why something waits that was not refused."""
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
