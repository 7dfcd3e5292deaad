"""What `doctor` says of a cluster's scheduler.conf."""

import pytest

from t9ksched.cli.policycheck import judge_policy

LEAST = """\
actions: "allocate"
tiers:
- plugins: [{name: basic}, {name: predicates}, {name: affinity}%s]
"""
ALL = ", {name: resource}, {name: binpack}, {name: cardless}"


@pytest.mark.parametrize(
    ("more", "left_out"),
    [
        (ALL, []),
        (", {name: resource}, {name: binpack}", ["cardless"]),
        (", {name: binpack}, {name: cardless, arguments: {weight: 0}}", ["resource", "cardless"]),
        ("", ["resource", "binpack", "cardless"]),
    ],
)
def test_plugins_that_are_left_out_are_named(more: str, left_out: list[str]) -> None:
    found = judge_policy({"data": {"scheduler.conf": LEAST % more}}, {})
    named = [finding.message.removeprefix("does not list ").partition(":")[0] for finding in found if finding.remedy]
    assert named == left_out
    assert {finding.level.value for finding in found} == ({"note"} if left_out else {"ok"})


def test_none_is_fine() -> None:
    (found,) = judge_policy(None, {})
    assert found.level == "ok"


@pytest.mark.parametrize(
    ("data", "says"), [({}, "'scheduler.conf' is missing"), ({"scheduler.conf": "actions: dance"}, "line 1, actions")]
)
def test_one_that_is_not_in_force_is_a_warning(data: dict[str, str], says: str) -> None:
    (found,) = judge_policy({"data": data}, {})
    assert found.level == "warning"
    assert says in found.message
