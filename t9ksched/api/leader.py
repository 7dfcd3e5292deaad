"""Asking the leading scheduler what only it knows, over `/internal/v1`.

Its address is in the database, the secret is shared. A caller gets either an answer or the error that no leader
answers, with the time since its last heartbeat.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from t9ksched.admission.oddities import Vocabulary
from t9ksched.api.http.problems import STATUS, Problem, invalid
from t9ksched.api.slices import read_objects
from t9ksched.model.errors import FieldError
from t9ksched.store.history import Visibility
from t9ksched.store.instance import Instance, Instances

Json = dict[str, Any]
Asked = Sequence[tuple[str, str]]
_KEPT_SECONDS = 1.0
"""How long the leader's address is used before it is read again; after a failed request it is read at once."""
_FRESH_SECONDS = 0.25
_SUCCESSION_SECONDS = 2.0
"""How long a request waits for the next leader when the one before has just left: as an upgrade replaces schedulers."""
_LEFT_SECONDS = 10
"""So long after its last heartbeat, one of which comes every five seconds, a leader may just have left."""
_POLL_SECONDS = 0.1
_NAMES_SECONDS = 5.0
_REFUSALS = (422, 429, 503)
"""Statuses with which the leader says why it does not answer a question."""
_LONG = aiohttp.ClientTimeout(total=60.0, connect=2.0)
"""For what the leader has to compute; it ends that itself before."""


class LeaderAway(Problem):
    """No leader answers; `age` is the seconds since its last heartbeat, None if there was none."""

    def __init__(self, code: str, detail: str, last_heard: datetime | None) -> None:
        self.age = None if last_heard is None else max(0, round((datetime.now(UTC) - last_heard).total_seconds()))
        heard = "it was never heard of" if self.age is None else f"last heard of {self.age} s ago"
        headers = {"Retry-After": "2"} | self.age_header(self.age)
        super().__init__(code, f"{detail} ({heard})", headers=headers, remedy="wait a moment and repeat", age=self.age)

    @staticmethod
    def age_header(age: int | None) -> dict[str, str]:
        """The header that says how old an answer without the leader is."""
        return {"T9ksched-Leader-Age": "unknown" if age is None else str(age)}


class LeaderGone(LeaderAway):
    """Nobody is at the leader's address, or it has none: the next one may be there in a moment."""


class Leader(Protocol):
    """What a leader can be asked. Each method raises LeaderAway; those about one thing return None if it is unknown."""

    async def jobs(self, seen_by: Visibility | None = None) -> list[Json]: ...
    async def job(self, namespace: str, kind: str, name: str) -> Json | None: ...
    async def explanation(self, namespace: str, kind: str, name: str) -> Json | None: ...
    async def delayed(self, job: Json, wish: Json) -> list[Json]: ...
    async def reserved(self, namespace: str, kind: str, name: str, seconds: int) -> list[Json]: ...
    async def nodes(self) -> list[Json]: ...
    async def node(self, name: str) -> Json | None: ...
    async def timeline(self, hours: int) -> Json: ...
    async def queues(self) -> dict[str, Json]: ...
    async def metrics(self, accept: str) -> tuple[bytes, str]: ...
    async def snapshot(self) -> bytes: ...
    async def names(self) -> Vocabulary | None: ...
    async def lacking(self) -> list[str]: ...
    async def judge_reservation(self, reservation: Json) -> Json: ...
    async def simulate(self, question: Json) -> Json: ...


