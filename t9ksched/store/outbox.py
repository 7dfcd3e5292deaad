"""Submissions in progress: what will be created and for which user, written before the first object is created.

One claim at a time works on an entry. The replica that creates the objects renews its claim; one that was lost with its
process is taken over by any replica once its lease is over, which finishes the submission or removes what is there.
`Submissions.put` records a submission and closes its entry in one transaction, which fails if the claim was lost: of
two replicas that work on one submission at most one records it.

`Entry.mark` gives each object a text that cannot be known before the object exists. Marks only help to find objects:
the entry says which objects there can be.
"""

import hashlib
import os
import socket
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import structs
from sqlalchemy import String, bindparam, case, delete, insert, select, update

from t9ksched.store.acceptances import Acceptance
from t9ksched.store.bulk import Prepared, Speaker, Statement
from t9ksched.store.database import Database
from t9ksched.store.moment import Moment
from t9ksched.store.repeats import Busy
from t9ksched.store.tables import outbox

LEASE: Final = timedelta(seconds=30)
"""How long a claim counts as at work after it was last heard of."""
KEPT: Final = timedelta(hours=1)
"""How long an entry stays after it was taken over and settled: a process that stood still all the while is refused by
it, and an object that reached the cluster late is found."""

CREATING: Final = "creating"
"""The service that got the request creates its objects."""
CHECKING: Final = "checking"
"""That service was lost, and another replica looks which objects exist."""
REMOVING: Final = "removing"
"""Objects are removed: the submission failed, and its user was told so."""
REMOVED: Final = "removed"
"""Nothing is left; looked at once more after `KEPT`."""
RECORDED: Final = "recorded"
"""Another replica found all objects and recorded the submission."""

_row = outbox.c


class Intent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One object of a submission.

    Attributes:
        acceptance: what is recorded of it, but for the object's UID and the groups of its submitter.
        ours: whether our scheduler places it; of others the submission alone is recorded.
        group: the place of its PodGroup in the submission, if that is part of it.
        files: the names of the ConfigMaps that come with it and belong to it.
    """

    kind: str
    namespace: str
    name: str
    acceptance: Acceptance
    ours: bool = True
    group: int | None = None
    files: tuple[str, ...] = ()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A submission in progress.

    Attributes:
        id: known to the database and the service alone.
        owner, groups: the submitter, and the groups that the user is in.
        key: the digest of the request's `Idempotency-Key`, if it had one.
        at: when it began.
        latest: when it must have created its last object.
        until: when its claim is taken for lost.
        uids: of each object, as far as they were written down.
    """

    id: str
    owner: str
    key: str | None = None
    groups: list[str]
    at: datetime
    latest: datetime
    state: str = CREATING
    claim: str
    replica: str
    until: datetime
    objects: list[Intent]
    uids: list[str | None]

    def mark(self, place: int) -> str:
        """The text that the object at that place carries: 32 hexadecimal digits."""
        intent = self.objects[place]
        named = f"{self.id}:{intent.kind}:{intent.namespace}:{intent.name}"
        return hashlib.sha256(named.encode()).hexdigest()[:32]


def new_entry(owner: str, groups: Sequence[str], objects: list[Intent], now: datetime, key: str | None) -> Entry:
    """An entry for a submission that begins now; it is not stored yet."""
    until = now + LEASE
    return Entry(
        id=uuid.uuid4().hex,
        owner=owner,
        key=key,
        groups=list(groups),
        at=now,
        latest=until,
        claim=uuid.uuid4().hex,
        replica=_replica(),
        until=until,
        objects=objects,
        uids=[None] * len(objects),
    )


