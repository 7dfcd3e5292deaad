"""The service itself: its release and its health."""

from typing import Literal

from t9ksched.api.schemas.base import Shape, WarningShape


class Release(Shape):
    """The release that answers."""

    version: str


class Health(Shape):
    """The process is running."""

    status: Literal["ok"]


class Readiness(Shape):
    """Each part the service needs, and that it works; `warnings` names what the scheduler may not watch."""

    status: Literal["ready"]
    parts: dict[str, str]
    warnings: list[WarningShape]
