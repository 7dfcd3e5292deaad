"""The fault lab: failures on request, between clients and cluster, on nodes and in kubelets' clocks.

A `Rule` says what happens to which requests, how often and how many times; `Faults` keeps the rules and throws the
dice, the same way for the same seed. Over HTTP the lab stands behind `GET`, `POST` and `DELETE /_faults`; in the same
process a `FaultyPort` puts it before any `ClusterPort`. Nodes that are told to be silent stop playing kubelet, and
kubelets' clocks may be off. Agents of the dev cluster itself are never disturbed by rules.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from random import Random
from typing import Any, Final, Literal, TypeVar

import msgspec

from t9ksched.devcluster.controllers.timers import Clock
from t9ksched.kube.errors import TimedOut, Unreachable, error_from_status
from t9ksched.kube.port import ClusterPort, DiscoveryPort, Object, ObjectList, WatchEvent
from t9ksched.kube.resources import PODS
from t9ksched.model.api_resource import Resource

T = TypeVar("T")
_KEPT: Final = 64
"""Events of a stream that may be sent again."""
SWAP_SECONDS: Final = 0.5
"""How long an event waits for the one that shall come before it."""
_REASONS: Final = {404: "NotFound", 409: "Conflict", 410: "Expired", 422: "Invalid", 429: "TooManyRequests"}


class Rule(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What happens to requests that match. The first rule that matches and whose dice say so decides.

    Attributes:
        verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, or `*`.
        resource: plural with subresource, such as `pods/binding`; `*` for all.
        probability: of each matching request, 0 to 1; of each batch of events for `cut`, `repeat` and `swap`.
        count: how many times at most; None without limit.
        latency: seconds that the request is slower.
        status: HTTP status to answer with instead of doing anything; 0 for none.
        retry_after: seconds named with the status.
        reason, message: of the Status object.
        drop: close the connection without an answer, `before` anything is done or `after` it was.
        cut: break a watch in the middle of its events.
        repeat: send that many events of a watch once more.
        swap: send two neighbouring events of a watch in the wrong order.
    """

    verb: str = "*"
    resource: str = "*"
    probability: float = 1.0
    count: int | None = None
    latency: float = 0.0
    status: int = 0
    retry_after: float | None = None
    reason: str = ""
    message: str = ""
    drop: Literal["", "before", "after"] = ""
    cut: bool = False
    repeat: int = 0
    swap: bool = False

    @property
    def of_streams(self) -> bool:
        """Whether it is about the events of a watch, not about requests."""
        return self.cut or self.repeat > 0 or self.swap

    def matches(self, verb: str, resource: str) -> bool:
        """Whether a request is meant."""
        return self.verb in ("*", verb) and self.resource in ("*", resource) and self.count != 0

    def status_body(self) -> Object:
        """The Status object that it answers with."""
        reason = self.reason or _REASONS.get(self.status, "InternalError" if self.status >= 500 else "BadRequest")
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": reason,
            "message": self.message or f"the fault lab answers with {self.status}",
            "code": self.status,
        }


