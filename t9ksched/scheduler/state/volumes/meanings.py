"""What claims mean for pods, kept until it changes.

The meaning of a claim depends on the claim, on its volume or on the free volumes and the class that it waits for, and
on the node that was chosen for it. An event concerns the claims that depend on what changed; of these the caller is
told whose meaning is another one now.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from t9ksched.model.labels import NodeSelector
from t9ksched.model.podclass import PodClass, SharedVolume
from t9ksched.model.reasons import Reason
from t9ksched.model.volumes import ATTACH_PREFIX, PersistentVolume, fits
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.volumes.claims import ClaimKey, ClaimMeaning, Claims


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
        affinity = tuple(sorted(set(self.affinity), key=str))
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


NOTHING = Meaning()

_Cause = tuple[str, str | None]
"""A kind of thing, and its name; None is the class of claims that name none."""


class Meanings:
    """The meanings of the claims that were asked for. `node_exists` says whether a node of that name is there."""

    def __init__(self, claims: Claims, node_exists: Callable[[str], bool]) -> None:
        self._claims = claims
        self._node_exists = node_exists
        self._known: dict[ClaimKey, tuple[ClaimMeaning, tuple[_Cause, ...]]] = {}
        self._concerned: defaultdict[_Cause, dict[ClaimKey, None]] = defaultdict(dict)

    def of(self, key: ClaimKey) -> ClaimMeaning:
        """What the claim means for every pod that uses it."""
        known = self._known.get(key)
        if known is None:
            found = self._claims.meaning(key, self._node_exists)
            causes = self._causes(key)
            for cause in causes:
                self._concerned[cause][key] = None
            known = self._known[key] = found, causes
        return known[0]

    def forget(self, key: ClaimKey) -> None:
        """No pod uses the claim any more."""
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
        if claim.spec.volume_name:
            return (("volume", claim.spec.volume_name),)
        found: list[_Cause] = [("class", claim.spec.storage_class_name)]
        if claim.selected_node:
            found.append(("node", claim.selected_node))
        return tuple(found)

    def changed(self, keys: Iterable[ClaimKey]) -> list[ClaimKey]:
        """Those of these claims, which may mean something else, that do."""
        found = []
        for key in keys:
            if (known := self._known.get(key)) is not None:
                self.forget(key)
                if self.of(key) != known[0]:
                    found.append(key)
        return found

    def all_changed(self) -> list[ClaimKey]:
        """Those of all claims that mean something else now."""
        return self.changed(list(self._known))

    def of_node(self, name: str) -> list[ClaimKey]:
        """Those that mean something else because a node came or went."""
        return self.changed(list(self._concerned.get(("node", name), ())))

    def of_class(self, name: str) -> list[ClaimKey]:
        """Those that mean something else because a class, which may be the default one, came, changed or went."""
        return self.changed([*self._concerned.get(("class", name), ()), *self._concerned.get(("class", None), ())])

    def of_volume(self, name: str, versions: Iterable[PersistentVolume]) -> list[ClaimKey]:
        """Those that mean something else because a volume came, changed or went; `versions` are it before and after."""
        found = [*self._concerned.get(("volume", name), ())]
        for volume in versions:
            for other in sorted(self._claims.of_handle(volume) - {name}):
                found += self._concerned.get(("volume", other), ())
            kind = volume.spec.storage_class_name
            waiting = [*self._concerned.get(("class", kind), ()), *self._concerned.get(("class", None), ())]
            found += [
                key
                for key in waiting
                if (claim := self._claims.claims.get(key)) is not None and fits(volume, claim, kind)
            ]
        return self.changed(dict.fromkeys(found))
