"""Why a gang waits for reasons other than free room: its queue, its members, its quota, reservations of others."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from t9ksched.engine.explain.words import amount, counted, wants
from t9ksched.engine.ledger import Shortfall
from t9ksched.engine.placement.pack import Group
from t9ksched.model.gang import Gang, Running
from t9ksched.model.quantity import CARDS, from_units
from t9ksched.model.queue import QueueSpec, closed_to_new, queue_missing
from t9ksched.model.reasons import Code, Reason


def queue_not_found(name: str) -> Reason:
    """The queue does not exist."""
    return Reason(
        Code.QUEUE_NOT_FOUND,
        queue_missing(name),
        unblocks=(f"an administrator creates queue {name!r}", "submit it again to a queue that exists"),
    )


def queue_closed(name: str, *, draining: bool = False) -> Reason:
    """The queue takes no new gangs; one that is draining starts none that it took either."""
    if draining:
        return Reason(
            Code.QUEUE_CLOSED,
            closed_to_new(name, draining=True),
            unblocks=(
                "submit it again to another queue",
                f"an administrator opens queue {name!r}, which ends the draining",
            ),
        )
    return Reason(
        Code.QUEUE_CLOSED,
        closed_to_new(name, draining=False),
        unblocks=(f"an administrator opens queue {name!r}", "submit it again to an open queue"),
    )


def members_short(gang: Gang) -> tuple[Reason, ...]:
    """Too few members can be given a place: those that are not there, and what keeps others back."""
    missing = incomplete(gang)
    return (*(() if missing is None else (missing,)), *gang.blocked) or (too_few(gang),)


def incomplete(gang: Gang) -> Reason | None:
    """Members that do not exist yet, or None when the gang is complete."""
    needs, has, parts = {}, {}, []
    if gang.total < gang.min_member:
        needs["members"], has["members"] = gang.min_member, gang.total
        parts.append(f"has {gang.total} of {gang.min_member} members")
    if gang.roles:
        there = dict(gang.total_roles)
        for role, minimum in gang.roles:
            if there.get(role, 0) < minimum:
                needs[f"role:{role}"], has[f"role:{role}"] = minimum, there.get(role, 0)
                parts.append(f"has {there.get(role, 0)} of {minimum} in role {role!r}")
    if not parts:
        return None
    return Reason(Code.GANG_INCOMPLETE, ", ".join(parts), needs, has, unblocks=("its missing pods are created",))


def too_few(gang: Gang) -> Reason:
    """Members exist in number, but too few of them can be given a place now."""
    held = sum(count for _, count in gang.placed)
    return Reason(
        Code.GANG_INCOMPLETE,
        f"needs {gang.min_member} members at once, {held} have a place and {len(gang.waiting)} can be given one",
        {"members": gang.min_member},
        {"members": held + len(gang.waiting)},
        unblocks=("its other pods become ready to be scheduled",),
    )


def kinds_mixed(role: str, kinds: Sequence[str]) -> Reason:
    """No kind of cards will do for all members of a role."""
    of = f"role {role!r}" if role else "the gang"
    return Reason(
        Code.CARD_TYPE_MISMATCH,
        f"pods of {of} ask for cards of different kinds, {' and '.join(kinds)}: members of one role take one kind",
        unblocks=(
            "ask for one gpu-mode in all pods of the role",
            "give those of another kind a role of their own",
        ),
    )


def quota_exceeded(shortfalls: Sequence[Shortfall], fewest: int = 0) -> Reason:
    """What the gang asks for is more than what is left of its queue's quota. On nodes where its pods have least of
    cards it would count as `fewest`; if there was room there, and that was left, it would be placed.
    """
    parts, unblocks = [], []
    needs = {short.resource: short.needs for short in shortfalls}
    for short in shortfalls:
        left, resource = max(short.has, 0), short.resource
        differs = resource == CARDS and 0 < fewest < short.needs
        if differs and fewest > short.has:
            needs[resource] = fewest
        least = " at least" if needs[resource] < short.needs else ""
        parts.append(
            f"needs{least} {amount(resource, needs[resource])}, queue {short.queue!r} has "
            f"{from_units(resource, left)} of {from_units(resource, short.nominal)} left"
        )
        if short.kept:
            parts[-1] += f", {from_units(resource, short.kept)} kept for a job that has waited too long"
            unblocks.append("the job that quota is kept for starts, or is withdrawn")
        if least:
            parts[-1] += f": it has that where it has least of cards, and {from_units(CARDS, short.needs)} elsewhere"
        elif differs:
            parts[-1] += (
                f": it counts as {amount(CARDS, short.needs)}, the most that it may have on any node it may use;"
                f" there is no room for it where it has less, at least {amount(CARDS, fewest)}"
            )
            unblocks.append("nodes where it has less have room for it")
        if needs[resource] > short.nominal:
            unblocks.append(f"ask for less: the whole quota is {amount(resource, short.nominal)}")
        else:
            unblocks.append(f"{amount(resource, needs[resource] - short.has)} of the queue is given back")
    return Reason(
        Code.QUOTA_EXCEEDED,
        "; ".join(parts),
        needs,
        {short.resource: max(short.has, 0) for short in shortfalls},
        unblocks=(*dict.fromkeys(unblocks), "an administrator raises the quota"),
    )


def victims_not_found() -> Reason:
    """The search for victims ended at its bound; there may be some."""
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        "the search for victims ended at its bound, so there may be some whose room would do",
        unblocks=("use fewer kinds of pods, or a wider topology level",),
    )


def behind(position: int, queue: str) -> Reason:
    """A strict queue lets nothing pass that competes for what an earlier gang waits for."""
    return Reason(
        Code.BEHIND,
        f"queue {queue!r} keeps strict order: position {position} waits for room that this would take",
        unblocks=(f"the job at position {position} starts or leaves the queue",),
    )


def held_for_other(kinds: Iterable[str], owners: int) -> Reason:
    """It would fit without the room that is reserved for others."""
    causes = ", ".join(sorted(set(kinds)))
    return Reason(
        Code.HELD_FOR_OTHER,
        f"it would fit, but room is held for {owners} other job{'' if owners == 1 else 's'} ({causes})",
        unblocks=("the room held is used or given up",),
    )


def quota_planned(queue: str) -> Reason:
    """Its queue could pay for it now, but not until it ends."""
    return Reason(
        Code.HELD_FOR_OTHER,
        f"queue {queue!r} has the quota now, but needs it for planned starts before this would end",
        unblocks=("the planned jobs start and end", "a shorter time limit, so that it ends before they start"),
    )


def _needed_for_planned(how: str) -> Reason:
    return Reason(
        Code.HELD_FOR_OTHER,
        f"it would fit, but {how} when other jobs are to start there",
        unblocks=("the planned jobs start and end", "a shorter time limit, so that it ends before they start"),
    )


_OUTLASTS: Final = _needed_for_planned("with its time limit it would still run")
_ENDLESS: Final = _needed_for_planned("it has no time limit, so it might still run")


def needed_for_planned(gang: Gang) -> Reason:
    """It would fit now, but not until it ends: starts are planned there."""
    return _OUTLASTS if gang.lasts else _ENDLESS


def told_to(gang: Gang, reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Why gangs that ask for as much found no room, as it is told to this one, which may have a limit or none."""
    if len(reasons) == 1 and (reasons[0] is _OUTLASTS or reasons[0] is _ENDLESS):
        return (needed_for_planned(gang),)
    return reasons


