"""One trace for each gang that starts, for OpenTelemetry: how long it waited, was planned, and was being bound.

They follow history, so that they cost nothing where the events happen: a gang's events are remembered until its last
pod is bound, then its spans are made with their own times. The OTLP exporter sends them from a thread of its own.
"""

from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from t9ksched.model.reasons import Code
from t9ksched.model.wall_clock import nanoseconds
from t9ksched.store import history
from t9ksched.store.history import Event

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

MOST: Final = 20_000
"""Gangs that are followed at the same time; of more the ones whose events are the oldest are forgotten."""
_OVER: Final = frozenset({history.DELETED, history.FINISHED, history.TAKEN_BACK, history.REFUSED})


class _Way(msgspec.Struct):
    """What is known of a gang that has not started yet."""

    accepted: datetime
    planned: datetime | None = None
    placed: datetime | None = None
    bindings_left: int = 0
    codes: dict[str, None] = msgspec.field(default_factory=dict)
    """Codes of the reasons for which it waited, in the order in which they came."""


class GangTraces:
    """Makes spans of the events of history."""

    def __init__(self, provider: "TracerProvider") -> None:
        self.provider = provider
        self._tracer = provider.get_tracer("t9ksched.scheduler")
        self._ways: OrderedDict[str, _Way] = OrderedDict()

    def note(self, event: Event) -> None:
        """Take an event of history into account."""
        uid = event.uid or ""
        if event.event == history.ACCEPTED:
            self._ways[uid] = _Way(event.at)
            if len(self._ways) > MOST:
                self._ways.popitem(last=False)
            return
        way = self._ways.get(uid)
        if way is None:
            return
        if event.event in _OVER:
            del self._ways[uid]
        elif event.event == history.WAITING:
            codes = event.detail.get("codes", ())
            way.codes |= dict.fromkeys(codes)
            if str(Code.PLANNED_START) in codes and way.planned is None:
                way.planned = event.at
        elif event.event == history.ADMITTED:
            way.placed, way.bindings_left = event.at, way.bindings_left + sum(event.detail["nodes"].values())
        elif event.event == history.BOUND:
            way.bindings_left -= 1  # of pods that are bound at once this may come before ADMITTED
        if way.placed is not None and way.bindings_left <= 0:
            self._made(self._ways.pop(uid), event)

    def _made(self, way: _Way, last: Event) -> None:
        from opentelemetry import trace

        placed = way.placed or last.at
        about = {
            "t9ksched.job": f"{(last.kind or '').lower()}/{last.name}",
            "t9ksched.queue": last.queue or "",
            "t9ksched.uid": last.uid or "",
            "k8s.namespace.name": last.namespace or "",
        }
        root = self._tracer.start_span("gang", attributes=about, start_time=nanoseconds(way.accepted))
        inside = trace.set_span_in_context(root)
        for name, begin, end in _parts(way, placed, last.at):
            attributes = {"t9ksched.reasons": list(way.codes)} if name == "waiting" else {}
            span = self._tracer.start_span(name, context=inside, attributes=attributes, start_time=nanoseconds(begin))
            span.end(nanoseconds(end))
        root.end(nanoseconds(last.at))


def _parts(way: _Way, placed: datetime, bound: datetime) -> Iterator[tuple[str, datetime, datetime]]:
    """The spans within a gang's: until it was planned ahead, until it had its places, until its last pod was bound."""
    yield "waiting", way.accepted, way.planned or placed
    if way.planned is not None:
        yield "planned", way.planned, placed
    yield "binding", placed, bound


def exported(endpoint: str, version: str) -> GangTraces:
    """Traces that are sent to this OTLP address over HTTP, such as `http://collector:4318/v1/traces`.

    Raises:
        ModuleNotFoundError: the extra `otel` is not installed.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "t9ksched-scheduler", "service.version": version})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return GangTraces(provider)
