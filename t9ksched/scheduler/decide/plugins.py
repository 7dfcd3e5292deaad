"""Plugins of installed packages, found by entry point, and what is told about those that fail or are slow.

A package offers a plugin by an entry point of the group `t9ksched.plugins`, which names a factory: a function or class
that takes the plugin's arguments. It is imported when `scheduler.conf` first names it.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import structlog

from t9ksched.engine.plan import PluginFault
from t9ksched.engine.plugins import HOOKS, Factory
from t9ksched.engine.scheduler_conf import PLUGINS
from t9ksched.scheduler.report.event_writer import EventWriter

log = structlog.get_logger(__name__)

GROUP: Final = "t9ksched.plugins"
EVENT_FAILED: Final = "PluginFailed"
EVENT_SLOW: Final = "PluginSlow"
SLOW_SECONDS: Final = 0.05
"""Nothing else is done while a plugin answers: an answer that takes longer is told of."""
_TOLD_AFTER: Final = 3
"""Slow answers that make an event: a busy machine makes a single one of a quick plugin slow."""


def installed(slow: "Slow | None" = None) -> dict[str, Factory]:
    """Factories of the installed plugins by name. A name of our own is left out, of two alike the first counts.

    `slow` is told of every answer that takes long.
    """
    found: dict[str, Factory] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        if entry.name in PLUGINS or entry.name in found:
            log.warning("the name of this plugin is taken, it cannot be used", plugin=entry.name, offered=entry.value)
        else:
            found[entry.name] = _factory(entry, slow)
    return found


def _factory(entry: EntryPoint, slow: "Slow | None") -> Factory:
    def make(arguments: Mapping[str, str]) -> object:
        plugin = entry.load()(arguments)
        return plugin if slow is None else slow.watched(entry.name, plugin)

    return make


class Slow:
    """Measures plugins: `answers` counts those that took longer than `SLOW_SECONDS`, `worst` is the longest of each."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.answers: Counter[str] = Counter()
        self.worst: dict[str, tuple[float, str]] = {}
        """By plugin: seconds, and which of its methods."""

    def watched(self, name: str, plugin: object) -> object:
        """The same plugin, measured: an object with those methods of a plugin that it has."""
        methods = {hook: self._measured(name, hook, getattr(plugin, hook)) for hook in HOOKS if hasattr(plugin, hook)}
        return type(type(plugin).__name__, (), methods)()

    def _measured(self, name: str, hook: str, method: Callable[..., Any]) -> Callable[..., Any]:
        clock = self._clock

        def ask(_: object, *arguments: Any) -> Any:
            began = clock()
            try:
                return method(*arguments)
            finally:
                took = clock() - began
                if took > SLOW_SECONDS:
                    self.answers[name] += 1
                    self.worst[name] = max(self.worst.get(name, (0.0, hook)), (took, hook))

        return ask


class PluginWatch:
    """Tells administrators of plugins that fail: each failure counts, a new one is logged and makes an event. So does a
    plugin that is `slow` again and again, once.

    `about` says which object the event is about.
    """

    def __init__(self, events: EventWriter, about: Callable[[], dict[str, Any]], slow: Slow | None = None) -> None:
        self._events = events
        self._about = about
        self.slow = slow or Slow()
        self._told_slow: set[str] = set()
        self._told: dict[str, PluginFault] = {}
        self.failures: Counter[str] = Counter()
        """Cycles in which a plugin was switched off, by name."""

    def cycle(self, faults: tuple[PluginFault, ...]) -> None:
        """What a cycle found; one without faults makes each of them news again."""
        if len(self._told_slow) < len(self.slow.answers):
            self._tell_slow()
        if not faults:
            self._told.clear()
            return
        for fault in faults:
            self.failures[fault.plugin] += 1
            if self._told.get(fault.plugin) != fault:
                self._told[fault.plugin] = fault
                says = f"plugin {fault.plugin!r} is off while its {fault.hook} fails: {fault.message}"
                log.error("plugin failed", plugin=fault.plugin, hook=fault.hook, error=fault.message)
                self._events.event(self._about(), EVENT_FAILED, says, warning=True)

    def _tell_slow(self) -> None:
        for name in [name for name, count in self.slow.answers.items() if count >= _TOLD_AFTER]:
            if name in self._told_slow:
                continue
            self._told_slow.add(name)
            seconds, hook = self.slow.worst[name]
            says = f"plugin {name!r} is slow: its {hook} took {seconds * 1000:.0f} ms, and nothing is decided meanwhile"
            log.warning("plugin is slow", plugin=name, hook=hook, seconds=round(seconds, 3))
            self._events.event(self._about(), EVENT_SLOW, says, warning=True)
