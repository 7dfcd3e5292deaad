"""Which pods terms select, kept from cycle to cycle, is what a look at everything finds; and so are plans."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.placement.pod_affinity import PodAffinityState
from t9ksched.engine.placement.standing import COUNTS, HOLDERS, LEAVING, WEIGHTS
from t9ksched.engine.placement.standing_pods import StandingPods
from t9ksched.engine.planner import Planner, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.engine.work import Meter, finish
from t9ksched.model.gang import Gang, Member, Neighbours
from t9ksched.model.labels import LabelSelector
from t9ksched.model.podrules import Peers, PodRules, PodTerm
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.builders import node, pod_class, queue, table, view
from tests.property import ruled_pods

NODES = tuple(f"n{at}" for at in range(4))


class World:
    """Views that follow one another."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.nodes = list(NODES[:3])
        self.racks = {name: name[-1] for name in NODES}
        self.gangs: list[Gang] = []
        self.groups: list[Neighbours] = []
        self.held: list[Reservation] = []
        self.spaces: Mapping[str, Mapping[str, str]] = {}
        self.classes = [pod_class(cpu=1), replace(pod_class(cpu=1), rules=ruled_pods.rules(self.rng))]
        self.made = 0

    def gang(self) -> None:
        rng = self.rng
        self.made += 1
        space = rng.choice(ruled_pods.SPACES)
        of = rng.choice(self.classes)
        if rng.random() < 0.3:
            of = replace(of, rules=ruled_pods.rules(rng))
            self.classes.append(of)
        members = []
        alike = tuple(sorted(ruled_pods.labels(rng).items()))
        for at in range(rng.randint(1, 3)):
            labels = alike if rng.random() < 0.7 else tuple(sorted(ruled_pods.labels(rng).items()))
            members.append(Member(f"g{self.made}-{at}", f"{space}/g{self.made}-{at}", "", of, labels))
        self.gangs.append(
            Gang(f"g{self.made}", f"{space}/g{self.made}", "q", waiting=tuple(members), total=len(members))
        )

    def ungang(self) -> None:
        if self.gangs:
            del self.gangs[self.rng.randrange(len(self.gangs))]

    def copy(self) -> None:
        """An equal value in place of a gang, and of a group."""
        if self.gangs:
            at = self.rng.randrange(len(self.gangs))
            self.gangs[at] = structs.replace(self.gangs[at])
        if self.groups:
            at = self.rng.randrange(len(self.groups))
            self.groups[at] = structs.replace(self.groups[at])

    def relabel(self) -> None:
        if self.gangs:
            at = self.rng.randrange(len(self.gangs))
            labels = tuple(sorted(ruled_pods.labels(self.rng).items()))
            waiting = tuple(structs.replace(one, labels=labels) for one in self.gangs[at].waiting)
            self.gangs[at] = structs.replace(self.gangs[at], waiting=waiting)

    def group(self) -> None:
        rng = self.rng
        rules = ruled_pods.rules(rng) if rng.random() < 0.4 else PodRules()
        nodes = tuple(sorted((name, rng.randint(1, 3)) for name in rng.sample(NODES, rng.randint(1, 3))))
        labels = tuple(sorted(ruled_pods.labels(rng).items()))
        space, leaving = rng.choice(ruled_pods.SPACES), rng.random() < 0.2
        self.groups.append(Neighbours(space, labels, nodes, rules.apart, rules.prefer_pods, leaving))

    def ungroup(self) -> None:
        if self.groups:
            del self.groups[self.rng.randrange(len(self.groups))]

    def again(self) -> None:
        """The same group twice."""
        if self.groups:
            self.groups.append(self.groups[0])

    def hold(self) -> None:
        if self.held and self.rng.random() < 0.6:
            self.held.pop()
        else:
            counted = (ruled_pods.term(self.rng),) if self.rng.random() < 0.5 else ()
            of = replace(self.rng.choice(self.classes), counted=counted)
            self.held.append(Reservation(f"o{self.made}", "n0", of, ReservationKind.BINDING))

    def node(self) -> None:
        self.nodes = sorted(self.rng.sample(NODES, self.rng.randint(1, 4)))

    def rack(self) -> None:
        """A node is in another rack, or in none."""
        self.racks[self.rng.choice(NODES)] = self.rng.choice(("", "0", "1"))

    def space(self) -> None:
        self.spaces = {name: ruled_pods.labels(self.rng) for name in ruled_pods.SPACES if self.rng.random() < 0.7}

    def clear(self) -> None:
        self.gangs, self.groups, self.held = [], [], []

    def nothing(self) -> None:
        """The same view again."""

    def view(self) -> View:
        nodes = [node(name, cpu=6, labels={"rack": rack} if (rack := self.racks[name]) else {}) for name in self.nodes]
        found = view(table(nodes), self.gangs, {"q": queue()}, tuple(self.held))
        return replace(found, neighbours=tuple(self.groups), namespaces=self.spaces)


CHANGES = (
    *("gang",) * 4,
    *("ungang",) * 2,
    *("group",) * 3,
    *("ungroup",) * 2,
    *("copy", "relabel", "again", "hold", "node", "rack", "space", "clear", "nothing"),
)


def terms_of(given_view: View) -> tuple[list[PodTerm], set[PodTerm]]:
    """All terms in use, and those by which pods are kept away or drawn."""
    classes = [one.pod_class for gang in given_view.gangs for one in gang.waiting]
    classes += [one.pod_class for one in given_view.reservations]
    rules = [one.rules for one in classes if one.rules is not None]
    groups = given_view.neighbours
    used = {term for own in rules for term in (*own.apart, *(term for _, term in own.prefer_pods))}
    used |= {term for group in groups for term in (*group.apart, *(term for _, term in group.preferred_terms))}
    found = {term for own in rules for term in own.terms} | used
    return list(found | {term for one in given_view.reservations for term in one.pod_class.counted}), used