class Outbox:
    """The repository of submissions in progress. Times are the caller's."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, entry: Entry) -> None:
        """Write an entry.

        Raises:
            StoreError: it is not there, unless the connection was lost with the database's answer.
        """
        await self._database.write_all([_BEGIN.prepared(self._database, [_values(entry)])])

    async def resume(self, owner: str, key: str, now: datetime) -> Entry | Busy | None:
        """Claim the entry of a request whose earlier attempt was lost; None if there is none that goes on, and `Busy`
        if a replica is settling it just now.
        """
        mine = (_row.owner == owner) & (_row.key == key) & _row.state.in_((CREATING, CHECKING, REMOVING))
        async with self._database.write() as connection:
            query = select(outbox).where(mine).order_by(_row.at.desc()).limit(1).with_for_update()
            found = (await connection.execute(query)).mappings().first()
            if found is None:
                return None
            entry = _entry(found)
            # The replica that created objects for the earlier attempt lost the key with its lease.
            if entry.state != CREATING and entry.until > now:
                return Busy(entry.until - now)
            taken = _taken(entry, CREATING, now + LEASE, latest=now + LEASE)
            await connection.execute(update(outbox).where(_row.id == entry.id).values(_claim_of(taken)))
            return taken

    async def renew(self, entry: Entry, until: datetime, uids: Sequence[str | None]) -> bool:
        """Say that its objects are being created, and which are there; False if the claim was lost."""
        held = {"until": until, "latest": until, "uids": list(uids)}
        async with self._database.write() as connection:
            done = await connection.execute(update(outbox).where(_held(entry)).values(held))
        return bool(done.rowcount)

    async def lost(self, now: datetime, begun_before: datetime | None = None, limit: int = 100) -> list[Entry]:
        """Claim entries whose claims are lost: by their lease, or because they began before a process that alone uses
        the database.
        """
        over = _row.until <= now
        if begun_before is not None:
            over |= _row.at < begun_before
        query = select(outbox).where(over).order_by(_row.until).limit(limit)
        if not await self._database.fetch(query.with_only_columns(_row.id).limit(1)):
            return []
        taken = []
        async with self._database.write() as connection:
            for found in (await connection.execute(query.with_for_update(skip_locked=True))).mappings():
                before = _entry(found)
                state = CHECKING if before.state == CREATING else before.state
                entry = _taken(before, state, now + LEASE)
                await connection.execute(update(outbox).where(_row.id == entry.id).values(_claim_of(entry)))
                taken.append(entry)
        return taken

    async def turn(self, entry: Entry, state: str, until: datetime) -> Entry | None:
        """Go on with an entry in another state; None if the claim was lost. A transaction that was to close the entry
        and whose fate is unknown fails from here on.
        """
        turned = _taken(entry, state, until)
        async with self._database.write() as connection:
            done = await connection.execute(update(outbox).where(_held(entry)).values(_claim_of(turned)))
        return turned if done.rowcount else None

    async def drop(self, entry: Entry) -> None:
        """Nothing of the submission is left, or all of it is settled."""
        async with self._database.write() as connection:
            await connection.execute(delete(outbox).where(_held(entry)))

    async def state(self, entry: Entry) -> str | None:
        """What became of an entry; None once it is gone."""
        found = await self._database.fetch(select(_row.state).where(_row.id == entry.id))
        return found[0].state if found else None

    def closing(self, entry: Entry, now: datetime) -> list[Prepared]:
        """Statements for the transaction that records the submission, first of all: they fail without the claim."""
        guarded = {"of": entry.id, "by": entry.claim, "to": RECORDED, "end": now + KEPT}
        steps = [_GUARD.prepared(self._database, [guarded])]
        if entry.state == CREATING:
            steps.append(_DROP.prepared(self._database, [{"of": entry.id}]))
        return steps


def _values(entry: Entry) -> dict[str, Any]:
    values = structs.asdict(entry)
    return values | {"objects": [msgspec.to_builtins(intent) for intent in entry.objects]}


def _entry(row: Any) -> Entry:
    values = dict(row)
    return Entry(**values | {"objects": msgspec.convert(values["objects"], list[Intent])})


def _taken(entry: Entry, state: str, until: datetime, **more: Any) -> Entry:
    return structs.replace(entry, state=state, claim=uuid.uuid4().hex, replica=_replica(), until=until, **more)


def _claim_of(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in ("state", "claim", "replica", "until", "latest")}


def _held(entry: Entry) -> Any:
    return (_row.id == entry.id) & (_row.claim == entry.claim)


@cache
def _replica() -> str:
    """Name of the process, for administrators who read the table."""
    return f"{socket.gethostname()}:{os.getpid()}"[:253]


def _begin(_: Speaker) -> Any:
    return insert(outbox)


def _guard(_: Speaker) -> Any:
    kept = case((_row.claim == bindparam("by", type_=String), bindparam("to", type_=String)))
    ended = {"state": kept, "until": bindparam("end", type_=Moment)}
    return update(outbox).where(_row.id == bindparam("of", type_=String)).values(ended)


def _drop(_: Speaker) -> Any:
    return delete(outbox).where(_row.id == bindparam("of", type_=String))


_BEGIN = Statement({column.name: column.type for column in outbox.columns}, _begin)
_GUARD = Statement({"of": String(), "by": String(), "to": String(), "end": Moment()}, _guard)
_DROP = Statement({"of": String()}, _drop)
