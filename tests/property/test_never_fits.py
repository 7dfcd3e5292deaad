"""What is told that it can never fit does not fit into the emptied cluster, and what fits there is never told so.

Small clusters, some nodes of them away. Ways to place a gang on empty nodes are tried one by one, pod after pod.
"""

import random
from collections import Counter
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from msgspec import structs

from t9ksched.engine.explain import unkept
from t9ksched.engine.explain.emptied import Emptied
from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang, Member
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import PodRules, PodTerm, parse_rules
from t9ksched.model.reasons import Code
from t9ksched.model.taints import Taint
from tests.builders import GPU, gang, node, pod_class, queue, running, table, view
from tests.examples import part

HOST = "kubernetes.io/hostname"
AWAY: tuple[dict[str, Any], ...] = (
    {"ready": False},
    {"unschedulable": True},
    {"unschedulable": True, "taints": (Taint("node.kubernetes.io/unschedulable"),)},
    {"taints": (Taint("node.kubernetes.io/not-ready", "", "NoExecute"),)},
    {"taints": (Taint("node.kubernetes.io/disk-pressure"),)},
    {"unsure": True},
)
POLICY = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "q": queue(priority=1), "a": queue(priority=1, selector={"pool": "a"})}


def a_node(rng: random.Random, at: int) -> NodeFacts:
    """A node of up to 4 cards, perhaps away."""
    labels = {"pool": rng.choice("ab"), "zone": rng.choice("xyz")}
    if rng.random() < 0.2:
        del labels["zone"]
    made = node(f"n{at}", cpu=rng.choice([4, 8]), gpu=rng.choice([0, 2, 4]), pods=rng.choice([2, 3, 9]), labels=labels)
    if rng.random() < 0.2:
        made = replace(made, taints=(Taint("team", "red"),))
    return replace(made, **rng.choice(AWAY)) if rng.random() < 0.35 else made


def kinds(rng: random.Random) -> list[tuple[PodClass, str]]:
    """Classes of pods with the labels they have."""
    found = []
    for _ in range(rng.choice([1, 2, 2, 3])):
        of = pod_class(cpu=rng.choice([1, 2, 3, 5]), gpu=rng.choice([0, 0, 1, 2, 3]))
        app = rng.choice(["one", "two"])
        if rng.random() < 0.4:
            term = {
                "labelSelector": {"matchLabels": {"app": rng.choice(["one", "two"])}},
                "topologyKey": rng.choice([HOST, "zone"]),
            }
            kind = rng.choice(["podAntiAffinity", "podAntiAffinity", "podAffinity", "spread"])
            required = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            if kind == "spread":
                even = {"maxSkew": rng.choice([1, 2]), "whenUnsatisfiable": "DoNotSchedule"}
                more = {"minDomains": rng.choice([1, 2, 4]), "nodeTaintsPolicy": rng.choice(["Honor", "Ignore"])}
                of = replace(of, rules=parse_rules(None, [{**term, **even, **more}], "test", {"app": app}))
            else:
                of = replace(of, rules=parse_rules(required, None, "test", {"app": app}))
        found.append((of, app))
    return found


def a_gang(rng: random.Random, at: int) -> Gang:
    """A gang of up to 9 pods."""
    members: list[Member] = []
    for of, app in kinds(rng):
        for _ in range(rng.choice([1, 2, 3])):
            uid = f"g{at}-{len(members)}"
            members.append(Member(uid, f"test/{uid}", "", of, (("app", app),)))
    made = gang(f"g{at}", rng.choice(["q", "q", "a"]), members=members, created=at)
    if rng.random() < 0.6:
        return made
    levels = rng.choice([("zone",), (HOST,), (HOST, "zone"), ("zone", "pool"), ("none",)])
    return structs.replace(made, topology="Required", levels=levels)


def scene(rng: random.Random) -> tuple[NodeTable, View]:
    """Nodes with some work on them that could be evicted, and gangs."""
    live = table(a_node(rng, at) for at in range(rng.choice([1, 2, 3, 4])))
    groups = []
    for name in live.freeze().names:
        facts = next(one for one in live.freeze().static.facts if one.name == name)
        if facts.allocatable.get(GPU) and rng.random() < 0.5:
            group = running(f"r-{name}", "low", [name], cpu=1, gpu=1, cards=[1])
            groups.append(group)
            live.charge(live.row(name), group.pods[0].pod_class, group.pods[0].cards)
    return live, view(live, [a_gang(rng, at) for at in range(4)], QUEUES, running=groups)


