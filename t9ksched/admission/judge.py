"""All rules in their order. The first refusal is the verdict; faulty fields of all rules are reported together."""

from collections.abc import Callable
from typing import Final

from t9ksched.admission import rules
from t9ksched.admission.request import Request
from t9ksched.admission.verdict import ALLOWED, INVALID_FIELD, Verdict, invalid

Rule = Callable[[Request], Verdict]

RULES: Final[tuple[Rule, ...]] = (
    rules.time_limit_allowed,
    rules.signal_readable,
    rules.claims_supported,
    rules.card_names_fit,
    rules.queue_exists,
    rules.queue_open,
    rules.requests_declared,
    rules.within_quota,
)


def judge(request: Request) -> Verdict:
    """The verdict of all rules on one gang."""
    refusals = [verdict for verdict in (rule(request) for rule in RULES) if not verdict.allowed]
    faulty = [verdict for verdict in refusals if verdict.code == INVALID_FIELD]
    if faulty:
        remedy = next((verdict.remedy for verdict in faulty if verdict.remedy), "")
        return invalid([fault for verdict in faulty for fault in verdict.errors], remedy)
    return refusals[0] if refusals else ALLOWED
