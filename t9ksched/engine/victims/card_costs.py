"""Which candidates leave enough of which cards, on nodes that divide their cards.

A part must come free on one card: what pods leave on several cards does not add up. So each card has a price of its
own, that of the candidates whose parts of it make room for one more, in the order in which they would go there; a pod
gets the cards that cost least, and only as many as it lacks.
"""

from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.card_parts import PartNeed
from t9ksched.engine.card_slots import SlotNeed
from t9ksched.engine.victims.contest import Contest
from t9ksched.engine.victims.field import Field, Wanted
from t9ksched.engine.victims.slot_costs import needed_for_slots

_FINE: Final = 1 << 10
"""Parts of what is missing on a card are counted in this."""


class CardCosts:
    """What it costs to find cards for one more pod of a class on each node of a field that divides them."""

    def __init__(self, field: Field, wanted: Wanted, contest: Contest) -> None:
        self._field = field
        self._wanted = wanted
        self._contest = contest

    def needed(
        self, candidates: Indices, ranks: Int64s, free: Int64s, counts: Int64s, prices: Int64s
    ) -> tuple[Mask, Mask]:
        """Those of the candidates (pods of the field) that have to go for one more pod on their node beside `counts`,
        whose parts are not taken yet, as far as cards are concerned; and on which nodes it could have them then, shape
        (nodes of the field,).

        Args:
            ranks: how well each unit is protected, larger is better.
            prices: how many pods go when the candidate's unit does, one a candidate.
        """
        needed = np.zeros(len(candidates), np.bool_)
        able = np.ones(len(self._field.rows), np.bool_)
        row = self._field.row[candidates]
        for parts in self._wanted.parts:
            here = np.flatnonzero(parts.of.nodes[self._field.rows[row]])
            if isinstance(parts, SlotNeed):
                unit = self._field.unit[candidates[here]]
                order = ranks[unit], prices[here], -self._contest.youth[unit], unit
                goes, fit = needed_for_slots(self._field, parts, candidates[here], order, free, counts)
                needed[here[goes]] = True
                able &= fit
                continue
            places, nth = np.unique(row[here], return_inverse=True)
            if len(places):
                offer = _Cards(self._field, parts, candidates[here], places, nth, free, counts)
                able[places[~offer.possible]] = False
                needed[here[offer.cheapest(ranks, prices[here], self._contest.youth)]] = True
        return needed, able


