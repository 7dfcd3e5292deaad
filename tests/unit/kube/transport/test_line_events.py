"""An event of a watch is what its line says as JSON, though no line is read twice where it is as servers write it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.kube.errors import ApiError, Expired, Unreachable
from t9ksched.kube.port import Payload, WatchEvent
from t9ksched.kube.transport.answers import LineEvent, event
from t9ksched.kube.transport.client import Client
from t9ksched.model.pod import decode_pod
from tests.unit.kube.scripted import ScriptedApi
from tests.unit.kube.transport.test_client import line, pod, streaming, two_names
from tests.unit.kube.transport.test_deep import DEEP

POD = b'{"metadata":{"name":"a","uid":"u"},"spec":{"nodeName":"n"}}'
BROKEN = b'{"metadata":{"name":"a"},"spec":{"nodeName":7}}'
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def plainly(payload: Payload) -> Any:
    return msgspec.json.decode(payload) if isinstance(payload, bytes) else payload


@given(st.sampled_from(("ADDED", "MODIFIED", "DELETED", "BOOKMARK")), st.dictionaries(st.text(), plain, max_size=3))
def test_an_event_as_servers_write_it(type: str, obj: dict[str, Any]) -> None:
    line = msgspec.json.encode({"type": type, "object": obj})
    for found in (event("watch", line), event("watch", line + b"  \r")):
        assert found.type == type
        assert found.decoded(plainly) == found.object == plainly(found.payload) == obj


@pytest.mark.parametrize(
    "line",
    [
        b'{"object":' + POD + b',"type":"ADDED"}',
        b'{ "type": "ADDED", "object": ' + POD + b" }",
        b'{"type":"ADDED","object":' + POD + b',"more":{"object":{}}}',
        b'{"type":"MODIFIED","object":{"metadata":{"name":"b"},"spec":{}},"object":' + POD + b',"type":"ADDED"}',
    ],
)
def test_other_orders_and_fields(line: bytes) -> None:
    found = event("watch", line)
    assert decode_pod(POD) == found.decoded(decode_pod)
    assert (found.type, found.payload) == ("ADDED", POD)


def test_an_object_that_is_too_deep_is_decoded_without_its_depths() -> None:
    line = b'{"type":"ADDED","object":' + DEEP + b"}"
    assert event("watch", line).decoded(plainly)["z"] == 2


def test_an_object_with_a_fault_is_whole() -> None:
    found = event("watch", b'{"type":"ADDED","object":' + BROKEN + b"}")
    with pytest.raises(msgspec.ValidationError, match="nodeName"):
        found.decoded(decode_pod)
    assert found.payload == BROKEN


@pytest.mark.parametrize("rest", [b'{"metadata":{"name":"a"', b"", b"]", POD + b"}", POD + b',"type":7', POD + b"/"])
def test_a_line_that_is_no_event_breaks_the_watch(rest: bytes) -> None:
    def used(found: WatchEvent) -> None:
        for use in (lambda: found.decoded(decode_pod), lambda: found.payload, lambda: found.object):
            with pytest.raises(Unreachable, match="watch: an event cannot be read") as refused:
                use()
            assert refused.value.sent

    line = b'{"type":"ADDED","object":' + rest + b"}"
    used(event("watch", line))
    with pytest.raises(Unreachable, match="watch: an event cannot be read"):
        event("watch", line[:-1] + b"]")


def test_an_error_within_the_stream_is_one_wherever_its_type_stands() -> None:
    told = b'"object":{"code":410,"reason":"Expired"}'
    with pytest.raises(Expired):
        event("watch", b'{"type":"ERROR",' + told + b"}")
    with pytest.raises(ApiError, match="Expired"):
        _ = event("watch", b'{"type":"ADDED",' + told + b',"type":"ERROR"}').payload


def test_what_servers_write_is_not_read_before_it_is_decoded() -> None:
    found = event("watch", b'{"type":"MODIFIED","object":' + POD + b"}")
    assert isinstance(found, LineEvent)
    assert found.decoded(decode_pod).spec.node_name == "n"
    assert found.raw is None


async def test_after_such_a_line_the_watch_goes_on_from_the_event_before(api: ScriptedApi, client: Client) -> None:
    api.then(200, {"metadata": {"resourceVersion": "5"}, "items": []})
    api.do(streaming(line("ADDED", pod("a", "6")), b'{"type":"ADDED","object":{"metadata":}}\n'))
    api.do(streaming(line("ADDED", pod("b", "7"))))
    assert await two_names(client) == ["a", "b"]
    assert [seen.query.get("resourceVersion") for seen in api.seen][:3] == [None, "5", "6"]
