"""What claims mean for pods, kept until it changes.

The meaning of a claim depends on the claim, on its volume or on the free volumes and the class that it waits for, on
the node that was chosen for it, and on whether its driver has a limit anywhere. An event puts the claims that depend on
what changed in doubt; each is judged once before it is asked for again, however many events came.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache

import msgspec

from t9ksched.model.labels import NodeSelector
from t9ksched.model.podclass import PodClass, SharedVolume
from t9ksched.model.reasons import Reason
from t9ksched.model.volumes import ATTACH_PREFIX, PersistentVolume
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.volumes.claims import ClaimKey, ClaimMeaning, Claims
from t9ksched.scheduler.state.volumes.free import FreePlaces


class Meaning(msgspec.Struct, frozen=True):
    """What a pod's claims mean for it.

    Attributes:
        affinity: each must hold for its node.
        attach: how many volumes it attaches for itself, by resource name, sorted; only where some node has a limit.
        volumes: those that other pods use too, sorted.
        reasons: why it waits whatever room there is.
        unbound: claims that are bound only when its node is chosen, each with the resource by which free volumes are
            counted for it; empty where they are not.
        exclusive: claims that only one pod may use at a time.
    """

    affinity: tuple[NodeSelector, ...] = ()
    attach: tuple[tuple[str, int], ...] = ()
    reasons: tuple[Reason, ...] = ()
    unbound: tuple[tuple[str, str], ...] = ()
    exclusive: tuple[str, ...] = ()
    volumes: tuple[SharedVolume, ...] = ()

    def on(self, pod_class: PodClass) -> PodClass:
        """The class with these constraints instead of those it had."""
        affinity = self.affinity if len(self.affinity) < 2 else _ordered(self.affinity)
        found = self.attached(pod_class)
        return found if affinity == found.volume_affinity else replace(found, volume_affinity=affinity)

    def attached(self, pod_class: PodClass) -> PodClass:
        """The class with what it attaches in place of what it attached."""
        own = [row for row in pod_class.requests if not row[0].startswith(ATTACH_PREFIX)]
        requests = pod_class.requests
        if self.attach or len(own) < len(requests):
            requests = tuple(sorted([*own, *self.attach]))
        if (requests, self.volumes) == (pod_class.requests, pod_class.volumes):
            return pod_class
        return replace(pod_class, requests=requests, volumes=self.volumes)

    def note(self, record: PodRecord) -> None:
        """Write into the pod's record what it does not have as its class."""
        record.unbound, record.to_bind, record.exclusive = self.reasons, self.unbound, self.exclusive


@lru_cache(maxsize=1024)
def _ordered(affinity: tuple[NodeSelector, ...]) -> tuple[NodeSelector, ...]:
    return tuple(sorted(set(affinity), key=str))


NOTHING = Meaning()

_Cause = tuple[str, str | None] | FreePlaces
"""A kind of thing, and its name; None is the class of claims that name none. Or where the free volumes lie."""


class Meanings:
    """The meanings of the claims that were asked for. `node_exists` says whether a node of that name is there.

    Attributes:
        doubted: claims that may mean something else by now.
        moved: is told of claims that do.
    """

    def __init__(self, claims: Claims, node_exists: Callable[[str], bool]) -> None:
        self._claims = claims
        self._node_exists = node_exists
        self._known: dict[ClaimKey, tuple[ClaimMeaning, tuple[_Cause, ...]]] = {}
        self._concerned: defaultdict[_Cause, dict[ClaimKey, None]] = defaultdict(dict)
        self.doubted: dict[ClaimKey, None] = {}
        self.moved: Callable[[ClaimKey], None] = lambda _: None

    def of(self, key: ClaimKey) -> ClaimMeaning:
        """What the claim means for every pod that uses it."""
        if key in self.doubted:
            self.judge(key)
        known = self._known.get(key)
        if known is None:
            found = self._claims.meaning(key, self._node_exists)
            causes = self._causes(key)
            for cause in causes:
                self._concerned[cause][key] = None
            known = self._known[key] = found, causes
        return known[0]

    def judge(self, key: ClaimKey) -> None:
        """Find out what a claim means now, if any pod uses it."""
        known = self._known.get(key)
        self.forget(key)
        if known is not None and self.of(key) != known[0]:
            self.moved(key)

    def forget(self, key: ClaimKey) -> None:
        """No pod uses the claim any more."""
        self.doubted.pop(key, None)
        known = self._known.pop(key, None)
        for cause in known[1] if known is not None else ():
            concerned = self._concerned[cause]
            del concerned[key]
            if not concerned:
                del self._concerned[cause]

    def _causes(self, key: ClaimKey) -> tuple[_Cause, ...]:
        claim = self._claims.claims.get(key)
        if claim is None:
            return ()
        driver = self._claims.driver(claim)
        if claim.spec.volume_name:
            return (("volume", claim.spec.volume_name), ("driver", driver))
        found: list[_Cause] = [("class", claim.spec.storage_class_name), ("driver", driver)]
        if claim.selected_node:
            found.append(("node", claim.selected_node))
        if (places := self._claims.places(claim, self._node_exists)) is not None:
            found.append(places)
        return tuple(found)

    def _doubt(self, *causes: _Cause) -> None:
        for cause in causes:
            self.doubted.update(self._concerned.get(cause, {}))

    def of_limits(self, resources: Iterable[str]) -> None:
        """Drivers have a limit for the first time."""
        self._doubt(*(("driver", resource.removeprefix(ATTACH_PREFIX)) for resource in sorted(resources)))

    def of_node(self, name: str) -> None:
        """A node came or went."""
        self._doubt(("node", name))

    def of_class(self, name: str, *, default: bool) -> None:
        """A class came, changed or went; `default` says whether it is, or was, that of claims that name none."""
        self._doubt(("class", name), *((("class", None),) if default else ()))

    def of_volume(self, versions: Iterable[PersistentVolume], places: Iterable[FreePlaces]) -> None:
        """A volume came, changed or went. `versions` are it before and after, `places` the answers that it changed. Few
        claims name a volume, and they are judged at once.
        """
        for volume in versions:
            others = self._claims.of_handle(volume) - {volume.metadata.name}
            named = (volume.metadata.name, *(others if len(others) == 1 else ()))  # several others share it anyway
            for key in [key for name in named for key in self._concerned.get(("volume", name), ())]:
                self.judge(key)
            if (kept := volume.spec.claim_ref) is not None:
                self.judge((kept.namespace, kept.name))
        self._doubt(*places)
