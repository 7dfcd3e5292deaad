"""Volumes as the watches show them: claims, volumes, storage classes, and what each node's storage drivers can attach.

Each event says which pods must be judged again, and on which nodes the limits changed.
"""

from collections.abc import Callable, Iterable

from t9ksched.model.node import NodeFacts
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.volumes.claimants import Claimants
from t9ksched.scheduler.state.volumes.claims import Claim, ClaimKey, Claims, CsiNode, PersistentVolume, StorageClass
from t9ksched.scheduler.state.volumes.meanings import Meanings


class Storage:
    """Fed by reflectors. `look_again` is told of pods whose claims may mean something else now, `limits_changed` of the
    node whose limits or free volumes changed; None stands for all nodes.
    """

    def __init__(
        self,
        look_again: Callable[[Iterable[PodRecord]], None],
        limits_changed: Callable[[str | None], None],
        node_exists: Callable[[str], bool],
        claims: Claims | None = None,
        beside: Claimants | None = None,
    ) -> None:
        self._claims = Claims() if claims is None else claims
        self._look_again = look_again
        self._limits_changed = limits_changed
        self._meanings = Meanings(self._claims, node_exists)
        self.claimants = Claimants(self._meanings, beside)

    def for_a_copy(
        self,
        look_again: Callable[[Iterable[PodRecord]], None],
        limits_changed: Callable[[str | None], None],
        node_exists: Callable[[str], bool],
    ) -> "Storage":
        """The same volumes for pods of another state, which must not change them."""
        return Storage(look_again, limits_changed, node_exists, self._claims, self.claimants)

    def limit(self, facts: NodeFacts) -> NodeFacts:
        """The node with what its storage drivers can attach."""
        return self._claims.limit(facts)

    def upsert_claim(self, claim: Claim) -> None:
        """A PersistentVolumeClaim appeared or changed."""
        key = claim.metadata.namespace, claim.metadata.name
        self._claims.claims[key] = claim
        self._judge_again(self._meanings.changed((key,)))

    def remove_claim(self, claim: Claim) -> None:
        """A PersistentVolumeClaim is gone."""
        key = claim.metadata.namespace, claim.metadata.name
        self._claims.claims.pop(key, None)
        self._judge_again(self._meanings.changed((key,)))

    def upsert_volume(self, volume: PersistentVolume) -> None:
        """A PersistentVolume appeared or changed."""
        before = self._claims.volumes.get(volume.metadata.name)
        if before is not None and before.decides == volume.decides:
            return
        self._free_changed(self._claims.add_volume(volume))
        self._volume_changed(before, volume)

    def remove_volume(self, volume: PersistentVolume) -> None:
        """A PersistentVolume is gone."""
        before = self._claims.volumes.get(volume.metadata.name)
        self._free_changed(self._claims.drop_volume(volume.metadata.name))
        self._volume_changed(before, volume)

    def _volume_changed(self, before: PersistentVolume | None, now: PersistentVolume) -> None:
        versions = (now,) if before is None else (before, now)
        self._judge_again(self._meanings.of_volume(now.metadata.name, versions))

    def upsert_class(self, kind: StorageClass) -> None:
        """A StorageClass appeared or changed."""
        if self._claims.add_class(kind):
            self._limits_changed(None)
        self._judge_again(self._meanings.of_class(kind.metadata.name))

    def remove_class(self, kind: StorageClass) -> None:
        """A StorageClass is gone."""
        self._claims.classes.pop(kind.metadata.name, None)
        self._judge_again(self._meanings.of_class(kind.metadata.name))

    def node_changed(self, name: str) -> None:
        """A node came, or is gone."""
        self._judge_again(self._meanings.of_node(name))

    def _judge_again(self, claims: Iterable[ClaimKey]) -> None:
        """These claims mean something else now."""
        self._look_again(self.claimants.of(claims))

    def _free_changed(self, nodes: Iterable[str | None]) -> None:
        """Other volumes are free on these nodes than before."""
        for node in nodes:
            self._limits_changed(node)

    def upsert_csi_node(self, node: CsiNode) -> None:
        """What storage drivers say of a node appeared or changed."""
        first = self._claims.add_limits(node)
        self._limits_changed(None if first else node.metadata.name)
        if first:
            self._judge_again(self._meanings.all_changed())

    def remove_csi_node(self, node: CsiNode) -> None:
        """A node's storage drivers are gone, and their limits with them."""
        if self._claims.limits.pop(node.metadata.name, None):
            self._limits_changed(node.metadata.name)
