"""The outbox of notifications: filled with the record of what happened, for those whom it concerns, and kept until it
is sent.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from t9ksched.model.notification import EVENTS, Address
from t9ksched.store import Store, history, schema
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.database import Database
from t9ksched.store.errors import RowMissing, StoreError
from t9ksched.store.history import AUDITED, Event
from t9ksched.store.instance import LeadershipLost
from t9ksched.store.jobs import JobRecord
from t9ksched.store.notifications import KEPT, MOST_FAILURES, Target, TooManyTargets, new_target, pause_after

NOW = datetime(2031, 5, 1, 10, tzinfo=UTC)
MANY = 20


class Killed(Exception):
    """The process is no more."""


async def target(store: Store, owner: str, *events: str, queue: str | None = None, within: Any = ()) -> Target:
    address = Address("webhook", f"https://example.org/{owner}/s3cret", "https://example.org/…")
    made = new_target(address, owner, events or EVENTS, queue=queue, within=within)
    await store.notifications.add(made, MANY, by=owner)
    return made


def job(uid: str, submitter: str | None, queue: str = "q") -> JobRecord:
    shape = {"submitter": submitter}
    return JobRecord(uid=uid, kind="Job", namespace="ns", name=uid, queue=queue, submitted_at=NOW, shape=shape)


def event(what: str, uid: str, queue: str = "q", at: datetime = NOW, **detail: Any) -> Event:
    return Event(event=what, at=at, kind="Job", namespace="ns", name=uid, uid=uid, queue=queue, detail=detail)


async def waiting(store: Store, one: Target) -> list[tuple[str, str]]:
    """The types and jobs of what is to be sent to a target."""
    return [(row.body["type"], row.body["uid"]) for row in await store.notifications.due(one.id, datetime.now(UTC), 99)]


async def test_users_are_told_of_their_jobs_and_queues_of_theirs(store: Store) -> None:
    ann, bob = await target(store, "ann"), await target(store, "bob")
    of_queue, other = await target(store, "eve", queue="q"), await target(store, "eve", queue="other")
    events = [event(history.STARTED, "a"), event(history.STARTED, "b"), event(history.STARTED, "nobodys")]
    await store.tell([], events, [job("a", "ann"), job("b", "bob"), job("nobodys", None)])
    assert await waiting(store, ann) == [("started", "a")]
    assert await waiting(store, bob) == [("started", "b")]
    assert await waiting(store, of_queue) == [("started", "a"), ("started", "b"), ("started", "nobodys")]
    assert await waiting(store, other) == []
    [row] = await store.notifications.due(ann.id, datetime.now(UTC), 9)
    assert len(row.body.pop("id")) == 32
    assert row.body == {
        "type": "started",
        "at": "2031-05-01T10:00:00+00:00",
        "kind": "Job",
        "namespace": "ns",
        "name": "a",
        "uid": "a",
        "queue": "q",
        "submitter": "ann",
        "message": "Job/a in ns runs",
    }


async def test_the_submitter_is_known_from_the_acceptance_before_the_job_is_written(store: Store) -> None:
    ann = await target(store, "ann")
    accepted = Acceptance(uid="a", kind="Job", namespace="ns", name="a", submitter="ann", queue="q", priority=0)
    await store.tell([accepted], [event(history.STARTED, "a")], [])
    assert await waiting(store, ann) == [("started", "a")]


@pytest.mark.parametrize(
    ("happened", "asked", "told"),
    [
        (event(history.STARTED, "a"), {"started"}, "started"),
        (event(history.FINISHED, "a", phase="Succeeded"), {"ended"}, "ended"),
        (event(history.FINISHED, "a", phase="Failed", message="it ran out of memory"), {"ended", "failed"}, "failed"),
        (event(history.DELETED, "a", phase="Running"), {"ended"}, "ended"),
        (event(history.DELETED, "a", phase="Succeeded"), set(), ""),
        (event(history.DELETED, "a", phase="Failed"), set(), ""),
        (
            event(history.PREEMPTED, "a", pod="a-0", by="ns/Job/s3cret", why="room for a queue"),
            {"preempted"},
            "preempted",
        ),
        (event(history.PLAN_MOVED, "a", message="later"), {"plan-moved"}, "plan-moved"),
        (event(history.TIME_LIMIT_NEAR, "a", message="soon"), {"time-limit-near"}, "time-limit-near"),
        (event(history.WAITING, "a", message="no room"), set(), ""),
        (event(history.BOUND, "a"), set(), ""),
    ],
    ids=lambda value: value.event if isinstance(value, Event) else "",
)
async def test_each_subscription_is_told_of_what_it_asks_for(
    store: Store, happened: Event, asked: set[str], told: str
) -> None:
    by_event = {name: await target(store, "ann", name) for name in EVENTS}
    await store.tell([], [happened], [job("a", "ann")])
    for name, one in by_event.items():
        assert await waiting(store, one) == ([(told, "a")] if name in asked else [])
        for row in await store.notifications.due(one.id, datetime.now(UTC), 9):
            assert "s3cret" not in str(row.body)
            assert happened.detail.get("why", happened.detail.get("message", "")) in row.body["message"]


async def test_a_gang_that_is_evicted_is_told_once_and_again_when_it_is_evicted_again(store: Store) -> None:
    ann = await target(store, "ann", "preempted")
    for start in (0, 3):  # members may be evicted in several transactions
        members = [
            event(history.PREEMPTED, "a", pod=f"a-{n}", at=NOW + timedelta(seconds=n)) for n in range(start, 3 + start)
        ]
        await store.tell([], [*members, event(history.PREEMPTED, f"b{start}", pod="b")], [job("a", "ann")])
    assert await waiting(store, ann) == [("preempted", "a")]
    again = event(history.PREEMPTED, "a", pod="a-0", at=NOW + timedelta(minutes=10))
    await store.tell([], [again], [job("a", "ann")])
    assert await waiting(store, ann) == [("preempted", "a")] * 2


async def test_a_token_for_some_queues_learns_of_these_alone(store: Store) -> None:
    ann = await target(store, "ann", within=["q"])
    await store.tell(
        [],
        [event(history.STARTED, "a"), event(history.STARTED, "b", queue="other")],
        [job("a", "ann"), job("b", "ann", "other")],
    )
    assert await waiting(store, ann) == [("started", "a")]


async def test_the_event_and_its_notifications_are_written_together_or_not_at_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await target(store, "ann")
    epoch = await store.instances.lead("http://one", "one")
    former = store.fenced(lambda: epoch)
    await store.instances.lead("http://two", "two")
    with pytest.raises(LeadershipLost):
        await former.tell([], [event(history.STARTED, "a")], [job("a", "ann")])
    assert await waiting(store, ann) == []
    if not store.database.is_sqlite:
        return
    transact = Database._transact

    def killed(self: Database, act: Any) -> Any:
        def undone(connection: Any) -> Any:
            act(connection)
            raise Killed  # behind the last statement, before the commit

        return transact(self, undone)

    monkeypatch.setattr(Database, "_transact", killed)
    with pytest.raises(Killed):
        await store.tell([], [event(history.STARTED, "a")], [job("a", "ann")])
    monkeypatch.undo()
    assert await store.history.list(uid="a") == []
    assert await waiting(store, ann) == []


async def test_what_was_sent_is_gone_and_what_failed_comes_later(store: Store) -> None:
    ann = await target(store, "ann")
    await store.tell([], [event(history.STARTED, uid) for uid in "abc"], [job(uid, "ann") for uid in "abc"])
    now = datetime.now(UTC)
    one, two, _ = await store.notifications.due(ann.id, now, 9)
    await store.notifications.sent(one, now)
    outcome = await store.notifications.failed(two, now, "it answered 500")
    assert (outcome.given_up, outcome.disabled, outcome.failures) == (False, False, 1)
    assert await waiting(store, ann) == [("started", "c")]
    assert await store.notifications.ready(now, 9) == []
    later = now + pause_after(1)
    assert [one.id for one in await store.notifications.ready(later, 9)] == [ann.id]
    assert [row.body["uid"] for row in await store.notifications.due(ann.id, later, 9)] == ["c", "b"], (
        "fresh ones first"
    )
    found = await store.notifications.get(ann.id)
    assert found is not None
    assert (found.failures, found.last_at, found.last_error) == (1, now, "it answered 500")


async def test_pauses_grow_to_an_hour() -> None:
    pauses = [pause_after(failures) for failures in range(1, MOST_FAILURES + 1)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (timedelta(seconds=10), timedelta(hours=1))
    assert timedelta(hours=6) < sum(pauses, timedelta()) < timedelta(days=1)


async def test_a_target_is_disabled_after_many_failures_and_a_test_tries_it_once_more(store: Store) -> None:
    ann = await target(store, "ann")
    now = datetime.now(UTC)
    for count in range(1, MOST_FAILURES + 1):
        await store.tell([], [event(history.STARTED, f"j{count}")], [job(f"j{count}", "ann")])
        [row] = [one for one in await store.notifications.due(ann.id, now + KEPT, 99) if one.body["uid"] == f"j{count}"]
        outcome = await store.notifications.failed(row, now, "it answered 500")
        assert outcome.disabled is (count == MOST_FAILURES)
    count = await store.notifications.waiting()
    await store.tell([], [event(history.STARTED, "later")], [job("later", "ann")])
    assert await store.notifications.waiting() == count, "nothing is added while it is disabled"
    assert await store.notifications.ready(now + KEPT, 9) == []
    test = await store.notifications.test(ann, now, "ann")
    [found] = await store.notifications.ready(now, 9)
    assert found.disabled_at is None
    [row] = [one for one in await store.notifications.due(ann.id, datetime.now(UTC), 99) if one.body["id"] == test]
    assert (await store.notifications.failed(row, now, "again")).disabled
    await store.notifications.test(ann, now, "ann")
    [row] = [one for one in await store.notifications.due(ann.id, datetime.now(UTC), 99) if one.body["type"] == "test"]
    await store.notifications.sent(row, now)
    works = await store.notifications.get(ann.id)
    assert works is not None
    assert (works.failures, works.disabled_at, works.last_error) == (0, None, "")


async def test_a_receiver_that_wants_no_more_is_disabled_at_once(store: Store) -> None:
    ann = await target(store, "ann")
    await store.tell([], [event(history.STARTED, "a")], [job("a", "ann")])
    [row] = await store.notifications.due(ann.id, datetime.now(UTC), 9)
    assert (await store.notifications.failed(row, NOW, "410", gone=True)).disabled


async def test_one_that_is_never_taken_is_given_up(store: Store) -> None:
    ann = await target(store, "ann")
    await store.tell([], [event(history.STARTED, "a")], [job("a", "ann")])
    now = datetime.now(UTC)
    for count in range(1, MOST_FAILURES + 1):
        [row] = await store.notifications.due(ann.id, now + KEPT, 9)
        assert (await store.notifications.failed(row, now, "400")).given_up is (count == MOST_FAILURES)
    assert await store.notifications.waiting() == 0


async def test_limits_the_end_of_targets_and_the_audit(store: Store) -> None:
    ann = await target(store, "ann")
    await target(store, "ann", queue="q")
    with pytest.raises(TooManyTargets, match="'ann' has 1 addresses"):
        await store.notifications.add(new_target(Address("webhook", "u", "s"), "ann", EVENTS), 1, by="ann")
    with pytest.raises(TooManyTargets, match="the queue 'q' has 1"):
        await store.notifications.add(new_target(Address("webhook", "u", "s"), "eve", EVENTS, queue="q"), 1, by="eve")
    await store.tell([], [event(history.STARTED, "a")], [job("a", "ann")])
    assert await store.notifications.waiting() == 2
    await store.notifications.delete(ann, by="root")
    assert await store.notifications.waiting() == 1
    for gone in (store.notifications.delete(ann, by="root"), store.notifications.test(ann, NOW, "ann")):
        with pytest.raises(RowMissing):
            await gone
    audit = await store.history.list(events=AUDITED)
    assert [(one.event, one.actor, one.queue) for one in audit] == [
        (history.NOTIFICATION_ADDED, "ann", None),
        (history.NOTIFICATION_ADDED, "ann", "q"),
        (history.NOTIFICATION_DELETED, "root", None),
    ]
    assert "s3cret" not in str(audit)
    assert ann.key not in str(audit)


async def test_a_queue_made_anew_under_the_name_of_another_tells_nobody_of_before(store: Store) -> None:
    await store.queues.create("q", {}, {})
    mine, own = await target(store, "eve", queue="q"), await target(store, "ann")
    await store.tell([], [event(history.STARTED, "a")], [job("a", "ann")])
    await store.queues.delete("q", by="root")
    await store.queues.create("q", {}, {})
    await store.tell([], [event(history.STARTED, "b")], [job("b", "ann")])
    assert [one.id for one in await store.notifications.list()] == [own.id]
    assert [one.id for one in await store.notifications.ready(datetime.now(UTC), 9)] == [own.id]
    assert await store.notifications.purge(datetime.now(UTC)) == 1
    assert await waiting(store, mine) == []
    assert len(await waiting(store, own)) == 2


async def test_what_waits_for_too_long_is_dropped(store: Store) -> None:
    await target(store, "ann")
    await store.tell([], [event(history.STARTED, "a")], [job("a", "ann")])
    assert await store.notifications.purge(datetime.now(UTC)) == 0
    assert await store.notifications.purge(datetime.now(UTC) + KEPT + timedelta(minutes=1)) == 1


async def test_secrets_are_in_no_representation_and_in_no_error(store: Store) -> None:
    ann = await target(store, "ann")
    assert "s3cret" not in repr(ann)
    assert ann.key not in repr(ann)
    with pytest.raises(StoreError) as caught:
        await store.notifications.add(ann, MANY, by="ann")  # its id is taken
    assert "s3cret" not in str(caught.value)
    assert ann.key not in str(caught.value)


async def test_the_tables_go_with_their_rows_and_come_back_empty(address: str) -> None:
    async with await Store.open(address) as store:
        ann = await target(store, "ann")
        await store.tell([], [event(history.STARTED, "a")], [job("a", "ann")])
        assert await waiting(store, ann) == [("started", "a")]
    revisions = schema.revisions()
    before = revisions[revisions.index(REVISION) - 1]
    schema.downgrade(address, before)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.notifications.list() == []
        assert await store.notifications.waiting() == 0
        assert [one.event for one in await store.history.list(uid="a")] == [history.STARTED]
        ann = await target(store, "ann")
        await store.tell([], [event(history.STARTED, "b")], [job("b", "ann")])
        assert await waiting(store, ann) == [("started", "b")]
        async with store.database.read() as connection:
            count = (await connection.execute(text("SELECT count(*) FROM notification"))).scalar_one()
        assert count == 1


REVISION = "0034"
