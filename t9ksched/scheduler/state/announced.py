"""Objects that say of themselves that REST created them: their submitter is recorded a moment after they are seen.

Anyone can write such an annotation, so it proves nothing: where starts are planned, and for elements of an array, a new
group is judged a little later because of it, and no more.
"""

from collections.abc import Mapping
from typing import Final

from t9ksched.model.names import SUBMISSION_ANNOTATION
from t9ksched.scheduler.state.sharing import NOTHING

_MOST: Final = 20_000
"""The oldest beyond that are forgotten: no group waits for a submitter's record that long."""


class Announced:
    """UIDs of such objects, until their submission is read."""

    def __init__(self) -> None:
        self._uids: dict[str, None] = {}

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self._uids)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def note(self, uid: str, annotations: Mapping[str, str] | None) -> None:
        """An object was seen, whose submission is not known."""
        if SUBMISSION_ANNOTATION not in (annotations or NOTHING):
            return
        self._uids[uid] = None
        if len(self._uids) > _MOST:
            del self._uids[next(iter(self._uids))]

    def forget(self, uid: str) -> None:
        """The submission of the object is known."""
        self._uids.pop(uid, None)
