"""Rules about a gang and its queue, one function each: whether it takes new work, what it must declare, its quota.

A workload larger than the whole quota is refused; one that does not fit at the moment waits, unless the queue has
`overQuota: Reject`. A closed queue refuses new work only. Limits count as requests, as Kubernetes defaults them. See
`docs/decisions/0017-refuse-or-wait.md`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches

from t9ksched.admission.forms import containers
from t9ksched.admission.request import Request
from t9ksched.admission.verdict import (
    ALLOWED,
    OVER_QUOTA,
    QUEUE_CLOSED,
    QUEUE_NOT_FOUND,
    Verdict,
    invalid,
    refuse,
)
from t9ksched.model.card_requests import is_part, written
from t9ksched.model.card_worth import least_cards
from t9ksched.model.cardchoice import WHOLE_CARDS, card_choice, kinds
from t9ksched.model.duration import parse_duration
from t9ksched.model.errors import FieldError, child
from t9ksched.model.names import (
    AFTER_ANNOTATION,
    AFTER_CANCEL_ANNOTATION,
    ARRAY_ANNOTATION,
    SIGNAL_BEFORE_ANNOTATION,
    START_AFTER_ANNOTATION,
    TIME_LIMIT_ANNOTATION,
)
from t9ksched.model.quantity import CARDS, from_units
from t9ksched.model.queue import Queue, closed_to_new, queue_missing
from t9ksched.model.wall_clock import parse_moment
from t9ksched.workloads.arrays import read_element
from t9ksched.workloads.dependencies import read_after

_SHOWN = 10


def queue_exists(request: Request) -> Verdict:
    """The queue is there; else the nearest names are listed."""
    if request.queue is not None:
        return ALLOWED
    message = queue_missing(request.queue_name)
    if request.queue_names is not None:
        message = f"{message}: {_hint(request.queue_name, request.queue_names)}"
    fault = FieldError(request.queue_path, message)
    return refuse(QUEUE_NOT_FOUND, message, [fault], "name an existing queue, or have this one created")


def queue_open(request: Request) -> Verdict:
    """The queue takes new workloads: it is neither closed nor draining."""
    queue = request.queue
    if queue is None or not (queue.spec.closed or queue.draining):
        return ALLOWED
    message = closed_to_new(queue.name, draining=queue.draining)
    remedy = "use another queue, or ask an administrator to open this one"
    if queue.draining:
        remedy = (
            "use another queue: this one is being emptied, and takes workloads again once an administrator opens it"
        )
    return refuse(QUEUE_CLOSED, message, [FieldError(request.queue_path, message)], remedy)


def requests_declared(request: Request) -> Verdict:
    """Where the quota names cpu or memory, every container says how much it wants (a limit counts as a request)."""
    if request.queue is None:
        return ALLOWED
    named = [resource for resource in ("cpu", "memory") if resource in request.queue.spec.quota]
    faults = [
        FieldError(
            f"{path}.resources.requests.{resource}",
            f"is missing: queue {request.queue.name!r} has a quota of {resource}, so every container must request it",
        )
        for resource in named
        for path, _, resources in containers(request.templates)
        if not any(resource in (resources.get(part) or {}) for part in ("requests", "limits"))
    ]
    return invalid(faults, "add the requests, or use a queue whose quota does not name them") if faults else ALLOWED


def within_quota(request: Request) -> Verdict:
    """The gang's minimum fits the whole quota; with `overQuota: Reject`, also what is left of it now."""
    queue = request.queue
    if queue is None:
        return ALLOWED
    needs = request.needs
    if CARDS in queue.spec.quota:
        needs = {**needs, CARDS: least_cards(needs, _shared(request, queue))}
    whole = {name: (needs[name], limit) for name, limit in queue.spec.quota.items() if needs.get(name, 0) > limit}
    if whole:
        return _over(request, queue, whole, "the whole quota is", "ask for less, or use a queue with a larger quota")
    if queue.spec.over_quota == "Reject" and request.allocated is not None:
        fresh = needs if request.fresh is None else request.fresh
        if CARDS in queue.spec.quota and request.fresh is not None:
            fresh = {**fresh, CARDS: least_cards(fresh, _shared(request, queue))}
        left = {name: limit - request.allocated.get(name, 0) for name, limit in queue.spec.quota.items()}
        short = {name: (fresh[name], rest) for name, rest in left.items() if fresh.get(name, 0) > max(0, rest)}
        if short:
            remedy = "submit again when it has room, or use another queue; this one refuses rather than lets wait"
            left_is = "what is left of its quota now is"
            if request.judged_at:
                left_is = f"what was left of its quota when it was judged at {request.judged_at} was"
            return _over(request, queue, short, left_is, remedy)
    return ALLOWED


def _shared(request: Request, queue: Queue) -> Iterator[str]:
    """Resources of cards of which pods may get a part, on some nodes: what that is of a card is known when they have a
    node, so that it is not judged before.
    """
    for template in request.templates:
        said = template.annotations
        choice = card_choice(said, ())
        affine = bool((template.spec.get("affinity") or {}).get("nodeAffinity"))
        chosen = tuple(sorted((str(key), str(value)) for key, value in template.node_selector.items()))
        if not affine and kinds(choice, True, chosen, None, queue.spec.node_selector) == (WHOLE_CARDS,):
            named = {name for _, _, resources in containers((template,)) for name in resources.get("limits") or {}}
            if not written(said) and not any(is_part(name) for name in named):
                continue
        yield from template.requests


