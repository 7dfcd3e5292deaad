"""Which cards of a node are linked best, of those that are idle.

Of all choices of so many cards the one with the largest sum of the weights of its links is taken; of equal ones that
whose rest has the largest sum, so that the best-linked cards stay together; then the one with the lowest indices. Up to
16 idle cards every choice is looked at. Of more, cards are collected one by one: first the best-linked pair, then each
time the card with the best links to those chosen, by the same rules among equal ones. Results are cached, as nodes have
few patterns.
"""

from functools import cache, lru_cache
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from t9ksched.engine.arrays import Int64s
from t9ksched.model.card_links import CardLinks

_EVERY: Final = 16
"""Up to so many idle cards every choice is looked at: 12,870 at most."""
_PATTERNS: Final = 1 << 16


class LinkTable:
    """The links of a node's cards as an array: `weights`, shape (cards, cards), alike both ways, 0 on the diagonal."""

    def __init__(self, links: CardLinks) -> None:
        self.weights: Int64s = np.array(links.weights, np.int64)
        self.any = bool(self.weights.any())


@lru_cache(maxsize=256)
def link_table(links: CardLinks) -> LinkTable:
    """The table of these links; equal links have the same object, by which results are cached."""
    return LinkTable(links)


@lru_cache(maxsize=_PATTERNS)
def best_linked(table: LinkTable, idle: int, count: int) -> tuple[int, int]:
    """Which `count` of the idle cards are linked best, and the sum of the weights of their links.

    There must be so many idle ones.
    """
    cards = [index for index in range(idle.bit_length()) if idle >> index & 1]
    weights = table.weights[np.ix_(cards, cards)]
    if count == len(cards):
        chosen = list(range(count))
    elif len(cards) <= _EVERY:
        chosen = _of_all(weights, count)
    else:
        chosen = _one_by_one(weights, count)
    return sum(1 << cards[at] for at in chosen), int(weights[np.ix_(chosen, chosen)].sum()) // 2


@lru_cache(maxsize=_PATTERNS)
def deal_linked(table: LinkTable, idle: int, each: int, pods: int) -> tuple[tuple[tuple[int], ...], int]:
    """As `engine.cards.deal`: of the cards that are linked best for all of these pods together, each pod gets those
    that are linked best.
    """
    together, _ = best_linked(table, idle, each * pods)
    left, shares = together, []
    for _ in range(pods):
        share, _ = best_linked(table, left, each)
        shares.append((share,))
        left ^= share
    return tuple(shares), idle ^ together


def part_of_best(table: LinkTable, idle: int, usable: int, each: int, together: int) -> tuple[int, int]:
    """For pods with `each` cards that want `together` in all: how well as many of them as idle cards suffice for are
    linked on the best idle ones, and how well on the best of the usable ones; both 0 for less than two cards.
    """
    count = min(together, idle.bit_count()) // each * each
    return (best_linked(table, idle, count)[1], best_linked(table, usable, count)[1]) if count > 1 else (0, 0)


def _of_all(weights: Int64s, count: int) -> list[int]:
    """The best choice of all, the first in the order of indices among equal ones."""
    choices = _choices(len(weights), count)
    linked = _sums(choices, weights)
    best = np.flatnonzero(linked == linked.max())
    return np.flatnonzero(choices[best[int(_sums(1 - choices[best], weights).argmax())]]).tolist()


def _sums(choices: NDArray[np.float64], weights: Int64s) -> NDArray[np.float64]:
    """Twice the weights of the links inside each choice. Such whole numbers are exact: they are far below 2^53."""
    found: NDArray[np.float64] = np.einsum("ij,ij->i", choices @ weights.astype(np.float64), choices)
    return found


@cache
def _choices(cards: int, count: int) -> NDArray[np.float64]:
    """All choices of so many cards in the order of their indices: 1 for a card chosen, shape (choices, cards)."""
    rows = np.array(list(combinations(range(cards), count)), np.intp)
    found = np.zeros((len(rows), cards), np.float64)
    np.put_along_axis(found, rows, 1.0, axis=1)
    found.flags.writeable = False
    return found


def _one_by_one(weights: Int64s, count: int) -> list[int]:
    """Cards collected one after the other."""
    chosen = np.zeros(len(weights), np.bool_)
    # The links of the rest to a card are those that the rest loses with it.
    lost = weights.sum(axis=1)
    if count > 1:
        pairs = np.triu(np.ones_like(weights, np.bool_), 1)
        most = weights == weights[pairs].max()
        first = np.argwhere(pairs & most)
        chosen[first[int(lost[first].sum(axis=1).argmin())]] = True
    while int(chosen.sum()) < count:
        linked = weights[:, chosen].sum(axis=1)
        rest = np.where(chosen, np.iinfo(np.int64).max, lost - linked)
        best = np.where(chosen, -1, linked)
        able = np.flatnonzero(best == best.max())
        chosen[able[int(rest[able].argmin())]] = True
    return np.flatnonzero(chosen).tolist()
