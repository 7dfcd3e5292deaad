"""Rules about other pods and about staying together, as tables: what stands where, and where the next ones go."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Binpack, Policy
from t9ksched.engine.view import dump, load
from t9ksched.model.errors import Invalid
from t9ksched.model.gang import Gang, Neighbours
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import PodRules, parse_rules
from t9ksched.model.taints import Taint, Toleration
from tests.builders import gang, node, pod_class, table, view

HOST, RACK, ZONE = "kubernetes.io/hostname", "rack", "zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
ACCEPTS = Toleration(CORDONED.key, "Exists", "", "NoSchedule")
SIX = [node(f"n{at}", cpu=8, labels={RACK: f"r{at // 2}", ZONE: "ab"[at // 4]}) for at in range(6)]


def term(labels: Mapping[str, str], key: str = HOST, **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key, **more}


def rules(spec: dict[str, Any], labels: Mapping[str, str]) -> PodRules | None:
    spread = spec.pop("spread", None)
    return parse_rules(spec, spread, "test", labels)


def near(labels: Mapping[str, str], key: str = HOST, **more: Any) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: [term(labels, key, **more)]}}


def away(labels: Mapping[str, str], key: str = HOST, **more: Any) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: [term(labels, key, **more)]}}


def even(labels: Mapping[str, str], key: str, skew: int = 1, **more: Any) -> dict[str, Any]:
    return {"spread": [{"maxSkew": skew, "topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}, **more}]}


def asks(name: str, spec: dict[str, Any], pods: int = 1, labels: Mapping[str, str] | None = None, **more: Any) -> Gang:
    """A gang whose pods carry `app: <name>` unless said otherwise."""
    mine = {"app": name} if labels is None else labels
    given = gang(name, pods=pods, of=replace(pod_class(cpu=more.pop("cpu", 1)), rules=rules(spec, mine)), **more)
    own = tuple(sorted(mine.items()))
    return structs.replace(given, waiting=tuple(structs.replace(member, labels=own) for member in given.waiting))


def there(
    name: str,
    nodes: Mapping[str, int],
    spec: dict[str, Any] | None = None,
    namespace: str = "test",
    *,
    leaving: bool = False,
) -> Neighbours:
    found = rules(spec, {"app": name}) or PodRules() if spec else PodRules()
    labels = (("app", name),)
    return Neighbours(namespace, labels, tuple(nodes.items()), found.apart, found.prefer_pods, leaving)


def fond(labels: Mapping[str, str], key: str = HOST, weight: int = 10) -> dict[str, Any]:
    """Prefers such pods near; with a negative weight, away."""
    kind = "podAffinity" if weight > 0 else "podAntiAffinity"
    return {kind: {PREFERRED: [{"weight": abs(weight), "podAffinityTerm": term(labels, key)}]}}


def decide(gangs: list[Gang], neighbours: list[Neighbours] | None = None, nodes: Any = SIX, **more: Any) -> Plan:
    given = replace(view(nodes, gangs), neighbours=tuple(neighbours or ()), **more)
    found = plan(given, Policy(), 0)
    again = load(dump(given))
    assert plan(again, Policy(), 0).to_bytes() == found.to_bytes()
    return found


def where(found: Plan, by: str = HOST) -> dict[str, int]:
    labels = {one.name: one.labels for one in SIX}
    return dict(sorted(Counter(labels[one.node].get(by, "-") for one in found.assignments).items()))


def why(found: Plan) -> dict[str, list[str]]:
    return {entry.gang: [str(reason.code) for reason in entry.reasons] for entry in found.waiting}


def test_apart_by_host_and_by_rack() -> None:
    assert where(decide([asks("a", away({"app": "a"}), 6)])) == {f"n{at}": 1 for at in range(6)}
    assert where(decide([asks("a", away({"app": "a"}, RACK), 3)]), RACK) == {"r0": 1, "r1": 1, "r2": 1}
    found = decide([asks("a", away({"app": "a"}, RACK), 4)])
    assert why(found) == {"a": ["NeverFits"]}
    assert found.assignments == ()


def test_apart_from_pods_that_are_there_and_from_pods_that_want_it() -> None:
    lonely = there("lonely", {"n0": 1, "n1": 1, "n2": 1, "n3": 1}, away({"app": "web"}))
    assert where(decide([asks("web", {}, 2)], [lonely])) in ({"n4": 2}, {"n4": 1, "n5": 1})
    by_rack = there("lonely", {"n0": 1, "n2": 1}, away({"app": "web"}, RACK))
    assert where(decide([asks("web", {}, 2)], [by_rack]), RACK) == {"r2": 2}
    assert where(decide([asks("other", {}, 1)], [lonely])) == {"n0": 1}
    assert where(decide([asks("a", away({"app": "lonely"}))], [lonely])) == {"n4": 1}


def test_a_value_that_a_term_names_twice_counts_once_while_gangs_come_and_go() -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "db"]}]}
    spread = {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    wants = asks("a", {"spread": [spread]}, 5, labels={"app": "db"})
    placed = there("db", {"n0": 1}), there("other", {"n0": 1}, away({"app": "nobody"}))
    memory = Memory()
    for gangs, expected in (([], {}), ([wants], {"r0": 1, "r1": 2, "r2": 2}), ([], {})):
        found = plan(replace(view(SIX, gangs), neighbours=placed), Policy(), 0, memory)
        assert where(found, RACK) == expected


def test_within_a_cycle_newcomers_respect_each_other() -> None:
    first = asks("first", away({"app": "second"}, ZONE), created=1)
    second = asks("second", {}, created=2)
    found = decide([first, second])
    placed = {one.gang: one.node for one in found.assignments}
    zones = {one.name: one.labels[ZONE] for one in SIX}
    assert zones[placed["first"]] != zones[placed["second"]]


def test_near_others_and_near_oneself() -> None:
    assert where(decide([asks("a", near({"app": "db"}, RACK), 3)], [there("db", {"n3": 1})]), RACK) == {"r1": 3}
    assert why(decide([asks("a", near({"app": "db"}, RACK))])) == {"a": ["TopologyNotSatisfied"]}
    assert len(where(decide([asks("a", near({"app": "a"}, RACK), 16)]), RACK)) == 1
    taken = table(SIX)
    taken.charge(taken.row("n0"), pod_class(cpu=7))
    taken.charge(taken.row("n2"), pod_class(cpu=7))
    assert where(decide([asks("a", near({"app": "a"}, RACK), 16)], nodes=taken), RACK) == {"r2": 16}
    busy = table(SIX)
    for at in range(0, 6, 2):
        busy.charge(busy.row(f"n{at}"), pod_class(cpu=7))
    assert why(decide([asks("a", near({"app": "a"}, RACK), 17)])) == {"a": ["NeverFits"]}
    assert why(decide([asks("a", near({"app": "a"}, RACK), 16)], nodes=busy)) == {"a": ["TopologyNotSatisfied"]}


def test_preferences_of_placed_pods_about_a_new_pod_count() -> None:
    """Preferred affinity ranks nodes in both directions, as kube-scheduler has it."""
    assert where(decide([asks("web", {})], [there("db", {"n3": 1}, fond({"app": "web"}))])) == {"n3": 1}
    keeps_off = there("db", {"n0": 1}, fond({"app": "web"}, RACK, -10))
    assert where(decide([asks("web", {})], [keeps_off]), RACK) == {"r1": 1}
    assert where(decide([asks("other", {})], [keeps_off])) == {"n0": 1}
    torn = [
        there("db", {"n1": 1}, fond({"app": "web"}, weight=3)),
        there("mq", {"n4": 2}, fond({"app": "web"}, weight=2)),
    ]
    assert where(decide([asks("web", {})], torn)) == {"n4": 1}, "two of weight 2 are more than one of 3"


def test_within_a_cycle_newcomers_prefer_each_other() -> None:
    first = asks("first", fond({"app": "second"}, ZONE, -10), created=1)
    second = asks("second", {}, created=2)
    placed = {one.gang: one.node for one in decide([first, second]).assignments}
    zones = {one.name: one.labels[ZONE] for one in SIX}
    assert zones[placed["first"]] != zones[placed["second"]]
    assert len(where(decide([asks("a", fond({"app": "a"}, weight=-10), 6)]))) == 6


def test_a_leaving_pod_does_not_count_for_spread() -> None:
    crowded = {"n0": 1, "n1": 1, "n2": 1}
    spread = even({"app": "a"}, RACK)
    assert where(decide([asks("a", even({"app": "a"}, RACK))], [there("a", crowded)]), RACK) == {"r2": 1}
    leaves = there("a", {"n0": 1, "n1": 1}, leaving=True)
    stays = there("a", {"n2": 1, "n4": 1})
    assert where(decide([asks("a", spread)], [leaves, stays]), RACK) == {"r0": 1}
    near_them = asks("b", near({"app": "a"}))
    assert where(decide([near_them], [there("a", {"n5": 1}, leaving=True)])) == {"n5": 1}, "affinity counts them"


def test_what_a_gang_waits_for_may_come_in_the_same_cycle() -> None:
    server = asks("server", {}, created=2)
    client = asks("client", near({"app": "server"}), created=1)
    same = asks("same", near({"app": "server"}), created=3)
    found = decide([client, server, same])
    assert {one.gang for one in found.assignments} == {"server", "same"}


def test_namespaces() -> None:
    other = there("db", {"n3": 1}, namespace="other")
    assert why(decide([asks("a", near({"app": "db"}))], [other])) == {"a": ["TopologyNotSatisfied"]}
    named = asks("a", near({"app": "db"}, namespaces=["other"]))
    assert where(decide([named], [other])) == {"n3": 1}
    selected = asks("a", near({"app": "db"}, namespaceSelector={"matchLabels": {"team": "x"}}))
    assert where(decide([selected], [other], namespaces={"other": {"team": "x"}})) == {"n3": 1}
    assert why(decide([selected], [other], namespaces={"other": {"team": "y"}})) != {}


@pytest.mark.parametrize(
    ("pods", "spec", "there_is", "by", "expected"),
    [
        (6, even({"app": "a"}, RACK), {}, RACK, {"r0": 2, "r1": 2, "r2": 2}),
        (4, even({"app": "a"}, ZONE), {}, ZONE, {"a": 2, "b": 2}),
        (3, even({"app": "a"}, RACK), {"n0": 2, "n2": 1}, RACK, {"r1": 1, "r2": 2}),
        (4, even({"app": "a"}, RACK, skew=4), {}, RACK, {"r0": 4}),
        (2, even({"app": "a"}, RACK, minDomains=4), {}, RACK, {"r0": 1, "r1": 1}),
        (3, even({"app": "other"}, RACK), {}, RACK, {"r0": 3}),
    ],
    ids=["racks", "zones", "with those there", "skew", "few domains", "not speaking of itself"],
)
def test_hard_spread(
    pods: int, spec: dict[str, Any], there_is: dict[str, int], by: str, expected: dict[str, int]
) -> None:
    found = decide([asks("a", spec, pods)], [there("a", there_is)] if there_is else [])
    assert where(found, by) == expected


@pytest.mark.parametrize(
    ("policy", "cordoned", "tolerations", "expected"),
    [
        ({}, {"unschedulable": True, "taints": (CORDONED,)}, (), None),
        ({"nodeTaintsPolicy": "Ignore"}, {"unschedulable": True, "taints": (CORDONED,)}, (), None),
        ({"nodeTaintsPolicy": "Honor"}, {"unschedulable": True, "taints": (CORDONED,)}, (), {"b": 4}),
        ({"nodeTaintsPolicy": "Honor"}, {"unschedulable": True}, (), None),
        ({"nodeTaintsPolicy": "Honor"}, {"unschedulable": True, "taints": (CORDONED,)}, (ACCEPTS,), {"a": 2, "b": 2}),
        ({"nodeTaintsPolicy": "Honor"}, {"taints": (Taint("team", "red"),)}, (), {"b": 4}),
    ],
    ids=["default", "ignored", "honoured", "not tainted yet", "tolerated", "a taint of an administrator"],
)
def test_spread_leaves_tainted_nodes_out_as_its_policy_says(
    policy: dict[str, str],
    cordoned: dict[str, Any],
    tolerations: tuple[Toleration, ...],
    expected: dict[str, int] | None,
) -> None:
    """All nodes of one of two zones are cordoned; the taint alone says that a node does not count."""
    nodes = [replace(one, **cordoned) if one.labels[ZONE] == "a" else one for one in SIX]
    wanted = asks("a", even({"app": "a"}, ZONE, **policy), 4)
    members = (
        structs.replace(one, pod_class=replace(one.pod_class, tolerations=tolerations)) for one in wanted.waiting
    )
    found = decide([structs.replace(wanted, waiting=tuple(members))], nodes=nodes)
    assert where(found, ZONE) == (expected or {})
    assert "NeverFits" not in str(why(found))


def test_a_cordoned_zone_without_pods_holds_back_no_spread_that_honours_taints() -> None:
    """Two pods are in the open zone and none in the cordoned one, which would be the one with fewest."""
    nodes = [replace(one, unschedulable=True, taints=(CORDONED,)) if one.labels[ZONE] == "a" else one for one in SIX]
    placed = [there("a", {"n4": 2})]
    assert where(decide([asks("a", even({"app": "a"}, ZONE), 2)], placed, nodes=nodes)) == {}
    honoured = even({"app": "a"}, ZONE, nodeTaintsPolicy="Honor")
    assert where(decide([asks("a", honoured, 2)], placed, nodes=nodes), ZONE) == {"b": 2}


def test_hard_spread_that_cannot_be_kept_is_explained() -> None:
    full = table(SIX)
    for name in ("n4", "n5"):
        full.charge(full.row(name), pod_class(cpu=8))
    found = decide([asks("a", even({"app": "a"}, RACK), 6)], nodes=full)
    assert why(found) == {"a": ["TopologyNotSatisfied"]}
    assert "topology spread" in found.waiting[0].reasons[0].message or found.waiting[0].reasons[0].nodes


def test_soft_wishes_rank_nodes() -> None:
    bare = pod_class()

    def wishes(**spec: Any) -> PodClass:
        return replace(bare, rules=rules(spec, {"app": "a"}))

    likes = {
        PREFERRED: [
            {"weight": 10, "preference": {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r2"]}]}}
        ]
    }
    assert where(decide([gang("a", of=wishes(nodeAffinity=likes))]), RACK) == {"r2": 1}
    preferred = {PREFERRED: [{"weight": 50, "podAffinityTerm": term({"app": "db"}, RACK)}]}
    assert where(decide([asks("a", {"podAffinity": preferred})], [there("db", {"n3": 1})]), RACK) == {"r1": 1}
    away_from = {"podAntiAffinity": {PREFERRED: [{"weight": 50, "podAffinityTerm": term({"app": "a"})}]}}
    assert where(decide([asks("a", away_from, 6)])) == {f"n{at}": 1 for at in range(6)}
    soft = even({"app": "a"}, RACK, whenUnsatisfiable="ScheduleAnyway")
    assert where(decide([asks("a", soft, 3)]), RACK) == {"r0": 1, "r1": 1, "r2": 1}
    without = replace(Policy(), affinity_weight=0, binpack=Binpack())
    found = plan(view(SIX, [gang("a", of=wishes(nodeAffinity=likes))]), without, 0)
    assert found.assignments[0].node == "n0", "a weight of 0 switches wishes off"


@pytest.mark.parametrize(
    ("policies", "goes_to"),
    [
        ({"nodeTaintsPolicy": "Honor"}, "n1"),
        ({}, "n2"),
        ({"nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore"}, "n1"),
    ],
)
def test_soft_spread_counts_no_pods_on_nodes_that_its_policies_leave_out(
    policies: dict[str, str], goes_to: str
) -> None:
    nodes = [
        node("n0", cpu=8, labels={RACK: "r0"}, taints=[Taint("team", "red")]),
        node("n1", cpu=8, labels={RACK: "r0"}),
        node("n2", cpu=8, labels={RACK: "r1"}),
    ]
    soft = even({"app": "a"}, RACK, whenUnsatisfiable="ScheduleAnyway", **policies)
    found = decide([asks("a", soft)], [there("a", {"n0": 3, "n2": 1})], nodes)
    assert [one.node for one in found.assignments] == [goes_to]


def test_soft_spread_counts_no_pods_on_nodes_of_another_affinity() -> None:
    nodes = [node(f"n{at}", cpu=8, labels={RACK: f"r{at // 2}", "pool": "a" if at else "b"}) for at in range(4)]
    soft = even({"app": "a"}, RACK, whenUnsatisfiable="ScheduleAnyway")
    made = asks("a", soft)
    pools = tuple(
        structs.replace(one, pod_class=replace(one.pod_class, node_selector=(("pool", "a"),))) for one in made.waiting
    )
    found = decide([structs.replace(made, waiting=pools)], [there("a", {"n0": 3, "n2": 1})], nodes)
    assert [one.node for one in found.assignments] == ["n1"]


def test_soft_taints_are_avoided_while_there_is_room() -> None:
    soft = Taint("busy", "", "PreferNoSchedule")
    nodes = [node("n0", cpu=2, taints=[soft]), node("n1", cpu=2)]
    found = decide([gang("a", pods=3)], nodes=nodes)
    assert Counter(one.node for one in found.assignments) == {"n1": 2, "n0": 1}
    fine = pod_class(tolerations=[Toleration("busy", "Exists")])
    assert decide([gang("a", of=fine)], nodes=nodes).assignments[0].node == "n0"


# --- one domain for a gang


def wants(policy: str, *levels: str, pods: int = 4, cpu: int = 4, **more: Any) -> Gang:
    return structs.replace(gang("g", pods=pods, cpu=cpu, **more), topology=policy, levels=levels)


@pytest.mark.parametrize(
    ("asked", "by", "expected"),
    [
        (wants("Required", HOST, RACK, ZONE, pods=2), HOST, {"n0": 2}),
        (wants("Required", HOST, RACK, ZONE, pods=4), RACK, {"r0": 4}),
        (wants("Required", HOST, RACK, ZONE, pods=8), ZONE, {"a": 8}),
        (wants("Preferred", HOST, RACK, ZONE, pods=12), ZONE, {"a": 8, "b": 4}),
        (wants("None", HOST, pods=12), ZONE, {"a": 8, "b": 4}),
    ],
    ids=["one host", "one rack", "one zone", "preferred", "none"],
)
def test_the_first_level_at_which_the_gang_fits(asked: Gang, by: str, expected: dict[str, int]) -> None:
    assert where(decide([asked]), by) == expected


def test_the_domain_that_leaves_the_least_free() -> None:
    taken = table(SIX)
    taken.charge(taken.row("n2"), pod_class(cpu=4))
    assert where(decide([wants("Required", RACK, pods=3)], nodes=taken), RACK) == {"r1": 3}
    assert where(decide([wants("Required", RACK, pods=4)], nodes=taken), RACK) == {"r0": 4}


def test_a_gang_that_must_be_together_waits_and_says_what_is_best() -> None:
    found = decide([wants("Required", RACK, pods=5), structs.replace(gang("plain", pods=2, cpu=4), uid="plain")])
    assert why(found)["g"] == ["NeverFits"]
    assert (found.waiting[0].reasons[0].needs, found.waiting[0].reasons[0].has) == ({"members": 5}, {"members": 4})
    assert {one.gang for one in found.assignments} == {"plain"}
    taken = table(SIX)
    for at in range(6):
        taken.charge(taken.row(f"n{at}"), pod_class(cpu=1))
    found = decide([wants("Required", RACK, pods=4)], nodes=taken)
    assert why(found)["g"][0] == "TopologyNotSatisfied"
    assert found.waiting[0].reasons[0].has == {"members": 2}


def test_later_members_join_where_the_gang_is() -> None:
    refill = structs.replace(wants("Required", RACK, pods=1, placed={"": 1}), nodes=("n3",))
    assert where(decide([refill]), RACK) == {"r1": 1}
    growing = structs.replace(wants("Required", RACK, pods=6, min_member=2), nodes=())
    assert where(decide([growing]), RACK) == {"r0": 4}


@pytest.mark.parametrize(
    ("affinity", "path"),
    [
        ({"podAffinity": {REQUIRED: [{}]}}, f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey"),
        ({"podAffinity": {REQUIRED: {}}, "podAntiAffinity": []}, None),
        ({"podAffinity": {REQUIRED: "x"}}, f"spec.affinity.podAffinity.{REQUIRED}"),
        ({"podAffinity": {PREFERRED: [{"weight": 0}]}}, f"spec.affinity.podAffinity.{PREFERRED}[0]"),
    ],
)
def test_malformed_rules_are_named(affinity: dict[str, Any], path: str | None) -> None:
    if path is None:
        assert parse_rules(affinity, None, "test", {}) is None
        return
    with pytest.raises(Invalid) as error:
        parse_rules(affinity, None, "test", {})
    assert error.value.errors[0].path.startswith(path)


def test_contradictions_stop_no_other_gang() -> None:
    both = {**near({"app": "x"}), **away({"app": "x"})}
    found = decide([asks("a", both), gang("plain")], [there("x", {"n0": 1})])
    assert (why(found), {one.gang for one in found.assignments}) == ({"a": ["TopologyNotSatisfied"]}, {"plain"})


def test_a_pod_on_a_node_without_the_label_is_no_company_and_no_hindrance() -> None:
    """The first of pods that want to be together may be anywhere: who is in no domain does not count."""
    bare = node("x", cpu=8)
    found = decide([asks("a", near({"app": "a"}, RACK), 2)], [there("a", {"x": 1})], nodes=[*SIX, bare])
    assert where(found, RACK) == {"r0": 2}


def test_a_gang_within_one_rack_whose_pods_want_to_be_near_each_other() -> None:
    db = asks("db", {}, 2, created=1)
    web = asks("web", near({"app": "db"}, RACK))
    both = structs.replace(db, waiting=(*db.waiting, *web.waiting), total=3, min_member=3, levels=(RACK,))
    for topology in ("Required", "Preferred", "None"):
        found = decide([structs.replace(both, topology=topology)])
        assert len(found.assignments) == 3, topology
        assert len(where(found, RACK)) == 1


def test_nodes_that_a_kind_of_rule_forbids_are_counted_once_whichever_rule_it_is() -> None:
    """Anti-affinity of its own forbids one node, that of a neighbour another."""
    shy = there("shy", {"n1": 1}, away({"app": "a"}))
    found = decide([asks("a", away({"app": "other"}))], [there("other", {"n0": 1}), shy], nodes=SIX[:2])
    assert found.waiting[0].reasons[0].nodes == {"match": 2, "fit": 2, "pod anti-affinity": 2, "left": 0}
