"""Which cards a pod asks for beyond their number: by model, and whether parts of cards will do.

Users write it into annotations of a pod: `gpu-model: A100,H100` (for one container `gpu-model-container-NAME`) and
`gpu-mode: whole|slice|shared|any`, and single cards in the words of HAMi (`model.card_filter`). A plain
`nvidia.com/gpu` is a whole card on one node, a MIG slice or a time slice on another: pods get parts only if they say
so, or if they or their queue select nodes by a label that says so.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from t9ksched.model import card_filter
from t9ksched.model.card_filter import CardFilter
from t9ksched.model.card_models import PRODUCTS
from t9ksched.model.card_requests import is_part
from t9ksched.model.labels import LabelSelector, NodeSelector, Requirement
from t9ksched.model.names import GPU_MODE_ANNOTATION, GPU_MODEL_ANNOTATION, GPU_MODEL_PREFIX, MGPU_POLICY
from t9ksched.model.resources import is_card_resource
from t9ksched.model.whole import whole_number

WHOLE_CARDS, SLICES, SHARED, ANY = "whole", "slice", "shared", "any"
CHOICES: Final = (WHOLE_CARDS, SLICES, SHARED, ANY)
"""Values of the annotation `gpu-mode`."""
KINDS: Final = (WHOLE_CARDS, SLICES, SHARED)
"""What one unit of a card resource may be on a node."""
POLICIES: Final = ("fixed-share", "guaranteed-burst-share", "native-burst-share")
"""How nodes of mGPU share the cores of a card, the usual way first."""
MPS: Final = "MPS"
_OF_MODE: Final = {"MIGSingle": SLICES, "TimeSliced": SHARED, MPS: SHARED}

_PLUGIN_CONFIG: Final = "nvidia.com/device-plugin.config"
_REPLICAS: Final = ".replicas"
_STRATEGY: Final = ".sharing-strategy"
_MIG: Final = "nvidia.com/mig"
_NO_MIG: Final = ("nvidia.com/mig.capable", "nvidia.com/mig.config.state")
"""Labels of nodes with whole cards, too."""
_ALONE: Final = frozenset({GPU_MODEL_ANNOTATION, GPU_MODE_ANNOTATION, MGPU_POLICY, *card_filter.KEYS})
"""Annotations of a whole pod."""
_MOST_MODELS: Final = 16
_MODEL: Final = re.compile(r"[A-Za-z0-9][-_. A-Za-z0-9]{0,62}")


@dataclass(frozen=True, slots=True)
class CardChoice:
    """What a pod says of its cards.

    Attributes:
        models: for all containers: any of each tuple will do, all must hold.
        mode: the annotation `gpu-mode`, empty without one.
        settled: the mode is no word of the user: of several kinds that will do, one was chosen for all pods of a role.
        crowded: a container asks for more than one unit of a shared resource such as `nvidia.com/gpu.shared`, which
            MPS refuses.
        policy: how parts of cards of mGPU are to share cores, of `POLICIES`; empty where the pod does not say.
        only: which single cards will do, and which of them are taken; None where the pod does not say.
        of_containers: where several containers ask for cards, those that name models for themselves, and which: beside
            `models` these hold for the cards of that container.
        most_cards: what it may have of physical cards on its node, in parts of `quantity.CARD`; 0 for any amount. No
            word of the user: its queue can pay for no more.
    """

    models: tuple[tuple[str, ...], ...] = ()
    mode: str = ""
    crowded: bool = False
    settled: bool = False
    policy: str = ""
    only: CardFilter | None = None
    of_containers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    most_cards: int = 0

    @property
    def single(self) -> CardFilter | None:
        """Which single cards will do where a node tells them apart: `only`, of the models that the pod names, and of
        those on which its queue can pay for it.
        """
        return _single(self)


@lru_cache(maxsize=4096)
def _single(choice: CardChoice) -> CardFilter | None:
    said = choice.models, choice.of_containers, choice.most_cards
    if not any(said):
        return choice.only
    models, of_containers, most = said
    return replace(choice.only or CardFilter(), models=models, of_containers=of_containers, most_cards=most)


def written(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those annotations that choose cards."""
    return {key: annotations[key] for key in annotations if _is_ours(key)}


@lru_cache(maxsize=4096)
def _is_ours(key: str) -> bool:
    return key in _ALONE or key.startswith(GPU_MODEL_PREFIX)


