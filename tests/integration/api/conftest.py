"""The scheduler's fixtures serve here too."""

from tests.integration.scheduler.conftest import queue, start, store

__all__ = ["queue", "start", "store"]
