"""Which single cards a pod takes or shuns, and which of those that will do, in the words of HAMi's annotations.

`nvidia.com/use-gputype` and `nouse-gputype` have parts of models' names, letters large or small, `use-gpuuuid` and
`nouse-gpuuuid` UUIDs, each separated by commas. With `nvidia.com/numa-bind: "true"` all cards of the pod are attached
to one NUMA node; `hami.io/gpu-scheduler-policy` is `binpack` (the fullest cards that suffice, as without it) or
`spread` (those with the most left). An empty text says nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from t9ksched.model.card_models import will_do

USE_TYPE: Final = "nvidia.com/use-gputype"
NO_TYPE: Final = "nvidia.com/nouse-gputype"
USE_UUID: Final = "nvidia.com/use-gpuuuid"
NO_UUID: Final = "nvidia.com/nouse-gpuuuid"
NUMA_BIND: Final = "nvidia.com/numa-bind"
POLICY: Final = "hami.io/gpu-scheduler-policy"
_LISTS: Final = (USE_TYPE, NO_TYPE, USE_UUID, NO_UUID)
KEYS: Final = (*_LISTS, NUMA_BIND, POLICY)
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {NUMA_BIND: ("true", "false"), POLICY: ("binpack", "spread")}
"""Those with one word, and which there are."""
_MOST: Final = 64
_LONGEST: Final = 128


@dataclass(frozen=True, slots=True)
class CardFilter:
    """Each is empty where nothing is said; models are in small letters."""

    types: tuple[str, ...] = ()
    no_types: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    no_uuids: tuple[str, ...] = ()
    together: bool = False
    """All on one NUMA node."""
    spread: bool = False
    """Those with the most left first, not the fullest."""
    models: tuple[tuple[str, ...], ...] = ()
    """In the words of the annotation `gpu-model`: any of each will do, all must hold."""

    most_cards: int = 0
    """What a pod may have of physical cards, in parts of `quantity.CARD`; 0 for any amount."""

    of_containers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Containers that name models for themselves, and which: any of them will do for its cards, of those that do for
    all.
    """

    def of_container(self, name: str) -> "CardFilter | None":
        """Which cards will do for one container; None for any."""
        if not self.of_containers:
            return self
        own = tuple(any_of for container, any_of in self.of_containers if container == name)
        found = replace(self, models=self.models + own, of_containers=())
        return found if found != CardFilter() else None

    def of_type(self, model: str) -> bool:
        """Whether cards of this model will do; an unknown one has an empty name."""
        return _type_allowed(self, model)

    def of_uuid(self, uuid: str) -> bool:
        """Whether the card of this UUID will do; it is empty where the node does not say it."""
        return (not self.uuids or uuid in self.uuids) and uuid not in self.no_uuids

    def of_model(self, model: str) -> bool:
        """Whether cards of this model will do for all containers that name no models for themselves."""
        return self.of_type(model) and will_do(model, self.models)

    def allows(self, model: str, uuid: str) -> bool:
        """The same of one card."""
        return self.of_model(model) and self.of_uuid(uuid)


@lru_cache(maxsize=4096)
def _type_allowed(filter_: CardFilter, model: str) -> bool:
    name = model.lower()
    if filter_.types and not any(one in name for one in filter_.types):
        return False
    return not any(one in name for one in filter_.no_types)


def fault(key: str, text: str) -> str:
    """What is wrong with one of these annotations; empty for nothing."""
    if words := _WORDS.get(key):
        return "" if text.strip().lower() in ("", *words) else f"{text[:_LONGEST]!r} is none of {', '.join(words)}"
    parts = _parts(text)
    if len(parts) > _MOST:
        return f"it names {len(parts)}, at most {_MOST} are allowed"
    long = next((part for part in parts if len(part) > _LONGEST), None)
    return f"{long[:_LONGEST]!r} is longer than {_LONGEST} characters" if long is not None else ""


def card_filter(annotations: Mapping[str, str]) -> CardFilter | None:
    """What a pod says of single cards; None where it says nothing."""
    types, no_types, uuids, no_uuids = (_parts(annotations.get(key, "")) for key in _LISTS)
    together, spread = (
        annotations.get(key, "").strip().lower() == word for key, word in ((NUMA_BIND, "true"), (POLICY, "spread"))
    )
    found = CardFilter(_small(types), _small(no_types), uuids, no_uuids, together, spread)
    return found if found != CardFilter() else None


def _small(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name.lower() for name in names}))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(sorted({part for each in text.split(",") if (part := each.strip())}))
