"""Why a gang waits, as codes and numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence

from t9ksched.engine.planner import Waiting
from t9ksched.model.gang import Gang, Member
from tests.property.reference.moment import Kind, Told
from tests.property.reference.placing import Placing


class Telling(Placing):
    """Reasons."""

    def _alone(self, queue: str, kind: Kind, scope: set[str] | None) -> Told | None:
        """What room pods of a kind lack for themselves, and how many nodes would match with accelerators ready."""
        told = self._short(queue, kind, scope)
        waits = self.unprepared(queue, kind)
        if told is None or not told[3]["match"] or not waits:
            return told
        return *told[:3], {**told[3], "accelerators not ready": waits}

    def _short(self, queue: str, kind: Kind, scope: set[str] | None) -> Told | None:
        pods, match = len(kind.members), self.match(queue, kind)
        within = [name for name in match if scope is None or name in scope]
        if kind.of.unrecorded:
            waits = sum(self.removes(queue, kind, room.facts) == "database" for room in self.rooms.values())
            if waits:
                return "DatabaseAway", {}, {}, {"match": len(match), "database": waits}
        if not match:
            gone = Counter(self.removes(queue, kind, room.facts) for room in self.rooms.values())
            return "NoNodeMatches", {}, {}, {"total": len(self.rooms), "match": 0, **gone}
        requests = dict(kind.of.requests)
        most = sum(min(pods, self._fits(kind, name, empty=True)) for name in within)
        if most < pods:
            if most:
                return "NeverFits", {"members": pods}, {"members": most}, {"match": len(match)}
            largest = {
                resource: max(self.rooms[name].facts.allocatable.get(resource, 0) for name in match)
                for resource in requests
            }
            needs = {name: units for name, units in requests.items() if units > largest[name]}
            needs = needs or {name: units for name, units in requests.items() if name != "pods"}
            return "NeverFits", needs, {name: largest[name] for name in needs}, {"match": len(match), "fit": 0}
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

    def _ruled(self, kind: Kind) -> bool:
        return bool(kind.rules.terms) or self._asked(kind)

    def _against(self, queue: str, kind: Kind, scope: set[str] | None) -> Told | None:
        """How many nodes with room each rule about pods forbids."""
        match = self.match(queue, kind)
        roomy = [name for name in match if self._fits(kind, name) and (scope is None or name in scope)]
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

    def _no_room(self, queue: str, kinds: Sequence[Kind], scope: set[str] | None = None) -> list[Told]:
        found = [told for kind in kinds if (told := self._alone(queue, kind, scope)) is not None]
        found += [
            told for kind in kinds if self._ruled(kind) and (told := self._against(queue, kind, scope)) is not None
        ]
        if found:
            return unique(found)
        total = sum(len(kind.members) for kind in kinds)
        match = set().union(*(self.match(queue, kind) for kind in kinds))
        return [("InsufficientResources", {"members": total}, {}, {"match": len(match)})]

    def _not_together(self, gang: Gang, kinds: Sequence[Kind]) -> Told:
        best = 0
        for level in gang.levels:
            for value in {self._domain(level, name) for name in self.rooms} - {None}:
                nodes = [name for name in self.rooms if self._domain(level, name) == value]
                fits = 0
                for kind in kinds:
                    match, pods = set(self.match(gang.queue, kind)), len(kind.members)
                    fits += min(pods, sum(min(pods, self._fits(kind, name)) for name in nodes if name in match))
                best = max(best, fits)
        return "TopologyNotSatisfied", {"members": sum(len(kind.members) for kind in kinds)}, {"members": best}, {}


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
