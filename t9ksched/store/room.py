"""How room on a node is written in SQL: what a pod takes of the node, and of which divided cards; not which pods may go
there.
"""

from typing import Any

import msgspec

from t9ksched.model.card_forms import read_request
from t9ksched.model.cards import NO_CARDS, CardGrant, CardPart, CardRequest, ContainerGrant
from t9ksched.model.podclass import HostPort, PodClass


class _Takes(msgspec.Struct, omit_defaults=True):
    requests: list[tuple[str, int]]
    cards: list[CardRequest] = []
    ports: list[HostPort] = []
    parts: list[CardPart] = []
    given: list[ContainerGrant] = []


def written(pod_class: PodClass, cards: CardGrant = NO_CARDS) -> Any:
    """What a pod of this class takes, as JSON; of `cards` those that its node divides."""
    asked = list(pod_class.requests), list(pod_class.cards), list(pod_class.host_ports)
    taken = _Takes(*asked, list(cards.parts), list(cards.divided.given))
    return msgspec.to_builtins(taken)


def read(takes: Any) -> tuple[PodClass, CardGrant]:
    """The class of a pod that takes what `written` wrote, and has no rules about where it may go; and its divided
    cards.
    """
    taken = msgspec.convert(takes, _Takes, dec_hook=read_request)
    pod_class = PodClass(tuple(taken.requests), tuple(taken.cards), host_ports=tuple(taken.ports))
    return pod_class, CardGrant.of_parts(taken.parts, taken.given)
