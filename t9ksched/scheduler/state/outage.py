"""What the scheduler does while the database is away: accepted and recorded groups go on, new ones wait.

A group starts only once a scheduler that starts after a crash can read its acceptance. While the database answers, no
group waits for that: a group is started, and its acceptance is written within a second or so, of a single pod once it
is bound. Once the database is known to be away, groups whose acceptance it has not taken wait until it has; a decision
that was made on a view from before that is dropped. A scheduler that started without the database knows no acceptances:
groups without a place wait until they were read.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.records import GangRecord


class Outage:
    """Whether the database is away, and which acceptances it has not taken. `on_change` is called when waiting groups
    may go on.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self.since: datetime | None = None
        """When it was found away; None while it answers."""
        self.unread = False
        """It was away at the start, and what it knows has not been read since."""
        self._unwritten: set[str] = set()
        """UIDs of groups whose acceptance it has not taken, while it is away."""

    @property
    def away(self) -> bool:
        """Whether decisions may be carried out before they are recorded."""
        return self.since is not None or self.unread

    def begin(self, at: datetime, unwritten: Iterable[str]) -> None:
        """It does not answer; these groups' acceptances were on their way to it."""
        self.since = at
        self._unwritten = set(unwritten)
        self._on_change()

    def end(self) -> None:
        """It answers again, and has taken all that waited for it."""
        self.since = None
        self._on_change()

    def read(self) -> None:
        """The records of the database were read at last."""
        self.unread = False
        self._on_change()

    def accepted(self, uid: str) -> None:
        """A group was accepted, and that is not written yet."""
        if self.since is not None:
            self._unwritten.add(uid)

    def refusal(self, gang: GangRecord) -> Reason | None:
        """Why the group has to wait; None when it may go on. A group with places is completed."""
        if gang.placed_count():
            return None
        if self.unread:
            message = "the database has not answered since the scheduler started: which jobs were accepted is unknown"
        elif self.since is not None and gang.uid in self._unwritten:
            message = (
                f"the database has not answered since {self.since:%H:%M:%S} UTC: a new job starts once what was agreed"
                " with it is written down"
            )
        else:
            return None
        return Reason(Code.DATABASE_AWAY, message, unblocks=("the database answers again",))
