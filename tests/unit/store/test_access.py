"""Members, scoped tokens, decisions about jobs, stops, and the record of who changed what."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine, text

from t9ksched.store import Store, schema, urls
from t9ksched.store.errors import RevisionChanged, StoreError
from t9ksched.store.history import AUDIT_RETENTION, AUDITED, Event, Visibility
from t9ksched.store.job_overrides import PREEMPTION, SCHEDULING, Stop

NOW = datetime(2031, 1, 1, tzinfo=UTC)


class TestMembers:
    async def test_default_is_open_and_new_ones_are_not(self, store: Store) -> None:
        default = await store.queues.get("default")
        assert default is not None
        assert default.members == {"everyone": True}
        assert (await store.queues.create("q", {}, {})).members == {}

    async def test_they_share_the_revision_and_the_change_log(self, store: Store) -> None:
        made = await store.queues.create("q", {}, {"priority": 3})
        head = await store.changes.head()
        changed = await store.queues.set_members("q", {"users": ["ann"]}, made.revision, by="root")
        assert (changed.members, changed.spec) == ({"users": ["ann"]}, {"priority": 3, "ordering": "Backfill"})
        assert [(c.table, c.key) for c in await store.changes.since(head)] == [("queue", "q")]
        with pytest.raises(RevisionChanged):
            await store.queues.set_members("q", {}, made.revision)
        (event,) = await store.history.list(events=AUDITED)
        assert (event.event, event.actor, event.queue) == ("queue-members-changed", "root", "q")
        assert (event.detail["before"]["members"], event.detail["after"]["members"]) == ({}, {"users": ["ann"]})

    async def test_an_upgrade_takes_access_from_no_user(self, address: str) -> None:
        schema.upgrade(address, "0001")
        engine = create_engine(urls.for_sync(urls.parse(address)))
        row = "INSERT INTO queue VALUES ('old', 'u', '{}', '{}', 1, '2030-01-01', '2030-01-01')"
        token = "INSERT INTO api_token VALUES ('ci', 'x', 'ci', 'user', '2030-01-01', NULL)"
        with engine.begin() as connection:
            connection.execute(text(row))
            connection.execute(text(token))
        engine.dispose()
        async with await Store.open(address) as store:
            old = await store.queues.get("old")
            assert old is not None
            assert (old.members, old.draining) == ({"everyone": True}, False)
            (token_row,) = await store.tokens.list()
            assert (token_row.groups, token_row.queues, token_row.expires_at) == ([], [], None)
            await store.tokens.create("boss", "manager", queues=["old"])
            await store.tokens.create("brief", expires_at=NOW)
        schema.downgrade(address, "0001")
        schema.upgrade(address)
        async with await Store.open(address) as store:
            assert [token.name for token in await store.tokens.list()] == ["ci"], "no right grows by going down"


async def test_draining_is_set_and_ended_with_an_edit(store: Store) -> None:
    await store.queues.create("q", {}, {})
    drained = await store.queues.edit("q", lambda q: (q.labels, q.spec | {"closed": True}), draining=True)
    assert drained.draining
    assert (await store.queues.edit("q", lambda q: (q.labels, q.spec))).draining, "other edits leave it"
    assert not (await store.queues.edit("q", lambda q: (q.labels, {}), draining=False)).draining
    await store.queues.edit("q", lambda q: (q.labels, q.spec | {"closed": True}), draining=True)
    assert not (await store.queues.edit("q", lambda q: (q.labels, {"closed": False}))).draining, "opened by an edit"


class TestTokens:
    async def test_scope_and_groups(self, store: Store) -> None:
        secret = await store.tokens.create("t", "manager", "ann", groups=["ml", "ops"], queues=["a"], by="root")
        found = await store.tokens.authenticate(secret)
        assert found is not None
        assert (found.owner, found.role, found.groups, found.queues) == ("ann", "manager", ["ml", "ops"], ["a"])
        await store.tokens.create("t2", owner="ann", groups=["night"])
        await store.tokens.create("t3", owner="ann", groups=["gone"], expires_at=datetime.now(UTC))
        assert (await store.tokens.groups_until(datetime.now(UTC)))[0] == {"ann": {"ml", "ops", "night"}}
        head = await store.changes.head()
        await store.tokens.revoke("t2")
        assert [(c.table, c.key) for c in await store.changes.since(head)] == [("api_token", "t2")]

    async def test_expiry(self, store: Store) -> None:
        ended = await store.tokens.create("old", expires_at=datetime.now(UTC) - timedelta(seconds=1))
        lasting = await store.tokens.create("new", expires_at=datetime.now(UTC) + timedelta(hours=1))
        assert await store.tokens.authenticate(ended) is None
        assert await store.tokens.authenticate(lasting) is not None

    async def test_an_administrator_that_will_end_is_not_the_last_one(self, store: Store) -> None:
        await store.tokens.ensure_admin()
        await store.tokens.create("guest", "admin", expires_at=datetime.now(UTC) + timedelta(hours=1))
        with pytest.raises(StoreError, match="last administrator"):
            await store.tokens.revoke("admin")

    async def test_their_life_is_on_record_without_secrets(self, store: Store) -> None:
        secret = await store.tokens.create("ci", by="root")
        await store.tokens.revoke("ci", by="root")
        events = await store.history.list(actor="root")
        assert [event.event for event in events] == ["token-created", "token-revoked"]
        assert secret not in json.dumps([event.detail for event in events])


class TestControls:
    async def test_hold_release_and_priority(self, store: Store) -> None:
        about = Event(event="job-held", uid="u", actor="boss", queue="q", at=NOW)
        head = await store.changes.head()
        assert (await store.controls.hold(about)).held
        changed = await store.controls.prioritise(Event(event="job-prioritised", uid="u", actor="boss"), 7)
        assert (changed.held, changed.priority) == (True, 7)
        await store.controls.release(Event(event="job-released", uid="u", actor="boss"))
        (now,) = await store.controls.all()
        assert (now.uid, now.held, now.priority) == ("u", False, 7)
        assert [(c.table, c.key) for c in await store.changes.since(head)] == [("job_control", "u")] * 3
        details = [event.detail for event in await store.history.list(uid="u")]
        assert details[1] == {"before": {"held": True, "priority": None}, "after": {"held": True, "priority": 7}}
        assert set(await store.controls.of(["u", "v"])) == {"u"}
        await store.controls.forget(["u"])
        assert await store.controls.all() == []


class TestStops:
    async def test_in_force_until_their_time(self, store: Store) -> None:
        await store.stops.stop(Stop(SCHEDULING, NOW + timedelta(hours=1), "root", NOW, "maintenance"))
        await store.stops.stop(Stop(PREEMPTION, None, "root", NOW))
        assert [one.what for one in await store.stops.list(NOW)] == [SCHEDULING, PREEMPTION]
        assert [one.what for one in await store.stops.list(NOW + timedelta(hours=1))] == [PREEMPTION]

    async def test_resuming(self, store: Store) -> None:
        assert not await store.stops.resume(SCHEDULING, "root")
        head = await store.changes.head()
        await store.stops.stop(Stop(SCHEDULING, None, "root", NOW))
        assert await store.stops.resume(SCHEDULING, "root")
        assert await store.stops.list(NOW) == []
        assert [(c.table, c.key) for c in await store.changes.since(head)] == [("stop", SCHEDULING)] * 2
        assert [event.event for event in await store.history.list(events=AUDITED)] == ["stopped", "resumed"]


class TestHistory:
    async def test_it_cannot_be_rewritten(self, store: Store) -> None:
        await store.history.append(Event(event="bound"))
        with pytest.raises(StoreError, match="append-only"):
            async with store.database.write() as connection:
                await connection.execute(text("UPDATE history SET actor = 'nobody'"))

    async def test_administrative_changes_outlive_the_rest(self, store: Store) -> None:
        recent, ancient = datetime.now(UTC) - timedelta(days=100), datetime.now(UTC) - AUDIT_RETENTION * 2
        kinds = [("bound", recent), ("queue-created", recent), ("queue-created", ancient), ("bound", ancient)]
        await store.history.append_many([Event(event=event, at=at) for event, at in kinds])
        assert await store.history.purge(datetime.now(UTC) - timedelta(days=30)) == 3
        assert [event.event for event in await store.history.list()] == ["queue-created"]

    async def test_filters_and_both_directions(self, store: Store) -> None:
        events = [Event(event="bound", queue=q, actor=a, at=NOW + timedelta(hours=i)) for i, (q, a) in enumerate(
            [("a", "x"), ("b", "y"), ("a", "y"), ("c", "x")]
        )]  # fmt: skip
        await store.history.append_many(events)
        ids = [event.id for event in await store.history.list()]
        assert [event.id for event in await store.history.list(newest_first=True, limit=2)] == [ids[3], ids[2]]
        assert [e.id for e in await store.history.list(newest_first=True, after=ids[2], limit=9)] == [ids[1], ids[0]]
        assert [event.id for event in await store.history.list(queues=["a", "c"], actor="x")] == [ids[0], ids[3]]
        between = await store.history.list(since=NOW + timedelta(hours=1), until=NOW + timedelta(hours=3))
        assert [event.id for event in between] == ids[1:3]
        assert await store.history.list(queues=[]) == []

    async def test_what_a_user_may_see(self, store: Store) -> None:
        def row(event: str, uid: str, actor: str, queue: str = "q", namespace: str = "ml") -> Event:
            return Event(event=event, uid=uid, actor=actor, queue=queue, namespace=namespace, name=uid)

        await store.history.append_many(
            [
                row("submitted", "mine", "ann"),
                row("bound", "mine", "scheduler"),
                row("submitted", "bobs", "bob"),
                row("bound", "bobs", "scheduler"),
                row("bound", "ruled", "scheduler", queue="a"),
                row("bound", "owned", "scheduler", namespace="home"),
            ]
        )

        async def seen(visibility: Visibility) -> set[str | None]:
            return {event.uid for event in await store.history.list(seen_by=visibility)}

        assert await seen(Visibility("ann")) == {"mine"}
        assert len(await store.history.list(seen_by=Visibility("ann"))) == 2
        assert await seen(Visibility("bob", queues=frozenset({"a"}))) == {"bobs", "ruled"}
        assert await seen(Visibility("eve", namespaces=frozenset({"home"}))) == {"owned"}
        assert await seen(Visibility("eve")) == set()