def time_limit_allowed(request: Request) -> Verdict:
    """A time limit, if given, is a duration and not longer than the queue's maxDuration; `0`, for none, is longer."""
    faults = []
    for path, annotations in _annotations(request):
        text = annotations.get(TIME_LIMIT_ANNOTATION)
        if text is None:
            continue
        where = child(path, TIME_LIMIT_ANNOTATION)
        try:
            fault = limit_fault(str(text), request.queue)
        except ValueError as error:
            fault = str(error)
        if fault:
            faults.append(FieldError(where, fault))
    return invalid(faults, "write a time limit such as 4h, within what the queue allows") if faults else ALLOWED


def limit_fault(text: str, queue: Queue | None) -> str:
    """Why a queue does not let a job run for as long as `text` says; empty if it does, or there is no queue.

    REST refuses such a limit; of an object that is there already the scheduler reduces it to what the queue allows.

    Raises:
        ValueError: `text` is no duration; its message says what is one.
    """
    length = parse_duration(text)
    longest = queue.spec.duration if queue is not None else None
    if queue is None or longest is None or not text or (length is not None and length <= longest):
        return ""
    return f"{text!r} is too long: queue {queue.name!r} lets jobs run for {queue.spec.max_duration} at most"


def signal_readable(request: Request) -> Verdict:
    """How long before its time limit a job is told to stop, if that is said, is a duration, shorter than the limit that
    stands beside it.
    """
    faults = []
    for path, annotations in _annotations(request):
        if not (text := annotations.get(SIGNAL_BEFORE_ANNOTATION)):
            continue
        try:
            early = parse_duration(str(text))
        except ValueError as error:
            faults.append(FieldError(child(path, SIGNAL_BEFORE_ANNOTATION), str(error)))
            continue
        with suppress(ValueError):  # what is wrong with the limit is told by `time_limit_allowed`
            limit = parse_duration(str(annotations.get(TIME_LIMIT_ANNOTATION) or ""))
            if early and limit and early >= limit:
                told = f"{text!r} is not shorter than the time limit, {annotations[TIME_LIMIT_ANNOTATION]!r}"
                faults.append(FieldError(child(path, SIGNAL_BEFORE_ANNOTATION), told))
    return invalid(faults, "write a time such as 5m, shorter than the time limit") if faults else ALLOWED


def start_time_readable(request: Request) -> Verdict:
    """The moment before which a job is not to start, if it names one, is an RFC 3339 time."""
    faults = []
    for path, annotations in _annotations(request):
        if (text := annotations.get(START_AFTER_ANNOTATION)) is None:
            continue
        try:
            parse_moment(text)
        except ValueError as error:
            faults.append(FieldError(child(path, START_AFTER_ANNOTATION), str(error)))
    return invalid(faults, "write a time with its offset, such as 2030-01-31T20:00:00+08:00") if faults else ALLOWED


def array_readable(request: Request) -> Verdict:
    """The array that a job says it is an element of, if it says so, is one."""
    if (text := request.annotations.get(ARRAY_ANNOTATION)) is None:
        return ALLOWED
    try:
        read_element(str(text))
    except ValueError as error:
        fault = FieldError(child(request.annotations_path, ARRAY_ANNOTATION), str(error))
        return invalid([fault], "submit one object with ?array=0-99%8, or write sweep[7]%8")
    return ALLOWED


def dependencies_readable(request: Request) -> Verdict:
    """The jobs that a job waits for, if it names any, can be waited for, and stand on the job's own object, where they
    are read.
    """
    faults = []
    for path, annotations in _annotations(request):
        text, cancel = annotations.get(AFTER_ANNOTATION), annotations.get(AFTER_CANCEL_ANNOTATION)
        if text is not None and path != request.annotations_path and text != request.annotations.get(AFTER_ANNOTATION):
            told = f"is not read here: write it into {request.annotations_path}"
            faults.append(FieldError(child(path, AFTER_ANNOTATION), told))
        elif text is not None:
            try:
                read_after(str(text))
            except ValueError as error:
                faults.append(FieldError(child(path, AFTER_ANNOTATION), str(error)))
        if cancel is not None and str(cancel) not in ("true", "false"):
            faults.append(FieldError(child(path, AFTER_CANCEL_ANNOTATION), f"{cancel!r} is neither 'true' nor 'false'"))
    return invalid(faults, "write jobs of the namespace, such as Job/prep, MPIJob/walk:any") if faults else ALLOWED


def _annotations(request: Request) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Path and annotations of the object and of its pod templates, each once."""
    yield request.annotations_path, request.annotations
    for template in request.templates:
        path = f"{template.path.removesuffix('spec')}metadata.annotations"
        if path != request.annotations_path:
            yield path, template.metadata.get("annotations") or {}


def _hint(name: str, known: Sequence[str]) -> str:
    if near := get_close_matches(name, known, n=3, cutoff=0.5):
        return f"did you mean {' or '.join(near)}?"
    if known:
        return f"queues are {', '.join(sorted(known)[:_SHOWN])}{' …' if len(known) > _SHOWN else ''}"
    return "no queue is open to you yet"


def _over(request: Request, queue: Queue, short: Mapping[str, tuple[int, int]], limit_is: str, remedy: str) -> Verdict:
    needs = {name: need for name, (need, _) in sorted(short.items())}
    has = {name: max(0, limit) for name, (_, limit) in sorted(short.items())}
    numbers = [
        f"{name}: needs {from_units(name, need)}, {limit_is} {from_units(name, has[name])}"
        for name, need in needs.items()
    ]
    message = f"{request.what} does not fit the quota of queue {queue.name!r} ({'; '.join(numbers)})"
    faults = [FieldError(child("quota.requests", name), text) for name, text in zip(needs, numbers, strict=True)]
    return replace(refuse(OVER_QUOTA, message, faults, remedy), needs=needs, has=has)
