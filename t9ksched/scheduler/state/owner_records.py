"""The record of an accepted root owner: its number of pods, and their resources in total."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import structs

from t9ksched.admission.access import Access
from t9ksched.admission.request import least_requests as cheapest
from t9ksched.model.resources import is_card_resource
from t9ksched.scheduler.state.owners import Root, alike, exceeds
from t9ksched.scheduler.state.records import FINISHED, GangRecord, PodRecord
from t9ksched.store.acceptances import Acceptance
from t9ksched.workloads.shape import Template

NO_TEMPLATE: Final = Template("", 1, 1, {}, {}, "spec")
"""The template of a pod whose spec could not be read."""


class Held(msgspec.Struct):
    """The total requests of a root's accepted pods, most of which have a template in common."""

    count: int = 0
    _templates: dict[int, tuple[Template, int]] = msgspec.field(default_factory=dict)
    """Each template and how many have it, by its identity."""
    _amounts: Counter[str] | None = None

    @property
    def amounts(self) -> Counter[str]:
        """The total by resource; not to be written to."""
        if self._amounts is None:
            self._amounts = Counter()
            for template, many in self._templates.values():
                self._note(template, many)
        return self._amounts

    @classmethod
    def by(cls, pods: Iterable[PodRecord]) -> "Held":
        """What those of these pods hold that were accepted and are there."""
        templates = [pod.template or NO_TEMPLATE for pod in pods if holds(pod)]
        known = {id(template): template for template in templates}
        many = Counter(map(id, templates))
        return cls(len(templates), {one: (template, many[one]) for one, template in known.items()})

    def add(self, template: Template) -> None:
        """One more of them."""
        many = self._templates.get(id(template), (template, 0))[1]
        self._templates[id(template)] = template, many + 1
        self.count += 1
        self._note(template, 1)

    def leave_out(self, template: Template) -> None:
        """One of them less."""
        many = self._templates[id(template)][1]
        self.count -= 1
        if many > 1:
            self._templates[id(template)] = template, many - 1
            self._note(template, -1)
        else:
            del self._templates[id(template)]
            self._amounts = None  # a resource that no pod names is not among them, not even with 0

    def _note(self, template: Template, many: int) -> None:
        if (amounts := self._amounts) is not None:
            for name, amount in template.requests.items():
                amounts[name] += many * amount


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


def covers(record: Acceptance, root: Root, held: Held, pod: PodRecord) -> bool:
    """Whether one pod more is among those that were accepted with the owner."""
    limit = record.replicas
    if limit is None:
        return True
    wanted = root.owner.wanted if root.owner is not None else None
    within = wanted is not None and wanted.replicas <= limit and not exceeds(wanted.amounts, record.amounts)
    # While a Deployment replaces its pods by others it makes some before the old ones are gone.
    surge = -(-limit // 4) if within and root.kind == "Deployment" else 0
    if held.count + 1 > limit + surge:
        return False
    if wanted is not None and (within or alike(wanted.amounts, wanted.replicas, record.amounts, limit)):
        return True  # the pods may have more than their template says: defaults, sidecars
    return not exceeds(held.amounts + Counter(requested(pod)), record.amounts)


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


def group_record(
    gang: GangRecord, source: Acceptance | None, access: Access, submitted: tuple[str | None, list[str]], **more: Any
) -> Acceptance:
    """What is agreed with a group itself, `more` included. `source` is what a door recorded of it, `submitted` says by
    whom and with which groups it was submitted.
    """
    return Acceptance(
        uid=gang.uid,
        kind="Pod" if gang.virtual else "PodGroup",
        namespace=gang.namespace,
        name=gang.name,
        submitter=submitted[0],
        groups=submitted[1],
        permitted_by=access.rule,
        group_uid=None if gang.virtual else gang.uid,
        group_name=None if gang.virtual else gang.name,
        started_at=source.started_at if source is not None else None,
        **began(gang),
        **more,
    )


def began(gang: GangRecord) -> dict[str, Any]:
    """With which minimum a group began to run, for its acceptance; nothing where that is not known."""
    least = gang.began_with
    return {} if least is None else {"began_with": least.members, "began_roles": dict(least.roles)}


def inside(pod: PodRecord) -> bool:
    """Whether the pod was accepted."""
    if pod.node or pod.assumed or pod.accepted:
        return True
    return pod.gang is not None and pod.gang.virtual and pod.gang.acceptance is not None


def holds(pod: PodRecord) -> bool:
    """Whether the pod was accepted, has not ended and is not about to."""
    return not (pod.deleting or pod.phase in FINISHED) and inside(pod)


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
