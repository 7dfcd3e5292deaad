"""`GET …/pods/NAME/log`: what a container has written, and with `follow` what it writes until it ends.

Parameters, answers and words of refusals are those of kube-apiserver and kubelet.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.nodeagents import container_of, reach_node
from t9ksched.devcluster.apiserver.options import integer
from t9ksched.devcluster.apiserver.paths import Target
from t9ksched.devcluster.apiserver.status import Cause, bad_request, bad_value, invalid, not_allowed
from t9ksched.devcluster.faults.faults import Faults
from t9ksched.devcluster.local.logfile import LogLine, LogReader
from t9ksched.devcluster.local.runtime import ID_PREFIX, folder_of
from t9ksched.devcluster.nodes.containerlog import ContainerLog, Instance, NotReadable, again, instance_of

Object = dict[str, Any]
_LINES_A_WRITE: Final = 500
_LONGEST_SLEEP: Final = 60.0
_LOOK_SECONDS: Final = 0.2
"""Between two looks at a log that a process writes."""
_FALSE: Final = ("false", "0")


class LogOptions(msgspec.Struct, frozen=True):
    """What is asked for. `since` is a moment, `tail` a number of lines, `limit` one of bytes."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: float | None = None
    tail: int | None = None
    limit: int | None = None


def log_options(query: Mapping[str, str], pod: str, now: float) -> LogOptions:
    """The options in a query.

    Raises:
        StatusError: 400 what is no number or time, 422 what is out of range.
    """
    tail, limit, seconds = (integer(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    moment = _moment(query.get("sinceTime", ""))
    causes: list[Cause] = []
    if tail is not None and tail < 0:
        causes.append(bad_value("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        causes.append(bad_value("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and moment is not None:
        causes.append(not_allowed("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        causes.append(bad_value("sinceSeconds", seconds, "must be greater than 0"))
    if causes:
        raise invalid("PodLogOptions", "", pod, causes)
    return LogOptions(
        query.get("container", ""),
        _is_set(query, "follow"),
        _is_set(query, "previous"),
        _is_set(query, "timestamps"),
        moment if seconds is None else now - seconds,
        tail,
        limit,
    )


def _is_set(query: Mapping[str, str], name: str) -> bool:
    return name in query and query[name].lower() not in _FALSE


def _moment(text: str) -> float | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError
    except ValueError:
        layout = "2006-01-02T15:04:05Z07:00"
        raise bad_request(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"') from None
    return found.timestamp()


class PodLogs:
    """Answers requests for logs."""

    def __init__(self, api: Api, faults: Faults, machine_logs: Path | None = None) -> None:
        self._api = api
        self._machine_logs = machine_logs
        self._faults = faults
        self._clock = faults.clock(time.time)

    async def answer(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        """The log of one container."""
        name = target.name or ""
        wanted = log_options(request.query, name, self._clock())
        pod = self._api.get(kind, target.namespace, name).object
        container = container_of(pod, wanted.container)
        if not pod["spec"].get("nodeName"):
            return web.Response(text="")
        reach_node(self._api, self._faults, pod, f"/containerLogs/{target.namespace}/{name}/{container}")
        try:
            instance = instance_of(pod, container, previous=wanted.previous)
        except NotReadable as why:
            raise bad_request(str(why)) from None
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        with contextlib.suppress(ConnectionError):
            if self._machine_logs is not None and instance.id.startswith(ID_PREFIX):
                await self._copy(_Writer(response, wanted), wanted, kind, target, container, instance)
            else:
                await self._send(_Writer(response, wanted), wanted, kind, target, container, instance)
            await response.write_eof()
        return response

    async def _send(
        self,
        writer: "_Writer",
        wanted: LogOptions,
        kind: Kind,
        target: Target,
        container: str,
        instance: Instance,
    ) -> None:
        """What is there, and with `follow` what comes until the run ends or the pod is gone."""
        collection, key = self._api.collection(kind), kind.key(target.namespace, target.name or "")
        sent: int | None = None
        while True:
            place = collection.last_version
            entry = collection.entries.get(key)
            seen = again(entry.object, container, instance) if entry is not None else None
            if entry is None or seen is None:
                return
            log, now = ContainerLog(entry.object, container, seen), self._clock()
            count = log.count(now)
            if sent is None:
                sent = max(0, count - wanted.tail) if wanted.tail is not None else 0
                if wanted.since is not None:
                    sent = max(sent, log.since(wanted.since, count))
            if not await writer.write(log, sent, count) or not wanted.follow or seen.ended is not None:
                return
            sent = max(sent, count)
            await collection.changed(place, min(_LONGEST_SLEEP, max(0.01, log.due(sent) - self._clock())))

    async def _copy(
        self,
        writer: "_Writer",
        wanted: LogOptions,
        kind: Kind,
        target: Target,
        container: str,
        instance: Instance,
    ) -> None:
        """The log of a process, as `_send` sends one that is simulated."""
        assert self._machine_logs is not None
        collection, key = self._api.collection(kind), kind.key(target.namespace, target.name or "")
        reader = LogReader(folder_of(self._machine_logs, instance.id), wanted.tail, wanted.since)
        try:
            while True:
                entry = collection.entries.get(key)
                seen = again(entry.object, container, instance) if entry is not None else None
                if not await writer.copy(reader.lines()) or not wanted.follow or seen is None or seen.ended is not None:
                    return
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            reader.close()


class _Writer:
    """Writes lines as they are wanted, no more bytes than that."""

    def __init__(self, response: web.StreamResponse, wanted: LogOptions) -> None:
        self._response = response
        self._timestamps = wanted.timestamps
        self._left = wanted.limit

    async def write(self, log: ContainerLog, start: int, end: int) -> bool:
        """Write the lines from one index to before another; False when there is no room for more."""
        for first in range(start, end, _LINES_A_WRITE):
            data = "".join(self._texts(log, first, min(end, first + _LINES_A_WRITE))).encode()
            if not await self._put(data):
                return False
        return True

    async def copy(self, lines: Iterator[LogLine]) -> bool:
        """Write lines as they are; False when there is no room for more."""
        while block := list(islice(lines, _LINES_A_WRITE)):
            data = b"".join(
                b"%b %b" % (line.stamp.encode(), line.text) if self._timestamps else line.text for line in block
            )
            if not await self._put(data):
                return False
        return True

    async def _put(self, data: bytes) -> bool:
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        await self._response.write(data)
        return self._left != 0

    def _texts(self, log: ContainerLog, start: int, end: int) -> Iterator[str]:
        for at, text in log.written(start, end):
            yield f"{_nanoseconds(at)} {text}\n" if self._timestamps else f"{text}\n"


def _nanoseconds(moment: float) -> str:
    """A time as kubelets write it before a line."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
