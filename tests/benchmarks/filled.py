"""A database that has been in use for long, for benchmarks that write into one.

`filled(folder, rows)` gives an SQLite file with so many rows of history: single pods that came, ran and went within
the last 90 days, with their rows of jobs and of card time, and `LIVE` pods that run now (less in a small database).
UIDs are random, as those of Kubernetes are, so that new rows of an index go anywhere in it. A file is made once for
each version of the tables and kept in `folder`.
"""

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from t9ksched.store import history, schema
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.bindings import CardBinding
from t9ksched.store.history import Event
from t9ksched.store.jobs import JobRecord
from t9ksched.store.store import Store

KEEP = Path(tempfile.gettempdir()) / f"t9ksched-filled-{os.getuid()}"
"""Where files are kept unless another folder is named."""
LIVE = 20_000
ROWS_A_LIFE = 7
ROWS_A_START = 4
"""Of history, of one pod that is gone and of one that runs."""
_PIECE = 500
_RESOURCE = "nvidia.com/gpu"


class Pod(NamedTuple):
    """What is written of one pod, by kind of row; `events` in their order."""

    acceptance: Acceptance
    events: list[Event]
    job: JobRecord
    binding: CardBinding


def pod(number: int, uid: str, at: datetime, namespace: str) -> Pod:
    """A single pod with a card, up to the moment at which its binding is confirmed."""
    name, node, cards = f"p{number}", f"node-{number % 1000}", {"main": [number % 8]}
    queue, user = f"q{number % 30}", f"user{number % 300}"
    about: dict[str, Any] = {"kind": "Pod", "namespace": namespace, "name": name, "uid": uid, "queue": queue}
    about |= {"actor": "scheduler", "at": at}
    agreed = {"priority": 0, "group": None, "submitter": user, "permittedBy": "everyone"}
    place = {"pod": name, "node": node, "cards": cards, "model": "A100", "resource": _RESOURCE, "physicalCards": 1.0}
    place["submitter"] = user
    events = [
        Event(event=history.ACCEPTED, detail=agreed, **about),
        Event(event=history.ADMITTED, detail={"nodes": {node: 1}, "waitedSeconds": 0}, **about),
        Event(event=history.BOUND, detail=place, **about),
    ]
    amounts = {"cpu": 1000, "memory": 1 << 30, _RESOURCE: 1}
    accepted = Acceptance(
        uid=uid, kind="Pod", namespace=namespace, name=name, submitter=user, permitted_by="everyone", queue=queue,
        cards={_RESOURCE: 1}, requests=amounts, accepted_at=at, replicas=1,
    )  # fmt: skip
    row = JobRecord(
        uid=uid, kind="Pod", namespace=namespace, name=name, queue=queue, phase="Scheduled", submitted_at=at,
        updated_at=at, shape=_shape(name, namespace, uid, queue, user, at),
    )  # fmt: skip
    grant = [("main", _RESOURCE, (number % 8,))]
    bound = CardBinding(
        pod_uid=uid, namespace=namespace, name=name, node=node, cards=grant, honoured=False, at=at, group_name="",
        role="", queue=queue, job_uid=uid,
    )  # fmt: skip
    return Pod(accepted, events, row, bound)


def _shape(name: str, namespace: str, uid: str, queue: str, user: str, at: datetime) -> dict[str, Any]:
    """A job as the leader tells it."""
    told: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}
    told |= {"group": None, "queue": queue, "priority": 0, "submitter": user, "phase": "Scheduled", "gpus": 1}
    told |= {"submittedAt": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "startedAt": None, "finishedAt": None}
    told |= {"members": {"min": 1, "total": 1, "bound": 1, "running": 0, "succeeded": 0, "failed": 0}}
    return told | {"position": None, "expectedStart": None, "reason": None, "timeLimit": None, "cards": 1.0}


def pods(count: int, seed: int, begin: datetime, step: timedelta = timedelta(0)) -> Iterator[Pod]:
    """So many, the same for the same `seed`."""
    random = Random(seed)
    for number in range(count):
        uid = str(UUID(int=random.getrandbits(128), version=4))
        yield pod(number, uid, begin + number * step, f"ns{seed}-{number % 40}")


