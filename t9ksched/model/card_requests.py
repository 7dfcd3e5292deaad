"""What containers ask of cards, in the words of the systems that share cards.

Each system has its own resources and annotations for the same few things: whole cards, or a part of each of some
cards. `DIALECTS` is the one table of them. What a request means on a node follows from the node's cards (`CardTable`),
not from here: this says what is asked for.

* `nvidia.com/gpu` alone is whole cards, and so is any other card resource.
* HAMi: `nvidia.com/gpu` cards with `gpucores` percent and `gpumem` MiB or `gpumem-percentage` of each. Without memory
  all of it is meant, and without cores besides the whole card; without a number of cards one, on nodes of HAMi alone.
* Volcengine mGPU: `mgpu-core` percent and `mgpu-memory` MiB in all of a container, on one card, or on as many as the
  annotation `container-multiple-gpu` says, one number a container; above 100 percent whole cards.
* gpushare: `aliyun.com/gpu-mem` of one card for one container of a pod, in GiB or MiB as the node has it.
* Koordinator: `koordinator.sh/gpu` percent of cards, or `gpu-core` percent with `gpu-memory` bytes or
  `gpu-memory-ratio` percent, in all of the one container of a pod that asks: on one card, on as many as
  `koordinator.sh/gpu.shared` says, or above 100 percent on whole ones.
* Ours: annotations `gpu-memory` (a quantity) and `gpu-cores` (percent) beside `nvidia.com/gpu`, of the pod or of one
  container (`-container-<name>`), for each card.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from t9ksched.model.card_size import CORES
from t9ksched.model.cards import MOST_INDEXED, CardRequest, ContainerKind, SharedCards, WholeCards
from t9ksched.model.errors import child
from t9ksched.model.names import GPU_CORES_ANNOTATION, GPU_MEMORY_ANNOTATION
from t9ksched.model.quantity import QuantityError, to_units
from t9ksched.model.resources import NVIDIA_GPU, is_card_resource
from t9ksched.model.whole import whole_number

HAMI_CORES: Final = "nvidia.com/gpucores"
HAMI_MEMORY: Final = "nvidia.com/gpumem"
HAMI_PERCENT: Final = "nvidia.com/gpumem-percentage"
_OF_ONE: Final = (HAMI_CORES, HAMI_MEMORY, HAMI_PERCENT)
MGPU_CORE: Final = "vke.volcengine.com/mgpu-core"
MGPU_MEMORY: Final = "vke.volcengine.com/mgpu-memory"
MGPU_COUNTS: Final = "vke.volcengine.com/container-multiple-gpu"

GPUSHARE_MEMORY: Final = "aliyun.com/gpu-mem"
GPUSHARE_COUNT: Final = "aliyun.com/gpu-count"

KOORDINATOR_CORE: Final = "koordinator.sh/gpu-core"
"""The name by which cards of Koordinator are known, however a pod asks for them."""
KOORDINATOR_GPU: Final = "koordinator.sh/gpu"
KOORDINATOR_MEMORY: Final = "koordinator.sh/gpu-memory"
KOORDINATOR_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
KOORDINATOR_CARDS: Final = "koordinator.sh/gpu.shared"
KOORDINATOR_SUMS: Final = (KOORDINATOR_CORE, KOORDINATOR_GPU, KOORDINATOR_MEMORY, KOORDINATOR_RATIO)
_KOORDINATOR: Final = (*KOORDINATOR_SUMS, KOORDINATOR_CARDS)

UNCOUNTED: Final = frozenset({HAMI_CORES, HAMI_MEMORY, HAMI_PERCENT, KOORDINATOR_CARDS})
"""Resources that say how large a part is, and that nodes need not list: cards are charged with them, nodes are not."""

SUMS: Final = frozenset({MGPU_CORE, MGPU_MEMORY, GPUSHARE_MEMORY, *KOORDINATOR_SUMS})
"""Resources of which a node's amount is the sum over its divided cards, and tells nothing of one card."""

