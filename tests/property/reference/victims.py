"""The plain reference with preemption: who has to go for whom, and the room that is promised then.

The set of victims is told exactly, with the room that is held: the best of all sets where units are few and the pods of
one kind, else what the search of `searching.py` finds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from t9ksched.engine.planner import Assignment, Plan
from t9ksched.model.cards import NO_CARDS
from t9ksched.model.gang import Gang
from tests.property.reference.held import by_node
from tests.property.reference.hunting import SECOND, Hunting
from tests.property.reference.moment import Differs, Kind, PlacedPod, Told


class WithVictims(Hunting):
    """One cycle, with the action `preempt`."""

    def compare(self, plan: Plan) -> None:
        self.plan = plan
        super().compare(plan)
        if [(one.gang, one.pod, one.by) for one in plan.evictions] != self.evicted:
            raise Differs(f"goes {plan.evictions} and not {self.evicted}")
        for hold in plan.reservations:
            state = self.view.queues[next(one.queue for one in self.view.gangs if one.uid == hold.owner)]
            rest = (hold.rank, hold.since, hold.until, hold.firm, hold.kind, hold.cards, hold.queue)
            if rest != (state.spec.priority, self.now, self.over[hold.owner], False, "victims", NO_CARDS, ""):
                raise Differs(f"{hold}")
        if [(hold.owner, hold.node) for hold in plan.reservations] != self.promised:
            raise Differs(f"held {plan.reservations} and not {self.promised}")

    def _place(self, gang: Gang, kinds: list[Kind], members: Sequence[Any], lines: Sequence[Assignment]) -> list[Told]:
        uid = gang.uid
        own = by_node(self.holds.get(uid, ()))
        promise, behind = self.promises.get(uid), bool(self._behind(gang.queue, kinds, self._ask(gang, kinds)))
        told = super()._place(gang, kinds, members, lines)
        blocked = behind and not own
        if not told:
            self._given_up(uid, own)
            if own and promise is None:  # it took up what it kept: no gang gets that room
                self.gone |= {(part.unit.group, part.unit.nth) for part in self.parts if part.group.uid == uid}
        elif not blocked and promise is not None and self._stands(promise, kinds):
            self.charged[gang.queue].update(promise)
            told = [("WaitingForVictims", {}, {}, {}), *told]
        elif not behind and "preempt" in self.policy.actions:
            told = self._preempt(gang, kinds, told)
            if uid not in self.holds:
                self._given_up(uid, own)
        if uid in self.promises and uid in self.holds and any(+self.began[name] for name in own):
            self.kept_first.add(uid)
            for name, units in own.items():
                self.behind_turn[name].subtract(units)
        return told

    def _stands(self, promise: Mapping[str, int], kinds: Iterable[Kind]) -> bool:
        """Whether what it was promised is still all that it asks for."""
        demand: Counter[str] = Counter()
        for kind in kinds:
            for resource, units in kind.of.requests:
                demand[resource] += units * len(kind.members)
        return all(promise.get(resource, 0) >= units for resource, units in demand.items())

    def _given_up(self, uid: str, own: Mapping[str, Counter[str]]) -> None:
        if uid in self.promises:
            for name, units in own.items():
                self.leased[name].subtract(units)
                if uid not in self.kept_first:
                    self.behind_turn[name].subtract(units)

    def _lent(self, gang: Gang) -> dict[str, Counter[str]]:
        """What has come free is its who is first; those who leave make room for the others.

        Where they do not make room for all, what is missing is missing for those behind.
        """
        found = {}
        for name, needs in by_node(self.holds.get(gang.uid, ())).items():
            lent: Counter[str] = Counter()
            for one in self.view.nodes.static.resources:
                missing = max(needs[one] - self.rooms[name].free[one] - self.began[name][one], 0)
                lost = min(missing, self.behind_turn[name][one] - needs[one])
                lent[one] = min(self.leased[name][one] - needs[one], self.certain[name][one] + lost)
            found[name] = lent
        return found

    def _preempt(self, gang: Gang, kinds: list[Kind], told: list[Told]) -> list[Told]:
        ask = self._ask(gang, kinds)
        holder, ruled = gang.uid in self.holds, any(self._ruled(kind) for kind in kinds)
        if (id(ask) in self.vain and not holder) or any(one[0] in ("NoNodeMatches", "NeverFits") for one in told):
            return told
        demand: Counter[str] = Counter()
        for kind in kinds:
            for resource, units in kind.of.requests:
                demand[resource] += units * len(kind.members)
        whole = demand + self.expected[gang.queue]
        short = {}
        for resource, most in self.view.queues[gang.queue].spec.quota.items():
            left = most - self.charged[gang.queue][resource] + self.leaving[gang.queue][resource]
            if 0 < whole[resource] > left:
                short[resource] = whole[resource] - left
        may = [part for part in self.parts if self._may(gang, part)]
        self._release(gang.uid)
        everywhere = list(self.rooms)
        if not short and gang.topology != "Required" and any(+has for has in self.coming.values()):
            places = self._fill(gang, kinds, self._free(), everywhere)
            if places is not None:
                self._release(gang.uid, 1)
                if ruled and not holder:
                    self.vain.add(id(ask))
                if ruled or holder:
                    return told
                pods = [kind for kind in kinds for _ in kind.members]
                for kind, name in zip(pods, places, strict=True):
                    self.coming[name].subtract(kind.needs)
                self.expected[gang.queue].update(demand)
                return told
        elif not short and gang.topology != "Required" and may:
            places = self._fill(gang, kinds, self._free(), everywhere)
            if places is not None:  # only other rules keep it waiting
                self._release(gang.uid, 1)
                if ruled and not holder:
                    self.vain.add(id(ask))
                if ruled or holder:
                    return told
                self.expected[gang.queue].update(demand)
                pods = [kind for kind in kinds for _ in kind.members]
                for kind, name in zip(pods, places, strict=True):
                    self.coming[name].subtract(kind.needs)
                return told
        found = self._chosen(gang, kinds, may, short)
        if found is None:
            self._release(gang.uid, 1)
            if not holder:
                self.vain.add(id(ask))
            return told
        going, places = found
        if self.now < gang.evicts_from:
            self._release(gang.uid, 1)
            return [("BindRefused", {}, {}, {}), *told]
        self.holds.pop(gang.uid, None)
        self.missing.pop(gang.uid, None)
        self.owed.pop(gang.uid, None)
        self.gone |= {(part.unit.group, part.unit.nth) for part in going}
        self.slow = max([self.slow, *(part.group.grace for part in going)])
        most = self.policy.preemption.max_grace_seconds * SECOND
        self.over[gang.uid] = self.now + min(self.slow, most) + 70 * SECOND
        for part in going:
            self.leaving[part.group.queue].update(part.unit.uses)
            for name, units in part.unit.frees.items():
                self.coming[name].update(units)
        chosen = {pod.uid for part in going for pod in part.pods}
        self.leave |= {part.group.uid for part in going}
        for group in sorted(self.view.running, key=lambda one: one.uid):
            self.evicted += [(group.uid, pod.uid, gang.uid) for pod in group.pods if pod.uid in chosen]
        self.promised += [(gang.uid, name) for name in places]
        pods = [kind for kind in kinds for _ in kind.members]
        for kind, name in zip(pods, places, strict=True):
            self._take(kind, name, 1, {})
            self.placed_pods.append(
                PlacedPod(name, kind.namespace, kind.labels, kind.rules.apart, kind.rules.prefer_pods, room=True)
            )
            self.leased[name].update(kind.needs)
        self.charged[gang.queue].update(demand)
        return [("WaitingForVictims", {"members": len(chosen)}, {}, {}), *told]


class Searched(WithVictims):
    """The same where sets are searched, never all of them looked at."""

    every = -1
