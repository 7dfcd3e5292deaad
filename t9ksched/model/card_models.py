"""Which model a card is: what a node's labels say of all of its cards, and what it says of single ones.

Where a node names the model of each card (HAMi's register, Koordinator's `Device`), that counts: cards of one node may
be of several models. Two ways to write one model (`NVIDIA-A100-SXM4-40GB` as a label, `NVIDIA-NVIDIA A100-SXM4-40GB` in
HAMi's register) are one name, the label's, so that usage and reasons do not count it twice.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from msgspec import structs

from t9ksched.model.card_size import CardSize
from t9ksched.model.whole import whole_number

PRODUCTS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")
"""Labels of nodes that name the model of their cards."""
LARGEST_MIB: Final = (1 << 31) - 1
"""No card has more."""
_BETWEEN: Final = re.compile(r"[-_ ]+")
_VENDOR: Final = "nvidia"
"""Stands before a model once, twice or not at all."""


def card_model(labels: Mapping[str, str]) -> str | None:
    """What kind of card a node carries, as its vendor's feature discovery says."""
    return next((labels[key] for key in PRODUCTS if labels.get(key)), None)


def card_memory(labels: Mapping[str, str]) -> int | None:
    """MiB of one card, or of one MIG slice where cards are divided into such, as feature discovery says."""
    mebibytes = whole_number(labels.get("nvidia.com/gpu.memory", ""))
    if mebibytes is None:
        gibibytes = whole_number(labels.get("amd.com/gpu.vram", "").removesuffix("G"))
        mebibytes = None if gibibytes is None else gibibytes * 1024
    return mebibytes if mebibytes is not None and mebibytes <= LARGEST_MIB else None


@lru_cache(maxsize=4096)
def is_model(product: str, asked: str) -> bool:
    """Whether a product such as `NVIDIA-A100-SXM4-80GB` is of the model asked for: it has all its words, in order.

    `A100` and `A100-80GB` are models of it, `A10` and `A100-40GB` are not. Letters may be large or small.
    """
    words = iter(_BETWEEN.split(product.lower()))
    return all(word in words for word in _BETWEEN.split(asked.lower()) if word)


@lru_cache(maxsize=4096)
def will_do(product: str, models: tuple[tuple[str, ...], ...]) -> bool:
    """Whether a product is one of the models asked for: any of each tuple will do, all must hold. An unknown product
    has an empty name.
    """
    return all(any(is_model(product, one) for one in any_of) for any_of in models)


def whole_model(product: str) -> str:
    """The model of a card whose slices or shares are told as a product of their own."""
    return product.partition("-MIG-")[0].removesuffix("-SHARED")


@lru_cache(maxsize=4096)
def named(sizes: tuple[CardSize, ...], product: str) -> tuple[CardSize, ...]:
    """The cards, each with the name of its model: its own, or where the node says none of it that of the label."""
    return tuple(structs.replace(one, model=_name(one.model, product)) if one.memory else one for one in sizes)


def _name(own: str, product: str) -> str:
    if not own or _words(own) == _words(product):
        return product
    # Feature discovery writes what the driver says with dashes, HAMi puts the vendor before it.
    return own.removeprefix("NVIDIA-").replace(" ", "-") if own.startswith("NVIDIA-NVIDIA") else own


def _words(model: str) -> list[str]:
    return [word for word in _BETWEEN.split(whole_model(model).lower()) if word not in ("", _VENDOR)]


def listed(models: Iterable[str]) -> str:
    """Models of the cards of one node, for people: `A100`, or `2 × A100 and 1 × H100`."""
    counted = Counter(model or "cards whose model is not known" for model in models)
    if len(counted) == 1:
        return next(iter(counted))
    return " and ".join(f"{count} × {model}" for model, count in sorted(counted.items()))
