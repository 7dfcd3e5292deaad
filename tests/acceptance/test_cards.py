"""What the soak holds against quotas: every version counts, and nothing that was never there together."""

from typing import Any

from tests.acceptance.cards import GPU, CardBook, passed
from tests.chaos.invariant_checker import QUEUE


def pod(name: str, node: str = "", phase: str = "Running", queue: str = "q") -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {GPU: "1"}}}
    meta = {"name": name, "uid": f"uid of {name}", "resourceVersion": "1", "labels": {QUEUE: queue}}
    return {"metadata": meta, "spec": {"containers": [container], "nodeName": node}, "status": {"phase": phase}}


def test_a_quota_passed_for_a_moment_is_seen() -> None:
    book = CardBook()
    book.begin([pod("a", "n0"), pod("b")])
    book.take("MODIFIED", pod("b", "n0"))
    book.take("DELETED", pod("a", "n0"))
    most, faults = passed(book.steps, {}, {"q": 1})
    assert most == {"q": 2}
    assert len(faults) == 1


def test_one_that_ended_makes_room() -> None:
    book = CardBook()
    book.begin([pod("a", "n0"), pod("b"), pod("c")])
    book.take("MODIFIED", pod("a", "n0", "Succeeded"))
    book.take("MODIFIED", pod("b", "n0"))
    book.take("DELETED", pod("b", "n0"))
    book.take("MODIFIED", pod("c", "n0"))
    assert passed(book.steps, {}, {"q": 1}) == ({"q": 1}, [])


def test_what_went_while_the_stream_was_broken_is_gone() -> None:
    book = CardBook()
    book.begin([pod("a", "n0")])
    book.begin([pod("b", "n0")])
    assert passed(book.steps, {}, {"q": 1}) == ({"q": 1}, [])


def test_the_queue_on_record_counts_and_not_what_a_label_says_now() -> None:
    book = CardBook()
    book.begin([pod("a", "n0", queue="other"), pod("b", "n0", queue="q")])
    assert not passed(book.steps, {"a": "other"}, {"q": 1})[1]
    assert passed(book.steps, {"a": "q"}, {"q": 1})[1]
