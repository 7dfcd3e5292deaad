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
    looks: list[structlog.typing.Processor]
    if settings.log_format == "json":
        looks = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        looks = [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *looks,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    # Libraries speak up only when something is wrong with them.
    logging.basicConfig(level=max(level, logging.WARNING), stream=stream, format="%(levelname)s %(name)s: %(message)s")
