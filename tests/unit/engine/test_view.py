"""Views on paper."""

import msgspec
import pytest

from t9ksched.engine.view import dump, load
from t9ksched.model.hold import Hold
from tests.builders import GPU, gang, node, pod_class, queue, table, view


def test_a_view_reads_back_as_it_was_written() -> None:
    live = table([node("b", gpu=4, unusable={GPU: 1}), node("a")])
    live.charge(live.row("b"), pod_class(gpu=1, ports=[80, 443]), {GPU: 0b10})
    shared = pod_class(gpu=1, selector={"x": "y"})
    given = view(
        live,
        [gang("g", pods=2, of=shared), gang("h", of=shared, roles={"": 1})],
        {"q": queue(quota={"cpu": 4}, selector={"pool": "a"}, ordering="Strict")},
        [Hold("g", "b", shared, cards=((GPU, 0b100),), until=5)],
    )
    again = load(dump(given))
    assert again.gangs == given.gangs
    assert again.holds == given.holds
    assert again.queues == given.queues
    assert again.nodes.static.facts == given.nodes.static.facts
    assert again.nodes.ports == given.nodes.ports
    assert again.nodes.free().tolist() == given.nodes.free().tolist()
    first, second = again.gangs[0].waiting
    assert first.pod_class is second.pod_class, "classes are written once and shared when read"


def test_text_that_is_no_view_is_refused_with_its_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"nodes"):
        load(b'{"nodes": 3, "queues": {}, "classes": [], "gangs": [], "holds": []}')
