"""The reflector against a server in memory whose versions are opaque and whose streams misbehave as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.kube.errors import ApiError, Expired, NotFound, ServerError, TooManyRequests, Unreachable
from t9ksched.kube.port import Page, WatchEvent
from t9ksched.kube.reflector import Reflector, State
from t9ksched.kube.resources import PODS


@dataclass
class Change:
    type: str
    obj: dict[str, Any]


class FakeServer:
    """Objects, the history of their changes, and a list of faults to commit, one an attempt.

    A version is a scrambled word: whoever compares two of them by anything but equality goes wrong.
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


@settings(max_examples=300, deadline=None)
@given(before=OPS, later=OPS, faults=FAULTS, page_size=st.integers(1, 3))
def test_after_any_history_the_mirror_equals_the_server(
    before: list[tuple[str, str]], later: list[tuple[str, str]], faults: list[Fault], page_size: int
) -> None:
    server, mirror = FakeServer(), Mirror()
    for op in before:
        server.apply(*op)
    server.later, server.faults = list(later), list(faults)
    reflector, _ = following(server, mirror, page_size=page_size)

    async def scenario() -> None:
        await until_quiet(reflector, server)

    asyncio.run(scenario())
    assert mirror.objects == server.objects
    assert mirror.replaced == 1
    assert len(reflector) == len(server.objects)


async def test_states_follow_one_another() -> None:
    server, mirror = FakeServer(), Mirror()
    server.apply("put", "a")
    reflector, _ = following(server, mirror)
    states = [reflector.state]
    for _ in range(4):
        await reflector.step()
        states.append(reflector.state)
    assert states == [State.EMPTY, State.PAGING, State.LISTED, State.WATCHING, State.WATCHING]
    assert reflector.synced.is_set()


async def test_a_cut_stream_resumes_after_the_last_event_without_a_list() -> None:
    server, mirror = FakeServer(), Mirror()
    reflector, _ = following(server, mirror)
    for _ in range(3):
        await reflector.step()
    for name in "abc":
        server.apply("put", name)
    server.faults = [Fault(after=2, error=Unreachable("cut", sent=True))]
    await reflector.step()
    assert isinstance(reflector.error, Unreachable)
    await reflector.step()
    assert reflector.error is None
    assert server.lists == 1
    assert server.watched_from == [server.version(0), server.version(2)]
    assert mirror.calls == ["upsert a uid-1 1", "upsert b uid-2 1", "upsert c uid-3 1"]


async def test_a_forgotten_version_lists_again_and_tells_the_differences_only() -> None:
    server, mirror = FakeServer(), Mirror()
    for name in ("same", "changed", "gone", "replaced"):
        server.apply("put", name)
    reflector, _ = following(server, mirror)
    for _ in range(3):
        await reflector.step()
    for op in [("put", "changed"), ("delete", "gone"), ("delete", "replaced"), ("put", "replaced"), ("put", "new")]:
        server.apply(*op)
    server.forget()
    await until_quiet(reflector, server)
    assert server.lists == 2
    assert sorted(mirror.calls) == [
        "delete gone uid-3",
        "delete replaced uid-4",
        "upsert changed uid-2 2",
        "upsert new uid-6 1",
        "upsert replaced uid-5 1",
    ]


async def test_a_bookmark_moves_the_version_on() -> None:
    server, mirror = FakeServer(), Mirror()
    reflector, _ = following(server, mirror)
    for _ in range(3):
        await reflector.step()
    server.apply("put", "a")
    server.faults = [Fault(bookmark=True)]
    await reflector.step()
    server.forget()
    await reflector.step()
    assert server.lists == 1


async def test_an_object_that_leaves_and_enters_a_selection_keeps_its_uid() -> None:
    server, mirror = FakeServer(), Mirror()
    reflector, _ = following(server, mirror)
    for _ in range(3):
        await reflector.step()
    server._record("ADDED", "a", "uid-1", 1)
    server._record("DELETED", "a", "uid-1", 1)
    server._record("ADDED", "a", "uid-1", 2)
    await reflector.step()
    assert mirror.calls == ["upsert a uid-1 1", "delete a uid-1", "upsert a uid-1 2"]


