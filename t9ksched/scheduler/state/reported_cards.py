"""The cards that nodes report in objects of their own (Koordinator's `Device`), as the watch shows them."""

from collections.abc import Callable

from t9ksched.model.hami import Registered
from t9ksched.model.koordinator import DeviceReport, reported


class ReportedCards:
    """Fed by a reflector; a cluster without such objects costs nothing. `look` is told of nodes whose cards changed."""

    def __init__(self, look: Callable[[str], None]) -> None:
        self._look = look
        self._of: dict[str, Registered] = {}

    def of(self, node: str) -> Registered | None:
        """What a node reports; None without an object."""
        return self._of.get(node)

    def upsert(self, report: DeviceReport) -> None:
        """An object appeared or changed; it has the name of its node."""
        name, cards = report.metadata.name, reported(report)
        if self._of.get(name) != cards:
            self._of[name] = cards
            self._look(name)

    def remove(self, report: DeviceReport) -> None:
        """An object is gone."""
        if self._of.pop(report.metadata.name, None) is not None:
            self._look(report.metadata.name)
