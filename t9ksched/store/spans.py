"""What holds cards, from when to when: pure folding of events into spans, and of spans into sums.

A span is one pod holding cards from the moment it was bound until it gave them back. The part before its job ran is
held time, in which no work was done; it is shown apart. Amounts are whole card-microseconds until the last step, so
that the sum over queues is the sum over cards, to the digit. Days and months are those of UTC.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final

import msgspec
from sqlalchemy.engine import RowMapping

from t9ksched.model import quantity
from t9ksched.model.card_size import CORES
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
"""What spans are made of."""
WHOLE: Final = EVENTS - {history.BOUND, history.RELEASED}
"""Those that concern all pods of a job."""
_NAMING: Final = frozenset({history.SUBMITTED, history.ACCEPTED})
UNKNOWN: Final = "unknown"
CARD: Final = "card"
WHOLE_CARDS: Final = "Whole"
"""Mode of a node that hands out whole cards."""
HOUR: Final = timedelta(hours=1) // timedelta(microseconds=1)
SCHEDULER: Final = "scheduler"
_LONGEST: Final = 253
_MICROSECOND: Final = timedelta(microseconds=1)


OfModel = tuple[str, int, tuple[int, ...]]
"""A model, what a pod has of cards of it, in parts of `quantity.CARD`, and which these are."""


class Span(msgspec.Struct):
    """One pod on its cards; those without an index are negative numbers.

    `worth` is what it has of all of them together, in parts of `quantity.CARD`; None where they are whole. `models` has
    that model by model, with the cards, where they are of several; then `model` names all of these. `ran` is when its
    job ran with it, `ended` when it gave them back; None: not yet.
    """

    uid: str
    namespace: str
    job: str
    queue: str
    submitter: str
    pod: str
    node: str
    cards: tuple[int, ...]
    resource: str
    model: str
    bound: datetime
    ran: datetime | None = None
    ended: datetime | None = None
    worth: int | None = None
    models: tuple[OfModel, ...] | None = None
    stored: bool = False
    """Whether the database has it as open."""
    changed: bool = False


_COLUMNS: Final = ("uid", "namespace", "job", "queue", "submitter", "pod", "node", "resource", "model", "worth")


def span_of(row: RowMapping) -> Span:
    """The span that a row of `usage_open`, `usage_span` or `usage_idle` has."""
    values = {name: row[name] for name in _COLUMNS}
    models = row["models"] and tuple((model, worth, tuple(cards)) for model, worth, cards in row["models"])
    moments = {"bound": row["bound_at"], "ran": row["ran_at"], "ended": row.get("ended_at")}
    return Span(**values | moments, cards=tuple(row["cards"]), models=models)


class Job(msgspec.Struct):
    """What must be remembered of a job between events; `months` are those it was counted in."""

    submitter: str = UNKNOWN
    running: bool = False
    months: set[str] = msgspec.field(default_factory=set)
    open: dict[str, Span] = msgspec.field(default_factory=dict)
    gone: bool = False


class Fold:
    """Takes events in their order. `jobs` are those known so far, to which it adds; `closed` grows."""

    def __init__(self, jobs: dict[str, Job] | None = None) -> None:
        self.jobs: dict[str, Job] = {} if jobs is None else jobs
        self.closed: list[Span] = []

    def take(self, event: Event, cards: tuple[int, ...] | None = None) -> None:
        """The next event; `cards` are what `cards_of` says of it, if the caller asked before."""
        if event.uid is None or event.event not in EVENTS:
            return
        job = self.jobs.get(event.uid)
        if job is None:
            job = self.jobs[event.uid] = Job()
        match event.event:
            case history.BOUND:
                self._bound(job, event, cards_of(event) if cards is None else cards)
            case history.SUBMITTED | history.ACCEPTED:
                self._named(job, submitter_of(event))
            case history.STARTED:
                job.running = True
                for span in job.open.values():
                    if span.ran is None:
                        span.ran, span.changed = max(event.at, span.bound), True
            case history.RELEASED:
                self._ran(job, event)
                self._close(job, [event.detail.get("pod")], event.at)
            case history.PREEMPTED:
                pod = event.detail.get("pod")
                self._close(job, [pod] if pod else list(job.open), event.at)
                job.running = bool(job.open) and job.running
            case history.DELETED if event.actor not in (None, SCHEDULER):
                pass  # earlier releases said so of a request: its pods hold their cards until they are gone
            case history.DELETED if event.detail.get("podsLeft"):
                job.gone = True  # each of its pods holds its cards until it is released
            case history.FINISHED | history.DELETED | history.TAKEN_BACK:
                self._close(job, list(job.open), event.at)
                job.running = False
                job.gone = event.event == history.DELETED

    @property
    def open(self) -> list[Span]:
        """Spans that go on."""
        return [span for job in self.jobs.values() for span in job.open.values()]

    @property
    def spans(self) -> list[Span]:
        """All of them."""
        return [*self.closed, *self.open]

    @staticmethod
    def _named(job: Job, submitter: str | None) -> None:
        if submitter is None:
            return
        job.submitter = submitter
        for span in job.open.values():
            if span.submitter == UNKNOWN:
                span.submitter, span.changed = submitter, True

    def _bound(self, job: Job, event: Event, cards: tuple[int, ...]) -> None:
        detail = event.detail
        pod = str(detail.get("pod"))
        if pod in job.open:
            self._close(job, [pod], event.at)  # a name used again: the earlier pod is gone
        if not cards:
            return
        job.gone = False
        if isinstance(submitter := detail.get("submitter"), str):
            job.submitter = submitter
        job.open[pod] = Span(
            uid=str(event.uid),
            namespace=event.namespace or UNKNOWN,
            job=f"{event.kind}/{event.name}",
            queue=event.queue or UNKNOWN,
            submitter=job.submitter,
            pod=pod,
            node=str(detail.get("node")),
            cards=cards,
            resource=str(detail.get("resource") or UNKNOWN)[:_LONGEST],
            model=detail.get("model") or UNKNOWN,
            bound=event.at,
            ran=event.at if job.running else None,
            worth=_worth(event, len(cards)),
            models=_models(event),
        )

    @staticmethod
    def _ran(job: Job, event: Event) -> None:
        """A pod outlived its job: whether and since when it ran is told when it is released."""
        span, ran = job.open.get(str(event.detail.get("pod"))), event.detail.get("ran")
        if span is not None and span.ran is None and isinstance(ran, str):
            span.ran = min(max(span.bound, datetime.fromisoformat(ran)), max(span.bound, event.at))

    def _close(self, job: Job, pods: Iterable[Any], at: datetime) -> None:
        for pod in pods:
            span = job.open.pop(str(pod), None)
            if span is not None:
                span.ended = max(at, span.bound)
                self.closed.append(span)


def cards_of(event: Event) -> tuple[int, ...]:
    """The cards that a pod was bound with; none for other events.

    Cards and slices without indices are counted down from -1. Events of releases that did not tell how much of cards a
    pod has are about whole cards: slices, shares and parts of divided cards were charged no card-hours.
    """
    if event.event != history.BOUND:
        return ()
    detail = event.detail
    told, counted = (detail.get("cards") or {}).values(), detail.get("counted") or {}
    if history.PHYSICAL in detail and not counted and len(told) == 1:  # so it is for nearly all
        (cards,) = told
        return tuple(cards) if len(cards) == 1 else tuple(sorted({*cards}))
    indices = {*chain.from_iterable(told)}
    if history.PHYSICAL not in detail:
        indices -= {index for _, index, cores, *_ in detail.get("parts") or () if cores < CORES}
        counted = counted if detail.get("mode") == WHOLE_CARDS else {}
    return tuple(sorted({*indices, *range(-sum(counted.values()), 0)}))


def _worth(event: Event, cards: int) -> int | None:
    """What a pod has of its cards, None where they are whole. Events tell it to seven places, which is exact."""
    told = event.detail.get(history.PHYSICAL)
    if told == cards:
        return None
    worth = cards * quantity.CARD if told is None else round(told * quantity.CARD)
    return worth if worth != cards * quantity.CARD else None


def _models(event: Event) -> tuple[OfModel, ...] | None:
    """What a pod has of cards of each model, None where these are of one."""
    told = event.detail.get(history.MODELS)
    if not told:
        return None
    found = [(str(model), round(worth * quantity.CARD), tuple(sorted(cards))) for model, worth, cards in told]
    return tuple(found) if len(found) > 1 else None


def of_each_model(span: Span) -> Iterable[Span]:
    """The span, cut into one for each model of its cards. Every sum is made of these, so that all are the same sum."""
    if not span.models:
        return (span,)
    return [
        msgspec.structs.replace(
            span, model=model, cards=cards, worth=None if worth == len(cards) * quantity.CARD else worth, models=None
        )
        for model, worth, cards in span.models
    ]


def says_nothing(event: Event) -> bool:
    """Whether the event is about the submitter of the job and names none."""
    return event.event in _NAMING and submitter_of(event) is None


def submitter_of(event: Event) -> str | None:
    """The submitter of the job, if the event names one."""
    if event.actor and event.actor != SCHEDULER:
        return event.actor
    named = event.detail.get("submitter")
    return named if isinstance(named, str) else None


class Piece(msgspec.Struct, frozen=True):
    """A span within one day and the window asked for: how long it held its cards, and how long before the job ran.

    Both in card-microseconds.
    """

    day: str
    amount: int
    held: int


def pieces(span: Span, since: datetime | None, until: datetime) -> Iterator[Piece]:
    """The span cut at the ends of the window and of each day; one that is open goes on to `until`."""
    start = span.bound if since is None else max(span.bound, since)
    end = until if span.ended is None else min(span.ended, until)
    ran = span.ran or span.ended or until
    cards = len(span.cards)
    # Of each card a whole number of microseconds, so that the sum over cards is what it was.
    of_card = (1, 1) if span.worth is None else (span.worth, quantity.CARD * cards)
    while start < end:
        midnight = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        stop = min(end, midnight + timedelta(days=1))
        held = max(timedelta(0), min(stop, ran) - start)
        amount, before = (span_ // _MICROSECOND * of_card[0] // of_card[1] * cards for span_ in (stop - start, held))
        yield Piece(midnight.date().isoformat(), amount, before)
        start = stop


class Amount(msgspec.Struct):
    """A sum: card-microseconds, those of them held before the job ran, and jobs; card-microseconds that nobody used
    before a workload was suspended for it, and those that were free after it.
    """

    amount: int = 0
    held: int = 0
    jobs: int = 0
    idle: int = 0
    free: int = 0


SumKey = tuple[str, str, str, str, str, str]
"""Day, queue, submitter, namespace, model, resource."""


def sums(closed: Iterable[Span], jobs: Mapping[str, Job]) -> dict[SumKey, Amount]:
    """What closed spans add to the sums. A job counts once in each month that it held cards in (see `Job.months`)."""
    found: defaultdict[SumKey, Amount] = defaultdict(Amount)
    for span in closed:
        assert span.ended is not None
        job = jobs[span.uid]
        parts = ((one.model, piece) for one in of_each_model(span) for piece in pieces(one, None, span.ended))
        for model, piece in parts:
            key = (piece.day, span.queue, span.submitter, span.namespace, model, span.resource)
            total = found[key]
            total.amount += piece.amount
            total.held += piece.held
            if piece.day[:7] not in job.months:
                job.months.add(piece.day[:7])
                total.jobs += 1
    return dict(found)


Key = Callable[[Span, Piece], str]
KEYS: Final[dict[str, Key]] = {
    "queue": lambda span, _: span.queue,
    "user": lambda span, _: span.submitter,
    "namespace": lambda span, _: span.namespace,
    "model": lambda span, _: span.model,
    "resource": lambda span, _: span.resource,
    "month": lambda _, piece: piece.day[:7],
    "job": lambda span, _: f"{span.namespace}/{span.job}",
    "node": lambda span, _: span.node,
}
"""What a report can be grouped by; `card` beside them counts each card by itself."""
SUMMED: Final = frozenset({"queue", "user", "namespace", "model", "resource", "month"})
"""Those that sums are kept of; the others come from spans, which leave with history."""

GroupKey = tuple[str, ...]
Mark = Callable[[GroupKey, Span, Piece], Hashable]


def table(
    spans: Iterable[Span],
    by: Sequence[str],
    *,
    since: datetime | None,
    until: datetime,
    mark: Mark = lambda key, span, _: (key, span.uid),
) -> dict[GroupKey, Amount]:
    """The spans within the window, grouped. Each distinct `mark` counts as a job, in the row where it came first.

    None counts nothing; by default each row counts the jobs that have a part in it.
    """
    found: defaultdict[GroupKey, Amount] = defaultdict(Amount)
    marked: set[Hashable] = {None}
    for span in chain.from_iterable(map(of_each_model, spans)):
        for piece in pieces(span, since, until):
            groups = {name: KEYS[name](span, piece) for name in by if name != CARD}
            for card in span.cards if CARD in by else (None,):
                share = 1 if card is None else len(span.cards)
                index = "?" if card is not None and card < 0 else card
                key = tuple(f"{span.node}#{index}" if name == CARD else groups[name] for name in by)
                total = found[key]
                total.amount += piece.amount // share
                total.held += piece.held // share
                if (sign := mark(key, span, piece)) not in marked:
                    marked.add(sign)
                    total.jobs += 1
    return dict(found)


def add(total: dict[GroupKey, Amount], more: Mapping[GroupKey, Amount]) -> None:
    """Add one table to another."""
    for key, amount in more.items():
        known = total.setdefault(key, Amount())
        known.amount += amount.amount
        known.held += amount.held
        known.jobs += amount.jobs
        known.idle += amount.idle
        known.free += amount.free


def rows(found: Mapping[GroupKey, Amount], by: Sequence[str]) -> list[dict[str, Any]]:
    """Rows `{…by, gpuHours, heldHours, jobs, idleHours, freeHours}`, largest first."""
    ordered = sorted(found.items(), key=lambda item: (-item[1].amount, item[0]))
    return [
        dict(zip(by, key, strict=True))
        | {"gpuHours": total.amount / HOUR, "heldHours": total.held / HOUR, "jobs": total.jobs}
        | {"idleHours": total.idle / HOUR, "freeHours": total.free / HOUR}
        for key, total in ordered
    ]