class _Cards:
    """The cards of some nodes, by position among the cards and among the nodes, and the candidates on these.

    Attributes:
        possible: whether one more pod finds cards when all candidates have gone, shape (nodes,).
    """

    def __init__(
        self, field: Field, parts: PartNeed, pods: Indices, places: Indices, nth: Indices, free: Int64s, counts: Int64s
    ) -> None:
        of, rows = parts.of, field.rows[places]
        left = free[:, places]
        wants = counts[places] + 1
        fits = parts.fits_of(left, rows)
        served = fits if parts.count == 1 else np.minimum(fits, wants)
        self._lacks: Int64s = np.maximum(wants * parts.count - served.sum(axis=0), 0)
        """How many cards have to take one part more, shape (nodes,)."""
        freed = [field.freed[rows_][:, pods] for rows_ in (of.cores, of.memory, of.places)]
        most = [left[rows_] for rows_ in (of.cores, of.memory, of.places)]
        more = fits + 1
        targets = [np.maximum(more * parts.cores, 1), more * parts.memory[:, rows], more]
        missing = [np.maximum(target - has, 0) for target, has in zip(targets, most, strict=True)]
        for has, leaves in zip(most, freed, strict=True):
            np.add.at(has.T, nth, leaves.T)  # on the columns, a copy
        self.possible: Mask = parts.rooms_of(left, rows) >= wants
        # A pod that leaves nothing that is missing on a card need not go for it.
        gain = np.zeros(freed[0].shape, np.int64)
        for leaves, lacks in zip(freed, missing, strict=True):
            gain += np.minimum(leaves, lacks[:, nth]) * _FINE // np.maximum(lacks[:, nth], 1)
        raisable = (fits < wants) if parts.count > 1 else np.ones(fits.shape, np.bool_)
        wanted = (self._lacks > 0) & self.possible & raisable
        card, who = np.nonzero((gain > 0) & wanted[:, nth])
        self._who = who
        self._gain: Int64s = gain[card, who]
        self._node = nth[who]
        self._key = self._node * len(fits) + card
        self._cards = len(fits)
        self._units = field.unit[pods]
        self._sizes = field.table.unit_size[self._units]
        self._leaves = [leaves[card, who] for leaves in freed]
        self._missing = [lacks[card, self._node] for lacks in missing]
        self._holds: Mask = (freed[2] > 0).any(axis=0) & (self._lacks > 0)[nth] & self.possible[nth]
        self._nth = nth

    def cheapest(self, ranks: Int64s, prices: Int64s, youth: Int64s) -> Mask:
        """The candidates that go for the cards that cost least, one flag a candidate."""
        found = np.zeros(len(self._units), np.bool_)
        if not len(self._who):
            return found
        unit = self._units[self._who]
        gain = self._gain * _FINE // np.maximum(self._sizes[self._who], 1)
        order = np.lexsort((unit, -youth[unit], -gain, ranks[unit], self._key))
        key, unit, who = self._key[order], unit[order], self._who[order]
        begins = np.ones(len(key), np.bool_)
        begins[1:] = key[1:] != key[:-1]
        starts = np.flatnonzero(begins)
        lengths = np.diff(np.append(starts, len(key)))
        enough = np.ones(len(key), np.bool_)
        for leaves, missing in zip(self._leaves, self._missing, strict=True):
            enough &= _running(leaves[order], starts, lengths) >= missing[order]
        last = np.minimum.reduceat(np.where(enough, np.arange(len(key)), len(key)), starts)
        cards = np.flatnonzero(last < len(key))
        ends = last[cards]
        fresh = begins.copy()
        fresh[1:] |= unit[1:] != unit[:-1]
        sizes = prices[who] * fresh
        cost = _running(sizes, starts, lengths)
        level = ranks[unit]
        new_level = begins.copy()
        new_level[1:] |= level[1:] != level[:-1]
        first_of_level = np.maximum.accumulate(np.where(new_level, np.arange(len(key)), 0))[ends]
        protected = cost[ends] - cost[first_of_level] + sizes[first_of_level]
        node = self._node[order][ends]
        ages = _running_largest(-youth[unit], starts, lengths)
        by_cost = np.lexsort((ages[ends], cost[ends], protected, level[ends], node))
        turn = np.arange(len(by_cost)) - np.searchsorted(node[by_cost], node[by_cost])
        chosen = by_cost[turn < self._lacks[node[by_cost]]]
        goes = np.zeros(len(starts), np.int64)
        goes[cards[chosen]] = ends[chosen] - starts[cards[chosen]] + 1
        position = np.arange(len(key)) - np.repeat(starts, lengths)
        found[who[position < np.repeat(goes, lengths)]] = True
        # Where one card would have to take two parts more, all that have a part go, and the search spares some later.
        short = np.bincount(node, minlength=len(self._lacks)) < self._lacks
        return found | (self._holds & short[self._nth])


def _running(values: Int64s, starts: Indices, lengths: Indices) -> Int64s:
    """Sums from the first of each part on."""
    total: Int64s = np.cumsum(values)
    return total - np.repeat(total[starts] - values[starts], lengths)


def _running_largest(values: Int64s, starts: Indices, lengths: Indices) -> Int64s:
    """The largest from the first of each part on."""
    shift = np.repeat(np.arange(len(starts)), lengths) * (int(np.ptp(values)) + 1)
    found: Int64s = np.maximum.accumulate(values + shift) - shift
    return found
