"""Who may go for a gang, and who does: every set where they are few, else by search."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key, partial
from itertools import combinations
from typing import Any

from t9ksched.engine.planner import Plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang, Running, RunningPod
from tests.property.cheapest import QueueUse, Unit
from tests.property.reference.cycle import Reference
from tests.property.reference.held import by_node
from tests.property.reference.moment import Kind
from tests.property.reference.searching import Free, Ground, Part, cheaper, clear

SECOND = 10**9
MOST_UNITS = 10
"""Of more units than this not every set is examined."""


def parts(group: Running) -> list[tuple[list[RunningPod], bool]]:
    """Members above the minimum one by one, highest index first, then all that it cannot do without.

    Minima of roles stay, and the first member; members that ended well count, room that is kept for lost ones does not.
    While more room is kept than the minimum needs, no member goes by itself.
    """
    staying = [pod for pod in group.pods if not pod.leaving]
    runs = [pod for pod in staying if not pod.kept]
    ended = Counter(dict(group.succeeded))
    roles = ended + Counter(pod.role for pod in runs)
    spare = len(runs) + ended.total() - group.min_member
    lacks = Counter({role: max(0, least - roles[role]) for role, least in group.roles})
    if Counter(pod.role for pod in staying if pod.kept) - lacks and spare > 0:
        spare = 0
    first = next((pod for pod in group.pods if not pod.kept), None)
    above: list[RunningPod] = []
    for pod in reversed(runs):
        least = dict(group.roles).get(pod.role, 0)
        if len(above) < spare and pod is not first and roles[pod.role] > least and len(runs) > 1:
            roles[pod.role] -= 1
            above.append(pod)
    rest = [pod for pod in staying if pod not in above]
    return [([pod], True) for pod in above] + ([(rest, False)] if rest else [])


class Hunting(Reference):
    """What a search for victims looks at."""

    every = MOST_UNITS
    """Of up to so many units every set is looked at."""

    def __init__(self, view: View, policy: Policy, now: int) -> None:
        super().__init__(view, policy, now)
        self.plan: Plan | None = None
        self.coming: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.leaving: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.expected: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.vain: set[int] = set()
        self.kept_first: set[str] = set()
        self.gone: set[tuple[str, int]] = set()
        self.evicted: list[tuple[str, str, str]] = []
        self.promised: list[tuple[str, str]] = []
        self.over: dict[str, int] = {}
        """By UID of the gang that is promised room, when the promise ends."""
        self.slow = max((one.grace for one in view.running if any(pod.leaving for pod in one.pods)), default=0)
        """The longest grace of those who leave."""
        self.parts: list[Part] = []
        self.began: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.certain: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Room of those who were leaving when the cycle began, and the part that nothing can keep from coming."""
        self.leased: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for owner in self.promised_to & self.holds.keys():
            for name, units in by_node(self.holds[owner]).items():
                self.leased[name].update(units)
        self.behind_turn = {name: Counter(units) for name, units in self.leased.items()}
        """What is held for victims' room, and the part whose owners lose it first."""
        for group in sorted(view.running, key=lambda one: one.uid):
            for pod in group.pods:
                if pod.leaving:
                    self.coming[pod.node].update(self._frees(pod))
                    self.began[pod.node].update(self._frees(pod))
                    self.certain[pod.node].update(self._frees(pod) if pod.asked else {})
                    self.leaving[group.queue].update(dict(pod.pod_class.requests))
            for nth, (pods, above) in enumerate(parts(group)):
                uses: Counter[str] = Counter()
                frees: dict[str, Counter[str]] = {}
                for pod in pods:
                    uses.update(dict(pod.pod_class.requests))
                    frees.setdefault(pod.node, Counter()).update(self._frees(pod))
                unit = Unit(
                    *(group.uid, nth, group.queue, group.priority, group.created, len(pods), uses, frees),
                    *(group.guarded, above),
                )
                self.parts.append(Part(unit, group, pods, above))

    def _frees(self, pod: RunningPod) -> Counter[str]:
        """What comes free when a pod goes; not its cards that take no new work."""
        if pod.node not in self.rooms:
            return Counter()
        found, facts = Counter(dict(pod.pod_class.requests)), self.rooms[pod.node].facts
        for name, mask in pod.cards.masks:
            if name in facts.cards and facts.cards.withdrawn:
                found[name] = (
                    mask & ((1 << facts.cards.counts[name]) - 1) & ~dict(facts.cards.withdrawn.masks).get(name, 0)
                ).bit_count()
        return found

    # --- who may go

    def _may(self, gang: Gang, part: Part) -> bool:
        """By the letter of the policy; members above a minimum go for a waiting minimum of their own queue, too."""
        rules, group = self.policy.preemption, part.group
        if group.queue not in self.view.queues or not self.view.queues[group.queue].spec.preemptible:
            return False
        if (part.unit.group, part.unit.nth) in self.gone:
            return False
        same = group.queue == gang.queue
        if same and part.above and rules.surplus_yields:
            return True
        if rules.minimum_run_seconds and self.now - group.started < rules.minimum_run_seconds * SECOND:
            return False
        if rules.most_evictions_a_day and group.evictions >= rules.most_evictions_a_day:
            return False
        if same:
            return rules.inside_queue and group.priority < gang.priority
        return self.view.queues[group.queue].spec.priority < self.view.queues[gang.queue].spec.priority

    def _cure(self, gang: Gang, may: Sequence[Part], short: Mapping[str, int]) -> list[Part] | None:
        """Those of its own queue that go so that the quota suffices: what is above minima, then by rank and age; None
        when that is too little."""
        own = [part for part in may if part.group.queue == gang.queue]
        yields = self.policy.preemption.surplus_yields

        def turn(one: Part) -> Any:
            group = one.group
            return not (yields and one.above), group.guarded, group.priority, -group.created, group.uid, one.unit.nth

        own.sort(key=turn)
        missing, must = dict(short), []
        for part in own:
            if any(units > 0 for units in missing.values()):
                must.append(part)
                missing = {name: units - part.unit.uses[name] for name, units in missing.items()}
        return None if any(units > 0 for units in missing.values()) else must

    # --- room

    def _free(self, going: Iterable[Part] = ()) -> Free:
        """What is free on each node when those who leave, and these, have gone."""
        found = {}
        for name, room in self.rooms.items():
            found[name] = Counter(room.free)
            found[name].update(self.coming[name])
            for part in going:
                found[name].update(part.unit.frees.get(name, Counter()))
        return found

    def _fill(self, gang: Gang, kinds: Sequence[Kind], free: Free, nodes: Iterable[str]) -> list[str] | None:
        """The node of each pod when nodes are filled in order of their names, kind after kind; None without room."""
        left = {name: Counter(has) for name, has in free.items()}
        among, found = set(nodes), []
        for kind in kinds:
            match = [name for name in self.match(gang.queue, kind) if name in among]
            pods = len(kind.members)
            for name in match:
                fit = min(left[name][resource] // units for resource, units in kind.needs.items())
                if kind.of.host_ports:
                    ports = self.rooms[name].ports
                    fit = min(fit, 0 if any(m.conflicts(p) for m in kind.of.host_ports for p in ports) else 1)
                took = max(0, min(fit, pods))
                pods -= took
                found += [name] * took
                for resource, units in kind.needs.items():
                    left[name][resource] -= units * took
            if pods:
                return None
        return found

    def _chosen(
        self, gang: Gang, kinds: list[Kind], may: list[Part], short: Mapping[str, int]
    ) -> tuple[list[Part], list[str]] | None:
        """Who goes, and the node of each pod."""
        everywhere, ruled = list(self.rooms), any(self._ruled(kind) for kind in kinds)
        if not may or self._fill(gang, kinds, self._free(may), everywhere) is None:
            return None
        must = self._cure(gang, may, short) if short else []
        if must is None:
            return None
        helps = self._helpful(gang, kinds, may, everywhere)
        contest = [part for part in may if part in must or part.group.uid in helps]
        domains = [everywhere]
        if gang.topology == "Required":
            domains = [sorted(nodes) for nodes in self._any_domains(gang)]
            grounds = [self._ground(gang, kinds, contest, must, nodes) for nodes in domains]
            there = [ground.fits([]) for ground in grounds]
            if not must and any(there) and not ruled:
                return None
            if not must:
                domains = [nodes for nodes, fits in zip(domains, there, strict=True) if not fits]
        best: Any = None
        found: list[tuple[list[Part], list[str]]] = []
        for nodes in domains:
            ground = self._ground(gang, kinds, contest, must, nodes)
            helps = self._helpful(gang, kinds, contest, nodes)
            allowed = [part for part in contest if part not in must and part.group.uid in helps]
            if len(allowed) > self.every or len(kinds) > 1:
                one = clear(ground)
                choices = [] if one is None else [one]
            else:
                sets = self._sets(ground, allowed, must)
                choices = [([*must, *going], places) for going in sets if (places := self._places(ground, must, going))]
            if ruled:
                among = set().union(*(self._reach(gang, kind, kinds) for kind in kinds))
                scope = set(nodes) if gang.topology == "Required" else among
                compared = cmp_to_key(partial(self._compared, ground, must))
                best_here = min(choices, key=compared, default=None)
                choices = [] if best_here is None else self._confirmed(gang, kinds, best_here[0], scope)
            for going, places in choices:
                price = ground.price([part for part in going if len(kinds) > 1 or part not in must])
                if not going or (best is not None and cheaper(best, price)):
                    continue
                found = [*found, (going, places)] if best is not None and best[1] == price[1] else [(going, places)]
                best = price
        planned = self._planned(gang)
        return next((one for one in found if one[1] == planned), found[0] if found else None)

    def _compared(self, ground: Ground, must: Sequence[Part], one: Any, other: Any) -> int:
        first, second = (ground.price([part for part in each[0] if part not in must]) for each in (one, other))
        return -1 if cheaper(first, second) else 1

    def _confirmed(
        self, gang: Gang, kinds: list[Kind], going: list[Part], scope: set[str]
    ) -> list[tuple[list[Part], list[str]]]:
        """The same with places that rules about pods allow when these have gone; they count as long as they stand."""
        gone = [pod for part in going for pod in part.pods if pod.node in self.rooms]

        def vacate(sign: int) -> None:
            for pod in gone:
                room = self.rooms[pod.node]
                for resource, units in self._frees(pod).items():
                    room.free[resource] += sign * units
                    room.used[resource] -= sign * units
                for card, mask in pod.cards.masks:
                    if card in room.idle:
                        broken = dict(room.facts.cards.withdrawn.masks).get(card, 0)
                        well = mask & ((1 << room.facts.cards.counts[card]) - 1) & ~broken
                        room.idle[card] = room.idle[card] | well if sign > 0 else room.idle[card] & ~well

        vacate(1)
        put = self._together(gang.queue, kinds, scope, None)
        counts = [Counter(name for kind, name, _ in put or () if kind is one) for one in kinds]
        if put is not None:
            self._off(put)
        vacate(-1)
        if put is None:
            return []
        return [(going, [name for one in counts for name in self.rooms for _ in range(one[name])])]

    def _reach(self, gang: Gang, kind: Kind, kinds: Sequence[Kind]) -> list[str]:
        """Nodes that rules about pods may allow sooner or later, with the others of its gang beside it."""
        match = self.match(gang.queue, kind)
        if not self._ruled(kind):
            return match
        along = any(self._speaks(term, one.namespace, one.labels) for term in kind.rules.together for one in kinds)
        ignored = {"topology spread", "pod affinity"} if along else {"topology spread"}
        return [name for name in match if not set(self.forbidden(gang.queue, kind, name)) - ignored]

    def _places(self, ground: Ground, must: list[Part], going: list[Part]) -> list[str]:
        took = ground.filled(0, ground.after([*must, *going]), len(ground.kinds[0].members), {})
        return [name for name in ground.nodes for _ in range(took[name])]

    def _ground(
        self, gang: Gang, kinds: list[Kind], contest: list[Part], must: list[Part], nodes: Sequence[str]
    ) -> Ground:
        match = [set(self._reach(gang, kind, kinds)) for kind in kinds]
        closed = [
            {
                name
                for name, room in self.rooms.items()
                if any(mine.conflicts(other) for mine in kind.of.host_ports for other in room.ports)
            }
            for kind in kinds
        ]
        return Ground(
            *(nodes, kinds, self._free(), match, closed, self.parts, contest, must),
            self._queue_attribution(gang, contest),
            self._frees,
        )

    def _planned(self, gang: Gang) -> list[str]:
        assert self.plan is not None
        return [hold.node for hold in self.plan.reservations if hold.owner == gang.uid]

    def _any_domains(self, gang: Gang) -> list[set[str]]:
        homes = [name for name in gang.nodes if name in self.rooms]
        found = []
        for level in gang.levels:
            for value in sorted({value for name in self.rooms if (value := self._domain(level, name)) is not None}):
                nodes = {name for name in self.rooms if self._domain(level, name) == value}
                found += [nodes] if nodes.issuperset(homes) else []
        return found

    def _helpful(self, gang: Gang, kinds: Sequence[Kind], among: Iterable[Part], nodes: Iterable[str]) -> set[str]:
        """Groups with a pod there that leaves something wanted."""
        match = {name for kind in kinds for name in self._reach(gang, kind, kinds)} & set(nodes)
        wanted = {resource for kind in kinds for resource in kind.needs}
        return {
            part.group.uid
            for part in among
            for pod in part.pods
            if pod.node in match and any(self._frees(pod)[resource] > 0 for resource in wanted)
        }

    def _queue_attribution(self, gang: Gang, contest: Iterable[Part]) -> dict[str, QueueUse]:
        found = {}
        for name in {part.group.queue for part in contest}:
            spec = self.view.queues[name].spec
            whole: Counter[str] = Counter(spec.quota)
            for room in self.rooms.values() if not spec.quota else ():
                facts = room.facts
                selected = spec.node_selector is None or spec.node_selector.matches(facts.labels)
                if facts.ready and not facts.deleting and selected:
                    whole.update(facts.allocatable)
            used = Counter(self.charged[name])
            used.subtract(self.leaving[name])
            measures = {resource: units for resource, units in whole.items() if units or spec.quota}
            yields = name == gang.queue and self.policy.preemption.surplus_yields
            found[name] = QueueUse(spec.priority, used, measures, yields)
        return found

    def _sets(self, ground: Ground, allowed: list[Part], must: list[Part]) -> Iterable[list[Part]]:
        """Every set that makes room, in the order of each gang, of which no victim can be spared."""

        def fits(going: Iterable[Part]) -> bool:
            return ground.fits([*must, *going])

        def last(part: Part, going: Sequence[Part]) -> bool:
            return not any(one.group is part.group and one.unit.nth > part.unit.nth for one in going)

        for size in range(len(allowed) + 1):
            for chosen in combinations(allowed, size):
                going = list(chosen)
                ordered = all(
                    other in going
                    for part in going
                    for other in allowed
                    if other.group is part.group and other.unit.nth < part.unit.nth
                )
                spare = (part for part in going if last(part, going))
                if ordered and fits(going) and not any(fits([o for o in going if o is not part]) for part in spare):
                    yield going
