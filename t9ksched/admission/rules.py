"""The rules, one function each, in the order they are asked.

A workload larger than the whole quota is refused; one that does not fit at the moment waits, unless the queue has
`overQuota: Reject`. A closed queue refuses new work only. Limits count as requests, as Kubernetes defaults them. Pods
with resource claims are refused until they are supported. See `docs/decisions/0017-refuse-or-wait.md`.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

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
from t9ksched.model.duration import parse_duration
from t9ksched.model.errors import FieldError, child
from t9ksched.model.names import MAX_CARD_CONTAINER_NAME, SIGNAL_BEFORE_ANNOTATION, TIME_LIMIT_ANNOTATION
from t9ksched.model.quantity import from_units
from t9ksched.model.queue import Queue
from t9ksched.model.resources import is_card_resource
from t9ksched.workloads.shape import Template

_SHOWN = 10


def queue_exists(request: Request) -> Verdict:
    """The queue is there; else the nearest names are listed."""
    if request.queue is not None:
        return ALLOWED
    near = get_close_matches(request.queue_name, request.queue_names, n=3, cutoff=0.5)
    known = sorted(request.queue_names)
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    elif known:
        hint = f"queues are {', '.join(known[:_SHOWN])}{' …' if len(known) > _SHOWN else ''}"
    else:
        hint = "no queue is open to you yet"
    message = f"there is no queue {request.queue_name!r}"
    fault = FieldError(request.queue_path, f"{message}: {hint}")
    return refuse(QUEUE_NOT_FOUND, f"{message}: {hint}", [fault], "name an existing queue, or have this one created")


def queue_open(request: Request) -> Verdict:
    """The queue takes new workloads: it is neither closed nor draining."""
    queue = request.queue
    if queue is None or not (queue.spec.closed or queue.draining):
        return ALLOWED
    message = f"the queue {queue.name!r} is closed: it takes no new workloads; those already in it go on"
    remedy = "use another queue, or ask an administrator to open this one"
    if queue.draining:
        message = (
            f"the queue {queue.name!r} is draining: it takes no new workloads and starts none that wait; those that run"
            " go on"
        )
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
        for path, resources in _containers(request)
        if not any(resource in (resources.get(part) or {}) for part in ("requests", "limits"))
    ]
    return invalid(faults, "add the requests, or use a queue whose quota does not name them") if faults else ALLOWED


def within_quota(request: Request) -> Verdict:
    """The gang's minimum fits the whole quota; with `overQuota: Reject`, also what is left of it now."""
    queue = request.queue
    if queue is None:
        return ALLOWED
    whole = {
        name: (request.needs[name], limit)
        for name, limit in queue.spec.quota.items()
        if request.needs.get(name, 0) > limit
    }
    if whole:
        return _over(request, queue, whole, "the whole quota is", "ask for less, or use a queue with a larger quota")
    if queue.spec.over_quota == "Reject" and request.allocated is not None:
        left = {name: limit - request.allocated.get(name, 0) for name, limit in queue.spec.quota.items()}
        short = {
            name: (request.needs[name], rest)
            for name, rest in left.items()
            if request.needs.get(name, 0) > max(0, rest)
        }
        if short:
            remedy = "submit again when it has room, or use another queue; this one refuses rather than lets wait"
            left_is = "what is left of its quota now is"
            if request.judged_at:
                left_is = f"what was left of its quota when it was judged at {request.judged_at} was"
            return _over(request, queue, short, left_is, remedy)
    return ALLOWED


