"""The reflector where the server begins a watch with everything there is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given, settings

from t9ksched.kube.errors import TimedOut, Unprocessable
from t9ksched.kube.port import WatchEvent
from t9ksched.kube.watch.reflector import State
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


class StreamingServer(FakeServer):
    """Offers initial events, as `manner` says: `well`, `refused`, `ignored` (their end never comes), `ended`;
    `silent` is it once they came.
    """

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
        if self.manner == "silent":
            raise TimedOut("no answer in time")
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

    async def test_a_server_is_not_asked_for_initial_events_unless_told(self) -> None:
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

    async def test_a_kind_of_which_nothing_is_heard_is_no_trouble(self) -> None:
        server, mirror = StreamingServer("silent"), Mirror()
        server.apply("put", "a")
        reflector, pauses = following(server, mirror, initial_events=True)
        for _ in range(2):
            await reflector.step()
        assert (reflector.state, reflector.error, pauses) == (State.WATCHING, None, [])
        server.apply("put", "b")
        await until_quiet(reflector, server)
        assert mirror.objects == server.objects
        assert (server.streams, server.lists) == (1, 0), "it is resumed, not begun anew"

    async def test_a_server_that_ignores_the_question_is_found_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("t9ksched.kube.watch.reflector._SILENCE", 0.01)
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
