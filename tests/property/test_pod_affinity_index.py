"""The state's index of pods that rules select: after each event it tells what a look at all pods and terms tells."""

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.model.gang import Gang, Member
from t9ksched.model.labels import LabelSelector, Requirement
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import Peers, PodRules, PodTerm
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.namespaces import NamespaceObject, Namespaces
from t9ksched.scheduler.state.pod_affinity_index import PodAffinityIndex, own_labels
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from tests.property import ruled_pods

NODES = ("n0", "n1", "n2")


class World:
    """Pods and namespaces that change at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pods: dict[str, PodRecord] = {}
        self.namespaces = Namespaces(lambda name: self.index.namespace_changed(name))
        self.index = PodAffinityIndex(self.pods, self.namespaces)
        self.classes = [PodClass(), PodClass(), PodClass(rules=ruled_pods.rules(self.rng))]
        self.gangs: dict[str, Gang] = {}
        self.made = 0

    def come(self) -> None:
        rng = self.rng
        self.made += 1
        uid, space = f"p{self.made}", rng.choice(ruled_pods.SPACES)
        if rng.random() < 0.3:
            self.classes.append(PodClass(rules=ruled_pods.rules(rng)))
        of = rng.choice(self.classes)
        pod = PodRecord(uid, space, uid, True, of, labels=ruled_pods.labels(rng))
        pod.gang = GangRecord(space, uid, uid=uid)
        pod.node = rng.choice(("", *NODES))
        self.pods[uid] = pod
        self.gangs[uid] = Gang(uid, pod.key, "q", waiting=(Member(uid, pod.key, "", of),))
        self.index.seen(pod)

    def _one(self) -> PodRecord | None:
        return self.rng.choice(list(self.pods.values())) if self.pods else None

    def go(self) -> None:
        if (pod := self._one()) is not None:
            del self.pods[pod.uid]
            del self.gangs[pod.uid]
            self.index.gone(pod.uid)

    def change(self) -> None:
        if (pod := self._one()) is not None:
            pod.phase = self.rng.choice(("Pending", "Running", "Running", "Succeeded"))
            pod.deleting = self.rng.random() < 0.3
            pod.node, pod.assumed = self.rng.choice((("", ""), ("", "n0"), ("n1", ""), ("n2", "")))
            self.index.seen(pod)

    def relabel(self) -> None:
        if (pod := self._one()) is not None:
            pod.labels = ruled_pods.labels(self.rng)
            self.index.seen(pod)

    def space(self) -> None:
        rng = self.rng
        meta: dict[str, Any] = {"name": rng.choice(ruled_pods.SPACES), "labels": ruled_pods.labels(rng)}
        item = decoder(NamespaceObject)({"metadata": meta})
        (self.namespaces.remove if rng.random() < 0.3 else self.namespaces.upsert)(item)

    def regang(self) -> None:
        """A gang is another value."""
        if (pod := self._one()) is not None:
            self.gangs[pod.uid] = Gang(
                pod.uid, pod.key, "q", waiting=(Member(pod.uid, pod.key, "", self.classes[0]),), priority=self.made
            )

    def check(self) -> None:
        living = [pod for pod in self.pods.values() if not pod.finished]
        own = {pod.uid: pod.pod_class.rules if pod.pod_class else None for pod in living}
        terms = list({term: None for rules in own.values() if rules is not None for term in rules.terms})
        expected: Counter[tuple[object, ...]] = Counter()
        for pod in living:
            rules = own[pod.uid] or PodRules()
            selected = ruled_pods.selecting(terms, pod.namespace, pod.labels, self.namespaces.labels)
            if (place := pod.node or pod.assumed) and (selected or rules.apart or rules.prefer_pods):
                key = (pod.namespace, own_labels(pod), rules.apart, rules.prefer_pods, pod.deleting)
                expected[(*key, place)] += 1
        told: Counter[tuple[object, ...]] = Counter()
        for one in self.index.present():
            for node, pods in one.nodes:
                told[one.namespace, one.labels, one.apart, one.preferred_terms, one.leaving, node] += pods
        assert told == expected
        assert bool(self.index) == bool(terms)
        assert self.index.present() is self.index.present()
        if not terms:
            return
        labelled = self.index.labelled(self.gangs.values())
        assert [one.waiting[0].labels for one in labelled] == [own_labels(self.pods[uid]) for uid in self.gangs]
        assert [one.priority for one in labelled] == [one.priority for one in self.gangs.values()]
        again = self.index.labelled(self.gangs.values())
        assert all(one is other for one, other in zip(labelled, again, strict=True))


CHANGES = ("come", "come", "come", "go", "change", "change", "relabel", "space", "regang")


@given(st.integers(0, 10**9), st.lists(st.sampled_from(CHANGES), min_size=1, max_size=50))
@settings(max_examples=200, deadline=None)
def test_the_index_tells_what_a_look_at_all_pods_tells(seed: int, changes: list[str]) -> None:
    world = World(seed)
    for change in ("come", *changes):
        getattr(world, change)()
        world.check()


def test_pods_of_a_namespace_that_is_labelled_later_are_selected_from_then_on() -> None:
    world = World(0)
    around = LabelSelector((Requirement("team", "In", ("a",)),))
    apart = PodTerm((Peers(LabelSelector(()), (), around),), "rack")
    world.pods["p"] = PodRecord("p", "ns", "p", True, PodClass(), node="n0")
    world.pods["rules"] = PodRecord("rules", "other", "rules", True, PodClass(rules=PodRules(apart=(apart,))))
    for pod in world.pods.values():
        world.index.seen(pod)
    for labels, told in (({"team": "b"}, []), ({"team": "a"}, ["ns"]), ({"team": "a", "x": "y"}, ["ns"]), ({}, [])):
        world.namespaces.upsert(decoder(NamespaceObject)({"metadata": {"name": "ns", "labels": labels}}))
        assert [one.namespace for one in world.index.present()] == told
