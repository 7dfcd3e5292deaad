"""Mixed load on several replicas of the REST service, and the ledger of what they accepted.

An answer of 2xx is a promise: `Ledger` holds it. One of 429 or 503, or none at all, leaves open whether the change
was made; those are `unknown`. Anything else that was not to be expected is a `fault`. The mix is what people do: users
look at their jobs and queues most of the time and submit now and then, administrators change something sometimes.
"""

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

Json = dict[str, Any]
QUEUES, USERS = 8, 16
WORKLOADS, ADMIN = "/apis/v1/workloads", "/apis/v1/admin"
OVERVIEWS = (f"{ADMIN}/queues", f"{ADMIN}/audit?limit=20", f"{ADMIN}/tokens", f"{WORKLOADS}?queue=q0")
UNKNOWN = (0, 429, 503)
"""No answer, or "not now": to all (503), or to a caller with more than its share (429)."""


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
    owners: dict[str, str] = field(default_factory=dict)
    """Who submitted them."""
    unknown_jobs: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    unknown_cancelled: set[str] = field(default_factory=set)
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

    @property
    def served(self) -> int:
        """How many requests were answered otherwise than by "not now"."""
        return self.answers.total() - sum(self.answers[status] for status in UNKNOWN)


class Load:
    """Requests at random to replicas in turn, by an administrator and users."""

    def __init__(self, session: aiohttp.ClientSession, replicas: Sequence[str], token: str, seed: int) -> None:
        self._session = session
        self._replicas = itertools.cycle(replicas)
        self._headers = {"admin": _headers(token)}
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self._busy: set[str] = set()
        self._names: dict[str, list[str]] = defaultdict(list)
        self.ledger = Ledger()

    async def prepare(self) -> None:
        """The queues that the load is about, and the users."""
        for number in range(QUEUES):
            members = {"users": [f"u{user}" for user in range(USERS) if user % QUEUES in (number, number - 1)]}
            body = {"name": f"q{number}", "labels": {"step": "0"}, "members": members}
            status, told, _ = await self.ask("POST", f"{ADMIN}/queues", body)
            assert status == 201, told
        for number in range(USERS):
            status, told, _ = await self.ask("POST", f"{ADMIN}/tokens", {"name": f"u{number}", "role": "user"})
            assert status == 201, told
            self._headers[f"u{number}"] = _headers(told["token"])

    @property
    def secrets(self) -> list[str]:
        """Every token that was sent."""
        return [headers["Authorization"].split()[1] for headers in self._headers.values()]

    async def run(self, rate: float, seconds: float, in_flight: int = 64) -> float:
        """Offer `rate` requests a second, as long as no more are in flight; how many a second were answered.

        "Not now" is an answer: what was served is in the ledger.
        """
        kinds: dict[Callable[[], Awaitable[None]], int] = {
            self._list_jobs: 250,
            self._look_at_a_job: 200,
            self._list_queues: 150,
            self._see_history: 60,
            self._explain: 60,
            self._ask_for_access: 30,
            self._overview: 30,
            self._see_nodes: 20,
            self._see_usage: 20,
            self._submit: 80,
            self._cancel: 25,
            self._label: 25,
            self._step: 25,
            self._make_queue: 8,
            self._delete_queue: 5,
            self._make_token: 7,
            self._revoke_token: 5,
        }
        clock, room = asyncio.get_running_loop().time, asyncio.Semaphore(in_flight)
        choices, weights = [*kinds], [*itertools.accumulate(kinds.values())]
        begin, offered, before = clock(), 0, self.ledger.answers.total()

        async def one(kind: Callable[[], Awaitable[None]]) -> None:
            try:
                await kind()
            finally:
                room.release()

        async with asyncio.TaskGroup() as tasks:
            while clock() - begin < seconds:
                await room.acquire()
                await asyncio.sleep(max(0.0, begin + offered / rate - clock()))
                tasks.create_task(one(*self._random.choices(choices, cum_weights=weights)))
                offered += 1
        return (self.ledger.answers.total() - before) / (clock() - begin)

    async def ask(
        self, method: str, path: str, body: Any = None, user: str = "admin", **headers: str
    ) -> tuple[int, Any, str]:
        """One request to the next replica: status (0 without an answer), what it said, its ETag.

        What a good answer to a question of a user says is not read here.
        """
        sent = self._headers[user]
        if headers:
            sent = sent | {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with self._session.request(method, next(self._replicas) + path, data=data, headers=sent) as answer:
                raw = await answer.read()
                status, etag = answer.status, answer.headers.get("ETag", "")
                idle = method == "GET" and status == 200 and user != "admin"
                told = None if idle or not raw else msgspec.json.decode(raw)
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
            status, told, etag = 0, str(error), ""
        self.ledger.answers[status] += 1
        if status >= 400 and (not isinstance(told, dict) or "code" not in told):
            self._fault(method, path, status, told)
        return status, told, etag

    def _fault(self, method: str, path: str, status: int, told: Any) -> None:
        self.ledger.faults.append(f"{method} {path}: {status} {told}")

    def _queue(self) -> str:
        return f"q{self._random.randrange(QUEUES)}"

    def _user(self) -> str:
        return f"u{self._random.randrange(USERS)}"

    async def _submit(self) -> None:
        user, name = self._user(), f"p{next(self._numbers)}"
        status, told, _ = await self.ask("POST", WORKLOADS, pod(name, f"q{int(user[1:]) % QUEUES}"), user)
        if status == 201:
            self.ledger.jobs[name], self.ledger.owners[name] = told["items"][0]["uid"], user
            self._names[user].append(name)
        elif status in UNKNOWN:
            self.ledger.unknown_jobs.add(name)
        else:
            self._fault("POST", name, status, told)

    async def _cancel(self) -> None:
        user = self._user()
        free = [name for name in self._names[user] if name not in self._busy]
        if not free:
            return await self._list_jobs()
        name = self._random.choice(free)
        self._busy.add(name)
        status, told, _ = await self.ask("DELETE", f"{WORKLOADS}/default/pod/{name}", None, user)
        if status == 200:
            self.ledger.cancelled.add(name)
        elif status in UNKNOWN:
            self.ledger.unknown_cancelled.add(name)
        else:
            self._fault("DELETE", name, status, told)
        return None

    async def _look(self, path: str, user: str, job: str = "") -> None:
        status, told, _ = await self.ask("GET", path, None, user)
        # A job that is being cancelled may be gone.
        if status not in (200, *UNKNOWN) and not (status == 404 and job in self._busy):
            self._fault("GET", path, status, told)

    async def _list_jobs(self) -> None:
        await self._look(WORKLOADS, self._user())

    async def _list_queues(self) -> None:
        await self._look("/apis/v1/queues", self._user())

    async def _overview(self) -> None:
        await self._look(self._random.choice(OVERVIEWS), "admin")

    async def _see_nodes(self) -> None:
        await self._look("/apis/v1/nodes", self._user())

    async def _see_usage(self) -> None:
        await self._look("/apis/v1/usage", self._user())

    async def _look_at_a_job(self, part: str = "") -> None:
        user = self._user()
        if not self._names[user]:
            return await self._list_jobs()
        name = self._random.choice(self._names[user])
        return await self._look(f"{WORKLOADS}/default/pod/{name}{part}", user, name)

    async def _see_history(self) -> None:
        await self._look_at_a_job("/history")

    async def _explain(self) -> None:
        await self._look_at_a_job("/explanation")

    async def _ask_for_access(self) -> None:
        question = {"queue": self._queue(), "namespace": "default"}
        status, told, _ = await self.ask("POST", "/apis/v1/access-reviews", question, self._user())
        if status not in (200, *UNKNOWN):
            self._fault("POST", "access-reviews", status, told)

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
            return await self._overview()
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
            return await self._overview()
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


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
