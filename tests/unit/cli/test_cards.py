from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from t9ksched.cli.cards import Palette, coloured, draw, legend, number, owner_of
from t9ksched.cli.commands.nodes import show_all, show_one


def _card(index: int, *holders: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"index": index, "healthy": True, "cordoned": False, "holders": list(holders), **more}


def _by(job: str | None, pod: str = "p") -> dict[str, Any]:
    return {"namespace": "n", "pod": pod, "job": job}


def test_without_colour_every_owner_has_a_letter() -> None:
    cards = [_card(2, _by("Notebook/b")), _card(0, _by("MPIJob/a")), _card(1, _by("MPIJob/a")), _card(3)]
    assert draw([*cards, _card(4, healthy=False), _card(5, cordoned=True)], Palette(False)).plain == "A A B . x x"


def test_a_card_that_a_pod_may_hold_is_not_drawn_as_free() -> None:
    cards = [_card(0, _by("MPIJob/a")), _card(1), _card(2, cordoned=True)]
    assert draw(cards, Palette(False), unknown=True).plain == "A ? x"
    node = {"name": "n", "gpus": cards, "cardsUnknown": 1}
    for show in (lambda out: show_one(node, out), lambda out: show_all([node], out)):
        text = StringIO()
        show(Console(width=200, file=text))
        assert "?" in text.getvalue()
        assert "free" not in text.getvalue()


@pytest.mark.parametrize(("mode", "told"), [("Whole", True), ("TimeSliced", False)])
def test_why_so_many_cards_have_no_indices_is_told(mode: str, told: bool) -> None:
    counted = {"resource": "nvidia.com/gpu", "model": None, "has": 80, "held": 3, "cordoned": 0}
    text = StringIO()
    show_one({"name": "n", "mode": mode, "counted": [counted]}, Console(width=200, file=text))
    assert "80 × nvidia.com/gpu" in text.getvalue()
    assert ("More than 64 cards of one resource on a node have no indices" in text.getvalue()) == told


def test_with_colour_owners_differ_and_keep_their_colour() -> None:
    palette = Palette(True)
    first = [str(span.style) for span in draw([_card(0, _by("a")), _card(1, _by("b"))], palette).spans]
    again = [str(span.style) for span in draw([_card(0, _by("b")), _card(1, _by("a"))], palette).spans]
    assert len(set(first)) == 2
    assert again == first[::-1]


def test_the_legend_counts_cards_largest_first() -> None:
    nodes = [{"gpus": [_card(0, _by("x")), _card(1, _by("y"))]}, {"gpus": [_card(0, _by("y"))]}, {"name": "cpu"}]
    assert [entry.plain for entry in legend(nodes, Palette(False))] == ["A n/y ×2", "B n/x ×1"]


def test_a_pod_without_a_job_owns_its_cards_itself() -> None:
    assert owner_of(_by(None, "alone")) == "n/Pod/alone"
    assert owner_of(_by("MPIJob/walk")) == "n/MPIJob/walk"


def test_no_color_is_honoured() -> None:
    assert coloured(Console(force_terminal=True, color_system="truecolor", no_color=False, _environ={}))
    assert not coloured(Console(force_terminal=True, color_system="truecolor", _environ={"NO_COLOR": "1"}))
    assert not coloured(Console(force_terminal=False, _environ={}))


def test_jobs_have_parts_of_cards() -> None:
    told = [{"gpus": 8, "cards": 8.0}, {"gpus": 1, "cards": 0.3}, {"gpus": 0, "cards": 0.143}, {"gpus": 2}, {}]
    assert [number(job) for job in told] == ["8", "0.3", "0.143", "2", "0"]


def test_cards_that_are_gone_are_told_without_names_of_others() -> None:
    what = "card 3 of nvidia.com/gpu, which it holds, is gone: node n has 3"
    told = [{"namespace": "ns", "pod": "p", "what": what}, {"namespace": None, "pod": None, "what": what}]
    out = StringIO()
    console = Console(file=out, width=120)
    show_one({"name": "n", "ready": True, "gpus": [_card(0)], "cardsMisheld": told}, console)
    assert f"CardDrift ns/p: {what}" in out.getvalue()
    assert f"CardDrift another user's pod: {what}" in out.getvalue()
    show_all([{"name": "n", "ready": True, "gpus": [_card(0)], "cardsMisheld": told}], console)
    assert "Ready, CardDrift" in out.getvalue()
