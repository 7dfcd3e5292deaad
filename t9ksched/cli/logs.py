"""Where the services' log lines go, and how they look: for people, or JSON for machines that collect them."""

import logging
import sys
from typing import TextIO

import structlog

from t9ksched.settings import Settings


def configure(settings: Settings, stream: TextIO | None = None, *, quiet: bool = False) -> None:
    """Write log lines of all services to `stream` (stderr unless given).

    `quiet` shows warnings and errors alone, unless `T9KSCHED_LOG_LEVEL` says otherwise.
    """
    stream = stream or sys.stderr
    wanted = "warning" if quiet and "log_level" not in settings.model_fields_set else settings.log_level
    level = logging.getLevelNamesMapping()[wanted.upper()]
    for_machines = settings.log_format == "json"
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if for_machines else _leave,
            structlog.processors.JSONRenderer()
            if for_machines
            else structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    # Libraries speak up only when something is wrong with them.
    logging.basicConfig(level=max(level, logging.WARNING), stream=stream, format="%(levelname)s %(name)s: %(message)s")


def _leave(_logger: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return event