def time_limit_allowed(request: Request) -> Verdict:
    """A time limit, if given, is a duration and not longer than the queue's maxDuration; `0`, for none, is longer."""
    longest = request.queue.spec.duration if request.queue is not None else None
    faults = []
    for path, annotations in _annotations(request):
        text = annotations.get(TIME_LIMIT_ANNOTATION)
        if text is None:
            continue
        where = child(path, TIME_LIMIT_ANNOTATION)
        try:
            length = parse_duration(str(text))
        except ValueError as error:
            faults.append(FieldError(where, str(error)))
            continue
        if longest is not None and request.queue is not None and text and (length is None or length > longest):
            allowed = f"queue {request.queue.name!r} lets jobs run for {request.queue.spec.max_duration} at most"
            faults.append(FieldError(where, f"{text!r} is too long: {allowed}"))
    return invalid(faults, "write a time limit such as 4h, within what the queue allows") if faults else ALLOWED


def signal_readable(request: Request) -> Verdict:
    """How long before its time limit a job is told to stop, if that is said, is a duration."""
    faults = []
    for path, annotations in _annotations(request):
        try:
            parse_duration(str(annotations.get(SIGNAL_BEFORE_ANNOTATION) or ""))
        except ValueError as error:
            faults.append(FieldError(child(path, SIGNAL_BEFORE_ANNOTATION), str(error)))
    return invalid(faults, "write a time such as 5m, shorter than the time limit") if faults else ALLOWED


def claims_supported(request: Request) -> Verdict:
    """No template asks for devices by resource claims, which this scheduler does not place yet."""
    faults = [
        FieldError(
            f"{template.path}.resourceClaims", "resource claims are not supported: ask for cards in resources.limits"
        )
        for template in request.templates
        if template.spec.get("resourceClaims")
    ]
    return invalid(faults) if faults else ALLOWED


def card_names_fit(request: Request) -> Verdict:
    """A container that asks for cards has a name that fits into the annotation of its card indices."""
    faults = [
        FieldError(
            f"{path}.name",
            f"{name!r} has {len(name)} characters, and a container that asks for cards may have at most"
            f" {MAX_CARD_CONTAINER_NAME}: its card indices are kept in an annotation named after it",
        )
        for template in request.templates
        for part in ("containers", "initContainers")
        for path, name, resources in _named(template, part)
        if len(name) > MAX_CARD_CONTAINER_NAME and _asks_for_cards(resources)
    ]
    return invalid(faults, f"give it a name of at most {MAX_CARD_CONTAINER_NAME} characters") if faults else ALLOWED


def _named(template: Template, part: str) -> Iterator[tuple[str, str, Mapping[str, Mapping[str, object]]]]:
    """Path, name and resources of each container."""
    for index, container in enumerate(template.spec.get(part) or ()):
        yield f"{template.path}.{part}[{index}]", str(container.get("name") or ""), container.get("resources") or {}


def _asks_for_cards(resources: Mapping[str, Mapping[str, object]]) -> bool:
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return any(is_card_resource(name) and str(amount) != "0" for name, amount in asked.items())


def _annotations(request: Request) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Path and annotations of the object and of its pod templates, each once."""
    yield request.annotations_path, request.annotations
    for template in request.templates:
        path = f"{template.path.removesuffix('spec')}metadata.annotations"
        if path != request.annotations_path:
            yield path, template.metadata.get("annotations") or {}


def _containers(request: Request) -> Iterator[tuple[str, Mapping[str, Mapping[str, object]]]]:
    """Path and resources of every container of every template."""
    for template in request.templates:
        for part in ("containers", "initContainers"):
            for path, _, resources in _named(template, part):
                yield path, resources


def _over(request: Request, queue: Queue, short: Mapping[str, tuple[int, int]], limit_is: str, remedy: str) -> Verdict:
    numbers = [
        f"{name}: needs {from_units(name, need)}, {limit_is} {from_units(name, max(0, limit))}"
        for name, (need, limit) in sorted(short.items())
    ]
    message = f"{request.what} does not fit the quota of queue {queue.name!r} ({'; '.join(numbers)})"
    faults = [
        FieldError(child("quota.requests", name), text) for name, text in zip(sorted(short), numbers, strict=True)
    ]
    return refuse(OVER_QUOTA, message, faults, remedy)
