"""The device plugin of mGPU on a simulated node: which part of which card each container really gets.

When a container is about to start, the plugin of mGPU looks for the annotation
`vke.volcengine.com/gpu-index-container-<name>` of its pod and gives it as much of each card that it names. A pod
without the annotations is not started, nor one that a card has no room for: a card has 100 percent of cores, its
memory, and room for 16 containers, and a container that has a whole card has it alone. Amounts, counts and annotations
are read here anew, from the pod as it stands in the API.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from t9ksched.devcluster.names import CARDS_GIVEN_PREFIX
from t9ksched.devcluster.nodes.deviceplugin import CardsRefused, parse_indices
from t9ksched.model.quantity import parse

Object = dict[str, Any]

CORE: Final = "vke.volcengine.com/mgpu-core"
MEMORY: Final = "vke.volcengine.com/mgpu-memory"
_COUNTS: Final = "vke.volcengine.com/container-multiple-gpu"
_ASSUMED: Final = "vke.volcengine.com/assumed"
_INDEX: Final = "vke.volcengine.com/gpu-index-container-"
_FULL: Final = 100
_PLACES: Final = 16


@dataclass(frozen=True, slots=True)
class _Wish:
    """What one container asks for: cards, and percent of cores and MiB on each; `memory` None for all of it."""

    container: str
    count: int
    core: int
    memory: int | None
    phase: str


class Share(msgspec.Struct):
    """What one pod has of one card."""

    core: int = 0
    memory: int = 0
    containers: int = 0
    whole: bool = False


class MgpuCards(msgspec.Struct):
    """The cards of one node: how many, the memory of each in MiB, and what pods have of them by index and UID."""

    count: int = 0
    memory: int = 0
    held: dict[int, dict[str, Share]] = msgspec.field(default_factory=dict)

    def update(self, allocatable: Mapping[str, int]) -> None:
        """Take over what the node offers now."""
        self.count = allocatable.get(CORE, 0) // _FULL
        self.memory = allocatable.get(MEMORY, 0) // self.count if self.count else 0

    def give(self, pod: Object) -> dict[str, str]:
        """Give a pod its parts.

        Returns:
            the annotations that record which cards each container got.

        Raises:
            CardsRefused: the annotations are missing or wrong, or a card has not enough left; nothing is given then.
        """
        named = list(self._named(pod))
        if not named:
            return {}
        if _annotations(pod).get(_ASSUMED) != "true":
            raise CardsRefused(f"the annotation {_ASSUMED} is missing: no scheduler has chosen cards of mGPU")
        shares = self._shares(named)
        for index, share in shares.items():
            self._check(index, share, pod["metadata"]["uid"])
        self._hold(pod["metadata"]["uid"], shares)
        return {CARDS_GIVEN_PREFIX + wish.container: ",".join(map(str, indices)) for wish, indices in named}

    def restore(self, pod: Object) -> None:
        """Take in a pod that runs already, as far as its annotations can be read."""
        try:
            self._hold(pod["metadata"]["uid"], self._shares(list(self._named(pod, CARDS_GIVEN_PREFIX))))
        except CardsRefused:
            return

    def release(self, uid: str) -> None:
        """Give back what a pod has."""
        for holders in self.held.values():
            holders.pop(uid, None)

    def _hold(self, uid: str, shares: Mapping[int, Share]) -> None:
        for index, share in shares.items():
            self.held.setdefault(index, {})[uid] = share

    def _named(self, pod: Object, prefix: str = _INDEX) -> Iterator[tuple[_Wish, tuple[int, ...]]]:
        annotations = _annotations(pod)
        for wish in _wishes(pod["spec"], annotations.get(_COUNTS, "")):
            text = annotations.get(prefix + wish.container, annotations.get(_INDEX + wish.container))
            if text is None:
                raise CardsRefused(
                    f"the annotation {_INDEX}{wish.container} is missing: which card is meant is unknown"
                )
            indices = parse_indices(text)
            if len(indices) != wish.count:
                raise CardsRefused(f"container {wish.container} asks for {wish.count} cards and is given {text!r}")
            yield wish, indices

    def _shares(self, named: list[tuple[_Wish, tuple[int, ...]]]) -> dict[int, Share]:
        """What the pod has of each card at its peak: init containers run before the main ones, beside the sidecars that
        stand before them.
        """
        shares: dict[int, Share] = {}
        moments = [[each for each in named if each[0].phase != "init"]]
        beside = []
        for each in named:
            if each[0].phase == "sidecar":
                beside.append(each)
            elif each[0].phase == "init":
                moments.append([*beside, each])
        for moment in moments:
            now: dict[int, Share] = {}
            for wish, indices in moment:
                for index in indices:
                    share = now.setdefault(index, Share())
                    share.core += wish.core
                    share.memory += self.memory if wish.memory is None else wish.memory
                    share.containers += 1
                    share.whole |= wish.memory is None
            for index, share in now.items():
                peak = shares.setdefault(index, Share())
                peak.core, peak.memory = max(peak.core, share.core), max(peak.memory, share.memory)
                peak.containers, peak.whole = max(peak.containers, share.containers), peak.whole or share.whole
        return shares

    def _check(self, index: int, wanted: Share, uid: str) -> None:
        if index >= self.count:
            raise CardsRefused(f"card {index} of {CORE} is not on this node, which has {self.count}")
        others = [share for holder, share in self.held.get(index, {}).items() if holder != uid]
        if others and (wanted.whole or any(share.whole for share in others)):
            raise CardsRefused(f"card {index} of {CORE} cannot be whole for one pod and in part another's")
        for what, asked, used, has in (
            ("percent of the cores", wanted.core, sum(share.core for share in others), _FULL),
            ("MiB", wanted.memory, sum(share.memory for share in others), self.memory),
            ("containers", wanted.containers, sum(share.containers for share in others), _PLACES),
        ):
            if used + asked > has:
                raise CardsRefused(f"card {index} of {CORE}: {asked} {what} requested, used {used} of {has}")


def _annotations(pod: Object) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def _wishes(spec: Object, counts: str) -> Iterator[_Wish]:
    """What containers ask for. Amounts are the container's, to be divided by its number of cards."""
    numbers = [int(part) if part.strip().isdecimal() else 0 for part in counts.split(",")]
    for at, container in enumerate(spec.get("containers") or []):
        yield from _wish(container, numbers[at] if counts and at < len(numbers) else 0, "main")
    for container in spec.get("initContainers") or []:
        yield from _wish(container, 0, "sidecar" if container.get("restartPolicy") == "Always" else "init")


def _wish(container: Object, count: int, phase: str) -> Iterator[_Wish]:
    limits = (container.get("resources") or {}).get("limits") or {}
    core, memory = int(parse(limits.get(CORE, 0))), int(parse(limits.get(MEMORY, 0)))
    if not core:
        return
    count = count or max(1, core // _FULL)
    each = core // count
    yield _Wish(container["name"], count, each, None if each == _FULL else memory // count, phase)
