"""Notifications: where users want to be told, and of what."""

from typing import Literal

from t9ksched.api.schemas.base import Body, Continue, Shape

NotifiedEvent = Literal[
    "started", "ended", "failed", "preempted", "plan-moved", "time-limit-near", "suspension-near", "suspended"
]


class NotificationBody(Body):
    """An address to be told. `url` is a webhook (`https://…`), `mailto:NAME@HOST`, or a service such as `slack://…`;
    which of these are allowed, administrators say. With `queue` it is told of all jobs of that queue, which needs a
    manager of it; without one of the jobs of the user. `events` are all if absent. `ended` is told however a job ends,
    `failed` only if it failed.
    """

    url: str
    events: list[NotifiedEvent] | None = None
    queue: str | None = None


class NotificationShape(Shape):
    """An address that is told what happens, without what is secret about it. `failures` are those in a row; after 20 it
    is disabled (`disabledAt`), and a test that succeeds enables it. `lastError` is null if the last attempt succeeded.
    `within` are the only queues whose jobs are told, as the token was valid for these when it was made; empty: all.
    """

    id: str
    user: str
    queue: str | None
    within: list[str]
    kind: str
    address: str
    events: list[NotifiedEvent]
    createdAt: str
    failures: int
    disabledAt: str | None
    lastAttemptAt: str | None
    lastError: str | None


class NewNotification(NotificationShape):
    """An address that was added. `key` is what its webhooks are signed with, shown this once; null for others."""

    key: str | None


class Notifications(Shape):
    """Several addresses."""

    items: list[NotificationShape]
    continue_: Continue


class NotificationTest(Shape):
    """A test that is to be sent. `notification` is the `id` in what the receiver gets."""

    notification: str