def told(given_view: View, state: PodAffinityState) -> dict[PodTerm, Any]:
    """What is known of each term, by row."""
    found = {}
    for term, one in state._standing.items():
        columns = [one.column(what, given_view.nodes.static.index) for what in (COUNTS, LEAVING, HOLDERS, WEIGHTS)]
        numbers = [dict(zip(rows.tolist(), values.tolist(), strict=True)) for rows, values in columns]
        found[term] = (*numbers, one.used)
    return found


def expected(given_view: View) -> dict[PodTerm, Any]:
    """The same by a look at everything."""
    terms, used = terms_of(given_view)
    index = given_view.nodes.static.index
    found = {term: (Counter(), Counter(), Counter(), Counter(), term in used) for term in terms}  # type: ignore[var-annotated]
    for group in given_view.neighbours:
        for name, pods in group.nodes:
            if name not in index:
                continue
            for term in ruled_pods.selecting(terms, group.namespace, dict(group.labels), given_view.namespaces):
                found[term][0][index[name]] += pods
                found[term][1][index[name]] += pods if group.leaving else 0
            for term in group.apart:
                found[term][2][index[name]] += pods
            for weight, term in group.preferred_terms:
                found[term][3][index[name]] += weight * pods
    return {
        term: (*({row: number for row, number in one.items() if number} for one in numbers), by)
        for term, (*numbers, by) in found.items()
    }


@given(st.integers(0, 10**9), st.lists(st.sampled_from(CHANGES), min_size=1, max_size=40))
@settings(max_examples=150, deadline=None)
def test_what_is_kept_is_what_a_look_at_everything_finds(seed: int, changes: list[str]) -> None:
    world, kept = World(seed), StandingPods()
    earlier: list[tuple[View, PodAffinityState, Any]] = []
    versions: dict[PodTerm, tuple[Any, int]] = {}
    for version, change in enumerate(("gang", "group", *changes), 1):
        getattr(world, change)()
        given_view = world.view()
        state = finish(kept.follow(given_view, Meter(), version))
        terms, _ = terms_of(given_view)
        assert (state is None) == (not terms)
        if state is None:
            versions = {}
            continue
        assert told(given_view, state) == expected(given_view)
        fresh = finish(StandingPods().follow(given_view, Meter(), version))
        assert fresh is not None
        assert state.gangs == fresh.gangs
        for gang, was in zip(state.gangs, given_view.gangs, strict=True):
            for one, before in zip(gang.waiting, was.waiting, strict=True):
                selecting = ruled_pods.selecting(terms, one.namespace, dict(one.labels), given_view.namespaces)
                assert set(one.pod_class.counted) == set(selecting)
                assert replace(one.pod_class, counted=()) == replace(before.pod_class, counted=())
        now = {term: (one._numbers, one.used) for term, one in state._standing.items()}
        for term, (numbers, before_version) in versions.items():
            if term in now:
                same = state._standing[term].version == before_version
                assert not same or now[term] == numbers, "what changed has another version"
                assert same or now[term] != numbers or change in ("space", "clear"), "what did not has the same one"
        versions = {term: (now[term], one.version) for term, one in state._standing.items()}
        earlier.append((given_view, state, told(given_view, state)))
    for given_view, state, was in earlier:
        assert told(given_view, state) == was, "what a cycle was given stays"


def test_a_term_that_keeps_nobody_away_any_more_is_told_so() -> None:
    """A gang wants to be near what others keep apart from; the others come and go, and have no places."""
    world, kept = World(0), StandingPods()
    term = PodTerm((Peers(LabelSelector(()), ("a",)),), "rack")

    def wants(name: str, rules: PodRules) -> Gang:
        of = replace(pod_class(cpu=1), rules=rules)
        return Gang(name, f"b/{name}", "q", waiting=(Member(name, f"b/{name}", "", of, ()),), total=1)

    near, others = wants("near", PodRules(together=(term,))), [wants(name, PodRules(apart=(term,))) for name in "xy"]
    for version, count in enumerate((0, 1, 2, 1, 0, 1), 1):
        world.gangs = [near, *others[:count]]
        state = finish(kept.follow(world.view(), Meter(), version))
        assert state is not None
        assert state._standing[term].used == bool(count)


@given(st.integers(0, 10**9), st.lists(st.sampled_from(CHANGES), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_plans_with_what_is_kept_are_those_without(seed: int, changes: list[str]) -> None:
    world, memory, rng = World(seed), Memory(), random.Random(seed)
    for change in ("gang", "gang", "group", *changes):
        getattr(world, change)()
        given_view = world.view()
        if rng.random() < 0.2:  # another plan is begun and given up
            Planner(given_view, Policy(), 0, memory).step(rng.randint(1, 5000))
        first = Planner(given_view, Policy(), 0, memory)
        done = first.step(rng.randint(1, 5000)) if rng.random() < 0.3 else False
        assert plan(given_view, Policy(), 0, memory).to_bytes() == plan(given_view, Policy(), 0).to_bytes()
        if rng.random() < 0.5:  # one that began earlier ends later
            while not done:
                done = first.step(10**6)
            assert first.result().to_bytes() == plan(given_view, Policy(), 0).to_bytes()
