"""What must hold of a plan in a world, by an oracle that shares no code with the engine.

1 room and cards, 2 quota, 3 whole gangs and refills first, 4 places, 5 victims, 6 their room, 8 order; the histories
add 10, the same plan again. `judge` raises `Broken` with the first one that a plan breaks. The oracle walks the plan
line by line with plain integers.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from t9ksched.engine.planner import Assignment, Plan
from t9ksched.engine.policy import Policy
from t9ksched.model.reservation import Reservation
from tests.builders import GPU
from tests.property.world import CLASSES, SECOND, SHAPES, Group, Node, Pod, Queue, Shape, World

_BLOCKS = (
    "QuotaExceeded",
    "InsufficientResources",
    "NoNodeMatches",
    "NeverFits",
    "HeldForOther",
    "WaitingForVictims",
    "TopologyNotSatisfied",
)
"""First reasons of gangs that wait for room or quota: those behind which a strict queue stops."""


class Broken(AssertionError):
    """A promise that a plan breaks: its name, and what exactly."""

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise
        self.what = what


def allowed(node: Node, queue: Queue, shape: Shape) -> bool:
    """Whether the node may host such a pod of the queue, whatever runs there."""
    if not node.ready or node.cordoned or (node.tainted and not shape.tolerates):
        return False
    zones = [zone for zone in (queue.zone, shape.zone, shape.volume) if zone]
    return all(zone == node.zone for zone in zones) and shape.not_zone != node.zone


def could_run(node: Node, queue: Queue, shape: Shape) -> bool:
    """Whether the node may host such a pod and is large enough when nothing runs there."""
    return allowed(node, queue, shape) and all(node.has()[name] >= units for name, units in shape.requests().items())


@dataclass
class Placed:
    """A line of the plan with what it is about."""

    line: Assignment
    group: Group
    pod: Pod
    surplus: bool
    """Above its gang's minimum."""


def judge(world: World, plan: Plan, policy: Policy, only: str = "") -> None:
    """Check everything a plan promises before it is carried out; with `only`, the promises of one number.

    Raises:
        Broken: the first promise that does not hold.
    """
    placed = _placed(world, plan)
    checks = (
        lambda: _Rooms(world, plan).walk(placed),
        lambda: _quota(world, placed, plan),
        lambda: _gangs(world, placed, plan),
        lambda: _victims(world, plan, policy),
        lambda: _room_is_made(world, placed, plan),
        lambda: _order(world, placed, plan),
        lambda: _first_room(world, placed, plan),
    )
    for check in checks:
        try:
            check()
        except Broken as broken:
            if not only or broken.promise.startswith(only):
                raise


def _placed(world: World, plan: Plan) -> list[Placed]:
    found: list[Placed] = []
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    for line in plan.assignments:
        group = world.groups[line.gang]
        pod = group.pods[line.pod]
        if pod.node or line.pod in seen:
            raise Broken("1 nothing is given twice", f"{line.pod} has a place already")
        seen.add(line.pod)
        counts[group.uid] += 1
        found.append(Placed(line, group, pod, counts[group.uid] > group.missing()))
    return found


