"""Whole cards by index: bit masks of a node's idle cards, shared out lowest index first.

Containers of a pod get disjoint cards in the order in which the pod names them; an init container runs before them and
uses cards the pod holds anyway, except those of sidecars that already run. Results are cached: nodes have few patterns.
"""

from functools import lru_cache

from t9ksched.model.podclass import ContainerCards

Grant = tuple[str, str, tuple[int, ...]]
"""Container, resource, indices."""


@lru_cache(maxsize=1 << 16)
def split(idle: int, each: int, pods: int) -> tuple[int, ...]:
    """Masks of `pods` shares of `each` cards, lowest indices first. There must be enough idle cards."""
    shares = []
    for _ in range(pods):
        share = 0
        for _ in range(each):
            lowest = idle & -idle
            share |= lowest
            idle ^= lowest
        shares.append(share)
    return tuple(shares)


@lru_cache(maxsize=1 << 16)
def deal(idle: int, each: int, pods: int) -> tuple[tuple[tuple[int], ...], int]:
    """As `split`, each share as the only one of its pod, and what is left idle."""
    shares = split(idle, each, pods)
    return tuple((share,) for share in shares), idle & ~sum(shares)


def _lowest(mask: int, count: int) -> int:
    return split(mask, count, 1)[0]


def indices(mask: int) -> tuple[int, ...]:
    """The set bits, ascending."""
    return tuple(index for index in range(mask.bit_length()) if mask >> index & 1)


@lru_cache(maxsize=1 << 16)
def grants(wanted: tuple[ContainerCards, ...], held: tuple[tuple[str, int], ...]) -> tuple[Grant, ...]:
    """Which container gets which of the cards a pod holds; `held` are masks by resource."""
    given: dict[int, int] = {}
    for resource, mask in held:
        idle = mask
        for at, asked in enumerate(wanted):
            if asked.resource == resource and asked.kind != "init":
                given[at] = _lowest(idle, asked.count)
                idle &= ~given[at]
        running = 0
        for at, asked in enumerate(wanted):
            if asked.resource != resource:
                continue
            if asked.kind == "sidecar":
                running |= given[at]
            elif asked.kind == "init":
                given[at] = _lowest(mask & ~running, asked.count)
    return tuple(
        (asked.container, asked.resource, indices(given[at])) for at, asked in enumerate(wanted) if at in given
    )
