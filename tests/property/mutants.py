"""Ways to break the engine on purpose, each against one promise: some history must turn red, and for that promise."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from t9ksched.engine import cards, order, past_lines
from t9ksched.engine.actions import minima
from t9ksched.engine.actions.await_victims import AwaitVictims
from t9ksched.engine.failure_memory import FailureMemory
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.nodes import FrozenNodes
from t9ksched.engine.past_failures import PastFailures
from t9ksched.engine.placement.constraints import Schedulable, Tolerated
from t9ksched.engine.placement.pod_affinity import ClassAffinity
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.refill import Refills
from t9ksched.engine.reservations import Reservations
from t9ksched.engine.victims import victim_search
from t9ksched.engine.victims.victim_search import VictimSearch
from t9ksched.model.cards import NO_CARDS

_chosen = minima.chosen
_gang_key = order.gang_key
_deal = cards.deal
_begin = PastFailures.begin
_choose = VictimSearch._chosen
_verify = VictimSearch._verified
_take = Reservations.take


def _one_less(gang: Any) -> Any:
    members, rest, enough = _chosen(gang)
    return (members[:-1], [*members[-1:], *rest], enough) if len(members) > 1 and enough else (members, rest, enough)


def _by_age_alone(gang: Any) -> Any:
    return (False, *_gang_key(gang)[1:])


def _in_any_order(self: Any, groups: Any, field: Any, found: Any, contest: Any) -> Any:
    """Places, whoever goes before whom."""
    table, units = self._table, contest.units
    self._table, contest.units = copy(table), np.ones_like(units)
    self._table.is_surplus = np.zeros_like(table.is_surplus)
    try:
        return _verify(self, groups, field, found, contest)
    finally:
        self._table, contest.units = table, units


def _one_too_few(self: Any, places: Any, found: Any) -> Any:
    choice = _choose(self, places, found)
    return replace(choice, victims=choice.victims[1:])


def _never_moved(self: Any, nodes: Any, *args: Any) -> None:
    _begin(self, nodes, *args)
    self._changed[:] = 0


def _nothing_held(self: Any, holds: Any, now: int) -> Any:
    return _take(self, (), now)


def nothing_kept(self: Any, holds: Any, now: int) -> Any:
    return _take(self, [hold for hold in holds if not hold.kind.restores], now)


def _one_place_of_each(self: Any, holds: Any, now: int) -> Any:
    return _take(self, list({(hold.owner, hold.kind): hold for hold in holds}.values()), now)


def _without_their_cards(self: Any, holds: Any, now: int) -> Any:
    return _take(self, [replace(hold, cards=NO_CARDS) for hold in holds], now)


def _rounded_up(self: Any, queue: str, request: Any, wanted: int) -> int:
    account = self._accounts[queue]
    for resource, nominal in account.cap.items():
        if amount := request.get(resource, 0):
            wanted = min(wanted, -(-max(0, nominal - account.held.get(resource, 0)) // amount))
    return wanted


def once_ran_always_first(gang: Any) -> Any:
    return (not (gang.ran or gang.placed), *_gang_key(gang)[1:])


def sorted_by(key: Any) -> tuple[tuple[Any, str, Any], ...]:
    """The gangs of a queue have this key, wherever they are sorted."""
    return ((order, "gang_key", key), (past_lines, "gang_key", key))


@dataclass(frozen=True)
class Mutant:
    """A fault: which promise it breaks (by its number), and what is put in place of what."""

    promise: str
    changes: tuple[tuple[Any, str, Any], ...]


MUTANTS: dict[str, Mutant] = {
    "nodes are always empty": Mutant("1", ((FrozenNodes, "free", lambda self: self.static.allocatable.copy()),)),
    "the first cards are given to everybody": Mutant(
        "1", ((cards, "deal", lambda idle, each, pods: (_deal((1 << 62) - 1, each, pods)[0], idle)),)
    ),
    "quota is not asked": Mutant("2", ((Ledger, "can_charge", lambda self, queue, demand, **more: []),)),
    "one member may be missing": Mutant("3", ((minima, "chosen", _one_less),)),
    "what is refilled waits its turn": Mutant("3", sorted_by(_by_age_alone)),
    "cordons are not looked at": Mutant("4", ((Schedulable, "allows", lambda self, facts: True),)),
    "room of lost members is not kept": Mutant("3", ((Reservations, "take", nothing_kept),)),
    "quota of lost members is not kept": Mutant("3", ((Refills, "_charge", lambda self: None),)),
    "no other room is kept for lost members": Mutant("3", ((Refills, "_find", lambda self, gang: None),)),
    "what ran once goes first for ever": Mutant("8", sorted_by(once_ran_always_first)),
    "taints are not looked at": Mutant("4", ((Tolerated, "allows", lambda self, facts: True),)),
    "other pods are not looked at": Mutant("4", ((ClassAffinity, "allowed", lambda self: self._usable),)),
    "everybody may be a victim": Mutant("5", ((victim_search, "eligible", lambda *args: True),)),
    "members go in any order": Mutant(
        "5", ((victim_search, "yields", lambda *args: True), (VictimSearch, "_verified", _in_any_order))
    ),
    "room that is held is free": Mutant("6", ((Reservations, "take", _nothing_held),)),
    "held room counts for no gang": Mutant("6", ((Trial, "release", lambda self, placement: None),)),
    "promises are forgotten": Mutant("6", ((AwaitVictims, "_stands", lambda self, promise, demand: False),)),
    "of a promise of several places one is held": Mutant("6", ((Reservations, "take", _one_place_of_each),)),
    "kept places are held without their cards": Mutant("3", ((Reservations, "take", _without_their_cards),)),
    "quota for surplus is rounded up": Mutant("2", ((Ledger, "most", _rounded_up),)),
    "surplus is not held to the quota": Mutant("2", ((Ledger, "most", lambda self, queue, request, wanted: wanted),)),
    "one victim too few goes": Mutant("6", ((VictimSearch, "_chosen", _one_too_few),)),
    "strict queues let everybody pass": Mutant("8", ((FailureMemory, "_compete", lambda self, key, ahead: False),)),
    "failures are remembered too long": Mutant("10", ((PastFailures, "begin", _never_moved),)),
}


@contextmanager
def broken(name: str) -> Iterator[None]:
    """The engine with that fault."""
    with ExitStack() as stack:
        for owner, attribute, new in MUTANTS[name].changes:
            stack.enter_context(patch.object(owner, attribute, new))
        yield
