"""Clocks of jobs: which limit counts, when a job may be placed again, how limits are written."""

from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched.model.timelimit import limit_seconds, shortest, time_limit, written
from t9ksched.scheduler.state.clocks import MOST_MISSED, Clock, Clocks, asked
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.store.job_overrides import JobControl
from t9ksched.store.runs import Run

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND
GANG = GangRecord("ns", "g", "job")


def clocks(**run: Any) -> Clocks:
    found = Clocks()
    found.by_job["job"] = Clock(Run(uid="job", **run))
    return found


def decided(seconds_later: int, **what: Any) -> JobControl:
    at = datetime.fromtimestamp(NOW / SECOND + seconds_later, UTC)
    return JobControl("job", at=at, **({"released_at": at} if what.pop("released", False) else {}) | what)


@pytest.mark.parametrize(
    ("texts", "seconds", "faulty"),
    [
        (("2h", "1h"), 3600, False),
        (("0", "1h"), 3600, False),
        (("0",), None, False),
        (("1.5h", "1h"), 3600, True),
        (("500ms",), 1, False),
        (("", ""), None, False),
    ],
)
def test_what_annotations_ask_for(texts: tuple[str, ...], seconds: int | None, faulty: bool) -> None:
    found = asked(texts)
    assert (found.seconds, bool(found.fault)) == (seconds, faulty)


def test_the_shortest_limit_counts_and_its_source_is_named() -> None:
    assert shortest((None, 5, 3)) == 3
    assert (time_limit(5, 9).source, time_limit(9, 5).source, time_limit(None, None).source) == ("job", "queue", "none")
    assert [written(limit_seconds(text)) for text in ("90m", "1d1s", "0")] == ["1h30m", "1d1s", "none"]


def test_a_job_that_reached_its_limit_resumes_only_with_another() -> None:
    ended = {"ended_at": NOW, "ended_code": "TimeLimitExceeded", "ended_limit": 3600, "message": "it reached 1h"}
    for texts in ((), ("1h",), ("60m",), ("soon",)):
        reason = clocks(**ended).refusal(GANG, asked(texts), None, NOW)
        assert reason is not None
        assert reason.code == "TimeLimitExceeded"
    renewed = clocks(**ended)
    assert renewed.refusal(GANG, asked(("2h",)), None, NOW) is None
    assert renewed.limit("job", None, [3600]) == 7200
    assert clocks(**ended).refusal(GANG, asked(("1h",)), decided(5, time_limit_seconds=0), NOW) is None
    assert clocks(**ended).refusal(GANG, asked(("1h",)), decided(-5, time_limit_seconds=0), NOW) is not None


@pytest.mark.parametrize(
    ("text", "resumes"),
    [
        pytest.param("25s", False, id="what it asked for before the update"),
        pytest.param("20s", False, id="the limit that ended it"),
        pytest.param("40s", True, id="another one"),
        pytest.param("0", True, id="none"),
    ],
)
def test_what_the_annotation_asked_before_an_update_is_no_new_limit(text: str, resumes: bool) -> None:
    update = decided(-60, time_limit_seconds=20)
    ended = clocks(
        ended_at=NOW, ended_code="TimeLimitExceeded", ended_limit=20, ended_asked=25, message="it reached 20s"
    )
    assert (ended.refusal(GANG, asked((text,)), update, NOW) is None) is resumes
    assert ended.limit("job", update, [25]) == ((limit_seconds(text)) if resumes else 20)


def test_a_missed_start_has_a_pause_and_the_third_waits_for_release() -> None:
    paused = clocks(missed=1, missed_at=NOW, retry_at=NOW + 60 * SECOND, why="ImagePullBackOff")
    reason = paused.refusal(GANG, asked(()), None, NOW)
    assert reason is not None
    assert "ImagePullBackOff" in reason.message
    assert paused.refusal(GANG, asked(()), None, NOW + 60 * SECOND) is None
    third = {"missed": MOST_MISSED, "missed_at": NOW, "retry_at": NOW + 240 * SECOND, "why": "ImagePullBackOff"}
    assert clocks(**third).refusal(GANG, asked(()), decided(-5, released=True), NOW + 900 * SECOND) is not None
    assert clocks(**third).refusal(GANG, asked(()), decided(5, released=True), NOW) is None


@pytest.mark.parametrize(("control", "limit"), [(None, 3600), (60, 60), (0, None)])
def test_what_is_decided_replaces_what_was_agreed(control: int | None, limit: int | None) -> None:
    given = None if control is None else decided(0, time_limit_seconds=control)
    assert Clocks().limit("job", given, [None, 3600, 7200]) == limit


@pytest.mark.parametrize(
    ("limited", "counts"),
    [pytest.param(-60, 7200, id="before the annotation"), pytest.param(30, 60, id="after it")],
)
@pytest.mark.parametrize("later", [{"held": True}, {"priority": 9}, {"released": True}], ids=str)
def test_of_annotation_and_update_the_later_one_counts_whatever_is_decided_after(
    limited: int, counts: int, later: dict[str, Any]
) -> None:
    renewed = clocks(limit=7200, limit_at=NOW)
    at = datetime.fromtimestamp(NOW / SECOND + limited, UTC)
    given = decided(90, time_limit_seconds=60, limited_at=at, **later)
    assert renewed.limit("job", given, [3600]) == counts


@pytest.mark.parametrize(
    ("edited", "updated", "counts"),
    [
        pytest.param(20, 10, 40, id="the annotation is later"),
        pytest.param(10, 20, 60, id="the update is later"),
        pytest.param(None, 10, 40, id="the edit was not seen before it waits"),
    ],
)
def test_a_paused_job_resumes_with_what_it_was_given_last(edited: int | None, updated: int, counts: int) -> None:
    ended = clocks(ended_at=NOW, ended_code="TimeLimitExceeded", ended_limit=20, ended_asked=20, message="it ended")
    clock = ended.by_job["job"]
    clock.look_at("20s", NOW + SECOND)
    if edited is not None:
        clock.look_at("40s", NOW + edited * SECOND)
    update = decided(updated, time_limit_seconds=60)
    assert ended.refusal(GANG, asked(("40s",)), update, NOW + 30 * SECOND) is None
    assert ended.limit("job", update, [20]) == counts


def test_a_limit_that_is_written_back_is_no_other_one() -> None:
    ended = clocks(ended_at=NOW, ended_code="TimeLimitExceeded", ended_limit=20, ended_asked=20, message="it ended")
    clock = ended.by_job["job"]
    clock.set(limit=40, limit_at=NOW + SECOND)
    assert ended.refusal(GANG, asked(("20s",)), None, NOW + 2 * SECOND) is not None


def test_what_a_queue_shortened_is_no_other_limit_when_it_resumes() -> None:
    """The annotation asked for 9h, and the queue allowed 2h: it goes on asking for 9h."""
    ended = clocks(
        ended_at=NOW, ended_code="TimeLimitExceeded", ended_limit=7200, ended_asked=9 * 3600, message="it ended"
    )
    assert ended.refusal(GANG, asked(("9h",)), None, NOW + SECOND) is not None
    assert ended.refusal(GANG, asked(("1h",)), None, NOW + SECOND) is None


def test_an_eviction_starts_the_clock_anew() -> None:
    ran = clocks(bound_at=NOW, ran_at=NOW, near=True)
    assert ran.end(GANG, 60) == NOW + 60 * SECOND
    ran.start_anew(GANG)
    assert ran.end(GANG, 60) is None
    assert not ran.by_job["job"].run.near
