from hypothesis import given
from hypothesis import strategies as st

from t9ksched.kube.transport.lines import LineSplitter

TEXT = st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"").strip())


@given(st.lists(TEXT.filter(bool)), st.binary(max_size=5).map(lambda raw: raw.replace(b"\n", b"")), st.data())
def test_lines_do_not_depend_on_where_chunks_are_cut(lines: list[bytes], rest: bytes, data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in lines) + rest
    splitter, found, at = LineSplitter(), [], 0
    while at < len(whole):
        size = data.draw(st.integers(1, len(whole) - at))
        found += splitter.feed(whole[at : at + size])
        at += size
    assert found == lines
    assert splitter.rest == rest


def test_a_line_longer_than_any_buffer_stays_whole() -> None:
    splitter = LineSplitter()
    for _ in range(1000):
        assert splitter.feed(b"x" * 4096) == []
    assert splitter.feed(b"y\n\n \n") == [b"x" * 4096000 + b"y"]
