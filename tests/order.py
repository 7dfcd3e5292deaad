"""In which order files of tests are given to workers: those that wait take turns with those that compute.

A test from outside waits for other processes, timers and sockets more than it computes; a test of a property computes
all the time. Side by side they fill the processors from the beginning to the end.
"""

import pytest

WAITING = ("tests/acceptance/", "tests/integration/", "tests/chaos/test_processes", "tests/chaos/test_frozen")


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def take_turns(items: list[pytest.Item]) -> None:
    """Sort tests by their files, so that both kinds of files begin and end together; within a file all stays."""
    files = dict.fromkeys(map(_file, items))
    waiting = [name for name in files if name.startswith(WAITING)]
    computing = [name for name in files if not name.startswith(WAITING)]
    place = {name: (at / len(kind), name) for kind in (waiting, computing) for at, name in enumerate(kind)}
    items.sort(key=lambda item: place[_file(item)])
