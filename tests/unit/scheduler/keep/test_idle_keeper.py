"""The resource keeper beside a cluster in memory: what is read at the last moment, clocks that are set, keep-until,
crashes.
"""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import msgspec
import pytest

from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.model.idle_policy import KEY
from t9ksched.model.names import KEEP_UNTIL_ANNOTATION, LAST_ACTIVITY_ANNOTATION
from t9ksched.model.wall_clock import nanoseconds
from t9ksched.scheduler.keep.idle_keeper import IdleKeeper
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.report.clockwatch import ClockWatch
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.store.errors import StoreError
from t9ksched.store.history import Event
from t9ksched.workloads.registry import KINDS
from tests.unit.workloads.builders import notebook

Object = dict[str, Any]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
POLICY = "policy: {notebook: {scanInterval: 10, idleTimeout: 86400}}"


class Kept:
    """A database that may be away. Events that are `lost` were told shortly before a crash."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.events: list[Event] = []
        self.away = self.lost = False

    async def get(self, key: str) -> Any:
        return msgspec.json.decode(self.values.get(key, "null"))

    async def set(self, key: str, value: Any) -> None:
        if self.away:
            raise StoreError("away")
        self.values[key] = msgspec.json.encode(value)

    async def list(self, *, event: str, uid: str, **_: Any) -> list[Event]:
        if self.away:
            raise StoreError("away")
        return [each for each in self.events if (each.event, each.uid) == (event, uid)]


class Lab:
    """One Notebook that nobody used since `since`, as its controller finds out again at every look."""

    def __init__(self) -> None:
        self.now, self.since, self.notes, self.fresh = NOON, NOON - 3 * DAY, {}, {}
        self.text, self.version, self.steady, self.suspended = POLICY, 1, 0.0, False
        self.state = SimpleNamespace(jobs={}, namespaces=SimpleNamespace(labels={}))
        self.client, self.stopper, self.events = AsyncMock(), Mock(stop=AsyncMock()), Mock()
        self.client.list = AsyncMock(side_effect=self._policy)
        self.client.get = AsyncMock(side_effect=lambda *_: self._object({**self.notes, **self.fresh}))
        self.told: list[str] = []
        self.kept = Kept()
        self.clocks = ClockWatch(lambda: nanoseconds(self.now), lambda: self.steady)
        self.keeper = self.start()

    def start(self) -> IdleKeeper:
        """The keeper of a scheduler that starts."""
        self.keeper = IdleKeeper(
            self.client,
            self.state,  # type: ignore[arg-type]
            self.stopper,
            self.events,
            self._tell,
            SimpleNamespace(meta=self.kept, history=self.kept),  # type: ignore[arg-type]
            lambda: nanoseconds(self.now),
            self.clocks,
        )
        return self.keeper

    def _tell(self, event: Event) -> None:
        if not self.kept.lost:
            self.told.append(event.event)
            self.kept.events.append(event)

    def begun(self) -> list[str]:
        """Suspensions that are written and not settled."""
        return list(msgspec.json.decode(self.kept.values["suspensions-begun"]))

    async def _policy(self, *_: Any, **__: Any) -> Any:
        item = {"metadata": {"name": "x", "resourceVersion": str(self.version)}, "data": {KEY: self.text}}
        return SimpleNamespace(items=[item])

    def _object(self, notes: Object) -> Object:
        idle = {"type": "Idle", "status": "True", "reason": "NoActivity"}
        activity = {"lastActivity": self.since.isoformat(), "checkedAt": self.now.isoformat()}
        book = notebook(suspend=self.suspended)
        book["metadata"] |= {"annotations": notes, "creationTimestamp": "2026-01-01T00:00:00Z"}
        return {**book, "status": {"conditions": [idle], "activity": activity}}

    async def look(self, after: timedelta = timedelta(), *, known: bool = True) -> list[str]:
        """What the keeper tells when it looks after a while; not `known`: the controller does not know of its use."""
        self.now += after
        self.steady += after.total_seconds()
        self.clocks.look()
        obj = self._object(self.notes)
        if not known:
            del obj["status"]
        record = job_record(msgspec.convert(obj, JobObject), KINDS["Notebook"].resource)
        self.state.jobs = {record.uid: record}
        self.told.clear()
        await self.keeper.sweep()
        return list(self.told)


@pytest.fixture
def lab() -> Lab:
    return Lab()


NEAR, GONE = ["suspension-near"], ["suspended-idle"]


async def test_it_is_told_and_then_suspended_once(lab: Lab) -> None:
    assert await lab.look() == NEAR
    assert await lab.look(HOUR - MINUTE) == []
    assert await lab.look(MINUTE) == GONE
    lab.suspended = True
    assert await lab.look(MINUTE) == []
    assert lab.stopper.stop.await_count == 1


@pytest.mark.parametrize(
    "notes",
    [
        {KEEP_UNTIL_ANNOTATION: "2026-03-02"},
        {LAST_ACTIVITY_ANNOTATION: (NOON + MINUTE).isoformat()},
    ],
)
async def test_what_its_object_says_at_the_last_moment_counts(lab: Lab, notes: dict[str, str]) -> None:
    """The watch, or the controllers, may be behind."""
    await lab.look()
    lab.fresh = notes
    assert await lab.look(2 * HOUR) == []
    lab.stopper.stop.assert_not_awaited()
    lab.fresh = {}
    assert await lab.look(MINUTE) == GONE


@pytest.mark.parametrize("error", [NotFound(404, "NotFound", "gone"), ApiError(500, "x", "away")])
async def test_what_cannot_be_suspended_is_tried_again(lab: Lab, error: ApiError) -> None:
    await lab.look()
    lab.stopper.stop.side_effect = error
    assert await lab.look(2 * HOUR) == []
    lab.stopper.stop.side_effect = None
    assert await lab.look(MINUTE) == GONE


async def test_after_keep_until_its_users_are_told_once_more(lab: Lab) -> None:
    assert await lab.look() == NEAR
    lab.notes = {KEEP_UNTIL_ANNOTATION: "2026-03-01"}
    assert await lab.look(12 * HOUR - MINUTE) == []
    assert await lab.look(MINUTE) == NEAR
    assert await lab.look(HOUR) == GONE


async def test_one_that_does_not_answer_for_a_while_is_told_once(lab: Lab) -> None:
    assert await lab.look() == NEAR
    assert await lab.look(HOUR, known=False) == []
    assert await lab.look(MINUTE) == GONE


async def test_one_that_is_used_again_is_told_anew(lab: Lab) -> None:
    assert await lab.look() == NEAR
    lab.since = NOON + MINUTE
    assert await lab.look(HOUR) == []
    assert await lab.look(DAY - HOUR) == NEAR
    assert await lab.look(HOUR) == GONE


async def test_a_clock_that_is_set_takes_no_time_from_those_who_were_told(lab: Lab) -> None:
    await lab.look()
    lab.now += 2 * DAY
    assert await lab.look(MINUTE) == []
    assert await lab.look(HOUR) == GONE


async def test_a_clock_that_is_set_back_stops_nothing(lab: Lab) -> None:
    await lab.look()
    lab.now -= DAY
    lab.text, lab.version = POLICY.replace("86400", "3600"), 2
    assert await lab.look(MINUTE) == []
    assert lab.keeper.policy["Notebook"].timeout == HOUR, "the policy is read"
    assert await lab.look(HOUR) == GONE


async def test_a_bad_policy_leaves_the_last_good_one(lab: Lab) -> None:
    await lab.look()
    lab.text, lab.version = "policy: [", 2
    assert await lab.look(MINUTE) == []
    assert lab.events.event.call_args.args[1] == "Refused"
    assert await lab.look(HOUR) == GONE


async def suspended_and_lost(lab: Lab) -> None:
    """It is suspended, and the scheduler dies before anything of that is written."""
    await lab.look()
    lab.kept.lost = True
    assert await lab.look(HOUR) == []
    lab.suspended = True
    lab.stopper.stop.assert_awaited_once()
    lab.kept.lost = False
    lab.start()


async def test_what_was_suspended_before_a_crash_is_told_once(lab: Lab) -> None:
    await suspended_and_lost(lab)
    at = lab.now
    lab.client.get.side_effect = ApiError(500, "x", "away")
    assert await lab.look(MINUTE) == []
    lab.client.get.side_effect = lambda *_: lab._object(lab.notes)
    assert await lab.look(MINUTE) == GONE
    assert [(each.at, each.detail["idleSince"]) for each in lab.kept.events[1:]] == [(at, lab.since.isoformat())]
    assert await lab.look(MINUTE) == []
    assert lab.begun() == []
    lab.start()
    assert await lab.look(MINUTE) == []


async def test_what_was_told_before_a_crash_is_not_told_again(lab: Lab) -> None:
    await lab.look()
    assert await lab.look(HOUR) == GONE
    assert len(lab.begun()) == 1, "it stays until it is seen in history"
    lab.suspended = True
    lab.start()
    assert await lab.look(MINUTE) == []
    assert lab.begun() == []


async def test_what_waits_for_the_database_is_told_once(lab: Lab) -> None:
    """Its event is written only when the database has been back for a while."""
    await lab.look()
    assert await lab.look(HOUR) == GONE
    lab.suspended = True
    written, lab.kept.events = lab.kept.events, []
    for lab.kept.away in (True, False):
        assert await lab.look(MINUTE) == []
    lab.kept.events = written
    assert await lab.look(MINUTE) == []
    assert lab.begun() == []


async def test_what_was_only_begun_before_a_crash_is_not_told(lab: Lab) -> None:
    await suspended_and_lost(lab)
    lab.suspended = False
    assert await lab.look(MINUTE) == NEAR, "its users are told before, as after any start"
    assert lab.begun() == []


async def test_one_that_its_users_suspend_at_the_last_moment_is_theirs(lab: Lab) -> None:
    await lab.look()
    lab.client.get.side_effect = lambda *_: lab._object({}) | {"spec": notebook(suspend=True)["spec"]}
    assert await lab.look(HOUR) == []
    assert await lab.look(MINUTE) == []
    lab.stopper.stop.assert_not_awaited()
    assert lab.kept.events[1:] == []


async def test_a_suspension_of_which_no_answer_came_is_told(lab: Lab) -> None:
    await lab.look()
    lab.stopper.stop.side_effect = ApiError(0, "Timeout", "no answer")
    assert await lab.look(HOUR) == []
    lab.suspended = True
    assert await lab.look(MINUTE) == GONE
    assert await lab.look(MINUTE) == []


async def test_nothing_is_suspended_that_is_not_on_record(lab: Lab) -> None:
    await lab.look()
    lab.kept.away = True
    assert await lab.look(HOUR) == []
    lab.stopper.stop.assert_not_awaited()
    lab.kept.away = False
    assert await lab.look(MINUTE) == GONE
