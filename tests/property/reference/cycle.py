"""The decision of one cycle once more, slow and plain: who starts where, and who is told what.

Written from the policy, with dictionaries, fractions and lists of pods. It shares nothing with the engine but the
values that a view is made of. `Reference(view, policy, now).compare(plan)` walks the cycle in its own order and holds
every line of the plan against what it finds: who starts, in which order, on which nodes, with which cards, and who
waits, at which position, for which reasons with which numbers. Where nodes are so nearly equal that rounding decides,
either is fine.
Preemption is added by `victims.py`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from t9ksched.engine.planner import Assignment, Plan
from t9ksched.model.gang import Gang, Member
from t9ksched.model.reservation import Reservation
from tests.property.reference.held import Holding
from tests.property.reference.moment import Ask, Differs, Kind, Told, Unclear
from tests.property.reference.placing import grants
from tests.property.reference.telling import incomplete, minimum, short_of_members, told_by, unique


class Reference(Holding):
    """One cycle, walked through by hand."""

    def compare(self, plan: Plan) -> None:
        """Walk the cycle beside a plan.

        Raises:
            Differs: the plan has another line somewhere.
        """
        lines: dict[str, list[Assignment]] = {}
        for one in plan.assignments:
            lines.setdefault(one.gang, []).append(one)
        started: list[str] = []
        above: dict[str, list[tuple[Gang, list[Member]]]] = {}
        queues: dict[str, list[Gang]] = {}
        for gang in self.view.gangs:
            queues.setdefault(gang.queue, []).append(gang)
        for gangs in queues.values():
            gangs.sort(key=self._turn)
        for name in sorted(queues.keys() - self.view.queues.keys()):
            gangs = queues.pop(name)
            for gang in sorted(gangs, key=_basic):
                members, rest, enough = minimum(gang)
                if members or not enough:
                    self._stay(gang, [("QueueNotFound", {}, {}, {})])
                elif rest:
                    self.short.append((gang.uid, [("QueueNotFound", {}, {}, {})]))
        while queues:
            name = self._best(queues)
            gang = queues[name].pop(0)
            if not queues[name]:
                del queues[name]
            before = len(started)
            rest = self._judge(gang, lines, started)
            if len(started) == before and rest is None:
                continue
            if rest:
                above.setdefault(name, []).append((gang, rest))
        grown: list[tuple[str, str, dict[str, int]]] = []
        while above:
            name = self._best(above)
            gang, members = above[name].pop(0)
            if not above[name]:
                del above[name]
            self._grow(gang, members, lines, grown)
        self._read(plan, started, grown)

    def _turn(self, one: Gang) -> tuple[Any, ...]:
        compared = (
            -one.priority if name == "basic" else self._plugin(name).gang_rank(one, self.now)
            for name in self.policy.gang_order
        )
        return (not one.refilling, *compared, one.created, one.name, one.uid)

    def _judge(self, gang: Gang, lines: Mapping[str, list[Assignment]], started: list[str]) -> list[Member] | None:
        """Judge one gang; the members above its minimum if that stands or starts, else None."""
        state = self.view.queues[gang.queue]
        paid = self.owed.get(gang.uid)
        if paid:
            self.charged[paid[0]].subtract(paid[1])
        if state.spec.closed and not (gang.accepted or gang.ran or gang.placed):
            self._wait(gang, [("QueueClosed", {}, {}, {})])
            return None
        members, rest, enough = minimum(gang)
        if not enough:
            self._wait(gang, incomplete(gang))
            return None
        if not members:
            return rest
        kinds = sorted(self._kinds(members), key=lambda kind: self._hardness(gang.queue, kind))
        promise = self.promises.get(gang.uid)
        if promise is not None and (
            gang.uid in self.holds or not self._behind(gang.queue, kinds, self._ask(gang, kinds))
        ):
            self.charged[gang.queue].subtract(promise)
        told = self._place(gang, kinds, members, lines.get(gang.uid, []))
        if told:
            if state.spec.ordering == "Strict" and told[0][0] != "Behind":
                self.strict.setdefault(gang.queue, []).append((kinds, self._ask(gang, kinds)))
            self._wait(gang, told)
            return None
        started.append(gang.uid)
        return rest

    def _ask(self, gang: Gang, kinds: Sequence[Kind]) -> Ask:
        together = () if gang.topology == "None" else (gang.topology, gang.levels, gang.nodes)
        key = (gang.queue, together, tuple((kind.of, kind.spoken, len(kind.members)) for kind in kinds))
        return self.asks.setdefault(key, Ask())

    def _place(
        self, gang: Gang, kinds: list[Kind], members: Sequence[Member], lines: Sequence[Assignment]
    ) -> list[Told]:
        queue, uid = gang.queue, gang.uid
        ask = self._ask(gang, kinds)
        behind = self._behind(queue, kinds, ask)
        if behind and uid not in self.holds:
            return behind
        demand: Counter[str] = Counter()
        for kind in kinds:
            for resource, units in kind.of.requests:
                demand[resource] += units * len(kind.members)
        opened = uid in self.owed
        if ask.over and not opened and uid not in self.promises:
            return ask.over
        if short := self._shortfalls(queue, demand):
            needs = {name: asked for name, (asked, _) in short.items()}
            has = {name: max(0, left) for name, (_, left) in short.items()}
            ask.over = [("QuotaExceeded", needs, has, {}), *self._lacking(queue, kinds)]
            return ask.over
        own = uid in self.holds
        if ask.no_room and not own:
            return ask.no_room
        self._release(uid)
        mine = list(lines[: len(members)])
        picks = None
        if mine:
            picks = {id(kind): [one.node for one in mine if one.pod in {m.uid for m in kind.members}] for kind in kinds}
        put = None
        lent = self._lent(gang) if uid in self.promised_to else {}
        nodes = None
        if behind:
            lent, nodes = self._only_own(gang, lent)
        self._lend(lent, 1)
        kept = {hold.node for hold, _ in self.holds.get(uid, ())} if uid not in self.promised_to else set()
        avoid = {name for hold in self.missing.get(uid, ()) for name in hold.avoid}
        if avoid:
            kept |= set(self.rooms) - avoid
        if (kept or avoid) and not behind:
            put = self._fit(gang, kinds, kept, picks)
        if put is None:
            put = self._fit(gang, kinds, nodes, picks)
        self._lend(lent, -1)
        if put is None:
            told = behind
            if not behind:
                told = self._no_room(queue, kinds, within=gang.topology == "Required")
                if all(one[0] != "NeverFits" for one in told):
                    never = self._never_within(gang, kinds)
                    hopeless = any(one[0] in ("NoNodeMatches", "CardTypeMismatch") for one in told)
                    if gang.topology == "Required" and not hopeless:
                        told = [self._not_together(gang, kinds), *told]
                    told = [*self._held(gang, kinds), *told] if never is None else [never]
            self._release(uid, 1)
            if mine and self.clear:
                raise Differs(f"{uid} starts, and should not on {picks}: {told}")
            if not own:
                ask.no_room = told
            return told
        if not mine:
            if self.clear:
                raise Differs(f"{uid} should start on {[name for _, name, _ in put]}")
            raise Unclear
        self._compare_lines(put, members, mine, kinds)
        self.charged[queue].update(demand)
        if own or any(self._seen(kind) for kind in kinds):
            for other in self.asks.values():
                other.no_room = []
        self.holds.pop(uid, None)
        self.missing.pop(uid, None)
        self.owed.pop(uid, None)
        self.promised_to.discard(uid)
        return []

    def _seen(self, kind: Kind) -> bool:
        """Whether rules of others, or its own, look at where such a pod stands."""
        return bool(kind.rules.apart or kind.rules.prefer_pods or any(kind.spoken))

    def _compare_lines(
        self,
        put: Sequence[tuple[Kind, str, dict[str, int]]],
        members: Sequence[Member],
        lines: Sequence[Assignment],
        kinds: Sequence[Kind],
    ) -> None:
        """Members of a kind take its places in their order, each with the lowest idle cards."""
        if len(lines) != len(put):
            raise Differs(f"{lines[0].gang} has {len(lines)} places, not {len(put)}")
        turns = {id(kind): iter(kind.members) for kind in kinds}
        for (kind, name, masks), line in zip(put, lines, strict=True):
            member = next(turns[id(kind)])
            index = self.view.nodes.static.index[name]
            expected = (member.uid, name, self.view.nodes.static.generation[index], masks, grants(kind.of, masks))
            found = (line.pod, line.node, line.generation, dict(line.grant.masks), line.cards)
            if found != expected:
                if not self.clear:
                    raise Unclear
                raise Differs(f"{found} and not {expected}")

    def _behind(self, queue: str, kinds: Sequence[Kind], ask: Ask, scope: set[str] | None = None) -> list[Told]:
        """A strict queue lets no gang pass that would take what one ahead waits for; a growing gang, within its
        domain."""
        for ahead, theirs in self.strict.get(queue, ()) if not ask.behind else ():
            if theirs.over:
                takes = any(kind.needs.get(resource) for kind in kinds for resource in theirs.over[0][1])
            else:
                mine = set().union(*(self.able(queue, kind) for kind in kinds))
                both = mine & set().union(*(self.able(queue, kind) for kind in ahead))
                takes = bool(both if scope is None else both & scope)
            if takes:
                ask.behind = [("Behind", {}, {}, {})]
                break
        return ask.behind

    def _held(self, gang: Gang, kinds: Sequence[Kind]) -> list[Told]:
        """Whether it would fit in room that is held for others."""
        match = set().union(*(self.match(gang.queue, kind) for kind in kinds))
        others = [
            owner
            for owner, held in self.holds.items()
            if owner != gang.uid and any(hold.node in match for hold, _ in held)
        ]
        if not others:
            return []
        for owner in others:
            self._release(owner)
        put = self._fit(gang, kinds, None, None)
        if put is not None:
            self._off(put)
        for owner in others:
            self._release(owner, 1)
        self.scopes.pop(gang.uid, None)
        return [] if put is None else [("HeldForOther", {}, {}, {})]

    def _wait(self, gang: Gang, told: list[Told]) -> None:
        """It stays; what it kept is paid for again, and a place is sought for what has none."""
        uid = gang.uid
        if uid in self.owed:
            self.charged[self.owed[uid][0]].update(self.owed[uid][1])
        left = []
        for hold in self.missing.pop(uid, []):
            if uid in self.leave:
                left.append(hold)
                continue
            kind = Kind(hold.pod_class, "", {})
            scope = self._shared(gang) if gang.topology == "Required" else None
            others = set(self.rooms) - set(hold.avoid)
            put = self._pack(gang.queue, kind, 1, others if scope is None else scope & others, None)
            put = put or self._pack(gang.queue, kind, 1, scope, None)
            if not put:
                left.append(hold)
                continue
            name = put[0][1]
            self._off(put)
            self.found.append((uid, name))
            self._occupy(Reservation(uid, name, hold.pod_class, hold.kind))
        if left:
            self.missing[uid] = left
        kept = len(self.holds.get(uid, ())) if uid not in self.promised_to else 0
        if (kept or left) and short_of_members(gang):
            told = [*told, ("GangIncomplete", {"members": kept + len(left)}, {"members": kept}, {})]
        self._stay(gang, told)

    def _stay(self, gang: Gang, told: list[Told]) -> None:
        self.waiting.setdefault(gang.queue, []).append((gang, told))

    def _shared(self, gang: Gang) -> set[str] | None:
        """The narrowest domain that has all of its members."""
        homes = [name for name in gang.nodes if name in self.rooms]
        for level in gang.levels if homes else ():
            value = self._domain(level, homes[0])
            if value is not None and all(self._domain(level, name) == value for name in homes):
                return {name for name in self.rooms if self._domain(level, name) == value}
        return None

    def _grow(
        self,
        gang: Gang,
        members: Sequence[Member],
        lines: Mapping[str, list[Assignment]],
        grown: list[tuple[str, str, dict[str, int]]],
    ) -> None:
        """Members above the minimum take what there is, kind after kind; the first that lack something say what."""
        queue, scope = gang.queue, None
        if gang.topology == "Required":
            scope = self.scopes.get(gang.uid) or self._shared(gang)
        told: list[Told] = []
        for kind in self._kinds(members):
            wanted = len(kind.members)
            spec = self.view.queues[queue].spec
            allowed = wanted
            for resource, most in spec.quota.items():
                if units := kind.needs.get(resource, 0):
                    allowed = min(allowed, max(0, most - self.charged[queue][resource]) // units)
            key = (queue, (), ((kind.of, kind.spoken, wanted),))
            behind = (
                self._behind(queue, [kind], self.asks.setdefault(key, Ask()), scope) if queue in self.strict else []
            )
            names = {one.uid for one in kind.members}
            picks = [one.node for one in lines.get(gang.uid, ()) if one.pod in names]
            put = [] if behind else self._pack(queue, kind, allowed, scope, picks or None)
            for (_, name, masks), member in zip(put, kind.members, strict=False):
                grown.append((member.uid, name, masks))
                for resource, units in kind.of.requests:
                    self.charged[queue][resource] += units
            if len(put) < wanted and not told:
                left = kind.members[len(put) :]
                rest = Kind(kind.of, kind.namespace, kind.labels, left)
                if behind:
                    told = behind
                elif len(put) < allowed:
                    told = self._no_room_above(queue, rest, scope)
                else:
                    demand = {name: units * len(left) for name, units in kind.of.requests}
                    short = self._shortfalls(queue, demand)
                    needs = {name: asked for name, (asked, _) in short.items()}
                    told = [("QuotaExceeded", needs, {name: max(0, has) for name, (_, has) in short.items()}, {})]
        if told:
            self.short.append((gang.uid, told))

    def _read(self, plan: Plan, started: list[str], grown: list[tuple[str, str, dict[str, int]]]) -> None:
        """The rest of the plan: order of the lines, growth, and who is told what."""
        above = {uid for uid, _, _ in grown}
        minima = [one for one in plan.assignments if one.pod not in above]
        if list(dict.fromkeys(one.gang for one in minima)) != started:
            raise Differs(f"started in order {started}")
        found = [(one.pod, one.node, dict(one.grant.masks)) for one in plan.assignments if one.pod in above]
        if found != grown or len(minima) + len(grown) != len(plan.assignments):
            raise Differs(f"grown {found} and not {grown}")
        waiting = [
            (gang.uid, position if name in self.view.queues else 0, unique(told))
            for name, gangs in sorted(self.waiting.items())
            for position, (gang, told) in enumerate(gangs, start=1)
        ]
        mine = [(one.gang, one.position, told_by(one)) for one in plan.waiting]
        if mine != waiting:
            raise Differs(_first(mine, waiting))
        if [(one.gang, told_by(one)) for one in plan.surplus] != self.short:
            raise Differs(f"surplus {plan.surplus} and not {self.short}")
        if [(hold.owner, hold.node) for hold in plan.kept] != self.found:
            raise Differs(f"room found {plan.kept} and not {self.found}")


def _basic(one: Gang) -> tuple[Any, ...]:
    return (not one.refilling, -one.priority, one.created, one.name, one.uid)


def _first(mine: Sequence[object], theirs: Sequence[object]) -> str:
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            return f"{one}\nand not\n{other}"
    return f"{len(mine)} wait and not {len(theirs)}"
