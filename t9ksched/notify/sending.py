"""Sends one notification to wherever its target is."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from t9ksched.model.notification import WEBHOOK
from t9ksched.notify.services import Services
from t9ksched.notify.webhook import Webhooks
from t9ksched.store.notifications import Target, Waiting

Send = Callable[[Target, Waiting], Awaitable[None]]
"""Sends it once, or raises `NotSent`."""


def sender(webhooks: Webhooks, services: Services) -> Send:
    """Sends by these ways."""

    async def send(target: Target, one: Waiting) -> None:
        body: Mapping[str, Any] = one.body
        if target.kind == WEBHOOK:
            await webhooks.send(target.url, target.key, str(body["id"]), msgspec.json.encode(body))
        else:
            await services.send(target.kind, target.url, title(body), str(body["message"]))

    return send


def to_the_public() -> Send:
    """Sends to webhooks in public networks, and nowhere else."""
    return sender(Webhooks(), Services())


def title(body: Mapping[str, Any]) -> str:
    """A line for people: what happened to which job."""
    job = f" {body['kind']}/{body['name']}" if body.get("name") else ""
    return f"t9ksched{job}: {body['type']}"
