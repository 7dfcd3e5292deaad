"""Which dialect of cards a node understands: one row a dialect."""

from collections.abc import Mapping
from typing import Final

from t9ksched.kube.write.dialects.card_index import CardIndex
from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.kube.write.dialects.mgpu import MgpuIndex
from t9ksched.model.cardmode import WHOLE
from t9ksched.model.node import NodeFacts

CARD_INDEX: Final = CardIndex()

DIALECTS: Final[Mapping[str, CardDialect]] = {
    WHOLE: CARD_INDEX,
    "MGPU": MgpuIndex(),
}
"""The dialect of each mode in which nodes hand out accelerators (`model.cardmode`) and which has indices."""


def dialect_of(node: NodeFacts | None) -> CardDialect:
    """The dialect in which a binding names cards to this node; the default one where the node is not known."""
    return DIALECTS.get(node.layout, CARD_INDEX) if node is not None else CARD_INDEX
