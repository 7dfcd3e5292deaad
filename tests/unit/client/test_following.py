"""A place in the stream is kept over breaks, and a stream that ends for good is not asked for again."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from t9ksched.client.async_client import AsyncClient
from t9ksched.client.calls import Call
from t9ksched.client.errors import Misunderstood, Refused, Unreachable
from t9ksched.client.following import Following

READY = b"retry: 2000\nevent: ready\nid: 4\ndata: {}\n\n"
AWAY = Unreachable("http://x", "away")


def event(number: int) -> bytes:
    body = f'{{"id":{number},"type":"started","about":"job","at":"2026-01-01T00:00:00Z"}}'
    return f"id: {number}\ndata: {body}\n\n".encode()


def following(after: int | None = None, **filters: Any) -> tuple[Following, list[float]]:
    now = [0.0]
    return Following(after, filters, 60.0, lambda: now[0]), now


def test_it_goes_on_where_it_stopped() -> None:
    stream, _ = following(queue=["a"])
    first = stream.call()
    assert first.url("") == "/apis/v1/events?queue=a"
    assert [one.id for one in stream.heard(READY + event(5) + event(7)[:20])] == [5]
    assert stream.broken(AWAY) > 0
    assert stream.call().url("") == "/apis/v1/events?queue=a&after=5"
    assert [one.id for one in stream.heard(READY.replace(b"4", b"5") + event(7))] == [7]
    assert stream.heard(b"id: 90\n\n") == []
    assert (stream.broken(None) > 0, stream.after) == (True, 90)


def test_from_now_on_is_the_place_that_the_service_named() -> None:
    stream, _ = following()
    stream.heard(READY)
    stream.broken(AWAY)
    assert stream.call().query["after"] == 4


def test_a_service_that_stops_is_asked_again() -> None:
    stream, _ = following()
    stream.heard(READY + b'event: end\ndata: {"code":"Unavailable","message":"stops"}\n\n')
    assert stream.broken(None) > 0
    assert stream.broken(Refused(503, "Unavailable", "stops", retry_after=9.0)) == 9.0


@pytest.mark.parametrize(
    "error",
    [
        Refused(401, "Unauthenticated", "revoked"),
        Refused(422, "InvalidField", "bad filter"),
        Misunderstood("no event"),
        Unreachable("http://x", "self-signed", trusted=False),
    ],
)
def test_what_does_not_pass_is_raised(error: Exception) -> None:
    stream, _ = following()
    with pytest.raises(type(error)):
        stream.broken(error)


def test_a_token_that_is_worth_nothing_any_more_ends_it() -> None:
    stream, _ = following()
    stream.heard(READY + b'event: end\ndata: {"code":"Unauthenticated","message":"revoked"}\n\n')
    with pytest.raises(Refused, match="revoked"):
        stream.broken(None)


def test_patience_ends() -> None:
    stream, now = following()
    pauses = []
    while now[0] <= 60.0:
        pauses.append(stream.broken(AWAY))
        now[0] += pauses[-1]
    with pytest.raises(Unreachable, match="away"):
        stream.broken(AWAY)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 5.0
    stream.heard(b":\n\n")
    assert stream.broken(AWAY) == pauses[0]


def test_an_event_that_is_none() -> None:
    stream, _ = following()
    with pytest.raises(Misunderstood):
        stream.heard(b'id: 5\ndata: {"id":"x"}\n\n')


async def test_who_stops_listening_hangs_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hung_up: list[bool] = []

    async def stream(_: Call) -> AsyncGenerator[bytes, None]:
        try:
            yield READY + event(7)
        finally:
            hung_up.append(True)

    async with AsyncClient("http://127.0.0.1:1", "secret") as client:
        monkeypatch.setattr(client._transport, "stream", stream)
        events = client.events()
        assert (await anext(events)).id == 7
        await events.aclose()
        assert hung_up == [True]
