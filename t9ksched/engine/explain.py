"""Why a gang stays, as typed reasons with their numbers.

Each function answers for one check that failed; all of them only read. The sentences are plain and carry the numbers,
the mappings carry the same numbers for programs.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import numpy as np

from t9ksched.engine.arrays import Mask
from t9ksched.engine.ledger import Shortfall
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.feasibility import CARD_HOLDERS, DATABASE, CardsCounted, constraints
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang, Running
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import from_units
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.resources import is_card_resource

_OWN_WORDS = {
    "queue": "are not nodes of the queue",
    "selector": "do not match the pod's nodeSelector or node affinity",
    "volumes": "cannot reach its volumes",
    "taints": "have taints it does not tolerate",
    "not ready": "are not ready",
    "unschedulable": "are cordoned (unschedulable)",
    "accelerators not ready": "have GPUs that are not ready (nvidia.com/mig.config.state, driver or device plugin)",
    CARD_HOLDERS: "have a pod of which it is not on record which of the node's cards it holds",
}


def amount(resource: str, units: int) -> str:
    """An amount as people write it: `8 × nvidia.com/gpu`, `16Gi memory`."""
    if resource == "pods" or is_card_resource(resource) or "/" in resource:
        return f"{units} × {resource}"
    return f"{from_units(resource, units)} {resource}"


def matching(count: int) -> str:
    """`1 node matches`, `14 nodes match`."""
    return "1 node matches" if count == 1 else f"{count} nodes match"


def queue_not_found(name: str) -> Reason:
    """The queue does not exist."""
    return Reason(
        Code.QUEUE_NOT_FOUND,
        f"queue {name!r} does not exist",
        unblocks=(f"an administrator creates queue {name!r}", "submit it again to a queue that exists"),
    )


def queue_closed(name: str, *, draining: bool = False) -> Reason:
    """The queue takes no new gangs; one that is draining starts none that it took either."""
    if draining:
        return Reason(
            Code.QUEUE_CLOSED,
            f"queue {name!r} is draining: it takes nothing new and starts nothing that waits in it",
            unblocks=(
                "submit it again to another queue",
                f"an administrator opens queue {name!r}, which ends the draining",
            ),
        )
    return Reason(
        Code.QUEUE_CLOSED,
        f"queue {name!r} is closed and takes nothing new",
        unblocks=(f"an administrator opens queue {name!r}", "submit it again to an open queue"),
    )


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


def quota_exceeded(shortfalls: Sequence[Shortfall]) -> Reason:
    """What the gang asks for is more than what is left of its queue's quota."""
    parts, unblocks = [], []
    for short in shortfalls:
        left = max(short.has, 0)
        parts.append(
            f"needs {amount(short.resource, short.needs)}, queue {short.queue!r} has "
            f"{from_units(short.resource, left)} of {from_units(short.resource, short.nominal)} left"
        )
        if short.needs > short.nominal:
            unblocks.append(f"ask for less: the whole quota is {amount(short.resource, short.nominal)}")
        else:
            unblocks.append(f"{amount(short.resource, short.needs - short.has)} of the queue is given back")
    return Reason(
        Code.QUOTA_EXCEEDED,
        "; ".join(parts),
        {short.resource: short.needs for short in shortfalls},
        {short.resource: max(short.has, 0) for short in shortfalls},
        unblocks=(*unblocks, "an administrator raises the quota"),
    )


def no_room(groups: Iterable[Group], *, gave_up: bool = False) -> Work[tuple[Reason, ...]]:
    """Why the groups found no place together, on the trial as it is before they are placed.

    With `gave_up` nobody knows whether there is one: the search for it ended at its bound.
    """
    asked = list(groups)
    found: list[Reason] = []
    against: list[Reason] = []
    for column, pods in asked:
        if (reason := _no_room(column, pods)) is not None:
            found.append(reason)
        if column.ruled and (reason := _against_rules(column, pods)) is not None:
            against.append(reason)
        yield
    if found or against:
        return unique([*found, *against])
    total = sum(pods for _, pods in asked)
    match = np.logical_or.reduce([column.mask for column, _ in asked])
    if gave_up:
        return (_gave_up(total, int(match.sum())),)
    return (
        Reason(
            Code.INSUFFICIENT_RESOURCES,
            f"each kind of its pods finds room alone, all {total} together do not; {matching(int(match.sum()))}",
            {"members": total},
            nodes={"match": int(match.sum())},
            unblocks=("room is given back on the matching nodes",),
        ),
    )


