"""Which dialect of cards a node understands: one row a dialect."""

from collections.abc import Callable, Mapping
from typing import Final

from t9ksched.kube.write.dialects.card_index import CardIndex
from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.kube.write.dialects.gpushare import gpushare_dialect
from t9ksched.kube.write.dialects.hami import hami_dialect
from t9ksched.kube.write.dialects.koordinator import koordinator_dialect
from t9ksched.kube.write.dialects.mgpu import MgpuIndex
from t9ksched.model.cardmode import WHOLE
from t9ksched.model.node import NodeFacts

CARD_INDEX: Final = CardIndex()
_MGPU: Final = MgpuIndex()

DIALECTS: Final[Mapping[str, Callable[[NodeFacts], CardDialect]]] = {
    WHOLE: lambda _: CARD_INDEX,
    "MGPU": lambda _: _MGPU,
    "HAMi": hami_dialect,
    "GPUShare": gpushare_dialect,
    "Koordinator": koordinator_dialect,
}
"""The dialect of each mode in which nodes hand out accelerators (`model.cardmode`) and which has indices."""


def dialect_of(node: NodeFacts | None) -> CardDialect:
    """The dialect in which a binding names cards to this node; the default one where the node is not known."""
    return DIALECTS[node.layout](node) if node is not None and node.layout in DIALECTS else CARD_INDEX
