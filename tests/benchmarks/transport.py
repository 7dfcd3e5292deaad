"""What a small request to an API server costs this process, by four clients in turns on one server.

    uv run python tests/benchmarks/transport.py --requests 4000 --in-flight 64 --rounds 5

By TLS, each with as many requests in flight: the project's pool over HTTP/2 and over HTTP/1.1, aiohttp (HTTP/1.1, which
is all that it speaks), and a client on the library h2. Every request is a POST of a body of a binding's size, answered
by the null server (`nullserver.py`) in a process of its own. Rounds alternate, in an order that turns, so that other
work on the machine meets all of them. Printed is one JSON object: CPU of this process in µs a request, the median and
the least of the rounds, and requests a second, which say more about the machine.
"""

import argparse
import asyncio
import multiprocessing
import ssl
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
import h2.config
import h2.connection
import h2.events
import msgspec
import yaml

from t9ksched.kube.transport.message import Request
from t9ksched.kube.transport.pool import TransportPool
from tests.benchmarks import nullserver
from tests.benchmarks.bind import binding, certificate, each
from tests.benchmarks.timing import report

TARGET = "/api/v1/namespaces/bench/events"
HEADERS = (("User-Agent", "t9ksched/bench"), ("Accept", "application/json"), ("Accept-Encoding", "identity"))
TIMEOUT = 30.0
Send = Callable[[bytes], Awaitable[int]]


class LibraryConnection(asyncio.Protocol):
    """HTTP/2 by the library h2: one connection, what comes together is sent together."""

    def __init__(self, authority: str) -> None:
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self._authority = authority
        self._answers: dict[int, asyncio.Future[int]] = {}
        self._status: dict[int, int] = {}
        self._flushing = False
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._http.initiate_connection()
        self._http.increment_flow_control_window(2**30)
        self._flush()

    def data_received(self, data: bytes) -> None:
        for event in self._http.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self._status[event.stream_id] = int(dict(event.headers)[":status"])
            elif isinstance(event, h2.events.DataReceived):
                self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self._answers.pop(event.stream_id).set_result(self._status.pop(event.stream_id))
        self._flush()

    async def send(self, body: bytes) -> int:
        number = self._http.get_next_available_stream_id()
        fields = [(":method", "POST"), (":scheme", "https"), (":authority", self._authority), (":path", TARGET)]
        fields += [(name.lower(), value) for name, value in HEADERS]
        fields += [("authorization", "Bearer secret"), ("content-type", "application/json")]
        self._http.send_headers(number, fields)
        self._http.send_data(number, body, end_stream=True)
        answer = self._answers[number] = self._loop.create_future()
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)
        return await answer

    def _flush(self) -> None:
        self._flushing = False
        if data := self._http.data_to_send():
            self._transport.write(data)

    def close(self) -> None:
        self._transport.close()


def trusting(authority: Path, *versions: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(list(versions))
    return context


async def by_pool(server: str, tls: ssl.SSLContext, run: Callable[[Send], Awaitable[None]]) -> None:
    pool = TransportPool(server, tls, headers=HEADERS)

    async def send(body: bytes) -> int:
        answer = await pool.exchange(Request("POST", TARGET, body, authorization="Bearer secret"), TIMEOUT)
        return answer.status

    try:
        await run(send)
    finally:
        pool.close()


async def by_aiohttp(server: str, tls: ssl.SSLContext, run: Callable[[Send], Awaitable[None]]) -> None:
    headers = {**dict(HEADERS), "Authorization": "Bearer secret", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:

        async def send(body: bytes) -> int:
            async with session.post(server + TARGET, data=body, timeout=aiohttp.ClientTimeout(TIMEOUT)) as response:
                await response.read()
                return response.status

        await run(send)


async def by_h2(server: str, tls: ssl.SSLContext, run: Callable[[Send], Awaitable[None]]) -> None:
    url = urlsplit(server)
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: LibraryConnection(url.netloc), url.hostname, url.port, ssl=tls
    )
    try:
        await run(connection.send)
    finally:
        connection.close()


async def measure(server: str, authority: Path, options: argparse.Namespace) -> dict[str, Any]:
    two, one = trusting(authority, "h2", "http/1.1"), trusting(authority, "http/1.1")
    clients: dict[str, Callable[[Callable[[Send], Awaitable[None]]], Awaitable[None]]] = {
        "pool, HTTP/2": lambda run: by_pool(server, two, run),
        "h2, HTTP/2": lambda run: by_h2(server, two, run),
        "pool, HTTP/1.1": lambda run: by_pool(server, one, run),
        "aiohttp, HTTP/1.1": lambda run: by_aiohttp(server, one, run),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in clients}
    body = binding_body()

    for turn in range(options.rounds):
        names = list(clients)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:

            async def run(send: Send, name: str = name) -> None:
                async def post(_: object) -> None:
                    assert await send(body) == 201

                await each(range(options.in_flight * 2), options.in_flight, post)  # connections are made
                wall, cpu = time.perf_counter(), time.process_time()
                await each(range(options.requests), options.in_flight, post)
                found[name].append((time.process_time() - cpu, time.perf_counter() - wall))

            await clients[name](run)

    def figures(rounds: list[tuple[float, float]]) -> dict[str, float]:
        each_cpu = [1e6 * cpu / options.requests for cpu, _ in rounds]
        rate = statistics.median(options.requests / wall for _, wall in rounds)
        return {
            "cpuMicroseconds": round(statistics.median(each_cpu), 1),
            "least": round(min(each_cpu), 1),
            "perSecond": round(rate),
        }

    return {name: figures(rounds) for name, rounds in found.items()}


def binding_body() -> bytes:
    """A body of a binding's size; the server keeps no events, so that it does not grow."""
    return msgspec.json.encode(binding("bench", "some-pod-of-a-job", "6f1c6f3e-7a60-4f3b-9a51-0d3f3f0c8d11", "n1", 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as where:
        kubeconfig, pem = Path(where) / "kubeconfig", certificate(Path(where))
        ready = multiprocessing.get_context("spawn").Event()
        serving = multiprocessing.get_context("spawn").Process(
            target=nullserver.serve, args=(kubeconfig, ready, pem), daemon=True
        )
        serving.start()
        try:
            assert ready.wait(30)
            server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
            figures = asyncio.run(measure(server, pem, options))
        finally:
            serving.terminate()
            serving.join()
    report(
        "transport",
        options.record,
        requests=options.requests,
        in_flight=options.in_flight,
        rounds=options.rounds,
        clients=figures,
    )


if __name__ == "__main__":
    main()