class _Rooms:
    """Walks the assignments in their order: room, cards, ports, where a pod may stand, and room promised to others."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world = world
        self._plan = plan
        self._used = {name: world.used(name) for name in world.nodes}
        self._cards = {name: [pod.cards for pod in world.on(name)] for name in world.nodes}
        self._shapes = {name: [pod.shape for pod in world.on(name)] for name in world.nodes}
        self._leaving = {name: [pod.shape for pod in world.on(name) if pod.leaving] for name in world.nodes}
        self._holds = [hold for hold in world.holds if hold.node in world.nodes]
        gone = {line.gang for line in plan.evictions if line.pod not in world.groups[line.gang].pods}
        self._kept = [hold for hold in world.kept() if hold.node and hold.owner not in gone]
        self._took: Counter[tuple[str, str, str]] = Counter()
        """What a gang has taken on a node, by resource."""

    def walk(self, placed: Sequence[Placed]) -> None:
        """Each line, the ones before it carried out."""
        for one in placed:
            self._holds = [hold for hold in self._holds if hold.owner != one.group.uid]
            self._kept = [hold for hold in self._kept if hold.owner != one.group.uid]
            self._room(one)
            self._place(one)
        for group in {one.group.uid: one.group for one in placed if one.group.together}.values():
            minimum = [one.line.node for one in placed if one.group is group]
            zones = {self._world.nodes[name].zone for name in minimum}
            if len(zones) > 1:
                raise Broken("4 only where it may run", f"{group.uid} must be in one zone, is in {sorted(zones)}")

    def _room(self, one: Placed) -> None:
        name, shape = one.line.node, one.pod.shape
        node, used = self._world.nodes[name], self._used[name]
        used.update(shape.requests())
        here = [hold for hold in self._holds if hold.node == name]
        held, first = requests_of(here), requests_of(hold for hold in here if self._waits_ahead(hold.owner, one))
        mine = requests_of(hold for hold in self._world.holds if (hold.owner, hold.node) == (one.group.uid, name))
        if mine:
            # A gang with a promise here may take what came free first: pods that leave make room for the rest.
            for pod in self._world.on(name):
                if pod.leaving or _goes(self._plan, pod):
                    held.subtract(pod.shape.requests())
                    first.subtract(pod.shape.requests())
        for resource, units in shape.requests().items():
            if units and used[resource] > node.has()[resource]:
                raise Broken("1 no node beyond what it has", f"{one.pod.uid} on {name}: {resource} {used[resource]}")
            self._took[one.group.uid, name, resource] += units
            keeps = held
            if not one.surplus and self._took[one.group.uid, name, resource] <= mine[resource]:
                # No more than it was promised: if that is too much, not all can be kept, and those behind it lose.
                keeps = first
            if units and used[resource] + max(0, keeps[resource]) > node.has()[resource]:
                raise Broken("6 room goes to its preemptor", f"{one.pod.uid} takes {resource} held on {name}")
            lost = requests_of(hold for hold in self._kept if hold.node == name)
            if units and used[resource] + lost[resource] > node.has()[resource]:
                raise Broken("3 room is kept for lost members", f"{one.pod.uid} takes {resource} kept on {name}")
        mask = dict(one.line.grant.masks).get(GPU, 0)
        if mask.bit_count() != shape.gpu or mask >= 1 << node.gpu:
            raise Broken("1 as many cards as asked for", f"{one.pod.uid} gets mask {mask:b} of {node.gpu} cards")
        for hold in self._kept:
            theirs = dict(hold.cards.masks).get(GPU, 0) if hold.node == name else 0
            if mask & theirs:
                raise Broken("3 room is kept for lost members", f"{one.pod.uid} gets cards {theirs:b} of {hold.owner}")
        if any(mask & other for other in self._cards[name]):
            raise Broken("1 no card is given twice", f"{one.pod.uid} gets {mask:b} on {name}")
        self._cards[name].append(mask)

    def _waits_ahead(self, owner: str, one: Placed) -> bool:
        """Whether an owner whose turn was before a line's still waits for pods that leave its nodes."""
        nodes = {hold.node for hold in self._holds if hold.owner == owner}
        waits = any(entry.gang == owner for entry in self._plan.waiting)
        left = any(pod.leaving for name in nodes for pod in self._world.on(name))
        return waits and left and _is_behind(self._world, one, self._world.groups[owner])

    def _place(self, one: Placed) -> None:
        world, shape = self._world, one.pod.shape
        node = world.nodes[one.line.node]
        here = self._shapes[node.name]
        where = f"{one.pod.uid} ({shape.name}) on {node.name}"
        if not allowed(node, world.queues[one.group.queue], shape):
            raise Broken("4 only where it may run", f"{where}: the node does not allow it")
        if shape.port and any(other.port == shape.port for other in here):
            raise Broken("4 only where it may run", f"{where}: port {shape.port} is taken")
        if shape.apart and shape in here:
            raise Broken("4 only where it may run", f"{where}: another {shape.name} is there")
        zones = {one.zone: Counter[str]() for one in world.nodes.values()}
        going = {zone: Counter[str]() for zone in zones}
        for other in world.nodes.values():
            zones[other.zone].update(pod.name for pod in self._shapes[other.name])
            going[other.zone].update(pod.name for pod in self._leaving[other.name])
        if shape.near and not zones[node.zone][shape.near]:
            raise Broken("4 only where it may run", f"{where}: no {shape.near} in zone {node.zone}")
        staying = {zone: seen[shape.name] - going[zone][shape.name] for zone, seen in zones.items()}
        if shape.even and staying[node.zone] + 1 - min(staying.values()) > 1:
            raise Broken("4 only where it may run", f"{where}: zone {node.zone} has too many of its kind")
        here.append(shape)


