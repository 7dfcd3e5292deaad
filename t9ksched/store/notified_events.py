"""Which events of history users can be told of, and in what words. Pure."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from t9ksched.model import notification
from t9ksched.store import history
from t9ksched.store.history import Event

_FAILED: Final = "Failed"
_OVER: Final = frozenset({"Succeeded", _FAILED})


class Said(NamedTuple):
    """What an event means to users: its type, which subscriptions it answers, and a sentence."""

    type: str
    answers: frozenset[str]
    message: str


def said(event: Event) -> Said | None:
    """What to tell of an event; None if it is none that users are told of."""
    meaning = _MEANINGS.get(event.event)
    return None if meaning is None or not event.uid else meaning(event)


def _started(event: Event) -> Said:
    return _said(notification.STARTED, f"{_job(event)} runs")


def _finished(event: Event) -> Said:
    why = event.detail.get("message")
    more = f": {why}" if why else ""
    if event.detail.get("phase") == _FAILED:
        return _said(notification.FAILED, f"{_job(event)} failed{more}", notification.ENDED)
    return _said(notification.ENDED, f"{_job(event)} succeeded{more}")


def _deleted(event: Event) -> Said | None:
    """A job that was over is told of when it ends, not when its object goes."""
    phase = event.detail.get("phase")
    if phase in _OVER:
        return None
    return _said(notification.ENDED, f"{_job(event)} was deleted; it was {str(phase or 'Pending').lower()} before")


def _preempted(event: Event) -> Said:
    why = event.detail.get("why")
    return _said(notification.PREEMPTED, f"{_job(event)} is evicted" + (f": {why}" if why else ""))


def _plan_moved(event: Event) -> Said:
    return _said(notification.PLAN_MOVED, f"{_job(event)}: {event.detail.get('message', '')}")


def _time_limit_near(event: Event) -> Said:
    return _said(notification.TIME_LIMIT_NEAR, f"{_job(event)}: {event.detail.get('message', '')}")


def _suspension_near(event: Event) -> Said:
    return _said(notification.SUSPENSION_NEAR, f"{_job(event)}: {event.detail.get('message', '')}")


def _suspended(event: Event) -> Said:
    return _said(notification.SUSPENDED, f"{_job(event)}: {event.detail.get('message', '')}")


def _said(type_: str, message: str, *also: str) -> Said:
    return Said(type_, frozenset({type_, *also}), message[: history.TEXT])


def _job(event: Event) -> str:
    return f"{event.kind}/{event.name} in {event.namespace}"


_MEANINGS: Final[Mapping[str, Callable[[Event], Said | None]]] = {
    history.STARTED: _started,
    history.FINISHED: _finished,
    history.DELETED: _deleted,
    history.PREEMPTED: _preempted,
    history.PLAN_MOVED: _plan_moved,
    history.TIME_LIMIT_NEAR: _time_limit_near,
    history.SUSPENSION_NEAR: _suspension_near,
    history.SUSPENDED_IDLE: _suspended,
}
