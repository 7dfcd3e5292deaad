"""GPU-hours from history: pure folding of events into spans, and of spans into a report.

A span is one pod holding cards from the moment it was bound until it gave them back. The part before its job ran is
held time: paid for by nobody's work, and shown apart. Amounts are whole card-microseconds until the last step, so that
the sum over queues is the sum over cards, to the digit.
"""

from collections import defaultdict
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from t9ksched.store import history
from t9ksched.store.history import Event

EVENTS: Final = frozenset(
    {
        history.SUBMITTED,
        history.ACCEPTED,
        history.BOUND,
        history.RELEASED,
        history.STARTED,
        history.FINISHED,
        history.DELETED,
        history.TAKEN_BACK,
        history.PREEMPTED,
    }
)
"""What a report is made of."""
UNKNOWN: Final = "unknown"
_HOUR: Final = timedelta(hours=1) // timedelta(microseconds=1)


@dataclass(slots=True)
class Span:
    """One pod on its cards. `ran` is when its job ran with it, `ended` when it gave them back; None: not yet."""

    uid: str
    namespace: str
    job: str
    queue: str
    user: str
    pod: str
    node: str
    cards: tuple[int, ...]
    model: str | None
    bound: datetime
    ran: datetime | None = None
    ended: datetime | None = None


@dataclass(slots=True)
class _Job:
    user: str = UNKNOWN
    running: bool = False
    open: dict[str, Span] = field(default_factory=dict)


class Fold:
    """Takes events in their order; `spans` grows."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._jobs: defaultdict[str, _Job] = defaultdict(_Job)

    def take(self, event: Event) -> None:
        """The next event."""
        if event.uid is None:
            return
        job = self._jobs[event.uid]
        match event.event:
            case history.SUBMITTED | history.ACCEPTED if event.actor:
                job.user = event.actor
            case history.BOUND:
                self._bound(job, event)
            case history.STARTED:
                job.running = True
                for span in job.open.values():
                    span.ran = span.ran or event.at
            case history.RELEASED:
                self._close(job, [event.detail.get("pod")], event.at)
            case history.PREEMPTED:
                pod = event.detail.get("pod")
                self._close(job, [pod] if pod else list(job.open), event.at)
                job.running = bool(job.open) and job.running
            case history.FINISHED | history.DELETED | history.TAKEN_BACK:
                self._close(job, list(job.open), event.at)
                job.running = False

    def _bound(self, job: _Job, event: Event) -> None:
        detail = event.detail
        pod = str(detail.get("pod"))
        self._close(job, [pod], event.at)  # a name used again: the earlier pod is gone
        cards = sorted({index for indices in (detail.get("cards") or {}).values() for index in indices})
        if not cards:
            return
        span = Span(
            uid=str(event.uid),
            namespace=event.namespace or UNKNOWN,
            job=f"{event.kind}/{event.name}",
            queue=event.queue or UNKNOWN,
            user=job.user,
            pod=pod,
            node=str(detail.get("node")),
            cards=tuple(cards),
            model=detail.get("model"),
            bound=event.at,
            ran=event.at if job.running else None,
        )
        job.open[pod] = span
        self.spans.append(span)

    @staticmethod
    def _close(job: _Job, pods: Iterable[Any], at: datetime) -> None:
        for pod in pods:
            span = job.open.pop(str(pod), None)
            if span is not None:
                span.ended = max(at, span.bound)


async def fold(events: AsyncIterable[Event]) -> list[Span]:
    """All spans of a history."""
    folded = Fold()
    async for event in events:
        folded.take(event)
    return folded.spans


@dataclass(frozen=True, slots=True)
class Piece:
    """A span within one month and the window asked for: how long it held its cards, and how much of that in vain."""

    span: Span
    month: str
    length: int
    held: int


Key = Callable[[Piece, Mapping[str, str]], str]
KEYS: Final[dict[str, Key]] = {
    "queue": lambda piece, _: piece.span.queue,
    "user": lambda piece, _: piece.span.user,
    "namespace": lambda piece, _: piece.span.namespace,
    "model": lambda piece, models: piece.span.model or models.get(piece.span.node, UNKNOWN),
    "month": lambda piece, _: piece.month,
    "job": lambda piece, _: f"{piece.span.namespace}/{piece.span.job}",
    "node": lambda piece, _: piece.span.node,
}
"""What a report can be grouped by; `card` beside them counts each card by itself."""
CARD: Final = "card"


def report(
    spans: Iterable[Span],
    by: Sequence[str],
    *,
    since: datetime | None,
    until: datetime,
    models: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Rows `{…by, gpuHours, heldHours, jobs}`, largest first; spans still open count up to `until`.

    `models` says what cards a node has where the history does not.
    """
    length: defaultdict[tuple[str, ...], int] = defaultdict(int)
    held: defaultdict[tuple[str, ...], int] = defaultdict(int)
    jobs: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for span in spans:
        for piece in _pieces(span, since, until):
            groups = {name: KEYS[name](piece, models or {}) for name in by if name != CARD}
            for card in span.cards if CARD in by else (None,):
                count = len(span.cards) if card is None else 1
                key = tuple(f"{span.node}#{card}" if name == CARD else groups[name] for name in by)
                length[key] += piece.length * count
                held[key] += piece.held * count
                jobs[key].add(span.uid)
    ordered = sorted(length, key=lambda key: (-length[key], key))
    return [
        dict(zip(by, key, strict=True))
        | {"gpuHours": length[key] / _HOUR, "heldHours": held[key] / _HOUR, "jobs": len(jobs[key])}
        for key in ordered
    ]


def _pieces(span: Span, since: datetime | None, until: datetime) -> Iterator[Piece]:
    """The span cut at the ends of the window and of each month (UTC)."""
    start = span.bound if since is None else max(span.bound, since)
    end = until if span.ended is None else min(span.ended, until)
    ran = span.ran or span.ended or until
    while start < end:
        month = start.astimezone(UTC)
        following = datetime(month.year + month.month // 12, month.month % 12 + 1, 1, tzinfo=UTC)
        stop = min(end, following)
        in_vain = max(timedelta(0), min(stop, ran) - start)
        microsecond = timedelta(microseconds=1)
        yield Piece(span, month.strftime("%Y-%m"), (stop - start) // microsecond, in_vain // microsecond)
        start = stop
