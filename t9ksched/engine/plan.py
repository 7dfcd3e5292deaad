"""The decision of one cycle: `plan(view, policy, now) -> Plan`, a pure function.

`Planner` does the same in slices, for a shell that must answer others in between; the result does not depend on how it
is sliced, nor on the memo it was given. Minima first: the best queue's best gang is placed whole on the trial and
committed, or undone and explained. When every minimum has been judged, members above minima take what room is left.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.ask import Ask, Asks, alike, chosen
from t9ksched.engine.cards import grants
from t9ksched.engine.crowd import Crowd
from t9ksched.engine.decision import Assignment, Eviction, Plan, Stats, Waiting
from t9ksched.engine.held import Held
from t9ksched.engine.ledger import Ledger, Shortfall
from t9ksched.engine.masks import Mask, Memo
from t9ksched.engine.nodes import Int64s
from t9ksched.engine.order import Line, QueueOrder, gang_key, sort_gangs
from t9ksched.engine.placement import pack, place_together, wanting_company
from t9ksched.engine.policy import Policy
from t9ksched.engine.preemption import Choice, Preemption
from t9ksched.engine.recall import Recall
from t9ksched.engine.topology import domains, scopes, shared
from t9ksched.engine.trial import Placement, Trial
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang, Member
from t9ksched.model.hold import VICTIMS, Hold
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.volumes import FREE_PREFIX

__all__ = ["Assignment", "Eviction", "Plan", "Planner", "Stats", "Waiting", "plan"]

_NO_ROOM_HELPS = (Code.NO_NODE_MATCHES, Code.NEVER_FITS)
"""With one of these among its reasons a gang would not fit, whoever went."""


def plan(view: View, policy: Policy, now: int, memo: Memo | None = None) -> Plan:
    """Decide who goes where. `now` is in nanoseconds since the epoch; it ends holds and tells how long jobs ran."""
    planner = Planner(view, policy, now, memo)
    while not planner.step(1 << 20):
        pass
    return planner.result()


class Planner:
    """A cycle in slices: call `step` until it says done, then take `result`."""

    def __init__(self, view: View, policy: Policy, now: int, memo: Memo | None = None) -> None:
        self._view = view
        self._policy = policy
        self._now = now
        crowd = Crowd.of(view)
        self._trial = Trial(view.nodes, memo or Memo(), policy, crowd)
        self._ledger = Ledger(view.queues, self._total)
        self._asks = Asks(self._trial, view.queues)
        self._stats = Stats()
        self._assignments: list[Assignment] = []
        self._staying: dict[str, list[tuple[Gang, tuple[Reason, ...]]]] = {}
        self._short: list[Waiting] = []
        self._strict: dict[str, list[tuple[int, Ask]]] = {}
        self._evictions: list[Eviction] = []
        self._holds: list[Hold] = []
        self._preemption: Preemption | None = None
        self._scopes: dict[str, Mask] = {}
        self._held = Held(view.holds, self._trial, now)
        self._recall = Recall(view, self._trial, self._held, self._ledger, policy)
        by_queue: dict[str, list[Gang]] = {}
        for gang in view.gangs if crowd is None else crowd.derive(view.gangs):
            by_queue.setdefault(gang.queue, []).append(gang)
        sort = partial(sort_gangs, policy=policy, plugins=self._trial.plugins, now=now)
        self._minima = {name: Line(gangs, sort) for name, gangs in by_queue.items() if name in view.queues}
        self._above: dict[str, list[tuple[Gang, list[Member]]]] = {}
        self._above_at: dict[str, int] = {}
        for name in sorted(by_queue.keys() - view.queues.keys()):
            self._without_queue(name, by_queue[name])
        self._order = self._ordered(self._minima)
        self._in_surplus = False
        self._promised = self._promise()

    def step(self, gangs: int) -> bool:
        """Judge up to so many gangs. Returns whether the plan is complete."""
        while gangs > 0:
            name = self._order.best()
            if name is None:
                if self._in_surplus:
                    return True
                self._in_surplus = True
                self._order = self._ordered(self._above)
                continue
            gangs -= 1
            if self._in_surplus:
                at = self._above_at.get(name, 0)
                gang, members = self._above[name][at]
                self._grow(gang, members)
                self._above_at[name] = at + 1
                self._order.served(more=at + 1 < len(self._above[name]), grown=True)
            else:
                line = self._minima[name]
                paid = self._stats.placed + self._stats.preempted
                gang = line.pop()
                self._judge(gang)
                if gang.uid in self._promised:
                    self._held.keep(gang.uid, self._victims().leaving)
                self._order.served(more=bool(line), grown=self._stats.placed + self._stats.preempted > paid)
        return self._in_surplus and self._order.best() is None

    @property
    def assignments(self) -> Sequence[Assignment]:
        """What has been decided so far: it only grows, and stays decided."""
        return self._assignments

    def result(self) -> Plan:
        """The plan of what has been judged."""
        known = self._view.queues
        waiting = [
            Waiting(gang.uid, reasons, position if name in known else 0)
            for name, gangs in sorted(self._staying.items())
            for position, (gang, reasons) in enumerate(gangs, start=1)
        ]
        return Plan(
            tuple(self._assignments),
            tuple(waiting),
            tuple(self._short),
            self._stats,
            tuple(self._evictions),
            tuple(self._holds),
            tuple(self._trial.plugins.faults),
        )

    def _ordered(self, names: Iterable[str]) -> QueueOrder:
        specs = {name: state.spec for name, state in self._view.queues.items()}
        plugins, used = self._trial.plugins, self._ledger.used
        ranks = {
            use.name: lambda name, use=use: plugins.queue_rank(use, name, specs[name], used(name))
            for use in self._policy.plugins
            if use.name in self._policy.queue_order
        }
        share = self._ledger.share
        return QueueOrder(list(names), specs, share, self._policy, ranks, lambda: len(plugins.faults))

    def _total(self, queue: str) -> dict[str, int]:
        totals = self._trial.memo.total(self._view.queues[queue].spec.node_selector).tolist()
        found = dict(zip(self._trial.nodes.static.resources, totals, strict=True))
        # Nobody is charged with free volumes, so they are no part of a share while a plan is made either.
        return {name: amount for name, amount in found.items() if not name.startswith(FREE_PREFIX)}

    def _without_queue(self, name: str, gangs: list[Gang]) -> None:
        reasons = (explain.queue_not_found(name),)
        self._stats.judged += len(gangs)
        for gang in sorted(gangs, key=gang_key):
            members, rest, enough = chosen(gang)
            if members or not enough:
                self._stay(gang, reasons)
            elif rest:
                self._short.append(Waiting(gang.uid, reasons))

    def _judge(self, gang: Gang) -> None:
        """Place the gang's minimum whole, or say why not."""
        self._stats.judged += 1
        spec = self._view.queues[gang.queue].spec
        if spec.closed and not (gang.accepted or gang.ran or gang.placed):
            self._stay(gang, (explain.queue_closed(gang.queue),))
            return
        members, rest, enough = chosen(gang)
        if not enough:
            missing = explain.incomplete(gang)
            reasons = (*((missing,) if missing else ()), *gang.blocked)
            self._stay(gang, reasons or (explain.too_few(gang),))
            return
        if members:
            together = () if gang.topology == "None" else (gang.topology, gang.levels, gang.nodes)
            ask = self._asks.get(gang.queue, members, together)
            behind = self._behind(gang.queue, ask)
            if behind is not None and gang.uid not in self._held.of:
                self._stay(gang, behind)
                return
            promise = self._promised.get(gang.uid)
            if promise is not None:
                self._ledger.uncharge(gang.queue, promise)
            reasons = self._place(gang, ask, members, behind)
            if reasons and promise is not None and self._kept(promise, ask):
                self._ledger.charge(gang.queue, promise)
                reasons = (explain.waiting_for_victims(0, 0), *reasons)
            elif reasons and behind is None and "preempt" in self._policy.actions:
                reasons = self._preempt(gang, ask, reasons)
            if reasons:
                if spec.ordering == "Strict":
                    position = len(self._staying.get(gang.queue, ())) + 1
                    self._strict.setdefault(gang.queue, []).append((position, ask))
                self._stay(gang, reasons)
                return
        if rest:
            self._above.setdefault(gang.queue, []).append((gang, rest))

    def _place(
        self, gang: Gang, ask: Ask, members: Sequence[Member], behind: tuple[Reason, ...] | None
    ) -> tuple[Reason, ...]:
        """Commit the gang and return no reason, or leave the trial as it was and return why.

        Room that is held for a gang is not what those ahead of it wait for: nobody else may have that. Whoever is
        `behind` them may have no other.
        """
        # For whoever was promised room the queue pays already: what one like it was told is not true of it.
        if ask.over_quota is not None and gang.uid not in self._promised:
            self._stats.alike += 1
            return ask.over_quota
        shortfalls = self._ledger.can_charge(gang.queue, ask.demand)
        if shortfalls:
            # Within a cycle a queue's use only grows, so gangs alike get the same answer.
            ask.over_quota = (explain.quota_exceeded(shortfalls), *explain.lacking(ask.groups))
            return ask.over_quota
        own = self._held.of.get(gang.uid)
        if ask.no_room and not own:
            self._stats.alike += 1
            return ask.no_room
        trial = self._trial
        mark = start = trial.mark()
        lent: dict[int, Int64s] = {}
        nodes = None
        if own:
            for placement in own:
                trial.release(placement)
            if self._held.whys[gang.uid] == VICTIMS:
                victims = self._victims()
                lent = self._held.lent(own, trial.free, victims.leaving, victims.certain)
            if behind is not None:
                lent, nodes = self._held.alone(own, trial.free, lent)
            trial.lend(lent)
            start = trial.mark()
        self._stats.tried += 1
        if not own and (known := self._recall.answer(gang, ask)) is not None:
            ask.no_room = known
            return known
        self._recall.failures.tried += 1
        fits = self._fit(gang, ask, nodes)
        if lent:
            trial.lend({row: -room for row, room in lent.items()})
        if not fits:
            reasons = self._why(gang, ask) if behind is None else behind
            trial.undo(mark)
            if not own:
                ask.no_room = reasons
                self._recall.note(gang, ask, reasons)
            return reasons
        self._assign(gang, members, trial.since(start))
        trial.commit()
        self._ledger.charge(gang.queue, ask.demand)
        self._stats.placed += 1
        if ask.seen:
            self._asks.forget_rooms()  # where these pods stand may be what others wait for
        if own:
            # What it held and did not use is free again: answers given before may no longer hold.
            self._give_up(gang.uid)
            self._asks.forget_rooms()
        return ()

    def _give_up(self, owner: str) -> None:
        """Room that was held is held no longer."""
        for placement in self._held.give_up(owner):
            self._recall.moved[placement.row] = True

    def _victims(self) -> Preemption:
        """The search for victims; made when it is first needed."""
        if self._preemption is None:
            self._preemption = Preemption(self._view, self._trial, self._ledger, self._policy, self._now)
        return self._preemption

    def _promise(self) -> dict[str, dict[str, int]]:
        """What gangs were promised when victims were evicted for them; their queues pay for it from then on."""
        queues = {gang.uid: gang.queue for gang in self._view.gangs if gang.queue in self._view.queues}
        promised = {owner: demand for owner, demand in self._held.promised().items() if owner in queues}
        for owner, demand in promised.items():
            self._ledger.charge(queues[owner], demand)
        return promised

    def _kept(self, promise: dict[str, int], ask: Ask) -> bool:
        """Whether the promise still stands: a lost node takes its part away."""
        return all(promise.get(resource, 0) >= amount for resource, amount in ask.demand.items())

    def _preempt(self, gang: Gang, ask: Ask, reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
        """Choose who has to go for the gang, promise it their room, and say so; or leave the reasons as they are."""
        holder = gang.uid in self._held.of  # needs fewer victims than one like it
        if (ask.no_victims and not holder) or any(reason.code in _NO_ROOM_HELPS for reason in reasons):
            return reasons
        short = self._ledger.can_charge(gang.queue, ask.demand, staying=True)
        self._stats.searched += 1
        # With a minimum run time, time alone makes victims; a quota that is short changes with every charge.
        timed = bool(self._policy.preemption.minimum_run_seconds)
        lasts = not (short or timed or holder)
        if lasts and self._recall.in_vain(gang, ask):
            ask.no_victims = True
            return reasons
        self._recall.failures.searched += 1
        trial = self._trial
        mark = trial.mark()
        for placement in self._held.of.get(gang.uid, ()):
            trial.release(placement)
        victims = self._victims()
        choice = self._choice(victims, gang, ask, short)
        if choice is None:
            trial.undo(mark)
            ask.no_victims = ask.no_victims or not holder
            if lasts and not self._evictions:  # those who go already may stay, should nobody carry that out
                self._recall.note_vain(gang, ask)
            return reasons
        if choice.victims and self._now < gang.evicts_from:
            trial.undo(mark)
            return (explain.evicts_later(gang.evicts_from), *reasons)
        self._give_up(gang.uid)
        victims.take(choice)
        self._evict(gang, ask, choice)
        self._ledger.charge(gang.queue, ask.demand)
        trial.commit()
        self._stats.preempted += 1
        jobs = len(set(map(id, map(itemgetter(0), choice.victims))))
        return (explain.waiting_for_victims(len(choice.victims), jobs), *reasons)

    def _choice(self, preemption: Preemption, gang: Gang, ask: Ask, short: Sequence[Shortfall]) -> Choice | None:
        """Victims for the gang, within one domain if it must be in one, and confirmed where rules about pods decide."""
        trial, groups = self._trial, ask.groups
        ruled = ask.ruled
        scopes: Iterable[Mask | None] = [None]
        if gang.topology == "Required":
            scopes = domains(trial, gang)
        elif ruled:
            reachable: Mask = np.logical_or.reduce([column.reachable() for column, _ in groups])
            scopes = [reachable]
        best: Choice | None = None
        for scope in scopes:
            trial.within(scope)
            found = preemption.choose(gang, groups, short)
            if found is not None and ruled:
                found = preemption.confirmed(groups, found)
            trial.within(None)
            if found is not None and (best is None or len(found.victims) < len(best.victims)):
                best = found
        return best

    def _evict(self, gang: Gang, ask: Ask, choice: Choice) -> None:
        """Write down who goes and hold the room; on the trial it is taken twice until they are gone."""
        queues, names = self._view.queues, self._trial.nodes.names
        spec = queues[gang.queue].spec
        first = {running.queue: running for running, _ in choice.victims}
        whys = {
            name: explain.evicted_for(gang, spec, ask.groups, running, queues[name].spec)
            for name, running in first.items()
        }
        uid = gang.uid
        self._evictions += [Eviction(group.uid, pod.uid, uid, whys[group.queue]) for group, pod in choice.victims]
        for column, rows, counts in choice.places:
            self._recall.moved[rows] = True
            self._held.promise(column, rows, counts)
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                hold = Hold(gang.uid, names[row], column.pod_class, (), spec.priority, self._now, 0, False, VICTIMS)
                self._holds += [hold] * count
            if column.ports:
                for row in rows.tolist():
                    self._trial.occupy(column, row, {})
            else:
                self._trial.place_many(column, rows, counts, held=True)

    def _fit(self, gang: Gang, ask: Ask, nodes: Mask | None = None) -> bool:
        """Place the ask whole, within one domain where the gang wants that; or leave the trial as it was.

        With `nodes`, on these alone.
        """
        self._trial.within(nodes)
        placed = self._fit_within(gang, ask, nodes)
        self._trial.within(None)
        return placed

    def _fit_within(self, gang: Gang, ask: Ask, nodes: Mask | None) -> bool:
        trial, groups = self._trial, ask.groups
        levels: Sequence[str] = gang.levels
        if gang.topology == "None":
            if place_together(trial, groups):
                return True
            levels = wanting_company(groups)
        for scope in scopes(trial, groups, levels, gang.nodes):
            trial.within(scope if nodes is None else scope & nodes)
            placed = place_together(trial, groups)
            trial.within(nodes)
            if placed:
                self._scopes[gang.uid] = scope
                return True
        return gang.topology == "Preferred" and place_together(trial, groups)

    def _why(self, gang: Gang, ask: Ask) -> tuple[Reason, ...]:
        """Reasons for no room; asks on the way whether it is others' promised room that is missing."""
        reasons = explain.no_room(ask.groups)
        if gang.topology == "Required":
            reasons = (explain.not_together(gang, self._trial, ask.groups), *reasons)
        masks = [column.mask for column, _ in ask.groups]
        others = {
            owner: held
            for owner, held in self._held.of.items()
            if owner != gang.uid and any(mask[placement.row] for placement in held for mask in masks)
        }
        if not others:
            return reasons
        trial = self._trial
        mark = trial.mark()
        for held in others.values():
            for placement in held:
                trial.release(placement)
        if self._fit(gang, ask):
            reasons = (explain.held_for_other((self._held.whys[owner] for owner in others), len(others)), *reasons)
        trial.undo(mark)
        return reasons

    def _behind(self, queue: str, ask: Ask) -> tuple[Reason, ...] | None:
        """Why a strict queue does not let the ask pass those who wait ahead of it; None when it may."""
        if ask.behind is None:
            for position, ahead in self._strict.get(queue, ()):
                if ask.competes(ahead):
                    ask.behind = (explain.behind(position, queue),)
                    break
        return ask.behind

    def _stay(self, gang: Gang, reasons: tuple[Reason, ...]) -> None:
        self._staying.setdefault(gang.queue, []).append((gang, reasons))

    def _grow(self, gang: Gang, members: list[Member]) -> None:
        """Give members above the minimum what room and quota there is, in their order."""
        left = 0
        reasons: tuple[Reason, ...] = ()
        scope = None
        if gang.topology == "Required":
            scope = self._scopes.get(gang.uid)
            scope = shared(self._trial, gang) if scope is None else scope
        self._trial.within(scope)
        for column, those in self._asks.by_class(gang.queue, members):
            request = dict(column.pod_class.requests)
            allowed = self._ledger.most(gang.queue, request, len(those))
            behind = self._behind(gang.queue, self._asks.get(gang.queue, those)) if gang.queue in self._strict else None
            start = self._trial.mark()
            if behind is not None:
                got = 0
            else:
                got = 0 if column in self._asks.full else pack(self._trial, column, allowed)
                if got < allowed and scope is None and not column.ruled:
                    self._asks.full.add(column)
            if got:
                self._assign(gang, those[:got], self._trial.since(start))
                self._trial.commit()
                self._ledger.charge(gang.queue, {name: amount * got for name, amount in request.items()})
            if got < len(those) and not left:
                left = len(those) - got
                if behind is not None:
                    reasons = behind
                elif got < allowed:
                    reasons = explain.no_room([(column, left)])
                else:
                    demand = {name: amount * left for name, amount in request.items()}
                    reasons = (explain.quota_exceeded(self._ledger.can_charge(gang.queue, demand)),)
        self._trial.within(None)
        if left:
            self._short.append(Waiting(gang.uid, reasons))

    def _assign(self, gang: Gang, members: Sequence[Member], placements: list[Placement]) -> None:
        """Write down who goes where: members of a class take its places in order."""
        static = self._trial.nodes.static
        names, generations = static.names, static.generation
        write, uid = self._assignments.append, gang.uid
        if alike(members):
            turns = {id(placements[0].column): iter(members)}
        else:
            turns = {id(column): iter(those) for column, those in self._asks.by_class(gang.queue, members)}
        for column, row, pods, masks, _ in placements:
            self._recall.moved[row] = True
            those = turns[id(column)]
            node, generation = names[row], generations[row]
            if not masks:
                for member in islice(those, pods):
                    write(Assignment(uid, member.uid, node, generation))
                continue
            written = column.written
            for member, held in zip(islice(those, pods), masks, strict=True):
                cards = written.get(held)
                if cards is None:
                    by_name = tuple(zip(column.card_names, held, strict=True))
                    cards = written[held] = (grants(column.pod_class.cards, by_name), by_name)
                write(Assignment(uid, member.uid, node, generation, cards[0], cards[1]))
        self._stats.pods += len(members)
