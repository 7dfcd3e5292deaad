"""The reflector where events come in another order than they happened: what was deleted stays deleted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.kube.watch.reflector import Reflector
from tests.unit.kube.mirrored import (
    OPS,
    Change,
    FakeServer,
    Mirror,
    following,
    until_quiet,
)


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
