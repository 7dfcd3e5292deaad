"""What is recorded in SQL of the cards of pods, and which annotations say the same."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.model.card_identity import Identities
from t9ksched.model.card_units import Units
from t9ksched.model.cards import CardGrant
from t9ksched.model.podclass import PodClass
from t9ksched.scheduler.state.charges import Charge
from t9ksched.scheduler.state.records import PodRecord, job_of
from t9ksched.store.bindings import CardBinding

_MOST: Final = (1 << 63) - 1
"""What a column of SQL holds: a pod that was bound past the scheduler may ask for any number."""


class OnRecord(NamedTuple):
    """What a row says of the cards of a pod besides which they are. False when nothing."""

    devices: Identities = ()
    units: Units = ()
    worth: int = 0

    @classmethod
    def of(cls, row: CardBinding | None) -> "OnRecord":
        """What this row says."""
        if row is None:
            return cls()
        return cls(tuple(row.devices or ()), tuple(row.units or ()), row.worth or 0)

    def __bool__(self) -> bool:
        return any(self)


def row_of(record: PodRecord, charge: Charge | None, now: int) -> CardBinding:
    """What is to be recorded of a pod: the known cards that it is charged with, none once it has ended and is charged
    with nothing, and where it belongs. `now` in nanoseconds since the epoch.
    """
    given = charge.cards.by_container(charge.pod_class.cards) if charge is not None else ()
    gang = record.gang
    return CardBinding(
        pod_uid=record.uid,
        namespace=record.namespace,
        name=record.name,
        node=charge.node if charge is not None else record.node,
        cards=list(given),
        parts=list(charge.cards.parts) if charge is not None and charge.cards.parts else None,
        devices=list(charge.devices) if charge is not None and charge.devices else None,
        units=list(charge.units) if charge is not None and charge.units else None,
        worth=(charge.worth if charge.worth < _MOST else _MOST) if charge is not None and charge.units else None,
        honoured=charge is not None and charge.sure,
        at=_moment(now // 1_000_000),
        group_name=None if gang is None else "" if gang.virtual else gang.name,
        role=None if gang is None else record.role,
        queue=None if gang is None else gang.queue,
        job_uid=None if gang is None or gang.virtual else record.placed_in or (job_of(gang) or None),
    )


@lru_cache(maxsize=1 << 14)
def expected(dialect: CardDialect, pod: PodClass, held: CardGrant) -> Mapping[str, str]:
    """The lasting annotations that a binding writes in a dialect for a pod that holds these cards; not to be written
    to.
    """
    return dialect.write(pod, held)


@lru_cache(maxsize=64)
def _moment(millisecond: int) -> datetime:
    return datetime.fromtimestamp(millisecond / 1e3, UTC)
