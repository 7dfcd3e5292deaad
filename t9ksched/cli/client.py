"""The commands' way to the service: the client of `t9ksched.client`, whose errors become failures of commands.

Every error is raised as a `Failure`: a problem with its code, field paths and remedy in the words of the command line,
a server that does not answer with how to start one. Nothing is sent twice: a person sees at once what is wrong.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from t9ksched.cli.datadir import unreadable
from t9ksched.cli.failure import BAD_USAGE, Away, Failure, Nowhere
from t9ksched.cli.progress import waiting
from t9ksched.cli.remedies import remedy
from t9ksched.client.calls import JSON, Call, Query, address, decoded
from t9ksched.client.errors import ClientError, Misunderstood, Refused, Unreachable
from t9ksched.client.known import NoService, default_data_dir, find, read_token
from t9ksched.client.sending import TIMEOUT_SECONDS, Transport

if TYPE_CHECKING:
    from t9ksched.cli.changes import Changes

_LATER: Final = (429, 502, 503, 504)
"""Statuses with which a service, or a proxy before it, says to come later."""


class Answer(msgspec.Struct, frozen=True):
    """A successful answer: its status, its headers and its decoded JSON (None when empty)."""

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Client:
    """One service at `server` (such as `http://127.0.0.1:8080`), spoken to with a bearer token."""

    server: str
    token: str = ""
    timeout: float = TIMEOUT_SECONDS
    """Seconds that an answer may take."""
    quiet: bool = False
    """Nothing is shown while an answer is waited for: the screen is another's."""

    @staticmethod
    def find(server: str | None, token: str | None, data_dir: Path | None) -> "Client":
        """The service to use: as the options say, else as `client.json` of the data directory says."""
        directory = data_dir or default_data_dir()
        if server:
            Client.at(server, "")  # a wrong address is bad usage, whatever else is known
        try:
            token = token and read_token(token)
        except ValueError as error:
            text = f"What --token or T9KSCHED_TOKEN gives is no token: {error}."
            raise Failure(text, remedy="Copy the token whole, and nothing else.", code=BAD_USAGE) from None
        try:
            return Client(*find(server, token, directory))
        except NoService as error:
            raise Nowhere(
                f"No t9ksched service is known here: {error.file} does not exist.",
                remedy="Start one with `t9ksched up`, or say where it is with --server URL and --token TOKEN.",
            ) from None
        except ClientError as error:
            raise unreadable(error) from None
        except ValueError as error:
            raise Failure(f"{directory / 'client.json'}: {error}.", remedy="Start `t9ksched up` again.") from None

    @staticmethod
    def at(server: str, token: str) -> "Client":
        """A client for a server's address. Raises Failure (bad usage) when it is not an http(s) URL."""
        try:
            return Client(address(server), token)
        except ValueError:
            raise Failure(
                f"'{server}' is not the address of a server.",
                remedy="Write it as http://HOST:PORT or https://HOST.",
                code=BAD_USAGE,
            ) from None

    @cached_property
    def transport(self) -> Transport:
        """What sends its requests."""
        return Transport(self.server, self.token, self.timeout)

    def changes(self, **filters: Any) -> "Changes":
        """What happens from now on, as far as it passes the filters of `/apis/v1/events`."""
        from t9ksched.cli.changes import Changes

        return Changes(self.server, self.token, filters)

    def get(self, path: str, **query: str | int | Sequence[str] | None) -> Any:
        """GET and decode; query values that are None are left out."""
        return self.call("GET", path, query=query).body

    def read(self, path: str) -> bytes:
        """GET what is written to a file as it is. Raises Failure as `call` does."""
        found: bytes = self.call("GET", path, decode=bytes).body
        return found

    def post(self, path: str, body: Any = None, **query: str | int | None) -> Any:
        """POST a JSON body."""
        return self.call("POST", path, body=body, query=query).body

    def delete(self, path: str, **query: str | int | None) -> Any:
        """DELETE."""
        return self.call("DELETE", path, query=query).body

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        raw: bytes | None = None,
        content_type: str = JSON,
        query: Query | None = None,
        headers: dict[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        decode: Callable[[bytes], Any] | None = None,
    ) -> Answer:
        """One request; `raw` is sent as it is, `body` as JSON. Raises Failure for anything but a 2xx answer.

        `options` says which option of the command fills a field of the body; faults are told of the option. A parameter
        of the query is filled by the option of its name.
        """
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        with self.failures(path, options or {}), nullcontext() if self.quiet else waiting(self.server):
            answer = self.transport.send(Call(method, path, query or {}, data, content_type, headers or {})).checked()
            found = decode(answer.content) if decode is not None else decoded(answer, self.server)
        return Answer(answer.status, answer.headers, found)

    @contextmanager
    def failures(self, path: str, options: Mapping[str, str]) -> Iterator[None]:
        """Raise errors of the client as failures of requests for that path; `options` as in `call`."""
        try:
            yield
        except Refused as refused:
            raise _refusal(path, refused, options) from None
        except Unreachable as error:
            raise _unreachable(error) from None
        except Misunderstood:
            raise Failure(
                f"{self.server} answered with something that is not JSON.",
                remedy="Is this the address of a t9ksched service? Check --server.",
            ) from None


def _unreachable(error: Unreachable) -> Failure:
    if error.sent:
        return Failure(
            f"{error.server} closed the connection while {error.sent / 1024:.0f} KiB were being sent.",
            remedy="If it stopped, see its log and repeat. A service, or a proxy before it, also ends requests that are"
            " too large: send the objects as several smaller files.",
        )
    if not error.trusted:
        return Failure(f"{error.server} is not trusted: {error.why}", remedy="Check its certificate.")
    return Away(
        f"Nothing answers at {error.server} ({error.why}).",
        remedy="Start a service with `t9ksched up`, or say where it runs with --server URL.",
    )


def _refusal(path: str, refused: Refused, options: Mapping[str, str]) -> Failure:
    """The Failure of an answer that is not 2xx."""
    if not refused.code and not refused.errors and refused.detail.startswith("the service"):
        text = refused.detail[0].upper() + refused.detail[1:]
        kind = Away if refused.status in _LATER else Failure
        return kind(text if ":" in text else f"{text}.", remedy=remedy("", path, refused.remedy))
    message = refused.detail
    faults = [tuple(fault) for fault in refused.errors]
    for index, (where, text) in enumerate(faults):
        if (option := options.get(where) or _option(where)) is not None:
            faults[index] = option, text
            message = message.replace(f"{where}: {text}", f"{option}: {text}")
    if len(faults) == 1 and faults[0][1] == message and faults[0][0]:
        message = f"{faults[0][0]}: {message}"  # a single fault is shown once, with its place
    details = [line for line in (f"{where}: {text}".strip(": ") for where, text in faults) if line not in message]
    kind = Away if refused.status in _LATER else Failure
    return kind(message, details=details, remedy=remedy(refused.code, path, refused.remedy), name=refused.code)


def _option(where: str) -> str | None:
    """The option for a parameter of the query, such as `--time-limit` for `query.timeLimit`; None for other places."""
    found = re.fullmatch(r"query\.([A-Za-z]+)", where)
    return "--" + re.sub(r"([A-Z])", r"-\1", found[1]).lower() if found else None
