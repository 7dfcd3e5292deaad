"""Webhooks, against a receiver on loopback: signed, and no way to make the service connect to where it must not."""

import base64
import hashlib
import hmac
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from t9ksched.model.outbound import parse_network
from t9ksched.notify import webhook
from t9ksched.notify.errors import NotSent
from t9ksched.notify.webhook import Webhooks
from tests.unit.notify.receiver import LOOPBACK, Receiver, receiving

SECRET = b"a secret of thirty-two bytes ..."
KEY = "whsec_" + base64.b64encode(SECRET).decode()
BODY = b'{"id": "one"}'


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


async def send(url: str, *, networks: Sequence[Any] = LOOPBACK, seconds: float = 30.0) -> None:
    await Webhooks(networks, lambda: 1_700_000_000.7, seconds).send(url, KEY, "one", BODY)


async def test_it_is_signed_so_that_a_receiver_can_check_it(receiver: Receiver) -> None:
    await send(f"{receiver.url}/hook?token=1")
    [(path, headers, body)] = receiver.got
    assert (path, body, headers["content-type"]) == ("/hook", BODY, "application/json")
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("one", "1700000000")
    expected = hmac.new(SECRET, b"one.1700000000." + BODY, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(expected).decode()


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_an_error_is_a_failure_and_nothing_of_the_answer_is_told(receiver: Receiver, status: int) -> None:
    receiver.answers["/hook"] = status
    with pytest.raises(NotSent, match=f"^it answered {status}$") as caught:
        await send(f"{receiver.url}/hook")
    assert not caught.value.gone


async def test_a_receiver_can_say_that_it_wants_no_more(receiver: Receiver) -> None:
    receiver.answers["/hook"] = 410
    with pytest.raises(NotSent, match="wants no more") as caught:
        await send(f"{receiver.url}/hook")
    assert caught.value.gone


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(receiver: Receiver, status: int) -> None:
    receiver.answers["/hook"] = status
    with pytest.raises(NotSent, match="redirects are not followed"):
        await send(f"{receiver.url}/hook")
    assert [path for path, _, _ in receiver.got] == ["/hook"]


async def test_what_hangs_is_given_up(receiver: Receiver) -> None:
    receiver.answers["/hook"] = "hang"
    with pytest.raises(NotSent, match="did not answer within"):
        await send(f"{receiver.url}/hook", seconds=0.3)
    assert receiver.hanging == 1


async def test_an_answer_without_an_end_is_not_read(receiver: Receiver) -> None:
    receiver.answers["/hook"] = "endless"
    await send(f"{receiver.url}/hook")


@pytest.mark.parametrize("answer", ["headers", "garbage"])
async def test_what_is_no_answer_is_a_failure(receiver: Receiver, answer: str) -> None:
    receiver.answers["/hook"] = answer
    with pytest.raises(NotSent, match="did not answer as HTTP does") as caught:
        await send(f"{receiver.url}/hook")
    assert "s3cret" not in str(caught.value)


async def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    with pytest.raises(NotSent, match="takes no connections"):
        await send(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"])
async def test_this_machine_is_refused_however_it_is_written(receiver: Receiver, host: str) -> None:
    port = receiver.url.rpartition(":")[2]
    for scheme in ("http", "https"):
        with pytest.raises(NotSent, match=r"in no public network|is not known|cannot be read") as caught:
            await send(f"{scheme}://{host}:{port}/hook", networks=())
        assert port not in str(caught.value)
    assert receiver.got == []


@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "[fd00:ec2::254]", "100.100.100.200"])
async def test_private_and_metadata_addresses_are_refused(host: str) -> None:
    with pytest.raises(NotSent, match=r"in no public network"):
        await send(f"https://{host}/latest/meta-data/")


async def test_a_name_with_one_private_address_among_public_ones_is_refused(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answer_with(monkeypatch, ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(NotSent, match=r"in no public network"):
        await send("https://rebind.example/", networks=())
    assert asked == ["rebind.example"]


async def test_a_name_is_resolved_once_and_that_address_is_connected_to(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it could be public when it is looked at, and private when it is connected to."""
    asked = answer_with(monkeypatch, ["127.0.0.1"])
    port = receiver.url.rpartition(":")[2]
    await send(f"http://rebind.example:{port}/hook")
    assert asked == ["rebind.example"]
    assert receiver.got[0][1]["host"] == f"rebind.example:{port}"


async def test_http_is_for_networks_that_are_not_public(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, ["8.8.8.8"])
    for networks in ((), LOOPBACK, (parse_network("8.8.8.0/24"),)):
        with pytest.raises(NotSent, match="must be https"):
            await send("http://public.example/", networks=networks)


@pytest.mark.parametrize("url", ["https://", "https://[/", "nonsense", "https://no-such-host.invalid/"])
async def test_what_names_no_host_is_a_failure(url: str) -> None:
    with pytest.raises(NotSent, match=r"names no host|cannot be read|is not known|must be https"):
        await send(url)


async def test_proxies_of_the_environment_are_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    await send(f"{receiver.url}/hook")
    assert len(receiver.got) == 1


def answer_with(monkeypatch: pytest.MonkeyPatch, found: Sequence[str]) -> list[str]:
    """Have every name resolve to these addresses; the names that are asked for."""
    asked: list[str] = []

    async def look(self: Any, host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr("asyncio.base_events.BaseEventLoop.getaddrinfo", look)
    return asked


def test_the_time_limit_is_short() -> None:
    assert webhook.SECONDS <= 30
