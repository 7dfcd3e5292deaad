"""The door on random queues, members and jobs, by an oracle that shares no code with it.

The questions: may this user use the queue, and up to which priority; does this gang get in; who enters; how
many jobs wait. The oracle writes down each way in and each reason to refuse, and compares the sets.
"""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.admission import Request, judge
from t9ksched.admission.access import Access, Members, may_use, parse_members
from t9ksched.admission.entry import priority_permitted
from t9ksched.admission.identity import Identity, Namespace, Place, Rights
from t9ksched.admission.judge import FORM, LIMITS
from t9ksched.admission.request import JoinedGroup, WaitCount
from t9ksched.model.errors import Invalid
from t9ksched.model.names import MAX_CARD_CONTAINER_NAME, SIGNAL_BEFORE_ANNOTATION, TIME_LIMIT_ANNOTATION
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.workloads.shape import Template
from tests.builders import GPU

MANY = settings(deadline=None, max_examples=400)
USERS, GROUPS = ("ann", "bob"), ("red", "blue")
LENGTHS = {"": None, "0": None, "30m": 1800, "1h": 3600, "2h": 7200}
"""Seconds by text; without end None."""


def _maximum(members: dict[str, Any], key: str) -> int:
    own = members["maxPriorities"].get(key, members["maxPriority"])
    return 100 if own is None else int(own)


def _members(rng: random.Random) -> dict[str, Any]:
    users, groups = (rng.sample(names, rng.randrange(3)) for names in (USERS, GROUPS))
    keys = ["everyone", *(f"user:{name}" for name in users), *(f"group:{name}" for name in groups)]
    own = {key: rng.choice((0, 10, 50, 100)) for key in keys if rng.random() < 0.4}
    return {
        "everyone": rng.random() < 0.25,
        "users": users,
        "groups": groups,
        "maxPriority": rng.choice((None, 0, 20, 100)),
        "maxPriorities": own,
    }


@given(st.randoms(use_true_random=True))
@MANY
def test_access_to_a_queue_and_up_to_which_priority(rng: random.Random) -> None:
    said = _members(rng)
    selector = rng.choice((None, {}, {"matchLabels": {"team": "x"}}))
    queue = Queue("q", parse_queue_spec({} if selector is None else {"namespaceSelector": selector}))
    user, owner, role = (rng.choice(("", *USERS)) for _ in range(3))
    role = {"ann": "administrator", "bob": "manager"}.get(role, "") if rng.random() < 0.3 else "user"
    mine, theirs = (rng.sample(GROUPS, rng.randrange(3)) for _ in range(2))
    label = rng.choice(("x", "y"))
    grants = ["everyone"] if said["everyone"] else []
    grants += ["selected"] if selector and label == "x" else []
    for who, groups in ((user, mine), (owner, theirs)):
        grants += [f"user:{who}"] if who in said["users"] else []
        grants += [f"group:{one}" for one in groups if who and one in said["groups"]]
    most = 100 if role in ("administrator", "manager") else max((_maximum(said, key) for key in grants), default=None)
    members = parse_members(said)
    assert parse_members(members.to_dict()) == members
    annotations = {"tensorstack.dev/owner": owner} if owner else {}
    place = Place(Namespace("ns", {"team": label}, annotations), frozenset(theirs))
    access = may_use(queue, members, Identity(user or None, frozenset(mine)), place, Rights(role))
    assert access.allowed is (most is not None)
    if most is None:
        assert access.code == ("QueueNotPermitted" if user else "SubmitterUnknown")
        return
    assert access.max_priority == most
    for priority in (0, most - 1, most, most + 1):
        verdict = priority_permitted(Request("Pod/p", access=access, priority=priority))
        assert verdict.allowed is (priority <= most)
        assert verdict.code == ("" if priority <= most else "PriorityAboveMaximum")


