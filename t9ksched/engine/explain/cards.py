"""Why divided cards have no room, in the words that users of such schedulers know: `3/8 CardInsufficientMemory`.

Of the cards of all nodes that have room for everything else, each is counted under the first thing that it lacks.
"""

from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.card_parts import LARGEST, PartNeed
from t9ksched.engine.placement.card_constraints import CARD_TYPE, CARD_UUID
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.model.card_requests import SUMS
from t9ksched.model.card_size import CORES
from t9ksched.model.reasons import Code, Reason

MEMORY: Final = "CardInsufficientMemory"
CORE: Final = "CardInsufficientCore"
CORDONED: Final = "CardCordoned"
UNHEALTHY: Final = "CardNotHealth"
PLACES: Final = "CardTimeSlicingExhausted"
COUNT: Final = "AllocatedCardsInsufficientRequest"
NUMA: Final = "NumaNotFit"


def no_card(column: ClassFit) -> Reason | None:
    """Why the cards of nodes with room for all else do not suffice; None when that is not what is lacking."""
    free = column.trial.free
    able = column.here.copy()
    rows = column.trial.resource_rows
    sums = {rows.get(name) for name in SUMS}
    divided = {rows.get(need.of.resource): need.of.nodes for need in column.divided}
    for at, amount in column.needs:
        if at in divided:
            able &= (free[at] >= amount) | divided[at]  # their number is that of the places of all cards
        elif at not in sums:
            able &= free[at] >= amount
    for need in column.divided:
        if (able & need.of.nodes).any() and not (able & ~need.of.nodes).any():
            return _reason(column, need, np.flatnonzero(able & need.of.nodes))
    return None


def _reason(column: ClassFit, need: PartNeed, rows: Int64s) -> Reason:
    free, of = column.trial.free, need.of
    cores, memory = free[of.cores][:, rows], free[of.memory][:, rows]
    asked = need.memory[:, rows]
    meant = asked < LARGEST
    usable = (of.size[:, rows] > 0) & meant
    enough_cores = usable & (cores >= max(need.cores, 1))
    enough_memory = usable & (memory >= need.memory[:, rows])
    enough = enough_cores & enough_memory
    placed = enough & (free[of.places][:, rows] > 0)
    nodes = [column.trial.nodes.static.facts[row] for row in rows.tolist()]
    cards = sum(facts.cards.counts[of.resource] for facts in nodes)
    unhealthy = sum(len(facts.unhealthy) for facts in nodes)
    lacking = {
        UNHEALTHY: unhealthy,
        CORDONED: sum(facts.cards.withdrawn.count(of.resource) for facts in nodes) - unhealthy,
        _mismatch(need): int(((of.size[:, rows] > 0) & ~meant).sum()),
        CORE: int((usable & ~enough_cores).sum()),
        MEMORY: int((enough_cores & ~enough_memory).sum()),
        PLACES: int((enough & ~placed).sum()),
        # Too few of them on each node, or on each NUMA node of one.
        NUMA if need.groups and int(placed.sum(axis=0).max(initial=0)) >= need.count else COUNT: int(placed.sum()),
    }
    said = ", ".join(f"{count}/{cards} {word}" for word, count in lacking.items() if count)
    part = "a whole card" if need.cores >= CORES else _part(need, asked[meant])
    each = f"{part} on each of {need.count} cards" if need.count > 1 else f"{part} on one card"
    if need.cores >= CORES:
        each = "a whole card" if need.count == 1 else f"{need.count} whole cards"
    if need.groups:
        each += " that are attached to one NUMA node"
    best = []
    if enough_memory.any():
        most = int(cores[enough_memory].max(initial=0)) / 10
        best.append(f"of cards with the memory the best has {max(most, 0):g} % of its cores free")
    if enough_cores.any():
        best.append(f"of cards with the cores the best has {max(int(memory[enough_cores].max(initial=0)), 0)} MiB free")
    tail = f"; {', '.join(best)}" if best else ""
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"needs {each} of a node; {said}: room of several cards does not add up{tail}",
        {of.resource: need.count},
        nodes={"match": int(column.mask.sum()), "fit": 0},
        unblocks=("pods that use these cards end", "ask for a smaller part of a card"),
    )


def _mismatch(need: PartNeed) -> str:
    """Why a card will not do."""
    return CARD_UUID if need.only is not None and (need.only.uuids or need.only.no_uuids) else CARD_TYPE


def _part(need: PartNeed, sizes: Int64s) -> str:
    """What is asked of one card, in words; `sizes` in MiB on each card that will do."""
    least, most = int(sizes.min(initial=LARGEST)), int(sizes.max(initial=0))
    memory = f"{least} MiB" if least >= most else f"{least} to {most} MiB"
    return f"{need.cores / 10:g} % of the cores and {memory}" if need.cores else memory
