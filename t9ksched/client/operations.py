"""What a program can do with the service, without input or output: each operation yields the requests that it sends and
the seconds that it waits, is given the answers, and returns a value. `Client` and `AsyncClient` carry them out.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import msgspec

from t9ksched.client.calls import JSON, KEY, Answer, Call, Query, decoded
from t9ksched.client.errors import Misunderstood, Unreachable, retry_after
from t9ksched.client.models import Explanation, Job, Listed, Node, Page, Queue, Simulation, Submitted, WhoAmI
from t9ksched.client.targets import target_of

T = TypeVar("T")
Operation = Generator[Call | float, Answer | None, T]
"""Yields a call, and is sent its answer or thrown `Unreachable`; or yields seconds to wait."""
Objects = Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | bytes | Path
"""One Kubernetes object or several; YAML or JSON as text; a file of either."""
Texts = str | Sequence[str]
Earlier = Job | str | Sequence[Job | str]
"""Jobs that another waits for; as a text `job/prep`, or `job/prep:any` for however it ends."""

WORKLOADS: Final = "/apis/v1/workloads"
LARGEST_PAGE: Final = 1000
"""Items of a page that the service gives at most."""
_YAML: Final = "application/yaml"
_LATER: Final = (502, 503, 504)


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is sent again that got no answer, or was told to come later, and how long to wait between:
    twice as long each time, or as long as the service says. Nothing is done twice by that: a submission carries an
    `Idempotency-Key`, and what has none is sent again only if it changes nothing.
    """

    times: int = 7
    """Together more than the seconds that a service takes to start again."""
    first_seconds: float = 0.2
    longest_seconds: float = 5.0
    patience_seconds: float = 30.0
    """A service that says to come later than that is believed to refuse."""

    def pause(self, attempt: int) -> float:
        """How long to wait behind that attempt, the first being 0."""
        return min(self.longest_seconds, self.first_seconds * 2.0**attempt)


def resumed(operation: Generator[Any, Any, Any], outcome: Answer | Unreachable | None) -> Any:
    """The next step of an operation, once its last one had this outcome. Raises StopIteration with its value."""
    return operation.throw(outcome) if isinstance(outcome, Unreachable) else operation.send(outcome)


def asked(call: Call, retries: Retries) -> Operation[Answer]:
    """The answer to a request, which is a success.

    Raises:
        Refused, Unreachable: as the last attempt ended.
    """
    attempt = 0
    while True:
        wait = None
        try:
            answer = yield call
        except Unreachable as error:
            if attempt >= retries.times or not error.trusted or not call.repeatable:
                raise
        else:
            assert answer is not None
            wait = retry_after(answer.headers)
            patient = wait is None or wait <= retries.patience_seconds
            if attempt >= retries.times or not patient or not _later(answer, call):
                return answer.checked()
        yield max(retries.pause(attempt), wait or 0.0)
        attempt += 1


def _later(answer: Answer, call: Call) -> bool:
    """Whether the same request may be answered otherwise a little later, and sending it again does nothing twice."""
    if answer.status == 429:
        return True
    if answer.status == 409:  # a request with this key is being worked on
        return KEY in call.headers and "retry-after" in answer.headers
    return answer.status in _LATER and call.repeatable


