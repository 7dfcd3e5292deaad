"""What stands in SQL, read past the project's own code and past whatever keeps a scheduler from the database."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.invariant_checker import GPU, QueueFacts


def read_row(database: Path, uid: str) -> tuple[str, frozenset[int]] | None:
    """Node and cards that SQL has of a pod at this moment."""
    with closing(sqlite3.connect(database)) as connection:
        row = connection.execute("SELECT node, cards FROM binding WHERE pod_uid = ?", (uid,)).fetchone()
    if row is None:
        return None
    return row[0], frozenset(index for _, _, indices in msgspec.json.decode(row[1]) for index in indices)


def has_all_rows(database: Path) -> bool:
    """Whether SQL says that it has the rows of all pods that hold cards."""
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT 1 FROM meta WHERE key = 'bindings'").fetchone() is not None


def is_placed(database: Path, uid: str) -> bool:
    """Whether SQL has to which group a bound pod belongs."""
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT 1 FROM binding WHERE pod_uid = ? AND group_name IS NOT NULL", (uid,))
        return found.fetchone() is not None


def is_accepted(database: Path, uid: str) -> bool:
    """Whether a group stands among those that were accepted."""
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT 1 FROM acceptance WHERE uid = ?", (uid,)).fetchone() is not None


def read_queues(database: Path, known: dict[str, QueueFacts], now: float) -> None:
    """The queues as SQL has them from `now` on, in seconds since the epoch; of those that have just been closed, what
    was accepted before.
    """
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT name, spec FROM queue ORDER BY name").fetchall()
        for name, text in rows:
            spec: dict[str, Any] = msgspec.json.decode(text)
            zone = ((spec.get("nodeSelector") or {}).get("matchLabels") or {}).get("zone", "")
            quota = ((spec.get("quota") or {}).get("requests") or {}).get(GPU)
            facts = known.setdefault(name, QueueFacts(zone))
            facts.strict = spec.get("ordering") == "Strict"
            value = None if quota is None else int(quota)
            if not facts.quotas or facts.quotas[-1][1] != value:
                facts.quotas.append((now, value))
            if not spec.get("closed"):
                facts.closed_since = None
            elif facts.closed_since is None:
                facts.closed_since = now
                accepted = connection.execute("SELECT uid, replicas FROM acceptance WHERE queue = ?", (name,))
                facts.accepted = dict(accepted.fetchall())
