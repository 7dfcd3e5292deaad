"""What a service logs, as its log gets it: through the configuration that every service has."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import structlog

from t9ksched.cli.logs import configure
from t9ksched.settings import Settings


@contextmanager
def logged(
    level: Literal["debug", "info", "warning", "error"] = "info", form: Literal["console", "json"] = "json"
) -> Iterator[io.StringIO]:
    """What is logged, as JSON unless told otherwise."""
    stream, root = io.StringIO(), logging.root
    others, former, ours = root.handlers[:], root.level, structlog.get_config()
    root.handlers.clear()  # or the handlers of the test runner would stand in for ours
    configure(Settings(log_format=form, log_level=level), stream)
    handlers = root.handlers[:]
    root.handlers[:] = others + handlers
    try:
        yield stream
    finally:
        for handler in handlers:
            root.removeHandler(handler)
        root.setLevel(former)
        structlog.configure(**ours)