@dataclass(frozen=True, slots=True)
class Operations:
    """Makes operations for one service."""

    server: str
    retries: Retries = Retries()

    def request(self, call: Call) -> Operation[Any]:
        """Any request; its JSON, None where the answer is empty."""
        answer = yield from asked(call, self.retries)
        return decoded(answer, self.server)

    def one(self, path: str, kind: type[T], **query: Any) -> Operation[T]:
        """GET one thing."""
        answer = yield from asked(Call("GET", path, query), self.retries)
        return self.read(answer, kind)

    def many(self, path: str, kind: type[T], query: Query, limit: int | None = None) -> Operation[Listed[T]]:
        """GET a list, page by page if there is a limit."""
        found: Listed[T] = Listed()
        page: dict[str, Any] = {}
        while True:
            wanted = {} if limit is None else {"limit": min(limit - len(found), LARGEST_PAGE)}
            answer = yield from asked(Call("GET", path, {**query, **wanted, **page}), self.retries)
            got: Page[Any] = self.read(answer, Page[kind])  # type: ignore[valid-type]
            found += got.items
            found.stopped = got.stopped
            if got.next is None or (limit is not None and len(found) >= limit):
                return found
            page = {"continue": got.next}

    def jobs(self, limit: int | None, **filters: Any) -> Operation[Listed[Job]]:
        """Jobs that pass all filters."""
        return self.many(WORKLOADS, Job, {key: _plain(value) for key, value in filters.items()}, limit)

    def queues(self, managed: bool, **query: Any) -> Operation[Listed[Queue]]:
        """Queues that the caller may use, or manages."""
        return self.many("/apis/v1/admin/queues" if managed else "/apis/v1/queues", Queue, query)

    def nodes(self, **query: Any) -> Operation[Listed[Node]]:
        """The nodes."""
        return self.many("/apis/v1/nodes", Node, query)

    def node(self, name: str) -> Operation[Node]:
        """One node."""
        return self.one(f"/apis/v1/nodes/{name}", Node)

    def job(self, job: Any, namespace: str | None) -> Operation[Job]:
        """One job as it is now."""
        return self.one(target_of(job, namespace).path, Job)

    def explain(self, job: Any, namespace: str | None) -> Operation[Explanation]:
        """Why it is where it is."""
        return self.one(f"{target_of(job, namespace).path}/explanation", Explanation)

    def whoami(self) -> Operation[WhoAmI]:
        """Whose token it is."""
        return self.one("/apis/v1/whoami", WhoAmI)

    def version(self) -> Operation[str]:
        """Which release answers."""
        found: dict[str, str] = yield from self.one("/version", dict[str, str])
        return found.get("version", "")

    def cancel(self, job: Any, namespace: str | None) -> Operation[Job]:
        """Delete a job."""
        answer = yield from asked(Call("DELETE", target_of(job, namespace).path), self.retries)
        return self.read(answer, Job)

    def submit(self, objects: Objects, key: str | None, dry_run: bool, **wish: Any) -> Operation[Submitted]:
        """Submit objects: all are created, or none."""
        body, content_type = _body(objects)
        query = {name: _plain(value) for name, value in wish.items()} | {"dryRun": True if dry_run else None}
        headers = {KEY: key or uuid4().hex}
        answer = yield from asked(Call("POST", WORKLOADS, query, body, content_type, headers), self.retries)
        return self.read(answer, Submitted)

    def simulate(
        self, objects: Objects | None, change: Mapping[str, Any] | None, horizon: str | None, **wish: Any
    ) -> Operation[Simulation]:
        """What would happen."""
        asking = {"submit": objects_in(objects) if objects is not None else None, "change": change, "horizon": horizon}
        body = json.dumps({key: value for key, value in asking.items() if value is not None}).encode()
        query = {name: _plain(value) for name, value in wish.items()}
        call = replace(Call("POST", "/apis/v1/simulate", query, body), harmless=True)
        answer = yield from asked(call, self.retries)
        return self.read(answer, Simulation)

    def read(self, answer: Answer, kind: type[T]) -> T:
        """The value that an answer has.

        Raises:
            Misunderstood: it has none of that kind.
        """
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.DecodeError as error:
            raise Misunderstood(
                f"{self.server} answered with something that this client cannot read: {error}"
            ) from None


def objects_in(objects: Objects) -> list[Any]:
    """The single objects; those of lists one by one.

    Raises:
        YamlFault: a text or file is no YAML.
        OSError: a file cannot be read.
    """
    if isinstance(objects, Mapping):
        found: list[Any] = [objects]
    elif isinstance(objects, str | bytes | Path):
        from t9ksched.model.text import read_all

        content = objects.read_bytes() if isinstance(objects, Path) else objects
        found = list(read_all(content.encode() if isinstance(content, str) else content))
    else:
        found = list(objects)
    single: list[Any] = []
    for one in found:
        listed = isinstance(one, Mapping) and one.get("kind") == "List"
        single += (one.get("items") or []) if listed else [one] if one is not None else []
    return single


def _body(objects: Objects) -> tuple[bytes, str]:
    """What is sent, and its media type. Texts and files are sent as they are: the service says where they are wrong."""
    match objects:
        case Path():
            return objects.read_bytes(), _YAML
        case str():
            return objects.encode(), _YAML
        case bytes():
            return objects, _YAML
        case Mapping():
            return json.dumps(objects).encode(), JSON
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}).encode(), JSON


def _plain(value: Any) -> Any:
    """A value of a query as the service takes it; jobs by their names."""
    if isinstance(value, Job):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value
