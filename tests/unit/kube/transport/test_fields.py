"""Header fields of HTTP/2, as the library `hpack` reads and writes them."""

import hpack
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec import structs

from t9ksched.kube.transport.fields import FieldWriter, StatusReader
from t9ksched.kube.transport.message import Origin, Request

POST = Request("POST", "/api/v1/x", b"{}", authorization="Bearer t")
ORIGIN = Origin("https", "h:6443", (("User-Agent", "t"), ("Accept", "application/json")))
Headers = list[tuple[str, str]]


def decoded(decoder: hpack.Decoder, block: bytes) -> dict[str, str]:
    return {str(name): str(value) for name, value in decoder.decode(block)}


TOKENS = st.sampled_from([None, "Bearer a", "Bearer b", "Bearer " + "c" * 1500, "Bearer " + "d" * 5000])
REQUESTS = st.builds(
    Request,
    st.sampled_from(["GET", "POST", "PATCH", "DELETE"]),
    st.integers(0, 400).map(lambda size: "/" + "p" * size),
    st.sampled_from([None, b"{}", b"x" * 200]),
    st.sampled_from(["application/json", "application/merge-patch+json"]),
    TOKENS,
)
STEPS = st.lists(st.one_of(REQUESTS, st.sampled_from([0, 100, 700, 4096, 9999])), max_size=40)


@hypothesis_settings(deadline=None)
@given(STEPS)
def test_a_decoder_of_any_table_reads_what_was_written(steps: list[Request | int]) -> None:
    writer, decoder = FieldWriter(ORIGIN), hpack.Decoder()
    for step in steps:
        if isinstance(step, int):
            writer.table_size(step)
            decoder.max_allowed_table_size = max(step, 4096)
            continue
        expected = {":method": step.method, ":scheme": "https", ":authority": "h:6443", ":path": step.target}
        expected |= {"user-agent": "t", "accept": "application/json"}
        if step.authorization:
            expected["authorization"] = step.authorization
        if step.body is not None:
            expected |= {"content-type": step.content_type, "content-length": str(len(step.body))}
        assert decoded(decoder, writer.block(step)) == expected


def test_what_is_common_is_told_once() -> None:
    writer = FieldWriter(ORIGIN)
    first, second, third = (len(writer.block(POST)) for _ in range(3))
    assert first > 50
    assert second == third < 30


def test_long_credentials_are_never_kept() -> None:
    writer, decoder = FieldWriter(ORIGIN), hpack.Decoder()
    secret = "Bearer " + "s" * 3000
    for _ in range(2):
        decoded(decoder, writer.block(structs.replace(POST, authorization=secret)))
    assert all(value != secret.encode() for _, value in decoder.header_table.dynamic_entries)


@pytest.mark.parametrize("kept", [0x00, 0x10, 0x40])
@pytest.mark.parametrize("index", range(8, 15))
@pytest.mark.parametrize("value", [b"\x03201", b"\x82\x10\x03"])
def test_a_status_of_success_is_read_without_the_library(
    kept: int, index: int, value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = StatusReader()
    monkeypatch.setattr(reader, "_decoder", None)
    assert reader.read(bytes((kept + index,)) + value + b"\x00\x01x\x01y") == (201, "")


@given(
    st.sampled_from([200, 201, 202, 204, 206, 299, 301, 404, 409, 429, 500, 503]),
    st.booleans(),
    st.lists(st.sampled_from([("date", "now"), ("retry-after", "3"), ("audit-id", "x" * 40)]), unique=True),
)
def test_a_status_is_read_in_every_form(status: int, huffman: bool, others: Headers) -> None:
    encoder, reader = hpack.Encoder(), StatusReader()
    encoder.header_table_size = 0
    for _ in range(2):
        found, retry_after = reader.read(encoder.encode([(":status", str(status)), *others], huffman=huffman))
        assert found == status
        assert retry_after == (dict(others).get("retry-after", "") if status >= 300 else retry_after)
