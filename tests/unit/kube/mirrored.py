"""What tests of the reflector share: a server in memory whose streams misbehave as told, and handlers that check."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

from t9ksched.kube.errors import (
    ApiError,
    Expired,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from t9ksched.kube.port import Page, WatchEvent
from t9ksched.kube.resources import PODS
from t9ksched.kube.watch.identity import Identity
from t9ksched.kube.watch.reflector import Reflector, State, WatchOptions


@dataclass
class Change:
    type: str
    obj: dict[str, Any]


class FakeServer:
    """Objects, the history of their changes, and a list of faults to commit, one an attempt.

    A version is a scrambled word: code that compares two of them by anything but equality fails.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[Change] = []
        self.versions: dict[str, int] = {self.version(0): 0}
        self.forgotten = 0
        self.uids = 0
        self.faults: list[Fault] = []
        self.later: list[tuple[str, str]] = []
        self.lists = 0
        self.listed_at = 0
        self.watched_from: list[str] = []

    @staticmethod
    def version(at: int) -> str:
        return f"{(at * 2654435761) % 2**32:08x}"

    def apply(self, verb: str, name: str) -> None:
        known = self.objects.get(name)
        if verb == "put":
            if known is None:
                self.uids += 1
                self._record("ADDED", name, f"uid-{self.uids}", 1)
            else:
                self._record("MODIFIED", name, known["metadata"]["uid"], known["count"] + 1)
        elif known is not None:
            self._record("DELETED", name, known["metadata"]["uid"], known["count"])

    def _record(self, type: str, name: str, uid: str, count: int) -> None:
        version = self.version(len(self.history) + 1)
        self.versions[version] = len(self.history) + 1
        obj = {"metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": version}, "count": count}
        self.history.append(Change(type, obj))
        if type == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = obj

    def forget(self) -> None:
        self.forgotten = len(self.history)

    def _fault(self) -> Fault:
        return self.faults.pop(0) if self.faults else Fault()

    def _meanwhile(self) -> None:
        if self.later:
            self.apply(*self.later.pop(0))

    async def pages(self, res: Any, namespace: Any, *, limit: int, **_: Any) -> AsyncGenerator[Page, None]:
        self.lists += 1
        fault = self._fault()
        snapshot, version = list(self.objects.values()), self.version(len(self.history))
        self.listed_at = len(self.history)
        for at in range(0, max(len(snapshot), 1), limit):
            if fault.after is not None and at // limit >= fault.after and fault.error is not None:
                raise fault.error
            self._meanwhile()
            yield Page(list(snapshot[at : at + limit]), version, at + limit >= len(snapshot))

    async def watch(
        self, res: Any, namespace: Any, *, resource_version: str, **_: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        self.watched_from.append(resource_version)
        fault = self._fault()
        if fault.compact:
            self.forget()
        at = self.versions[resource_version]
        if at < self.forgotten:
            raise Expired(410, "Expired")
        at = max(at - fault.repeat, min(self.listed_at, at))  # a server that says again what it said before
        self._meanwhile()
        sent = 0
        while at < len(self.history):
            if fault.after is not None and sent >= fault.after:
                break
            change = self.history[at]
            yield WatchEvent(change.type, change.obj)
            at, sent = at + 1, sent + 1
            self._meanwhile()
        if fault.bookmark and fault.after is None:
            yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": self.version(at)}})
        if fault.error is not None:
            raise fault.error


@dataclass
class Fault:
    """What goes wrong in one list or watch: an error after some pages or events, a repetition, a short memory."""

    after: int | None = None
    error: ApiError | None = None
    repeat: int = 0
    compact: bool = False
    bookmark: bool = False


@dataclass
class Mirror:
    """A handler that keeps what it hears and checks that it makes sense."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    replaced: int = 0
    calls: list[str] = field(default_factory=list)

    def on_replace(self, items: list[Any]) -> None:
        assert not self.calls, "the first list comes before all else"
        self.replaced += 1
        self.objects = {item["metadata"]["name"]: item for item in items}

    def on_upsert(self, obj: dict[str, Any]) -> None:
        name = obj["metadata"]["name"]
        known = self.objects.get(name)
        self.calls.append(f"upsert {name} {obj['metadata']['uid']} {obj['count']}")
        if known is not None:
            assert known["metadata"]["uid"] == obj["metadata"]["uid"], "a successor came before the deletion"
            assert known["count"] < obj["count"], "went back to an older version"
        self.objects[name] = obj

    def on_delete(self, obj: dict[str, Any]) -> None:
        name = obj["metadata"]["name"]
        self.calls.append(f"delete {name} {obj['metadata']['uid']}")
        assert self.objects.pop(name)["metadata"]["uid"] == obj["metadata"]["uid"]


def following(server: FakeServer, mirror: Mirror, **options: Any) -> tuple[Reflector[Any], list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    how = {name: options.pop(name) for name in WatchOptions.__dataclass_fields__ if name in options}
    options["options"] = WatchOptions(**how)
    return Reflector(server, PODS, mirror, random=Random(1), sleep=sleep, **options), pauses  # type: ignore[arg-type]


async def until_quiet(reflector: Reflector[Any], server: FakeServer) -> None:
    """Step until the server has nothing left to do and a whole watch brought nothing new."""
    for _ in range(500):
        busy = bool(server.faults or server.later or reflector.state is not State.WATCHING)
        before = (len(server.history), server.lists)
        await reflector.step()
        if not busy and (len(server.history), server.lists) == before and reflector.state is State.WATCHING:
            return
    raise AssertionError("the reflector does not come to rest")


NAMES = st.sampled_from(["a", "b", "c", "d"])
OPS = st.lists(st.tuples(st.sampled_from(["put", "put", "delete"]), NAMES), max_size=25)
ERRORS = st.sampled_from(
    [
        None,
        Unreachable("cut", sent=True),
        ServerError(503, "ServiceUnavailable"),
        TooManyRequests(429, retry_after=9.0),
        Expired(410, "Expired"),
    ]
)
FAULTS = st.lists(
    st.builds(
        Fault,
        after=st.none() | st.integers(0, 4),
        error=ERRORS,
        repeat=st.integers(0, 6),
        compact=st.booleans(),
        bookmark=st.booleans(),
    ),
    max_size=12,
)


class Pieces(Mirror):
    """A handler that takes the first list in pieces, and hears who is gone."""

    def on_piece(self, items: list[Any]) -> None:
        self.calls.append(f"piece of {len(items)}")
        self.objects |= {item["metadata"]["name"]: item for item in items}

    def on_gone(self, identity: Identity) -> None:
        self.calls.append(f"gone {identity.name} {identity.uid}")
        assert self.objects.pop(identity.name)["metadata"]["uid"] == identity.uid
