"""The group, the role and the queue of bound pods, as they were when the scheduler bound them.

SQL has them beside the cards (`store/bindings.py`), by the pod's UID, until the pod is gone. Labels can be edited: a
scheduler that starts uses the row of a pod on the node that the row names, and the labels of a pod without one. Such a
pod is recorded as it is, so that its labels are used once. The role of a waiting pod is not recorded: it is that of its
label, for a running scheduler and for one that starts.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from t9ksched.model.ordered import OrderedSet
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.store.bindings import CardBinding

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState


class Place(NamedTuple):
    """The record of a pod on a node; `group` is empty for a pod that came without one."""

    node: str
    group: str
    role: str
    queue: str
    job: str = ""
    """UID of the job that it was placed in; empty where a release before this one wrote the row."""


class Places:
    """The records of the pods of `state`."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._recorded: dict[str, Place] = {}
        """By UID; of pods that are gone until `forget`."""
        self._missing: OrderedSet[str] = OrderedSet()
        """UIDs of pods that were seen bound without anything on record."""

    def on(self, uid: str, node: str) -> Place | None:
        """The record of the pod if it is bound to the node; None for a pod without a node."""
        place = self._recorded.get(uid)
        return place if place is not None and node and place.node == node else None

    def seen_bound(self, record: PodRecord, node: str) -> Place | None:
        """The record of a pod that another process bound to the node. A pod without a record is kept for
        `take_missing`.
        """
        place = self.on(record.uid, node)
        if place is None or (place.group and not place.job):
            self._missing.add(record.uid)
        if place is not None:
            record.placed_in = record.placed_in or place.job
        return place

    def restore(self, rows: Mapping[str, CardBinding]) -> None:
        """Take over rows from SQL; pods that were seen before go back to where the rows say they belong."""
        for uid, row in rows.items():
            if row.group_name is None:
                continue
            place = Place(row.node, row.group_name, row.role or "", row.queue or "", row.job_uid or "")
            self._recorded[uid] = place
            record = self._state.pods.get(uid)
            if record is not None and record.ours and record.node == row.node:
                if place.job or not place.group:
                    self._missing.discard(uid)
                else:
                    self._missing.add(uid)  # the job is added to what is on record
                record.placed_in = record.placed_in or place.job
                self._state.put_back(record, place)

    def take_missing(self) -> Iterator[PodRecord]:
        """Pods that are bound and have no record, each once; some may be told meanwhile that go."""
        for uid in list(self._missing):
            self._missing.discard(uid)
            record = self._state.pods.get(uid)
            if record is not None and record.ours and record.node:
                yield record

    def lost(self, uid: str) -> None:
        """The record of the pod is of another node than the pod's."""
        self._recorded.pop(uid, None)
        self._missing.add(uid)

    def forget(self, uids: Iterable[str]) -> None:
        """These pods are gone, or their records were removed."""
        for uid in uids:
            self._recorded.pop(uid, None)
            self._missing.discard(uid)