_PARTS: Final = frozenset({*SUMS, GPUSHARE_COUNT, *UNCOUNTED})
_ANNOTATIONS: Final = (MGPU_COUNTS, GPU_MEMORY_ANNOTATION, GPU_CORES_ANNOTATION)
"""What the keys of annotations begin with that are read here."""

_OF_CARDS: Final = (KOORDINATOR_CORE, KOORDINATOR_MEMORY, KOORDINATOR_RATIO, KOORDINATOR_CARDS)
_PERCENT: Final = 100
_THOUSANDTHS: Final = CORES // _PERCENT
_LEAST_MGPU: Final = 256
"""MiB of a part of a card."""
_LARGEST: Final = 1 << 40
_MIB: Final = 1 << 20
SHOWN: Final = 100
"""Characters of an annotation that are quoted."""


def written(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those annotations that say what containers ask of cards."""
    return {key: annotations[key] for key in annotations if key.startswith(_ANNOTATIONS)}


def with_count(amounts: Mapping[str, int]) -> Mapping[str, int]:
    """What a container asks for, with the one card of which HAMi's words mean a part where no number of cards stands
    beside them.
    """
    if not amounts.get(NVIDIA_GPU) and any(amounts.get(name) for name in _OF_ONE):
        return {**amounts, NVIDIA_GPU: 1}
    return amounts


def is_part(resource: str) -> bool:
    """Whether a resource says that a part of a card is asked for."""
    return resource in _PARTS


def cards_of(resource: str) -> str:
    """The name of the cards of which a resource asks for parts, as tables of cards have it."""
    return KOORDINATOR_CORE if resource in KOORDINATOR_SUMS else resource


class Fault(Exception):
    """A request for cards that means nothing; `where` is the resource or annotation."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where
        self.message = message


class Asking(msgspec.Struct, frozen=True):
    """One container: its amounts in units by resource, and its position among the main or the init containers."""

    name: str
    kind: ContainerKind
    amounts: Mapping[str, int]
    position: int

    def path(self, where: str) -> str:
        """Where a resource of it, or an annotation of its pod, stands in the pod."""
        if where not in self.amounts and where.startswith(_ANNOTATIONS):
            return child("metadata.annotations", where)
        part = "containers" if self.kind == "main" else "initContainers"
        return child(f"spec.{part}[{self.position}].resources.limits", where)


Reader = Callable[[Asking, Mapping[str, str]], Iterator[CardRequest]]
"""What a container asks for, given the annotations of its pod; nothing where it does not use the dialect."""


def _hami(asking: Asking, annotations: Mapping[str, str]) -> Iterator[CardRequest]:
    asked = {name: asking.amounts[name] for name in _OF_ONE if name in asking.amounts}
    if not any(asked.values()):
        return
    cores, memory, percent = (asked.get(name, 0) for name in (HAMI_CORES, HAMI_MEMORY, HAMI_PERCENT))
    if memory and percent:
        raise Fault(HAMI_PERCENT, f"stands beside {HAMI_MEMORY}: a part of the memory is given in one way only")
    for name, amount in ((HAMI_CORES, cores), (HAMI_PERCENT, percent)):
        if amount > _PERCENT:
            raise Fault(name, f"{amount} is more than the {_PERCENT} percent that a card has")
    if not memory and percent in (0, _PERCENT):
        percent = _PERCENT
        if HAMI_CORES not in asked:
            cores = _PERCENT  # all of the memory, and nothing said of the cores, is the whole card
    count = asking.amounts.get(NVIDIA_GPU, 0)
    yield _part(asking, NVIDIA_GPU, count or 1, cores, memory, percent, HAMI_MEMORY, implied=not count)


def _mgpu(asking: Asking, annotations: Mapping[str, str]) -> Iterator[CardRequest]:
    core, memory = asking.amounts.get(MGPU_CORE, 0), asking.amounts.get(MGPU_MEMORY, 0)
    if not core and not memory:
        return
    if not core:
        raise Fault(MGPU_MEMORY, f"needs {MGPU_CORE} beside it")
    counts = annotations.get(MGPU_COUNTS, "") if asking.kind == "main" else ""
    if not counts and core > _PERCENT and core % _PERCENT:
        raise Fault(MGPU_CORE, f"{core} is neither a part of one card nor a multiple of {_PERCENT}")
    count = _mgpu_count(counts, asking) if counts else max(1, core // _PERCENT)
    for name, amount in ((MGPU_CORE, core), (MGPU_MEMORY, memory)):
        if amount % count:
            raise Fault(name, f"{amount} cannot be divided by the {count} cards of annotation {MGPU_COUNTS}")
    each, memory_each = core // count, memory // count
    if each > _PERCENT:
        raise Fault(MGPU_CORE, f"{core} on {count} cards is {each} on each, and a card has {_PERCENT}")
    if each == _PERCENT:
        if memory and count > 1:
            raise Fault(MGPU_MEMORY, f"is left out where {MGPU_CORE} is above {_PERCENT}: whole cards are meant")
        yield _part(asking, MGPU_CORE, _count(count, MGPU_CORE), _PERCENT, memory, 0)
        return
    if memory_each < _LEAST_MGPU:
        raise Fault(MGPU_MEMORY, f"a part of a card has at least {_LEAST_MGPU} MiB, this has {memory_each}")
    yield _part(asking, MGPU_CORE, count, each, memory_each, 0, MGPU_MEMORY)


def _mgpu_count(text: str, asking: Asking) -> int:
    """The number of cards of a container in `2,1,3`."""
    counts = [whole_number(part.strip()) for part in text.split(",")]
    count = counts[asking.position] if asking.position < len(counts) else None
    if None in counts or not count:
        raise Fault(
            MGPU_COUNTS,
            f"{text[:SHOWN]!r} must have a number for each container, and one above 0 for {asking.name!r}",
        )
    return count


def _gpushare(asking: Asking, annotations: Mapping[str, str]) -> Iterator[CardRequest]:
    memory, count = asking.amounts.get(GPUSHARE_MEMORY, 0), asking.amounts.get(GPUSHARE_COUNT, 0)
    if not memory and not count:
        return
    if not memory:
        raise Fault(GPUSHARE_COUNT, f"needs {GPUSHARE_MEMORY} beside it")
    if count > 1:
        raise Fault(GPUSHARE_COUNT, f"{count} cards: the node gives a container a part of one card")
    if asking.kind != "main":
        raise Fault(GPUSHARE_MEMORY, "an init container gets none: the node would take it for the pod itself")
    yield _part(asking, GPUSHARE_MEMORY, 1, 0, memory, 0)


def _koordinator(asking: Asking, annotations: Mapping[str, str]) -> Iterator[CardRequest]:
    asked = {name: asking.amounts[name] for name in _KOORDINATOR if asking.amounts.get(name)}
    if not asked:
        return
    first = next(iter(asked))
    if asking.kind != "main":
        raise Fault(first, "the node gives the cards of a pod to all its containers: ask for them in a main container")
    if any(amount and is_card_resource(name) for name, amount in asking.amounts.items()):
        raise Fault(first, "stands beside whole cards of a device plugin: these would be the same cards")
    if KOORDINATOR_GPU in asked and len(asked) > 1:
        raise Fault(KOORDINATOR_GPU, "is cores and memory in one: it stands alone")
    core, memory, percent, cards = (asked.get(name, 0) for name in _OF_CARDS)
    of_memory = KOORDINATOR_RATIO
    if KOORDINATOR_GPU in asked:
        core = percent = asked[KOORDINATOR_GPU]
        of_memory = KOORDINATOR_GPU
    if memory and percent:
        raise Fault(
            KOORDINATOR_RATIO, f"stands beside {KOORDINATOR_MEMORY}: a part of the memory is given in one way only"
        )
    if not memory and not percent:
        raise Fault(first, f"needs {KOORDINATOR_MEMORY} or {KOORDINATOR_RATIO} beside it")
    if not cards and percent > _PERCENT and percent % _PERCENT:
        raise Fault(of_memory, f"{percent} is neither a part of one card nor a multiple of {_PERCENT}")
    count = _count(cards or max(1, percent // _PERCENT), KOORDINATOR_CARDS if cards else of_memory)
    for name, amount in ((KOORDINATOR_CORE, core), (of_memory, percent)):
        if amount % count:
            raise Fault(name, f"{amount} cannot be divided by {count} cards")
        if amount // count > _PERCENT:
            raise Fault(name, f"{amount} on {count} cards is {amount // count} on each, and a card has {_PERCENT}")
    each = -(-memory // (count * _MIB))
    percent = 0 if memory else percent // count
    yield _part(asking, KOORDINATOR_CORE, count, core // count, each, percent, KOORDINATOR_MEMORY)


def _annotated(asking: Asking, annotations: Mapping[str, str]) -> Iterator[CardRequest]:
    count = asking.amounts.get(NVIDIA_GPU, 0)
    memory_key, cores_key = (
        special if (special := f"{name}-container-{asking.name}") in annotations else name
        for name in (GPU_MEMORY_ANNOTATION, GPU_CORES_ANNOTATION)
    )
    memory_text, cores_text = annotations.get(memory_key), annotations.get(cores_key)
    if not count or (memory_text is None and cores_text is None):
        return
    for name in UNCOUNTED:
        if name in asking.amounts:
            stands = cores_key if memory_text is None else memory_key
            raise Fault(stands, f"stands beside {name}: say in one way which part of a card is meant")
    memory, cores = 0, _PERCENT
    if memory_text is not None:
        cores = 0
        try:
            memory = -(-to_units("memory", memory_text) // _MIB)
        except QuantityError:
            raise Fault(memory_key, f"{memory_text[:SHOWN]!r} is no quantity such as 20Gi") from None
        if memory <= 0:
            raise Fault(memory_key, f"{memory_text[:SHOWN]!r} must be more than 0")
    if cores_text is not None:
        percent = whole_number(cores_text)
        if percent is None or not 0 < percent <= _PERCENT:
            raise Fault(cores_key, f"{cores_text[:SHOWN]!r} must be a whole percentage from 1 to {_PERCENT}")
        cores = percent
    # Cores alone: as large a part of the memory, so that a card's parts fill both alike.
    yield _part(asking, NVIDIA_GPU, count, cores, memory, 0 if memory else cores, memory_key)


DIALECTS: Final[tuple[Reader, ...]] = (_hami, _mgpu, _gpushare, _koordinator, _annotated)


def _part(
    asking: Asking,
    resource: str,
    count: int,
    cores: int,
    memory: int,
    percent: int,
    said_by: str = "",
    *,
    implied: bool = False,
) -> CardRequest:
    """`said_by` is what says the memory, if that is not the resource."""
    if cores == _PERCENT and not memory and resource != NVIDIA_GPU:  # whose units are slices on some nodes
        return WholeCards(asking.name, resource, count, asking.kind)
    if memory > _LARGEST:
        raise Fault(said_by or resource, f"{memory} MiB is more than any card has")
    count = _count(count, resource)
    return SharedCards(asking.name, resource, count, asking.kind, cores * _THOUSANDTHS, memory, percent, implied)


def _count(count: int, resource: str) -> int:
    if not 0 < count <= MOST_INDEXED:
        raise Fault(resource, f"{count} cards: a container can have parts of 1 to {MOST_INDEXED}")
    return count