def victims_not_found() -> Reason:
    """The search for those who would have to go ended at its bound; there may be some."""
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        "the search for victims ended at its bound, so there may be some whose room would do",
        unblocks=("use fewer kinds of pods, or a wider topology level",),
    )


def _gave_up(pods: int, match: int) -> Reason:
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"each kind of its pods finds room alone; the search for a way to place all {pods} together ended at its bound "
        f"without finding one, so there may be one; {matching(match)}",
        {"members": pods},
        nodes={"match": match},
        unblocks=("more room is given back on the matching nodes", "use fewer kinds of pods, or a smaller gang"),
    )


def lacking(groups: Iterable[Group]) -> Work[tuple[Reason, ...]]:
    """What room each kind of pods lacks for itself, said next to other reasons; empty when none does."""
    found = []
    for column, pods in groups:
        if (reason := _no_room(column, pods)) is not None:
            found.append(reason)
        yield
    return unique(found)


def unique(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Each reason once, in order. Reasons cannot be hashed, so only those that read alike are compared."""
    kept: dict[tuple[Code, str], list[Reason]] = {}
    found = []
    for reason in reasons:
        alike = kept.setdefault((reason.code, reason.message), [])
        if reason not in alike:
            alike.append(reason)
            found.append(reason)
    return tuple(found)


def impossible(column: ClassFit, pods: int) -> Reason | None:
    """Why no free room would help: no node may take such a pod, or all of them together are too small."""
    if (away := unrecorded(column)) is not None:
        return away
    return never_fits(column, pods) if column.mask.any() else _no_node_matches(column)


def unrecorded(column: ClassFit) -> Reason | None:
    """The pods must wait for the database on nodes that they may use otherwise; None where they need not."""
    if not column.pod_class.unrecorded:
        return None
    others = [one for one in constraints(column.selector, column.pod_class) if not isinstance(one, CardsCounted)]
    would = np.logical_and.reduce([column.trial.feasibility.column(one) for one in others])
    for _, allows in column.trial.plugins.filters(column.pod_class, column.trial.nodes.static):
        would = would & allows
    match, waits = int(column.mask.sum()), int((would & ~column.mask).sum())
    if not waits:
        return None
    return Reason(
        Code.DATABASE_AWAY,
        f"the database is away, and which cards a pod gets on {_count(waits, 'node')} that would match is written there"
        f" before it is bound, for cards are given by index there; besides, {matching(match)}",
        nodes={"match": match, DATABASE: waits},
        unblocks=("the database answers again",),
    )


def _no_room(column: ClassFit, pods: int) -> Reason | None:
    reason = impossible(column, pods)
    if reason is not None:
        return reason
    match = int(column.mask.sum())
    rooms = column.rooms()
    fit = int(np.minimum(rooms, pods).sum())
    if fit >= pods:
        return None
    able = int((rooms > 0).sum())
    if fit:
        return _not_enough(column, pods, fit, match, able)
    return _no_single_node(column, match)


def _against_rules(column: ClassFit, pods: int) -> Reason | None:
    """Which rules about other pods keep how many nodes with room from it; None when none does."""
    roomy = column.rooms() > 0
    counts = {"match": int(column.mask.sum()), "fit": int(roomy.sum())}
    gone: dict[str, Mask] = {}
    left = roomy
    for label, allows in column.sight().checks():
        gone[label] = gone.get(label, False) | (roomy & ~allows)
        left = left & allows
    counts |= {label: int(mask.sum()) for label, mask in gone.items() if mask.any()}
    parts = [f"{label} forbids {counts[label]}" for label in counts if label not in ("match", "fit")]
    if not parts and pods == 1:
        return None
    what = ", ".join(parts) or "its rules about other pods allow some of them, but not all of its pods together"
    return Reason(
        Code.TOPOLOGY_NOT_SATISFIED,
        f"of {_count(counts['fit'], 'node')} with room, {what}; {int(left.sum())} left for its next pod",
        {"members": pods},
        nodes=counts | {"left": int(left.sum())},
        unblocks=("pods that its rules speak of come or go", "loosen the affinity, anti-affinity or spread"),
    )


def not_together(gang: Gang, trial: Trial, groups: Sequence[Group]) -> Reason:
    """No domain has room for all of them."""
    pods = sum(count for _, count in groups)
    best, most = 0, ""
    for level in gang.levels:
        of, names = trial.feasibility.domains(level)
        if not names:
            continue
        fit = np.zeros(len(names) + 1)
        for column, count in groups:
            rooms = np.bincount(of, weights=np.minimum(column.rooms(), count), minlength=len(names) + 1)
            fit += np.minimum(rooms, count)
        if int(fit[:-1].max()) >= best:
            best, most = int(fit[:-1].max()), f"{level}={names[int(fit[:-1].argmax())]}"
    where = " or ".join(gang.levels)
    return Reason(
        Code.TOPOLOGY_NOT_SATISFIED,
        f"needs room for {_count(pods, 'pod')} within one {where}; "
        + (f"the best, {most}, has room for {best}" if most else "no node has such a label"),
        {"members": pods},
        {"members": best},
        unblocks=(f"room is given back within one {where}", "allow a wider level, or set topologyPolicy to Preferred"),
    )


def _no_node_matches(column: ClassFit) -> Reason:
    left = np.ones(len(column.mask), np.bool_)
    counts = {"total": len(left), "match": 0}
    parts = []
    for constraint in constraints(column.selector, column.pod_class):
        keeps = left & column.trial.feasibility.column(constraint)
        gone = int(left.sum()) - int(keeps.sum())
        if gone:
            counts[constraint.label] = gone
            parts.append(f"{gone} {_OWN_WORDS[constraint.label]}")
        left = keeps
    for name, allows in column.trial.plugins.filters(column.pod_class, column.trial.nodes.static):
        gone = int((left & ~allows).sum())
        if gone:
            counts[f"plugin {name}"] = gone
            parts.append(f"{gone} {'is' if gone == 1 else 'are'} refused by the plugin {name!r}")
        left = left & allows
    unblocks: tuple[str, ...] = ("change what the pod or its queue selects, or make such nodes available",)
    if CARD_HOLDERS in counts:
        unblocks = ("the pods end whose cards are not on record", *unblocks)
    return Reason(
        Code.NO_NODE_MATCHES,
        f"no node of {len(left)} may run it: {', '.join(parts)}" if parts else "the cluster has no nodes",
        nodes=counts,
        unblocks=unblocks,
    )


def never_fits(column: ClassFit, pods: int) -> Reason | None:
    """Why the matching nodes would not take the pods even if nothing ran there; None when they would."""
    static = column.trial.nodes.static
    empty = column.rooms(static.allocatable)
    most = int(np.minimum(empty, pods).sum())
    if most >= pods:
        return None
    match = int(column.mask.sum())
    if most:
        return Reason(
            Code.NEVER_FITS,
            f"needs room for {pods} pods with {wants(column.pod_class)} each; "
            f"{matching(match)}, when empty with room for {most}",
            {"members": pods},
            {"members": most},
            {"match": match},
            (f"ask for at most {most} such pods",),
        )
    largest = {resource: _largest(column, static.allocatable, resource) for resource, _ in column.pod_class.requests}
    needs = {name: units for name, units in column.pod_class.requests if units > largest[name]}
    if not needs:
        needs = {name: units for name, units in column.pod_class.requests if name != "pods"}
        what = f"no single node has all of {wants(column.pod_class)}"
    else:
        what = ", ".join(
            f"needs {amount(name, units)} on one node, the largest has {from_units(name, largest[name])}"
            for name, units in needs.items()
        )
    return Reason(
        Code.NEVER_FITS,
        f"{what}; {matching(match)}",
        needs,
        {name: largest[name] for name in needs},
        {"match": match, "fit": 0},
        ("ask for no more than one node has, or use more and smaller pods",),
    )


def _not_enough(column: ClassFit, pods: int, fit: int, match: int, able: int) -> Reason:
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"needs room for {pods} pods with {wants(column.pod_class)} each; {matching(match)}, now with room for {fit}",
        {"members": pods},
        {"members": fit},
        {"match": match, "fit": able},
        (f"room for {pods - fit} more of them is given back",),
    )


def _no_single_node(column: ClassFit, match: int) -> Reason:
    free = column.trial.free
    requests = [(name, units) for name, units in column.pod_class.requests if units]
    best = {name: max(_largest(column, free, name), 0) for name, _ in requests}
    short = {name: units for name, units in requests if units > best[name]}
    tail = "best has {} free"
    if not short:
        # Every amount is free somewhere, but nowhere all at once: show the node that has most of the rarest.
        row = _closest(column)
        rows = column.trial.resource_rows
        best = {name: max(int(free[rows[name], row]), 0) for name, _ in requests}
        short = {name: units for name, units in requests if units > best[name]}
        tail = "the closest has {} free"
    if not short:
        return Reason(
            Code.INSUFFICIENT_RESOURCES,
            f"its host ports are taken wherever it would fit; {matching(match)}",
            nodes={"match": match, "fit": 0},
            unblocks=("a pod with the same host port ends",),
        )
    asked = " and ".join(amount(name, units) for name, units in short.items())
    has = " and ".join(from_units(name, best[name]) for name in short)
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"needs {asked} on one node; {matching(match)}, {tail.format(has)}",
        short,
        {name: best[name] for name in short},
        {"match": match, "fit": 0},
        tuple(f"{amount(name, units - best[name])} more is given back on one node" for name, units in short.items()),
    )


def _largest(column: ClassFit, columns: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", resource: str) -> int:
    at = column.trial.resource_rows.get(resource)
    return int(columns[at][column.mask].max()) if at is not None else 0


def _closest(column: ClassFit) -> int:
    """The matching node that has the largest part of what it lacks most."""
    part = np.full(len(column.mask), 512, np.int64)
    for at, units in column.needs:
        np.minimum(part, np.clip(column.trial.free[at], 0, units) * 512 // units, out=part)
    part[~column.mask] = -1
    return int(part.argmax())


def wants(pod_class: PodClass) -> str:
    """What one pod asks for: its extended resources, or cpu and memory when it has none."""
    asked = [(name, units) for name, units in pod_class.requests if name != "pods"]
    special = [(name, units) for name, units in asked if "/" in name]
    return " and ".join(amount(name, units) for name, units in special or asked) or "a pod slot"


def behind(position: int, queue: str) -> Reason:
    """A strict queue lets nothing pass that competes for what an earlier gang waits for."""
    return Reason(
        Code.BEHIND,
        f"queue {queue!r} keeps strict order: position {position} waits for room that this would take",
        unblocks=(f"the job at position {position} starts or leaves the queue",),
    )


def held_for_other(whys: Iterable[str], owners: int) -> Reason:
    """It would fit, were some room not promised to others."""
    causes = ", ".join(sorted({why for why in whys if why}))
    return Reason(
        Code.HELD_FOR_OTHER,
        f"it would fit, but room is held for {owners} other job{'' if owners == 1 else 's'}"
        + (f" ({causes})" if causes else ""),
        unblocks=("the room held is used or given up",),
    )


def kept(nodes: Sequence[str], missing: int) -> Reason:
    """Room for lost members is kept on these nodes, one entry a member; `missing` of them have none yet."""
    places = ", ".join(dict.fromkeys(nodes))
    parts = [f"room for {_count(len(nodes), 'lost member')} is kept on {places}"] if nodes else []
    parts += [f"the first room that fits is kept for {_count(missing, 'lost member')}"] if missing else []
    return Reason(
        Code.GANG_INCOMPLETE,
        "; ".join(parts),
        {"members": len(nodes) + missing},
        {"members": len(nodes)},
        unblocks=("its lost pods are created again",),
    )


def evicted_for(gang: Gang, spec: QueueSpec, groups: Iterable[Group], victim: Running, theirs: QueueSpec) -> str:
    """What the owner of a victim is told: for whom, and why he had to go."""
    what = " and ".join(f"{pods} pod{'s' if pods > 1 else ''} with {wants(of.pod_class)} each" for of, pods in groups)
    if gang.queue == victim.queue:
        return (
            f"members above a gang's minimum yield to a waiting job of their queue {gang.queue!r}, which needs {what}"
        )
    return (
        f"evicted for a job of queue {gang.queue!r} (priority {spec.priority}, queue {victim.queue!r} has "
        f"{theirs.priority}), which needs {what}"
    )


def waiting_for_victims(pods: int, jobs: int) -> Reason:
    """Its room is held and comes free when these have ended."""
    return Reason(
        Code.WAITING_FOR_VICTIMS,
        f"{_count(pods, 'pod')} of {_count(jobs, 'job')} must leave to make room for it"
        if pods
        else "the room it was promised is not free yet",
        {"members": pods} if pods else {},
        unblocks=("the evicted pods end",),
    )


def evicts_later(when: int) -> Reason:
    """Others could go for it, but what was bound last was refused; `when` in nanoseconds since the epoch."""
    at = datetime.fromtimestamp(when / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Reason(
        Code.BIND_REFUSED,
        f"others would be evicted to make room for it, but its last binding was refused: not before {at}",
        unblocks=("what refused it is put right", "room comes free by itself"),
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
