"""Edits of a group or its pods after its acceptance, which have no effect, as sentences."""

from collections.abc import Iterator

from t9ksched.model.names import DEFAULT_QUEUE, GROUP_LABEL, QUEUE_LABEL, ROLE_LABEL
from t9ksched.scheduler.state.records import GangRecord, PodRecord

_MOST = 5
"""How many pods of a group are named: replicas are usually edited alike."""


def ignored(gang: GangRecord) -> tuple[str, ...]:
    """One sentence for each field that differs from the acceptance."""
    found: list[str] = []
    if not gang.virtual and gang.uid:
        found += _group(gang)
    for pod in gang.members.values():
        if len(found) >= _MOST:
            break
        if gang.virtual and not pod.controller and _is_alone(pod, gang):
            continue
        found += _pod(pod, gang)
    return tuple(found)


def _group(gang: GangRecord) -> Iterator[str]:
    accepted = gang.acceptance
    if gang.claimed_by:
        yield (
            f"{_title(gang)} names {gang.claimed_by} as its controller: it was accepted without one and stays"
            " a job of its own"
        )
    if gang.spec.queue != gang.queue:
        yield (
            f"{_title(gang)} names queue {gang.spec.queue!r}: that counts no more, it was accepted in"
            f" {gang.queue!r} and stays there"
        )
    if accepted is not None and gang.spec.priority != accepted.priority:
        yield (
            f"{_title(gang)} asks for priority {gang.spec.priority}: it was accepted with"
            f" {accepted.priority}, and that counts"
        )
    yield from ignored_minimum(gang)


def _title(gang: GangRecord) -> str:
    """The PodGroup, or the object that stands for one."""
    return gang.foreign or f"the PodGroup {gang.name}"


def ignored_minimum(gang: GangRecord) -> Iterator[str]:
    """The part of a PodGroup's requested minimum that does not count."""
    counts = gang.minimum
    if counts.members != gang.spec.min_member:
        yield (
            f"{_title(gang)} asks for {gang.spec.min_member} members together: it runs since"
            f" it had {counts.members}, and {counts.members} count until it starts again"
        )
    if counts.roles != gang.spec.roles:
        asked = ", ".join(f"{least} of role {role}" for role, least in gang.spec.roles)
        had = ", ".join(f"{least} of role {role}" for role, least in counts.roles if least)
        yield (
            f"{_title(gang)} asks for {asked}: it runs since it had {had or f'{counts.members} members'}, and"
            f" {had or 'no minima of roles'} count until it starts again"
        )


def _is_alone(pod: PodRecord, gang: GangRecord) -> bool:
    """Whether the labels of a single pod name the queue in which it was accepted, and no group."""
    labels = pod.labels
    return not labels.get(GROUP_LABEL) and (labels.get(QUEUE_LABEL) or DEFAULT_QUEUE) == gang.queue


def _pod(pod: PodRecord, gang: GangRecord) -> Iterator[str]:
    queue, group = pod.labels.get(QUEUE_LABEL, ""), pod.labels.get(GROUP_LABEL, "")
    if pod.claimed_by and (gang.virtual or not gang.owner):
        yield (f"pod {pod.name} names {pod.claimed_by} as its controller: it came without one, and that counts no more")
    if gang.virtual:
        if (queue or DEFAULT_QUEUE) != gang.queue:
            yield (
                f"the label {QUEUE_LABEL} of pod {pod.name} says {queue or 'nothing'!r}: it was accepted in"
                f" {gang.queue!r} and stays there"
            )
        if group and pod.outside is None:  # else its reason says why it may not join that group
            yield f"the label {GROUP_LABEL} of pod {pod.name} says {group!r}: it came without a group and stays alone"
        return
    if queue and queue != gang.queue:
        yield (
            f"the label {QUEUE_LABEL} of pod {pod.name} says {queue!r}, and its group {gang.name} is in queue"
            f" {gang.queue!r}: the group's counts"
        )
    if gang.foreign and not group:
        return  # what an object of another system, or a label of one, says of its pods is no label of ours
    if group != gang.name:
        yield f"the label {GROUP_LABEL} of pod {pod.name} says {group or 'nothing'!r}: it stays in {gang.name}"
    if pod.labels.get(ROLE_LABEL, "") != pod.role:
        said = pod.labels.get(ROLE_LABEL) or "nothing"
        yield f"the label {ROLE_LABEL} of pod {pod.name} says {said!r}: its role stays {pod.role or 'none'!r}"
