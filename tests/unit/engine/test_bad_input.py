"""What can never be asked for: each gets a clear reason, and the gang beside it starts all the same."""

from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.policy import Policy
from t9ksched.engine.view import dump, load
from t9ksched.model.gang import Gang
from t9ksched.model.labels import LabelSelector, NodeSelector
from t9ksched.model.podrules import parse_rules
from tests.builders import GPU, gang, member, node, pod_class, queue, running, view
from tests.unit.engine.deciding import codes, decide, starts

NODES = [node(f"n{at}", cpu=16, gpu=8, labels={"zone": "ab"[at % 2]}) for at in range(4)]


def affinity(*requirements: tuple[str, str, list[str]]) -> NodeSelector | None:
    return NodeSelector.parse(
        [{"matchExpressions": [{"key": key, "operator": how, "values": values} for key, how, values in requirements]}]
    )


def ruled(**affinities: dict[str, object]) -> Gang:
    """Two pods that must, or must not, be near pods labelled `app: bad`, which they are."""
    term = {"labelSelector": {"matchLabels": {"app": "bad"}}, "topologyKey": "zone"}
    required = {
        name: {"requiredDuringSchedulingIgnoredDuringExecution": [term | of]} for name, of in affinities.items()
    }
    of = replace(pod_class(), rules=parse_rules(required, None, "test", {"app": "bad"}))
    found = gang("bad", pods=2, of=of)
    return structs.replace(
        found, waiting=tuple(structs.replace(one, labels=(("app", "bad"),)) for one in found.waiting)
    )


def contradicts_itself() -> Gang:
    return gang("bad", of=pod_class(affinity=affinity(("zone", "In", ["a"]), ("zone", "NotIn", ["a"]))))


CASES: dict[str, tuple[Gang, str, str]] = {
    "contradictory node affinity": (contradicts_itself(), "NoNodeMatches", "no node of 4 may run it"),
    "selector against affinity": (
        gang("bad", of=pod_class(selector={"zone": "a"}, affinity=affinity(("zone", "In", ["b"])))),
        "NoNodeMatches",
        "4 do not match the pod's nodeSelector or node affinity",
    ),
    "near and far from the same pods": (
        ruled(podAffinity={}, podAntiAffinity={}),
        "NeverFits",
        "as these pods must be near each other",
    ),
    "near pods that do not exist": (
        ruled(podAffinity={"labelSelector": {"matchLabels": {"app": "nobody"}}}),
        "TopologyNotSatisfied",
        "pod affinity forbids 4",
    ),
    "near pods, by a label no node has": (
        ruled(podAffinity={"topologyKey": "no-such-label"}),
        "NeverFits",
        "on nodes with the label no-such-label",
    ),
    "selector on a label no node has": (gang("bad", selector={"missing": "x"}), "NoNodeMatches", "no node of 4"),
    "together by a label no node has": (
        structs.replace(gang("bad", pods=2), topology="Required", levels=("no-such-label",)),
        "NeverFits",
        "no node has such a label",
    ),
    "a gang larger than the cluster": (gang("bad", pods=5, gpu=8), "NeverFits", "when empty with room for 4"),
    "a pod larger than any node": (gang("bad", gpu=9), "NeverFits", "needs 9 × nvidia.com/gpu on one node"),
    "cpu and cards that no node has both of": (gang("bad", cpu=17, gpu=8), "NeverFits", "the largest has 16"),
    "minMember above replicas": (gang("bad", pods=2, min_member=3), "GangIncomplete", "has 2 of 3 members"),
    "minMember beyond any number": (gang("bad", min_member=1 << 62), "GangIncomplete", "members"),
    "roles that sum above the members": (
        gang(
            "bad",
            members=[member("b0", pod_class(), "lead"), member("b1", pod_class(), "work")],
            min_member=1,
            roles={"lead": 2, "work": 2},
        ),
        "GangIncomplete",
        "has 1 of 2 in role 'lead', has 1 of 2 in role 'work'",
    ),
    "a role without members": (gang("bad", pods=2, roles={"ghost": 1}), "GangIncomplete", "has 0 of 1 in role 'ghost'"),
    "a resource no node has": (gang("bad", **{"example.com/fpga": 1}), "NeverFits", "1 × example.com/fpga"),
    "more than any number we count in": (gang("bad", cpu="1e30"), "NeverFits", "cpu on one node"),
    "no members at all": (gang("bad", pods=0, min_member=1), "GangIncomplete", "has 0 of 1 members"),
    "a queue that does not exist": (gang("bad", queue="nowhere"), "QueueNotFound", "queue 'nowhere' does not exist"),
}


@pytest.mark.parametrize("preempts", [False, True], ids=["allocate", "preempt"])
@pytest.mark.parametrize(("bad", "code", "says"), CASES.values(), ids=CASES)
def test_each_has_a_clear_reason_and_stops_no_other_gang(bad: Gang, code: str, says: str, preempts: bool) -> None:
    policy = Policy(actions=("allocate", "preempt") if preempts else ("allocate",))
    asked = [structs.replace(bad, priority=9, created=1), gang("fine", gpu=1, created=2)]
    given = view(
        NODES, asked, {"q": queue(), "low": queue()}, running=[running("low", "low", ["n3"], gpu=1, cards=[1])]
    )
    found = decide(given, policy)
    assert codes(found)["bad"][0] == code
    assert says in " ".join(reason.message for entry in found.waiting for reason in entry.reasons)
    assert all(reason.unblocks for reason in found.waiting[0].reasons), "what would help is told too"
    assert (starts(found), found.evictions) == (["fine"], ()), "no gang is blocked, and no victim goes in vain"
    assert decide(load(dump(given)), policy).to_bytes() == found.to_bytes()


@pytest.mark.parametrize(
    "asked",
    [
        gang("g", of=pod_class(cpu=0, memory=0)),
        gang("g", of=replace(pod_class(), requests=())),
        gang("g", of=replace(pod_class(), requests=(("cpu", 0), (GPU, 0), ("pods", 1)))),
        gang("g", pods=500, of=replace(pod_class(), requests=())),
        gang("g", min_member=0),
        gang("g", min_member=-3),
    ],
    ids=["no cpu", "nothing", "zeros by name", "500 times nothing", "minMember 0", "minMember below 0"],
)
def test_what_asks_for_nothing_starts(asked: Gang) -> None:
    found = decide(view(NODES, [asked]))
    assert len(found.assignments) == len(asked.waiting)
    assert not found.waiting


def test_a_cluster_without_nodes_says_so() -> None:
    found = decide(view([], [gang("g"), gang("h", gpu=1)]))
    assert codes(found) == {"g": ["NoNodeMatches"], "h": ["NoNodeMatches"]}
    assert found.waiting[0].reasons[0].message == "the cluster has no nodes"


def test_a_queue_that_selects_no_node_stops_only_itself() -> None:
    nowhere = LabelSelector.parse({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]})
    lost = queue()
    lost = replace(lost, spec=replace(lost.spec, node_selector=nowhere))
    found = decide(view(NODES, [gang("bad", "lost"), gang("fine", "q")], {"lost": lost, "q": queue()}))
    assert (codes(found), starts(found)) == ({"bad": ["NoNodeMatches"]}, ["fine"])