def allowed(pod: Member, where: NodeFacts, placed: list[tuple[Member, NodeFacts]], facts: list[NodeFacts]) -> bool:
    """Whether rules about pods let a pod go to a node beside those that have been placed."""

    def selected(term: PodTerm, other: Member) -> bool:
        return term.matches(other.namespace, dict(other.labels), {})

    def shares(term: PodTerm, there: NodeFacts) -> bool:
        value = where.labels.get(term.topology_key)
        return value is not None and value == there.labels.get(term.topology_key)

    def rules(of: Member) -> PodRules:
        return of.pod_class.rules or PodRules()

    for other, there in placed:
        against = any(selected(term, other) and shares(term, there) for term in rules(pod).apart)
        if against or any(selected(term, pod) and shares(term, there) for term in rules(other).apart):
            return False
    for term in rules(pod).together:
        near = [there for other, there in placed if selected(term, other) and term.topology_key in there.labels]
        first = not near and selected(term, pod)
        if term.topology_key not in where.labels or not (first or any(shares(term, there) for there in near)):
            return False
    for one in rules(pod).spread:
        key = one.term.topology_key
        count = {
            domain.labels[key]: 0
            for domain in facts
            if key in domain.labels and not (one.untainted and any(taint.key == "team" for taint in domain.taints))
        }
        for other, there in placed:
            if selected(one.term, other) and key in there.labels:
                count[there.labels[key]] += 1
        fewest = min(count.values()) if len(count) >= max(one.min_domains, 1) else 0
        if key not in where.labels or count[where.labels[key]] + selected(one.term, pod) - fewest > one.max_skew:
            return False
    return True


def fits_when_empty(facts: list[NodeFacts], wanted: Gang, selector: Any) -> bool:
    """Whether there is a way to place all pods on these nodes with nothing on them and none of them away."""
    nodes = [
        one
        for one in facts
        if (selector is None or selector.matches(one.labels)) and not any(taint.key == "team" for taint in one.taints)
    ]
    free = {one.name: Counter(one.allocatable) for one in nodes}
    placed: list[tuple[Member, NodeFacts]] = []
    classes = {id(one.pod_class): one for one in wanted.waiting}
    left = Counter(id(one.pod_class) for one in wanted.waiting)
    seen: set[Any] = set()

    def place() -> bool:
        """Whether the rest can be placed, in any order: where pods of others must be, or must not be, that matters."""
        if not left.total():
            return True
        state = tuple(sorted((id(pod.pod_class), where.name) for pod, where in placed))
        if (len(nodes), state) in seen:
            return False
        seen.add((len(nodes), state))
        for ident, pod in classes.items():
            for where in nodes if left[ident] else ():
                has, needs = free[where.name], dict(pod.pod_class.requests)
                if any(has[name] < units for name, units in needs.items()) or not allowed(pod, where, placed, facts):
                    continue
                has.subtract(needs)
                left[ident] -= 1
                placed.append((pod, where))
                if place():
                    return True
                placed.pop()
                left[ident] += 1
                has.update(needs)
        return False

    if wanted.topology == "None":
        return place()
    usable = nodes
    for level in wanted.levels:
        for value in {one.labels.get(level) for one in usable} - {None}:
            nodes = [one for one in usable if one.labels.get(level) == value]
            seen.clear()
            if place():
                return True
    return False


def check(seeds: range) -> Counter[str]:
    """How many were told that they never fit, and how many did not fit and were told something else."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        live, given = scene(rng)
        facts = list(given.nodes.static.facts)
        memory = Memory()
        found = plan(given, POLICY, 0, memory)
        assert found == plan(given, POLICY, 0)
        for told in found.waiting:
            wanted = next(one for one in given.gangs if one.uid == told.gang)
            fits = fits_when_empty(facts, wanted, QUEUES[wanted.queue].spec.node_selector)
            codes = {reason.code for reason in told.reasons}
            never_told = Code.NEVER_FITS in codes
            assert not (fits and never_told), f"scene {seed}: {wanted.uid} fits the empty nodes, and is told {told}"
            unproved = "no node" if Code.NO_NODE_MATCHES in codes else "not told"
            ruled = any(one.pod_class.rules for one in wanted.waiting)
            if wanted.topology == "None" and not ruled and not fits and unproved == "not told":
                assert never_told, f"scene {seed}: {wanted.uid} does not fit the empty nodes, and is told {told}"
            counts["never" if never_told else "fits" if fits else unproved] += 1
            # What never fits is told again by what is remembered, and not any more once a node came that takes it all.
            if never_told and seed % 5 == 0:
                again = plan(given, POLICY, 0, memory)
                assert [one for one in again.waiting if one.gang == told.gang] == [told]
                live.upsert(node("zz", cpu=96, gpu=64, pods=99, labels={"pool": "a", "zone": "w"}))
                more = plan(view(live, given.gangs, QUEUES, running=given.running), POLICY, 0, memory)
                live.remove("zz")
                now = next((one.reasons for one in more.waiting if one.gang == told.gang), ())
                assert now != told.reasons
    return counts


def test_what_can_never_fit_does_not_fit_the_emptied_cluster() -> None:
    counts = check(range(part(400)))
    assert counts["never"] > part(200)
    assert counts["fits"] > part(100)
    assert counts["not told"] < counts["never"] // 20


@pytest.mark.soak
def test_many_clusters() -> None:
    check(range(400, 20_000))


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "nodes that are away do not count": (ClassFit, "ever", property(lambda self: self.mask)),
    "one node too few": (ClassFit, "rooms_ever", lambda self: self.rooms_empty() * (self.rooms_empty() != 1)),
    "a spread takes maxSkew pods in each domain and no more": (unkept, "_fewest", lambda *_: (0, "")),
    "one domain too few": (Emptied, "_apart_in_each", lambda *_: np.int64(-1)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_it_can_fail(name: str) -> None:
    with patch.object(*MUTANTS[name]), pytest.raises(AssertionError, match="fits the empty nodes"):
        check(range(400))