async def test_pauses_grow_respect_the_server_and_end_with_success() -> None:
    server, mirror = FakeServer(), Mirror()
    reflector, pauses = following(server, mirror)
    for _ in range(3):
        await reflector.step()
    server.faults = [Fault(error=ServerError(500)) for _ in range(12)] + [
        Fault(error=TooManyRequests(429, retry_after=99.0))
    ]
    for _ in range(13):
        await reflector.step()
    ceilings = [min(0.2 * 2**n, 30.0) for n in range(12)]
    assert all(top / 2 <= pause <= top for pause, top in zip(pauses, ceilings, strict=False))
    assert pauses[12] == 99.0
    server.apply("put", "a")
    server.faults = [Fault(), Fault(error=ServerError(500))]
    del pauses[:]
    await reflector.step()
    await reflector.step()
    assert pauses[0] <= 0.2


async def test_a_server_that_closes_at_once_is_not_asked_in_a_hot_loop() -> None:
    reflector, pauses = following(FakeServer(), Mirror())
    for _ in range(3 + 5):
        await reflector.step()
    assert len(pauses) == 5
    assert min(pauses) >= 0.1


async def test_lists_that_take_too_long_are_read_in_larger_pages() -> None:
    server, mirror = FakeServer(), Mirror()
    for name in "abcdefgh":
        server.apply("put", name)
    server.faults = [Fault(after=1, error=Expired(410))]
    reflector, _ = following(server, mirror, page_size=2)
    await until_quiet(reflector, server)
    assert mirror.objects == server.objects
    assert reflector._limit == 2


async def test_an_object_that_cannot_be_decoded_is_left_out_and_the_rest_goes_on() -> None:
    server, mirror = FakeServer(), Mirror()
    for name in ("good", "bad"):
        server.apply("put", name)

    def decode(payload: Any) -> Any:
        if payload["metadata"]["name"] == "bad" and payload["count"] != 2:
            raise ValueError("no such field")
        return payload

    reflector, _ = following(server, mirror, decode=decode)
    for _ in range(3):
        await reflector.step()
    assert set(mirror.objects) == {"good"}
    for op in [("put", "bad"), ("put", "bad"), ("put", "good")]:
        server.apply(*op)
    await reflector.step()
    assert (mirror.objects["bad"]["count"], mirror.objects["good"]["count"]) == (2, 2), "the last readable state stays"
    server.apply("delete", "bad")
    await reflector.step()
    assert set(mirror.objects) == {"good"}


async def test_a_kind_that_is_not_there_yet_is_waited_for() -> None:
    server, mirror = FakeServer(), Mirror()
    server.faults = [Fault(after=0, error=NotFound(404)), Fault(after=0, error=NotFound(404))]
    reflector, _ = following(server, mirror)
    await until_quiet(reflector, server)
    assert mirror.replaced == 1


@pytest.mark.parametrize("raw", [b'{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}'])
async def test_raw_json_becomes_a_dict_that_says_its_kind(raw: bytes) -> None:
    server, mirror = FakeServer(), Mirror()
    reflector, _ = following(server, mirror)
    for _ in range(3):
        await reflector.step()
    obj = reflector._decode(raw)
    assert (obj["apiVersion"], obj["kind"], obj["metadata"]["uid"]) == ("v1", "Pod", "u")


class Pieces(Mirror):
    """A handler that takes the first list in pieces."""

    def on_piece(self, items: list[Any]) -> None:
        self.calls.append(f"piece of {len(items)}")
        self.objects |= {item["metadata"]["name"]: item for item in items}


async def test_a_first_list_may_come_in_pieces_and_others_work_between_them() -> None:
    server, mirror = FakeServer(), Pieces()
    for number in range(450):
        server.apply("put", f"p{number}")
    reflector, _ = following(server, mirror)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while not reflector.synced.is_set():
            turns += 1
            await asyncio.sleep(0)

    await reflector.step()
    await reflector.step()
    await asyncio.gather(reflector.step(), other())
    assert mirror.calls == ["piece of 200", "piece of 200", "piece of 50", "piece of 0"]
    assert mirror.replaced == 0
    assert turns >= 3
    assert mirror.objects == server.objects
