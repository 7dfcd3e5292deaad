"""The leadership of a scheduler as SQL knows it: its epoch, its address, and its heartbeat."""

import asyncio
import socket
from collections.abc import Callable

import structlog

from t9ksched.scheduler.report.sql_writer import SqlWriter
from t9ksched.store.errors import StoreError
from t9ksched.store.instance import Instances, LeadershipLost

log = structlog.get_logger(__name__)

HEARTBEAT_SECONDS = 5.0


class Leadership:
    """Begins one leadership and keeps it known. `epoch` is 0 before it began; `answered` counts the answers of the
    database to its heartbeat, so that the election can see that they stop.
    """

    def __init__(self, instances: Instances) -> None:
        self._instances = instances
        self._beginning = asyncio.Lock()
        self.epoch = 0
        self.answered = 0

    async def begin(self, address: str) -> None:
        """Begin it, unless it has begun: from now on no earlier leader can write to SQL.

        Raises:
            StoreError: the database is away.
        """
        async with self._beginning:
            if not self.epoch:
                self.epoch = await self._instances.lead(address, socket.gethostname())

    async def keep(self, address: Callable[[], str], sql_writer: SqlWriter) -> None:
        """Write the leader's address and heartbeat to SQL, until cancelled.

        Raises:
            LeadershipLost: a later leadership has begun.
        """
        while True:
            try:
                await self.begin(address())
                await self._instances.beat(self.epoch)
                self.answered += 1
            except LeadershipLost:
                raise
            except StoreError as error:
                log.warning("heartbeat waits for the database", error=str(error))
                sql_writer.lost()
            await asyncio.sleep(HEARTBEAT_SECONDS)