def _demand(placed: Sequence[Placed]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in placed:
        found.update(one.pod.shape.requests())
    return found


def _quota(world: World, placed: Sequence[Placed], plan: Plan) -> None:
    """A queue's use, and what it will use when promises are kept, stays within its quota where a decision raised it."""
    for queue in world.queues.values():
        raised = _demand([one for one in placed if one.group.queue == queue.name])
        promised = requests_of(hold for hold in plan.reservations if world.groups[hold.owner].queue == queue.name)
        leaving: Counter[str] = Counter()
        for line in plan.evictions:
            if world.groups[line.gang].queue == queue.name and line.pod in world.groups[line.gang].pods:
                leaving.update(world.groups[line.gang].pods[line.pod].shape.requests())
        for resource, most in queue.quota.items():
            now = world.charged(queue.name)[resource] + raised[resource]
            if raised[resource] and now > most:
                raise Broken("2 no queue above its quota", f"{queue.name} {resource} {now} of {most}")
            owed = requests_of(hold for hold in still_kept(world, placed) if hold.queue == queue.name)
            if raised[resource] and now + owed[resource] > most:
                raise Broken(
                    "3 room is kept for lost members", f"{queue.name} {resource}: quota for them is given away"
                )
            later = world.charged(queue.name, leaving=False)[resource] + raised[resource] + promised[resource]
            if promised[resource] and later - leaving[resource] > most:
                raise Broken("2 no queue above its quota", f"{queue.name} {resource} promised beyond {most}")


def _gangs(world: World, placed: Sequence[Placed], plan: Plan) -> None:
    """All of the minimum or nothing; who stays is told why, once."""
    for group in world.groups.values():
        mine = [one for one in placed if one.group is group]
        whole = group.whole(Counter(one.pod.role for one in mine))
        if mine and not whole:
            raise Broken("3 whole gangs", f"{group.uid} gets {len(mine)} places, needs {group.missing()}")
        told = [entry for entry in plan.waiting if entry.gang == group.uid]
        if group.waiting() and len(told) != (not whole):
            raise Broken("3 whole gangs", f"{group.uid} is told {len(told)} times why it waits")
        if any(not entry.reasons for entry in told):
            raise Broken("3 whole gangs", f"{group.uid} waits and is not told why")


def _victims(world: World, plan: Plan, policy: Policy) -> None:
    """Everybody who goes may go, and gangs keep their minimum or go whole."""
    rules = policy.preemption
    going: dict[str, set[str]] = {}
    for line in plan.evictions:
        going.setdefault(line.gang, set()).add(line.pod)
        by, victim = world.groups[line.by], world.groups[line.gang]
        mine, theirs = world.queues[by.queue], world.queues[victim.queue]
        lower = theirs.priority < mine.priority
        inside = rules.inside_queue and by.queue == victim.queue and victim.priority < by.priority
        yields = rules.surplus_yields and by.queue == victim.queue
        young = world.now - victim.started < rules.minimum_run_seconds * SECOND
        if "preempt" not in policy.actions or not theirs.preemptible:
            raise Broken("5 only those who may be victims", f"{line.pod} for {by.uid}: its queue is safe")
        if not ((lower or inside) and not young):
            left = [pod for pod in victim.bound() if not pod.leaving and pod.uid not in going[line.gang]]
            if not (yields and left):  # a later gang of the plan may still take the victims that are left, by rank
                raise Broken("5 only those who may be victims", f"{line.pod} of {theirs.name} for {by.uid}")
    for uid, pods in going.items():
        group = world.groups[uid]
        staying = [pod for pod in group.bound() if not pod.leaving]
        left = [pod for pod in staying if pod.uid not in pods]
        roles, before = Counter(pod.role for pod in left), Counter(pod.role for pod in staying)
        short = len(left) < group.minimum or any(roles[r] < min(n, before[r]) for r, n in group.roles.items())
        if left and short:
            raise Broken("5 only those who may be victims", f"{uid} loses {len(pods)} and keeps {len(left)}")
        if left and not pods <= group.pods.keys():
            raise Broken("5 only those who may be victims", f"{uid} loses kept room and keeps {len(left)}")
        if left and _keeps_idle_room(world, group):
            raise Broken("5 only those who may be victims", f"{uid} loses {len(pods)} and keeps room it does not need")


def _keeps_idle_room(world: World, group: Group) -> bool:
    """Whether room is kept for a member that a gang's minimum does not need beside those that run."""
    holds = [hold for hold in world.kept() if hold.owner == group.uid]
    kept = Counter(loss.pod.role for loss, hold in zip(group.lacking(), holds, strict=bool(holds)) if hold.node)
    placed = group.placed()
    lacks = Counter({role: max(0, least - placed[role]) for role, least in group.roles.items()})
    return (kept - lacks).total() > max(0, group.minimum - placed.total())


def _goes(plan: Plan, pod: Pod) -> bool:
    return any(line.pod == pod.uid for line in plan.evictions)


def _room_is_made(world: World, placed: Sequence[Placed], plan: Plan) -> None:
    """Once the victims are gone each preemptor fits where its room is held, whole."""
    for uid in {line.by for line in plan.evictions} | {hold.owner for hold in plan.reservations}:
        group = world.groups[uid]
        holds = [hold for hold in plan.reservations if hold.owner == uid]
        if len(holds) != group.missing():
            raise Broken("6 no victim goes in vain", f"{uid} needs {group.missing()} places, {len(holds)} are held")
        if any(one.group is group for one in placed):
            raise Broken("6 no victim goes in vain", f"{uid} starts and evicts")
        promised = requests_of(hold for hold in world.holds if hold.owner == uid and hold.node in world.nodes)
        if promised and all(promised[name] >= units for name, units in requests_of(holds).items()):
            raise Broken("6 one preemption a preemptor", f"{uid} evicts again, its promise stands")
        for hold in holds:
            shape = _shape(hold)
            if not allowed(world.nodes[hold.node], world.queues[group.queue], shape):
                raise Broken("6 no victim goes in vain", f"{uid} may not run on {hold.node}")
    over = {hold.owner for hold in plan.reservations} | {one.group.uid for one in placed}
    kept = [hold for hold in world.holds if hold.owner not in over]
    for name in {hold.node for hold in plan.reservations}:
        node = world.nodes[name]
        taken = Counter[str]()
        for pod in world.on(name):
            if not pod.leaving and not _goes(plan, pod):
                taken.update(pod.shape.requests())
        taken.update(_demand([one for one in placed if one.line.node == name]))
        taken += requests_of(hold for hold in (*plan.reservations, *kept) if hold.node == name)
        gone = over | {line.gang for line in plan.evictions}
        taken += requests_of(hold for hold in world.kept() if hold.node == name and hold.owner not in gone)
        asked = {resource for hold in plan.reservations if hold.node == name for resource, _ in hold.pod_class.requests}
        for resource in asked:
            if taken[resource] > node.has()[resource]:
                raise Broken("6 no victim goes in vain", f"{resource} of {name}: {taken[resource]} when all have gone")


def can_take_up(world: World, plan: Plan, uid: str) -> bool:
    """Whether a gang that the plan leaves waiting could go to the very places it was promised, after all it decides.

    Where rules about other pods decide, the check does not apply: they may have come near since. What is held for
    others whose victims are gone too is no excuse: when not all can be kept, one of them starts at the cost of the
    others.
    """
    group = world.groups[uid]
    queue = world.queues[group.queue]
    mine = [hold for hold in world.holds if hold.owner == uid]
    wanted = Counter(pod.shape.name for pod in group.wanted())
    if wanted.total() != group.missing() or wanted - Counter(_shape(hold).name for hold in mine):
        return False  # members of its own were lost since: it needs more than it was promised
    if any(pod.shape.ruled for pod in group.wanted()) or (queue.closed and not (group.ran or group.placed())):
        return False
    placed = _placed(world, plan)
    others = [hold for hold in (*world.holds, *plan.reservations) if hold.owner != uid]
    lasting = [hold for hold in world.holds if hold.owner != uid and world.is_left(hold.owner)]
    lasting += [hold for hold in plan.reservations if hold.owner != uid]
    lost = [hold for hold in (*still_kept(world, placed), *plan.kept) if hold.owner != uid]
    lasting += lost
    others += lost
    paid = [hold for hold in others if world.groups[hold.owner].queue == queue.name]
    charged = world.charged(queue.name) + _demand([one for one in placed if one.group.queue == queue.name])
    charged += requests_of(paid) + requests_of(mine)
    if any(charged[name] > most for name, most in queue.quota.items()):
        return False
    if any(hold.node not in world.nodes for hold in mine):
        return False
    if group.together and len({world.nodes[name].zone for name in _homes(group, mine)}) > 1:
        return False
    for name in {hold.node for hold in mine}:
        node, here = world.nodes[name], [hold for hold in mine if hold.node == name]
        landed = [one for one in placed if one.line.node == name]
        if not all(allowed(node, queue, _shape(hold)) for hold in here):
            return False
        taken = world.used(name) + _demand(landed) + requests_of(here)
        taken += requests_of(hold for hold in lasting if hold.node == name)
        if any(taken[resource] > node.has()[resource] for resource in requests_of(here)):
            return False
        ports = [pod.shape.port for pod in world.on(name)] + [one.pod.shape.port for one in landed]
        ports += [_shape(hold).port for hold in (*here, *(hold for hold in others if hold.node == name))]
        if any(_shape(hold).port and ports.count(_shape(hold).port) > 1 for hold in here):
            return False
    return True


def still_kept(world: World, placed: Sequence[Placed]) -> list[Reservation]:
    """Room kept for lost members of gangs that get no places."""
    started = {one.group.uid for one in placed if not one.surplus}
    return [hold for hold in world.kept() if hold.owner not in started]


def _homes(group: Group, holds: Sequence[Reservation]) -> set[str]:
    """Nodes where the gang is and where room is held for it."""
    return {pod.node for pod in group.bound() if not pod.leaving} | {hold.node for hold in holds}


def requests_of(holds: Iterable[Reservation]) -> Counter[str]:
    """What holds hold, in units."""
    found: Counter[str] = Counter()
    for hold in holds:
        found.update(dict(hold.pod_class.requests))
    return found


def _shape(hold: Reservation) -> Shape:
    """The shape whose requests and selectors a hold's class has."""
    for name, known in CLASSES.items():
        if hold.pod_class.requests == known.requests and hold.pod_class.constraints == known.constraints:
            return SHAPES[name]
    raise AssertionError(f"no shape asks for {hold.pod_class.requests}")


def _order(world: World, placed: Sequence[Placed], plan: Plan) -> None:
    """Who waits was not passed by one behind it that takes what it needed."""
    reasons = {entry.gang: entry.reasons for entry in plan.waiting}
    for uid, told in reasons.items():
        ahead = world.groups[uid]
        if told[0].code not in _BLOCKS:
            continue
        later = [one for one in placed if _is_behind(world, one, ahead) and not _in_own_room(world, one, placed)]
        if not later:
            continue
        queue = world.queues[ahead.queue]
        short = {resource for reason in told if reason.code == "QuotaExceeded" for resource in reason.needs}
        if queue.ordering == "Strict":
            for one in later:
                if one.group.queue == ahead.queue and _competes(world, queue, one, ahead, short):
                    raise Broken("8 only passed as its queue allows", f"{uid} by {one.pod.uid} in a strict queue")
        if not world.holds and not plan.reservations and _would_fit(world, plan, ahead, placed, later):
            who = sorted({one.group.uid for one in later})
            refill = not _key(ahead)[0] and any(_key(one.group)[0] for one in later)
            promise = "3 refilled before anything new" if refill else "8 only passed as its queue allows"
            raise Broken(promise, f"{uid} would fit in the room of {', '.join(who)}")


def _first_room(world: World, placed: Sequence[Placed], plan: Plan) -> None:
    """A lost member whose own place is of no use has room kept before anything new of its queue starts in it."""
    evicted = {line.gang for line in plan.evictions}
    homeless = [hold for hold in still_kept(world, placed) if not hold.node and hold.owner not in evicted]
    for hold in homeless:
        group, shape = world.groups[hold.owner], _shape(hold)
        if shape.ruled or shape.port or group.together or any(one.owner == group.uid for one in plan.kept):
            continue
        for one in placed:
            node = world.nodes[one.line.node]
            new = one.group.queue == group.queue and not one.group.refilling()
            if not new or not allowed(node, world.queues[group.queue], shape):
                continue
            room = node.has()
            room.subtract(world.used(node.name))
            room.subtract(_demand([other for other in placed if other is not one and other.line.node == node.name]))
            rooms = (*world.holds, *plan.reservations, *plan.kept, *still_kept(world, placed))
            room.subtract(requests_of(other for other in rooms if other.node == node.name))
            if all(room[resource] >= units for resource, units in shape.requests().items()):
                raise Broken("3 refilled before anything new", f"{one.pod.uid} takes room that {group.uid} needs back")


def _in_own_room(world: World, one: Placed, placed: Sequence[Placed]) -> bool:
    """Whether a gang's minimum takes no more of a node than is held there for it: no gang ahead of it waits for
    that."""
    uid, node = one.group.uid, one.line.node
    rooms = (*world.holds, *world.kept())
    held = requests_of(hold for hold in rooms if (hold.owner, hold.node) == (uid, node))
    here = [other for other in placed if (other.group.uid, other.line.node) == (uid, node) and not other.surplus]
    return not one.surplus and _demand(here) <= held


def _is_behind(world: World, one: Placed, ahead: Group) -> bool:
    """Whether a line of the plan comes after a waiting gang's minimum, whatever the shares."""
    theirs, mine = world.queues[one.group.queue], world.queues[ahead.queue]
    if one.surplus or theirs.priority != mine.priority:
        return one.surplus or theirs.priority < mine.priority
    return one.group.queue == ahead.queue and _key(one.group) > _key(ahead)


def _key(group: Group) -> tuple[bool, int, int, str]:
    return (not group.refilling(), -group.priority, group.created, group.uid)


def _competes(world: World, queue: Queue, taker: Placed, ahead: Group, short: set[str]) -> bool:
    shape = taker.pod.shape
    if short:
        return any(shape.requests()[resource] for resource in short)
    nodes = list(world.nodes.values())
    if taker.surplus and taker.group.together:  # its minimum has a zone, and no other could take it
        zone = world.nodes[taker.line.node].zone
        nodes = [node for node in nodes if node.zone == zone]
    asked = {pod.shape for pod in ahead.waiting()}  # which of them make up the minimum is the engine's to choose
    return all(any(could_run(node, queue, shape) and could_run(node, queue, one) for node in nodes) for one in asked)


def _would_fit(world: World, plan: Plan, ahead: Group, placed: Sequence[Placed], later: Sequence[Placed]) -> bool:
    """Whether the gang's minimum fits in what is free after the plan, with the room and quota of `later` given back.

    Only asked of gangs whose pods are alike and have no rules about others, for which counting is exact.
    """
    shapes = {pod.shape for pod in ahead.waiting()}
    shape = next(iter(shapes))
    if len(shapes) > 1 or shape.ruled or ahead.together:
        return False
    queue, need = world.queues[ahead.queue], ahead.missing()
    staying = [one for one in placed if one not in later]
    kept = _kept_at_its_turn(world, placed, ahead)
    mine = world.charged(queue.name)
    mine += _taken(
        [one for one in staying if one.group.queue == queue.name], [hold for hold in kept if hold.queue == queue.name]
    )
    asked = Counter({name: units * need for name, units in shape.requests().items()})
    if any(asked[name] and mine[name] + asked[name] > most for name, most in queue.quota.items()):
        return False
    room = 0
    for name, node in world.nodes.items():
        if not allowed(node, queue, shape):
            continue
        here = [one for one in staying if one.line.node == name]
        lost = [hold for hold in kept if hold.node == name]
        used = world.used(name) + _taken(here, lost)
        found = [hold for hold in plan.kept if hold.node == name and hold.owner != ahead.uid]
        used += requests_of(found)
        lost += found
        fit = min((node.has()[r] - used[r]) // units for r, units in shape.requests().items() if units)
        if shape.port:
            taken = any(pod.shape.port for pod in world.on(name)) or any(one.pod.shape.port for one in here)
            taken = taken or any(_shape(hold).port for hold in lost)
            fit = min(fit, 0 if taken else 1)
        room += max(0, fit)
    return room >= need


def _kept_at_its_turn(world: World, placed: Sequence[Placed], ahead: Group) -> list[Reservation]:
    """Room that others keep for lost members when it is a gang's turn.

    A gang that comes later keeps it until then, though the plan may start it elsewhere: another of its members may do.
    """
    queues, mine = world.queues, world.queues[ahead.queue]
    started = {one.group.uid for one in placed if not one.surplus}

    def before(group: Group) -> bool:
        theirs = queues[group.queue]
        return theirs.priority > mine.priority or (theirs is mine and _key(group) < _key(ahead))

    return [
        hold
        for hold in world.kept()
        if hold.owner != ahead.uid and not (hold.owner in started and before(world.groups[hold.owner]))
    ]


def _taken(placed: Sequence[Placed], kept: Sequence[Reservation]) -> Counter[str]:
    """What lines of a plan and kept rooms take; of a gang that has both, the larger, as it may have either."""
    found = _demand(placed)
    for owner in {hold.owner for hold in kept}:
        own = _demand([one for one in placed if one.group.uid == owner])
        found += requests_of(hold for hold in kept if hold.owner == owner) - own
    return found
