"""One copy of what many pods have alike: their class, their labels, the cards they hold, the texts that name them.

Replicas differ in their names and little else. What was worked out for one serves the next, found by the fields that
decide it; tables that were filled by very unlike pods begin anew, so that they stay small.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from t9ksched.admission.forms import unplaceable
from t9ksched.admission.verdict import Verdict
from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.model import card_requests, cardchoice
from t9ksched.model.cards import NO_CARDS, CardGrant, CardRequest
from t9ksched.model.errors import Invalid
from t9ksched.model.names import DEFAULT_QUEUE
from t9ksched.model.pod import PodSpec, container_cards, pod_class
from t9ksched.model.podclass import ClassTable, PodClass
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.workloads.shape import Template

K = TypeVar("K")
V = TypeVar("V")
_MOST: Final = 8192
_encode: Final = msgspec.msgpack.Encoder().encode
NOTHING: Final[dict[str, str]] = {}
"""Shared and never changed."""
_CLASSES: Final = ClassTable()
"""Of all states of this process, a what-if's too: what is kept of a class elsewhere is then found by its identity."""


class Sharing:
    """The copies. `intern` keeps one object a class."""

    def __init__(self) -> None:
        self.intern = _CLASSES.intern
        self._classes: dict[bytes, tuple[PodClass, Template]] = {}
        self._unplaceable: dict[int, tuple[Template, Sequence[Verdict]]] = {}
        """By identity of the template, which it keeps."""
        self._labels: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._cards: dict[tuple[PodClass, CardDialect, tuple[str, ...]], CardGrant] = {}

    def meaning_of(
        self,
        spec: PodSpec,
        namespace: str,
        labels: Mapping[str, str],
        annotations: Mapping[str, str] = NOTHING,
        *,
        ours: bool = True,
    ) -> tuple[PodClass, Template]:
        """The pod's class, and what the rules of admission read of it; raises what `pod_class` raises. Pods that
        another scheduler places (not `ours`) choose no cards here. Annotations that mean nothing count for nothing; one
        whose resources mean nothing asks for no cards. Its amounts are charged all the same.
        """
        said = card_requests.written(annotations) if annotations else NOTHING
        if ours and annotations:
            said = {**said, **cardchoice.written(annotations)}
        around = (spec.affinity, spec.topology_spread_constraints)
        key = _encode(
            (
                spec.containers,
                spec.init_containers,
                spec.overhead,
                spec.resources,
                spec.node_selector,
                spec.tolerations,
                spec.host_network,
                around,
                (namespace, labels) if any(around) else None,  # only rules about other pods read them
                spec.resource_claims,
                said,
            )
        )
        known = self._classes.get(key)
        if known is None:
            # Where what it asks of cards means nothing, the rules of admission say so and it is not placed. One that
            # was placed before its annotations were edited holds what it held.
            cards = _cards(spec, said) or _cards(spec, NOTHING)
            own = self.intern(pod_class(spec, (), namespace, labels, said, cards))
            known = _room(self._classes)[key] = own, _template(spec, own, said)
        return known

    def unplaceable(self, template: Template | None) -> Sequence[Verdict]:
        """What of it no scheduler of this version places; the rules are asked once of pods that are alike."""
        if template is None:
            return ()
        known = self._unplaceable.get(id(template))
        if known is None:
            known = _room(self._unplaceable)[id(template)] = template, unplaceable(template)
        return known[1]

    def labels(self, labels: dict[str, str] | None) -> dict[str, str]:
        """Equal labels; callers must not change them."""
        if not labels:
            return NOTHING
        key = tuple(labels.items())
        known = self._labels.get(key)
        if known is None:
            known = _room(self._labels)[key] = labels
        return known

    def cards(self, own: PodClass, annotations: Mapping[str, str], dialect: CardDialect) -> CardGrant:
        """The cards that annotations name in a dialect."""
        if not own.cards:
            return NO_CARDS
        key = own, dialect, tuple(annotations.get(name, "") for name in dialect.keys(own))
        known = self._cards.get(key)
        if known is None:
            known = _room(self._cards)[key] = dialect.read(own, annotations)
        return known


def _cards(spec: PodSpec, said: Mapping[str, str]) -> tuple[CardRequest, ...]:
    """The requests for cards; none where they mean nothing."""
    try:
        return container_cards(spec, said)
    except Invalid:
        return ()


def _template(spec: PodSpec, own: PodClass, said: Mapping[str, str]) -> Template:
    """What the rules read: resources of containers, claims, and annotations about cards, as they stand in the pod."""
    parts = {"containers": spec.containers, "initContainers": spec.init_containers or ()}
    body: dict[str, Any] = {
        part: [
            {
                "name": container.name,
                "resources": {
                    "requests": (container.resources and container.resources.requests) or {},
                    "limits": (container.resources and container.resources.limits) or {},
                },
            }
            for container in containers
        ]
        for part, containers in parts.items()
    }
    if spec.resource_claims:
        body["resourceClaims"] = spec.resource_claims
    if spec.node_selector:
        body["nodeSelector"] = spec.node_selector
    if own.node_affinity is not None:
        body["affinity"] = {"nodeAffinity": {}}  # that there is some
    requests = {name: amount for name, amount in own.requests if name != "pods"}
    return Template("", 1, 1, {"annotations": said} if said else {}, body, "spec", requests)


def _room(table: dict[K, V]) -> dict[K, V]:
    if len(table) >= _MOST:
        table.clear()
    return table


@lru_cache(maxsize=_MOST)
def alone(queue: str, priority: int) -> PodGroupSpec:
    """The group of a single pod."""
    return PodGroupSpec(queue=queue or DEFAULT_QUEUE, priority=priority)
