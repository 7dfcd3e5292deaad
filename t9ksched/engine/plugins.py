"""Plugins of installed packages: what they may offer, and how a cycle asks them.

A plugin is an object with one or more of the four methods below; `scheduler.conf` names it and thereby switches it on.
What it answers must depend on nothing but what it is given: answers are kept across cycles, and equal views give equal
plans. A plugin that raises, or answers with nonsense, is off for the rest of the cycle, as if it were not listed; what
went wrong stands in the plan.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.nodes import Static
from t9ksched.engine.plan import PluginFault
from t9ksched.model.gang import Gang
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import QueueSpec

_MOST_COLUMNS: Final = 256
_LONGEST_MESSAGE: Final = 300
BEST: Final = 100
"""The highest score a plugin may give a node."""
T = TypeVar("T")


@runtime_checkable
class QueueOrder(Protocol):
    """Orders queues, at the place where the plugin is listed among `basic` and `resource`."""

    def queue_rank(self, name: str, spec: QueueSpec, used: Mapping[str, int]) -> int:
        """Smaller goes first. `used` is what the queue's pods use, in units by resource (`cpu` in millicores).

        It is asked again for the queue that was served, so it must depend on this queue alone.
        """


@runtime_checkable
class GangOrder(Protocol):
    """Orders waiting gangs of one queue: before their priority if listed before `basic`, else among equals of it."""

    def gang_rank(self, gang: Gang, now: int) -> int:
        """Smaller goes first; `now` in nanoseconds since the epoch. Gangs that are being refilled go first anyway."""


@runtime_checkable
class NodeFilter(Protocol):
    """Drops nodes."""

    def allows(self, pod: PodClass, node: NodeFacts) -> bool:
        """Whether pods of this class may run on this node, whatever room it has."""


@runtime_checkable
class NodeScore(Protocol):
    """Ranks nodes."""

    def score(self, pod: PodClass, node: NodeFacts) -> int:
        """From 0 to 100, larger is better; it counts with the plugin's `weight` beside `affinity` and `binpack`."""


Factory = Callable[[Mapping[str, str]], object]
"""Makes a plugin from its arguments in `scheduler.conf`; raises ValueError, with what to write, for wrong ones."""
HOOKS: Final = {"queue_rank": QueueOrder, "gang_rank": GangOrder, "allows": NodeFilter, "score": NodeScore}


@dataclass(frozen=True, slots=True)
class PluginUse:
    """A plugin as `scheduler.conf` lists it; two with the same name, weight and arguments are the same."""

    name: str
    plugin: object = field(compare=False, repr=False)
    weight: int = 1
    arguments: tuple[tuple[str, str], ...] = ()


class _Column(msgspec.Struct):
    """What a plugin said of each node, and of which facts."""

    static: Static
    values: Int64s


class PluginColumns:
    """Answers about nodes, kept across cycles: a node is asked about again when its facts have changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[PluginUse, str, PodClass], _Column] = {}

    def column(self, key: tuple[PluginUse, str, PodClass], static: Static, ask: Callable[[NodeFacts], int]) -> Int64s:
        """One answer a node, shape (nodes,), not to be written to. What `ask` raises passes through."""
        known = self._known.get(key)
        if known is not None and known.static is static:
            return known.values
        values = np.zeros(len(static.names), np.int64)
        old = known.static.index if known is not None else {}
        for row, facts in enumerate(static.facts):
            at = old.get(facts.name, -1)
            if known is not None and at >= 0 and known.static.facts[at] is facts:
                values[row] = known.values[at]
            else:
                values[row] = ask(facts)
        if len(self._known) >= _MOST_COLUMNS:
            self._known.clear()
        self._known[key] = _Column(static, values)
        return values


class Plugins:
    """The plugins of one cycle. `on_fault` is called when one is switched off."""

    def __init__(self, uses: Sequence[PluginUse], columns: PluginColumns, on_fault: Callable[[], None]) -> None:
        self._uses = uses
        self._columns = columns
        self._on_fault = on_fault
        self._off: set[str] = set()
        self.faults: list[PluginFault] = []

    def queue_rank(self, use: PluginUse, name: str, spec: QueueSpec, used: Mapping[str, int]) -> int:
        """The rank of a queue, 0 from a plugin that is off."""
        plugin = use.plugin
        assert isinstance(plugin, QueueOrder)
        return self._guarded(use, "queue_rank", lambda: _whole(plugin.queue_rank(name, spec, dict(used))), 0)

    def gang_ranks(self, name: str, gangs: Sequence[Gang], now: int) -> list[int]:
        """The ranks of gangs, all 0 from a plugin that is off."""
        use = next(use for use in self._uses if use.name == name)
        plugin = use.plugin
        assert isinstance(plugin, GangOrder)
        ranks = self._guarded(use, "gang_rank", lambda: [_whole(plugin.gang_rank(gang, now)) for gang in gangs], None)
        return [0] * len(gangs) if ranks is None else ranks

    def filters(self, pod_class: PodClass, static: Static) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Nodes that each plugin allows, shape (nodes,)."""
        for use in self._uses:
            plugin = use.plugin
            if not isinstance(plugin, NodeFilter):
                continue
            column = self._column(use, "allows", pod_class, static, _allowing(plugin, pod_class))
            if column is not None:
                yield use.name, column > 0

    def scores(self, pod_class: PodClass, static: Static) -> Int64s | None:
        """Points of each node from 0 to 100, each plugin's times its weight; shape (nodes,). None when all are 0."""
        total: Int64s | None = None
        for use in self._uses:
            plugin = use.plugin
            if not isinstance(plugin, NodeScore) or not use.weight:
                continue
            column = self._column(use, "score", pod_class, static, _scoring(plugin, pod_class))
            if column is not None:
                total = column * use.weight if total is None else total + column * use.weight
        return total

    def _column(
        self, use: PluginUse, hook: str, pod_class: PodClass, static: Static, ask: Callable[[NodeFacts], int]
    ) -> Int64s | None:
        return self._guarded(use, hook, lambda: self._columns.column((use, hook, pod_class), static, ask), None)

    def _guarded(self, use: PluginUse, hook: str, call: Callable[[], T], otherwise: T) -> T:
        """What the plugin answers; once it has failed, what is said in its place."""
        if use.name in self._off:
            return otherwise
        try:
            return call()
        except (Exception, SystemExit) as error:
            self._off.add(use.name)
            text = f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
            self.faults.append(PluginFault(use.name, hook, text))
            self._on_fault()
            return otherwise


def _allowing(plugin: NodeFilter, pod_class: PodClass) -> Callable[[NodeFacts], int]:
    return lambda facts: int(bool(plugin.allows(pod_class, facts)))


def _scoring(plugin: NodeScore, pod_class: PodClass) -> Callable[[NodeFacts], int]:
    return lambda facts: _points(plugin.score(pod_class, facts))


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"a rank must be a whole number, not {value!r}")
    return int(value)


def _points(value: object) -> int:
    points = _whole(value)
    if not 0 <= points <= BEST:
        raise ValueError(f"a score must be from 0 to {BEST}, not {points}")
    return points
