"""What changed in a scheduler's state since a test looked last."""

from typing import Any
from weakref import WeakKeyDictionary

from t9ksched.scheduler.state.state import ClusterState

_CURSORS: WeakKeyDictionary[ClusterState, dict[str, Any]] = WeakKeyDictionary()


def taken(state: ClusterState, topic: str) -> list[Any]:
    """What came into that topic or log of the feed since the last call, at first all that is kept."""
    cursors = _CURSORS.setdefault(state, {})
    if topic not in cursors:
        cursors[topic] = getattr(state.feed, topic).follow()
    return list(cursors[topic].take())
