"""Why divided cards have no room, in the words that users of such schedulers know: `3/8 CardInsufficientMemory`."""

from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.card_parts import PartNeed
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.model.cards import CORES
from t9ksched.model.reasons import Code, Reason

MEMORY: Final = "CardInsufficientMemory"
CORE: Final = "CardInsufficientCore"
COUNT: Final = "AllocatedCardsInsufficientRequest"


def no_card(column: ClassFit) -> Reason | None:
    """Why the cards of nodes with room for all else do not suffice; None when that is not what is lacking."""
    free = column.trial.free
    able = column.here.copy()
    for at, amount in column.needs:
        able &= free[at] >= amount
    for need in column.divided:
        if (able & need.of.nodes).any() and not (able & ~need.of.nodes).any():
            return _reason(column, need, np.flatnonzero(able & need.of.nodes))
    return None


def _reason(column: ClassFit, need: PartNeed, rows: Int64s) -> Reason:
    free, of = column.trial.free, need.of
    cores, memory = free[of.cores][:, rows], free[of.memory][:, rows]
    enough_cores = cores >= max(need.cores, 1)
    enough_memory = memory >= need.memory[:, rows]
    without_cores = enough_cores.sum(axis=0) < need.count
    without_memory = enough_memory.sum(axis=0) < need.count
    counts = {CORE: int(without_cores.sum()), MEMORY: int((without_memory & ~without_cores).sum())}
    counts[COUNT] = len(rows) - sum(counts.values())
    said = ", ".join(f"{count}/{len(rows)} {word}" for word, count in counts.items() if count)
    asked = "a whole card" if need.cores >= CORES else _part(need, rows)
    each = f"{asked} on each of {need.count} cards" if need.count > 1 else f"{asked} on one card"
    if need.cores >= CORES:
        each = "a whole card" if need.count == 1 else f"{need.count} whole cards"
    best = int(np.where(enough_memory, cores, 0).max(initial=0))
    room = int(np.where(enough_cores, memory, 0).max(initial=0))
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"needs {each} of a node; {said}: room of several cards does not add up. Of cards with the memory the best has "
        f"{best / 10:g} % of its cores free; of those that have the cores, the best has {room} MiB",
        {of.resource: need.count},
        nodes={"match": int(column.mask.sum()), "fit": 0} | {word: count for word, count in counts.items() if count},
        unblocks=("pods that use these cards end", "ask for a smaller part of a card"),
    )


def _part(need: PartNeed, rows: Int64s) -> str:
    """What is asked of one card, in words."""
    sizes = need.memory[:, rows]
    least, most = int(sizes.min()), int(sizes.max())
    memory = f"{least} MiB" if least == most else f"{least} to {most} MiB"
    return f"{need.cores / 10:g} % of the cores and {memory}" if need.cores else memory
