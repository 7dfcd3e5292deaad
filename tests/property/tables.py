"""A world and a plan as small tables, for the person who reads a shrunk failure."""

from collections.abc import Iterable, Sequence

from t9ksched.engine.planner import Plan
from tests.builders import GPU
from tests.property.world import Group, Pod, World


def picture(world: World, plan: Plan | None = None, log: Iterable[str] = ()) -> str:
    """What happened, what there is, and what was decided on it."""
    groups = world.groups.values()
    parts = [
        "happened: " + ("; ".join(log) or "nothing"),
        _table("NODE ZONE CPU CARDS STATE PODS", (_node(world, name) for name in sorted(world.nodes))),
        _table("QUEUE PRIORITY QUOTA USED ZONE ORDERING STATE", (_queue(world, name) for name in world.queues)),
        _table("GANG QUEUE PRIORITY AGE NEEDS WAITS RUNS", (_gang(group) for group in groups)),
        _table("HELD-FOR ON", ((hold.owner, hold.node) for hold in world.holds)),
        _table("DECISION", ((line,) for line in _decisions(plan)) if plan is not None else ()),
    ]
    return "\n".join(part for part in parts if part)


def _table(heads: str, rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as they must be; nothing for no rows."""
    found = list(rows)
    if not found:
        return ""
    found.insert(0, heads.split())
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    lines = ("  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)) for row in found)
    return "\n".join(line.rstrip() for line in lines)


def _node(world: World, name: str) -> Sequence[str]:
    node, used = world.nodes[name], world.used(name)
    states = {"tainted": node.tainted, "cordoned": node.cordoned, "not ready": not node.ready}
    pods = " ".join(_pod(pod) for pod in world.on(name)) or "-"
    state = ",".join(word for word, holds in states.items() if holds) or "-"
    return name, node.zone, f"{used['cpu'] // 1000}/{node.cpu}", f"{used[GPU]}/{node.gpu}", state, pods


def _pod(pod: Pod) -> str:
    return f"{pod.uid}:{pod.shape.name}" + ("(leaving)" if pod.leaving else "")


def _queue(world: World, name: str) -> Sequence[str]:
    queue, used = world.queues[name], world.charged(name)
    quota = ",".join(f"{resource}={units}" for resource, units in queue.quota.items()) or "-"
    holds = ",".join(f"{resource}={used[resource]}" for resource in queue.quota) or "-"
    states = {"closed": queue.closed, "safe": not queue.preemptible}
    state = ",".join(word for word, is_so in states.items() if is_so) or "-"
    return name, str(queue.priority), quota, holds, queue.zone or "-", queue.ordering, state


def _gang(group: Group) -> Sequence[str]:
    roles = "".join(f"+{least} {role}" for role, least in group.roles.items())
    needs = f"{group.minimum}{roles}" + (" in one zone" if group.together else "")
    waits = " ".join(_pod(pod) for pod in group.waiting()) or "-"
    runs = " ".join(f"{pod.uid}@{pod.node}" + ("(leaving)" if pod.leaving else "") for pod in group.bound()) or "-"
    return group.uid, group.queue, str(group.priority), str(group.created), needs, waits, runs


def _decisions(plan: Plan) -> Iterable[str]:
    for one in plan.assignments:
        cards = [index for name in one.grant.resources for index in one.grant.indices(name)]
        yield f"{one.pod} → {one.node}" + (f" cards {','.join(map(str, cards))}" if cards else "")
    for entry in plan.waiting:
        yield f"{entry.gang} waits: " + "; ".join(f"{reason.code} ({reason.message})" for reason in entry.reasons)
    for entry in plan.surplus:
        yield f"{entry.gang} does not grow: " + "; ".join(str(reason.code) for reason in entry.reasons)
    for line in plan.evictions:
        yield f"{line.pod} goes for {line.by}"
    for hold in plan.reservations:
        yield f"room on {hold.node} is held for {hold.owner}"
