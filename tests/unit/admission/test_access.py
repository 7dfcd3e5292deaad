"""Who may use a queue: every grant alone, none at all, several together, and a property over all of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.admission import Request
from t9ksched.admission.access import Access, Members, may_use, parse_members
from t9ksched.admission.entry import priority_permitted
from t9ksched.admission.identity import OWNER_ANNOTATION, Identity, Namespace, Place, Rights
from t9ksched.model.errors import Invalid
from t9ksched.model.queue import Queue, parse_queue_spec

TEAM = {"matchLabels": {"team": "ml"}}


def ask(
    members: dict[str, Any] | None = None,
    selector: Any = None,
    *,
    who: str | None = "ann",
    groups: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    owner: str | None = None,
    owner_groups: tuple[str, ...] = (),
    role: str = "",
) -> Access:
    queue = Queue("q", parse_queue_spec({"namespaceSelector": selector}))
    annotations = {OWNER_ANNOTATION: owner} if owner else {}
    place = Place(Namespace("ns", labels or {}, annotations), frozenset(owner_groups))
    return may_use(queue, parse_members(members or {}), Identity(who, frozenset(groups)), place, Rights(role))


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (ask(), ""),
        (ask({"users": ["ann"]}), "user:ann"),
        (ask({"users": ["bob"]}), ""),
        (ask({"groups": ["ml"]}, groups=("ml", "ops")), "group:ml"),
        (ask({"groups": ["ml"]}, groups=("mls",)), ""),
        (ask({"groups": ["ann"], "users": ["ml"]}, groups=("ml",)), ""),
        (ask({"everyone": True}), "everyone"),
        (ask({"everyone": True}, who=None), "everyone"),
        (ask(selector=TEAM, labels={"team": "ml"}), "namespaceSelector"),
        (ask(selector=TEAM, labels={"team": "ml"}, who=None), "namespaceSelector"),
        (ask(selector=TEAM, labels={"team": "x"}), ""),
        (ask(selector={}, labels={"team": "ml"}), ""),
        (ask(selector={"matchLabels": {}}, labels={"team": "ml"}), ""),
        (ask({"users": ["bob"]}, owner="bob"), "owner bob: user:bob"),
        (ask({"users": ["bob"]}, owner="bob", who=None), "owner bob: user:bob"),
        (ask({"groups": ["ml"]}, owner="bob", owner_groups=("ml",)), "owner bob: group:ml"),
        (ask({"users": ["bob"]}, owner="eve"), ""),
        (ask(role="administrator"), "administrator"),
        (ask(role="manager"), "manager"),
        (ask(role="god"), ""),
    ],
)
def test_each_rule(given: Access, rule: str) -> None:
    assert (given.allowed, given.rule) == (bool(rule), rule)
    if not rule:
        assert (given.code, bool(given.message), bool(given.remedy)) == ("QueueNotPermitted", True, True)


def test_an_unknown_submitter() -> None:
    refused = ask({"users": ["ann"], "groups": ["ml"]}, who=None, groups=("ml",))
    assert (refused.allowed, refused.code) == (False, "SubmitterUnknown")


@pytest.mark.parametrize(
    ("members", "maximum"),
    [
        ({"users": ["ann"]}, 100),
        ({"users": ["ann"], "maxPriority": 30}, 30),
        ({"users": ["ann"], "maxPriority": 30, "maxPriorities": {"user:ann": 50}}, 50),
        ({"users": ["ann"], "maxPriority": 30, "maxPriorities": {"user:ann": 5}}, 5),
        ({"users": ["ann"], "everyone": True, "maxPriorities": {"user:ann": 50, "everyone": 0}}, 50),
        ({"groups": ["a", "b"], "maxPriorities": {"group:a": 1, "group:b": 2}}, 2),
        ({"everyone": True, "maxPriority": 0}, 0),
    ],
)
def test_the_highest_priority_of_all_grants_counts(members: dict[str, Any], maximum: int) -> None:
    access = ask(members, groups=("a", "b"))
    assert access.max_priority == maximum
    assert priority_permitted(Request("Pod/p", access=access, priority=maximum)).allowed
    if maximum < 100:
        above = Request("Pod/p", "q", access=access, priority=maximum + 1, priority_path="spec.priority")
        refused = priority_permitted(above)
        assert (refused.code, refused.errors[0].path) == ("PriorityAboveMaximum", "spec.priority")


def test_a_role_has_no_maximum() -> None:
    assert ask({"everyone": True, "maxPriority": 1}, role="manager").max_priority == 100


@pytest.mark.parametrize(
    ("raw", "paths"),
    [
        ("ann", ["members"]),
        ({"user": ["ann"]}, ["members.user"]),
        ({"users": "ann"}, ["members.users"]),
        ({"users": ["ann", "", 5, " x"]}, ["members.users[1]", "members.users[2]", "members.users[3]"]),
        ({"everyone": "yes"}, ["members.everyone"]),
        ({"maxPriority": 101}, ["members.maxPriority"]),
        ({"maxPriority": True}, ["members.maxPriority"]),
        ({"maxPriorities": {"user:ann": 3}}, ["members.maxPriorities.user:ann"]),
        ({"users": ["ann"], "maxPriorities": {"user:ann": -1}}, ["members.maxPriorities.user:ann"]),
        ({"maxPriorities": []}, ["members.maxPriorities"]),
    ],
)
def test_faulty_members(raw: Any, paths: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        parse_members(raw, "members")
    assert [error.path for error in refused.value.errors] == paths


NAMES = st.frozensets(st.sampled_from(["a", "b", "c"]))
MEMBERS = st.builds(Members, st.booleans(), NAMES, NAMES, st.none() | st.integers(0, 100))


@given(MEMBERS)
def test_members_survive_being_stored(members: Members) -> None:
    assert parse_members(members.to_dict()) == members


@given(MEMBERS, st.sampled_from(["a", "b", "x", None]), NAMES, st.sampled_from(["a", "x", None]), NAMES, st.booleans())
def test_allowed_exactly_when_a_rule_grants_it(
    members: Members,
    who: str | None,
    groups: frozenset[str],
    owner: str | None,
    owner_groups: frozenset[str],
    matches: bool,
) -> None:
    access = ask(
        members.to_dict(),
        TEAM,
        who=who,
        groups=tuple(groups),
        owner=owner,
        owner_groups=tuple(owner_groups),
        labels={"team": "ml" if matches else "x"},
    )
    person = who is not None and (who in members.users or bool(groups & members.groups))
    possessor = owner is not None and (owner in members.users or bool(owner_groups & members.groups))
    assert access.allowed is (matches or members.everyone or person or possessor)
