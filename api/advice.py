"""Warnings about what is accepted: names that nothing in the cluster has. Without a leader there are none."""

from collections.abc import Iterable

from api.answers import Json
from api.auth import Caller
from api.leader import LeaderAway
from api.permits import rules_of
from api.services import Services
from api.submission import Item
from t9ksched.admission.oddities import Vocabulary, odd_pods, odd_queue


async def about_queue(services: Services, spec: Json) -> list[Json]:
    """What is odd about a queue's spec."""
    known = await _known(services)
    return [] if known is None else [warning.to_dict() for warning in odd_queue(spec, known)]


async def about_jobs(services: Services, caller: Caller, items: Iterable[Item]) -> list[Json]:
    """What is odd about the pods of a submission; what quotas name counts as known."""
    known = await _known(services)
    if known is None:
        return []
    named = {name for record in caller.decided.queues.values() for name in rules_of(record)[0].spec.quota}
    known = known.and_resources(sorted(named))
    return [
        warning.to_dict()
        for item in items
        for template in item.workload.templates
        for warning in odd_pods(template.spec, f"{item.prefix}{template.path}", known)
    ]


async def _known(services: Services) -> Vocabulary | None:
    try:
        return await services.leader.names()
    except LeaderAway:
        return None
