"""Jobs out of what a service recorded."""

import json

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.simulation.job import Job
from t9ksched.simulation.traces import read

AT = "2026-11-23T10:00:{:02}Z"
SHAPE = {
    "namespace": "ns",
    "kind": "Job",
    "name": "a",
    "submittedAt": AT.format(0),
    "startedAt": AT.format(10),
    "finishedAt": AT.format(40),
    "gpus": 4,
    "submitter": "ann",
    "priority": 2,
    "timeLimit": {"seconds": 60, "source": "job", "enforced": True},
}
JOB = Job("ns/Job/a", 0, 30, 4, user="ann", priority=2, limit=60)


def event(what: str, second: int, uid: str = "u", **detail: object) -> dict[str, object]:
    return {
        "event": what,
        "at": AT.format(second),
        "uid": uid,
        "namespace": "ns",
        "kind": "Job",
        "name": "a",
        "detail": detail,
    }


EVENTS = [
    event("accepted", 0, priority=2, submitter="ann"),
    event("bound", 5, pod="a-0", cards={"main": [0, 1]}),
    event("bound", 5, pod="a-1", cards={}, counted={"nvidia.com/gpu": 2}, mode="Whole"),
    event("started", 10),
    event("finished", 40),
    event("released", 41, pod="a-0"),
]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"items": [SHAPE]}),
        json.dumps([SHAPE], indent=2),
        json.dumps(SHAPE),
        "\n".join(map(json.dumps, [SHAPE, SHAPE | {"name": "b", "startedAt": None}])),
    ],
    ids=["page", "list", "one", "lines"],
)
def test_jobs_as_the_service_shows_them(text: str) -> None:
    found = read("history", text.splitlines(keepends=True))
    assert found.jobs == (JOB,)
    assert found.left_out == text.count('"b"')


def test_how_long_a_job_was_expected_to_run_is_no_limit() -> None:
    learned = SHAPE | {"timeLimit": {"seconds": 60, "source": "learned", "enforced": False}}
    (found,) = read("history", [json.dumps(learned)]).jobs
    assert found.limit is None


def test_events_of_history() -> None:
    text = "\n".join(map(json.dumps, EVENTS))
    (found,) = read("history", text.splitlines(keepends=True)).jobs
    assert found == Job("ns/Job/a", 0, 30, 4, user="ann", priority=2)


def test_the_run_that_ended_counts_and_what_has_not_ended_is_left_out() -> None:
    events = [*EVENTS[:4], event("preempted", 20, pod="a-0"), event("started", 25), *EVENTS[4:]]
    events += [event("accepted", 1, "other"), event("started", 2, "other"), event("deleted", 3, "stranger")]
    found = read("history", [json.dumps({"items": events})])
    assert [(job.runs, job.cards) for job in found.jobs] == [(15, 4)]
    assert found.left_out == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1: it is no JSON"),
        ('{"event": "bound"}\nx', "line 2: it is no JSON"),
        ("[3]", "items[0]: it must be an object"),
        ('{"items": 3}', "items: it must be a list"),
        ('{"items": [{}]}', "items[0]: it is neither a job"),
        (json.dumps([SHAPE | {"submittedAt": "noon"}]), "items[0].submittedAt: 'noon' must be a time"),
        (json.dumps([SHAPE | {"gpus": "4"}]), "items[0].gpus: '4' must be a whole number"),
        (json.dumps([EVENTS[1] | {"detail": {"cards": 3}}]), "items[0].detail.cards: it must be an object"),
        ("", "no job in it can be replayed"),
    ],
)
def test_what_is_wrong_is_said_with_its_path(text: str, said: str) -> None:
    with pytest.raises(Invalid) as raised:
        read("history", text.splitlines(keepends=True))
    assert said in f"{raised.value.errors[0].path}: {raised.value.errors[0].message}"
