"""Which dialect of cards a node understands: one row a dialect."""

from collections.abc import Callable, Mapping
from typing import Final

from t9ksched.kube.write.dialects import gpushare, hami, koordinator
from t9ksched.kube.write.dialects.card_index import CardIndex
from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.kube.write.dialects.mgpu import MgpuIndex
from t9ksched.model.cardmode import WHOLE
from t9ksched.model.names import GPU_INDEX_PREFIX, MGPU_ASSUMED, MGPU_INDEX_PREFIX
from t9ksched.model.node import NodeFacts

CARD_INDEX: Final = CardIndex()
_MGPU: Final = MgpuIndex()

DIALECTS: Final[Mapping[str, Callable[[NodeFacts], CardDialect]]] = {
    WHOLE: lambda _: CARD_INDEX,
    "MGPU": lambda _: _MGPU,
    "HAMi": hami.hami_dialect,
    "GPUShare": gpushare.gpushare_dialect,
    "Koordinator": koordinator.koordinator_dialect,
}
"""The dialect of each mode in which nodes hand out accelerators (`model.cardmode`) and which has indices."""


_KEYS: Final = frozenset({*hami.WORDS, *gpushare.WORDS, koordinator.ALLOCATED, MGPU_ASSUMED})
_PREFIXES: Final = (GPU_INDEX_PREFIX, MGPU_INDEX_PREFIX)


def naming_cards(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those of a pod's annotations that name cards to nodes, in any dialect."""
    return {key: text for key, text in annotations.items() if key in _KEYS or key.startswith(_PREFIXES)}


def dialect_of(node: NodeFacts | None) -> CardDialect:
    """The dialect in which a binding names cards to this node; the default one where the node is not known."""
    if node is None or node.layout == WHOLE:  # which is usual
        return CARD_INDEX
    found = DIALECTS.get(node.layout)
    return CARD_INDEX if found is None else found(node)
