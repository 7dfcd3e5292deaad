"""How room on a node is written in SQL: what a pod takes of the node, not which pods may go there."""

from typing import Any

import msgspec

from t9ksched.model.card_forms import read_request
from t9ksched.model.cards import CardRequest
from t9ksched.model.podclass import HostPort, PodClass


class _Takes(msgspec.Struct, omit_defaults=True):
    requests: list[tuple[str, int]]
    cards: list[CardRequest] = []
    ports: list[HostPort] = []


def written(pod_class: PodClass) -> Any:
    """What a pod of this class takes, as JSON."""
    taken = _Takes(list(pod_class.requests), list(pod_class.cards), list(pod_class.host_ports))
    return msgspec.to_builtins(taken)


def read(takes: Any) -> PodClass:
    """The class of a pod that takes what `written` wrote, and has no rules about where it may go."""
    taken = msgspec.convert(takes, _Takes, dec_hook=read_request)
    return PodClass(tuple(taken.requests), tuple(taken.cards), host_ports=tuple(taken.ports))