class Settings(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What `POST /_faults` takes: everything given replaces what was set.

    Attributes:
        seed: of the dice, which start anew.
        rules: see `Rule`.
        silent_nodes: nodes whose kubelet does nothing, and which say so by `Ready` being unknown.
        broken_nodes: nodes that turn every new pod away, as one whose device plugin has failed does.
        clock_skew: seconds by which kubelets' clocks are ahead.
        compact: forget all history now, so that a client that resumes an older watch gets 410.
        cut_watches: break every open watch now.
    """

    seed: int | None = None
    rules: list[Rule] | None = None
    silent_nodes: list[str] | None = None
    broken_nodes: list[str] | None = None
    clock_skew: float | None = None
    compact: bool = False
    cut_watches: bool = False


NOTHING: Final = Settings(rules=[], silent_nodes=[], broken_nodes=[], clock_skew=0.0)
"""The settings without any fault."""


def _become(names: set[str], wanted: Iterable[str]) -> None:
    """Replace the members of a set that other objects share."""
    names.clear()
    names.update(wanted)


class Faults:
    """The lab's state; without rules it costs nothing."""

    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)
        self.rules: list[Rule] = []
        self.silent: set[str] = set()
        self.broken: set[str] = set()
        self.skew = 0.0
        self.hits: Counter[str] = Counter()

    def clock(self, base: Clock) -> Clock:
        """The clock of kubelets: `base` and the skew of the moment."""
        return lambda: base() + self.skew

    def set(self, settings: Settings) -> None:
        """Take over what is given; what is None stays."""
        if settings.seed is not None:
            self.random.seed(settings.seed)
        if settings.rules is not None:
            self.rules = settings.rules
            self.hits.clear()
        if settings.silent_nodes is not None:
            _become(self.silent, settings.silent_nodes)
        if settings.broken_nodes is not None:
            _become(self.broken, settings.broken_nodes)
        if settings.clock_skew is not None:
            self.skew = settings.clock_skew

    def clear(self) -> None:
        """Clear all faults."""
        self.set(NOTHING)

    def show(self) -> Object:
        """The state as `GET /_faults` gives it."""
        return {
            "rules": msgspec.to_builtins(self.rules),
            "silentNodes": sorted(self.silent),
            "brokenNodes": sorted(self.broken),
            "clockSkew": self.skew,
            "hits": dict(sorted(self.hits.items())),
        }

    def draw(self, verb: str, resource: str) -> Rule | None:
        """What happens to one request, None for nothing."""
        return self._first(verb, resource, of_streams=False) if self.rules else None

    def draw_stream(self, resource: str) -> Rule | None:
        """What happens to one batch of a watch's events, None for nothing."""
        return self._first("watch", resource, of_streams=True) if self.rules else None

    def _first(self, verb: str, resource: str, *, of_streams: bool) -> Rule | None:
        for rule in self.rules:
            if rule.of_streams is not of_streams or not rule.matches(verb, resource):
                continue
            if self.random.random() < rule.probability:
                if rule.count is not None:
                    rule.count -= 1
                self.hits[f"{verb} {resource}"] += 1
                return rule
        return None


class Stream:
    """One watch as the lab lets it through."""

    def __init__(self, faults: Faults, resource: str) -> None:
        self._faults = faults
        self._resource = resource
        self._recent: deque[Any] = deque(maxlen=_KEPT)
        self._held: list[Any] = []

    @property
    def holding(self) -> bool:
        """Whether an event waits for the next one, to come behind it: call `through` within `SWAP_SECONDS`."""
        return bool(self._held)

    def through(self, events: list[T]) -> tuple[list[T], bool]:
        """What is sent of a batch, and whether the stream breaks after it. Without events: what was held back."""
        if self._held:
            events, self._held = [*events[:1], *self._held, *events[1:]], []
            self._recent.extend(events)
            return events, False
        if not events:
            return events, False
        rule = self._faults.draw_stream(self._resource)
        if rule is not None and rule.swap:
            if len(events) == 1:
                self._held = events
                return [], False
            at = self._faults.random.randrange(len(events) - 1)
            events = [*events[:at], events[at + 1], events[at], *events[at + 2 :]]
        if rule is not None and rule.cut:
            return events[: self._faults.random.randrange(len(events) + 1)], True
        self._recent.extend(events)
        if rule is not None and rule.repeat:
            return [*events, *list(self._recent)[-rule.repeat :]], False
        return events, False


