"""Plugins of installed packages, found by entry point, and what is told about those that fail.

A package offers a plugin by an entry point of the group `t9ksched.plugins`, which names a factory: a function or class
that takes the plugin's arguments. It is imported when `scheduler.conf` first names it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import structlog

from t9ksched.engine.conf import PLUGINS
from t9ksched.engine.decision import PluginFault
from t9ksched.engine.plugins import Factory
from t9ksched.scheduler.notices import Notices

log = structlog.get_logger(__name__)

GROUP: Final = "t9ksched.plugins"
EVENT_FAILED: Final = "PluginFailed"


def installed() -> dict[str, Factory]:
    """Factories of the installed plugins by name. A name of our own is left out, of two alike the first counts."""
    found: dict[str, Factory] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        if entry.name in PLUGINS or entry.name in found:
            log.warning("the name of this plugin is taken, it cannot be used", plugin=entry.name, offered=entry.value)
        else:
            found[entry.name] = _factory(entry)
    return found


def _factory(entry: EntryPoint) -> Factory:
    def make(arguments: Mapping[str, str]) -> object:
        return entry.load()(arguments)

    return make


class PluginWatch:
    """Tells administrators of plugins that fail: each failure counts, a new one is logged and makes an event.

    `about` says which object the event is about.
    """

    def __init__(self, notices: Notices, about: Callable[[], dict[str, Any]]) -> None:
        self._notices = notices
        self._about = about
        self._told: dict[str, PluginFault] = {}
        self.failures: Counter[str] = Counter()
        """Cycles in which a plugin was switched off, by name."""

    def cycle(self, faults: tuple[PluginFault, ...]) -> None:
        """What a cycle found; one without faults makes each of them news again."""
        if not faults:
            self._told.clear()
            return
        for fault in faults:
            self.failures[fault.plugin] += 1
            if self._told.get(fault.plugin) != fault:
                self._told[fault.plugin] = fault
                says = f"plugin {fault.plugin!r} is off while its {fault.hook} fails: {fault.message}"
                log.error("plugin failed", plugin=fault.plugin, hook=fault.hook, error=fault.message)
                self._notices.event(self._about(), EVENT_FAILED, says, warning=True)
