"""Parameters of an address and its query, checked once for all endpoints.

A parameter that an endpoint does not read is refused, because with a misspelt filter the answer would hold too much.
Names go into addresses of the cluster's API and into the log: a text that cannot be a name is refused here.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from t9ksched.admission.oddities import nearest
from t9ksched.api.http.problems import invalid
from t9ksched.model.dns import is_label, is_subdomain
from t9ksched.model.errors import FieldError
from t9ksched.model.queue import MAX_PRIORITY
from t9ksched.model.timelimit import limit_seconds
from t9ksched.model.wall_clock import parse_moment
from t9ksched.workloads.dependencies import MOST, read_after, written
from t9ksched.workloads.podgroups import system_titled

_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_SHOWN: Final = 100
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
StartAfter = Annotated[
    str | None,
    Query(
        alias="startAfter", description="Not before this time (RFC 3339); wins over the object's own", max_length=100
    ),
]
QueueName = Annotated[str | None, Query(description="Wins over the object's own", min_length=1, max_length=63)]
JobPriority = Annotated[
    int | None, Query(ge=0, le=MAX_PRIORITY, description="Within the queue; wins over the object's own")
]
TimeLimit = Annotated[
    str | None, Query(alias="timeLimit", description="Such as 4h; wins over the object's own", max_length=100)
]
ReservationName = Annotated[
    str | None, Query(description="Use this reservation and no other room; wins over the object's own", max_length=63)
]
After = Annotated[
    list[str] | None,
    Query(
        max_length=MOST,
        description="A job of the namespace that must have succeeded before, such as Job/prep, or have ended, such as"
        " Job/prep:any; repeatable; wins over the object's own",
    ),
]
AfterCancel = Annotated[
    bool | None,
    Query(alias="afterCancel", description="End it once what it waits for can never come; wins over the object's own"),
]
InArray = Annotated[
    str | None,
    Query(
        alias="array",
        max_length=2000,
        description="Make of the one object a job for each of these indices, such as 0-99, 1,3,5 or 0-98:2; with %8"
        " behind them 8 run at once at the most. Each is called NAME-INDEX, and has its index in T9K_ARRAY_INDEX",
    ),
]


def _is_kind(text: str) -> bool:
    """Whether a text can name a kind, alone or with its group, or version and group, behind a dot."""
    kind, dot, group = text.partition(".")
    return _KIND.fullmatch(kind) is not None and (not dot or is_subdomain(group.lower()))


_CHECKS: Final[dict[str, tuple[Callable[[str], object], str]]] = {
    "namespace": (is_label, "a namespace: use at most 63 of a-z, 0-9 and -, a letter or digit at both ends"),
    "name": (is_subdomain, "a name: use at most 253 of a-z, 0-9, - and ., a letter or digit at both ends"),
    "pod": (is_subdomain, "the name of a pod: use at most 253 of a-z, 0-9, - and ., a letter or digit at both ends"),
    "queue": (is_label, "the name of a queue: use at most 63 of a-z, 0-9 and -, a letter or digit at both ends"),
    "reservation": (is_label, "the name of a reservation: use at most 63 of a-z, 0-9 and -"),
    "kind": (_is_kind, "a kind: use letters and digits, with its group behind a dot where two have it"),
}


async def known_parameters(request: Request) -> None:
    """Refuse parameters that an endpoint does not read, and names that cannot be.

    Raises:
        Problem: `InvalidField` with the parameters, an unknown one with the nearest that there is.
    """
    faults = [*_names(request), *_unknown(request)]
    if faults:
        raise invalid(faults)


def _names(request: Request) -> Iterator[FieldError]:
    places = (("path", request.path_params.items()), ("query", request.query_params.multi_items()))
    for place, given in places:
        for key, value in given:
            check, what = _CHECKS.get(key, (None, ""))
            if key == "name" and _groups(request, place) and system_titled(str(value)) is not None:
                continue  # a group that pods name has no object: its name here says in which way they do
            if check is not None and value and not check(str(value)):
                shown = str(value)[:_SHOWN]
                yield FieldError(f"{place}.{key}", f"{shown!r} is not {what}")


def _groups(request: Request, place: str) -> bool:
    """Whether an address names a PodGroup, or a query jobs that may be PodGroups."""
    kind = request.path_params.get("kind", "") if place == "path" else request.query_params.get("kind", "podgroup")
    return str(kind).lower().startswith("podgroup")


def _unknown(request: Request) -> Iterator[FieldError]:
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = sorted(_read(route.dependant))
    for name in request.query_params:
        if name not in known:
            yield _fault(name, known)


def _read(dependant: Dependant) -> set[str]:
    """The parameters that an endpoint and what it depends on read."""
    found = {field.alias for field in dependant.query_params}
    return found.union(*(_read(one) for one in dependant.dependencies))


def _fault(name: str, known: list[str]) -> FieldError:
    if (near := nearest(name, known)) is not None:
        hint = f"did you mean {near}?"
    elif known:
        hint = f"the parameters are {', '.join(known)}"
    else:
        hint = "there are no parameters here"
    return FieldError(f"query.{name[:_SHOWN]}", f"is unknown: {hint}")


def moment_text(text: str | None, path: str) -> str | None:
    """Check a moment of a request.

    Raises:
        Problem: it is no RFC 3339 time.
    """
    if text is not None:
        try:
            parse_moment(text)
        except ValueError as error:
            raise invalid([FieldError(path, str(error))]) from None
    return text


def after_text(texts: list[str] | None) -> str | None:
    """The jobs that are waited for, as annotations name them.

    Raises:
        Problem: one of the texts names none.
    """
    if texts is None:
        return None
    try:
        return written(read_after(",".join(texts)))
    except ValueError as error:
        raise invalid([FieldError("after", str(error))]) from None


def among(description: str, values: Sequence[str]) -> Any:
    """A query parameter that takes several of these values; the endpoint refuses others itself, in its own words."""
    several = {"type": "array", "maxItems": 20, "items": {"type": "string", "enum": list(values)}}
    return Query(description=description, max_length=20, json_schema_extra={"anyOf": [several, {"type": "null"}]})


def one_of(values: Sequence[str], value: str, path: str, noun: str) -> str:
    """The value of the parameter `path`, which is a `noun`.

    Raises:
        Problem: it is none of `values`: the most alike is named, else all are.
    """
    if value in values:
        return value
    near = nearest(value, values)
    hint = f"did you mean {near}?" if near else f"they are {', '.join(values)}"
    raise invalid([FieldError(path, f"{value[:_SHOWN]!r} is no {noun}: {hint}")])


def span(since: datetime | None, until: datetime | None) -> tuple[datetime | None, datetime | None]:
    """Two moments of a query in UTC, which is meant where no zone is named. Those at the ends of the calendar are moved
    by a day, so that a margin can be added.

    Raises:
        Problem: one is beyond the calendar, or they are in the wrong order.
    """
    begin, end = _in_utc("since", since), _in_utc("until", until)
    if begin is not None and end is not None and begin > end:
        raise invalid([FieldError("query.since", "is after until")])
    return begin, end


def _in_utc(name: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    try:
        found = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (OverflowError, ValueError):
        raise invalid([FieldError(f"query.{name}", "is no time this service can count with")]) from None
    return min(max(found, _FIRST), _LAST)


def limit_text(text: str | None, path: str = "timeLimit") -> str | None:
    """Parse a time limit of a request.

    Raises:
        Problem: it cannot be read.
    """
    if text is not None:
        if not text.strip():
            raise invalid([FieldError(path, "is empty: name a duration such as 4h or 1h30m, or 0 for no limit")])
        try:
            limit_seconds(text)
        except ValueError as error:
            raise invalid([FieldError(path, str(error))]) from None
    return text
