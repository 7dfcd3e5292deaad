"""The sender of notifications: at least once whatever fails or is killed, and no target waits for another."""

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t9ksched.model.notification import EVENTS, Address
from t9ksched.notify.errors import NotSent
from t9ksched.notify.sending import Send, sender
from t9ksched.notify.services import Services
from t9ksched.notify.webhook import Webhooks
from t9ksched.scheduler.keep import notifier
from t9ksched.scheduler.keep.notifier import Notifier
from t9ksched.scheduler.state.notified import Notified
from t9ksched.store import Store, history
from t9ksched.store.errors import StoreError
from t9ksched.store.history import Event
from t9ksched.store.jobs import JobRecord
from t9ksched.store.notifications import MOST_FAILURES, Target, Waiting, new_target
from tests.unit.notify.receiver import LOOPBACK, Receiver, receiving


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "PERIOD", 0.01)


@pytest.fixture
async def store(tmp_path: Path, sqlite_template: Path) -> AsyncIterator[Store]:
    path = shutil.copy(sqlite_template, tmp_path / "store.db")
    async with await Store.open(f"sqlite:///{path}", migrate=False) as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


class Clock:
    """Nanoseconds since the epoch, which can be set forward."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return time.time_ns() + self.ahead

    def pass_hours(self, hours: float) -> None:
        self.ahead += int(hours * 3600e9)


@asynccontextmanager
async def notifying(store: Store, send: Send, clock: Callable[[], int] = time.time_ns) -> AsyncIterator[Notified]:
    counts = Notified()
    task = asyncio.create_task(Notifier(store.notifications, send, counts, clock).run())
    try:
        yield counts
        assert not task.done(), "nothing ends it"
    finally:
        task.cancel()
        await asyncio.wait({task})


def by_webhook(seconds: float = 30.0) -> Send:
    return sender(Webhooks(LOOPBACK, seconds=seconds), Services())


async def target(store: Store, url: str, owner: str = "ann") -> Target:
    made = new_target(Address("webhook", url, "http://127.0.0.1/…"), owner, EVENTS)
    await store.notifications.add(made, 1000, by=owner)
    return made


def now() -> datetime:
    return datetime.now(UTC)


async def happen(store: Store, *uids: str, owner: str = "ann") -> None:
    about: dict[str, Any] = {"kind": "Job", "namespace": "ns"}
    shape = {"submitter": owner}
    jobs = [JobRecord(uid=uid, name=uid, submitted_at=now(), shape=shape, **about) for uid in uids]
    events = [Event(event=history.STARTED, name=uid, uid=uid, **about) for uid in uids]
    await store.tell([], events, jobs)


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def gone(store: Store) -> None:
    async with asyncio.timeout(60):
        while await store.notifications.waiting():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_happened_is_sent_once_in_its_order(store: Store, receiver: Receiver) -> None:
    await target(store, f"{receiver.url}/ann")
    await target(store, f"{receiver.url}/bob", "bob")
    await happen(store, *(f"j{n}" for n in range(70)))
    await happen(store, "b", owner="bob")
    async with notifying(store, by_webhook()) as counts:
        await gone(store)
        await until(lambda: counts.waiting == 0)
    assert [body["uid"] for body in receiver.bodies("/ann")] == [f"j{n}" for n in range(70)]
    assert [body["uid"] for body in receiver.bodies("/bob")] == ["b"]
    assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 71
    assert counts.told == {"sent": 71, "failed": 0, "dropped": 0}


async def test_targets_that_hang_keep_no_other_waiting(store: Store, receiver: Receiver) -> None:
    for n in range(2 * notifier.PLACES):
        hangs = await target(store, f"{receiver.url}/hangs{n}", f"hangs{n}")
        receiver.answers[f"/hangs{n}"] = "hang"
        await happen(store, f"h{n}", owner=f"hangs{n}")
        [row] = await store.notifications.due(hangs.id, now(), 1)
        await store.notifications.failed(row, now(), "it hung before")
    clock = Clock()
    clock.pass_hours(1)
    await target(store, f"{receiver.url}/ann")
    async with notifying(store, by_webhook(), clock):
        await until(lambda: receiver.hanging == notifier.PLACES // 2)
        await happen(store, "a")
        await until(lambda: receiver.bodies("/ann"))
        assert receiver.hanging == notifier.PLACES // 2, "half of the places are for those that work"


async def test_one_that_fails_is_tried_again_and_disabled_in_the_end(
    store: Store, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    made = await target(store, f"{receiver.url}/s3cret")
    receiver.answers["/s3cret"] = 500
    await happen(store, *(f"j{n}" for n in range(MOST_FAILURES + 5)))
    clock = Clock()
    async with notifying(store, by_webhook(), clock) as counts:
        for count in range(1, MOST_FAILURES + 1):
            await until(lambda count=count: counts.told["failed"] == count)  # type: ignore[misc]
            await asyncio.sleep(0.03)
            assert counts.told["failed"] == count, "it pauses"
            clock.pass_hours(1.1)
        async with asyncio.timeout(60):
            while (found := await store.notifications.get(made.id)) is None or found.disabled_at is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert found.last_error == "it answered 500"
        receiver.answers["/s3cret"] = 204
        await store.notifications.test(found, now(), "ann")
        await gone(store)
    got = Counter(body["uid"] for body in receiver.bodies("/s3cret"))
    assert set(got) == {f"j{n}" for n in range(MOST_FAILURES + 5)} | {None}
    told = capsys.readouterr()
    assert "s3cret" not in told.out + told.err
    assert "notifications are disabled" in told.out


async def test_what_raises_anything_else_ends_no_scheduler(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    await target(store, "http://127.0.0.1/s3cret")
    await happen(store, "a")

    async def broken(target: Target, one: Waiting) -> None:
        raise RuntimeError(target.url)

    async with notifying(store, broken) as counts:
        await until(lambda: counts.told["failed"])
    assert "s3cret" not in (told := capsys.readouterr()).out + told.err
    assert "RuntimeError" in told.out


async def test_killed_between_the_sending_and_its_record_it_is_sent_again_with_the_same_id(
    store: Store, receiver: Receiver
) -> None:
    await target(store, f"{receiver.url}/ann")
    await happen(store, "a")
    sent = asyncio.Event()
    send = by_webhook()

    async def dying(target: Target, one: Waiting) -> None:
        await send(target, one)
        sent.set()
        await asyncio.sleep(3600)  # killed here

    async with notifying(store, dying):
        await sent.wait()
    assert await store.notifications.waiting() == 1
    async with notifying(store, send):
        await gone(store)
    first, second = receiver.got
    assert first[1]["webhook-id"] == second[1]["webhook-id"]
    assert first[2] == second[2]


async def test_while_the_database_is_away_nothing_is_sent_twice_by_one_process(
    store: Store, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await target(store, f"{receiver.url}/ann")
    await happen(store, "a", "b")
    record, refused = store.notifications.sent, 0

    async def away(*given: Any) -> None:
        nonlocal refused
        refused += 1
        if refused < 5:
            raise StoreError("away")
        await record(*given)

    monkeypatch.setattr(store.notifications, "sent", away)
    async with notifying(store, by_webhook()):
        await gone(store)
    assert refused >= 6
    assert [body["uid"] for body in receiver.bodies("/ann")] == ["a", "b"]


class _Killed(BaseException):
    """The process is no more; what it was about to write is not written."""


Step = st.sampled_from(["taken", "refused", "killed before", "killed behind", "database away", "new leader"])


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(Step, max_size=6)), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_event_is_sent_at_least_once_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path, story: list[tuple[int, list[str]]]
) -> None:
    """Events of three users in some transactions; between them attempts with these outcomes, over restarts."""
    path = shutil.copy(sqlite_template, tmp_path_factory.mktemp("story") / "store.db")
    asyncio.run(_story(f"sqlite:///{path}", story))


async def _story(address: str, story: list[tuple[int, list[str]]]) -> None:
    expected: set[tuple[str, str]] = set()
    got: Counter[tuple[str, str]] = Counter()
    ids: dict[tuple[str, str], set[str]] = {}
    clock, outcomes = Clock(), list[str]()
    async with await Store.open(address, migrate=False) as store:
        for user in range(3):
            await target(store, f"https://example.org/{user}", f"u{user}")
        record = store.notifications.sent

        async def send(target: Target, one: Waiting) -> None:
            outcome = outcomes.pop(0) if outcomes else "taken"
            if outcome == "killed before":
                raise _Killed
            if outcome == "refused":
                raise NotSent("it answered 500")
            key = (target.owner, one.body["uid"])
            got[key] += 1
            ids.setdefault(key, set()).add(one.body["id"])
            if outcome == "killed behind":
                raise _Killed

        async def sent(*given: Any) -> None:
            if outcomes and outcomes[0] == "database away":
                outcomes.pop(0)
                raise StoreError("away")
            await record(*given)

        store.notifications.sent = sent  # type: ignore[method-assign]

        async def work() -> None:
            one = Notifier(store.notifications, send, Notified(), clock)
            with suppress(_Killed, BaseExceptionGroup):
                async with asyncio.TaskGroup() as tasks:
                    await one._look(tasks)

        for number, (user, steps) in enumerate(story):
            uid = f"j{number}"
            expected.add((f"u{user}", uid))
            await happen(store, uid, owner=f"u{user}")
            outcomes[:] = steps
            await work()
            clock.pass_hours(0.1)
        outcomes.clear()
        for _ in range(2 * len(story) + 2):
            clock.pass_hours(2)
            await work()
        assert await store.notifications.waiting() == 0
    assert set(got) == expected
    assert all(len(one) == 1 for one in ids.values()), "the id tells a receiver what it had before"
