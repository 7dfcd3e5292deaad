"""Labels and terms at random, so few that terms select many pods, and a plain look at all terms."""

import random
from collections.abc import Mapping

from t9ksched.model.labels import LabelSelector, Operator, Requirement
from t9ksched.model.podrules import Peers, PodRules, PodTerm, Spread, namespace_labels

SPACES = ("a", "b", "c")
KEYS, VALUES = ("app", "tier", "at"), ("x", "y", "z")
OPERATORS: tuple[Operator, ...] = ("In", "In", "In", "NotIn", "Exists", "DoesNotExist")


def labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.6}


def selector(rng: random.Random) -> LabelSelector:
    found = []
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        operator = rng.choice(OPERATORS)
        values = tuple(sorted(rng.sample(VALUES, rng.randint(1, 2)))) if operator in ("In", "NotIn") else ()
        found.append(Requirement(rng.choice(KEYS), operator, values))
    return LabelSelector(tuple(found))


def peers(rng: random.Random) -> Peers:
    around = selector(rng) if rng.random() < 0.2 else None
    spaces = tuple(sorted(rng.sample(SPACES, rng.randint(0 if around else 1, 2))))
    return Peers(selector(rng) if rng.random() < 0.95 else None, spaces, around)


def term(rng: random.Random) -> PodTerm:
    some = tuple(peers(rng) for _ in range(rng.choice((1, 1, 1, 2))))
    return PodTerm(some, rng.choice(("kubernetes.io/hostname", "rack")))


def rules(rng: random.Random) -> PodRules:
    def some(most: int) -> tuple[PodTerm, ...]:
        return tuple(term(rng) for _ in range(rng.randint(0, most)))

    weighted = tuple((rng.choice((-5, 1, 5)), one) for one in some(1))
    return PodRules(some(1), some(2), tuple(Spread(one, 1) for one in some(1)), weighted)


def selecting(
    terms: list[PodTerm], namespace: str, own: Mapping[str, str], spaces: Mapping[str, Mapping[str, str]]
) -> list[PodTerm]:
    """The terms that select a pod, each asked."""
    return [one for one in terms if one.matches(namespace, own, namespace_labels(namespace, spaces))]
