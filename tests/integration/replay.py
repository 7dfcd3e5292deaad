"""Plays a recorded scenario against a server and tells every difference.

A `Memory` holds what the placeholders of one scenario stand for; `compare` matches a recorded JSON value with a
received one under it. The player sends the requests, follows the watches, and collects the faults.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Set
from typing import Any

import aiohttp

Json = Any
UNCOMPARED = {"managedFields", "selfLink", "storageVersionHash"}
INITIAL_END = "k8s.io/initial-events-end"
PLACEHOLDER = re.compile(r"<(ns|time|age|n|any|uid|rv|suffix|continue|ip|port)(?::(\d+)(\+?))?>")
LOOKS_LIKE = {
    "ns": r"[a-z0-9-]+",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "age": r".+",
    "n": r"\d+",
    "any": r".*",
    "uid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "rv": r"[1-9]\d*",
    "suffix": r"[a-z0-9]{5}",
    "continue": r".+",
    "ip": r"\d+\.\d+\.\d+\.\d+",
    "port": r"\d+",
}


class Memory:
    """What the placeholders stand for so far; `uncompared` are the names of fields that may differ."""

    def __init__(self, namespace: str, uncompared: Set[str]) -> None:
        self.uncompared = uncompared
        self.values = {"<ns>": namespace}
        self.versions: list[tuple[int, bool, int]] = []
        self.times: dict[str, str] = {}

    def copy(self) -> "Memory":
        twin = Memory(self.values["<ns>"], self.uncompared)
        twin.values, twin.versions, twin.times = dict(self.values), list(self.versions), dict(self.times)
        return twin

    def put_in(self, value: Json, field: str = "") -> Json:
        """A recorded request with known values in the place of its placeholders."""
        if isinstance(value, dict):
            return {self.put_in(key): self.put_in(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.put_in(inner, field) for inner in value]
        if value == "<time>":
            return self.times.get(field, value)
        if isinstance(value, str):
            return PLACEHOLDER.sub(lambda found: self.values.get(found[0], found[0]), value)
        return value

    def accept(self, recorded: str, received: object) -> str:
        """Match a text; what is wrong, or an empty text. New placeholders are remembered."""
        places = list(PLACEHOLDER.finditer(recorded))
        pattern, at = "", 0
        for place in places:
            known = None if place[3] else self.values.get(place[0])
            pattern += re.escape(recorded[at : place.start()])
            pattern += f"({re.escape(known) if known is not None else LOOKS_LIKE[place[1]]})"
            at = place.end()
        found = re.fullmatch(pattern + re.escape(recorded[at:]), str(received), re.DOTALL)
        if found is None:
            return f"expected {self.put_in(recorded)!r}, received {received!r}"
        for place, text in zip(places, found.groups(), strict=True):
            if place[1] == "rv" and (fault := self._version(int(place[2]), bool(place[3]), int(text))):
                return f"{place[0]} is {text}: {fault}"
            if place[2]:
                self.values[place[0]] = text
        return ""

    def _version(self, number: int, at_least: bool, value: int) -> str:
        for other, other_at_least, known in self.versions:
            if (other, other_at_least) == (number, at_least):
                continue  # an exact version is compared by the pattern; two lists may show any two in their range
            low = (other, other_at_least) < (number, at_least)
            strict = not at_least if low else not other_at_least
            if (known > value if low else known < value) or (strict and known == value):
                return f"out of order with version {other}{'+' if other_at_least else ''}, which is {known}"
        self.versions.append((number, at_least, value))
        return ""


def compare(memory: Memory, want: Json, got: Json, at: str, *, partial: bool = False) -> Iterator[str]:
    """Every difference between a recorded and a received value; `partial`: more may have been received."""
    if isinstance(want, dict) and isinstance(got, dict):
        expected = {memory.put_in(key): value for key, value in want.items() if key not in memory.uncompared}
        for key, value in expected.items():
            if key not in got:
                yield f"{at}.{key} is missing"
                continue
            if value == "<time>":
                memory.times[key] = got[key]
            yield from compare(memory, value, got[key], f"{at}.{key}", partial=partial)
        if not partial:
            yield from (
                f"{at}.{key} is unexpected: {got[key]!r}"
                for key in got
                if key not in expected and key not in memory.uncompared
            )
    elif isinstance(want, list) and isinstance(got, list):
        if partial:
            for number, value in enumerate(want):
                if all(any(compare(memory.copy(), value, one, "", partial=True)) for one in got):
                    yield f"{at}[{number}]: nothing like {json.dumps(value)[:200]}"
            return
        if len(want) != len(got):
            yield f"{at}: expected {len(want)} elements, received {len(got)}"
        for number, (value, one) in enumerate(zip(want, got, strict=False)):
            yield from compare(memory, value, one, f"{at}[{number}]")
    elif isinstance(want, str) and isinstance(got, str | int) and not isinstance(got, bool):
        if fault := memory.accept(want, got):
            yield f"{at}: {fault}"
    elif type(want) is not type(got) or want != got:
        yield f"{at}: expected {json.dumps(want)[:200]}, received {json.dumps(got)[:200]}"


class Player:
    """Plays scenarios; `compact` cuts the server's history."""

    def __init__(
        self, http: aiohttp.ClientSession, server: str, tokens: dict[str, str], compact: Callable[[], Awaitable[None]]
    ) -> None:
        self._http = http
        self._server = server
        self._tokens = tokens
        self._compact = compact

    async def play(self, scenario: Json, namespace: str, *, messages: bool) -> list[str]:
        """The differences of one scenario, in a fresh namespace of that name, as far as the first step that differs.

        `messages` says whether the texts of refusals are compared too.
        """
        memory = Memory(namespace, UNCOMPARED if messages else UNCOMPARED | {"message"})
        await self._call({"method": "POST", "path": "/api/v1/namespaces", "body": {"metadata": {"name": namespace}}})
        for number, step in enumerate(scenario["steps"]):
            if faults := await self._step(memory, step):
                about = step.get("request") or step.get("watch") or step
                name = f"step {number}, {about.get('method', 'WATCH')} {about.get('path')} {about.get('query', '')}"
                return [f"{name}: {fault}" for fault in faults]
        return []

    def _open(self, request: Json, seconds: float = 30) -> Any:
        token = self._tokens.get(request.get("auth", "admin"))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if "accept" in request:
            headers["Accept"] = request["accept"]
        if "contentType" in request:
            headers["Content-Type"] = request["contentType"]
        return self._http.request(
            request.get("method", "GET"),
            self._server + request["path"],
            params=request.get("query"),
            data=json.dumps(request["body"]) if "body" in request else request.get("rawBody"),
            headers=headers,
            skip_auto_headers=["Content-Type"],
            timeout=aiohttp.ClientTimeout(total=seconds),
        )

    async def _call(self, request: Json) -> tuple[int, Json]:
        async with self._open(request) as response:
            raw = await response.read()
        try:
            return response.status, json.loads(raw)
        except ValueError:
            return response.status, raw.decode()

    async def _step(self, memory: Memory, step: Json) -> list[str]:
        if step.get("action") == "compact":
            await self._compact()
            return []
        if "watch" in step:
            return await self._watch(memory, step)
        deadline = asyncio.get_running_loop().time() + step.get("eventually", 0)
        while True:
            attempt = memory.copy()
            faults = self._judge(attempt, step["response"], *await self._call(attempt.put_in(step["request"])))
            if not faults or asyncio.get_running_loop().time() >= deadline:
                memory.__dict__.update(attempt.__dict__)
                return faults
            await asyncio.sleep(0)

    def _judge(self, memory: Memory, want: Json, status: int, body: Json) -> list[str]:
        if status != want["status"]:
            return [f"expected status {want['status']}, received {status} {json.dumps(body)[:300]}"]
        if "keys" in want:
            return [f"the answer has no {key!r}" for key in want["keys"] if key not in body]
        return list(compare(memory, want["body"], body, "body", partial=want.get("partial", False)))

    async def _watch(self, memory: Memory, step: Json) -> list[str]:
        watch = memory.put_in(step["watch"])
        async with self._open(watch, watch["seconds"] + 30) as response:
            if "response" in step or response.status != 200:
                want = step.get("response", {"status": 200, "body": {}})
                return self._judge(memory, want, response.status, json.loads(await response.read()))
            return await self._follow(memory, step, response)

    async def _follow(self, memory: Memory, step: Json, response: aiohttp.ClientResponse) -> list[str]:
        """Read a watch's events while its steps are made, and compare both."""
        want: list[Json] = step.get("events", [])
        got: list[Json] = []
        news = asyncio.Event()

        async def read() -> None:
            async for line in response.content:
                if line.strip():
                    got.append(json.loads(line))
                    news.set()

        reader = asyncio.create_task(read())
        reader.add_done_callback(lambda _: news.set())
        faults: list[str] = []
        try:
            async with asyncio.timeout(step["watch"]["seconds"] + 20):
                for inner in step.get("during", []):
                    faults += [f"meanwhile: {fault}" for fault in await self._step(memory, inner)]
                while not reader.done() and (step.get("closes") or _count(got) < _count(want)):
                    news.clear()
                    await news.wait()
                await self._call({"path": "/version"})  # a round trip: an event too many would have come by now
        except TimeoutError:
            faults.append("the watch did not end" if step.get("closes") else "an event did not come")
        if reader.done() and not step.get("closes"):
            faults.append("the server ended the watch")
        reader.cancel()
        got = _without_repeats(got, keep=any(map(_is_bookmark, want)))
        types = [event["type"] for event in want], [event["type"] for event in got]
        if types[0] != types[1]:
            return [*faults, f"expected the events {types[0]}, received {types[1]}"]
        return faults + list(compare(memory, want, got, "events"))


def _is_bookmark(event: Json) -> bool:
    """A periodic bookmark, as against the one that ends the initial events."""
    return event["type"] == "BOOKMARK" and INITIAL_END not in (event["object"]["metadata"].get("annotations") or {})


def _count(events: list[Json]) -> int:
    return sum(not _is_bookmark(event) for event in events)


def _without_repeats(events: list[Json], *, keep: bool) -> list[Json]:
    """One bookmark of each run, or none."""
    kept: list[Json] = []
    for event in events:
        if not _is_bookmark(event) or (keep and not (kept and _is_bookmark(kept[-1]))):
            kept.append(event)
    return kept
