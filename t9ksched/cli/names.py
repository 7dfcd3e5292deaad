"""Live names for completion: asked of the service at most every few seconds, within a second, and kept in a file.

The file lies in the user's cache directory and is the user's alone; its name says for which service and token.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from t9ksched.client.calls import Call, Query
from t9ksched.client.errors import ClientError
from t9ksched.client.known import default_data_dir, find
from t9ksched.client.sending import Transport
from t9ksched.workloads.registry import SHORT_NAMES

FRESH_SECONDS: Final = 5.0
"""So long names are offered without asking again."""
OLD_SECONDS: Final = 86_400.0
"""Names that are older are not offered, even if the service is away."""
_TIMEOUT_SECONDS: Final = 1.0
_MOST: Final = 1000
_GO_ON: Final = ("Pending", "Running", "Paused", "Resuming", "Terminating")
"""Phases of jobs that have not ended: these are offered whatever has ended since."""
_PATHS: Final = {
    "jobs": "/apis/v1/workloads",
    "queues": "/apis/v1/queues",
    "nodes": "/apis/v1/nodes",
}
_SHORT: Final = {kind: short for short, kind in reversed(SHORT_NAMES.items()) if short != kind.lower()}
Given = Mapping[str, Any]


def jobs(given: Given) -> list[str]:
    """`pj/resnet`, those that have not ended first, the newest of both first: those of the namespace that is named, if
    one is.
    """
    namespace = given.get("namespace")
    found = [one.partition(" ") for one in _names("jobs", given)]
    return list(dict.fromkeys(name for space, _, name in found if namespace in (None, space)))


def queues(given: Given) -> list[str]:
    """Queues that may be used."""
    return _names("queues", given)


def nodes(given: Given) -> list[str]:
    """All nodes."""
    return _names("nodes", given)


def namespaces(given: Given) -> list[str]:
    """Namespaces with jobs."""
    return sorted({one.partition(" ")[0] for one in _names("jobs", given)})


NAMES: Final[dict[str, Callable[[Given], list[str]]]] = {
    "jobs": jobs,
    "queues": queues,
    "nodes": nodes,
    "namespaces": namespaces,
}


def _names(what: str, given: Given) -> list[str]:
    """The names of that sort, as the file has them; asked for anew where they are no longer fresh."""
    directory = given.get("data_dir") or os.environ.get("T9KSCHED_DATA_DIR")
    server, token = find(
        given.get("server") or os.environ.get("T9KSCHED_SERVER"),
        given.get("token") or os.environ.get("T9KSCHED_TOKEN"),
        Path(directory) if directory else default_data_dir(),
    )
    digest = hashlib.sha256(f"{server} {token}".encode()).hexdigest()[:16]
    file = _cache() / f"{what}-{digest}.json"
    age, kept = _kept(file)
    if age < FRESH_SECONDS:
        return kept
    try:
        found = _asked(what, server, token)
    except (ClientError, ValueError, KeyError, TypeError):
        _write(file, kept)  # not asked again with the next key
        return kept if age < OLD_SECONDS else []
    _write(file, found)
    return found


def _asked(what: str, server: str, token: str) -> list[str]:
    transport = Transport(server, token, _TIMEOUT_SECONDS)

    def items(query: Query) -> list[Any]:
        return list(json.loads(transport.send(Call("GET", _PATHS[what], query)).checked().content)["items"])

    if what != "jobs":
        return [str(one["name"]) for one in items({})]
    newest: Query = {"order": "newest", "limit": _MOST}
    found = items({**newest, "phase": _GO_ON})
    if len(found) < _MOST:
        found += items(newest)
    return list(
        dict.fromkeys(
            f"{one['namespace']} {_SHORT.get(one['kind'], one['kind'].lower())}/{one['name']}"
            for one in found
            if one.get("deletedAt") is None
        )
    )


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "t9ksched"


def _kept(file: Path) -> tuple[float, list[str]]:
    """How old the names of a file are, in seconds, and the names; infinitely old where there are none."""
    try:
        age = time.time() - file.stat().st_mtime
        kept = json.loads(file.read_text())
    except (OSError, ValueError):
        return float("inf"), []
    return (age, [str(one) for one in kept]) if isinstance(kept, list) and age >= 0 else (float("inf"), [])


def _write(file: Path, names: list[str]) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            json.dump(names, out)
        draft.replace(file)
    except OSError:
        return
