"""A member that a running gang lost, and the nodes on which members of jobs failed lately. Times are nanoseconds since
the epoch.
"""

from collections import Counter, defaultdict, deque
from typing import Final

import msgspec

from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.pod import OwnerReference
from t9ksched.model.podclass import PodClass
from t9ksched.scheduler.state.records import DEFAULT_GRACE

_SECOND: Final = 1_000_000_000
FAILURES_NS: Final = 3600 * _SECOND
MOST_FAILURES: Final = 2
"""If so many members of a job failed on a node within `FAILURES_NS`, the next goes there only if no other node fits."""


class Loss(msgspec.Struct, eq=False):
    """A member that was lost.

    Attributes:
        node, cards: where it was.
        grace: seconds that it got to end once it was deleted.
        owner: its controller.
        failed: it ended by itself, with a failure.
        since: when it was lost.
        found: the node on which the engine found room for it, when its own is of no use.
        place, kept_cards: where room is kept now, and on which cards; no place while none was found.
        kept: whether room is kept for it now, or is still to be found.
    """

    uid: str
    name: str
    role: str
    pod_class: PodClass
    node: str = ""
    cards: CardGrant = NO_CARDS
    started: int = 0
    grace: int = DEFAULT_GRACE
    owner: OwnerReference | None = None
    failed: bool = False
    since: int = 0
    found: str = ""
    place: str = ""
    kept_cards: CardGrant = NO_CARDS
    kept: bool = False


class Failures:
    """On which nodes members of jobs failed recently: a replacement may fail there again."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, str, str]] = deque()
        self._of: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def note(self, job: str, node: str, now: int) -> None:
        """A member of the job of this UID failed there. `now` never goes back."""
        self._recent.append((now, job, node))
        self._of[job][node] += 1

    def forget(self, now: int) -> list[str]:
        """Drop entries whose time is over; returns the jobs that they were of."""
        over = []
        while self._recent and self._recent[0][0] + FAILURES_NS <= now:
            _, job, node = self._recent.popleft()
            over.append(job)
            self._of[job][node] -= 1
            if not self._of[job][node]:
                del self._of[job][node]
            if not self._of[job]:
                del self._of[job]
        return over

    def nodes(self, job: str) -> tuple[str, ...]:
        """Names of the nodes on which too many members of the job failed, sorted."""
        if job not in self._of:
            return ()
        return tuple(sorted(node for node, count in self._of[job].items() if count >= MOST_FAILURES))