def faults(annotations: Mapping[str, str], containers: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Annotation and what is wrong with it."""
    known = list(containers)
    for key, text in sorted(written(annotations).items()):
        if key in (GPU_MODE_ANNOTATION, MGPU_POLICY):
            known_texts = CHOICES if key == GPU_MODE_ANNOTATION else POLICIES
            if text not in known_texts:
                yield key, f"{text!r} is none of {', '.join(known_texts)}"
            continue
        if key in card_filter.KEYS:
            if fault := card_filter.fault(key, text):
                yield key, fault
        elif key.startswith(GPU_MODEL_PREFIX) and (name := key.removeprefix(GPU_MODEL_PREFIX)) not in known:
            yield key, f"there is no container {name!r}: the pod has {', '.join(known)}"
        elif not (models := _models(text)):
            yield key, f"{text!r} names no model: write them as A100 or A100,H100"
        elif wrong := [one for one in models if not _MODEL.fullmatch(one)]:
            yield key, f"{wrong[0]!r} is no model: use at most 63 letters, digits, '-', '_', '.' or spaces"
        elif len(models) > _MOST_MODELS:
            yield key, f"it names {len(models)} models, at most {_MOST_MODELS} are allowed"


def card_choice(
    annotations: Mapping[str, str], containers: Iterable[tuple[str, Mapping[str, int]]]
) -> CardChoice | None:
    """What a pod says of its cards; None where it says nothing. What cannot be read is left out: `faults` tells it.

    `containers` are names and amounts by resource.
    """
    asked = list(containers)
    crowded = any(amount > 1 and _is_shared(name) for _, amounts in asked for name, amount in amounts.items())
    given = written(annotations)
    if not given and not crowded:
        return None
    wrong = {key for key, _ in faults(given, [name for name, _ in asked])}
    read = {key: text for key, text in given.items() if key not in wrong}
    mode, policy = read.pop(GPU_MODE_ANNOTATION, ""), read.pop(MGPU_POLICY, "")
    only = card_filter.card_filter({key: read.pop(key) for key in card_filter.KEYS if key in read})
    asking = {name for name, amounts in asked if any(map(_is_of_cards, amounts))}
    single = {key: name for key in read if (name := key.removeprefix(GPU_MODEL_PREFIX)) in asking and len(asking) > 1}
    models = {key: tuple(sorted(set(_models(text)))) for key, text in read.items()}
    of_all = sorted({any_of for key, any_of in models.items() if key not in single})
    own = tuple(sorted((name, models[key]) for key, name in single.items()))
    choice = CardChoice(tuple(of_all), mode, crowded, policy=policy, only=only, of_containers=own)
    return choice if choice != CardChoice() else None


def _is_of_cards(resource: str) -> bool:
    return is_card_resource(resource) or is_part(resource)


def _is_shared(resource: str) -> bool:
    """Whether one unit of it is a turn on a card with others."""
    return resource.endswith(".shared") and not is_part(resource)


def _models(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def kind_of(mode: str, *, plain: bool) -> str:
    """What one unit of a card resource is on a node of that mode. With `plain`, of a resource of whole cards by its
    name, such as `nvidia.com/gpu`; else of one that names a part, such as `nvidia.com/mig-1g.5gb`.
    """
    if mode == "MIGMixed":
        return WHOLE_CARDS if plain else SLICES
    return _OF_MODE.get(mode, WHOLE_CARDS)


def kinds(
    choice: CardChoice | None,
    plain: bool,
    node_selector: tuple[tuple[str, str], ...],
    affinity: NodeSelector | None,
    queue: LabelSelector | None,
) -> tuple[str, ...]:
    """Which kinds of cards will do for a pod, of `KINDS`; all of them where it asks for a part of a card by name."""
    if choice is not None and choice.mode:
        return KINDS if choice.mode == ANY else (choice.mode,)
    if not plain:
        return KINDS
    asked = [Requirement(key, "In", (value,)) for key, value in node_selector]
    asked += queue.requirements if queue is not None else ()
    asked += [one for term in affinity.terms for one in term.labels] if affinity is not None else ()
    admitted = {kind for one in asked for kind in admits(one)}
    return tuple(kind for kind in KINDS if kind == WHOLE_CARDS or kind in admitted)


def admits(asked: Requirement) -> tuple[str, ...]:
    """The kinds of parts of cards that selecting nodes so names."""
    key, values = asked.key, asked.values
    if asked.operator not in ("In", "Exists", "Gt"):
        return ()
    if key == _PLUGIN_CONFIG:
        return (SLICES, SHARED)
    if key in PRODUCTS:
        slices = (SLICES,) if any("-MIG-" in value for value in values) else ()
        return slices + ((SHARED,) if any(value.endswith("-SHARED") for value in values) else ())
    if key.startswith("nvidia.com/") and key.endswith(_STRATEGY):
        return (SHARED,) if {"mps", "time-slicing"} & set(values) else ()
    if key.startswith("nvidia.com/") and key.endswith(_REPLICAS):
        least = 1 if asked.operator == "Gt" else 2
        return (SHARED,) if any((whole_number(value) or 0) >= least for value in values) else ()
    if key.startswith(_MIG) and key not in _NO_MIG:
        return (SLICES,) if values != ("all-disabled",) else ()
    return (SLICES,) if key.startswith("nvidia.com/gpu.slices.") else ()
