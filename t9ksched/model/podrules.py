"""Rules of a pod about other pods and nodes: what it requires and what it prefers.

Pod affinity and anti-affinity, topology spread constraints and preferred node affinity as frozen values, so that pods
with equal rules are one class. A `PodTerm` says which pods a term selects; a pod without any rule has no `PodRules`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from t9ksched.model.errors import Invalid, faulty
from t9ksched.model.labels import LabelSelector, NodeSelector, Requirement

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def namespace_labels(name: str, known: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """Labels of a namespace; of one that is not known yet the label that every namespace has."""
    return known.get(name) or {"kubernetes.io/metadata.name": name}


class Peers(msgspec.Struct, frozen=True):
    """Pods by label and namespace. `selector` None selects none; `namespace_selector` adds namespaces by label."""

    selector: LabelSelector | None
    namespaces: tuple[str, ...]
    namespace_selector: LabelSelector | None = None

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether it speaks of a pod with these labels in this namespace."""
        if self.selector is None:
            return False
        if namespace not in self.namespaces and (
            self.namespace_selector is None or not self.namespace_selector.matches(namespace_labels)
        ):
            return False
        return self.selector.matches(labels)


class PodTerm(msgspec.Struct, frozen=True):
    """Pods that all of `peers` select, counted by the value of a node label."""

    peers: tuple[Peers, ...]
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether it speaks of a pod with these labels in this namespace."""
        return all(one.matches(namespace, labels, namespace_labels) for one in self.peers)


class Spread(msgspec.Struct, frozen=True):
    """A topology spread constraint.

    Attributes:
        max_skew: by how much a domain may have more matching pods than the domain with the fewest.
        min_domains: with fewer domains than this the fewest count as 0.
        hard: it filters (`DoNotSchedule`); otherwise it only ranks.
        own_nodes: only nodes that the pod's selector and node affinity allow count as domains.
        untainted: nodes whose taints the pod does not tolerate count as no domains.
    """

    term: PodTerm
    max_skew: int
    min_domains: int = 1
    hard: bool = True
    own_nodes: bool = True
    untainted: bool = False


class PodRules(msgspec.Struct, frozen=True):
    """All rules of a pod; `together`, one a topology key, `apart` and hard `spread` filter, the others rank.

    Attributes:
        prefer_pods: `(weight, term)`, negative weights for preferred anti-affinity.
        prefer_nodes: `(weight, nodes)`.
    """

    together: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    prefer_pods: tuple[tuple[int, PodTerm], ...] = ()
    prefer_nodes: tuple[tuple[int, NodeSelector], ...] = ()

    @property
    def filters(self) -> bool:
        """Whether any rule about pods can keep it off a node."""
        return bool(self.together or self.apart) or any(one.hard for one in self.spread)

    @property
    def terms(self) -> tuple[PodTerm, ...]:
        """Every term that is counted for these rules."""
        return (
            *self.together,
            *self.apart,
            *(one.term for one in self.spread),
            *(term for _, term in self.prefer_pods),
        )


def parse_rules(
    affinity: Mapping[str, Any] | None,
    spread: Sequence[Mapping[str, Any]] | None,
    namespace: str,
    labels: Mapping[str, str],
) -> PodRules | None:
    """The rules of a pod with these labels, None when it has none.

    Raises:
        Invalid: a rule is malformed; the paths start at the pod's spec.
    """
    if not affinity and not spread:
        return None
    pods = _part(affinity, "podAffinity")
    against = _part(affinity, "podAntiAffinity")
    nodes = _part(affinity, "nodeAffinity")
    required = [
        _term(raw, f"spec.affinity.podAffinity.{_REQUIRED}[{at}]", namespace, labels)
        for at, raw in enumerate(_list(pods, _REQUIRED, "spec.affinity.podAffinity"))
    ]
    # A pod counts only where it matches every term; each term then looks at its own topology.
    everyone = tuple(one for term in required for one in term.peers)
    rules = PodRules(
        together=tuple(PodTerm(everyone, term.topology_key) for term in required),
        apart=tuple(
            _term(raw, f"spec.affinity.podAntiAffinity.{_REQUIRED}[{at}]", namespace, labels)
            for at, raw in enumerate(_list(against, _REQUIRED, "spec.affinity.podAntiAffinity"))
        ),
        spread=tuple(
            _spread(raw, f"spec.topologySpreadConstraints[{at}]", namespace, labels)
            for at, raw in enumerate(spread or ())
        ),
        prefer_pods=(
            *_weighted(pods, "podAffinity", 1, namespace, labels),
            *_weighted(against, "podAntiAffinity", -1, namespace, labels),
        ),
        prefer_nodes=tuple(
            (
                _weight(raw, f"spec.affinity.nodeAffinity.{_PREFERRED}[{at}]"),
                NodeSelector.parse(
                    [raw.get("preference") or {}], f"spec.affinity.nodeAffinity.{_PREFERRED}[{at}].preference"
                ),
            )
            for at, raw in enumerate(_list(nodes, _PREFERRED, "spec.affinity.nodeAffinity"))
        ),
    )
    return rules if rules != PodRules() else None


def _part(affinity: Mapping[str, Any] | None, key: str) -> Mapping[str, Any]:
    part = (affinity or {}).get(key) or {}
    if not isinstance(part, Mapping):
        raise Invalid.at(f"spec.affinity.{key}", "must be a mapping")
    return part


def _list(part: Mapping[str, Any], key: str, path: str) -> list[Mapping[str, Any]]:
    found = part.get(key) or []
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise Invalid.at(f"{path}.{key}", "must be a list of mappings")
    return found


def _weight(raw: Mapping[str, Any], path: str) -> int:
    weight = raw.get("weight")
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 100:
        raise Invalid.at(f"{path}.weight", f"{faulty(weight, 'is out of range')}: use a whole number from 1 to 100")
    return weight


def _weighted(
    part: Mapping[str, Any], kind: str, sign: int, namespace: str, labels: Mapping[str, str]
) -> list[tuple[int, PodTerm]]:
    found = []
    for at, raw in enumerate(_list(part, _PREFERRED, f"spec.affinity.{kind}")):
        path = f"spec.affinity.{kind}.{_PREFERRED}[{at}]"
        term = _term(raw.get("podAffinityTerm") or {}, f"{path}.podAffinityTerm", namespace, labels)
        found.append((sign * _weight(raw, path), term))
    return found


def _key(raw: Mapping[str, Any], path: str) -> str:
    key = raw.get("topologyKey")
    if not isinstance(key, str) or not key:
        raise Invalid.at(f"{path}.topologyKey", "is required and must be a node label")
    return key


def _selector(raw: Mapping[str, Any], path: str, labels: Mapping[str, str]) -> LabelSelector | None:
    if raw.get("labelSelector") is None:
        return None
    selector = LabelSelector.parse(raw["labelSelector"], f"{path}.labelSelector")
    # Newer API servers have merged these keys into the selector at creation, and refuse selectors that name them else:
    # what stands there holds, whatever the pod's labels have become since.
    merged = {requirement.key for requirement in selector.requirements}
    mine = {key: value for key, value in labels.items() if key not in merged}
    own = [Requirement(key, "In", (mine[key],)) for key in raw.get("matchLabelKeys") or () if key in mine]
    other = [Requirement(key, "NotIn", (mine[key],)) for key in raw.get("mismatchLabelKeys") or () if key in mine]
    return LabelSelector((*selector.requirements, *own, *other))


def _term(raw: Any, path: str, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    if not isinstance(raw, Mapping):
        raise Invalid.at(path, "must be a mapping")
    among = raw.get("namespaceSelector")
    named = raw.get("namespaces") or []
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise Invalid.at(f"{path}.namespaces", "must be a list of names")
    peers = Peers(
        _selector(raw, path, labels),
        tuple(sorted(named)) if named or among is not None else (namespace,),
        None if among is None else LabelSelector.parse(among, f"{path}.namespaceSelector"),
    )
    return PodTerm((peers,), _key(raw, path))


def _spread(raw: Any, path: str, namespace: str, labels: Mapping[str, str]) -> Spread:
    if not isinstance(raw, Mapping):
        raise Invalid.at(path, "must be a mapping")
    skew = raw.get("maxSkew")
    if isinstance(skew, bool) or not isinstance(skew, int) or skew < 1:
        raise Invalid.at(f"{path}.maxSkew", f"{faulty(skew, 'is out of range')}: use a whole number from 1")
    return Spread(
        PodTerm((Peers(_selector(raw, path, labels), (namespace,)),), _key(raw, path)),
        skew,
        raw.get("minDomains") or 1,
        raw.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
        raw.get("nodeAffinityPolicy", "Honor") != "Ignore",
        raw.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )
