"""Tracebacks in the log: each sort once a minute, the rest counted; strangers who send no HTTP leave none."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from t9ksched.cli.tracebacks import QUIET_SECONDS, Sort, Tracebacks
from tests.unit.cli.logged import logged


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What is logged as JSON, at the level of the test's parameter."""
    with logged(getattr(request, "param", "info")) as stream:
        yield stream


def _fail(text: str) -> None:
    raise ValueError(text)


def _fail_elsewhere(text: str) -> None:
    raise ValueError(text)


def test_a_fault_of_ours_that_repeats_is_written_once(log: io.StringIO) -> None:
    ours = structlog.get_logger("service")
    for number in range(500):
        try:
            _fail(str(number))
        except ValueError as error:
            ours.exception("a look failed", name=number)
            ours.error("a look failed", exc_info=error)
    assert log.getvalue().count("Traceback") == 1
    assert [json.loads(line)["name"] for line in log.getvalue().splitlines()] == [0]


def test_a_fault_of_a_library_that_repeats_is_written_once(log: io.StringIO) -> None:
    for number in range(500):
        try:
            _fail(str(number))
        except ValueError:
            logging.getLogger("a.library").exception("number %d", number)
    assert log.getvalue().count("Traceback") == 1
    assert len(log.getvalue()) < 1000


def test_other_faults_are_written(log: io.StringIO) -> None:
    ours = structlog.get_logger("service")
    for fault in (_fail, _fail_elsewhere):
        for event in ("a look failed", "a write failed"):
            for _ in range(3):
                try:
                    fault("x")
                except ValueError:
                    ours.exception(event)
    ours.error("a line without a traceback")
    ours.error("a line without a traceback")
    assert log.getvalue().count("Traceback") == 4
    assert log.getvalue().count("a line without") == 2


@pytest.mark.parametrize("log", ["info", "debug"], indirect=True)
@pytest.mark.parametrize("error", [BadHttpMessage("Bad head:\n\x1b[2J"), LineTooLong("x" * 9000, "8190", "9000")])
def test_what_is_no_http_leaves_no_traceback(
    log: io.StringIO, error: Exception, request: pytest.FixtureRequest
) -> None:
    debug = request.node.callspec.params["log"] == "debug"
    for _ in range(20):
        logging.getLogger("aiohttp.server").error("Error handling request from %s", "::1", exc_info=error)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["a request could not be read"] * (21 if debug else 0)
    assert all(len(line["reason"]) < 300 and line["reason"].isprintable() for line in lines)


def test_a_library_that_repeats_itself_is_written_once_and_counted(log: io.StringIO) -> None:
    for number in range(500):
        logging.getLogger("a.library").warning("number %d", number)
    logging.getLogger("a.library").warning("another line")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["level"], line["logger"], line["event"]) for line in lines if line.get("logger") == "a.library"] == [
        ("warning", "a.library", "number 0"),
        ("warning", "a.library", "another line"),
    ]


def test_each_line_of_a_library_is_one_json_object_with_its_traceback(log: io.StringIO) -> None:
    try:
        _fail("x")
    except ValueError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved\nfuture: %s", "<Task>")
    (line,) = log.getvalue().splitlines()
    told = json.loads(line)
    assert (told["level"], told["logger"]) == ("error", "asyncio")
    assert told["event"] == "Task exception was never retrieved\nfuture: <Task>"
    assert told["exception"].startswith("Traceback")
    assert told["exception"].endswith("ValueError: x")
    assert told["timestamp"].endswith("Z")


def test_lines_of_libraries_for_people_are_plain() -> None:
    with logged(form="console") as log:
        try:
            _fail("x")
        except ValueError:
            logging.getLogger("a.library").exception("number %d", 1)
    first, second, *_, last = log.getvalue().splitlines()
    assert (first, second) == ("ERROR a.library: number 1", "Traceback (most recent call last):")
    assert last == "ValueError: x"


def _caught(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_the_rest_is_counted_and_told_after_a_minute() -> None:
    told: list[tuple[Sort, int]] = []
    now = 0.0
    tracebacks = Tracebacks(lambda sort, more: told.append((sort, more)), lambda: now)
    assert [tracebacks.wanted("a", _caught(KeyError())) for _ in range(4)] == [True, False, False, False]
    now = QUIET_SECONDS - 1
    assert not tracebacks.wanted("a", _caught(KeyError()))
    assert told == []
    now = QUIET_SECONDS
    assert tracebacks.wanted("a", _caught(KeyError()))
    assert [(sort.source, sort.error, more) for sort, more in told] == [("a", "KeyError", 4)]
    now = 3 * QUIET_SECONDS
    tracebacks.tell_due()
    assert len(told) == 1


async def test_the_count_is_told_without_another_fault() -> None:
    told = asyncio.Event()
    times = iter([0.0, 0.0, 59.999, 59.999])
    tracebacks = Tracebacks(lambda _sort, _more: told.set(), lambda: next(times, QUIET_SECONDS))
    tracebacks.wanted("a", _caught(KeyError()))
    tracebacks.wanted("a", _caught(KeyError()))
    await asyncio.wait_for(told.wait(), 90)


def test_sorts_without_end_take_no_memory_without_end() -> None:
    tracebacks = Tracebacks(lambda _sort, _more: None, lambda: 0.0)
    written = sum(tracebacks.wanted(f"source {number}", _caught(KeyError())) for number in range(1000))
    assert written == 201


def test_groups_are_told_apart_by_their_first_error() -> None:
    tracebacks = Tracebacks(lambda _sort, _more: None, lambda: 0.0)
    inner = [_caught(KeyError()), _caught(OSError()), _caught(KeyError())]
    assert [tracebacks.wanted("a", _caught(ExceptionGroup("", [error]))) for error in inner] == [True, True, False]
