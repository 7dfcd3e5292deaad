"""One object nested deeper than a decoder can follow hides no other object."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.kube.port import WatchEvent
from t9ksched.kube.resources import PODS
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.deep import DEPTH, shallow
from tests.unit.kube.scripted import ScriptedApi
from tests.unit.kube.transport.test_client import collect, line, pod, streaming

LEVELS = 9000
DEEP = (
    b'{"metadata":{"name":"deep","namespace":"ns"},"spec":{"a":'
    + b'[{"b":' * LEVELS
    + b"1"
    + b"}]" * LEVELS
    + b'},"z":2}'
)

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(plain)
def test_what_is_not_deep_stays_as_it_is(value: object) -> None:
    text = msgspec.json.encode(value)
    assert shallow(text) == text


@pytest.mark.parametrize(
    ("deep", "cut"),
    [
        (b"[" * DEPTH + b"]" * DEPTH, b"[" * DEPTH + b"]" * DEPTH),
        (b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1), b"[" * DEPTH + b"null" + b"]" * DEPTH),
        (
            b"[" * DEPTH + b'{"]":"[\\"{"},1,[[]],"}"' + b"]" * DEPTH,
            b"[" * DEPTH + b'null,1,null,"}"' + b"]" * DEPTH,
        ),
    ],
)
def test_what_is_cut_off(deep: bytes, cut: bytes) -> None:
    assert shallow(deep) == cut


async def test_in_a_list(api: ScriptedApi, client: Client) -> None:
    others = [msgspec.json.encode(pod(name)) for name in ("a", "b")]
    api.then(200, b'{"metadata":{"resourceVersion":"9"},"items":[' + b",".join((others[0], DEEP, others[1])) + b"]}")
    pages = [page async for page in client.pages(PODS)]
    objects = [msgspec.json.decode(item) for page in pages for item in page.items if isinstance(item, bytes)]
    assert [obj["metadata"]["name"] for obj in objects] == ["a", "deep", "b"]
    assert objects[1]["z"] == 2


async def test_in_a_watch(api: ScriptedApi, client: Client) -> None:
    deep = b'{"type":"ADDED","object":' + DEEP + b"}\n"
    api.do(streaming(line("ADDED", pod("a")), deep, line("ADDED", pod("b"))))
    found: list[WatchEvent] = []
    await collect(client, found)
    assert [event.object["metadata"]["name"] for event in found] == ["a", "deep", "b"]
