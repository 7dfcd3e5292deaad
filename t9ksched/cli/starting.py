"""Options of `run` and `submit` about when jobs start, and the parameters of the service that they fill."""

import copy
from typing import Annotated, Any, Final

import typer

from t9ksched.model.errors import child
from t9ksched.model.names import (
    AFTER_ANNOTATION,
    AFTER_CANCEL_ANNOTATION,
    RESERVATION_ANNOTATION,
    START_AFTER_ANNOTATION,
    TIME_LIMIT_ANNOTATION,
)
from t9ksched.workloads.queueing import annotate, with_queue

OF_PARAMETERS: Final = {
    "timeLimit": "--time-limit",
    "startAfter": "--begin",
    "reservation": "--reservation",
    "after": "--after",
    "afterCancel": "--after-cancel",
    "array": "--array",
    child("metadata.annotations", AFTER_ANNOTATION): "--after",
    child("metadata.annotations", AFTER_CANCEL_ANNOTATION): "--after-cancel",
}
"""The options by the parameters, and by the annotations, that the service names in its faults."""
PANEL: Final = "Where and when"
AfterOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND/NAME[:any]",
        help="Start it once that job succeeded, with :any once it ended; repeatable.",
        rich_help_panel=PANEL,
    ),
]
ArrayOption = Annotated[
    str | None,
    typer.Option(
        metavar="0-99%8",
        help="A job for each index (1,3,5-9:2 too), 8 at once; each has T9K_ARRAY_INDEX.",
        rich_help_panel=PANEL,
    ),
]
AfterCancelOption = Annotated[
    bool, typer.Option("--after-cancel", help="End it once what it waits for can never come.", rich_help_panel=PANEL)
]


def after_query(after: list[str] | None, *, cancel: bool) -> dict[str, Any]:
    """What the service is told of jobs that are waited for."""
    return {"after": after or None, "afterCancel": True if cancel else None}


_ANNOTATIONS: Final = {
    "timeLimit": TIME_LIMIT_ANNOTATION,
    "startAfter": START_AFTER_ANNOTATION,
    "reservation": RESERVATION_ANNOTATION,
}


def with_query(obj: dict[str, Any], query: dict[str, Any]) -> dict[str, Any]:
    """The object as the service creates it with these parameters: with its queue, its limit, its start, its reservation
    and what it waits for.
    """
    queue, priority = query.get("queue"), query.get("priority")
    shown = copy.deepcopy(obj) if queue is None and priority is None else with_queue(obj, queue, priority)
    if query["after"]:
        annotate(shown, AFTER_ANNOTATION, ", ".join(query["after"]))
    if query["afterCancel"]:
        annotate(shown, AFTER_CANCEL_ANNOTATION, "true")
    for word, annotation in _ANNOTATIONS.items():
        if query[word] is not None:
            annotate(shown, annotation, str(query[word]))
    return shown
