"""Asking the leading scheduler what only it knows, over `/internal/v1`.

Its address stands in SQL, the secret is shared. Whoever asks either gets an answer or learns that there is none and how
long ago the leader was last heard of.
"""

from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
import msgspec

from api.problems import Problem
from t9ksched.store.instance import Instances

Json = dict[str, Any]


class LeaderAway(Problem):
    """No leader answers; `age` is the seconds since it last gave a sign of life, None if it never did."""

    def __init__(self, code: str, detail: str, last_heard: datetime | None) -> None:
        self.age = None if last_heard is None else max(0, round((datetime.now(UTC) - last_heard).total_seconds()))
        heard = "it was never heard of" if self.age is None else f"last heard of {self.age} s ago"
        headers = {"Retry-After": "2"} | self.age_header(self.age)
        super().__init__(code, f"{detail} ({heard})", headers=headers, remedy="wait a moment and repeat", age=self.age)

    @staticmethod
    def age_header(age: int | None) -> dict[str, str]:
        """The header that says how old an answer without the leader is."""
        return {"T9ksched-Leader-Age": "unknown" if age is None else str(age)}


class Leader(Protocol):
    """What a leader can be asked. Each method raises LeaderAway; those about one thing return None if it is unknown."""

    async def jobs(self) -> list[Json]: ...
    async def job(self, namespace: str, kind: str, name: str) -> Json | None: ...
    async def explanation(self, namespace: str, kind: str, name: str) -> Json | None: ...
    async def nodes(self) -> list[Json]: ...
    async def node(self, name: str) -> Json | None: ...
    async def queues(self) -> dict[str, Json]: ...
    async def metrics(self) -> bytes: ...


class HttpLeader:
    """The leader over HTTP. Use as an async context manager."""

    def __init__(self, instances: Instances, secret: str, timeout: float = 10.0) -> None:
        self._instances = instances
        self._headers = {"Authorization": f"Bearer {secret}"}
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=2.0)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "HttpLeader":
        self._session = aiohttp.ClientSession(timeout=self._timeout, headers=self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def jobs(self) -> list[Json]:
        """Every job the leader knows."""
        return list((await self._get("jobs"))["jobs"])

    async def job(self, namespace: str, kind: str, name: str) -> Json | None:
        """One job."""
        return await self._find("jobs", namespace, kind, name)

    async def explanation(self, namespace: str, kind: str, name: str) -> Json | None:
        """Why a job is where it is."""
        return await self._find("jobs", namespace, kind, name, "explanation")

    async def nodes(self) -> list[Json]:
        """Every node with its cards."""
        return list((await self._get("nodes"))["nodes"])

    async def node(self, name: str) -> Json | None:
        """One node."""
        return await self._find("nodes", name)

    async def queues(self) -> dict[str, Json]:
        """What each queue holds, by name."""
        return dict((await self._get("queues"))["queues"])

    async def metrics(self) -> bytes:
        """The leader's metrics page."""
        page = await self._read("metrics")
        if page is None:
            raise LeaderAway("Unavailable", "the leading scheduler has no metrics: is it of another version?", None)
        return page

    async def _get(self, *parts: str) -> Json:
        found = await self._find(*parts)
        if found is None:
            raise LeaderAway(
                "Unavailable", "the leading scheduler does not know this request: is it of another version?", None
            )
        return found

    async def _find(self, *parts: str) -> Json | None:
        path = "/".join(quote(part, safe="") for part in parts)
        text = await self._read(f"internal/v1/{path}")
        try:
            return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            detail = f"the scheduler's answer cannot be read ({type(error).__name__}: {error})"
            raise LeaderAway("Unavailable", detail, None) from error

    async def _read(self, path: str) -> bytes | None:
        """What the leader has at that path; None where it knows nothing of it."""
        assert self._session is not None, "enter the context first"
        instance = await self._instances.current()
        if instance is None or not instance.address:
            raise LeaderAway("NotLeader", "no scheduler leads now", instance.heartbeat_at if instance else None)
        url = f"{instance.address.rstrip('/')}/{path}"
        try:
            async with self._session.get(url) as response:
                if response.status == 404:
                    return None
                if response.status == 200:
                    return await response.read()
                code = "NotLeader" if response.status == 421 else "Unavailable"
                detail = f"the scheduler at {instance.address} answered {response.status}"
                if response.status in (401, 403):
                    detail += ": its internal secret is not ours (T9KSCHED_INTERNAL_SECRET)"
                raise LeaderAway(code, detail, instance.heartbeat_at)
        except (aiohttp.ClientError, TimeoutError) as error:
            detail = f"the scheduler at {instance.address} does not answer ({type(error).__name__})"
            raise LeaderAway("Unavailable", detail, instance.heartbeat_at) from error
