"""What the features of Slurm's nodes are here: labels of nodes, or models of their cards."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from t9ksched.model.card_models import is_model
from t9ksched.workloads.compose.sbatch.plan import Feature, Features, Label, Model

_DISCOVERED: Final = "feature.node.kubernetes.io/"
_TRUE: Final = ("true", "")
_NAMES: Final = "kubernetes.io/hostname"


def features_of(nodes: Iterable[Mapping[str, Any]]) -> Features:
    """What features are on these nodes, as REST shows them. A feature is a label written as `KEY=VALUE`, a model of
    cards, the key of a label that says `true`, with or without the prefix of Node Feature Discovery, or a value that
    labels of one key have.
    """
    labels: set[Label] = set()
    products: set[str] = set()
    for node in nodes:
        labels |= {Label(str(key), str(value)) for key, value in (node.get("labels") or {}).items()}
        for card in (*(node.get("gpus") or ()), *(node.get("counted") or ())):
            products.add(str(card.get("model") or ""))

    def find(feature: str) -> Feature | None:
        key, given, value = feature.partition("=")
        if given:
            return Label(key, value) if Label(key, value) in labels else None
        if feature and any(is_model(product, feature) for product in products):
            return Model(feature)
        for name in (f"{_DISCOVERED}{feature}", feature):
            if (one := next((one for one in labels if one.key == name and one.value in _TRUE), None)) is not None:
                return one
        alike = {one for one in labels if one.value.lower() == feature.lower() and one.key != _NAMES}
        return alike.pop() if len(alike) == 1 else None

    return find
