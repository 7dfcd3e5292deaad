"""Operations as tables: what is asked, what is answered, and what becomes of it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from t9ksched.api.http.paging import MOST
from t9ksched.client.calls import KEY, Answer, Call
from t9ksched.client.errors import Misunderstood, NotFound, NotReached, Refused, Unreachable, WaitTimeout
from t9ksched.client.models import Job
from t9ksched.client.operations import LARGEST_PAGE, Operation, Operations, Retries, objects_in
from t9ksched.client.waiting import wait

RETRIES = Retries(times=2, first_seconds=1.0, longest_seconds=8.0, patience_seconds=20.0)
SERVICE = Operations("http://x", RETRIES)
AWAY = Unreachable("http://x", "away")
JOB = {"namespace": "default", "kind": "Job", "name": "fit", "uid": "u"}


def ok(body: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(status, {key.replace("_", "-"): value for key, value in headers.items()}, json.dumps(body).encode())


def no(status: int, code: str = "Unavailable", **headers: str) -> Answer:
    return ok({"code": code, "detail": "no", "errors": [{"path": "a.b", "message": "bad"}]}, status, **headers)


@dataclass
class Carried:
    """An operation carried out with scripted answers."""

    answers: Iterable[Answer | Exception]
    calls: list[Call] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    now: float = 0.0

    def out(self, operation: Operation[Any]) -> Any:
        script = iter(self.answers)
        try:
            step = next(operation)
            while True:
                if isinstance(step, Call):
                    self.calls.append(step)
                    answer = next(script)
                    step = operation.throw(answer) if isinstance(answer, Exception) else operation.send(answer)
                else:
                    self.pauses.append(step)
                    self.now += step
                    step = operation.send(None)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize(
    ("answers", "pauses"),
    [
        ([AWAY, ok(JOB)], [1.0]),
        ([AWAY, AWAY, ok(JOB)], [1.0, 2.0]),
        ([no(503, retry_after="5"), no(502), ok(JOB)], [5.0, 2.0]),
        ([no(429, "RateLimited", retry_after="7"), ok(JOB)], [7.0]),
    ],
)
def test_a_question_is_asked_again(answers: list[Answer | Exception], pauses: list[float]) -> None:
    carried = Carried(answers)
    assert carried.out(SERVICE.job("Job/fit", None)).name == "fit"
    assert (carried.pauses, len(set(map(repr, carried.calls)))) == (pauses, 1)


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([AWAY, AWAY, AWAY], Unreachable),
        ([Unreachable("http://x", "self-signed", trusted=False)], Unreachable),
        ([no(503), no(503), no(503)], Refused),
        ([no(429, "RateLimited", retry_after="21")], Refused),
        ([no(500, "Internal")], Refused),
        ([no(404, "NotFound")], NotFound),
        ([Answer(200, {}, b"<html>")], Misunderstood),
        ([ok({"name": 3})], Misunderstood),
    ],
)
def test_an_end_without_an_answer(answers: list[Answer | Exception], error: type[Exception]) -> None:
    carried = Carried(answers)
    with pytest.raises(error) as raised:
        carried.out(SERVICE.job("Job/fit", None))
    assert len(carried.calls) == len(answers)
    if isinstance(raised.value, Refused):
        assert (raised.value.errors[0].path, str(raised.value)) == ("a.b", f"{raised.value.code}: no")


def test_a_submission_is_repeated_with_one_key() -> None:
    carried = Carried([AWAY, no(409, "Conflict", retry_after="1"), ok({"items": [JOB], "warnings": []}, 201)])
    assert carried.out(SERVICE.submit({"kind": "Job"}, None, False)).items[0].uid == "u"
    keys = {call.headers[KEY] for call in carried.calls}
    assert (len(carried.calls), len(keys), len(keys.pop())) == (3, 1, 32)


def test_a_name_that_is_taken_is_no_submission_in_progress() -> None:
    carried = Carried([no(409, "AlreadyExists")])
    with pytest.raises(Refused):
        carried.out(SERVICE.submit({"kind": "Job"}, "mine", False))
    assert carried.calls[0].headers[KEY] == "mine"


@pytest.mark.parametrize("call", [Call("POST", "/x"), Call("PATCH", "/x"), Call("DELETE", "/x")])
def test_what_may_have_been_done_is_not_done_again(call: Call) -> None:
    for answer in (AWAY, no(503), no(409, "Conflict", retry_after="1")):
        carried = Carried([answer])
        with pytest.raises((Unreachable, Refused)):
            carried.out(SERVICE.request(call))
        assert len(carried.calls) == 1


def test_an_answer_of_something_else_is_shown() -> None:
    with pytest.raises(Refused, match="the service answered 418: teapot") as refused:
        Carried([Answer(418, {}, b"teapot")]).out(SERVICE.request(Call("GET", "/x")))
    assert refused.value.code == ""


def test_bodies(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("kind: Job\n---\nkind: Pod\n")
    bodies: list[tuple[Any, bytes, str]] = [
        ({"kind": "Job"}, b'{"kind": "Job"}', "application/json"),
        (
            [{"kind": "Job"}],
            b'{"apiVersion": "v1", "kind": "List", "items": [{"kind": "Job"}]}',
            "application/json",
        ),
        ("kind: Job", b"kind: Job", "application/yaml"),
        (file, b"kind: Job\n---\nkind: Pod\n", "application/yaml"),
    ]
    for objects, body, content_type in bodies:
        carried = Carried([ok({"items": []}, 201)])
        moment = datetime(2030, 1, 31, 20, tzinfo=UTC)
        carried.out(SERVICE.submit(objects, None, True, queue="q", startAfter=moment, timeLimit=None))
        (call,) = carried.calls
        assert (call.body, call.content_type) == (body, content_type)
        assert call.url("http://x").endswith("?queue=q&startAfter=2030-01-31T20%3A00%3A00%2B00%3A00&dryRun=true")
    assert [one["kind"] for one in objects_in(file)] == ["Job", "Pod"]
    assert [one["kind"] for one in objects_in({"kind": "List", "items": [{"kind": "Job"}, {"kind": "Pod"}]})] == [
        "Job",
        "Pod",
    ]


def test_jobs_that_are_waited_for_are_named() -> None:
    job = msgspec.convert(JOB, Job)
    for after, words in ((job, [str(job)]), ("job/a:any", ["job/a:any"]), ([job, "job/a"], [str(job), "job/a"])):
        carried = Carried([ok({"items": []}, 201)])
        carried.out(SERVICE.submit({}, None, False, after=after, afterCancel=True))
        (call,) = carried.calls
        query = parse_qs(urlsplit(call.url("http://x")).query)
        assert query == {"after": words, "afterCancel": ["true"]}


def test_a_limit_beyond_a_page_is_asked_for_in_pages() -> None:
    page = {"items": [JOB] * LARGEST_PAGE, "continue": "x"}
    carried = Carried([ok(page), ok(page), ok(page)])
    assert len(carried.out(SERVICE.jobs(2 * LARGEST_PAGE + 5))) >= 2 * LARGEST_PAGE + 5
    assert [call.query["limit"] for call in carried.calls] == [LARGEST_PAGE, LARGEST_PAGE, 5]
    assert LARGEST_PAGE == MOST, "what the service gives"


def test_pages_are_followed_up_to_the_limit() -> None:
    names = [JOB | {"name": str(number)} for number in range(5)]
    answers = [ok({"items": names[:2], "continue": "a"}), ok({"items": [], "continue": "b"}), ok({"items": names[2:4]})]
    carried = Carried(answers)
    found = carried.out(SERVICE.jobs(5, phase="Running", queue=["a", "b"], label=None))
    assert [job.name for job in found] == ["0", "1", "2", "3"]
    assert [(call.query["limit"], call.query.get("continue")) for call in carried.calls] == [
        (5, None),
        (3, "a"),
        (3, "b"),
    ]
    assert carried.calls[0].url("").endswith("?phase=Running&queue=a&queue=b&limit=5")
    enough = Carried([ok({"items": names[:2], "continue": "a"})])
    assert len(enough.out(SERVICE.jobs(2))) == 2
    whole = Carried([ok({"items": names, "continue": None, "stopped": [{"what": "scheduling"}]})])
    found = whole.out(SERVICE.jobs(None))
    assert (len(found), found.stopped) == (5, [{"what": "scheduling"}])


def jobs(*phases: str, **more: Any) -> list[Answer]:
    return [ok(JOB | {"phase": phase} | more) for phase in phases]


@pytest.mark.parametrize(
    ("goal", "answers", "phase"),
    [
        ("finished", jobs("Pending", "Running", "Failed"), "Failed"),
        ("succeeded", jobs("Pending", "Succeeded"), "Succeeded"),
        ("running", jobs("Pending", "Running"), "Running"),
        ("running", jobs("Succeeded"), "Succeeded"),
        ("failed", jobs("Running", "Failed"), "Failed"),
        ("deleted", [*jobs("Running", "Terminating"), no(404, "NotFound")], "Terminating"),
    ],
)
def test_a_goal_that_is_reached(goal: str, answers: list[Answer], phase: str) -> None:
    changes: list[str] = []
    carried = Carried(answers)
    found = carried.out(
        wait(SERVICE, "Job/fit", goal, None, None, lambda job: changes.append(job.phase), lambda: carried.now)
    )
    assert (found.phase, len(carried.calls)) == (phase, len(answers))
    assert changes == list(dict.fromkeys(changes))


@pytest.mark.parametrize(
    ("goal", "answers", "text"),
    [
        ("succeeded", jobs("Failed", reason={"code": "X", "message": "exit 3"}), "ended as Failed.*: exit 3"),
        ("failed", jobs("Succeeded"), "ended as Succeeded"),
        ("running", jobs("Terminating"), "is being deleted"),
        ("finished", jobs("Terminating"), "is being deleted"),
        ("finished", [*jobs("Running"), no(404, "NotFound")], "was deleted before"),
    ],
)
def test_a_goal_that_is_out_of_reach(goal: str, answers: list[Answer], text: str) -> None:
    carried = Carried(answers)
    with pytest.raises(NotReached, match=text) as raised:
        carried.out(wait(SERVICE, "Job/fit", goal, None, None, None, lambda: carried.now))
    assert raised.value.job is not None


def test_a_wait_that_takes_too_long() -> None:
    carried = Carried(iter(jobs(*["Pending"] * 99, reason={"code": "Behind", "message": "after a"})))
    with pytest.raises(WaitTimeout, match=r"not running after 9 s; it is Pending: Behind: after a") as raised:
        carried.out(wait(SERVICE, "pj/fit", "running", "lab", 9.0, None, lambda: carried.now))
    assert (carried.now, raised.value.job.phase) == (pytest.approx(9.0), "Pending")
    assert {call.path for call in carried.calls} == {"/apis/v1/workloads/lab/PyTorchTrainingJob/fit"}


def test_there_never_was_one() -> None:
    for goal in ("finished", "deleted"):
        with pytest.raises(NotFound):
            Carried([no(404, "NotFound")]).out(wait(SERVICE, "Job/fit", goal, None, None, None))
    known = Job(namespace="default", kind="Job", name="fit", uid="u")
    assert Carried([no(404, "NotFound")]).out(wait(SERVICE, known, "deleted", None, None, None)) == known
    with pytest.raises(NotReached, match="was deleted before it was finished"):
        Carried([no(404, "NotFound")]).out(wait(SERVICE, known, "finished", None, None, None))


@pytest.mark.parametrize(
    ("job", "goal"), [("fit", "finished"), ("Job/", "finished"), ("a/b/c", "finished"), ("Job/fit", "done")]
)
def test_what_names_nothing(job: str, goal: str) -> None:
    with pytest.raises(ValueError, match=r"KIND/NAME|one of running"):
        Carried([]).out(wait(SERVICE, job, goal, None, None, None))
