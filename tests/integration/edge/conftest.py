"""The scheduler, its store and a queue, as the scheduler's own tests have them."""

from tests.integration.scheduler.conftest import queue, start, store

__all__ = ["queue", "start", "store"]
