"""The snapshot of a group for the engine, made of its record."""

from typing import TYPE_CHECKING

from t9ksched.engine.members import with_kinds
from t9ksched.model.gang import Gang, Member
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Reason
from t9ksched.scheduler.state.member_classes import card_nodes, off, taking, unrecorded
from t9ksched.scheduler.state.objects import natural
from t9ksched.scheduler.state.volumes.exclusive import in_use, never_together

if TYPE_CHECKING:
    from t9ksched.scheduler.state.records import GangRecord, PodRecord


def built(gang: "GangRecord") -> Gang | None:
    """The group as the engine sees it; None when it needs no place."""
    if gang.virtual and not gang.lost:
        return _single(gang)
    pending: list[PodRecord] = []
    living: dict[str, int] = {}
    placed: dict[str, int] = {}
    holding = False
    for pod in gang.members.values():
        if pod.waiting:
            pending.append(pod)
        elif not holding:
            holding = bool(pod.assumed) or pod.holds
        if pod.phase != "Failed" and not pod.deleting:
            living[pod.role] = living.get(pod.role, 0) + 1
            if pod.placed:
                placed[pod.role] = placed.get(pod.role, 0) + 1
    if not pending and not gang.lost:
        return None
    if len(pending) > 1:
        pending.sort(key=lambda pod: natural(pod.name))
    waiting = []
    least, topology = gang.minimum, gang.spec.topology_policy
    blocked: dict[tuple[str, str], Reason] = {}
    never = never_together(gang.living(), least) if any(pod.exclusive for pod in pending) else None
    if never is not None:
        blocked[never.code, never.message] = never
    for pod in pending:
        if reasons := pod.blocked:
            if never is not None:  # that another member is to use a claim first is why, and told better
                reasons = tuple(one for one in reasons if one not in map(in_use, pod.exclusive))
            blocked.update({(reason.code, reason.message): reason for reason in reasons})
        elif pod.pod_class is not None:
            waiting.append(Member(pod.uid, pod.key, pod.role, _class_of(gang, pod, pod.pod_class)))
    return Gang(
        uid=gang.uid,
        name=gang.key,
        queue=gang.queue,
        priority=gang.priority,
        created=max(gang.created, gang.start_after),
        min_member=least.members,
        roles=least.roles,
        waiting=with_kinds(waiting),
        placed=tuple(sorted(placed.items())),
        total=sum(living.values()),
        total_roles=tuple(sorted(living.items())),
        refilling=not gang.displaced and (holding or gang.lost),
        ran=gang.ran,
        accepted=gang.acceptance is not None,
        blocked=tuple(blocked.values()),
        topology=topology,
        levels=gang.levels,
        card_nodes=card_nodes(gang.members.values()) if placed else (),
        nodes=_nodes(gang) if topology != "None" else (),
        evicts_from=gang.evicts_from,
        lasts=gang.lasts,
        user=gang.user,
        groups=gang.groups,
        reservation=gang.reservation,
    )


def _single(gang: "GangRecord") -> Gang | None:
    """The same of a group of one pod, which has no place while it waits: thousands come at once."""
    for pod in gang.members.values():
        if not pod.waiting:
            return None
        waits: tuple[Member, ...] = ()
        key, spec, blocked = gang.key, gang.spec, pod.blocked
        if not blocked and (own := pod.pod_class) is not None:
            if pod.to_bind or gang.avoid or gang.unrecorded:
                own = _class_of(gang, pod, own)
            waits = (Member(pod.uid, key, pod.role, own),)
        return Gang(
            uid=gang.uid,
            name=key,
            queue=gang.queue,
            priority=gang.priority,
            created=max(gang.created, gang.start_after),
            min_member=spec.min_member,
            roles=spec.roles,
            waiting=waits,
            total=1,
            total_roles=((pod.role, 1),),
            ran=gang.ran,
            accepted=gang.acceptance is not None,
            blocked=tuple({(one.code, one.message): one for one in blocked}.values()) if blocked else (),
            topology=spec.topology_policy,
            levels=gang.levels,
            evicts_from=gang.evicts_from,
            lasts=gang.lasts,
            user=gang.user,
            groups=gang.groups,
            reservation=gang.reservation,
        )
    return None


def _class_of(gang: "GangRecord", pod: "PodRecord", own: PodClass) -> PodClass:
    """The class of a waiting member: kept off the nodes that its group avoids, and off those whose cards cannot be
    recorded now.
    """
    pod_class = off(taking(own, pod.to_bind), gang.avoid)
    return unrecorded(pod_class) if gang.unrecorded and pod_class.cards else pod_class


def _nodes(gang: "GangRecord") -> tuple[str, ...]:
    """Where members are."""
    return tuple(sorted({pod.node or pod.assumed for pod in gang.living() if not pod.finished} - {""}))
