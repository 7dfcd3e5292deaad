"""What a stranger, and a user with a token and rights over the user's own objects, may try against a running service.

Each attack is one coroutine: it is bounded in time, in bytes and in connections, goes to loopback alone and gives back
what it holds. An answer that the service must not give, such as another user's job, is a crossing.
"""

import asyncio
import contextlib
import io
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec

from t9ksched.kube.errors import ApiError
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODGROUPS, PODS
from tests.acceptance.load import ADMIN, WORKLOADS
from tests.chaos.forged import FIELDS

QUEUE = "scheduler.tensorstack.dev/queue"
GROUP = "scheduler.tensorstack.dev/group-name"
_LONG = 12.0
"""Seconds for which connections are held: longer than a head may take."""
_STANDING = 4
"""Large submissions that are left standing."""
_DEEP = b"[" * 100_000
_MERGE = b"a0: &a0 {x: 1}\n" + b"".join(b"a%d: &a%d {<<: [*a%d, *a%d]}\n" % (n, n, n - 1, n - 1) for n in range(1, 40))
BODIES: tuple[tuple[str, bytes], ...] = (
    ("application/yaml", b"- " * 60_000),
    ("application/yaml", _DEEP),
    ("application/json", _DEEP),
    ("application/yaml", _MERGE),
    ("application/yaml", b"a: " + b"1:" * 20_000),
    ("application/yaml", b"kind: !!timestamp foo\n"),
    ("application/yaml", b"kind: !!python/object/apply:os.system [true]\n"),
    ("application/yaml", b"%TAG ! tag:x,2000:\n--- a\n"),
    ("application/yaml", b"a: \xff\xfe\n"),
    ("application/json", b'{"a": 1, "a": 2}'),
    ("application/json", b'{"kind": "\\ud800"}'),
    ("application/json", b"1" * 200_000),
    ("text/html", b"<a>"),
    ("application/json", b" " * 2_000_000 + b"{}"),
    ("application/yaml", b"k: v\n" * 200_000),
)
HEADS: tuple[bytes, ...] = (
    b"GET /apis/v1/workloads/../pod/x HTTP/1.1\r\n",
    b"GET /apis/v1/workloads/a%2Fb/pod/x HTTP/1.1\r\n",
    b"GET /apis/v1/workloads?namespace=%00 HTTP/1.1\r\n",
    b"GET /healthz HTTP/1.1\r\nAuthorization: \xff\xfe\r\n",
    b'PATCH /apis/v1/admin/queues/q0 HTTP/1.1\r\nIf-Match: "' + b"9" * 5000 + b'"\r\n',
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
)