def outside_window(queue: str, begins: int | None) -> Reason:
    """Its queue starts jobs only in windows; the next one begins at `begins` (nanoseconds since the epoch), None where
    none does.
    """
    when = f"the next one begins at {_when(begins)}" if begins is not None else "and none begins any more"
    return Reason(
        Code.OUTSIDE_WINDOW,
        f"queue {queue!r} starts jobs only in its start windows: {when}",
        unblocks=("the window begins", f"an administrator changes the start windows of queue {queue!r}"),
    )


def collects(gang: Gang, nodes: int, domain: str, *, quota: bool) -> Reason:
    """It has waited long, and collects room on so many nodes, of a domain if it must be in one, such as `rack r1`, and
    with `quota` what is left of that of its queue. It tells since when: for how long would change all the time, and a
    reason that changes is written again.
    """
    where, when = f"{counted(nodes, 'node')} of {domain}" if domain else counted(nodes, "node"), _when(gang.created)
    return Reason(
        Code.STARVING,
        f"it has waited since {when}: room that comes free on {where}, and quota of its queue, are kept for it"
        if quota
        else f"it has waited since {when}: room that comes free on {where} is kept for it",
        unblocks=("jobs that run there end",),
    )


def collected_for_others() -> Reason:
    """It would fit, but on room that is kept for gangs that have waited long."""
    return Reason(
        Code.HELD_FOR_OTHER,
        "it would fit, but that room is kept for jobs that have waited too long",
        unblocks=("these jobs start",),
    )


