"""Acceptances, history, jobs, the leader's row and small facts: what goes in comes out, on both databases."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from t9ksched.store import Store
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event, Visibility
from t9ksched.store.instance import LeadershipLost
from t9ksched.store.jobs import JobRecord

NOW = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


def acceptance(uid: str, **fields) -> Acceptance:
    return Acceptance(
        **{"uid": uid, "kind": "MPIJob", "namespace": "ml", "name": f"job-{uid}", "accepted_at": NOW} | fields
    )


def job(uid: str, **fields) -> JobRecord:
    known = {"kind": "MPIJob", "namespace": "ml", "name": f"job-{uid}", "queue": "q", "shape": {"name": uid}}
    return JobRecord(uid=uid, **known | {"submitted_at": NOW, "updated_at": NOW} | fields)


class TestAcceptances:
    async def test_round_trip(self, store: Store) -> None:
        full = acceptance(
            "u1",
            group_uid="g",
            group_name="group",
            submitter="ann",
            queue="a100",
            priority=40,
            time_limit=timedelta(days=40_000),
            cards={"nvidia.com/gpu": 16},
            requests={"cpu": 4000, "memory": 2**50},
            accepted_at=NOW.astimezone(timezone(timedelta(hours=8))),
        )
        bare = acceptance("u2", accepted_at=NOW + timedelta(seconds=1))
        await store.acceptances.put_many([full, bare])
        assert await store.acceptances.all() == [full, bare]
        assert await store.acceptances.get("u1") == full
        assert await store.acceptances.of(["u2", "u3"]) == {"u2": bare}

    async def test_the_first_word_stands(self, store: Store) -> None:
        await store.acceptances.put_many([acceptance("u", priority=1)])
        await store.acceptances.put_many([acceptance("u", priority=99), acceptance("v")])
        kept = await store.acceptances.get("u")
        assert kept is not None
        assert kept.priority == 1
        assert await store.acceptances.get("v") is not None

    @pytest.mark.parametrize(
        ("kind", "queue", "priority"), [("MPIJob", "q", 1), ("Deployment", "other", 7), ("PodGroup", "other", 7)]
    )
    async def test_a_count_replaces_the_amounts(self, store: Store, kind: str, queue: str, priority: int) -> None:
        first = acceptance(
            "u", kind=kind, queue="q", priority=1, submitter="ann", started_at=NOW, time_limit=timedelta(1)
        )
        await store.acceptances.put_many([first])
        await store.acceptances.put_many([acceptance("u", kind=kind, queue="x", priority=9, requests={"cpu": 1})])
        assert await store.acceptances.get("u") == first, "without a count nothing is replaced"
        more = {"replicas": 3, "requests": {"cpu": 9}, "cards": {"nvidia.com/gpu": 3}}
        later = acceptance("u", kind=kind, queue="other", priority=7, **more)
        await store.acceptances.put_many([later, later])
        kept = await store.acceptances.get("u")
        assert kept == msgspec.structs.replace(first, queue=queue, priority=priority, **more)
        assert kept.amounts == {"cpu": 9, "nvidia.com/gpu": 3}

    @pytest.mark.parametrize("late", [False, True], ids=["submitted first", "accepted first"])
    async def test_a_role_over_the_queue_that_was_asked_for_is_none_over_another(
        self, store: Store, late: bool
    ) -> None:
        submitted = acceptance("u", kind="PodGroup", queue="asked", submitter="ann", permitted_by="manager")
        accepted = acceptance("u", kind="PodGroup", queue="pays", permitted_by="everyone", replicas=2)
        for one in (accepted, submitted) if late else (submitted, accepted):
            await store.acceptances.put_many([one])
        kept = await store.acceptances.get("u")
        assert kept is not None
        assert (kept.queue, kept.submitter, kept.permitted_by) == ("pays", "ann", "everyone")

    async def test_its_latest_start_is_kept(self, store: Store) -> None:
        again = NOW + timedelta(1)
        await store.acceptances.put_many([acceptance("u"), acceptance("u", started_at=NOW)])
        for start, count in ((again, 1), (NOW, 1), (None, 2)):
            await store.acceptances.put_many([acceptance("u", started_at=start, replicas=count)])
            assert await store.acceptances.get("u") == acceptance("u", started_at=again, replicas=count)
        await store.acceptances.put_many([acceptance("u", started_at=again + timedelta(seconds=1))])
        kept = await store.acceptances.get("u")
        assert kept is not None
        assert kept.started_at == again + timedelta(seconds=1)

    async def test_what_a_group_began_with_is_the_last_that_was_said(self, store: Store) -> None:
        await store.acceptances.put_many([acceptance("u"), acceptance("v")])
        began = acceptance("u", began_with=3, began_roles={"lead": 1, "worker": 2})
        await store.acceptances.put_many([began])
        await store.acceptances.put_many(
            [acceptance("u"), acceptance("u", submitter="ann"), acceptance("u", replicas=4)]
        )
        kept = await store.acceptances.get("u")
        assert kept == msgspec.structs.replace(began, submitter="ann", replicas=4)
        await store.acceptances.put_many([acceptance("u", began_with=0)])
        found = await store.acceptances.of(["u", "v"])
        said = {uid: (one.began_with, one.began_roles) for uid, one in found.items()}
        assert said == {"u": (0, {}), "v": (None, {})}

    async def test_a_submitter_is_named_once(self, store: Store) -> None:
        await store.acceptances.put_many([acceptance("u", priority=1)])
        await store.acceptances.put_many([acceptance("u", priority=99, submitter="ann"), acceptance("v")])
        await store.acceptances.put_many([acceptance("u", submitter="eve"), acceptance("v", submitter="bob")])
        found = await store.acceptances.of(["u", "v"])
        assert {uid: (one.submitter, one.priority) for uid, one in found.items()} == {"u": ("ann", 1), "v": ("bob", 0)}

    async def test_many_rows_and_forgetting(self, store: Store) -> None:
        await store.acceptances.put_many([acceptance(f"u{i}") for i in range(2500)])
        assert len(await store.acceptances.of(f"u{i}" for i in range(2500))) == 2500
        assert await store.acceptances.forget([f"u{i}" for i in range(1, 3000)]) == 2499
        assert [one.uid for one in await store.acceptances.all()] == ["u0"]

    async def test_a_time_without_zone_is_refused(self, store: Store) -> None:
        with pytest.raises(Exception, match="zone"):
            await store.acceptances.put_many([acceptance("u", accepted_at=NOW.replace(tzinfo=None))])


class TestHistory:
    async def test_order_filters_and_pages(self, store: Store) -> None:
        events = [
            Event(event="submitted", at=NOW, kind="Pod", namespace="ml", name=f"p{i % 2}", uid=f"u{i % 2}", queue="q")
            for i in range(6)
        ]
        await store.history.append_many(events)
        await store.history.append(
            Event(event="refused", at=NOW, actor="ann", detail={"code": "OverQuota", "needs": 5})
        )
        found = await store.history.list()
        assert [one.id for one in found] == sorted(one.id for one in found)
        assert found[-1].detail == {"code": "OverQuota", "needs": 5}
        assert found[0].at == NOW
        assert len(await store.history.list(uid="u0")) == 3
        assert len(await store.history.list(namespace="ml", name="p1", kind="Pod", queue="q", event="submitted")) == 3
        assert [one.event for one in await store.history.list(event="refused")] == ["refused"]
        page = await store.history.list(limit=4)
        assert [*page, *await store.history.list(after=page[-1].id)] == found

    async def test_purge_by_age(self, store: Store) -> None:
        await store.history.append_many([Event(event="bound", at=NOW - timedelta(days=i % 2)) for i in range(2400)])
        assert await store.history.purge(NOW) == 1200
        assert await store.history.purge(NOW) == 0
        assert len(await store.history.list(limit=5000)) == 1200


class TestJobs:
    async def test_latest_state_and_first_submission(self, store: Store) -> None:
        await store.jobs.put_many([job("u", phase="Pending")])
        later = job("u", phase="Running", submitted_at=NOW + timedelta(days=1), updated_at=NOW + timedelta(days=1))
        await store.jobs.put_many([later])
        (found,) = await store.jobs.list()
        assert (found.phase, found.submitted_at, found.updated_at) == ("Running", NOW, later.updated_at)

    async def test_new_jobs_do_not_overwrite_the_leaders_word(self, store: Store) -> None:
        await store.jobs.put_many([job("u", phase="Running")])
        await store.submissions.put([], [job("u"), job("v")], [])
        assert [(one.uid, one.phase) for one in await store.jobs.list()] == [("u", "Running"), ("v", "Pending")]

    async def test_filters_and_deletion(self, store: Store) -> None:
        await store.jobs.put_many(
            [job("a"), job("b", queue="r"), job("c", namespace="nlp", phase="Succeeded", finished_at=NOW)]
        )
        assert [one.uid for one in await store.jobs.list(queue="q")] == ["a", "c"]
        assert [one.uid for one in await store.jobs.list(namespace="ml")] == ["a", "b"]
        assert [one.uid for one in await store.jobs.list(phase="Succeeded")] == ["c"]
        await store.jobs.mark_deleted(["a"], NOW)
        assert [one.uid for one in await store.jobs.list()] == ["b", "c"]
        assert [one.uid for one in await store.jobs.list(deleted=True)] == ["a", "b", "c"]
        assert await store.jobs.purge(NOW + timedelta(seconds=1)) == 1

    async def test_what_one_user_may_see_of_what_the_leader_does_not_know(self, store: Store) -> None:
        """Those just submitted, and those that are gone; of many the newest."""

        def of(user: str, name: str, **fields: Any) -> JobRecord:
            return job(name, shape={"submitter": user}, **fields)

        old, new = NOW - timedelta(hours=1), NOW + timedelta(hours=1)
        await store.jobs.put_many([of("ann", "a", submitted_at=old), of("ann", "b", submitted_at=new)])
        await store.jobs.put_many([of("bob", "c", submitted_at=new), of("bob", "d", submitted_at=new, queue="r")])
        await store.jobs.put_many([of("bob", "e", submitted_at=new, namespace="nlp")])
        await store.jobs.put_many([of("ann", "f", submitted_at=old), of("bob", "g", submitted_at=old)])
        await store.jobs.mark_deleted(["f", "g"], NOW)

        async def seen(visibility: Visibility | None, **asked: Any) -> list[str]:
            return [one.uid for one in await store.jobs.list(seen_by=visibility, **asked)]

        assert await seen(Visibility("ann"), live_since=NOW) == ["b"]
        assert await seen(Visibility("ann"), live_since=NOW, deleted=True) == ["f", "b"]
        assert await seen(Visibility("ann"), deleted=True) == ["a", "f", "b"]
        assert await seen(Visibility("ann", queues=frozenset({"r"})), live_since=NOW) == ["b", "d"]
        assert await seen(Visibility("ann", namespaces=frozenset({"nlp"})), live_since=NOW) == ["b", "e"]
        assert await seen(Visibility("bob", within=frozenset({"r"})), live_since=NOW) == ["d"]
        assert await seen(None, deleted=True, limit=2) == ["d", "e"]


class TestLeader:
    async def test_epochs_grow_and_fence(self, store: Store) -> None:
        assert await store.instances.current() is None
        first = await store.instances.lead("http://127.0.0.1:1", "one")
        await store.instances.beat(first)
        second = await store.instances.lead("http://127.0.0.1:2", "two")
        assert second == first + 1
        with pytest.raises(LeadershipLost):
            await store.instances.beat(first)
        await store.instances.resign(first)
        leader = await store.instances.current()
        assert leader is not None
        assert (leader.address, leader.identity, leader.epoch) == ("http://127.0.0.1:2", "two", second)
        await store.instances.resign(second)
        leader = await store.instances.current()
        assert leader is not None
        assert (leader.address, leader.epoch) == ("", second)
        assert await store.instances.lead("http://127.0.0.1:3", "three") == second + 1


class TestMeta:
    async def test_values(self, store: Store) -> None:
        assert await store.meta.get("k") is None
        await store.meta.set("k", {"a": [1, None]})
        await store.meta.set("k", {"b": 2})
        assert await store.meta.get("k") == {"b": 2}
        assert await store.meta.set_once("id", "first") == "first"
        assert await store.meta.set_once("id", "second") == "first"


async def test_what_no_column_takes_is_cut_and_blocks_nothing(store: Store) -> None:
    """Any user may write any text as the queue of an object."""
    for queue in ("q" * 300, "a\x00b"):
        detail = {"message": f"there is no queue {queue}"}
        about = {"kind": "PodGroup", "namespace": "ns", "name": "g", "uid": f"u{len(queue)}", "queue": queue}
        await store.history.append(Event(event="waiting", detail=detail, **about))
        await store.jobs.put_many([JobRecord(**about, submitted_at=datetime.now(UTC), shape={"queue": queue})])
    told = await store.history.list()
    assert [event.queue for event in told] == ["q" * 63, "a\ufffdb"]
    assert [job.queue for job in await store.jobs.list()] == ["q" * 63, "a\ufffdb"]
