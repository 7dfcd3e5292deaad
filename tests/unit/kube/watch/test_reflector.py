"""The reflector against a server in memory whose versions are opaque and whose streams misbehave as a test says."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from t9ksched.kube.errors import (
    Expired,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from t9ksched.kube.watch.reflector import State
from t9ksched.model.api_resource import Resource
from tests.unit.kube.mirrored import (
    FAULTS,
    OPS,
    FakeServer,
    Fault,
    Mirror,
    Pieces,
    following,
    until_quiet,
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


async def test_others_work_between_events_of_which_thousands_are_there_to_read() -> None:
    server, mirror = FakeServer(), Mirror()
    reflector, _ = following(server, mirror)
    for _ in range(3):
        await reflector.step()
    for number in range(260):
        server.apply("put", f"p{number}")
    seen = [0]

    async def other() -> None:
        while seen[-1] < 260:
            seen.append(len(mirror.calls))
            await asyncio.sleep(0)

    await asyncio.gather(reflector.step(), other())
    assert max(later - before for before, later in itertools.pairwise(seen)) <= 50
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
    assert reflector._known.objects is None
    assert len(reflector) == 0


async def test_a_missing_right_is_told_once_and_taken_up_when_it_is_there() -> None:
    server, mirror = FakeServer(), Mirror()
    server.apply("put", "a")
    refusal = Forbidden(403, "Forbidden", "things is forbidden: cannot list")
    server.faults = [Fault(after=0, error=refusal) for _ in range(5)]
    reflector, pauses = following(server, mirror)
    with capture_logs() as logs:
        while not reflector.denied.is_set():
            await reflector.step()
        await until_quiet(reflector, server)
    assert mirror.objects == server.objects
    assert not reflector.denied.is_set()
    assert len(pauses) >= 5
    (told,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert told["error"] == refusal.message
    assert [entry["event"] for entry in logs].count("the missing right is there, this kind is followed") == 1


@pytest.mark.parametrize("served", [True, False])
async def test_a_right_to_what_the_server_does_not_serve_is_not_missing(served: bool) -> None:
    class Telling(FakeServer):
        async def serves(self, res: Resource) -> bool:
            return served

    server = Telling()
    server.faults = [Fault(after=0, error=Forbidden(403, "Forbidden", "cannot list")) for _ in range(9)]
    reflector, _ = following(server, Mirror(), optional=True)
    while not (reflector.absent.is_set() or reflector.denied.is_set()):
        await reflector.step()
    assert (reflector.denied.is_set(), reflector.absent.is_set()) == (served, not served)


@pytest.mark.parametrize(("times", "left"), [(1, 1), (2, 0)])
async def test_objects_of_a_kind_that_is_no_longer_served_are_gone_once_that_lasts(times: int, left: int) -> None:
    server, mirror = FakeServer(), Mirror()
    server.apply("put", "a")
    reflector, pauses = following(server, mirror, optional=True)
    await until_quiet(reflector, server)
    server.faults = [Fault(after=0, error=NotFound(404, "NotFound", "404 page not found")) for _ in range(times)]
    seen = len(pauses)
    while len(pauses) < seen + times:
        await reflector.step()
    assert len(mirror.objects) == len(reflector) == left
    await until_quiet(reflector, server)
    assert mirror.objects == server.objects


@pytest.mark.parametrize("optional", [True, False])
async def test_a_kind_that_the_server_does_not_serve_is_asked_for_now_and_then_if_it_is_optional(
    optional: bool,
) -> None:
    server, mirror = FakeServer(), Mirror()
    server.apply("put", "a")
    server.faults = [Fault(after=0, error=NotFound(404, "NotFound", "404 page not found")) for _ in range(3)]
    reflector, pauses = following(server, mirror, optional=optional)
    with capture_logs() as logs:
        while len(pauses) < 3:
            await reflector.step()
            assert reflector.absent.is_set() is (optional and bool(pauses))
            assert not reflector.denied.is_set()
        await until_quiet(reflector, server)
    assert mirror.objects == server.objects
    assert not reflector.absent.is_set()
    assert all((pause >= 30) is optional for pause in pauses[:3])
    said = [entry["event"] for entry in logs]
    assert said.count("the server does not serve this kind, it is left out") == optional
    assert said.count("the server serves this kind now, it is followed") == optional
