"""Clusters in which whole domains are cordoned or tainted, and pods spread over domains with and without them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import parse_rules
from t9ksched.model.taints import Taint, Toleration
from tests.builders import pod_class
from tests.property.scenes import HOST, RACK, Scene, asking

CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
AWAY: tuple[dict[str, Any], ...] = (
    {"unschedulable": True, "taints": (CORDON,)},
    {"unschedulable": True, "taints": (CORDON,)},
    {"unschedulable": True},
    {"taints": (Taint("team", "red"),)},
    {"taints": (Taint("node.kubernetes.io/not-ready", "", "NoExecute"),)},
    {"taints": (Taint("soft", "", "PreferNoSchedule"),)},
)
TOLERATED = (
    Toleration(CORDON.key, "Exists", "", "NoSchedule"),
    Toleration(CORDON.key, "Exists", "", "NoExecute"),
    Toleration("team", "Exists"),
    Toleration("", "Exists"),
)


class TaintedDomains(Scene):
    """A cluster that changes, a domain at a time, and gangs of pods that have to be spread."""

    def __init__(self, seed: object) -> None:
        super().__init__(f"tainted {seed}", ruled=True)
        rng = self.rng
        self.shapes = [(app, self._spread(app)) for app, _ in self.shapes]
        self.gangs = [asking(rng, self.shapes, at, self.names) for at in range(rng.choice([1, 2, 3, 5]))]
        self._turn()

    def _spread(self, app: str) -> PodClass:
        rng = self.rng
        one = {
            "maxSkew": rng.choice([1, 1, 2]),
            "topologyKey": rng.choice(["zone", "zone", RACK, HOST]),
            "labelSelector": {"matchLabels": {"app": app}},
            "nodeTaintsPolicy": rng.choice(["Honor", "Honor", "Ignore"]),
            "minDomains": rng.choice([1, 1, 1, 2]),
        }
        of = pod_class(cpu=rng.choice([1, 2]), memory=0, gpu=rng.choice([0, 0, 1]))
        tolerations = (rng.choice(TOLERATED),) if rng.random() < 0.3 else ()
        return replace(of, rules=parse_rules({}, [one], "test", {"app": app}), tolerations=tolerations)

    def _turn(self) -> None:
        """All nodes of a domain go away, or come back, in the same way."""
        rng = self.rng
        how = rng.choice(AWAY) if rng.random() < 0.8 else {"unschedulable": False, "taints": ()}
        for name in self._domain():
            self.table.upsert(replace(self.table.facts(name), **how))

    def _domain(self) -> Iterator[str]:
        key = self.rng.choice(["zone", "zone", RACK])
        value = self.rng.choice([self.table.facts(name).labels.get(key) for name in self.names])
        return (name for name in self.names if self.table.facts(name).labels.get(key) == value)

    def step(self) -> None:
        """Something happens, and perhaps to a whole domain."""
        super().step()
        if self.rng.random() < 0.4:
            self._turn()
