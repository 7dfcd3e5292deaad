"""Why a gang waits, as codes and numbers."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from t9ksched.engine.planner import Waiting
from t9ksched.model.gang import Gang, Member
from tests.property.reference.moment import Kind, Told, Unclear
from tests.property.reference.unkept import Unkept


class Telling(Unkept):
    """Reasons."""

    def _alone(self, queue: str, kind: Kind, scope: set[str] | None) -> Told | None:
        """What room pods of a kind lack for themselves, and how many nodes would match if they were not away."""
        told = self._short(queue, kind, scope)
        if told is None or not told[3]["match"] or told[0] == "NoNodeMatches":
            return told
        more = {"accelerators not ready": self.unprepared(queue, kind)}
        if told[0] == "InsufficientResources" and self._lacks_when_empty(queue, kind, scope):
            more |= self._away(queue, [kind])
        return *told[:3], {**told[3], **{label: count for label, count in more.items() if count}}

    def _lacks_when_empty(self, queue: str, kind: Kind, scope: set[str] | None) -> bool:
        within = [name for name in self.match(queue, kind) if scope is None or name in scope]
        return sum(self._fits(kind, name, empty=True) for name in within) < len(kind.members)

    def _could_ever(self, queue: str, kind: Kind, scope: set[str] | None) -> bool:
        """Whether the pods of a kind alone would fit if nothing ran and no node were away."""
        within = [name for name in self.match_ever(queue, kind) if scope is None or name in scope]
        return sum(self._fits(kind, name, empty=True) for name in within) >= len(kind.members)

    def _unprepared_node(self, name: str) -> bool:
        facts = self.rooms[name].facts
        return facts.unready is not None or facts.mode == "NotReady"

    def _away(self, queue: str, kinds: Iterable[Kind], among: set[str] | None = None) -> dict[str, int]:
        """Nodes that would take a pod but for what passes, by the first of it; none that lacks accelerators alone."""
        found: dict[str, str] = {}
        for kind in kinds:
            for name in set(self.match_ever(queue, kind)) - set(self.match(queue, kind)):
                if (among is not None and name not in among) or not self._fits(kind, name, empty=True):
                    continue
                facts = self.rooms[name].facts
                if not facts.ready or facts.deleting:
                    found.setdefault(name, "not ready")
                elif facts.unschedulable and not self._tolerates_cordon(kind):
                    found.setdefault(name, "unschedulable")
                elif not self._tolerates_all(kind, facts):
                    found.setdefault(name, "taints")
                elif kind.of.accelerated and facts.unsure:
                    found.setdefault(name, "card holders")
        return dict(Counter(found.values()))

    def _short(self, queue: str, kind: Kind, scope: set[str] | None) -> Told | None:
        pods, match, ever = len(kind.members), self.match(queue, kind), self.match_ever(queue, kind)
        within = [name for name in match if scope is None or name in scope]
        at_best = [name for name in ever if scope is None or name in scope]
        most = sum(min(pods, self._fits(kind, name, empty=True)) for name in at_best)
        waits = sum(self.removes(queue, kind, room.facts) == "database" for room in self.rooms.values())
        if waits and most >= pods:
            return "DatabaseAway", {}, {}, {"match": len(match), "database": waits}
        offering = self._offering(kind)
        none = not (match or waits) and (most >= pods or self._excluded_ever(queue, kind))
        if none or self._is_not_offered(queue, kind):
            gone = Counter(self.removes(queue, kind, self.rooms[name].facts) for name in offering)
            lacking = len(self.rooms) - len(offering)
            more = {"resources": lacking} if lacking else {}
            return "NoNodeMatches", {}, {}, {"total": len(self.rooms), "match": 0, **gone, **more}
        requests = dict(kind.of.requests)
        if most < pods:
            if most:
                return "NeverFits", {"members": pods}, {"members": most}, {"match": len(ever)}
            largest = {
                resource: max(self.rooms[name].facts.allocatable.get(resource, 0) for name in ever)
                for resource in requests
            }
            needs = {name: units for name, units in requests.items() if units > largest[name]}
            needs = needs or {name: units for name, units in requests.items() if name != "pods"}
            return "NeverFits", needs, {name: largest[name] for name in needs}, {"match": len(ever), "fit": 0}
        fits = [self._fits(kind, name) for name in within]
        fit = sum(min(pods, one) for one in fits)
        if fit >= pods:
            return None
        if fit:
            nodes = {"match": len(match), "fit": sum(one > 0 for one in fits)}
            return "InsufficientResources", {"members": pods}, {"members": fit}, nodes
        best = {name: max(0, *(self.rooms[node].free[name] for node in match)) for name in kind.needs}
        short = {name: units for name, units in kind.needs.items() if units > best[name]}
        if not short:

            def part(node: str) -> int:
                free = self.rooms[node].free
                return min(min(max(free[name], 0), units) * 512 // units for name, units in kind.needs.items())

            closest = max(match, key=part)
            best = {name: max(0, self.rooms[closest].free[name]) for name in kind.needs}
            short = {name: units for name, units in kind.needs.items() if units > best[name]}
        nodes = {"match": len(match), "fit": 0}
        return "InsufficientResources", short, {name: best[name] for name in short}, nodes

    def _is_not_offered(self, queue: str, kind: Kind) -> bool:
        """Whether no node that has the devices would match, not even if none were away."""
        now = {
            name
            for name, room in self.rooms.items()
            if all(room.facts.allocatable.get(resource) for resource in kind.of.extended)
        }
        return bool(kind.of.extended) and not (now or self._offering(kind)) & set(self.match_ever(queue, kind))

    def _excluded_ever(self, queue: str, kind: Kind) -> bool:
        """Whether no node would match even if none were away, or that is not known."""
        if self._is_not_offered(queue, kind):
            return True
        ever = self.match_ever(queue, kind)
        unknown = kind.of.accelerated and any(self._unprepared_node(name) for name in ever)
        return not self.match(queue, kind) and (not ever or unknown)

    def _offering(self, kind: Kind) -> set[str]:
        """Nodes that have all of the devices, or cards that are not ready or handed out by others; all where none."""
        asked = kind.of.extended
        found = {
            name
            for name, room in self.rooms.items()
            if all(room.facts.allocatable.get(resource) for resource in asked)
            or set(asked) & set(room.facts.by_dra)
            or (kind.of.accelerated and self._unprepared_node(name))
        }
        return found or set(self.rooms)

    def _together_away(self, queue: str, kinds: Sequence[Kind], scope: set[str] | None) -> Told | None:
        """The same of nodes that are not away, with those that are."""
        if all(self.match(queue, kind) == self.match_ever(queue, kind) for kind in kinds):
            return None
        if any(self._lacks_when_empty(queue, kind, scope) for kind in kinds):
            return None
        told = self._never_together(queue, kinds, scope, self.match)
        if told is None:
            return None
        return "InsufficientResources", told[1], told[2], {**told[3], **self._away(queue, kinds)}

    def _never_together(
        self,
        queue: str,
        kinds: Sequence[Kind],
        scope: set[str] | None,
        match_of: Callable[[str, Kind], list[str]],
    ) -> Told | None:
        """Why kinds that fit alone would not together if nothing ran, as far as numbers prove it."""
        ever = {id(kind): [name for name in match_of(queue, kind) if scope is None or name in scope] for kind in kinds}
        able = {id(kind): {name for name in ever[id(kind)] if self._fits(kind, name, empty=True)} for kind in kinds}

        if (unkept := self._unkept(queue, kinds, match_of, able)) is not None:
            return unkept
        for term in dict.fromkeys(term for kind in kinds for term in self._apart(kind)):
            those = [kind for kind in kinds if term in self._apart(kind)]
            pods = sum(len(kind.members) for kind in those)
            domains = {self._domain(term.topology_key, name) for kind in those for name in able[id(kind)]} - {None}
            outside = sum(
                min(len(kind.members), self._fits(kind, name, empty=True))
                for kind in those
                for name in able[id(kind)]
                if self._domain(term.topology_key, name) is None
            )
            if pods > len(domains) + outside:
                match = set().union(*(match_of(queue, kind) for kind in those))
                return "NeverFits", {"members": pods}, {"members": len(domains) + outside}, {"match": len(match)}
        if len(kinds) < 2:
            return None
        for resource in self.view.nodes.static.resources:
            need = sum(kind.needs.get(resource, 0) * len(kind.members) for kind in kinds)
            where = set().union(*(able[id(kind)] for kind in kinds if kind.needs.get(resource)))
            there = sum(self.rooms[name].facts.allocatable.get(resource, 0) for name in where)
            if need > there:
                return "NeverFits", {resource: need}, {resource: there}, {"match": len(where)}
        for first in range(2, len(kinds) + 1):
            those = kinds[:first]
            pods = sum(len(kind.members) for kind in those)
            least = {name: min(kind.needs.get(name, 0) for kind in those) for name in those[0].needs}
            where = set().union(*(able[id(kind)] for kind in those))
            fit = 0
            for name in where:
                has = self.rooms[name].facts.allocatable
                fit += min(pods, *(has.get(resource, 0) // units for resource, units in least.items() if units))
            if fit < pods:
                return "NeverFits", {"members": pods}, {"members": fit}, {"match": len(where)}
        pods = sum(len(kind.members) for kind in kinds)
        shut = any(kind.rules.filters or kind.of.host_ports or kind.of.volumes for kind in kinds)
        if pods > 64 or shut or self._fit_together(kinds, ever):
            return None
        return "NeverFits", {"members": pods}, {}, {"match": len(set().union(*ever.values()))}

    def _fit_together(self, kinds: Sequence[Kind], where: Mapping[int, Sequence[str]]) -> bool:
        """Whether there is a way to place all pods on these nodes, by kind, with nothing on them: tried pod by pod."""
        vain: set[tuple[int, ...]] = set()
        names = sorted(set().union(*where.values()))
        free = {name: Counter(self.rooms[name].facts.allocatable) for name in names}

        def place(nth: int, left: int) -> bool:
            if not left:
                nth, left = nth + 1, len(kinds[nth + 1].members) if nth + 1 < len(kinds) else 0
            if nth == len(kinds):
                return True
            kind = kinds[nth]
            state = (nth, left, *(free[name][resource] for name in names for resource in sorted(free[name])))
            if state in vain:
                return False
            if len(vain) > 20_000:
                raise Unclear
            for name in where[id(kind)]:
                if all(free[name][resource] >= units for resource, units in kind.needs.items()):
                    free[name].subtract(kind.needs)
                    done = place(nth, left - 1)
                    free[name].update(kind.needs)
                    if done:
                        return True
            vain.add(state)
            return False

        return place(0, len(kinds[0].members))

    def _ruled(self, kind: Kind) -> bool:
        return bool(kind.rules.terms) or self._asked(kind)

    def _against(self, queue: str, kind: Kind, scope: set[str] | None) -> Told | None:
        """How many nodes with room each rule about pods forbids."""
        match = self.match(queue, kind)
        roomy = [name for name in match if self._fits(kind, name) and (scope is None or name in scope)]
        if not roomy:
            return None
        forbids = {name: self.forbidden(queue, kind, name) for name in roomy}
        gone: Counter[str] = Counter()
        for label in ("pod affinity", "pod anti-affinity", "topology spread"):
            gone[label] = sum(label in one for one in forbids.values())
        if not +gone and len(kind.members) == 1:
            return None
        left = sum(not one for one in forbids.values())
        nodes = {"match": len(match), "fit": len(roomy), **+gone, "left": left}
        return "TopologyNotSatisfied", {"members": len(kind.members)}, {}, nodes

    def _lacking(self, queue: str, kinds: Iterable[Kind]) -> list[Told]:
        return unique(told for kind in kinds if (told := self._alone(queue, kind, None)) is not None)

    def _no_room(
        self, queue: str, kinds: Sequence[Kind], scope: set[str] | None = None, *, within: bool = False
    ) -> list[Told]:
        found = [told for kind in kinds if (told := self._alone(queue, kind, scope)) is not None]
        if all(self._could_ever(queue, kind, scope) for kind in kinds):
            together = self._never_together(queue, kinds, scope, self.match_ever)
            together = together or self._together_away(queue, kinds, scope)
            if together is not None:
                return [together]
        for kind in kinds:
            alone = self._alone(queue, kind, scope)
            if self._ruled(kind) and (alone is None or alone[0] == "InsufficientResources"):
                against = self._against(queue, kind, scope)
                found += [] if against is None else [against]
        if found or within:  # within one domain: room for each kind in the whole cluster says nothing of them together
            return unique(found)
        total = sum(len(kind.members) for kind in kinds)
        match = set().union(*(self.match(queue, kind) for kind in kinds))
        return [("InsufficientResources", {"members": total}, {}, {"match": len(match)})]

    def _parts(self, gang: Gang) -> Iterator[set[str]]:
        """The nodes of each domain of each level."""
        for level in gang.levels:
            for value in {self._domain(level, name) for name in self.rooms} - {None}:
                yield {name for name in self.rooms if self._domain(level, name) == value}

    def _never_within(self, gang: Gang, kinds: Sequence[Kind]) -> Told | None:
        """Why no domain could hold all of the gang if nothing ran and no node were away."""
        queue, pods = gang.queue, sum(len(kind.members) for kind in kinds)
        if gang.topology != "Required" or gang.nodes or any(self._excluded_ever(queue, kind) for kind in kinds):
            return None
        best = max((self._most(queue, kinds, self.match_ever, nodes) for nodes in self._parts(gang)), default=0)
        if best >= pods:
            return None
        match = set().union(*(self.match_ever(queue, kind) for kind in kinds))
        return "NeverFits", {"members": pods}, {"members": best}, {"match": len(match)}

    def _not_together(self, gang: Gang, kinds: Sequence[Kind]) -> Told:
        queue, pods = gang.queue, sum(len(kind.members) for kind in kinds)
        placed = {name for name in gang.nodes if name in self.rooms}
        if placed and (there := [nodes for nodes in self._parts(gang) if placed <= nodes]):
            # Levels are told from narrow to wide, and of each one domain has them all.
            return self._too_little(queue, kinds, there[-1])
        best = 0
        for nodes in self._parts(gang):
            fits = 0
            for kind in kinds:
                match, count = set(self.match(queue, kind)), len(kind.members)
                fits += min(count, sum(min(count, self._fits(kind, name)) for name in nodes if name in match))
            best = max(best, fits)
        more: dict[str, int] = {}
        away = any(self.match(queue, kind) != self.match_ever(queue, kind) for kind in kinds)
        if (
            not placed
            and away
            and all(self._most(queue, kinds, self.match, nodes) < pods for nodes in self._parts(gang))
        ):
            able = [nodes for nodes in self._parts(gang) if self._most(queue, kinds, self.match_ever, nodes) >= pods]
            more = self._away(queue, kinds, set().union(*able))
        return "TopologyNotSatisfied", {"members": pods}, {"members": best}, more

    def _too_little(self, queue: str, kinds: Sequence[Kind], nodes: set[str]) -> Told:
        """Why these nodes, the domain of members that have places, have too little room for others."""
        fit = empty = 0
        for kind in kinds:
            count, match = len(kind.members), set(self.match(queue, kind)) & nodes
            fit += min(count, sum(min(count, self._fits(kind, name)) for name in match))
            empty += min(count, sum(min(count, self._fits(kind, name, empty=True)) for name in match))
        pods = sum(len(kind.members) for kind in kinds)
        match = set().union(*(self.match(queue, kind) for kind in kinds)) & nodes
        more = {} if empty >= pods else self._away(queue, kinds, nodes)
        return "TopologyNotSatisfied", {"members": pods}, {"members": fit}, {"match": len(match), **more}

    def _no_room_above(self, queue: str, kind: Kind, scope: set[str] | None) -> list[Told]:
        """Why members above the minimum of a gang find no place in its domain."""
        if scope is None:
            return self._no_room(queue, [kind])
        told = self._short(queue, kind, None)
        if told is not None and told[0] in ("NeverFits", "NoNodeMatches", "DatabaseAway"):
            return [told]
        count, match = len(kind.members), set(self.match(queue, kind)) & scope
        short = sum(min(count, self._fits(kind, name)) for name in match) < count
        found = [self._too_little(queue, [kind], scope)] if short else []
        if self._ruled(kind) and (against := self._against(queue, kind, scope)) is not None:
            found.append(against)
        return found or self._no_room(queue, [kind], scope)


def unique(told: Iterable[Told]) -> list[Told]:
    found: list[Told] = []
    for one in told:
        found += [one] if one not in found else []
    return found


def told_by(one: Waiting) -> list[Told]:
    return unique(
        (reason.code.value, dict(reason.needs), dict(reason.has), dict(reason.nodes)) for reason in one.reasons
    )


def short_of_members(gang: Gang) -> bool:
    there = dict(gang.total_roles)
    return gang.total < gang.min_member or any(there.get(role, 0) < least for role, least in gang.roles)


def incomplete(gang: Gang) -> list[Told]:
    """What a gang with too few members is told."""
    needs, has = {}, {}
    if gang.total < gang.min_member:
        needs["members"], has["members"] = gang.min_member, gang.total
    for role, least in gang.roles:
        there = dict(gang.total_roles).get(role, 0)
        if there < least:
            needs[f"role:{role}"], has[f"role:{role}"] = least, there
    blocked = [(one.code.value, dict(one.needs), dict(one.has), dict(one.nodes)) for one in gang.blocked]
    found: list[Told] = [("GangIncomplete", needs, has, {})] if needs else []
    if found or blocked:
        return [*found, *blocked]
    held = sum(count for _, count in gang.placed)
    return [("GangIncomplete", {"members": gang.min_member}, {"members": held + len(gang.waiting)}, {})]


def minimum(gang: Gang) -> tuple[list[Member], list[Member], bool]:
    """Members that make up what is missing of the minimum, those above it, and whether there are enough.

    Of each role that is short the first ones, then the first of the others.
    """
    placed = Counter(dict(gang.placed))
    short = {role: max(0, least - placed[role]) for role, least in gang.roles}
    chosen: list[Member] = []
    for one in gang.waiting:
        if short.get(one.role, 0) > 0:
            short[one.role] -= 1
            chosen.append(one)
    for one in gang.waiting:
        if len(chosen) < gang.min_member - placed.total() and one not in chosen:
            chosen.append(one)
    enough = gang.total >= gang.min_member and not any(short.values())
    enough = enough and len(chosen) >= gang.min_member - placed.total()
    if not enough:
        return list(gang.waiting), [], False
    return [one for one in gang.waiting if one in chosen], [one for one in gang.waiting if one not in chosen], True
