"""Which resources are cards can be widened by administrators."""

import pytest

from t9ksched.model import resources
from t9ksched.model.resources import add_card_resources, is_card_resource


def test_a_percentage_of_a_card_is_no_card() -> None:
    assert not is_card_resource("koordinator.sh/gpu")
    assert is_card_resource("amd.com/gpu")


def test_administrators_may_name_more_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_configured", set())
    assert not is_card_resource("example.com/wafer")
    add_card_resources("example.com/wafer")
    assert is_card_resource("example.com/wafer")
    monkeypatch.undo()
    is_card_resource.cache_clear()
    assert not is_card_resource("example.com/wafer")
