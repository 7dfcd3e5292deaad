"""Jobs as a service recorded them: `history`, a JSON document, or one JSON object a line.

Either jobs, as `t9ksched jobs -o json` and REST show them, or events of history, as REST and the table `history` have
them. Of a job that was started more than once, the run that ended it counts. Jobs that have not ended yet cannot be
replayed.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from t9ksched.model.errors import Invalid
from t9ksched.simulation.job import Job

_STARTS: Final = ("started", "admitted", "bound")
_ENDS: Final = ("finished", "deleted", "released")
"""Events that tell when a job began and ended, the best first."""
_SCHEDULER: Final = "scheduler"
Json = Mapping[str, Any]


def history(lines: Iterable[str]) -> Iterator[Job]:
    """The jobs in this text.

    Raises:
        Invalid: it is neither; the path is that of the field.
    """
    items = list(_items("".join(lines)))
    events: dict[str, list[tuple[float, Json, str]]] = {}
    for path, item in items:
        if "submittedAt" in item:
            yield _job(item, path)
        elif "event" in item:
            key = str(item.get("uid") or (item.get("namespace"), item.get("kind"), item.get("name")))
            events.setdefault(key, []).append((_moment(item, "at", path), item, path))
        else:
            raise Invalid.at(path, "it is neither a job (with submittedAt) nor an event (with event and at)")
    for key in events:
        if (found := _from_events(events[key])) is not None:
            yield found


def _items(text: str) -> Iterator[tuple[str, Json]]:
    """The objects of a document or of lines, each with its path."""
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError:
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield f"line {number}", _object(_decoded(line, f"line {number}"), f"line {number}")
        return
    listed = document
    if isinstance(document, dict):
        listed = document.get("items", [document])
    if not isinstance(listed, list):
        raise Invalid.at("items", "it must be a list of jobs or events")
    for at, item in enumerate(listed):
        yield f"items[{at}]", _object(item, f"items[{at}]")


def _decoded(line: str, path: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise Invalid.at(path, f"it is no JSON: {error}") from error


def _object(item: Any, path: str) -> Json:
    if not isinstance(item, dict):
        raise Invalid.at(path, "it must be an object")
    return item


def _job(item: Json, path: str) -> Job:
    """A job as REST shows it. One that has not ended has no run time, and is left out."""
    started, finished = item.get("startedAt"), item.get("finishedAt")
    limit = item.get("timeLimit") if isinstance(item.get("timeLimit"), dict) else {}
    assert isinstance(limit, dict)
    limited = limit.get("seconds") and limit.get("enforced", True)
    runs = _moment(item, "finishedAt", path) - _moment(item, "startedAt", path) if started and finished else 0.0
    return Job(
        name="/".join(str(item.get(name) or "") for name in ("namespace", "kind", "name")),
        submitted=_moment(item, "submittedAt", path),
        runs=runs,
        cards=_whole(item.get("gpus") or 0, f"{path}.gpus"),
        user=str(item.get("submitter") or ""),
        priority=_whole(item.get("priority") or 0, f"{path}.priority"),
        limit=_whole(limit["seconds"], f"{path}.timeLimit.seconds") if limited else None,
    )


def _from_events(events: list[tuple[float, Json, str]]) -> Job | None:
    """The job that these events are about; None where they are about none that asked for anything."""
    events.sort(key=lambda one: one[0])
    kinds = {str(item["event"]) for _, item, _ in events}
    if not kinds & {"submitted", "accepted", *_STARTS}:
        return None
    end = next((_last(events, kind) for kind in _ENDS if kind in kinds), None)
    start = next((_last(events, kind, end) for kind in _STARTS if kind in kinds), None)
    cards: dict[str, int] = {}
    user, priority = "", 0
    for _, item, path in events:
        detail = item.get("detail") or {}
        if not isinstance(detail, dict):
            raise Invalid.at(f"{path}.detail", "it must be an object")
        if item["event"] == "bound":
            cards[str(detail.get("pod"))] = _bound(detail, path)
        elif item["event"] in ("submitted", "accepted"):
            actor = item.get("actor")
            user = user or str((actor if actor != _SCHEDULER else None) or detail.get("submitter") or "")
            priority = _whole(detail.get("priority") or 0, f"{path}.detail.priority")
    first = events[0][1]
    return Job(
        name="/".join(str(first.get(name) or "") for name in ("namespace", "kind", "name")),
        submitted=events[0][0],
        runs=0.0 if start is None or end is None else end - start,
        cards=sum(cards.values()),
        user=user,
        priority=priority,
    )


def _last(events: list[tuple[float, Json, str]], kind: str, before: float | None = None) -> float | None:
    """When an event of this kind happened last, before that moment."""
    found = [at for at, item, _ in events if item["event"] == kind and (before is None or at < before)]
    return found[-1] if found else None


def _bound(detail: Json, path: str) -> int:
    """How many cards a pod was bound with: by index, and where they have none by number."""
    cards, counted = detail.get("cards") or {}, detail.get("counted") or {}
    if not isinstance(cards, dict) or not isinstance(counted, dict):
        raise Invalid.at(f"{path}.detail.cards", "it must be an object")
    named = {index for indices in cards.values() if isinstance(indices, list) for index in indices}
    whole = counted.values() if detail.get("mode") == "Whole" else ()
    return len(named) + sum(_whole(count, f"{path}.detail.counted") for count in whole)


def _whole(value: Any, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 1 << 53:
        raise Invalid.at(path, f"{value!r} must be a whole number")
    return value


def _moment(item: Json, name: str, path: str) -> float:
    """A time as RFC 3339, in seconds since the epoch; one without a zone is in UTC."""
    text = item.get(name)
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        raise Invalid.at(f"{path}.{name}", f"{text!r} must be a time such as 2026-11-23T17:00:00Z") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
