"""Mixed load on several replicas of the REST service, and the ledger of what they accepted.

An answer of 2xx is a promise: `Ledger` holds it. One of 503, or none at all, leaves open whether the change was made;
those are `unknown`. Anything else that was not to be expected is a `fault`.
"""

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

Json = dict[str, Any]
QUEUES = 8
WORKLOADS, ADMIN = "/apis/v1/workloads", "/apis/v1/admin"
READS = (
    "/apis/v1/queues",
    WORKLOADS,
    f"{WORKLOADS}?phase=Pending",
    f"{ADMIN}/queues",
    f"{ADMIN}/audit?limit=20",
    f"{ADMIN}/tokens",
    "/apis/v1/usage",
    "/apis/v1/stops",
    "/apis/v1/nodes",
)
UNKNOWN = (0, 503)
"""No answer, or "not now"."""


def pod(name: str, queue: str) -> Json:
    """A small pod that runs for a second."""
    amounts = {"cpu": "1m", "memory": "1Mi"}
    container = {"name": "main", "image": "example/app:1", "resources": {"requests": amounts}}
    meta = {"name": name, "namespace": "default", "labels": {"scheduler.tensorstack.dev/queue": queue}}
    meta["annotations"] = {"devcluster.tensorstack.dev/run-seconds": "1"}  # type: ignore[assignment]
    spec = {"schedulerName": "t9k-scheduler", "containers": [container], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@dataclass
class Ledger:
    """What was promised, what is open, what went wrong."""

    jobs: dict[str, str] = field(default_factory=dict)
    """Accepted submissions: UID by name."""
    unknown_jobs: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    labels: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Accepted labels by queue: each written by its own change."""
    unknown_labels: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    steps: Counter[str] = field(default_factory=Counter)
    """Accepted steps of a queue's counter, each from the value seen to the next."""
    unknown_steps: Counter[str] = field(default_factory=Counter)
    overtaken: int = 0
    """Steps refused with 412."""
    made: set[str] = field(default_factory=set)
    """Queues created and not deleted."""
    gone: set[str] = field(default_factory=set)
    unknown_queues: set[str] = field(default_factory=set)
    tokens: dict[str, str] = field(default_factory=dict)
    revoked: dict[str, str] = field(default_factory=dict)
    unknown_tokens: set[str] = field(default_factory=set)
    answers: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Load:
    """Requests at random to replicas in turn, with an administrator's token."""

    def __init__(self, session: aiohttp.ClientSession, replicas: Sequence[str], token: str, seed: int) -> None:
        self._session = session
        self._replicas = itertools.cycle(replicas)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self._busy: set[str] = set()
        self.ledger = Ledger()

    async def prepare(self) -> None:
        """The queues that the load is about."""
        for number in range(QUEUES):
            status, told, _ = await self.ask("POST", f"{ADMIN}/queues", {"name": f"q{number}", "labels": {"step": "0"}})
            assert status == 201, told

    async def run(self, rate: float, seconds: float, in_flight: int = 64) -> float:
        """`rate` requests a second, as many as the replicas keep up with; how many a second were made."""
        kinds: dict[Callable[[], Awaitable[None]], int] = {
            self._submit: 25,
            self._label: 20,
            self._step: 15,
            self._read: 20,
            self._cancel: 6,
            self._make_queue: 3,
            self._delete_queue: 2,
            self._make_token: 5,
            self._revoke_token: 4,
        }
        clock, room = asyncio.get_running_loop().time, asyncio.Semaphore(in_flight)
        begin, count = clock(), 0

        async def one(kind: Callable[[], Awaitable[None]]) -> None:
            try:
                await kind()
            finally:
                room.release()

        async with asyncio.TaskGroup() as tasks:
            while clock() - begin < seconds:
                await room.acquire()
                await asyncio.sleep(max(0.0, begin + count / rate - clock()))
                tasks.create_task(one(*self._random.choices([*kinds], [*kinds.values()])))
                count += 1
        return count / (clock() - begin)

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, str]:
        """One request to the next replica: status (0 without an answer), what it said, its ETag."""
        sent = self._headers | {name.replace("_", "-"): value for name, value in headers.items()}
        address = next(self._replicas) + path
        try:
            async with self._session.request(method, address, json=body, headers=sent) as answer:
                told = await answer.json(content_type=None) if await answer.read() else None
                status, etag = answer.status, answer.headers.get("ETag", "")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            status, told, etag = 0, str(error), ""
        self.ledger.answers[status] += 1
        if status >= 400 and (not isinstance(told, dict) or "code" not in told):
            self._fault(method, path, status, told)
        return status, told, etag

    def _fault(self, method: str, path: str, status: int, told: Any) -> None:
        self.ledger.faults.append(f"{method} {path}: {status} {told}")

    def _queue(self) -> str:
        return f"q{self._random.randrange(QUEUES)}"

    async def _submit(self) -> None:
        name = f"p{next(self._numbers)}"
        status, told, _ = await self.ask("POST", WORKLOADS, pod(name, self._queue()))
        if status == 201:
            self.ledger.jobs[name] = told["uid"]
        elif status in UNKNOWN:
            self.ledger.unknown_jobs.add(name)
        else:
            self._fault("POST", name, status, told)

    async def _cancel(self) -> None:
        free = sorted(self.ledger.jobs.keys() - self._busy)
        if not free:
            return await self._read()
        name = self._random.choice(free)
        self._busy.add(name)
        status, told, _ = await self.ask("DELETE", f"{WORKLOADS}/default/pod/{name}")
        if status == 200:
            self.ledger.cancelled.add(name)
        elif status not in (404, *UNKNOWN):
            self._fault("DELETE", name, status, told)
        return None

    async def _label(self) -> None:
        queue, key = self._queue(), f"l{next(self._numbers)}"
        status, told, _ = await self.ask("PATCH", f"{ADMIN}/queues/{queue}", {"labels": {key: "x"}})
        if status == 200:
            self.ledger.labels[queue].add(key)
        elif status in UNKNOWN:
            self.ledger.unknown_labels[queue].add(key)
        else:
            self._fault("PATCH", queue, status, told)

    async def _step(self) -> None:
        address = f"{ADMIN}/queues/{(queue := self._queue())}"
        status, told, etag = await self.ask("GET", address)
        if status != 200:
            return None if status in UNKNOWN else self._fault("GET", queue, status, told)
        change = {"labels": {"step": str(int(told["labels"]["step"]) + 1)}}
        status, told, _ = await self.ask("PATCH", address, change, If_Match=etag)
        if status == 200:
            self.ledger.steps[queue] += 1
        elif status in UNKNOWN:
            self.ledger.unknown_steps[queue] += 1
        elif status == 412:
            self.ledger.overtaken += 1
        else:
            self._fault("PATCH", queue, status, told)
        return None

    async def _read(self) -> None:
        path = self._random.choice(READS)
        status, told, _ = await self.ask("GET", path)
        if status not in (200, *UNKNOWN):
            self._fault("GET", path, status, told)

    async def _make_queue(self) -> None:
        name = f"new{next(self._numbers)}"
        status, told, _ = await self.ask("POST", f"{ADMIN}/queues", {"name": name})
        if status == 201:
            self.ledger.made.add(name)
        elif status in UNKNOWN:
            self.ledger.unknown_queues.add(name)
        else:
            self._fault("POST", name, status, told)

    async def _delete_queue(self) -> None:
        if not self.ledger.made:
            return await self._read()
        name = self._random.choice(sorted(self.ledger.made))
        self.ledger.made.discard(name)
        status, told, _ = await self.ask("DELETE", f"{ADMIN}/queues/{name}")
        if status == 204:
            self.ledger.gone.add(name)
        elif status in UNKNOWN:
            self.ledger.unknown_queues.add(name)
        else:
            self._fault("DELETE", name, status, told)
        return None

    async def _make_token(self) -> None:
        name = f"t{next(self._numbers)}"
        status, told, _ = await self.ask("POST", f"{ADMIN}/tokens", {"name": name, "role": "viewer"})
        if status == 201:
            self.ledger.tokens[name] = told["token"]
        elif status in UNKNOWN:
            self.ledger.unknown_tokens.add(name)
        else:
            self._fault("POST", name, status, told)

    async def _revoke_token(self) -> None:
        if not self.ledger.tokens:
            return await self._read()
        name = self._random.choice(sorted(self.ledger.tokens))
        secret = self.ledger.tokens.pop(name)
        status, told, _ = await self.ask("DELETE", f"{ADMIN}/tokens/{name}")
        if status == 204:
            self.ledger.revoked[name] = secret
        elif status in UNKNOWN:
            self.ledger.unknown_tokens.add(name)
        else:
            self._fault("DELETE", name, status, told)
        return None
