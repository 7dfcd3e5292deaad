"""A trace of one gang's way: spans with the times of history, and none of a gang that does not start."""

from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from t9ksched.scheduler.report import traces
from t9ksched.scheduler.report.traces import GangTraces, exported
from t9ksched.store import history
from t9ksched.store.history import Event

START = datetime(2026, 5, 1, tzinfo=UTC)


class Recorded:
    """Events of one job, and the spans that come of them."""

    def __init__(self) -> None:
        self._kept, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.traces = GangTraces(provider)

    def event(self, event: str, seconds: float, uid: str = "u", **detail: Any) -> None:
        at = START + timedelta(seconds=seconds)
        about = {"kind": "Job", "namespace": "ns", "name": "train", "queue": "q", "uid": uid}
        self.traces.note(Event(event=event, at=at, detail=detail, **about))

    @property
    def spans(self) -> dict[str, tuple[float, float]]:
        return {span.name: (_since(span.start_time), _since(span.end_time)) for span in self.finished()}

    def finished(self) -> tuple[ReadableSpan, ...]:
        return self._kept.get_finished_spans()


def _since(nanoseconds: int | None) -> float:
    assert nanoseconds is not None
    return round(nanoseconds / 1e9 - START.timestamp(), 3)


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def test_a_gang_that_waits_is_planned_and_starts(recorded: Recorded) -> None:
    recorded.event(history.ACCEPTED, 0)
    recorded.event(history.WAITING, 1, codes=["InsufficientResources"])
    recorded.event(history.WAITING, 5, codes=["PlannedStart"])
    recorded.event(history.WAITING, 6, codes=["PlannedStart"])
    recorded.event(history.ADMITTED, 20, nodes={"a": 2, "b": 1})
    for seconds in (21, 22):
        recorded.event(history.BOUND, seconds)
    assert not recorded.spans
    recorded.event(history.BOUND, 23.25)
    assert recorded.spans == {"waiting": (0, 5), "planned": (5, 20), "binding": (20, 23.25), "gang": (0, 23.25)}
    root = next(span for span in recorded.finished() if span.name == "gang")
    inner = [span for span in recorded.finished() if span is not root]
    assert root.parent is None
    assert {span.parent.span_id for span in inner if span.parent} == {root.context.span_id}
    assert root.attributes is not None
    assert (root.attributes["t9ksched.job"], root.attributes["t9ksched.queue"]) == ("job/train", "q")
    waiting = next(span for span in inner if span.name == "waiting")
    assert waiting.attributes == {"t9ksched.reasons": ("InsufficientResources", "PlannedStart")}
    recorded.event(history.BOUND, 30)  # a member that came later
    assert len(recorded.finished()) == 4


def test_one_that_starts_at_once_was_never_planned(recorded: Recorded) -> None:
    recorded.event(history.ACCEPTED, 0)
    recorded.event(history.BOUND, 0.5)
    recorded.event(history.ADMITTED, 0.25, nodes={"a": 1})
    assert set(recorded.spans) == {"waiting", "binding", "gang"}


@pytest.mark.parametrize("end", [history.DELETED, history.REFUSED, history.TAKEN_BACK])
def test_one_that_does_not_start_leaves_nothing(recorded: Recorded, end: str) -> None:
    recorded.event(history.ACCEPTED, 0)
    recorded.event(end, 1)
    recorded.event(history.ADMITTED, 2, nodes={"a": 1})
    recorded.event(history.BOUND, 3)
    assert not recorded.spans


def test_of_too_many_the_oldest_are_forgotten(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MOST", 2)
    for uid in ("a", "b", "c"):
        recorded.event(history.ACCEPTED, 0, uid)
    for uid in ("a", "b", "c"):
        recorded.event(history.ADMITTED, 1, uid, nodes={"n": 1})
        recorded.event(history.BOUND, 2, uid)
    gangs = [span.attributes for span in recorded.finished() if span.name == "gang"]
    assert [one["t9ksched.uid"] for one in gangs if one] == ["b", "c"]


def test_spans_are_sent_by_otlp() -> None:
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        sent = exported(f"http://127.0.0.1:{server.server_port}/v1/traces", "0.1.0")
        for event, detail in ((history.ACCEPTED, {}), (history.ADMITTED, {"nodes": {"a": 1}}), (history.BOUND, {})):
            sent.note(Event(event=event, at=START, uid="u", kind="Job", name="j", detail=detail))
        assert sent.provider.force_flush()
        sent.provider.shutdown()
        thread.join()
    resource_spans = ExportTraceServiceRequest.FromString(bodies[0]).resource_spans[0]
    assert {span.name for span in resource_spans.scope_spans[0].spans} == {"gang", "waiting", "binding"}
    names = {one.key: one.value.string_value for one in resource_spans.resource.attributes}
    assert names["service.name"] == "t9ksched-scheduler"
