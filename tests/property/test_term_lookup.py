"""Terms found through labels are those that a look at every term finds, and so are pods."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.engine.placement.term_lookup import PodLookup, TermLookup
from t9ksched.model.labels import LabelSelector, Requirement
from t9ksched.model.podrules import Peers, PodTerm, namespace_labels
from tests.property import ruled_pods

Pods = dict[int, tuple[str, dict[str, str]]]


@given(st.integers(0, 10**9), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_what_is_found_is_what_a_look_at_everything_finds(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    spaces = {name: ruled_pods.labels(rng) for name in ruled_pods.SPACES if rng.random() < 0.8}
    terms: dict[int, PodTerm] = {}
    pods: Pods = {}
    by_label: TermLookup[int] = TermLookup()
    filed: PodLookup[int] = PodLookup()
    for at in range(steps):
        if rng.random() < 0.5:
            terms[at] = ruled_pods.term(rng)
            by_label.add(terms[at], at)
        else:
            pods[at] = rng.choice(ruled_pods.SPACES), ruled_pods.labels(rng)
            filed.add(at, *pods[at])
        if terms and rng.random() < 0.3:
            gone = rng.choice(sorted(terms))
            del terms[gone]
            by_label.remove(gone)
        if pods and rng.random() < 0.3:
            gone = rng.choice(sorted(pods))
            filed.remove(gone, pods.pop(gone)[0])
        for namespace, labels in pods.values():
            found = by_label.selecting(namespace, labels, namespace_labels(namespace, spaces))
            expected = [at for at, one in terms.items() if ruled_pods.selecting([one], namespace, labels, spaces)]
            assert sorted(found) == expected
        for one in terms.values():
            expected = [at for at, pod in pods.items() if ruled_pods.selecting([one], *pod, spaces)]
            assert sorted(filed.selected(one, lambda name: namespace_labels(name, spaces))) == sorted(expected)


def test_only_terms_under_a_label_of_the_pod_are_asked() -> None:
    class Asked(PodTerm):
        count = 0

        def matches(self, *args: object) -> bool:
            Asked.count += 1
            return super().matches(*args)  # type: ignore[arg-type]

    rng = random.Random(1)
    lookup: TermLookup[int] = TermLookup()
    filed: PodLookup[int] = PodLookup()
    for at in range(500):
        peers = Peers(
            LabelSelector(
                (
                    Requirement("all", "In", ("alike",)),
                    Requirement("app", "In", (f"app-{at}",)),
                    Requirement("tier", "Exists"),
                )
            ),
            ("a",),
        )
        lookup.add(Asked((peers,), "rack"), at)
        filed.add(at, "a", {"all": "alike", "app": f"app-{at}", "tier": rng.choice("xy")})
    assert lookup.selecting("a", {"all": "alike", "app": "app-7", "tier": "x"}, {}) == [7]
    assert Asked.count <= 2, "the first was filed before another label was known to tell more"
    Asked.count = 0
    assert list(filed.selected(Asked((peers,), "rack"), lambda _: {})) == [499]
    assert Asked.count == 1


def test_terms_with_many_values_and_namespaces_are_found_by_each() -> None:
    values, spaces = tuple(f"v{at:03}" for at in range(200)), tuple(f"s{at:03}" for at in range(200))
    for asked in (LabelSelector((Requirement("app", "In", values),)), LabelSelector(())):
        lookup: TermLookup[int] = TermLookup()
        lookup.add(PodTerm((Peers(asked, spaces),), "rack"), 1)
        for value, space in zip(values, reversed(spaces), strict=True):
            assert lookup.selecting(space, {"app": value}, {}) == [1]
        assert lookup.selecting("other", {"app": values[0]}, {}) == []
        lookup.remove(1)
        assert not lookup._filed


def test_labels_that_terms_ask_for_no_more_are_filed_to_a_bound() -> None:
    filed: PodLookup[int] = PodLookup()
    filed.add(1, "a", {f"k{at}": "x" for at in range(500)})
    for at in range(500):
        selector = LabelSelector((Requirement(f"k{at}", "In", ("x",)),))
        assert list(filed.selected(PodTerm((Peers(selector, ("a",)),), "rack"), lambda _: {})) == [1]
    assert len(filed._filed) <= 64
    filed.remove(1, "a")
    assert not filed._filed
