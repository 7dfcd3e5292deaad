"""The policy of the resource keeper: what may be written, and when something is due."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.model.idle_policy import STALE, Due, Rule, Warned, due, kept_until, parse_policy

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOURS = {hours: NOW - timedelta(hours=hours) for hours in (1, 22, 23, 24, 30)}


def test_the_platforms_sample() -> None:
    text = """
    policy:
      notebook:
        scanInterval: "300s"
        idleTimeout: 3600
        namespaceSelector: {matchLabels: {tensorstack.dev/resource-keeper: "true"}}
      tensorboard: {}
      explorer:
    """
    found = parse_policy(text)
    assert found.keys() == {"Notebook", "TensorBoard"}, "a block that is empty is none"
    assert (found["Notebook"].timeout, found["Notebook"].warning) == (timedelta(hours=1), timedelta(minutes=30))
    assert found["TensorBoard"] == Rule()
    assert found["TensorBoard"].holds_in({})
    assert not found["Notebook"].holds_in({"tensorstack.dev/resource-keeper": "false"})
    assert found["Notebook"].holds_in({"tensorstack.dev/resource-keeper": "true"})
    assert parse_policy("policy: {explorer: {namespaceSelector: {}}}")["Explorer"].holds_in({})
    assert parse_policy("") == parse_policy("policy:") == {}


@pytest.mark.parametrize(
    ("text", "path", "says"),
    [
        ("policy: {notebook: {idleTimeout: 1h}}", "policy.notebook.idleTimeout", "whole number of seconds"),
        ("policy: {notebook: {idleTimeout: 5}}", "policy.notebook.idleTimeout", "from 60"),
        ("policy: {notebook: {idleTimeout: true}}", "policy.notebook.idleTimeout", "whole number"),
        ("policy: {notebook: {scanInterval: 0}}", "policy.notebook.scanInterval", "from 10"),
        ("policy: {notebook: {warnBefore: 99999}}", "policy.notebook.warnBefore", "longer than idleTimeout"),
        ("policy: {notebook: {idleTimeut: 60}}", "policy.notebook.idleTimeut", "is unknown"),
        ("policy: {notebooks: {}}", "policy.notebooks", "use one of notebook, tensorboard, explorer"),
        ("policy: {notebook: [1]}", "policy.notebook", "must be a mapping"),
        ("policy: {notebook: {namespaceSelector: {x: y}}}", "policy.notebook.namespaceSelector.x", ""),
        ("policies: {}", "policies", "is unknown"),
        ("- a", "policy.yaml", "must be a mapping"),
        ("policy: {", "policy.yaml", ""),
    ],
)
def test_what_cannot_be_used_is_told_with_its_path(text: str, path: str, says: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_policy(text)
    assert [says in fault.message for fault in refused.value.errors if fault.path == path] == [True]


WARNED = {hours: Warned(NOW - timedelta(hours=hours), NOW) for hours in (24, 30)}


@pytest.mark.parametrize(
    ("idle_for", "checked", "kept", "warned", "found"),
    [
        (22, 0, None, None, Due()),
        (23, 0, None, None, Due(warn=Warned(HOURS[23], NOW + timedelta(hours=1)))),
        (30, 0, None, None, Due(warn=Warned(HOURS[30], NOW + timedelta(hours=1)))),
        (24, 0, None, WARNED[24], Due(suspend=True)),
        (24, 0, None, Warned(HOURS[24], NOW + timedelta(minutes=1)), Due()),
        (24, 0, None, WARNED[30], Due(warn=Warned(HOURS[24], NOW + timedelta(hours=1)))),
        (24, 0, NOW + timedelta(minutes=1), WARNED[24], Due()),
        (24, 0, NOW, WARNED[24], Due(suspend=True)),
        (24, 1, None, WARNED[24], Due()),
        (23, 1, None, None, Due()),
        (1, 0, None, Warned(HOURS[1], NOW), Due()),
    ],
)
def test_due(idle_for: int, checked: int, kept: datetime | None, warned: Warned | None, found: Due) -> None:
    since = NOW - timedelta(hours=idle_for)
    assert due(Rule(), since, NOW - timedelta(hours=checked), kept, warned, NOW) == found


def test_what_was_found_out_long_ago_counts_no_more() -> None:
    asked: list[Any] = [NOW - STALE, NOW - STALE - timedelta(seconds=1)]
    assert [bool(due(Rule(), HOURS[30], each, None, None, NOW).warn) for each in asked] == [True, False]


def test_until_when_it_is_kept() -> None:
    assert kept_until("2026-03-01") == datetime(2026, 3, 2, tzinfo=UTC), "the day counts as a whole"
    assert kept_until("2026-03-01T08:00:00+08:00") == datetime(2026, 3, 1, tzinfo=UTC)
    for odd in ("tomorrow", "2026-02-30", "9999-12-31", "2026-3-1", ""):
        with pytest.raises(ValueError, match="is not a time"):
            kept_until(odd)
