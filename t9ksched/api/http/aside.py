"""Work on many objects, done in pieces or in a thread, so that no request blocks the event loop."""

from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar

from anyio import to_thread

from t9ksched.api.services import Services

P = ParamSpec("P")
T = TypeVar("T")

FEW: Final = 20
"""Objects that are worked on at once: some milliseconds."""


async def aside(services: Services, objects: int, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """The result of `work` on so many objects; of many in a thread, one such work at a time."""
    if objects <= FEW:
        return work(*args, **options)
    return await to_thread.run_sync(partial(work, *args, **options), limiter=services.bodies.worker)
