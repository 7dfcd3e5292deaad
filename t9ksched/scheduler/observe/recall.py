"""Finds the members that gangs lost while no scheduler was running.

Losses are not recorded: history and the cluster have all that a start needs. A gang that ran, still holds places and is
below its minimum lost the rest, but for members that succeeded, of which history tells. It tells, too, where each of
its pods was bound last, and on which cards; what such a pod requests is taken from the pod that replaces it, or from a
member of the same role; if its role has no member left, from the member with as many cards. The recovery time counts
from the start. A gang that holds no place at all waits like any other: nothing says whether it was lost, evicted or
paused.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import structlog
from msgspec import structs

from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.podclass import PodClass
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.losses import Loss
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import StoreError
from t9ksched.store.history import ADMITTED, BOUND, RELEASED, SUCCEEDED, Event, History

log = structlog.get_logger(__name__)

_PAGE: Final = 2000
_MOST: Final = 1000
"""Of a gang of which is not known how many members were accepted, so many losses are found at most."""
_TELLING: Final = frozenset({ADMITTED, BOUND, RELEASED})
_INDEX: Final = re.compile(r"\d+$")


async def recall_losses(state: ClusterState, history: History) -> None:
    """Record the losses of every gang that has only a part of its minimum; with the database away, without their
    places.
    """
    for gang in state.partial:
        if not gang.ran or gang.displaced:
            continue
        try:
            uid, _, _, name = identity(gang)
            events = await history.list(
                namespace=gang.namespace, name=name, uid=uid, events=_TELLING, newest_first=True, limit=_PAGE
            )
        except StoreError:
            events = []
        losses = [_divided(loss, state) for loss in lost_before(gang, events)]
        state.refills.remember(gang, losses)
        if losses:
            known = sum(bool(loss.node) for loss in losses)
            log.info("members were lost before the start", gang=gang.key, members=len(losses), places=known)


def lost_before(gang: GangRecord, told: Iterable[Event]) -> list[Loss]:
    """The members that a gang lacks of its minimum. `told` is what history tells of it and its pods, the newest first.

    A minimum above the accepted one was written later, by a user or a controller: it does not count.
    """
    holding = {pod.name for pod in gang.members.values() if pod.placed and not pod.deleting}
    found: list[Loss] = []
    events: dict[str, Event] = {}
    """The last binding of each pod that is not there, by its name."""
    succeeded: list[str] = []
    """The roles of members that did so in the present run, and are gone."""
    seen, present = set(holding), True
    for event in told:
        name = str(event.detail.get("pod", ""))
        present = present and event.event != ADMITTED
        over = present and event.event == RELEASED and bool(event.detail.get(SUCCEEDED))
        if name in seen or not (over or event.event == BOUND):
            continue
        seen.add(name)
        if over:
            succeeded.append(str(event.detail.get("role", "")))
            continue
        events[name] = event
        like = _like(gang, name)
        if like is not None and like.pod_class is not None:
            cards = _cards(like.pod_class, event.detail.get("cards") or {})
            found.append(_loss(gang, like, name, str(event.detail.get("node", "")), cards))
    chosen = list(_short(gang, found, succeeded))
    kept = {loss.name for loss in chosen}
    others = [event for name, event in events.items() if f"{gang.namespace}/{name}" not in kept]
    agreed = gang.acceptance.replicas if gang.acceptance is not None else None
    most = (agreed or _MOST) - len(holding) - len(succeeded)
    for role, count in _missing(gang, (*succeeded, *(loss.role for loss in chosen))).items():
        like = next((pod for pod in gang.members.values() if pod.role == role and pod.pod_class), None)
        count = min(count, most - len(chosen))
        if like is not None:
            chosen += [_loss(gang, like, f"{role or 'member'}-{at}") for at in range(count)]
            continue
        chosen += [_of_another_role(gang, role, event) for event in others[: max(0, count)]]
        del others[: max(0, count)]
    return chosen


def _of_another_role(gang: GangRecord, role: str, event: Event) -> Loss:
    """The loss of a pod whose role has no member left: its requests are those of the member with as many cards."""
    given = event.detail.get("cards") or {}
    count = sum(len(cards) for cards in given.values())
    members = [pod for pod in gang.members.values() if pod.placed]  # a pod with a place has a readable spec
    like = min(members, key=lambda pod: (abs(_card_count(pod) - count), pod.name))
    assert like.pod_class is not None
    cards = _cards(like.pod_class, given)
    loss = _loss(gang, like, str(event.detail.get("pod", "")), str(event.detail.get("node", "")), cards)
    return structs.replace(loss, role=role)


def _card_count(pod: PodRecord) -> int:
    return sum(pod.pod_class.card_counts.values()) if pod.pod_class is not None else 0


def _missing(gang: GangRecord, besides: Iterable[str]) -> Counter[str]:
    """What the minimum lacks beside members of these roles, by role; members without a role count to the role that most
    members have.
    """
    roles = Counter(pod.role for pod in gang.members.values() if pod.placed and not pod.deleting)
    common = max(roles, key=lambda role: (roles[role], role), default="")
    roles.update(besides)
    short = Counter({role: least - roles[role] for role, least in gang.minimum.roles if least > roles[role]})
    short[common] += max(0, gang.minimum.members - roles.total() - short.total())
    return +short


def _short(gang: GangRecord, losses: list[Loss], succeeded: Iterable[str]) -> Iterator[Loss]:
    """The losses, of these, that the minimum lacks besides members of these roles that succeeded."""
    missing = _missing(gang, succeeded)
    total = missing.total()
    minima = {role for role, _ in gang.minimum.roles}
    for loss in losses:
        if total and (loss.role not in minima or missing[loss.role]):
            missing[loss.role] -= 1
            total -= 1
            yield loss


def _like(gang: GangRecord, name: str) -> PodRecord | None:
    """The pod of this name, else one whose name differs only in its index."""
    pods = list(gang.members.values())
    same = next((pod for pod in pods if pod.name == name), None)
    stem = _INDEX.sub("", name)
    return same or next((pod for pod in pods if _INDEX.sub("", pod.name) == stem), None)


def _loss(gang: GangRecord, like: PodRecord, name: str, node: str = "", cards: CardGrant = NO_CARDS) -> Loss:
    assert like.pod_class is not None
    return Loss(
        uid=f"{gang.uid}/{name}",
        name=f"{gang.namespace}/{name}",
        role=like.role,
        pod_class=like.pod_class,
        node=node,
        cards=cards,
        owner=like.owner,
    )


def _divided(loss: Loss, state: ClusterState) -> Loss:
    """The loss with what the pod had of each card, where its node divides cards."""
    known = state.node_objects.get(loss.node)
    if known is None or not loss.cards:
        return loss
    return structs.replace(loss, cards=known[1].cards.divide(loss.pod_class.cards, loss.cards))


def _cards(pod_class: PodClass, cards: dict[str, Any]) -> CardGrant:
    """The cards of a pod from their indices by container."""
    return CardGrant.of_containers(
        (asked.container, asked.resource, map(int, cards.get(asked.container) or ())) for asked in pod_class.cards
    )
