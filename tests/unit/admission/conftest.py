"""The REST service as its own tests have it: rules are asked through it, too."""

from tests.unit.api.conftest import app, plain_tracebacks, world

__all__ = ["app", "plain_tracebacks", "world"]