def _rest(one: Pod) -> list[Event]:
    """The events after a pod was bound."""
    started = one.events[-1]
    about = {name: getattr(started, name) for name in ("kind", "namespace", "name", "uid", "queue", "actor")}
    told = (
        (history.STARTED, 5, {"phase": "Running"}),
        (history.RELEASED, 3600, {"pod": one.acceptance.name}),
        (history.FINISHED, 3601, {"phase": "Succeeded"}),
        (history.DELETED, 3605, {"phase": "Succeeded"}),
    )
    return [
        Event(event=event, at=started.at + timedelta(seconds=after), detail=dict(detail), **about)
        for event, after, detail in told
    ]


async def fill(store: Store, rows: int, now: datetime) -> None:
    """Write the past and the present."""
    live = min(LIVE, rows // (2 * ROWS_A_START))
    past = (rows - live * ROWS_A_START) // ROWS_A_LIFE
    begin = now - timedelta(days=90)
    for some in _pieces(pods(past, 1, begin, timedelta(days=89) / past)):
        await store.history.append_many([event for one in some for event in (*one.events, *_rest(one))])
        await store.jobs.put_many([_ended(one) for one in some])
    for some in _pieces(pods(live, 2, now - timedelta(hours=2), timedelta(hours=1) / live)):
        await store.tell(
            [one.acceptance for one in some],
            [event for one in some for event in (*one.events, _rest(one)[0])],
            [one.job for one in some],
        )
        await store.bindings.put([one.binding for one in some])


def _pieces(every: Iterator[Pod]) -> Iterator[list[Pod]]:
    while some := [one for _, one in zip(range(_PIECE), every, strict=False)]:
        yield some


def _ended(one: Pod) -> JobRecord:
    end = one.acceptance.accepted_at + timedelta(hours=1)
    head = {name: getattr(one.job, name) for name in ("uid", "kind", "namespace", "name", "queue", "submitted_at")}
    return JobRecord(**head, phase="Succeeded", updated_at=end, finished_at=end, deleted_at=end, shape=one.job.shape)


async def _make(path: Path, rows: int) -> None:
    async with await Store.open(f"sqlite:///{path}") as store:
        await fill(store, rows, datetime.now(UTC))


def filled(folder: Path, rows: int) -> Path:
    """The file with so many rows of history, made now if it is not there: from that of an earlier version of the tables
    if there is one. Copy it: the next run wants it as it is.
    """
    path = folder / f"filled-{rows}-{schema.newest()}.db"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    making = path.with_suffix(".making")
    for left in folder.glob(f"{making.name}*"):
        left.unlink()
    before = [folder / f"filled-{rows}-{revision}.db" for revision in schema.revisions()]
    if earlier := [one for one in before if one.exists()]:
        shutil.copyfile(earlier[-1], making)
        schema.upgrade(f"sqlite:///{making}")
    else:
        asyncio.run(_make(making, rows))
    making.rename(path)
    return path


def copied(folder: Path, rows: int, to: Path, *, live: bool = True) -> str:
    """The URL of a copy of that file; of a new file if `rows` is 0. Without `live` the pods that run in it are gone,
    for a scheduler on a cluster that has none of them: it would write their ends first.
    """
    if rows:
        shutil.copyfile(filled(folder, rows), to)
    if rows and not live:
        with closing(sqlite3.connect(to)) as database, database:
            for table in ("acceptance", "binding", "usage_open", "usage_job"):
                database.execute(f"DELETE FROM {table}")
            database.execute(
                "INSERT INTO history (at, event, kind, namespace, name, uid, queue, actor, detail)"
                " SELECT updated_at, 'deleted', kind, namespace, name, uid, queue, 'scheduler', '{}'"
                " FROM job WHERE deleted_at IS NULL"
            )
            database.execute("UPDATE job SET phase = 'Succeeded', deleted_at = updated_at WHERE deleted_at IS NULL")
    if rows:
        with to.open("rb") as copy:  # what was copied is on the disk: a checkpoint would wait for half a GB
            os.fsync(copy.fileno())
    return f"sqlite:///{to}"
