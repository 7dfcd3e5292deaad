"""Events come whole and once, wherever the network cuts the stream."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.client import sse
from t9ksched.client.errors import Misunderstood
from t9ksched.client.sse import Message, MessageReader

TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))
EVENTS = st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3)), max_size=6)


@given(events=EVENTS, end=st.sampled_from(["\n", "\r\n", "\r"]), cuts=st.lists(st.integers(0, 400)))
def test_any_events_cut_anywhere(events: list[tuple[str, list[str]]], end: str, cuts: list[int]) -> None:
    lines: list[str] = []
    for number, (kind, data) in enumerate(events):
        lines += [f"id: {number}", f"event: {kind}", ": a comment", *(f"data: {part}" for part in data), ""]
    stream = "".join(line + end for line in lines).encode()
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader, found = MessageReader(), list[Message]()
    for start, stop in pairwise(places):
        found += reader.feed(stream[start:stop])
    found += reader.feed(b"\n" if end == "\r" else b"")  # a CR at the end may be half of a CRLF
    assert found == [Message(kind, "\n".join(data)) for kind, data in events]
    assert reader.last == (str(len(events) - 1) if events else None)


def test_an_id_counts_when_its_event_is_whole() -> None:
    reader = MessageReader()
    assert reader.feed(b"id: 7\ndata: {}\n\nid: 8\ndata: {") == [Message("", "{}")]
    assert reader.last == "7"
    assert reader.feed(b"}\n\n") == [Message("", "{}")]
    assert reader.last == "8"


def test_an_id_without_data_moves_the_place_and_is_no_event() -> None:
    reader = MessageReader()
    assert reader.feed(b"id: 9\n\n:\n\n") == []
    assert reader.last == "9"


def test_a_line_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_LONGEST", 10)
    with pytest.raises(Misunderstood, match=re.escape("no end")):
        MessageReader().feed(b"data: 12345")
