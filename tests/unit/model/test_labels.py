"""Selectors: every operator, and the path of every fault."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.model.errors import Invalid
from t9ksched.model.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from t9ksched.model.taints import Taint, Toleration, untolerated

LABELS = {"tier": "gold", "size": "10", "zone": ""}


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ({"key": "tier", "operator": "In", "values": ["gold"]}, True),
        ({"key": "tier", "operator": "NotIn", "values": ["gold"]}, False),
        ({"key": "absent", "operator": "NotIn", "values": ["gold"]}, True),
        ({"key": "tier", "operator": "Exists"}, True),
        ({"key": "tier", "operator": "DoesNotExist"}, False),
    ],
)
def test_object_form(expression: dict[str, object], matches: bool) -> None:
    selector = LabelSelector.parse({"matchExpressions": [expression]}, "spec.nodeSelector")
    assert selector.matches(LABELS) is matches


def test_a_value_that_is_named_twice_counts_once() -> None:
    def one(*values: str) -> LabelSelector:
        return LabelSelector.parse({"matchExpressions": [{"key": "tier", "operator": "In", "values": [*values]}]})

    assert one("gold", "blue", "gold") == one("blue", "gold")


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ([], "s"),
        ({"matchLabel": {}}, "s.matchLabel"),
        ({"matchLabels": {"a b": "c"}}, "s.matchLabels.a b"),
        ({"matchLabels": {"example.com/a": "c d"}}, "s.matchLabels[example.com/a]"),
        ({"matchLabels": {"a": 1}}, "s.matchLabels.a"),
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}, "s.matchExpressions[0].operator"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "s.matchExpressions[0].values"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "s.matchExpressions[0].values"),
        ({"matchExpressions": [{"operator": "Exists"}]}, "s.matchExpressions[0].key"),
        ({"matchExpressions": ["a"]}, "s.matchExpressions[0]"),
    ],
)
def test_faults_have_paths(raw: object, path: str) -> None:
    with pytest.raises(Invalid) as failure:
        LabelSelector.parse(raw, "s")
    assert [fault.path for fault in failure.value.errors] == [path]


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([], False),
        ([{}], False),
        ([{"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["9"]}]}], True),
        ([{"matchExpressions": [{"key": "size", "operator": "Lt", "values": ["9"]}]}], False),
        ([{"matchExpressions": [{"key": "tier", "operator": "Gt", "values": ["9"]}]}], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}], False),
        (
            [
                {"matchExpressions": [{"key": "absent", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            ],
            True,
        ),
    ],
)
def test_node_selectors(terms: list[object], matches: bool) -> None:
    assert NodeSelector.parse(terms).matches(LABELS, "n1") is matches


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("a", "Equal", "b", "NoSchedule"), True),
        (Toleration("a", "Equal", "b"), True),
        (Toleration("a", "Equal", "c"), False),
        (Toleration("a", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal", "b"), False),
        (Toleration("a", "Exists", "", "NoExecute"), False),
        (Toleration("other", "Exists"), False),
    ],
)
def test_tolerations(toleration: Toleration, tolerates: bool) -> None:
    taint = Taint("a", "b", "NoSchedule")
    assert toleration.tolerates(taint) is tolerates
    assert (untolerated([taint], [toleration]) is None) is tolerates


def test_a_preference_forbids_nothing() -> None:
    assert untolerated([Taint("a", "b", "PreferNoSchedule")], []) is None


SOME = st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).map(lambda values: tuple(sorted(values)))
NODES = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("abc"))
REQUIREMENTS = st.one_of(
    st.builds(Requirement, st.sampled_from("xyz"), st.sampled_from(("In", "In", "NotIn")), SOME),
    st.builds(Requirement, st.sampled_from("xyz"), st.sampled_from(("Exists", "DoesNotExist"))),
)
FIELDS = st.builds(Requirement, st.just("metadata.name"), st.sampled_from(("In", "NotIn")), SOME)
TERMS = st.builds(
    NodeSelectorTerm,
    st.lists(REQUIREMENTS, max_size=3).map(tuple),
    st.lists(FIELDS, max_size=1).map(tuple),
)


@given(st.lists(TERMS, max_size=12), st.lists(st.tuples(NODES, st.sampled_from("abc")), min_size=1))
@settings(max_examples=300, deadline=None)
def test_of_many_terms_those_are_found_that_match(
    terms: list[NodeSelectorTerm], nodes: list[tuple[dict[str, str], str]]
) -> None:
    selector = NodeSelector(tuple(terms))
    for labels, name in nodes:
        assert selector.matches(labels, name) == any(term.matches(labels, name) for term in terms)


@pytest.mark.parametrize("zoned", [False, True])
def test_of_many_terms_a_node_is_asked_those_of_its_labels(zoned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    zone = (Requirement("zone", "In", ("z",)),) if zoned else ()
    terms = [NodeSelectorTerm((*zone, Requirement("host", "In", (f"n{at}",)))) for at in range(500)]
    asked: list[NodeSelectorTerm] = []
    matches = NodeSelectorTerm.matches

    def ask(self: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
        asked.append(self)
        return matches(self, labels, name)

    monkeypatch.setattr(NodeSelectorTerm, "matches", ask)
    selector = NodeSelector(tuple(terms))
    assert selector.label_keys == (*(one.key for one in zone), "host")
    assert selector.matches({"zone": "z", "host": "n7"}, "n7")
    assert not selector.matches({"zone": "z", "host": "elsewhere"}, "n7")
    assert asked == [terms[7]]
