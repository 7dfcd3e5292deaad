"""All rules in their order. The first refusal is the verdict; faulty fields of all rules are reported together.

The rules stand in phases, because a door gathers facts for one after the other: REST asks `FORM` before it looks up
anything, `LIMITS` before it asks the cluster, `ENTRY` before it looks at quotas. Without phases `judge` asks `ENTRY`
and `CONTENT`, which is the whole judgement of one gang.
"""

from collections.abc import Callable
from typing import Final

from t9ksched.admission import entry, forms, rules
from t9ksched.admission.request import Request
from t9ksched.admission.verdict import ALLOWED, FIELD_CODES, INVALID_FIELD, Verdict, invalid

Rule = Callable[[Request], Verdict]
Phase = tuple[Rule, ...]

FORM: Final[Phase] = (forms.namespace_for_users, forms.node_left_open, forms.shared_cards_one_each)
"""About an object that users submit by REST, which creates it by its own rights."""
LIMITS: Final[Phase] = (entry.jobs_could_wait, entry.jobs_may_wait)
"""How many jobs may wait. Each door counts them and asks these by themselves, because counting is work."""
ENTRY: Final[Phase] = (entry.group_joinable, entry.queue_permitted, entry.priority_permitted)
"""The rules about the submitter."""
CONTENT: Final[Phase] = (
    rules.time_limit_allowed,
    rules.signal_readable,
    rules.start_time_readable,
    rules.dependencies_readable,
    rules.array_readable,
    forms.claims_supported,
    forms.card_shares_supported,
    forms.card_parts_meaningful,
    forms.card_names_fit,
    forms.cards_chosen_well,
    rules.queue_exists,
    rules.queue_open,
    rules.requests_declared,
    rules.within_quota,
)
"""What may enter the queue."""
PHASES: Final = (FORM, LIMITS, ENTRY, CONTENT)


def judge(request: Request, *phases: Phase) -> Verdict:
    """The verdict of all rules of these phases on one gang, of `ENTRY` and `CONTENT` if none is named."""
    for phase in phases or (ENTRY, CONTENT):
        verdict = _ask(phase, request)
        if not verdict.allowed:
            return verdict
    return ALLOWED


def _ask(phase: Phase, request: Request) -> Verdict:
    refusals = [verdict for verdict in (rule(request) for rule in phase) if not verdict.allowed]
    faulty = [verdict for verdict in refusals if verdict.code in FIELD_CODES]
    if not faulty:
        return refusals[0] if refusals else ALLOWED
    remedy = next((verdict.remedy for verdict in faulty if verdict.remedy), "")
    codes = {verdict.code for verdict in faulty}
    code = codes.pop() if len(codes) == 1 else INVALID_FIELD
    return invalid([fault for verdict in faulty for fault in verdict.errors], remedy, code)