def planned_start(at: int, nodes: int) -> Reason:
    """It is to start at that moment (nanoseconds since the epoch), on so many nodes."""
    return Reason(
        Code.PLANNED_START,
        f"planned to start at {_when(at)} on {counted(nodes, 'node')}",
        unblocks=("what has the room until then ends, by then at the latest",),
    )


def kept(nodes: Sequence[str], missing: int) -> Reason:
    """Room for lost members is kept on these nodes, one entry a member; `missing` of them have none yet."""
    places = ", ".join(dict.fromkeys(nodes))
    parts = [f"room for {counted(len(nodes), 'lost member')} is kept on {places}"] if nodes else []
    parts += [f"the first room that fits is kept for {counted(missing, 'lost member')}"] if missing else []
    return Reason(
        Code.GANG_INCOMPLETE,
        "; ".join(parts),
        {"members": len(nodes) + missing},
        {"members": len(nodes)},
        unblocks=("its lost pods are created again",),
    )


def evicted_for(
    gang: Gang, spec: QueueSpec, groups: Iterable[Group], victim: Running, theirs: QueueSpec, *, whole: bool
) -> str:
    """The message for the owner of a victim: which queue's job it was evicted for, and why; `whole` if no member of it
    stays.
    """
    what = " and ".join(f"{pods} pod{'s' if pods > 1 else ''} with {wants(of.pod_class)} each" for of, pods in groups)
    if gang.queue == victim.queue and whole:
        return (
            f"evicted for a job of its queue {gang.queue!r} with the larger priority ({gang.priority}, this has "
            f"{victim.priority}), which needs {what}"
        )
    if gang.queue == victim.queue:
        return (
            f"members above a gang's minimum yield to a waiting job of their queue {gang.queue!r}, which needs {what}"
        )
    return (
        f"evicted for a job of queue {gang.queue!r} (priority {spec.priority}, queue {victim.queue!r} has "
        f"{theirs.priority}), which needs {what}"
    )


def waiting_for_victims(pods: int, jobs: int) -> Reason:
    """Its room is reserved and comes free when these pods have ended."""
    return Reason(
        Code.WAITING_FOR_VICTIMS,
        f"{counted(pods, 'pod')} of {counted(jobs, 'job')} must leave to make room for it"
        if pods
        else "the room it was promised is not free yet",
        {"members": pods} if pods else {},
        unblocks=("the evicted pods end",),
    )


def evicts_later(when: int) -> Reason:
    """It may not preempt before `when` (nanoseconds since the epoch), because its last binding was refused."""
    return Reason(
        Code.BIND_REFUSED,
        f"others would be evicted to make room for it, but its last binding was refused: not before {_when(when)}",
        unblocks=("what refused it is put right", "room comes free by itself"),
    )


def _when(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
