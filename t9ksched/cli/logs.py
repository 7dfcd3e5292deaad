"""Where the services' log lines go, and how they look: for people, or JSON for machines that collect them.

No fault fills a log with its traceback (`t9ksched.cli.tracebacks`), and input from unknown clients that is no HTTP gets
a line at the level debug only, because any client can send as much of it as it likes.
"""

import logging
import sys
from typing import Final, TextIO

import structlog

from t9ksched.cli.tracebacks import Sort, Tracebacks, given
from t9ksched.settings import Settings

_log = structlog.get_logger("logs")
_UVICORN: Final = "uvicorn.error"
"""Uvicorn's logger for all that is not a line per request. Its warnings are about requests that it does not take:
such that are no HTTP, or that ask for another protocol.
"""


def configure(settings: Settings, stream: TextIO | None = None, *, quiet: bool = False) -> None:
    """Write log lines of all services to `stream` (stderr unless given).

    `quiet` shows warnings and errors alone, unless `T9KSCHED_LOG_LEVEL` says otherwise.
    """
    stream = stream or sys.stderr
    wanted = "warning" if quiet and "log_level" not in settings.model_fields_set else settings.log_level
    level = logging.getLevelNamesMapping()[wanted.upper()]
    tracebacks = Tracebacks(_tell)
    when = structlog.processors.TimeStamper(fmt="iso", utc=True)
    looks: list[structlog.typing.Processor]
    libraries = logging.Formatter("%(levelname)s %(name)s: %(message)s")
    if settings.log_format == "json":
        looks = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        libraries = structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, structlog.processors.add_log_level, when],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *looks],
        )
    else:
        plain = structlog.dev.plain_traceback
        looks = [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[
            _Seldom(tracebacks),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            when,
            *looks,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    # Libraries log warnings and errors only.
    handler = logging.StreamHandler(stream)
    handler.addFilter(_Libraries(tracebacks))
    handler.setFormatter(libraries)
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler])


def _tell(sort: Sort, more: int) -> None:
    _log.error(f"{more} more like this in the last minute", like=sort.source, error=sort.error, at=sort.at)


class _Seldom:
    """Drops events of structlog with a traceback that was written within the minute."""

    def __init__(self, tracebacks: Tracebacks) -> None:
        self._tracebacks = tracebacks

    def __call__(
        self, _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        error = given(event.get("exc_info"))
        if error is not None and not self._tracebacks.wanted(str(event.get("event")), error):
            raise structlog.DropEvent
        return event


class _Libraries(logging.Filter):
    """The same for records of the standard library, with a traceback or without: a client may cause each as often as it
    likes. Requests that are no HTTP become a line of ours.
    """

    def __init__(self, tracebacks: Tracebacks) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def filter(self, record: logging.LogRecord) -> bool:
        error = given(record.exc_info)
        if reason := _no_http(record, error):
            _log.debug("a request could not be read", reason=reason)
            return False
        if error is not None:
            return self._tracebacks.wanted(record.name, error)
        return self._tracebacks.wanted_line(record.name, f"{record.filename}:{record.lineno}")


def _no_http(record: logging.LogRecord, error: BaseException | None) -> str:
    """Why a request could not be read, where the record says so of one."""
    if record.name == _UVICORN and record.levelno == logging.WARNING:
        return record.getMessage()[:200]
    if record.name == "aiohttp.server" and error is not None:
        from aiohttp.http_exceptions import HttpProcessingError

        if isinstance(error, HttpProcessingError):
            return f"{type(error).__name__}: {error.message[:200]!a}"
    return ""
