"""What goes wrong between a program and the service.

`Refused` is the service's own "no", with its stable `code`; `Unreachable` says that there was no answer. Errors of the
HTTP library never leave this package.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from t9ksched.client.models import Job


class ClientError(Exception):
    """The service cannot be asked, or did not do what was asked."""


class Unreachable(ClientError):
    """No answer came.

    Attributes:
        sent: bytes of a body that was being sent when the service closed the connection; 0 otherwise.
        trusted: False if the server's certificate is not.
    """

    def __init__(self, server: str, why: str, *, sent: int = 0, trusted: bool = True) -> None:
        super().__init__(f"{server} is not trusted: {why}" if not trusted else f"nothing answers at {server} ({why})")
        self.server = server
        self.why = why
        self.sent = sent
        self.trusted = trusted


class Misunderstood(ClientError):
    """The answer is none of this service: perhaps the address is another's."""


class Fault(NamedTuple):
    """One faulty field: where, and what is wrong."""

    path: str
    message: str


class Refused(ClientError):
    """The service answered with a problem (RFC 9457).

    Attributes:
        status: of HTTP.
        code: stable, such as `QueueNotFound`; empty if not the service answered, but a proxy before it.
        detail: the sentence that says what is wrong.
        errors: the faulty fields.
        remedy: what to do; empty if that is not known.
        retry_after: seconds after which to ask again, None if the service does not say.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: Sequence[Fault] = (),
        remedy: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}" if code else detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.remedy = remedy
        self.retry_after = retry_after


class NotFound(Refused):
    """There is no such thing, or none that this user may see."""


class NotReached(ClientError):
    """A job cannot get any more to where it was waited for; `job` is how it ended, None if it is gone."""

    def __init__(self, text: str, job: "Job | None") -> None:
        super().__init__(text)
        self.job = job


class WaitTimeout(ClientError, TimeoutError):
    """A job did not get to where it was waited for in time; `job` is how it was then."""

    def __init__(self, text: str, job: "Job") -> None:
        super().__init__(text)
        self.job = job


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds of `Retry-After`; None where it is absent or a date."""
    text = headers.get("retry-after", "").strip()
    return float(text) if text.isdecimal() and text.isascii() else None
