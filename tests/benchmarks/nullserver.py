"""A server that costs next to nothing, so that a client's own CPU can be seen. By TLS it speaks HTTP/2, as a real one.

For clients that keep the rules: windows are opened wide at the beginning and widened after each megabyte, nothing is
checked, and watches are served over HTTP/1.1 only.
"""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any, cast

import hpack
import yaml

from t9ksched.kube.transport.http2 import PREFACE
from t9ksched.kube.transport.http2_frames import Flag, Kind, Setting, frame, settings
from tests.benchmarks.nullobjects import Connection, Object, Objects

_WIDE = (2**30).to_bytes(4, "big")
_MEGABYTE = 2**20
_LARGEST = 16_384


class SharedConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._buffer = b""
        self._decoder = hpack.Decoder()
        self._asked: dict[int, tuple[str, str, list[bytes]]] = {}
        self._heads: dict[int, bytes] = {}
        self._taken = 0
        self._out: list[bytes] = []
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        hello = settings({Setting.MAX_CONCURRENT_STREAMS: 250, Setting.INITIAL_WINDOW_SIZE: _MEGABYTE})
        self._transport.write(hello + frame(Kind.WINDOW_UPDATE, 0, 0, _WIDE))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._buffer.startswith(PREFACE):
            self._buffer = self._buffer[len(PREFACE) :]
        at = 0
        while len(self._buffer) - at >= 9:
            size = int.from_bytes(self._buffer[at : at + 3], "big")
            end = at + 9 + size
            if end > len(self._buffer):
                break
            number = int.from_bytes(self._buffer[at + 5 : at + 9], "big")
            self._take(self._buffer[at + 3], self._buffer[at + 4], number, self._buffer[at + 9 : end])
            at = end
        self._buffer = self._buffer[at:]
        self._transport.write(b"".join(self._out))
        self._out.clear()

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == Kind.HEADERS:
            fields = {str(name): str(value) for name, value in self._decoder.decode(payload)}
            self._asked[number] = (fields[":method"], fields[":path"], [])
        elif kind == Kind.DATA:
            self._asked[number][2].append(payload)
            self._taken += len(payload)
            if self._taken > _MEGABYTE:
                self._out.append(frame(Kind.WINDOW_UPDATE, 0, 0, self._taken.to_bytes(4, "big")))
                self._taken = 0
        elif kind == Kind.SETTINGS and not flags & Flag.ACK:
            self._out.append(frame(Kind.SETTINGS, Flag.ACK, 0, b""))
        if kind in (Kind.HEADERS, Kind.DATA) and flags & Flag.END_STREAM:
            method, target, pieces = self._asked.pop(number)
            _Stream(self._objects, self, number).answer(method, target, b"".join(pieces))

    def send(self, number: int, status: int, body: bytes) -> None:
        """One answer, with the fields that a real server sends."""
        head = self._heads.get(status)
        if head is None:
            fields = [(":status", str(status)), ("audit-id", "2f1c6f3e-7a60-4f3b-9a51-0d3f3f0c8d11")]
            fields += [("cache-control", "no-cache, private"), ("content-type", "application/json")]
            fields += [("x-kubernetes-pf-flowschema-uid", "0f6b1a52-1f0e-4c83-8d60-5c3c1f3b7a10")]
            encoder = hpack.Encoder()
            encoder.header_table_size = 0
            head = self._heads[status] = encoder.encode(fields)
        self._out.append(frame(Kind.HEADERS, Flag.END_HEADERS, number, head))
        for at in range(0, max(len(body), 1), _LARGEST):
            last = Flag.END_STREAM if at + _LARGEST >= len(body) else 0
            self._out.append(frame(Kind.DATA, last, number, body[at : at + _LARGEST]))


class _Stream(Connection):
    """One request, answered as any other."""

    def __init__(self, objects: Objects, shared: SharedConnection, number: int) -> None:
        super().__init__(objects)
        self._shared, self._number = shared, number

    def send(self, status: int, body: bytes) -> None:
        self._shared.send(self._number, status, body)


class Negotiated(asyncio.Protocol):
    """What a new connection begins with: the version of HTTP that both agreed to takes over."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opened = cast("asyncio.Transport", transport)
        tls = opened.get_extra_info("ssl_object")
        shares = tls is not None and tls.selected_alpn_protocol() == "h2"
        protocol = SharedConnection(self._objects) if shares else Connection(self._objects)
        opened.set_protocol(protocol)
        protocol.connection_made(opened)


def serve(kubeconfig: Path, ready: Any, certificate: Path | None = None) -> None:
    """Serve until terminated, by TLS with a `certificate` (PEM, key included); `kubeconfig` says where."""

    async def run() -> None:
        objects, tls = Objects(), None
        cluster: Object = {}
        if certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificate)
            tls.set_alpn_protocols(["h2", "http/1.1"])
            cluster = {"certificate-authority": str(certificate)}
        server = await asyncio.get_running_loop().create_server(
            lambda: Negotiated(objects), "127.0.0.1", 0, ssl=tls, family=socket.AF_INET
        )
        port = server.sockets[0].getsockname()[1]
        cluster["server"] = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "null",
            "clusters": [{"name": "null", "cluster": cluster}],
            "users": [{"name": "null", "user": {"token": "secret"}}],
            "contexts": [{"name": "null", "context": {"cluster": "null", "user": "null"}}],
        }
        kubeconfig.write_text(yaml.safe_dump(config))  # noqa: ASYNC240
        ready.set()
        await server.serve_forever()

    asyncio.run(run())
