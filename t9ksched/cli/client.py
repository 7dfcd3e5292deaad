"""A small HTTP client for the t9ksched service, on the standard library so that commands start fast.

Every error is raised as a `Failure`: a problem+json answer with its code, field paths and remedy, a server that
does not answer with how to start one.
"""

import json
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

from t9ksched.cli.datadir import ClientFile, default_data_dir
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.remedies import remedy

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    """A successful answer: its status, its headers and its decoded JSON (None when empty)."""

    status: int
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Client:
    """One service at `server` (such as `http://127.0.0.1:8080`), spoken to with a bearer token."""

    server: str
    token: str = ""
    _opener: OpenerDirector = field(default_factory=build_opener, repr=False, compare=False)

    @staticmethod
    def find(server: str | None, token: str | None, data_dir: Path | None) -> "Client":
        """The service to use: as the options say, else as `client.json` of the data directory says."""
        directory = data_dir or default_data_dir()
        known = None if server and token else ClientFile.read(directory)
        if not server:
            if known is None:
                raise Failure(
                    f"No t9ksched service is known here: {directory / 'client.json'} does not exist.",
                    remedy="Start one with `t9ksched up`, or say where it is with --server URL and --token TOKEN.",
                )
            return Client.at(known.server, token or known.token)
        # A remembered token is shown only to the server it was made by.
        remembered = known.token if known and known.server == server.rstrip("/") else ""
        return Client.at(server, token or remembered)

    @staticmethod
    def at(server: str, token: str) -> "Client":
        """A client for a server's address. Raises Failure (bad usage) when it is not an http(s) URL."""
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Failure(
                f"'{server}' is not the address of a server.",
                remedy="Write it as http://HOST:PORT or https://HOST.",
                code=BAD_USAGE,
            )
        # A proxy of the environment cannot reach this machine's own loopback.
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        opener = build_opener(ProxyHandler({})) if local else build_opener()
        return Client(server.rstrip("/"), token, opener)

    def get(self, path: str, **query: str | int | None) -> Any:
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
        content_type: str = "application/json",
        query: Mapping[str, str | int | list[str] | None] | None = None,
        headers: dict[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        decode: Callable[[bytes], Any] | None = None,
    ) -> Answer:
        """One request; `raw` is sent as it is, `body` as JSON. Raises Failure for anything but a 2xx answer.

        `options` says which option of the command fills a field of the body; faults are told of the option. A parameter
        of the query is filled by the option of its name.
        """
        url = self.server + quote(path)
        if given := {key: value for key, value in (query or {}).items() if value is not None}:
            url += "?" + urlencode(given, doseq=True)
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        request = Request(url, data=data, method=method, headers=headers or {})
        request.add_header("Accept", "application/json")
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        if data is not None:
            request.add_header("Content-Type", content_type)
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                return Answer(
                    response.status,
                    {name.lower(): value for name, value in response.headers.items()},
                    (decode or self._decode)(response.read()),
                )
        except HTTPError as error:
            with error:
                raise _refusal(path, error.code, error.read(), options or {}) from None
        except (URLError, OSError, HTTPException) as error:
            if data and isinstance(getattr(error, "reason", error), ConnectionResetError | BrokenPipeError):
                raise self._hung_up(len(data)) from None
            raise self._unreachable(error) from None

    def _decode(self, content: bytes) -> Any:
        if not content:
            return None
        try:
            return json.loads(content)
        except ValueError:
            raise Failure(
                f"{self.server} answered with something that is not JSON.",
                remedy="Is this the address of a t9ksched service? Check --server.",
            ) from None

    def _hung_up(self, size: int) -> Failure:
        return Failure(
            f"{self.server} closed the connection while {size / 1024:.0f} KiB were being sent.",
            remedy="If it stopped, see its log and repeat. A service, or a proxy before it, also ends requests that are"
            " too large: send the objects as several smaller files.",
        )

    def _unreachable(self, error: Exception) -> Failure:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):
            return Failure(f"{self.server} is not trusted: {reason.reason or reason}", remedy="Check its certificate.")
        text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return Failure(
            f"Nothing answers at {self.server} ({text}).",
            remedy="Start a service with `t9ksched up`, or say where it runs with --server URL.",
        )


def _refusal(path: str, status: int, content: bytes, options: Mapping[str, str]) -> Failure:
    """The Failure of an answer that is not 2xx: RFC 9457 when it is one, else its text."""
    try:
        problem = json.loads(content)
        if not isinstance(problem, dict):
            raise ValueError
    except ValueError:
        text = content.decode(errors="replace").strip()[:300]
        return Failure(f"The service answered {status}{f': {text}' if text else '.'}")
    code = str(problem.get("code") or "")
    message = str(problem.get("detail") or problem.get("title") or f"The service answered {status}.")
    faults = [(str(item.get("path", "")), str(item.get("message", ""))) for item in problem.get("errors") or ()]
    for index, (where, text) in enumerate(faults):
        if (option := options.get(where) or _option(where)) is not None:
            faults[index] = option, text
            message = message.replace(f"{where}: {text}", f"{option}: {text}")
    if len(faults) == 1 and faults[0][1] == message and faults[0][0]:
        message = f"{faults[0][0]}: {message}"  # a single fault is shown once, with its place
    details = [line for line in (f"{where}: {text}".strip(": ") for where, text in faults) if line not in message]
    return Failure(message, details=details, remedy=remedy(code, path, str(problem.get("remedy") or "")), name=code)


def _option(where: str) -> str | None:
    """The option for a parameter of the query, such as `--time-limit` for `query.timeLimit`; None for other places."""
    found = re.fullmatch(r"query\.([A-Za-z]+)", where)
    return "--" + re.sub(r"([A-Z])", r"-\1", found[1]).lower() if found else None
