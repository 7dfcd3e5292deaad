"""Pods that the previous leader bound last and that the watches of the new leader do not show as bound yet. A new
leader knows what its watches brought, and they may be behind. The rows in SQL are not: each was written before its pod
was bound. So pods that have a row and are not seen bound are read one by one before anything is decided; else their
cards would be given to others.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import structlog

from t9ksched.kube.errors import ApiError, NotFound, ServerError, TooManyRequests, Unreachable
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import PODS
from t9ksched.kube.watch.reflector import Reflector
from t9ksched.scheduler.state.records import FINISHED
from t9ksched.store.bindings import CardBinding

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 16
_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 2.0


async def read_unheard(client: ClusterPort, pods: Reflector[Any], rows: Iterable[CardBinding]) -> None:
    """Read the pods of these rows, and hand those that hold a place on a node to the reflector of pods.

    While the API server cannot answer, this waits: nothing could be bound either.
    """
    todo = iter(rows)
    found = 0

    async def work() -> None:
        nonlocal found
        for row in todo:
            pod = await _read(client, row)
            if pod is not None and _holds(pod):
                pods.learn(pod)
                found += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_AT_ONCE):
            tasks.create_task(work())
    if found:
        log.info("pods were bound that the watches had not told of", pods=found)


async def _read(client: ClusterPort, row: CardBinding) -> Object | None:
    """The pod of a row, None when it is gone or may not be read."""
    pause = _PAUSE
    while True:
        try:
            pod = await client.get(PODS, row.name, row.namespace)
        except NotFound:
            return None
        except ApiError as error:
            if not (error.unknown or isinstance(error, ServerError | TooManyRequests | Unreachable)):
                log.warning(
                    "a pod with cards on record cannot be read", pod=f"{row.namespace}/{row.name}", why=str(error)
                )
                return None
            await asyncio.sleep(max(pause, error.retry_after or 0.0))
            pause = min(_LONGEST_PAUSE, 2 * pause)
        else:
            return pod if pod["metadata"].get("uid") == row.pod_uid else None


def _holds(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and (pod.get("status") or {}).get("phase") not in FINISHED
