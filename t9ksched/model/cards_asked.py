"""What the containers of a pod ask of cards: every dialect is asked of each, and what means nothing is told.

The words of the systems are in `card_requests.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from t9ksched.model.card_requests import (
    DIALECTS,
    GPUSHARE_MEMORY,
    KOORDINATOR_CORE,
    MGPU_CORE,
    MGPU_COUNTS,
    SHOWN,
    Asking,
    Fault,
    cards_of,
)
from t9ksched.model.cards import CardRequest, WholeCards
from t9ksched.model.errors import FieldError, Invalid, child
from t9ksched.model.names import GPU_CORES_ANNOTATION, GPU_MEMORY_ANNOTATION
from t9ksched.model.resources import NVIDIA_GPU, is_card_resource
from t9ksched.model.whole import whole_number

_ALONE: Final = {
    GPUSHARE_MEMORY: "the node gives a card to one container of a pod, which its device plugin finds by that amount",
    KOORDINATOR_CORE: "the node gives the cards of a pod to all its containers",
}
"""Cards that one container of a pod asks for at most, by their name, and why."""


def card_requests(
    containers: Sequence[Asking], annotations: Mapping[str, str], mains: Sequence[str] = (), inits: Sequence[str] = ()
) -> tuple[CardRequest, ...]:
    """What the containers of a pod ask for that ask for accelerators, in their order. `mains` and `inits` are the names
    of all containers of the pod, of those alone where they are left out.

    Raises:
        Invalid: a part is described in a way that means nothing, or in two ways.
    """
    found: list[CardRequest] = []
    faults = list(_strays(containers, annotations, mains or _mains(containers), inits))
    for asking in containers:
        try:
            mine = _of_container(asking, annotations)
        except Fault as fault:
            faults.append(FieldError(asking.path(fault.where), fault.message))
            continue
        found += mine
    for resource, why in _ALONE.items():
        shared = [request.container for request in found if request.resource == resource]
        if len(shared) > 1 and not faults:
            second = next(asking for asking in containers if asking.name == shared[1])
            asked = next(name for name in second.amounts if second.amounts[name] and cards_of(name) == resource)
            faults.append(FieldError(second.path(asked), f"container {shared[0]!r} asks for it too: {why}"))
    if faults:
        raise Invalid(list({fault.path: fault for fault in reversed(faults)}.values())[::-1])  # one a place
    return tuple(found)


def _mains(containers: Sequence[Asking]) -> list[str]:
    places = {one.position: one.name for one in containers if one.kind == "main"}
    return [places.get(at, "") for at in range(max(places, default=-1) + 1)]


def _strays(
    containers: Sequence[Asking], annotations: Mapping[str, str], mains: Sequence[str], inits: Sequence[str]
) -> Iterator[FieldError]:
    """Annotations that speak of what no container asks for: what was meant is unknown, so the pod does not start."""
    if not annotations or not containers:
        return
    names = dict.fromkeys((*inits, *mains, *(one.name for one in containers)))
    whole = {one.name for one in containers if one.amounts.get(NVIDIA_GPU)}
    for name in (GPU_MEMORY_ANNOTATION, GPU_CORES_ANNOTATION):
        for key in sorted(annotations):
            container = key.removeprefix(f"{name}-container-")
            if key == name and not whole:
                yield _of_annotation(key, f"speaks of {NVIDIA_GPU}, and no container asks for that: leave it out")
            elif container == key:
                continue
            elif container not in names:
                yield _of_annotation(
                    key, f"there is no container {container!r}: the pod has {', '.join(filter(None, names))}"
                )
            elif container not in whole:
                yield _of_annotation(key, f"container {container!r} asks for no {NVIDIA_GPU}, of which it speaks")
    if MGPU_COUNTS in annotations:
        numbers = annotations[MGPU_COUNTS].split(",")
        shared = {one.name for one in containers if one.amounts.get(MGPU_CORE)}
        if len(numbers) != len(mains):
            text = annotations[MGPU_COUNTS][:SHOWN]
            yield _of_annotation(
                MGPU_COUNTS, f"{text!r} must have one number a container: {len(mains)}, and it has {len(numbers)}"
            )
            return
        for name, number in zip(mains, numbers, strict=True):
            if name not in shared and whole_number(number.strip()) != 0:
                yield _of_annotation(MGPU_COUNTS, f"container {name!r} asks for no {MGPU_CORE}: its number must be 0")


def _of_annotation(key: str, message: str) -> FieldError:
    return FieldError(child("metadata.annotations", key), message)


def _of_container(asking: Asking, annotations: Mapping[str, str]) -> list[CardRequest]:
    found = [request for read in DIALECTS for request in read(asking, annotations)]
    taken = {request.resource for request in found}
    found += [
        WholeCards(asking.name, name, count, asking.kind)
        for name, count in asking.amounts.items()
        if count > 0 and is_card_resource(name) and name not in taken
    ]
    return sorted(found, key=lambda request: request.resource)
