"""What the actions of one plan share: the moment it is made for, the trial, the ledger, and what is decided so far."""

from collections.abc import Sequence
from itertools import islice

from t9ksched.engine import explain
from t9ksched.engine.cards import grants
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.placement.feasibility import FeasibilityCache, Mask
from t9ksched.engine.placement.pod_affinity import Crowd
from t9ksched.engine.placement.trial import Placement, Trial
from t9ksched.engine.plan import Assignment, Eviction, Stats, Waiting
from t9ksched.engine.policy import Policy
from t9ksched.engine.recall import Recall
from t9ksched.engine.refill import Refills
from t9ksched.engine.reservations import Held
from t9ksched.engine.scheduling_key import Ask, Asks, alike
from t9ksched.engine.victims.victim_search import Preemption
from t9ksched.engine.view import View
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang, Member
from t9ksched.model.hold import Hold
from t9ksched.model.reasons import Reason
from t9ksched.model.volumes import FREE_PREFIX


class Cycle:
    """One plan in the making.

    Attributes:
        assignments, evictions, holds, short, stats: what is decided so far, as in `Plan`.
        strict: what gangs of strict queues wait for, by queue, with their positions.
        scopes: the domain in which a gang's minimum was placed, by uid.
        promised: what gangs were promised when victims were evicted for them, by uid.
        refills: room kept for members that gangs lost.
    """

    def __init__(self, view: View, policy: Policy, now: int, memo: FeasibilityCache | None) -> None:
        self.view = view
        self.policy = policy
        self.now = now
        crowd = Crowd.of(view)
        self.trial = Trial(view.nodes, memo or FeasibilityCache(), policy, crowd)
        self.ledger = Ledger(view.queues, self._total)
        self.asks = Asks(self.trial, view.queues)
        self.stats = Stats()
        self.assignments: list[Assignment] = []
        self.short: list[Waiting] = []
        self.strict: dict[str, list[tuple[int, Ask]]] = {}
        self.evictions: list[Eviction] = []
        self.holds: list[Hold] = []
        self._preemption: Preemption | None = None
        self._refilled: set[str] = set()
        self.scopes: dict[str, Mask] = {}
        self.held = Held(view.holds, self.trial, now)
        self.recall = Recall(view, self.trial, self.held, self.ledger, policy)
        self.promised: dict[str, dict[str, int]] = {}
        self.refills = Refills(view, self.trial, self.held, self.ledger, self.recall)

    def _total(self, queue: str) -> dict[str, int]:
        totals = self.trial.memo.total(self.view.queues[queue].spec.node_selector).tolist()
        found = dict(zip(self.trial.nodes.static.resources, totals, strict=True))
        # Nobody is charged with free volumes, so they are no part of a share while a plan is made either.
        return {name: amount for name, amount in found.items() if not name.startswith(FREE_PREFIX)}

    def victims(self) -> Work[Preemption]:
        """The search for victims; made when it is first needed."""
        if self._preemption is None:
            made = yield from Preemption.of(self.view, self.trial, self.ledger, self.policy, self.now)
            made.spare(self._refilled)
            self._preemption = made
        return self._preemption

    def refilled(self, gang: str) -> None:
        """A gang took up the room that it kept: that room comes free for nobody."""
        self._refilled.add(gang)
        if self._preemption is not None:
            self._preemption.spare({gang})

    def give_up(self, owner: str) -> None:
        """Room that was held is held no longer."""
        for placement in self.held.give_up(owner):
            self.recall.moved[placement.row] = True

    def behind(self, queue: str, ask: Ask) -> Work[tuple[Reason, ...] | None]:
        """Why a strict queue does not let the ask pass those who wait ahead of it; None when it may."""
        if ask.behind is None:
            for position, ahead in self.strict.get(queue, ()):
                yield
                if ask.competes(ahead):
                    ask.behind = (explain.behind(position, queue),)
                    break
        return ask.behind

    def assign(self, gang: Gang, members: Sequence[Member], placements: list[Placement]) -> None:
        """Write down who goes where: members of a class take its places in order."""
        static = self.trial.nodes.static
        names, generations = static.names, static.generation
        write, uid = self.assignments.append, gang.uid
        if alike(members):
            turns = {id(placements[0].column): iter(members)}
        else:
            turns = {id(column): iter(those) for column, those in self.asks.by_class(gang.queue, members)}
        for column, row, pods, masks, _ in placements:
            self.recall.moved[row] = True
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
                    # None where the node's cards have no indices: those are counted by number.
                    by_name = tuple((name, mask) for name, mask in zip(column.card_names, held, strict=True) if mask)
                    cards = written[held] = (grants(column.pod_class.cards, by_name), by_name)
                write(Assignment(uid, member.uid, node, generation, cards[0], cards[1]))
        self.stats.pods += len(members)
