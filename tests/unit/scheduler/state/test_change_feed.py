"""Readers of one topic see what changed, each at its own pace, and nothing is kept that all have read."""

import random
from collections import Counter

import pytest

from t9ksched.scheduler.state import change_feed
from t9ksched.scheduler.state.change_feed import Log, Topic


def test_each_reader_sees_a_thing_once_until_it_changes_again() -> None:
    topic: Topic[str] = Topic()
    fast, slow = topic.follow(), topic.follow()
    for name in ("a", "b", "a"):
        topic.note(name)
    assert fast.take() == ["a", "b"]
    assert not fast
    topic.note("a")
    assert fast.take() == ["a"]
    assert slow.take() == ["b", "a"]
    assert fast.take() == slow.take() == []


def test_a_reader_that_comes_late_begins_with_what_is_kept() -> None:
    topic: Topic[str] = Topic()
    topic.note("before")
    first = topic.follow()
    assert first.take() == ["before"]
    topic.note("after")
    assert topic.follow().take() == ["after"]
    assert first.take() == ["after"]
    assert topic.follow().take() == []


def test_what_all_have_read_is_dropped() -> None:
    topic: Topic[int] = Topic()
    log: Log[int] = Log()
    readers = [topic.follow(), topic.follow()]
    logs = [log.follow(), log.follow()]
    for number in range(1000):
        topic.note(number)
        log.add(number)
    readers[0].take(), logs[0].take()
    assert (len(topic._last), len(log._events)) == (1000, 1000)
    readers[1].take(), logs[1].take()
    assert (len(topic._last), len(log._events)) == (0, 0)


def test_what_a_reader_that_stands_still_has_missed_is_kept_once() -> None:
    topic: Topic[int] = Topic()
    fast, slow = topic.follow(), topic.follow()
    for number in range(20_000):
        topic.note(number % 10)
        fast.take()
    assert len(topic._things) < 2000
    assert slow.take() == [*range(10)]


def test_many_changes_are_taken_piece_by_piece_at_the_cost_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    topic: Topic[int] = Topic()
    fast, slow = topic.follow(), topic.follow()
    topic.note_all(range(5000))
    looks = Counter[int]()
    monkeypatch.setattr(
        change_feed, "zip", lambda *of, strict: looks.update(of[1]) or zip(*of, strict=strict), raising=False
    )
    for reader in (fast, slow):
        pieces = list(reader.pieces(100))
        assert [len(piece) for piece in pieces] == [100] * 50
        assert [thing for piece in pieces for thing in piece] == [*range(5000)]
    assert max(looks.values()) <= 3, "each change is looked at once by each reader, and once when it is dropped"


def test_random_readers_miss_nothing() -> None:
    """Against a set for each reader, into which every change goes."""
    for seed in range(50):
        rng = random.Random(seed)
        topic: Topic[int] = Topic()
        log: Log[int] = Log()
        readers = [(topic.follow(), log.follow(), {}, []) for _ in range(3)]
        for step in range(300):
            if rng.random() < 0.8:
                thing = rng.randrange(12)
                topic.note(thing)
                log.add(step)
                for _, _, expected, events in readers:
                    expected.setdefault(thing, None)
                    events.append(step)
            else:
                cursor, tail, expected, events = rng.choice(readers)
                assert bool(cursor) == bool(expected)
                assert tail.take() == events
                events.clear()
                most = rng.choice((None, 1, 3))
                taken = cursor.take() if most is None else next(cursor.pieces(most), [])
                assert len(taken) == len(set(taken)) <= (most or 12)
                assert expected.keys() >= set(taken)
                for thing in taken:
                    del expected[thing]
                assert most is not None or not expected
        unread = {thing for _, _, expected, _ in readers for thing in expected}
        assert topic._last.keys() == unread


def test_what_changes_while_pieces_are_read_is_for_the_next_time() -> None:
    topic: Topic[int] = Topic()
    reader = topic.follow()
    topic.note_all(range(5))
    found = []
    for piece in reader.pieces(2):
        found.append(piece)
        topic.note_all((1, 4, 7, 8, 9, 10))
    assert found == [[0, 1], [2, 3], [4, 1]], "which had changed, and 1 of what came meanwhile"
    assert list(reader.pieces(9)) == [[7, 8, 9, 10, 1, 4]]


def test_what_happens_while_pieces_of_a_log_are_read_is_for_the_next_time() -> None:
    log: Log[int] = Log()
    reader, slow = log.follow(), log.follow()
    for number in range(5):
        log.add(number)
    found = []
    for piece in reader.pieces(2):
        found.append(piece)
        log.add(10 * piece[0])
    assert found == [[0, 1], [2, 3], [4, 0]]
    assert list(reader.pieces(9)) == [[20, 40]]
    assert list(reader.pieces(9)) == []
    assert slow.take() == [0, 1, 2, 3, 4, 0, 20, 40]
    assert not log._events