class HttpLeader:
    """The leader over HTTP. Use as an async context manager."""

    def __init__(self, instances: Instances, secret: str, timeout: float = 10.0) -> None:
        self._instances = instances
        self._headers = {"Authorization": f"Bearer {secret}"}
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=2.0)
        self._session: aiohttp.ClientSession | None = None
        self._known: Instance | None = None
        self._known_until = 0.0
        self._in_vain = 0
        """The epoch whose successor was waited for in vain: nobody waits for it again."""
        self._queues_read: asyncio.Task[dict[str, Json]] | None = None
        self._queues_until = 0.0
        self._names: Vocabulary | None = None
        self._names_until = 0.0

    async def __aenter__(self) -> "HttpLeader":
        self._session = aiohttp.ClientSession(timeout=self._timeout, headers=self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def jobs(self, seen_by: Visibility | None = None) -> list[Json]:
        """The jobs that the leader knows; with `seen_by` those that the caller may see, and perhaps a few more."""
        return await self._list("jobs", _question(seen_by))

    async def job(self, namespace: str, kind: str, name: str) -> Json | None:
        """One job."""
        return await self._find("jobs", namespace, kind, name)

    async def explanation(self, namespace: str, kind: str, name: str) -> Json | None:
        """Why a job is where it is."""
        return await self._find("jobs", namespace, kind, name, "explanation")

    async def delayed(self, job: Json, wish: Json) -> list[Json]:
        """The planned starts of other queues, with `at`, `after` and `job`, that a time limit of the job delays; `wish`
        has the `seconds`, the `user` and the `uid` under which it is recorded. One that delays none counts from now on.
        Raises a Problem where the leader has no answer, such as RateLimited.
        """
        path = "/".join(quote(str(job[part]), safe="") for part in ("namespace", "kind", "name"))
        raw = await self._read(f"internal/v1/jobs/{path}/delayed", body=msgspec.json.encode(wish), told=_REFUSALS)
        return [] if raw is None else list(_answered(raw[0]).get("delayed", ()))

    async def reserved(self, namespace: str, kind: str, name: str, seconds: int) -> list[Json]:
        """The reservations that a time limit of so many seconds takes room from: `name`, `nodes`, `from` and `to`."""
        found = await self._find("jobs", namespace, kind, name, "reserved", asked=[("seconds", str(seconds))])
        return list((found or {}).get("reserved", ()))

    async def nodes(self) -> list[Json]:
        """Every node with its cards."""
        return await self._list("nodes")

    async def node(self, name: str) -> Json | None:
        """One node."""
        return await self._find("nodes", name)

    async def timeline(self, hours: int) -> Json:
        """What runs until when, and what is planned and reserved so many hours ahead: `at`, `nodes` and `items`."""
        return await self._get("timeline", asked=[("hours", str(hours))])

    async def queues(self) -> dict[str, Json]:
        """What each queue holds, by name; as of the last quarter of a second. Simultaneous calls share one answer."""
        clock, reading = asyncio.get_running_loop().time, self._queues_read
        if reading is None or (reading.done() and clock() >= self._queues_until):
            self._queues_read = reading = asyncio.create_task(self._read_queues())
            reading.add_done_callback(self._queues_over)
        return await asyncio.shield(reading)

    async def _read_queues(self) -> dict[str, Json]:
        found = dict((await self._get("queues"))["queues"])
        self._queues_until = asyncio.get_running_loop().time() + _FRESH_SECONDS
        return found

    def _queues_over(self, reading: "asyncio.Task[dict[str, Json]]") -> None:
        """Whoever comes after an error asks anew. It is retrieved here: those who asked may all have gone."""
        if (reading.cancelled() or reading.exception() is not None) and self._queues_read is reading:
            self._queues_read = None

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """The leader's metrics page, in the format that a scraper with this Accept header takes, and its media type."""
        page = await self._read("metrics", accept)
        if page is None:
            raise LeaderAway("Unavailable", "the leading scheduler has no metrics: is it of another version?", None)
        return page

    async def snapshot(self) -> bytes:
        """The live cluster at this moment, as `t9ksched.simulation.snapshot` writes it."""
        found = await self._read("internal/v1/snapshot")
        if found is None:
            raise _other_version()
        return found[0]

    async def names(self) -> Vocabulary | None:
        """The names that the cluster knows, as of the last five seconds; None if the leader does not tell them."""
        now = asyncio.get_running_loop().time()
        if now >= self._names_until:
            found = await self._find("names")
            self._names = None if found is None else msgspec.convert(found, Vocabulary)
            self._names_until = now + _NAMES_SECONDS
        return self._names

    async def lacking(self) -> list[str]:
        """A sentence for each kind that the scheduler may not watch; none from one of another version."""
        return list(((await self._find("lacking")) or {}).get("lacking", ()))

    async def judge_reservation(self, reservation: Json) -> Json:
        """What a reservation by administrators would do: `nodes` for it, `faults`, `conflicts`, the `jobs` and `plans`
        that it touches, and `seen`, the revision up to which other reservations were looked at.
        """
        found = await self._find("reservations", "judgement", body=msgspec.json.encode(reservation))
        if found is None:
            raise _other_version()
        return found

    async def simulate(self, question: Json) -> Json:
        """What would happen. Raises a Problem where the leader has no answer, such as RateLimited."""
        raw = await self._read("internal/v1/simulate", body=msgspec.json.encode(question), told=_REFUSALS)
        if raw is None:
            raise _other_version()
        return _answered(raw[0])

    async def _list(self, what: str, asked: Asked = ()) -> list[Json]:
        """A list that may be long: its objects are read in slices."""
        raw = await self._read(f"internal/v1/{what}" + (f"?{urlencode(asked)}" if asked else ""))
        if raw is None:
            raise _other_version()
        try:
            listed = msgspec.json.decode(raw[0], type=dict[str, msgspec.Raw]).get(what)
            if listed is None:
                raise _other_version()
            return await read_objects(msgspec.json.decode(listed, type=list[msgspec.Raw]))
        except msgspec.DecodeError as error:
            raise _unreadable(error) from error

    async def _get(self, *parts: str, asked: Asked = ()) -> Json:
        found = await self._find(*parts, asked=asked)
        if found is None:
            raise _other_version()
        return found

    async def _find(self, *parts: str, asked: Asked = (), body: bytes | None = None) -> Json | None:
        path = "/".join(quote(part, safe="") for part in parts)
        found = await self._read(f"internal/v1/{path}" + (f"?{urlencode(asked)}" if asked else ""), body=body)
        try:
            return None if found is None else msgspec.json.decode(found[0], type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise _unreadable(error) from error

    async def _read(
        self, path: str, accept: str = "application/json", body: bytes | None = None, told: Sequence[int] = ()
    ) -> tuple[bytes, str] | None:
        """The leader's answer at that path, and its media type; None where it does not know the object. With a `body`
        it is a POST, which changes nothing either. `told` are statuses of refusals that say more.
        """
        instance, remembered = await self._instance()
        try:
            return await self._ask(instance, path, accept, body, told)
        except LeaderAway as away:
            wait = _SUCCESSION_SECONDS if isinstance(away, LeaderGone) and away.age is not None else 0.0
            now = await self._successor(instance, wait if (away.age or 0) <= _LEFT_SECONDS else 0.0)
            if now is None or (not remembered and not wait):
                raise
        # Another process leads by now.
        return await self._ask(now, path, accept, body, told)

    async def _successor(self, former: Instance | None, wait: float) -> Instance | None:
        """The leader that came after `former`, once it is there, for so many seconds; None if none came."""
        clock = asyncio.get_running_loop().time
        end = clock() + wait
        while True:
            self._known_until = 0.0
            now, _ = await self._instance()
            if now is not None and former is not None and now.epoch != former.epoch and now.address:
                return now
            if clock() >= end or self._in_vain == (former.epoch if former else 0):
                break
            await asyncio.sleep(_POLL_SECONDS)
        if wait and former is not None:
            self._in_vain = former.epoch
        return None

    async def _instance(self) -> tuple[Instance | None, bool]:
        """Where the leader is, and whether that was read a moment ago."""
        clock = asyncio.get_running_loop().time
        if clock() < self._known_until:
            return self._known, True
        self._known = await self._instances.current()
        if self._known is not None and self._known.address:
            self._known_until = clock() + _KEPT_SECONDS
        return self._known, False

    async def _ask(
        self,
        instance: Instance | None,
        path: str,
        accept: str,
        body: bytes | None = None,
        told: Sequence[int] = (),
    ) -> tuple[bytes, str] | None:
        assert self._session is not None, "enter the context first"
        if instance is None or not instance.address:
            raise LeaderGone("NotLeader", "no scheduler leads now", instance.heartbeat_at if instance else None)
        url = f"{instance.address.rstrip('/')}/{path}"
        try:
            method, timeout = "GET" if body is None else "POST", _LONG if told else self._timeout
            headers = {"Accept": accept}
            async with self._session.request(method, url, headers=headers, data=body, timeout=timeout) as response:
                if response.status in (404, 405):
                    return None
                if response.status == 200 or response.status in told:
                    return await response.read(), response.headers.get("Content-Type", "")
                code = "NotLeader" if response.status == 421 else "Unavailable"
                detail = f"the scheduler at {instance.address} answered {response.status}"
                if response.status in (401, 403):
                    detail += ": its internal secret is not ours (T9KSCHED_INTERNAL_SECRET)"
                raise LeaderAway(code, detail, instance.heartbeat_at)
        except aiohttp.ClientConnectorError as error:
            detail = f"the scheduler at {instance.address} does not answer ({type(error).__name__})"
            raise LeaderGone("Unavailable", detail, instance.heartbeat_at) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            detail = f"the scheduler at {instance.address} does not answer ({type(error).__name__})"
            raise LeaderAway("Unavailable", detail, instance.heartbeat_at) from error


def _question(seen_by: Visibility | None) -> Asked:
    """Which jobs to return, as a query string; empty for all jobs."""
    if seen_by is None:
        return ()
    queues = (("queue", name) for name in sorted(seen_by.queues))
    spaces = (("namespace", name) for name in sorted(seen_by.namespaces))
    return (("submitter", seen_by.user), *queues, *spaces)


def _other_version() -> LeaderAway:
    detail = "the leading scheduler does not know this request: is it of another version?"
    return LeaderAway("Unavailable", detail, None)


def _answered(raw: bytes) -> Json:
    """The leader's answer to a question. Raises a Problem where that says why there is none."""
    try:
        found = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise _unreadable(error) from error
    if "code" in found:
        raise _not_answered(found)
    return found


def _not_answered(why: Json) -> Problem:
    """The leader's refusal to answer a question."""
    errors = [FieldError(str(one.get("path")), str(one.get("message"))) for one in why.get("errors") or ()]
    if errors:
        return invalid(errors)
    again = why.get("again")
    code = why["code"] if why["code"] in STATUS else "Unavailable"
    headers = {"Retry-After": str(again)} if again else {}
    remedy = f"wait {again} seconds and repeat" if again else ""
    return Problem(code, str(why.get("detail")), headers=headers, remedy=remedy)


def _unreadable(error: msgspec.DecodeError) -> LeaderAway:
    detail = f"the scheduler's answer cannot be read ({type(error).__name__}: {error})"
    return LeaderAway("Unavailable", detail, None)
