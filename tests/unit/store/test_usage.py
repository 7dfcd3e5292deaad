"""GPU-hours: each way a span begins and ends, windows, months, and that every sum is the same sum."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.event import listen

from t9ksched.store import Store, schema, urls
from t9ksched.store.history import CLOCK_SET, Event, Visibility
from t9ksched.store.spans import CARD, HOUR, KEYS, SUMMED, Amount, Fold, Span, rows, table
from t9ksched.store.tables import usage_job, usage_open, usage_span

T0 = datetime(2031, 1, 1, tzinfo=UTC)


def at(hours: float) -> datetime:
    return T0 + timedelta(hours=hours)


def happened(*events: tuple[float, str, dict[str, Any]], uid: str = "u") -> list[Span]:
    fold = Fold()
    for hours, event, detail in events:
        actor = detail.pop("actor", "scheduler")
        head = {"uid": uid, "kind": "Pod", "namespace": "ml", "name": uid, "queue": "q", "actor": actor}
        fold.take(Event(event=event, at=at(hours), detail=detail, **head))
    return fold.spans


def bound(pod: str = "p", *cards: int) -> dict[str, Any]:
    return {"pod": pod, "node": "n", "cards": {"main": list(cards or (0,))}}


def hours(spans: list[Span], since: float | None = None, until: float = 100) -> tuple[float, float]:
    found = rows(table(spans, ["queue"], since=None if since is None else at(since), until=at(until)), ["queue"])
    return (found[0]["gpuHours"], found[0]["heldHours"]) if found else (0, 0)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([(0, "bound", bound()), (1, "started", {}), (3, "finished", {})], (3, 1)),
        ([(0, "bound", bound()), (2, "taken-back", {})], (2, 2)),
        ([(0, "bound", bound()), (1, "started", {}), (2, "deleted", {}), (3, "finished", {})], (2, 1)),
        (
            [
                (0, "bound", bound("a")),
                (0, "bound", bound("b")),
                (1, "started", {}),
                (2, "released", {"pod": "a"}),
                (4, "finished", {}),
            ],
            (6, 2),
        ),
        ([(0, "bound", bound()), (1, "started", {})], (100, 1)),
        ([(0, "bound", bound())], (100, 100)),
        (
            [
                (0, "bound", bound("p", 0, 1, 2)),
                (1, "started", {}),
                (2, "preempted", {}),
                (5, "bound", bound("p", 3)),
                (6, "started", {}),
                (7, "finished", {}),
            ],
            (8, 4),
        ),
        ([(0, "started", {}), (1, "bound", bound()), (3, "finished", {})], (2, 0)),
        (
            [
                (0, "bound", bound("a")),
                (0, "bound", bound("b")),
                (1, "started", {}),
                (2, "deleted", {"podsLeft": 2, "phase": "Running"}),
                (3, "released", {"pod": "a"}),
                (5, "released", {"pod": "b", "ran": at(4).isoformat()}),
            ],
            (8, 2),
        ),
        ([(0, "bound", bound()), (4, "released", {"pod": "p", "ran": at(1).isoformat()})], (4, 1)),
        ([(1, "bound", bound()), (4, "released", {"pod": "p", "ran": at(0).isoformat()})], (3, 0)),
        ([(0, "bound", bound()), (4, "released", {"pod": "p", "ran": at(9).isoformat()})], (4, 4)),
        (
            [
                (0, "bound", bound()),
                (1, "deleted", {"actor": "ann"}),
                (3, "released", {"pod": "p"}),
                (4, "deleted", {}),
            ],
            (3, 3),
        ),
        ([(0, "bound", bound()), (1, "bound", bound()), (2, "finished", {})], (2, 2)),
        ([(0, "bound", {"pod": "p", "node": "n", "cards": {}}), (2, "finished", {})], (0, 0)),
        (
            [(0, "bound", {"pod": "p", "node": "n", "cards": {"init": [0, 1], "main": [0, 1]}}), (2, "finished", {})],
            (4, 4),
        ),
    ],
    ids=[
        "whole life",
        "never ran",
        "deleted first",
        "pods end apart",
        "runs on",
        "still held",
        "preempted and back",
        "joined a running job",
        "pods outlive their group",
        "began to run without its group",
        "ran before its binding was noted",
        "never ran by its end",
        "deleted by a user",
        "same name again",
        "no cards",
        "init and main share cards",
    ],
)
def test_a_jobs_life(events: list[Any], expected: tuple[float, float]) -> None:
    assert hours(happened(*events)) == expected


def test_windows() -> None:
    spans = happened((0, "bound", bound()), (2, "started", {}), (10, "finished", {}))
    assert hours(spans, 1, 5) == (4, 1)
    assert hours(spans, 3, 5) == (2, 0)
    assert hours(spans, 10, 20) == (0, 0)


def test_the_submitter_of_a_job() -> None:
    spans = happened((0, "submitted", {"actor": "ann"}), (0, "bound", bound()), (1, "finished", {}))
    assert list(table(spans, ["user"], since=None, until=at(9))) == [("ann",)]
    late = happened((0, "bound", bound()), (1, "submitted", {"actor": "ann"}), (2, "finished", {}))
    assert list(table(late, ["user"], since=None, until=at(9))) == [("ann",)]
    told = happened((0, "accepted", {"submitter": "bob"}), (0, "bound", bound()), (1, "finished", {}))
    assert list(table(told, ["user"], since=None, until=at(9))) == [("bob",)]


SPANS = st.builds(
    lambda start, length, ran, cards, queue, user, node: Span(
        "u", "ml", "Pod/p", queue, user, "p", node, tuple(cards), "nvidia.com/gpu", "m", at(start),
        at(start + min(ran, length)), at(start + length),
    ),
    st.floats(0, 5000), st.floats(0, 2000), st.floats(0, 100), st.sets(st.integers(0, 7), min_size=1),
    st.sampled_from("abc"), st.sampled_from("xy"), st.sampled_from(["n1", "n2"]),
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(SPANS, max_size=12), st.floats(0, 3000), st.floats(3000, 9000))
def test_the_sum_over_anything_is_the_sum_over_cards(spans: list[Span], since: float, until: float) -> None:
    def total(*by: str) -> tuple[int, int]:
        found = table(spans, by, since=at(since), until=at(until)).values()
        return sum(one.amount for one in found), sum(one.held for one in found)

    cards = total(CARD)
    for key in KEYS:
        assert total(key) == cards
    assert total("queue", "month", CARD) == cards
    assert cards[1] <= cards[0]


def history(seed: int, jobs: int = 12, *, several: bool = False) -> list[Event]:
    """A random history of some months, in the order in which it would be written; with `several` pods have parts of
    cards, some of cards of two models.
    """
    random = Random(seed)
    events: list[Event] = []
    for number in range(jobs):
        head = {"uid": f"u{number}", "kind": "Pod", "namespace": random.choice("mn"), "name": f"j{number}"}
        head |= {"queue": random.choice("abc")}
        now = random.uniform(0, 2000)
        if random.random() < 0.8:
            events.append(Event(event="submitted", at=at(now), actor=random.choice(["ann", "bob"]), **head))
        for _ in range(random.randint(1, 12)):
            now += random.choice([0.001, 0.5, 7, 30, 400])
            kind = random.choice(["bound", "bound", "bound", "started", "released", "preempted", "taken-back"])
            detail: dict[str, Any] = {"pod": random.choice("pqr")}
            if kind == "bound":
                cards = sorted(random.sample(range(8), random.randint(0, 3)))
                detail |= {"node": random.choice(["n1", "n2"]), "cards": {"c": cards}, "resource": "nvidia.com/gpu"}
                detail |= {"model": random.choice(["A", "B"])}
                if several and len(cards) > 1:
                    worths = [
                        [one, round(random.randint(1, len(those) * 8) / 8, 7), those]
                        for one, those in (("A", cards[:1]), ("B", cards[1:]))
                    ]
                    detail |= {
                        "model": "A + B",
                        "models": worths,
                        "physicalCards": sum(worth for _, worth, _ in worths),
                    }
            if kind == "preempted" and random.random() < 0.5:
                detail = {}
            events.append(Event(event=kind, at=at(now), actor="scheduler", detail=detail, **head))
        ending = random.choice(["finished", "deleted", None])
        if ending:
            events.append(Event(event=ending, at=at(now + 1), actor=random.choice(["scheduler", "ann"]), **head))
    return sorted(events, key=lambda event: event.at)


WINDOWS = [(None, 5000.0), (24.0, 2400.0), (31.7, 1999.3), (700.2, 705.9), (48.0, 72.0), (30.0, 47.5), (4000.0, 9000.0)]
NOW = at(5000)


def folded(events: list[Event]) -> list[Span]:
    fold = Fold()
    for event in events:
        fold.take(event)
    return fold.spans


def expected(spans: list[Span], by: str, since: float | None, until: float) -> dict[Any, tuple[int, int]]:
    found = table(spans, [by], since=None if since is None else at(since), until=min(at(until), NOW))
    return {key: (one.amount, one.held) for key, one in found.items() if one.amount}


async def reported(store: Store, by: str, since: float | None, until: float) -> dict[Any, tuple[int, int]]:
    begin = None if since is None else at(since)
    found = await store.usage.report([by], since=begin, until=at(until), now=NOW)
    return {key: (one.amount, one.held) for key, one in found.items() if one.amount}


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 30))])
async def test_sums_kept_while_writing_are_those_of_the_whole_history(store: Store, seed: int) -> None:
    events, random = history(seed, several=bool(seed % 2)), Random(seed)
    left, spans = list(events), folded(events)
    while left:
        size = random.choice([1, 2, 5, 40])
        await store.history.append_many(left[:size])
        del left[:size]
    for since, until in WINDOWS:
        for by in (*KEYS, CARD):
            assert await reported(store, by, since, until) == expected(spans, by, since, until), (by, since, until)
        cards = await store.usage.report([CARD], since=since and at(since), until=at(until), now=NOW)
        queues = await store.usage.report(["queue"], since=since and at(since), until=at(until), now=NOW)
        assert sum(one.amount for one in queues.values()) == sum(one.amount for one in cards.values())


async def test_retention_by_age_loses_no_hour(store: Store) -> None:
    events = history(3, several=True)
    await store.history.append_many(events)
    before = {by: await reported(store, by, None, 5000) for by in SUMMED}
    edge = await reported(store, "queue", 100.5, 5000)
    assert edge
    assert await store.usage.purge(at(9000)) > 0
    await store.history.purge(at(9000))
    assert {by: await reported(store, by, None, 5000) for by in SUMMED} == before
    assert await reported(store, "month", 24, 48) == expected(folded(events), "month", 24, 48)
    async with store.database.read() as connection:
        assert (await connection.execute(select(func.count()).select_from(usage_span))).scalar_one() == 0
        assert (await connection.execute(select(func.count()).select_from(usage_open))).scalar_one() > 0


async def test_a_job_counts_once_a_month_and_is_forgotten_when_it_is_gone(store: Store) -> None:
    head = {"uid": "u", "kind": "Pod", "namespace": "ml", "name": "j", "queue": "q"}

    async def tell(hour: float, event: str, pod: str = "p") -> None:
        await store.history.append(
            Event(event=event, at=at(hour), detail=bound(pod) if event == "bound" else {"pod": pod}, **head)
        )

    async def jobs(by: str, now: float) -> dict[Any, int]:
        found = await store.usage.report([by], since=None, until=at(now), now=at(now))
        return {key: one.jobs for key, one in found.items()}

    await tell(0, "bound")
    await tell(0, "bound", "long")
    assert await jobs("month", 1) == {("2031-01",): 1}
    await tell(1, "released")
    await tell(2, "bound")
    await tell(3, "released")
    assert await jobs("month", 800) == {("2031-01",): 1, ("2031-02",): 1}
    await tell(900, "deleted")
    assert await jobs("month", 5000) == {("2031-01",): 1, ("2031-02",): 1}
    async with store.database.read() as connection:
        assert (await connection.execute(select(func.count()).select_from(usage_job))).scalar_one() == 0


async def _count(store: Store, table_: Any) -> int:
    async with store.database.read() as connection:
        return int((await connection.execute(select(func.count()).select_from(table_))).scalar_one())


async def test_a_single_pod_is_remembered_by_its_span_alone_until_that_is_over(address: str) -> None:
    head = {"uid": "u", "kind": "Pod", "namespace": "ml", "name": "p", "queue": "q", "actor": "scheduler"}
    agreed = {"submitter": "ann"}

    def told(*events: tuple[float, str, dict[str, Any]]) -> list[Event]:
        return [Event(event=event, at=at(hour), detail=detail, **head) for hour, event, detail in events]

    async with await Store.open(address) as store:
        first = told((0, "accepted", agreed), (0, "bound", bound()))
        await store.history.append_many(first)
        await store.history.append_many(first)  # the answer to the first was lost
        await store.history.append_many(told((1, "started", {})))
        assert (await _count(store, usage_open), await _count(store, usage_job)) == (1, 0)
    schema.downgrade(address, schema.revisions()[schema.revisions().index("0028") - 1])
    engine = create_engine(urls.for_sync(urls.parse(address)))
    with engine.connect() as connection:  # an earlier release counts no span of a job without a row
        row = connection.execute(
            select(usage_job.c.uid, usage_job.c.submitter, usage_job.c.running, usage_job.c.months)
        )
        assert row.all() == [("u", "ann", True, [])]
    engine.dispose()
    schema.upgrade(address)
    async with await Store.open(address) as store:
        await store.history.append_many(told((3, "released", {"pod": "p"}), (3, "finished", {})))
        assert (await _count(store, usage_open), await _count(store, usage_job)) == (0, 1)
        found = await store.usage.report(["user"], since=None, until=at(9), now=at(9))
        assert found == {("ann",): Amount(3 * HOUR, HOUR, 1)}
        await store.history.append_many(told((4, "deleted", {})))
        assert await _count(store, usage_job) == 0


@pytest.mark.parametrize("agreed", ["bob", None])
@pytest.mark.parametrize("submitted", [True, False])
async def test_a_pod_that_is_bound_with_what_was_agreed_is_not_read_back(
    store: Store, agreed: str | None, submitted: bool
) -> None:
    head = {"uid": "u", "kind": "Pod", "namespace": "ml", "name": "p", "queue": "q"}
    read: list[str] = []
    before = [Event(event="accepted", at=at(0), actor="scheduler", detail={"submitter": agreed}, **head)]
    if submitted:
        before.append(Event(event="submitted", at=at(0), actor=agreed or "ann", **head))
    await store.history.append_many(before)
    engine = store.database._acting if store.database.is_sqlite else store.database._engine.sync_engine  # type: ignore[attr-defined]
    listen(engine, "before_cursor_execute", lambda _, __, text_, *___: read.append(text_))
    told = bound() | {"submitter": agreed}
    await store.history.append_many([Event(event="bound", at=at(0), actor="scheduler", detail=told, **head)])
    asked = [one for one in read if one.startswith("SELECT") and ("usage_" in one or "history" in one)]
    assert len(asked) == (agreed is None), "only the name that REST may have written is looked for"
    await store.history.append_many([Event(event="finished", at=at(2), actor="scheduler", **head)])
    found = await store.usage.report(["user"], since=None, until=at(9), now=at(9))
    who = agreed or ("ann" if submitted else "unknown")
    assert {key: one.amount / HOUR for key, one in found.items()} == {(who,): 2.0}


async def test_a_second_pod_of_a_job_is_remembered_with_the_first(store: Store) -> None:
    head = {"uid": "u", "kind": "Pod", "namespace": "ml", "name": "p", "queue": "q", "actor": "scheduler"}
    for hour, event, detail in ((0, "bound", bound("p")), (1, "bound", bound("r")), (2, "finished", {})):
        assert await _count(store, usage_job) == (hour == 2)
        await store.history.append_many([Event(event=event, at=at(hour), detail=detail, **head)])
    found = await store.usage.report(["queue"], since=None, until=at(9), now=at(9))
    assert found == {("q",): Amount(3 * HOUR, 3 * HOUR, 1)}


def both(pod: str = "p") -> dict[str, Any]:
    models = [["A", 0.25, [0]], ["B", 0.5, [3]]]
    return {"pod": pod, "node": "n", "cards": {"c": [0, 3]}, "model": "A + B", "physicalCards": 0.75, "models": models}


async def test_a_pod_on_cards_of_two_models_counts_under_each_with_its_part(address: str) -> None:
    async with await Store.open(address) as store:
        await store.history.append_many([one(0, "bound", both()), one(2, "started", {})])

        async def hours(now: float, *by: str) -> dict[tuple[str, ...], tuple[float, float, int]]:
            found = await store.usage.report(by, since=None, until=at(now), now=at(now))
            return {key: (each.amount / HOUR, each.held / HOUR, each.jobs) for key, each in found.items()}

        assert await hours(8, "model") == {("A",): (2, 0.5, 1), ("B",): (4, 1, 0)}, "a job counts once"
        assert await hours(8, "job") == {("ml/Pod/u",): (6, 1.5, 1)}
        assert await hours(8, CARD, "model") == {("n#0", "A"): (2, 0.5, 1), ("n#3", "B"): (4, 1, 1)}
    schema.downgrade(address, schema.revisions()[schema.revisions().index("0033") - 1])
    engine = create_engine(urls.for_sync(urls.parse(address)))
    with engine.connect() as connection:
        (row,) = connection.execute(text("SELECT * FROM usage_open")).mappings()
        assert (row["model"], "models" in row) == ("A + B", False)
    engine.dispose()
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await hours(8, "model") == {("A + B",): (6, 1.5, 1)}
        await store.history.append_many([one(10, "released", {"pod": "p"}), one(10, "bound", both("r"))])
        await store.history.append_many([one(14, "finished", {})])
        assert await hours(20, "model") == {("A + B",): (7.5, 1.5, 1), ("A",): (1, 0, 0), ("B",): (2, 0, 0)}
        assert await hours(20, "queue") == {("q",): (10.5, 1.5, 1)}


async def test_every_user_sees_their_own(store: Store) -> None:
    events = history(5)
    await store.history.append_many(events)
    for by in ("user", "job"):
        mine = await store.usage.report([by], since=None, until=NOW, now=NOW, seen_by=Visibility("ann"))
        theirs = await store.usage.report([by], since=None, until=NOW, now=NOW, seen_by=Visibility("bob"))
        assert sum(one.amount for one in mine.values()) == sum(
            amount for key, (amount, _) in expected(folded(events), "user", None, 5000).items() if key == ("ann",)
        )
        assert mine.keys().isdisjoint(theirs.keys())
    some = await store.usage.report(
        ["queue", "namespace"],
        since=None,
        until=NOW,
        now=NOW,
        seen_by=Visibility("eve", frozenset("a"), frozenset("m")),
    )
    assert {key for key in some if key[0] != "a" and key[1] != "m"} == set()
    assert some


@pytest.mark.parametrize("seed", range(3))
async def test_the_way_up_sums_the_history_there_is(address: str, seed: int) -> None:
    events = history(seed)
    async with await Store.open(address) as store:
        await store.history.append_many(events)
        kept = {by: await store.usage.report([by], since=None, until=NOW, now=NOW) for by in SUMMED}
    schema.downgrade(address, "0002")
    async with await Store.open(address) as store:
        for by in SUMMED:
            found = await store.usage.report([by], since=None, until=NOW, now=NOW)
            closed = _over(events, by)
            assert {key: (one.amount, one.held) for key, one in found.items() if one.amount} == closed, by
        assert kept


def _over(events: list[Event], by: str) -> dict[Any, tuple[int, int]]:
    """As expected, with unknown jobs ended at their last record."""
    fold = Fold()
    for event in events:
        fold.take(event)
    last = {event.uid: event.at for event in events}
    for span in fold.open:
        span.ended = max(span.bound, last[span.uid])
    found = table(fold.spans, [by], since=None, until=NOW)
    return {key: (one.amount, one.held) for key, one in found.items() if one.amount}


def test_hours_are_sums_of_microseconds() -> None:
    assert rows({("q",): Amount(HOUR * 3, HOUR, 2)}, ["queue"]) == [
        {"queue": "q", "gpuHours": 3.0, "heldHours": 1.0, "jobs": 2, "idleHours": 0.0, "freeHours": 0.0}
    ]


async def test_many_pods_at_once_are_read_in_pages(store: Store) -> None:
    head: dict[str, Any] = {"kind": "Pod", "namespace": "ml", "name": "j", "queue": "q", "at": at(0)}
    many = [Event(event="bound", uid=f"u{n % 3}", detail=bound(f"p{n}"), **head) for n in range(2300)]
    await store.history.append_many(many)
    found = await store.usage.report(["queue"], since=None, until=at(1), now=at(1))
    assert {key: (one.amount, one.jobs) for key, one in found.items()} == {("q",): (2300 * HOUR, 3)}
    pages = [len(spans) async for spans in store.usage.running(at(1))]
    assert pages == [1000, 1000, 300]
    assert [len(spans) async for spans in store.usage.running(at(0))] == [0]
    holders = [one async for page in store.usage.holders(at(1)) for one in page]
    assert sorted(one.pod for one in holders) == sorted(f"p{n}" for n in range(2300))
    assert {(one.uid, one.namespace, one.job, one.queue) for one in holders if one.pod == "p4"} == {
        ("u1", "ml", "Pod/j", "q")
    }


def test_events_that_tell_no_share_are_about_whole_cards() -> None:
    def nameless(mode: str, count: int) -> dict[str, Any]:
        return {"pod": "p", "node": "n", "cards": {}, "mode": mode, "counted": {"nvidia.com/gpu": count}}

    whole = happened((0, "bound", nameless("Whole", 8)), (1, "started", {}), (3, "released", {"pod": "p"}))
    assert hours(whole) == (24, 8)
    assert set(table(whole, ["card"], since=None, until=at(9))) == {("n#?",)}
    by_card = rows(table(whole, ["card"], since=None, until=at(9)), ["card"])
    assert by_card[0]["gpuHours"] == 24
    for mode in ("MIGSingle", "MIGMixed", "TimeSliced", "MPS", "HAMi", "MGPU", "GPUShare", "Koordinator"):
        assert happened((0, "bound", nameless(mode, 3)), (1, "started", {}), (3, "finished", {})) == []
    divided = {"pod": "p", "node": "n", "cards": {"a": [0], "b": [3]}, "mode": "MGPU"}
    parts = [["mgpu-core", 0, 300, 1024], ["mgpu-core", 3, 1000, 32510]]
    part, both = divided | {"parts": parts[:1], "cards": {"a": [0]}}, divided | {"parts": parts}
    assert happened((0, "bound", part), (1, "started", {}), (3, "finished", {})) == []
    now = divided | {"parts": [[*one, places] for one, places in zip(parts, (2, 1), strict=True)]}
    for told in (both, now):  # before parts had places, and since
        assert [span.cards for span in happened((0, "bound", told), (1, "started", {}), (3, "finished", {}))] == [(3,)]


def one(hour: float, event: str, detail: dict[str, Any]) -> Event:
    return Event(event=event, at=at(hour), uid="u", kind="Pod", namespace="ml", name="u", queue="q", detail=detail)


@pytest.mark.parametrize("seconds", [86_400.0, -86_400.0, -1.5], ids=["forward", "back", "a little back"])
@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "in several"])
async def test_a_clock_that_is_set_adds_nothing_to_what_goes_on(store: Store, seconds: float, together: bool) -> None:
    """Held for an hour, ran for two: so it is whatever the clock says when it ends."""

    def moved(hour: float) -> datetime:
        return at(hour) + timedelta(seconds=seconds)

    events = [
        one(0, "bound", bound()),
        Event(event=CLOCK_SET, at=moved(0.5), detail={"seconds": seconds}),
        structs.replace(one(1, "started", {}), at=moved(1)),
        structs.replace(one(3, "finished", {}), at=moved(3)),
    ]
    for batch in [events] if together else [[event] for event in events]:
        await store.history.append_many(batch)
    report = await store.usage.report(["queue"], since=None, until=moved(9), now=moved(9))
    (total,) = report.values()
    assert (round(total.amount / HOUR, 5), round(total.held / HOUR, 5)) == (3, 1)


async def test_what_ran_when_the_clock_was_set_goes_on(store: Store) -> None:
    by = timedelta(days=-1)
    await store.history.append_many([one(0, "bound", bound()), one(1, "started", {})])
    await store.history.append(Event(event=CLOCK_SET, at=at(1), detail={"seconds": by.total_seconds()}))
    report = await store.usage.report(["queue"], since=None, until=at(2) + by, now=at(2) + by)
    (total,) = report.values()
    assert (round(total.amount / HOUR, 5), round(total.held / HOUR, 5)) == (2, 1)


def shared(cards: list[int], physical: float, **more: Any) -> dict[str, Any]:
    return {"pod": "p", "node": "n", "cards": {"a": cards}, "mode": "MGPU", "physicalCards": physical, **more}


@pytest.mark.parametrize(
    ("detail", "cards", "amount"),
    [
        (shared([1], 0.5), (1,), 1.5),
        (shared([0, 3], 1.2), (0, 3), 3.6),
        (shared([0, 3], 2), (0, 3), 6),
        (shared([], 0.4285714, counted={"nvidia.com/mig-1g.5gb": 3}, mode="MIGMixed"), (-3, -2, -1), 9 / 7),
        (shared([], 0.25, counted={"nvidia.com/gpu.shared": 1}, mode="TimeSliced"), (-1,), 0.75),
    ],
)
def test_parts_of_cards_count_as_the_part_that_they_are(
    detail: dict[str, Any], cards: tuple[int, ...], amount: float
) -> None:
    spans = happened((0, "bound", detail), (1, "started", {}), (3, "finished", {}))
    assert [span.cards for span in spans] == [cards]
    assert hours(spans) == (pytest.approx(amount, abs=1e-8), pytest.approx(amount / 3, abs=1e-8))
    by_card = rows(table(spans, ["card"], since=None, until=at(9)), ["card"])
    assert sum(row["gpuHours"] for row in by_card) == pytest.approx(hours(spans)[0], abs=1e-12)


async def test_shares_are_kept_and_an_earlier_release_does_not_see_them(address: str) -> None:
    head: dict[str, Any] = {"kind": "Pod", "namespace": "ml", "name": "j", "queue": "q"}
    async with await Store.open(address) as store:
        for pod, detail in (("a", shared([0], 0.5)), ("b", bound("b", 1)), ("c", shared([2], 0.25)), ("d", bound("d"))):
            await store.history.append(Event(event="bound", uid="u", at=at(0), detail=detail | {"pod": pod}, **head))
        for pod in "cd":
            await store.history.append(Event(event="released", uid="u", at=at(4), detail={"pod": pod}, **head))
        found = await store.usage.report(["queue"], since=None, until=at(8), now=at(8))
        assert found["q",].amount == (4 + 8 + 1 + 4) * HOUR
    revisions = schema.revisions()
    schema.downgrade(address, revisions[revisions.index("0024") - 1])
    schema.upgrade(address)
    async with await Store.open(address) as store:
        found = await store.usage.report(["queue"], since=None, until=at(8), now=at(8))
        assert found["q",].amount == (8 + 1 + 4) * HOUR, "what the sums have stays"
        by_pod = await store.usage.report(["job"], since=None, until=at(8), now=at(8))
        assert by_pod["ml/Pod/j",].amount == (8 + 4) * HOUR


async def test_a_job_counts_in_a_part_of_a_day_once_in_whatever_parts_of_the_window_it_is(store: Store) -> None:
    """`at` counts hours from the beginning of a day; each case is a window, and the jobs that held cards in it."""
    lives: dict[str, list[tuple[float, float | None]]] = {
        "within": [(2, 3)],
        "over night": [(20, 28)],
        "twice": [(3, 4), (30, 31)],
        "again": [(26, 27), (50, 51)],
        "runs": [(30, None)],
        "two pods": [(4, 5), (29, None)],
        "both at once": [(4, 5), (4, None)],
    }
    times = [(begin, "bound", uid, n) for uid, spans in lives.items() for n, (begin, _) in enumerate(spans)]
    times += [(end, "released", uid, n) for uid, spans in lives.items() for n, (_, end) in enumerate(spans) if end]
    for hour, event, uid, n in sorted(times):
        detail = bound(f"p{n}") if event == "bound" else {"pod": f"p{n}"}
        head: dict[str, Any] = {
            "uid": uid,
            "kind": "PodGroup",
            "namespace": "ml",
            "name": uid,
            "queue": "q",
            "actor": "scheduler",
        }
        await store.history.append(Event(event=event, at=at(hour), detail=detail, **head))
    now = at(60)
    assert at(0).hour == 0
    within_days: tuple[tuple[float | None, float], ...] = (
        (5, 49),
        (1, 10),
        (2.5, 23),
        (1, 27),
        (3.5, 49),
        (25, 50.5),
        (None, 49),
        (None, 3.5),
        (49, 60),
    )
    for window in (*within_days, (24, 60), (24, 48), (0, 60)):
        begin, end = window
        having = {
            uid
            for uid, spans in lives.items()
            for lo, hi in spans
            if lo < end and (hi is None or begin is None or hi > begin)
        }
        for by in ("queue", "month"):
            found = await store.usage.report([by], since=None if begin is None else at(begin), until=at(end), now=now)
            assert sum(one.jobs for one in found.values()) == len(having), (window, by, having)
