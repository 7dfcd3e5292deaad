"""Conditions of a workload's status: a small table by type that keeps the time of each last change."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from t9ksched.workloads.phase import format_time

NEUTRAL = "-"
"""The reason where there is nothing to say."""
INITIALIZED: Final = "Initialized"
"""The condition that is False while what a workload needs cannot be made."""


class Conditions:
    """The conditions of one object, changed in place and read back as a list."""

    def __init__(self, status: Mapping[str, Any], now: datetime) -> None:
        self._found: dict[str, dict[str, str]] = {
            each["type"]: dict(each) for each in status.get("conditions") or () if "type" in each
        }
        self._now = format_time(now)

    def set(self, kind: str, value: bool | None, reason: str = NEUTRAL, message: str = "") -> None:
        """Set a condition; None stands for Unknown. The time changes only with the value."""
        text = {True: "True", False: "False", None: "Unknown"}[value]
        old = self._found.get(kind)
        since = old["lastTransitionTime"] if old and old.get("status") == text else self._now
        self._found[kind] = {
            "type": kind,
            "status": text,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }

    def passed(self, kind: str, reason: str = NEUTRAL) -> None:
        """Set a condition that was True for a while, which nobody saw, to False again: that is a change."""
        self.set(kind, True)
        self.set(kind, False, reason)

    def is_true(self, kind: str) -> bool:
        """Whether the condition is there and True."""
        return self._found.get(kind, {}).get("status") == "True"

    def reason(self, kind: str) -> str:
        """The condition's reason, empty if it is not there."""
        return self._found.get(kind, {}).get("reason", "")

    def message(self, kind: str) -> str:
        """The condition's message, empty if it is not there."""
        return self._found.get(kind, {}).get("message", "")

    def drop(self, kind: str) -> None:
        """Forget a condition."""
        self._found.pop(kind, None)

    def as_list(self) -> list[dict[str, str]]:
        """In the order in which they first appeared."""
        return list(self._found.values())
