"""A lease that is renewed beside the work, and given back when the work stands still and a standby could do it."""

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from t9ksched.cli import renewing as module
from t9ksched.cli.failure import Failure
from t9ksched.cli.leading import standing
from t9ksched.cli.renewing import LEAST_LEADERSHIP_SECONDS, Overseer, Work, renewing
from t9ksched.kube.errors import ServerError
from t9ksched.kube.resources import LEASES
from t9ksched.kube.write.clock import Clock
from t9ksched.kube.write.lease import LeaderElection
from t9ksched.kube.write.standby import StandbyMonitor, StandbyReport, lease_of
from t9ksched.model.leadership import Timing
from t9ksched.model.names import SYSTEM_NAMESPACE
from tests.unit.kube.memory import MemoryPort

NAME, TIMING = "t9k-scheduler", Timing.of(6)


class OpenPort(MemoryPort):
    """A client that a thread opens and closes."""

    async def __aenter__(self) -> "OpenPort":
        return self

    async def __aexit__(self, *_: object) -> None: ...


class Stage:
    """A leader on a clock of the test's own, and a standby beside it."""

    def __init__(self) -> None:
        self.port: Any = OpenPort()
        self.seconds = 1000.0
        self.work = Work()
        self.answers = 0
        self.work.answers = lambda: (self.answers, 5.0)

        async def wait(seconds: float) -> None:
            self.seconds += seconds

        self.election = LeaderElection(
            self.port, NAME, SYSTEM_NAMESPACE, "leader", timing=TIMING, clock=Clock(lambda: self.seconds, sleep=wait)
        )
        monitor = StandbyMonitor(self.port, NAME, SYSTEM_NAMESPACE)
        self.overseer = Overseer(self.election, monitor, self.work, TIMING, clock=lambda: self.seconds)
        self.reports = True

        async def able() -> bool:
            return self.reports

        self.report = StandbyReport(self.port, NAME, SYSTEM_NAMESPACE, "standby", able, 3.0)

    async def go_on(self, seconds: int, *, ticks: bool = True, answers: bool = True, standby: bool = True) -> bool:
        """So many seconds of a leader's life; whether the lease was given back."""
        for second in range(seconds):
            await self.election.attempt()
            self.work.ticks += ticks
            self.answers += answers and second % 5 == 0
            if standby and second % 3 == 0:
                await self.report.report()
            if await self.overseer.look():
                return True
            self.seconds += 1
        return False

    @property
    def holder(self) -> str:
        return str(self.port.one(LEASES, NAME, SYSTEM_NAMESPACE)["spec"]["holderIdentity"])


@pytest.mark.parametrize(
    ("trouble", "why"),
    [({"ticks": False}, "its event loop stood still"), ({"answers": False}, "the database did not answer it")],
)
async def test_a_leader_that_stands_still_makes_room_for_a_standby(trouble: dict[str, bool], why: str) -> None:
    stage = Stage()
    assert not await stage.go_on(90)
    assert stage.holder == "leader"
    assert await stage.go_on(20, **trouble)
    assert (stage.holder, stage.work.why) == ("", f" ({why})")
    assert not stage.election.holds()


async def test_without_a_standby_it_stays() -> None:
    """An outage for all is no reason: no process would do better."""
    stage = Stage()
    await stage.go_on(90)
    assert not await stage.go_on(200, answers=False, standby=False)
    assert stage.holder == "leader"


async def test_a_short_trouble_is_none() -> None:
    stage = Stage()
    await stage.go_on(90)
    for _ in range(5):
        assert not await stage.go_on(8, answers=False)
        assert not await stage.go_on(5, ticks=False)
        assert not await stage.go_on(6)


async def test_at_most_once_a_minute() -> None:
    stage = Stage()
    assert not await stage.go_on(int(LEAST_LEADERSHIP_SECONDS), answers=False)
    assert await stage.go_on(4, answers=False)


async def test_a_cluster_that_does_not_tell_of_standbys_is_no_reason() -> None:
    stage = Stage()
    await stage.go_on(90)
    stage.port.fail["get"] = [None if n % 2 == 0 else ServerError(500) for n in range(400)]
    assert not await stage.go_on(20, answers=False, standby=False)


async def test_a_standby_reports_only_while_it_could_lead() -> None:
    stage = Stage()
    monitor = StandbyMonitor(stage.port, NAME, SYSTEM_NAMESPACE)
    assert not await monitor.fresh()
    await stage.report.report()
    assert await monitor.fresh()
    assert not await monitor.fresh(), "it has not reported since"
    await stage.report.report()
    assert await monitor.fresh()
    monitor.forget()
    assert not await monitor.fresh(), "what was reported before the trouble does not count"
    stage.reports = False
    before = stage.port.one(LEASES, lease_of(NAME), SYSTEM_NAMESPACE)["metadata"]["resourceVersion"]
    reporting = asyncio.create_task(stage.report.run())
    await asyncio.sleep(0)
    reporting.cancel()
    assert stage.port.one(LEASES, lease_of(NAME), SYSTEM_NAMESPACE)["metadata"]["resourceVersion"] == before


async def test_work_does_not_starve_the_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop is held until the thread has renewed several times."""
    monkeypatch.setattr(module, "_STOP_POLL_SECONDS", 0.01)
    port: Any = OpenPort()
    quick = Timing(4, 3.0, 0.01)
    election = LeaderElection(port, NAME, SYSTEM_NAMESPACE, "leader", timing=quick)
    overseer = Overseer(election, StandbyMonitor(port, NAME, SYSTEM_NAMESPACE), Work(), quick)
    running = asyncio.create_task(renewing(election, port, overseer))
    await asyncio.sleep(0)
    renewals = set[str]()
    end = time.monotonic() + 20
    while len(renewals) < 5:
        assert time.monotonic() < end
        with suppress(KeyError, StopIteration, IndexError):
            renewals.add(port.one(LEASES, NAME, SYSTEM_NAMESPACE)["metadata"]["resourceVersion"])
    assert election.holds()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert not election.holds()
    assert port.one(LEASES, NAME, SYSTEM_NAMESPACE)["spec"]["holderIdentity"] == ""
    for thread in threading.enumerate():
        if thread.name == "lease":  # it has told that it is done, and ends
            thread.join(20)
            assert not thread.is_alive()


async def test_a_lease_that_is_lost_ends_the_work_and_says_why() -> None:
    port: Any = OpenPort()

    async def lead() -> None:
        async with standing(port, NAME, timing=Timing(4, 0.4, 0.1), renew=port) as candidate:
            await candidate.won()
            port.fail["get"] = [ServerError(500)] * 1000
            await asyncio.sleep(20)

    with pytest.raises(Failure, match="was lost"):
        await lead()
