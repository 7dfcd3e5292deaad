"""Volumes as the watches show them: claims, volumes, storage classes, and what each node's storage drivers can attach.

An event only notes which claims may mean something else, and on which nodes limits or free volumes changed. All that is
noted is looked at in steps before the next plan, each claim, pod and node once however many events came.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from t9ksched.model.node import NodeFacts
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.volumes.claimants import Claimants
from t9ksched.scheduler.state.volumes.claims import (
    Claim,
    ClaimKey,
    Claims,
    CsiNode,
    Moved,
    PersistentVolume,
    StorageClass,
)
from t9ksched.scheduler.state.volumes.meanings import Meanings

_A_STEP: Final = 100
"""Claims, pods or nodes that are looked at before other work is done, at up to 50 µs each."""


class Storage:
    """Fed by reflectors. `look_again` is told of pods whose claims mean something else now, `limits_changed` of a node
    whose limits or free volumes changed, and `wake` when there is something of that for `settling`.
    """

    def __init__(
        self,
        look_again: Callable[[Iterable[PodRecord]], None],
        limits_changed: Callable[[str], None],
        node_exists: Callable[[str], bool],
        nodes: Callable[[], Iterable[str]] = tuple,
        wake: Callable[[], None] = lambda: None,
        claims: Claims | None = None,
        beside: Claimants | None = None,
    ) -> None:
        self._claims = Claims() if claims is None else claims
        self._look_again = look_again
        self._limits_changed = limits_changed
        self._all_nodes = nodes
        self._wake = wake
        self._meanings = Meanings(self._claims, node_exists)
        self.claimants = Claimants(self._meanings, beside)
        self._nodes: dict[str, None] = {}
        """Those on which limits or free volumes changed."""

    def for_a_copy(
        self,
        look_again: Callable[[Iterable[PodRecord]], None],
        limits_changed: Callable[[str], None],
        node_exists: Callable[[str], bool],
    ) -> "Storage":
        """The same volumes for pods of another state, which must not change them."""
        return Storage(look_again, limits_changed, node_exists, claims=self._claims, beside=self.claimants)

    def limit(self, facts: NodeFacts) -> NodeFacts:
        """The node with what its storage drivers can attach."""
        return self._claims.limit(facts)

    def upsert_claim(self, claim: Claim) -> None:
        """A PersistentVolumeClaim appeared or changed."""
        key = claim.metadata.namespace, claim.metadata.name
        self._claims.claims[key] = claim
        self._claim_changed(key)

    def remove_claim(self, claim: Claim) -> None:
        """A PersistentVolumeClaim is gone."""
        key = claim.metadata.namespace, claim.metadata.name
        self._claims.claims.pop(key, None)
        self._claim_changed(key)

    def _claim_changed(self, key: ClaimKey) -> None:
        self._meanings.judge(key)
        self._changed()

    def upsert_volume(self, volume: PersistentVolume) -> None:
        """A PersistentVolume appeared or changed."""
        before = self._claims.volumes.get(volume.metadata.name)
        if before is None or before.decides != volume.decides:
            self._volume_changed(before, volume, self._claims.add_volume(volume))

    def remove_volume(self, volume: PersistentVolume) -> None:
        """A PersistentVolume is gone."""
        before = self._claims.volumes.get(volume.metadata.name)
        self._volume_changed(before, volume, self._claims.drop_volume(volume.metadata.name))

    def _volume_changed(self, before: PersistentVolume | None, now: PersistentVolume, moved: Moved) -> None:
        self._meanings.of_volume((now,) if before is None else (before, now), moved.places)
        self._changed(moved.nodes)

    def upsert_class(self, kind: StorageClass) -> None:
        """A StorageClass appeared or changed."""
        before = self._claims.classes.get(kind.metadata.name)
        counted = self._claims.add_class(kind)
        if before is None or before.decides != kind.decides:
            default = kind.default or (before is not None and before.default)
            self._meanings.of_class(kind.metadata.name, default=default)
        self._changed((None,) if counted else ())

    def remove_class(self, kind: StorageClass) -> None:
        """A StorageClass is gone."""
        before = self._claims.classes.pop(kind.metadata.name, None)
        if before is not None:
            self._meanings.of_class(kind.metadata.name, default=before.default)
            self._changed()

    def node_changed(self, name: str) -> None:
        """A node came, or is gone."""
        self._meanings.of_node(name)
        self._changed()

    def upsert_csi_node(self, node: CsiNode) -> None:
        """What storage drivers say of a node appeared or changed."""
        name = node.metadata.name
        before, fresh = self._claims.limits.get(name, {}), self._claims.add_limits(node)
        self._meanings.of_limits(fresh)
        self._changed((None,) if fresh else (name,) if before != self._claims.limits[name] else ())

    def remove_csi_node(self, node: CsiNode) -> None:
        """A node's storage drivers are gone, and their limits with them."""
        if self._claims.limits.pop(node.metadata.name, None):
            self._changed((node.metadata.name,))

    def _changed(self, nodes: Iterable[str | None] = ()) -> None:
        """Limits or free volumes changed on these nodes, None stands for all; and claims may mean something else."""
        for node in nodes:
            self._nodes.update(dict.fromkeys(self._all_nodes() if node is None else (node,)))
        if self.unsettled:
            self._wake()

    @property
    def unsettled(self) -> bool:
        """Whether there is something to be looked at."""
        return bool(self._meanings.doubted or self.claimants.concerned or self._nodes)

    def settling(self) -> Iterator[None]:
        """Look at all that was noted, in steps. What is noted meanwhile is looked at the next time."""
        for at, _ in enumerate(self._settle(), start=1):
            if at % _A_STEP == 0:
                yield

    def _settle(self) -> Iterator[None]:
        for key in list(self._meanings.doubted):
            if key in self._meanings.doubted:
                self._meanings.judge(key)
                yield
        for uid in list(self.claimants.concerned):
            if (record := self.claimants.concerned.pop(uid, None)) is not None:
                self._look_again((record,))
                yield
        for node in list(self._nodes):
            if node in self._nodes:
                del self._nodes[node]
                self._limits_changed(node)
                yield
