"""Mail and services, by the library itself, to receivers on loopback; and nothing secret is logged."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from t9ksched.notify import services
from t9ksched.notify.errors import NotSent
from t9ksched.notify.services import Services, to_person
from tests.unit.notify.receiver import receiving


@asynccontextmanager
async def mail_server(refuse: bool = False) -> AsyncIterator[tuple[int, list[str]]]:
    """A server that speaks as much SMTP as is needed: its port, and the lines it got."""
    lines: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 test\r\n")
        in_text = False
        while line := (await reader.readline()).decode().rstrip("\r\n"):
            lines.append(line)
            word = line.upper()[:4]
            if word == "DATA":
                in_text = True
                writer.write(b"354 go on\r\n")
                while (part := (await reader.readline()).decode().rstrip("\r\n")) != ".":
                    lines.append(part)
            if word == "QUIT":
                writer.write(b"221 bye\r\n")
                break
            if word != "DATA" or in_text:
                writer.write(b"550 no s3cret\r\n" if refuse and word == "RCPT" else b"250 ok\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], lines
    finally:
        server.close()


async def test_mail_goes_to_one_person_by_the_server_that_was_set() -> None:
    async with mail_server() as (port, lines):
        sender = Services(mail=f"mailto://127.0.0.1:{port}?from=t9ksched@example.org")
        await sender.send("mail", "mailto:ann@example.org", "t9ksched Job/a: failed", "it failed")
    assert [line.upper() for line in lines if line.upper().startswith("RCPT")] == ["RCPT TO:<ANN@EXAMPLE.ORG>"]
    assert any("t9ksched Job/a: failed" in line for line in lines)


async def test_what_the_server_refuses_is_a_failure_and_nothing_secret_is_told(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with mail_server(refuse=True) as (port, _):
        sender = Services(mail=f"mailto://127.0.0.1:{port}?from=t9ksched@example.org")
        with pytest.raises(NotSent, match=r"^mail did not take it: check the address$"):
            await sender.send("mail", "mailto:s3cret@example.org", "title", "text")
    said = capfd.readouterr()
    assert "s3cret" not in caplog.text + said.out + said.err


@pytest.mark.parametrize(("status", "taken"), [(200, True), (500, False), (302, False)])
async def test_a_service_is_sent_to_by_the_library_and_redirects_are_not_followed(status: int, taken: bool) -> None:
    async with receiving() as receiver:
        receiver.answers["/s3cret"] = status
        url = receiver.url.replace("http:", "json:") + "/s3cret"
        send = Services(("json",)).send("json", url, "title", "text")
        if taken:
            await send
        else:
            with pytest.raises(NotSent, match=r"^json did not take it"):
                await send
    assert [path for path, _, _ in receiver.got] == ["/s3cret"]


async def test_a_service_that_hangs_is_given_up() -> None:
    async with receiving() as receiver:
        receiver.answers["/hang"] = "hang"
        url = receiver.url.replace("http:", "json:") + "/hang"
        with pytest.raises(NotSent, match=r"json did not answer within 0\.2 seconds"):
            await Services(("json",), seconds=0.2).send("json", url, "title", "text")


async def test_what_is_not_allowed_any_more_is_not_sent() -> None:
    with pytest.raises(NotSent, match="administrators allow no notifications by slack any more"):
        await Services(("feishu",)).send("slack", "slack://a/b/c", "title", "text")
    with pytest.raises(NotSent, match="no mail server is set"):
        await Services().send("mail", "mailto:ann@example.org", "title", "text")
    with pytest.raises(NotSent, match="did not take it"):
        await Services(("nonsense",)).send("nonsense", "nonsense://x", "title", "text")


async def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "find_spec", lambda _: None)
    with pytest.raises(NotSent, match=r"t9ksched\[notify\]"):
        await Services(("slack",)).send("slack", "slack://a/b/c", "title", "text")


def test_the_person_is_added_to_the_servers_url() -> None:
    assert to_person("mailtos://h", "a+b@example.org") == "mailtos://h?to=a%2Bb%40example.org"
    assert to_person("mailtos://h?from=x@y.z", "a@b.c") == "mailtos://h?from=x@y.z&to=a%40b.c"
