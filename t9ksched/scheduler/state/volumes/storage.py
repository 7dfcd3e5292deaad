"""Volumes as the watches show them: claims, volumes, storage classes, and what each node's storage drivers can attach.

Each event says which pods must be judged again, and on which nodes the limits changed.
"""

from collections.abc import Callable, Iterable

from t9ksched.model.node import NodeFacts
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.volumes.claimants import Claimants
from t9ksched.scheduler.state.volumes.claims import Claim, Claims, CsiNode, PersistentVolume, StorageClass


class Storage:
    """Fed by reflectors. `look_again` is told of pods whose claims may mean something else now, `limits_changed` of the
    node whose limits or free volumes changed; None stands for all nodes.
    """

    def __init__(
        self,
        look_again: Callable[[Iterable[PodRecord]], None],
        limits_changed: Callable[[str | None], None],
        claims: Claims | None = None,
    ) -> None:
        self._claims = Claims() if claims is None else claims
        self._look_again = look_again
        self._limits_changed = limits_changed
        self.claimants = Claimants(self._claims)

    def for_a_copy(
        self, look_again: Callable[[Iterable[PodRecord]], None], limits_changed: Callable[[str | None], None]
    ) -> "Storage":
        """The same volumes for pods of another state, which must not change them."""
        return Storage(look_again, limits_changed, self._claims)

    def limit(self, facts: NodeFacts) -> NodeFacts:
        """The node with what its storage drivers can attach."""
        return self._claims.limit(facts)

    def upsert_claim(self, claim: Claim) -> None:
        """A PersistentVolumeClaim appeared or changed."""
        meta = claim.metadata
        self._claims.claims[meta.namespace, meta.name] = claim
        self._look_again(self.claimants.of(meta.namespace, meta.name))

    def remove_claim(self, claim: Claim) -> None:
        """A PersistentVolumeClaim is gone."""
        meta = claim.metadata
        self._claims.claims.pop((meta.namespace, meta.name), None)
        self._look_again(self.claimants.of(meta.namespace, meta.name))

    def upsert_volume(self, volume: PersistentVolume) -> None:
        """A PersistentVolume appeared or changed."""
        self._free_changed(self._claims.add_volume(volume))
        self._look_again(self.claimants.placeless())

    def remove_volume(self, volume: PersistentVolume) -> None:
        """A PersistentVolume is gone."""
        self._free_changed(self._claims.drop_volume(volume.metadata.name))
        self._look_again(self.claimants.placeless())

    def upsert_class(self, kind: StorageClass) -> None:
        """A StorageClass appeared or changed."""
        if self._claims.add_class(kind):
            self._limits_changed(None)
        self._look_again(self.claimants.placeless())

    def remove_class(self, kind: StorageClass) -> None:
        """A StorageClass is gone."""
        self._claims.classes.pop(kind.metadata.name, None)
        self._look_again(self.claimants.placeless())

    def _free_changed(self, nodes: Iterable[str | None]) -> None:
        """Other volumes are free on these nodes than before."""
        for node in nodes:
            self._limits_changed(node)

    def upsert_csi_node(self, node: CsiNode) -> None:
        """What storage drivers say of a node appeared or changed."""
        first = self._claims.add_limits(node)
        self._limits_changed(None if first else node.metadata.name)
        if first:
            self._look_again(self.claimants.placeless())

    def remove_csi_node(self, node: CsiNode) -> None:
        """A node's storage drivers are gone, and their limits with them."""
        if self._claims.limits.pop(node.metadata.name, None):
            self._limits_changed(node.metadata.name)
