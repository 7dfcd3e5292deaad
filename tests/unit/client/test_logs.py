"""Reading and following a log: no line comes twice, none is left out, and there is an end."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from t9ksched.client import logs
from t9ksched.client.calls import Answer, Call
from t9ksched.client.errors import ClientError, NotFound, Refused, Unreachable
from t9ksched.client.loglines import LogReader
from t9ksched.client.logs import LogStream, LogWish
from t9ksched.client.models import Job, LogLine, Pod
from t9ksched.client.operations import Operations, Retries, resumed

PATH = "/apis/v1/workloads/default/PyTorchTrainingJob/a"


def stamp(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.000000000Z"


def line(second: int, text: str) -> bytes:
    return f"{stamp(second)} {text}\n".encode()


def pod(uid: str = "u0", rank: int | None = 0, phase: str = "Running", **more: Any) -> Pod:
    return Pod(name=f"a-{rank}", uid=uid, rank=rank, phase=phase, **({"logged": True} | more))


def job(phase: str = "Running", **more: Any) -> Job:
    return Job(namespace="default", kind="PyTorchTrainingJob", name="a", uid="j", phase=phase, **more)


class Service:
    """Answers an operation from a script: each look takes the next job and pods, each stream the next parts."""

    def __init__(self, looks: list[Any], streams: list[Any]) -> None:
        self.looks, self.streams = iter(looks), iter(streams)
        self.pods: list[Pod] = []
        self.asked: list[Call] = []
        self.waited = 0.0

    def run(self, operation: logs.LogOperation) -> Iterator[LogLine]:
        step: Any = next(operation)
        try:
            while True:
                if isinstance(step, LogStream):
                    self.asked.append(step.call)
                    parts, error = next(self.streams)
                    for part in parts:
                        yield from step.feed(part)
                    if error is None:
                        yield from step.end()
                    step = operation.send(error)
                elif isinstance(step, Call):
                    step = resumed(operation, self._answer(step))
                else:
                    self.waited += step
                    step = operation.send(None)
        except StopIteration:
            return

    def _answer(self, call: Call) -> Answer | Unreachable:
        if call.path.endswith("/pods"):
            return Answer(200, {}, msgspec.json.encode({"items": self.pods}))
        look = next(self.looks)
        if isinstance(look, Unreachable):
            return look
        if isinstance(look, Answer):
            return look
        known, self.pods = look
        return Answer(200, {}, msgspec.json.encode(known))


def followed(looks: list[Any], streams: list[Any], wish: LogWish = LogWish()) -> tuple[list[str], Service]:
    service = Service(looks, streams)
    operations = Operations("http://x", Retries(times=0))
    operation = logs.follow(operations, "pj/a", None, wish, 60.0, lambda: service.waited)
    return [one.text for one in service.run(operation)], service


def test_lines_are_taken_apart_wherever_they_are_cut() -> None:
    whole = line(1, "one") + line(2, "") + line(3, "drei ö") + b"no time\n" + stamp(4).encode() + b" rest"
    for at in range(len(whole)):
        reader = LogReader(pod())
        found = [*reader.feed(whole[:at]), *reader.feed(whole[at:]), *reader.end()]
        assert [one.text for one in found] == ["one", "", "drei ö", "no time", "rest"]
        assert found[0].time == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
        assert (found[0].pod, found[0].rank) == ("a-0", 0)


def test_another_connection_goes_on_behind_the_last_line() -> None:
    reader = LogReader(pod())
    assert [one.text for one in reader.feed(line(1, "a") + line(2, "b") + line(2, "c") + b"2026-01")] == ["a", "b", "c"]
    assert reader.since == stamp(2)
    reader.begin()
    again = reader.feed(line(2, "b") + line(2, "c") + line(2, "d") + line(3, "e"))
    assert [one.text for one in again] == ["d", "e"]


def test_a_line_without_an_end_is_told_in_pieces() -> None:
    reader = LogReader(pod())
    assert len(reader.feed(stamp(1).encode() + b" " + b"x" * 2_000_000)) == 1


def test_it_waits_for_the_pod_and_ends_with_the_job() -> None:
    told: list[tuple[str, str | None]] = []
    waits = LogWish(on_wait=lambda known, one: told.append((known.phase, one and one.name)))
    waiting, done = pod(logged=False, phase="Pending"), pod(phase="Succeeded")
    texts, service = followed(
        [(job("Pending"), []), (job("Pending"), [waiting]), (job(), [pod()]), (job("Succeeded"), [done])] * 1
        + [(job("Succeeded"), [done])],
        [([line(1, "a"), line(2, "b")], None), ([line(2, "b"), line(3, "c")], None)],
        waits,
    )
    assert texts == ["a", "b", "c"], "what came between the end of the stream and the end of the pod is read too"
    assert told == [("Pending", None), ("Pending", "a-0"), ("Running", "a-0"), ("Succeeded", "a-0")]
    assert service.asked[0].query["follow"] is True
    assert service.asked[1].query["sinceTime"] == stamp(2)


def test_a_pod_that_is_replaced_is_gone_on_from_at_its_beginning() -> None:
    texts, service = followed(
        [
            (job(), [pod("u1")]),
            (job(), [pod("u1", phase="Failed")]),
            (job(), [pod("u1", phase="Failed")]),
            (job(), []),
            (job(), [pod("u2")]),
            (job("Succeeded"), [pod("u2", phase="Succeeded")]),
            (job("Succeeded"), [pod("u2", phase="Succeeded")]),
        ],
        [([line(5, "old")], None), ([line(5, "old")], None), ([line(1, "new")], None), ([line(1, "new")], None)],
        LogWish(tail=1),
    )
    assert texts == ["old", "new"]
    assert [(call.query["tailLines"], call.query["sinceTime"]) for call in service.asked] == [
        (1, None),
        (None, stamp(5)),
        (None, None),
        (None, stamp(1)),
    ]


def test_breaks_are_gone_over_and_absence_is_told_when_it_lasts() -> None:
    away = Unreachable("http://x", "away")
    later = Refused(503, "Unavailable", "later")
    early = Refused(409, "Conflict", "not yet")
    over = (job("Succeeded"), [pod(phase="Succeeded")])
    texts, _ = followed(
        [(job(), [pod()]), away, (job(), [pod()]), (job(), [pod()]), over, over],
        [([line(1, "a")], away), ([], later), ([], early), ([line(1, "a"), line(2, "b")], None)],
    )
    assert texts == ["a", "b"]
    with pytest.raises(Unreachable):
        followed([(job(), [pod()]), *[away] * 1000], [([line(1, "a")], away)])


@pytest.mark.parametrize("status", [401, 403, 422])
def test_what_is_refused_for_good_is_raised(status: int) -> None:
    with pytest.raises(Refused):
        followed([(job(), [pod()])], [([], Refused(status, "Forbidden", "no"))])


def test_a_job_that_is_deleted_ends_it_and_one_that_never_was_is_told() -> None:
    gone = Answer(404, {}, b'{"code":"NotFound","detail":"gone"}')
    assert followed([(job(), [pod()]), gone], [([line(1, "a")], None)])[0] == ["a"]
    with pytest.raises(NotFound):
        followed([gone], [])


def test_a_job_that_ended_without_ever_running_is_told_by_the_service() -> None:
    none = Refused(409, "Conflict", "has no pod")
    with pytest.raises(Refused, match="has no pod"):
        followed([(job("Failed"), [])], [([], none)])


def read(
    wish: LogWish, pods: list[Pod], parts: list[bytes], error: ClientError | None = None
) -> tuple[list[str], Call]:
    service = Service([], [(parts, error)])
    service.pods = pods
    found = [one.text for one in service.run(logs.lines(Operations("http://x"), "pj/a", None, wish, follow_it=False))]
    return found, service.asked[0]


def test_what_is_wished_is_asked_for() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    both = [pod("l", None), pod("u0", 0), pod("u1", 1)]
    for wish, path, query in (
        (LogWish(), "/pods/a-None/log", {}),
        (LogWish(rank=1), "/pods/a-1/log", {}),
        (
            LogWish(pod="a-0", container="c", tail=3, previous=True),
            "/pods/a-0/log",
            {"container": "c", "tailLines": 3, "previous": True},
        ),
        (LogWish(rank=7), "/log", {"rank": 7}),
        (LogWish(pod="x"), "/pods/x/log", {}),
        (LogWish(rank=0, since=90.0), "/pods/a-0/log", {"sinceSeconds": 90}),
        (LogWish(rank=0, since=moment), "/pods/a-0/log", {"sinceTime": moment.astimezone().isoformat()}),
    ):
        texts, call = read(wish, both, [line(1, "x")])
        assert (texts, call.path) == (["x"], PATH + path)
        assert {key: value for key, value in call.query.items() if value is not None} == {"timestamps": True} | query


def test_contradictions_are_refused() -> None:
    for wish, words in ((LogWish(previous=True), "followed"), (LogWish(rank=1, pod="x"), "not both")):
        with pytest.raises(ValueError, match=words):
            logs.lines(Operations("http://x"), "pj/a", None, wish, follow_it=True)
