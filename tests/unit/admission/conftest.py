"""The REST service as its own tests have it: rules are asked through it, too."""

from tests.unit.api.conftest import app, filled_template, plain_tracebacks, world

__all__ = ["app", "filled_template", "plain_tracebacks", "world"]
