"""The record of an accepted root owner: its number of pods, and their resources in total."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import structs

from t9ksched.admission.request import least_requests as cheapest
from t9ksched.model.resources import is_card_resource
from t9ksched.scheduler.state.owners import Root
from t9ksched.scheduler.state.records import FINISHED, GangRecord, PodRecord
from t9ksched.store.acceptances import Acceptance
from t9ksched.workloads.shape import Template

NO_TEMPLATE: Final = Template("", 1, 1, {}, {}, "spec")
"""The template of a pod whose spec could not be read."""


class Held(msgspec.Struct):
    """The total requests of a root's accepted pods."""

    count: int = 0
    amounts: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, pod: PodRecord) -> None:
        """One more of them."""
        self.count += 1
        self.amounts.update(requested(pod))


def owner_record(
    known: Acceptance | None, gang: GangRecord, root: Root, held: Held, queue: str, now: int
) -> Acceptance:
    """How much of the owner is accepted: what it requests, and what its accepted pods hold. `known` is its present
    record, `held` what its pods in the queue request; `now` in nanoseconds since the epoch.
    """
    wanted = root.owner.wanted if root.owner is not None else None
    count, amounts = held.count, dict(held.amounts)
    if wanted is not None:
        count = max(count, wanted.replicas)
        amounts = {name: max(amount, amounts.get(name, 0)) for name, amount in wanted.amounts.items()} | {
            name: amount for name, amount in amounts.items() if name not in wanted.amounts
        }
    own = gang.acceptance
    if known is None or known.namespace != gang.namespace:
        known = Acceptance(
            uid=root.uid,
            kind=root.kind,
            namespace=root.namespace,
            name=root.name,
            queue=queue,
            priority=own.priority if own else gang.spec.priority,
            permitted_by=own.permitted_by if own else None,
            accepted_at=moment(now),
        )
    elif known.queue == queue and known.replicas is not None:
        count = max(count, known.replicas)
        amounts = {name: max(amounts.get(name, 0), known.amounts.get(name, 0)) for name in {**known.amounts, **amounts}}
    moved = {} if known.queue == queue else {"queue": queue, "priority": own.priority if own else known.priority}
    cards, requests = in_parts(amounts)
    return structs.replace(known, replicas=count, cards=cards, requests=requests, **moved)


def own_amounts(gang: GangRecord) -> dict[str, Any]:
    """How much is accepted of a group without an owner, for its acceptance: what its accepted pods hold."""
    asked = [
        requested(pod)
        for pod in gang.members.values()
        if not (pod.deleting or pod.phase in FINISHED) and (gang.virtual or inside(pod))
    ]
    cards, requests = in_parts(asked[0] if len(asked) == 1 else summed(asked))
    return {"replicas": len(asked), "cards": cards, "requests": requests}


def summed(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The total of these, by resource."""
    found: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = found.get(name, 0) + amount
    return found


def in_parts(amounts: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """These amounts as a record has them: of cards, and of other resources. Not to be written to."""
    return _in_parts(tuple(amounts.items()))


@lru_cache(maxsize=1024)
def _in_parts(amounts: tuple[tuple[str, int], ...]) -> tuple[dict[str, int], dict[str, int]]:
    """Jobs alike share theirs."""
    ordered = dict(sorted(amounts))
    cards = {name: amount for name, amount in ordered.items() if is_card_resource(name)}
    return cards, {name: amount for name, amount in ordered.items() if name not in cards}


def began(gang: GangRecord) -> dict[str, Any]:
    """With which minimum a group began to run, for its acceptance; nothing where that is not known."""
    least = gang.began_with
    return {} if least is None else {"began_with": least.members, "began_roles": dict(least.roles)}


def inside(pod: PodRecord) -> bool:
    """Whether the pod was accepted."""
    if pod.node or pod.assumed or pod.accepted:
        return True
    return pod.gang is not None and pod.gang.virtual and pod.gang.acceptance is not None


def requested(pod: PodRecord) -> Mapping[str, int]:
    """What the pod's template asks for, by resource."""
    return (pod.template or NO_TEMPLATE).requests


def least_requests(gang: GangRecord) -> dict[str, int]:
    """What the cheapest members that make up the minimum ask for."""
    return cheapest([requested(pod) for pod in gang.living()], gang.spec.min_member)


@lru_cache(maxsize=64)
def moment(now: int) -> datetime:
    """Nanoseconds since the epoch as a time for SQL."""
    return datetime.fromtimestamp(now / 1e9, UTC)
