"""Follows what other projects' controllers make of, where a cluster has them, and knows which projects can be used.

A kind may be installed, or its rights granted, while the controllers run; then the workloads that need it are looked at
again. Of a project that cannot be used nothing counts as there.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from t9ksched.kube.port import ClusterPort
from t9ksched.kube.watch.handler import Handler
from t9ksched.kube.watch.reflector import Reflector, WatchOptions
from t9ksched.workloads.actions import Object
from t9ksched.workloads.addons import ADDONS, Addon, Usable

_LOOK_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 30.0
"""How long a watch goes on: some servers let one go on of a kind that is not served any more."""


class Addons:
    """The projects. `changed` is told the kind of workload whose project can be used now, or cannot any more."""

    def __init__(
        self, client: ClusterPort, handler: Handler[Object], options: WatchOptions, changed: Callable[[str], None]
    ) -> None:
        self._changed = changed
        perhaps = replace(options, optional=True, timeout=_WATCH_SECONDS)
        self._followed: dict[Addon, list[Reflector[Object]]] = {
            addon: [Reflector(client, res, handler, options=perhaps) for res in addon.made] for addon in ADDONS
        }
        self.known: dict[str, Usable] = {}

    @property
    def reflectors(self) -> list[Reflector[Object]]:
        """Those that follow kinds of these projects."""
        return [one for those in self._followed.values() for one in those]

    def there(self, companions: tuple[Object, ...]) -> tuple[Object, ...]:
        """The objects without those of projects that cannot be used."""
        gone = {
            res.api_version
            for addon in self._followed
            if self.known.get(addon.project.name) is not Usable.SERVED
            for res in addon.made
        }
        return tuple(each for each in companions if each["apiVersion"] not in gone)

    async def run(self) -> None:
        """Look for what comes and goes until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self) -> None:
        """Look which projects can be used."""
        for addon, those in self._followed.items():
            now = _use(those)
            if self.known.get(addon.project.name) is not now:
                self.known = {**self.known, addon.project.name: now}
                self._changed(addon.kind)


def _use(reflectors: list[Reflector[Object]]) -> Usable:
    if any(one.absent.is_set() or not (one.synced.is_set() or one.denied.is_set()) for one in reflectors):
        return Usable.ABSENT
    return Usable.DENIED if any(one.denied.is_set() for one in reflectors) else Usable.SERVED