@given(st.randoms(use_true_random=True))
@MANY
def test_members_are_read_as_they_are_written_or_refused_with_the_field(rng: random.Random) -> None:
    said = _members(rng)
    faulty = {
        "everyone": (None, "yes", 1),
        "users": ("ann", ["ann", ""], [" ann"], ["a" * 254], ["a\nb"], [1], ["u"] * 10_001),
        "groups": ("red", [None], {"red": 1}),
        "maxPriority": (-1, 101, True, "7"),
        "maxPriorities": ([1], {"user:zoe": 1}, {"everyone": 101}),
        "more": (1,),
    }
    key = rng.choice((*faulty, ""))
    value = rng.choice(faulty[key]) if key else None
    bad = key and not (key == "everyone" and value is None)
    if bad:
        with pytest.raises(Invalid) as invalid:
            parse_members(said | {key: value}, "m")
        assert any(str(fault.path).startswith(f"m.{key}") for fault in invalid.value.errors)
    else:
        found = parse_members(said | {key: value} if key else said, "m")
        assert found.users == set(said["users"])
        assert found.groups == set(said["groups"])
        assert found.max_priority == said["maxPriority"]
    assert parse_members({"users": ["a" * 253], "groups": ["g"] * 10_000, "maxPriority": 100})
    assert parse_members(None) == Members()


@given(st.randoms(use_true_random=True))
@MANY
def test_a_gang_gets_in_unless_a_rule_is_against_it(rng: random.Random) -> None:
    quota = {name: rng.randrange(4) for name in (GPU, "pods", "memory") if rng.random() < 0.5}
    needs = {name: rng.randrange(5) for name in (GPU, "pods", "memory") if rng.random() < 0.7}
    held = rng.choice((None, {name: rng.randrange(6) for name in quota if rng.random() < 0.8}))
    strict, closed, draining = rng.random() < 0.5, rng.random() < 0.15, rng.random() < 0.15
    longest, asked = rng.choice(("", "1h")), rng.choice((None, None, *LENGTHS, "soon"))
    signal, claims, share = rng.choice((None, None, "", "5m", "later")), rng.random() < 0.1, rng.random() < 0.1
    name = "c" * rng.choice((1, 1, 43, 44, 63))
    cards, amounts = rng.choice((None, "0", "1")), rng.choice(({}, {"memory": "1"}))
    part, where = rng.choice(("requests", "limits")), rng.choice(("containers", "initContainers"))
    card_part = rng.choice(("requests", "limits"))
    resources: dict[str, Any] = {part: dict(amounts)}
    resources.setdefault(card_part, {}).update({} if cards is None else {GPU: cards})
    resources[part] |= {"aliyun.com/gpu-core.percentage": "1"} if share else {}
    spec: dict[str, Any] = {"containers": [], where: [{"name": name, "resources": resources}]}
    spec |= {"resourceClaims": [{"name": "x"}]} if claims else {}
    said = {TIME_LIMIT_ANNOTATION: asked, SIGNAL_BEFORE_ANNOTATION: signal}
    said = {key: text for key, text in said.items() if text is not None}
    inside = rng.random() < 0.5
    template = Template("w", 1, 1, {"annotations": said} if inside else {}, spec, "spec.t.spec")
    rules = {"quota": {"requests": {key: str(value) for key, value in quota.items()}}, "closed": closed}
    rules |= {"overQuota": "Reject" if strict else "Wait"} | ({"maxDuration": longest} if longest else {})
    there = rng.random() < 0.9
    queue = Queue("q", parse_queue_spec(rules), draining=draining) if there else None
    request = Request(
        "Job/j",
        "q",
        "spec.queue",
        queue,
        templates=(template,),
        needs=needs,
        annotations={} if inside else said,
        allocated=held,
    )
    fields, refused = set(), []
    if asked is not None and (asked == "soon" or (there and longest and asked and (LENGTHS[asked] or 10**9) > 3600)):
        fields.add("time limit")
    fields |= {"signal"} if signal == "later" else set()
    fields |= {"claims"} if claims else set()
    fields |= {"share"} if share else set()
    fields |= {"card name"} if cards == "1" and len(name) > MAX_CARD_CONTAINER_NAME else set()
    fields |= {"undeclared"} if there and "memory" in quota and not amounts else set()
    refused += [] if there else ["QueueNotFound"]
    refused += ["QueueClosed"] if there and (closed or draining) else []
    over = any(needs.get(key, 0) > most for key, most in quota.items())
    left = {key: most - (held or {}).get(key, 0) for key, most in quota.items()} if strict and held is not None else {}
    over = over or any(needs.get(key, 0) > max(0, rest) for key, rest in left.items())
    refused += ["OverQuota"] if there and over else []
    verdict = judge(request)
    faulty = "UnsupportedClaim" if fields <= {"claims", "share"} else "InvalidField"
    expected = faulty if fields else (refused or [""])[0]
    assert (verdict.allowed, verdict.code) == (not expected, expected), verdict
    assert len(verdict.errors) == len(fields) if fields else verdict.allowed or verdict.errors


