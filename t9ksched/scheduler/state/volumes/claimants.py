"""Which pods use which claims: the pods to judge again when a claim, volume or class changes.

Only pods without a node are judged again. Of pods that share an exclusive claim one comes first: the one that has a
place, else the oldest; the others wait for it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.volumes.claims import NOTHING, Claims, Meaning


class Claimants:
    """The pods that use claims, by claim."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._users: defaultdict[tuple[str, str], dict[str, PodRecord]] = defaultdict(dict)
        self._placeless: dict[str, PodRecord] = {}

    def add(self, record: PodRecord) -> None:
        """A pod that uses claims appeared."""
        for name in record.claims:
            self._users[record.namespace, name][record.uid] = record
        self._placeless[record.uid] = record

    def remove(self, record: PodRecord) -> None:
        """A pod is gone."""
        self._placeless.pop(record.uid, None)
        for name in record.claims:
            users = self._users.get((record.namespace, name))
            if users is not None:
                users.pop(record.uid, None)
                if not users:
                    del self._users[record.namespace, name]

    def of(self, namespace: str, claim: str) -> list[PodRecord]:
        """Pods without a node that use this claim."""
        return self._without_node(self._users.get((namespace, claim), {}).values())

    def placeless(self) -> list[PodRecord]:
        """All pods without a node that use claims."""
        return self._without_node(self._placeless.values())

    def sharing(self, record: PodRecord) -> list[PodRecord]:
        """Other pods without a node that use a claim of this pod."""
        found = {
            user.uid: user
            for name in record.claims
            for user in self._users.get((record.namespace, name), {}).values()
            if user is not record
        }
        return self._without_node(found.values())

    def meaning(self, record: PodRecord, node_exists: Callable[[str], bool]) -> Meaning:
        """What the pod's claims mean for it now."""
        if not record.claims:
            return NOTHING
        return self._claims.meaning(
            record.namespace,
            record.claims,
            node_exists=node_exists,
            other_user=lambda claim: self._first_user(record, claim),
            shared=lambda claim: self._shared(record, claim),
        )

    def _shared(self, record: PodRecord, claim: str) -> bool:
        users = self._users.get((record.namespace, claim), {}).values()
        return any(user is not record and not user.finished for user in users)

    def _first_user(self, record: PodRecord, claim: str) -> str:
        users = [user for user in self._users.get((record.namespace, claim), {}).values() if not user.finished]
        first = min(users, key=lambda user: (not (user.node or user.assumed), user.created, user.uid), default=record)
        return "" if first is record else first.name

    def _without_node(self, records: Iterable[PodRecord]) -> list[PodRecord]:
        found = []
        for record in list(records):
            if record.node or record.finished:
                self._placeless.pop(record.uid, None)
            else:
                found.append(record)
        return found
