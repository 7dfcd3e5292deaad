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

from t9ksched.kube.errors import (
    ApiError,
    Expired,
    NotFound,
    ServerError,
    TooManyRequests,
    Unprocessable,
    Unreachable,
)
from t9ksched.kube.identity import Identity
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
    reflector, _ = following(server, mirror, label_selector="a=b")
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
    server.faults = [Fault(error=Unreachable("no route")) for _ in range(12)] + [
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


async def test_a_server_that_cannot_resume_a_watch_is_asked_for_everything() -> None:
    server, mirror = FakeServer(), Mirror()
    server.apply("put", "a")
    reflector, _ = following(server, mirror)
    for _ in range(3):
        await reflector.step()
    server.apply("put", "b")
    server.faults = [Fault(after=0, error=ServerError(504, "Timeout", "Too large resource version")) for _ in range(3)]
    await until_quiet(reflector, server)
    assert server.lists == 2
    assert mirror.objects == server.objects


class Pieces(Mirror):
    """A handler that takes the first list in pieces, and hears who is gone."""

    def on_piece(self, items: list[Any]) -> None:
        self.calls.append(f"piece of {len(items)}")
        self.objects |= {item["metadata"]["name"]: item for item in items}

    def on_gone(self, identity: Identity) -> None:
        self.calls.append(f"gone {identity.name} {identity.uid}")
        assert self.objects.pop(identity.name)["metadata"]["uid"] == identity.uid


async def test_a_first_list_may_come_in_pieces_and_others_work_between_them() -> None:
    server, mirror = FakeServer(), Pieces()
    for number in range(250):
        server.apply("put", f"p{number}")
    reflector, _ = following(server, mirror, page_size=120)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while not reflector.synced.is_set():
            turns += 1
            await asyncio.sleep(0)

    async def read() -> None:
        for _ in range(3):
            await reflector.step()

    await asyncio.gather(read(), other())
    assert mirror.calls == [f"piece of {size}" for size in (100, 20, 100, 20, 10, 0)]
    assert mirror.replaced == 0
    assert turns >= 5
    assert mirror.objects == server.objects


async def test_a_first_list_that_breaks_off_begins_anew_and_what_went_meanwhile_is_told() -> None:
    server, mirror = FakeServer(), Pieces()
    for name in ("a", "b", "c"):
        server.apply("put", name)
    server.faults = [Fault(after=1, error=Unreachable("cut", sent=True))]
    reflector, _ = following(server, mirror, page_size=2)
    for _ in range(2):
        await reflector.step()
    server.apply("delete", "a")
    server.apply("put", "b")
    await until_quiet(reflector, server)
    assert mirror.calls == ["piece of 2", "piece of 2", "gone a uid-1", "piece of 0"]
    assert mirror.objects == server.objects


async def test_who_hears_identities_only_has_no_objects_kept_for_it() -> None:
    server, mirror = FakeServer(), Pieces()
    server.apply("put", "a")
    reflector, _ = following(server, mirror)
    await until_quiet(reflector, server)
    server.apply("delete", "a")
    await until_quiet(reflector, server)
    assert mirror.calls[-1] == "gone a uid-1"
    assert reflector._objects is None
    assert len(reflector) == 0


class TestDisorder:
    """Streams whose events come in another order than they happened."""

    @staticmethod
    async def listed(server: FakeServer, **options: Any) -> tuple[Reflector[Any], Mirror]:
        mirror = Mirror()
        reflector, _ = following(server, mirror, **options)
        for _ in range(3):
            await reflector.step()
        return reflector, mirror

    async def test_what_was_deleted_stays_deleted(self) -> None:
        server = FakeServer()
        server.apply("put", "a")
        reflector, mirror = await self.listed(server)
        server.apply("put", "a")
        server.apply("delete", "a")
        server.history[-2:] = reversed(server.history[-2:])
        await reflector.step()
        assert mirror.calls == ["delete a uid-1"]
        assert mirror.objects == {}

    async def test_a_deletion_before_the_creation_is_remembered(self) -> None:
        server = FakeServer()
        reflector, mirror = await self.listed(server)
        server.apply("put", "a")
        server.apply("delete", "a")
        server.history[-2:] = reversed(server.history[-2:])
        await reflector.step()
        assert mirror.calls == []

    async def test_a_late_word_of_a_predecessor_does_not_replace_its_successor(self) -> None:
        server = FakeServer()
        server.apply("put", "a")
        reflector, mirror = await self.listed(server)
        server.apply("put", "a")
        server.apply("delete", "a")
        server.apply("put", "a")
        late, deletion, successor = server.history[-3:]
        server.history[-3:] = [successor, late, deletion]
        await until_quiet(reflector, server)
        assert mirror.calls == ["delete a uid-1", "upsert a uid-2 1"]
        assert mirror.objects == server.objects

    async def test_a_predecessor_that_was_never_seen_does_not_replace_its_successor(self) -> None:
        server = FakeServer()
        reflector, mirror = await self.listed(server)
        server.apply("put", "a")
        server.apply("delete", "a")
        server.apply("put", "a")
        early, deletion, successor = server.history
        server.history = [successor, early, deletion]
        await until_quiet(reflector, server)
        assert mirror.objects == server.objects
        assert server.lists == 2, "which of two came first only the list can tell"

    async def test_an_older_number_after_a_newer_one_reads_everything_again(self) -> None:
        server = CountingServer()
        server.apply("put", "a")
        reflector, mirror = await self.listed(server)
        for _ in range(3):
            server.apply("put", "a")
        server.history[-2:] = reversed(server.history[-2:])
        await until_quiet(reflector, server)
        assert server.lists == 2
        assert mirror.objects == server.objects

    async def test_a_selection_that_was_left_and_entered_again_in_disorder(self) -> None:
        server = CountingServer()
        server.apply("put", "a")
        reflector, mirror = await self.listed(server, label_selector="a=b")
        server.apply("put", "a")
        entered = server.history.pop()
        left = Change("DELETED", {**entered.obj, "metadata": {**entered.obj["metadata"], "resourceVersion": "2"}})
        again = Change("ADDED", {**entered.obj, "metadata": {**entered.obj["metadata"], "resourceVersion": "3"}})
        server.objects["a"] = again.obj
        server.history += [again, left]
        server.versions |= {"2": 2, "3": 3}
        await until_quiet(reflector, server)
        assert mirror.objects == server.objects

    @settings(max_examples=300, deadline=None)
    @given(before=OPS, during=OPS, seed=st.integers(0, 2**20), reach=st.integers(1, 6), numbers=st.booleans())
    def test_no_order_brings_back_what_was_deleted(
        self, before: list[tuple[str, str]], during: list[tuple[str, str]], seed: int, reach: int, numbers: bool
    ) -> None:
        server = CountingServer() if numbers else FakeServer()
        for op in before:
            server.apply(*op)

        async def scenario() -> Living:
            mirror = Living()
            reflector, _ = following(server, mirror)
            for _ in range(3):
                await reflector.step()
            first = len(server.history)
            for op in during:
                server.apply(*op)
            mix = Random(seed)
            tail = server.history[first:]
            server.history[first:] = [
                change for _, change in sorted(enumerate(tail), key=lambda item: item[0] + mix.random() * reach)
            ]
            await until_quiet(reflector, server)
            return mirror

        mirror = asyncio.run(scenario())
        assert {name: item["metadata"]["uid"] for name, item in mirror.objects.items()} == {
            name: item["metadata"]["uid"] for name, item in server.objects.items()
        }
        if numbers:
            assert mirror.objects == server.objects


class CountingServer(FakeServer):
    """Versions are numbers, as those of every Kubernetes API server in use."""

    @staticmethod
    def version(at: int) -> str:
        return str(at)


@dataclass
class Living(Mirror):
    """Versions may go back where nothing can tell; what is gone never returns."""

    gone: set[str] = field(default_factory=set)

    def on_upsert(self, obj: dict[str, Any]) -> None:
        assert obj["metadata"]["uid"] not in self.gone, "a deleted object came back"
        known = self.objects.get(obj["metadata"]["name"])
        assert known is None or known["metadata"]["uid"] == obj["metadata"]["uid"]
        self.objects[obj["metadata"]["name"]] = obj

    def on_delete(self, obj: dict[str, Any]) -> None:
        self.gone.add(obj["metadata"]["uid"])
        super().on_delete(obj)


class StreamingServer(FakeServer):
    """Offers initial events, as `manner` says: `well`, `refused`, `ignored` (their end never comes) or `ended`."""

    def __init__(self, manner: str = "well") -> None:
        super().__init__()
        self.manner = manner
        self.streams = 0

    async def watch_list(self, res: Any, namespace: Any, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        self.streams += 1
        fault = self._fault()
        if self.manner == "refused":
            raise Unprocessable(422, "Invalid", "sendInitialEvents is forbidden for watch")
        at = self.listed_at = len(self.history)
        for number, obj in enumerate(list(self.objects.values())):
            if fault.after is not None and number >= fault.after and fault.error is not None:
                raise fault.error
            self._meanwhile()
            yield WatchEvent("ADDED", obj)
        if self.manner == "ignored":
            await asyncio.Event().wait()
        if self.manner == "ended":
            return
        end = {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": self.version(at)}
        yield WatchEvent("BOOKMARK", {"metadata": end})
        async for event in self.watch(res, namespace, resource_version=self.version(at)):
            yield event


class TestInitialEvents:
    async def test_one_stream_gives_what_is_there_and_goes_on(self) -> None:
        server, mirror = StreamingServer(), Pieces()
        for number in range(150):
            server.apply("put", f"p{number}")
        server.later = [("delete", "p0"), ("put", "p1"), ("put", "q")]
        reflector, _ = following(server, mirror, initial_events=True)
        states = [reflector.state]
        for _ in range(2):
            await reflector.step()
            states.append(reflector.state)
        assert states == [State.EMPTY, State.STREAMING, State.WATCHING]
        assert mirror.calls == ["piece of 100", "piece of 50", "piece of 0", "gone p0 uid-1", *mirror.calls[4:]]
        assert mirror.objects == server.objects
        assert (server.lists, server.streams) == (0, 1)

    async def test_a_handler_of_whole_lists_gets_one(self) -> None:
        server, mirror = StreamingServer(), Mirror()
        server.apply("put", "a")
        reflector, _ = following(server, mirror, initial_events=True)
        await until_quiet(reflector, server)
        assert mirror.replaced == 1
        assert mirror.objects == server.objects

    async def test_nobody_is_asked_who_was_not_to_be(self) -> None:
        server, mirror = StreamingServer(), Mirror()
        reflector, _ = following(server, mirror)
        await until_quiet(reflector, server)
        assert server.streams == 0

    async def test_a_refusal_is_remembered(self) -> None:
        server, mirror = StreamingServer("refused"), Mirror()
        server.apply("put", "a")
        reflector, pauses = following(server, mirror, initial_events=True)
        for _ in range(5):
            await reflector.step()
        assert mirror.objects == server.objects
        assert pauses == [], "going without costs no pause"
        server.apply("put", "b")
        server.forget()
        await until_quiet(reflector, server)
        assert (server.streams, server.lists) == (1, 2)

    async def test_a_server_that_ignores_the_question_is_found_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("t9ksched.kube.reflector._SILENCE", 0.01)
        server, mirror = StreamingServer("ignored"), Mirror()
        server.apply("put", "a")
        reflector, _ = following(server, mirror, initial_events=True)
        await until_quiet(reflector, server)
        assert (server.streams, server.lists) == (1, 1)
        assert mirror.objects == server.objects

    async def test_streams_that_end_or_break_too_early_give_way_to_pages(self) -> None:
        server, mirror = StreamingServer("ended"), Mirror()
        server.apply("put", "a")
        reflector, pauses = following(server, mirror, initial_events=True)
        await until_quiet(reflector, server)
        assert (server.streams, server.lists) == (2, 1)
        assert len([pause for pause in pauses if pause]) >= 2
        server.manner = "well"
        server.apply("put", "b")
        server.forget()
        await until_quiet(reflector, server)
        assert (server.streams, server.lists) == (3, 1), "the next time it may go well"
        assert mirror.objects == server.objects

    @settings(max_examples=200, deadline=None)
    @given(before=OPS, later=OPS, faults=FAULTS)
    def test_after_any_history_the_mirror_equals_the_server(
        self, before: list[tuple[str, str]], later: list[tuple[str, str]], faults: list[Fault]
    ) -> None:
        server, mirror = StreamingServer(), Mirror()
        for op in before:
            server.apply(*op)
        server.later, server.faults = list(later), list(faults)
        reflector, _ = following(server, mirror, initial_events=True)
        asyncio.run(until_quiet(reflector, server))
        assert mirror.objects == server.objects
        assert mirror.replaced == 1