@given(st.randoms(use_true_random=True))
@MANY
def test_who_enters_is_asked_before_what_enters(rng: random.Random) -> None:
    """The group that it names, then the queue, then the priority; and of what enters nothing is said before."""
    known, granted, most = rng.random() < 0.7, rng.random() < 0.6, rng.choice((0, 20, 100))
    unknown_code = "QueueNotPermitted" if known else "SubmitterUnknown"
    access = (
        Access(True, rule="everyone", max_priority=most) if granted else Access(False, unknown_code, "no", (), "ask")
    )
    access_known, priority = rng.random() < 0.9, rng.choice((None, 0, most, most + 1))
    owner, together = rng.choice(("", "Job/j")), rng.random() < 0.3
    group = JoinedGroup("ns/g", "metadata.labels", owner, together) if rng.random() < 0.5 else None
    request = Request(
        "Pod/p",
        "q",
        "spec.queue",
        Queue("q", parse_queue_spec({"closed": rng.random() < 0.5})),
        submitter=Identity("ann" if known else None),
        access=access if access_known else None,
        priority=priority,
        priority_path="spec.priority",
        group=group,
    )
    refused = access_known and not granted
    code, path = "QueueClosed" if request.queue and request.queue.spec.closed else "", "spec.queue"
    if access_known and granted and priority is not None and priority > most:
        code, path = "PriorityAboveMaximum", "spec.priority"
    if refused:
        code, path = unknown_code, "spec.queue"
    if group is not None and not together and (owner or refused):
        code, path = unknown_code, "metadata.labels"
        code = "Forbidden" if owner and known else code
    verdict = judge(request)
    assert (verdict.allowed, verdict.code) == (not code, code)
    assert [fault.path for fault in verdict.errors] == ([path] if code else [])
    assert bool(verdict.remedy) is bool(code)
    said_group = path == "metadata.labels" and bool(code)
    assert ("the PodGroup ns/g" in verdict.message) is said_group
    assert ("Job/j" in verdict.message) is (said_group and bool(owner))


@given(st.randoms(use_true_random=True))
@MANY
def test_as_many_jobs_wait_as_may(rng: random.Random) -> None:
    counts = [
        WaitCount(f"of {name!r}", rng.randrange(6), rng.choice((None, 0, 1, 3, 5)), rng.choice((1, 1, 2, 4)))
        for name in rng.sample(("ann", "bob", "q"), rng.randrange(4))
    ]
    limited = [one for one in counts if one.most is not None]
    never = [one for one in limited if one.more > (one.most or 0)]
    full = [one for one in limited if one.count + one.more > (one.most or 0)]
    verdict = judge(Request("", waiting=counts), LIMITS)
    assert verdict.code == ("InvalidField" if never else "RateLimited" if full else "")
    for one in (never or full)[:1]:
        assert one.whose in verdict.message
        assert f"at most {one.most}" in verdict.message
        assert ("the request has" in verdict.message) is (bool(never) or one.more > 1)
    if full and not never:
        one = full[0]
        assert (verdict.needs, verdict.has) == ({"jobs": one.count + one.more}, {"jobs": one.most})
        assert verdict.message.startswith(f"{one.count} jobs")


@given(
    st.sampled_from(("ns", "kube-system", "kube-x", "t9k-system")), st.lists(st.sampled_from(("", "n1")), max_size=3)
)
def test_what_users_may_not_write(space: str, nodes: list[str]) -> None:
    templates = [Template("w", 1, 1, {}, {"nodeName": node}, f"t[{at}].spec") for at, node in enumerate(nodes)]
    verdict = judge(Request("Pod/p", namespace=space, templates=templates), FORM)
    named = [f"t[{at}].spec.nodeName" for at, node in enumerate(nodes) if node]
    system = ["metadata.namespace"] if space != "ns" else []
    assert verdict.code == ("InvalidField" if named else "Forbidden" if system else "")
    assert [fault.path for fault in verdict.errors] == (named or system)
    assert (space in verdict.message) is (verdict.code == "Forbidden")