class FaultyPort:
    """A `ClusterPort` whose requests meet the lab's rules first."""

    def __init__(self, port: ClusterPort, faults: Faults) -> None:
        self._port = port
        self._faults = faults

    async def _meet(self, verb: str, resource: str, act: Callable[[], Awaitable[T]]) -> T:
        rule = self._faults.draw(verb, resource)
        if rule is None:
            return await act()
        await asyncio.sleep(rule.latency / 2)
        if rule.status:
            raise error_from_status(rule.status, rule.status_body(), rule.retry_after)
        if rule.drop == "before":
            raise Unreachable(f"{verb} {resource}: the fault lab closed the connection", sent=True)
        done = await act()
        await asyncio.sleep(rule.latency / 2)
        if rule.drop == "after":
            raise TimedOut(f"{verb} {resource}: the fault lab kept the answer")
        return done

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> Object:
        """See `ClusterPort`."""
        return await self._meet("get", res.plural, lambda: self._port.get(res, name, namespace))

    async def list(self, res: Resource, namespace: str | None = None, **options: Any) -> ObjectList:
        """See `ClusterPort`."""
        return await self._meet("list", res.plural, lambda: self._port.list(res, namespace, **options))

    async def serves(self, res: Resource) -> bool:
        """See `DiscoveryPort`; no fault meets this."""
        return not isinstance(self._port, DiscoveryPort) or await self._port.serves(res)

    async def create(
        self, res: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object:
        """See `ClusterPort`."""
        return await self._meet("create", res.plural, lambda: self._port.create(res, obj, namespace, dry_run=dry_run))

    async def replace(self, res: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        """See `ClusterPort`."""
        return await self._meet("update", res.plural, lambda: self._port.replace(res, obj, dry_run=dry_run))

    async def replace_status(self, res: Resource, obj: Object) -> Object:
        """See `ClusterPort`."""
        return await self._meet("update", f"{res.plural}/status", lambda: self._port.replace_status(res, obj))

    async def patch(self, res: Resource, name: str, namespace: str | None, body: Any, **options: Any) -> Object:
        """See `ClusterPort`."""
        plural = "/".join(filter(None, (res.plural, options.get("subresource", ""))))
        return await self._meet("patch", plural, lambda: self._port.patch(res, name, namespace, body, **options))

    async def delete(self, res: Resource, name: str, namespace: str | None = None, **options: Any) -> Object:
        """See `ClusterPort`."""
        return await self._meet("delete", res.plural, lambda: self._port.delete(res, name, namespace, **options))

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        """See `ClusterPort`."""
        await self._meet("create", f"{PODS.plural}/binding", lambda: self._port.bind(namespace, name, binding))

    async def evict(self, namespace: str, name: str, **options: Any) -> None:
        """See `ClusterPort`."""
        await self._meet("create", f"{PODS.plural}/eviction", lambda: self._port.evict(namespace, name, **options))

    async def watch(self, res: Resource, namespace: str | None = None, **options: Any) -> AsyncIterator[WatchEvent]:
        """See `ClusterPort`."""
        await self._meet("watch", res.plural, _nothing)
        stream = Stream(self._faults, res.plural)
        source = self._port.watch(res, namespace, **options)
        ahead: asyncio.Task[WatchEvent | None] | None = None
        try:
            while (event := await (ahead or anext(source, None))) is not None:
                ahead = None
                events, cut = stream.through([event])
                if stream.holding:
                    ahead = asyncio.create_task(_next(source))
                    await asyncio.wait({ahead}, timeout=SWAP_SECONDS)
                    following = ahead.result() if ahead.done() and ahead.exception() is None else None
                    if following is not None:
                        ahead = None
                    events, cut = stream.through([] if following is None else [following])
                for sent in events:
                    yield sent
                if cut:
                    raise Unreachable(f"watch {res.plural}: the fault lab cut the stream", sent=True)
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.wait({ahead})
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()


async def _nothing() -> None:
    return None


async def _next(source: AsyncIterator[WatchEvent]) -> WatchEvent | None:
    return await anext(source, None)


UNREACHABLE: Final[Object] = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
"""The taint of a node whose kubelet is not heard from."""


def told_unreachable(node: Object, unreachable: bool) -> Object:
    """The node as the control plane writes it when its kubelet falls silent, or is heard again."""
    spec, status = dict(node.get("spec") or {}), dict(node.get("status") or {})
    taints = [taint for taint in spec.get("taints") or () if taint.get("key") != UNREACHABLE["key"]]
    spec["taints"] = [*taints, UNREACHABLE] if unreachable else taints
    others: Iterable[Object] = (c for c in status.get("conditions") or () if c.get("type") != "Ready")
    ready = {"type": "Ready", "status": "Unknown" if unreachable else "True"}
    ready["reason"] = "NodeStatusUnknown" if unreachable else "KubeletReady"
    status["conditions"] = [*others, ready]
    return {**node, "spec": spec, "status": status}