class Attacks:
    """The attacks of one run, drawn by its dice. `token` is a user's who is a member of queue `attacked` alone."""

    def __init__(
        self, session: aiohttp.ClientSession, replicas: Sequence[str], token: str, kube: ClusterPort, seed: int
    ) -> None:
        self._session = session
        self.replicas = replicas
        self._headers = {"Authorization": f"Bearer {token}"}
        self._kube = kube
        self._dice = random.Random(f"attacks {seed}")
        self._made = 0
        self._standing: list[list[str]] = []
        """Names of pods by submission, oldest first."""
        self.theirs: list[str] = []
        """Names of jobs of others."""
        self.counts: Counter[str] = Counter()
        self.answers: Counter[int] = Counter()
        self.crossed: list[str] = []

    def draw(self) -> Any:
        """The next attack."""
        attacks = (
            self.bad_body,
            self.bad_body,
            self.odd_head,
            self.half_sent_heads,
            self.slow_bodies,
            self.unread_answers,
            self.flood,
            self.large_submission,
            self.forged_fields,
            self.forged_fields,
            self.other_peoples_jobs,
        )
        attack = self._dice.choice(attacks)
        self.counts[attack.__name__] += 1
        return attack()

    async def _ask(self, method: str, path: str, data: bytes | None = None, kind: str = "application/json") -> int:
        headers = self._headers | {"Content-Type": kind}
        url = self._dice.choice(self.replicas) + path
        try:
            async with self._session.request(method, url, data=data and io.BytesIO(data), headers=headers) as answer:
                await answer.read()
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError):
            status = 0
        self.answers[status] += 1
        if status == 500:
            self.crossed.append(f"{method} {path} {(data or b'')[:60]!r}: 500")
        return status

    async def bad_body(self) -> None:
        """A body that is too deep, too long, doubled, or no text."""
        kind, body = self._dice.choice(BODIES)
        path = self._dice.choice((WORKLOADS, f"{WORKLOADS}/validate", "/apis/v1/access-reviews", f"{ADMIN}/queues"))
        if 200 <= await self._ask("POST", path, body, kind) < 300:
            self.crossed.append(f"{path} takes {body[:60]!r}")

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self._dice.choice(self.replicas).removeprefix("http://").partition(":")
        return await asyncio.open_connection(host, int(port))

    async def _hold(self, count: int, first: bytes, drip: bytes = b"") -> None:
        """So many connections send this, then so much a second, and read nothing."""
        lines = []
        try:
            for _ in range(count):
                with contextlib.suppress(OSError):
                    lines.append((await self._open())[1])
            for line in lines:
                line.write(first)
            for _ in range(int(_LONG)):
                await asyncio.sleep(1)
                for line in lines if drip else ():
                    if not line.is_closing():
                        line.write(drip)
        finally:
            for line in lines:
                line.transport.abort()

    async def odd_head(self) -> None:
        """A head that no client sends."""
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await self._open()
            try:
                writer.write(self._dice.choice(HEADS) + b"Host: t\r\n\r\n")
                async with asyncio.timeout(5):
                    if b" 500 " in await reader.readline():
                        self.crossed.append("500 for an odd head")
            finally:
                writer.transport.abort()

    async def half_sent_heads(self) -> None:
        """Heads that do not end."""
        await self._hold(150, b"GET /apis/v1/queues HTTP/1.1\r\nHost: t\r\nX-A: ", b"a")

    async def slow_bodies(self) -> None:
        """Bodies that come a byte at a time."""
        head = "POST /apis/v1/workloads HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
        head += f"Authorization: {self._headers['Authorization']}\r\nTransfer-Encoding: chunked\r\n\r\n"
        await self._hold(20, head.encode(), b"1\r\n \r\n")

    async def unread_answers(self) -> None:
        """Lists that are not read."""
        head = f"GET /apis/v1/history HTTP/1.1\r\nHost: t\r\nAuthorization: {self._headers['Authorization']}\r\n\r\n"
        await self._hold(20, head.encode() * 20)

    async def flood(self) -> None:
        """Many requests at once, with a token and without."""
        paths = (WORKLOADS, "/apis/v1/queues", "/healthz", "/metrics", f"{ADMIN}/tokens")
        await asyncio.gather(*(self._ask("GET", self._dice.choice(paths)) for _ in range(150)))

    def _pod(self, name: str, **labels: str) -> dict[str, Any]:
        limits = {"cpu": "1m", "nvidia.com/gpu": "1"}
        container = {"name": "main", "image": "example/app:1", "resources": {"limits": limits, "requests": limits}}
        meta = {"name": name, "namespace": "default", "labels": {QUEUE: "attacked", **labels}}
        spec = {"schedulerName": "t9k-scheduler", "containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    async def large_submission(self) -> None:
        """Many objects in one request, some of them faulty: all or none."""
        self._made += 1
        items = [self._pod(f"many{self._made}-{number}") for number in range(self._dice.choice((3, 200)))]
        if self._dice.random() < 0.5:
            items[-1]["spec"]["nodeName"] = "n0"
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
        status = await self._ask("POST", WORKLOADS, body)
        if 200 <= status < 300 and "nodeName" in items[-1]["spec"]:
            self.crossed.append("a pod names its node and is taken")
        self._standing.append([item["metadata"]["name"] for item in items])
        if len(self._standing) > _STANDING:
            await self._take_away(self._standing.pop(0))

    async def _take_away(self, names: list[str]) -> None:
        """Delete pods, so that what stands does not grow: else memory that grows would say nothing."""
        for name in names:
            with contextlib.suppress(ApiError):
                await self._kube.delete(PODS, name, "default", grace=0)

    async def forged_fields(self) -> None:
        """The user's own pods and groups, with whatever may be written into them; then they go."""
        self._made += 1
        name = f"forged{self._made}"
        spec = {"minMember": 2, "queue": "attacked"}
        meta = {"name": name, "namespace": "default"}
        group = {"apiVersion": "scheduler.tensorstack.dev/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}
        pods = [f"{name}-{number}" for number in range(2)]
        with contextlib.suppress(ApiError):
            await self._kube.create(PODGROUPS, group, "default")
            for one in pods:
                await self._kube.create(PODS, self._pod(one, **{GROUP: name}), "default")
        for _ in range(10):
            await asyncio.sleep(self._dice.random())
            field = self._dice.choice([one for one in FIELDS if one.resource in (PODS, PODGROUPS)])
            target = name if field.resource is PODGROUPS else self._dice.choice(pods)
            body = field.write(self._dice, {"metadata": {}}, [])
            with contextlib.suppress(ApiError):
                part = "status" if field.status else ""
                await self._kube.patch(field.resource, target, "default", body, subresource=part)
        for res, target in ((PODGROUPS, name), *((PODS, one) for one in pods)):
            with contextlib.suppress(ApiError):
                await self._kube.delete(res, target, "default", grace=0)

    async def other_peoples_jobs(self) -> None:
        """Jobs of others are not this user's to see, to cancel or to rule."""
        for name in self._dice.sample(self.theirs, min(3, len(self.theirs))):
            job = f"{WORKLOADS}/default/pod/{name}"
            rule = f"{ADMIN}/workloads/default/pod/{name}"
            for method, path in (("DELETE", job), ("GET", job), ("GET", f"{job}/explanation"), ("PATCH", rule)):
                if 200 <= await self._ask(method, path, b"{}" if method == "PATCH" else None) < 300:
                    self.crossed.append(f"{method} {path} by a stranger")
        for path in (f"{ADMIN}/tokens", f"{ADMIN}/queues", f"{ADMIN}/audit"):
            if await self._ask("GET", path) == 200:
                self.crossed.append(f"GET {path} by a user")
