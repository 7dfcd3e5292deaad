"""What changed, for everything that follows the state: each reader has a cursor of its own and takes nothing away from
another. A topic names the things that changed, each once until a reader has taken it; a log has every event.

What all readers have read is dropped. A cursor begins with the oldest entry that is kept.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from t9ksched.scheduler.state.records import GangRecord, PodRecord
    from t9ksched.store.acceptances import Acceptance

T = TypeVar("T")
_HOLES: Final = 1000
"""So many more changes are kept than count."""


class Cursor(Generic[T]):
    """One reader's place in a topic."""

    def __init__(self, topic: "Topic[T]") -> None:
        self._topic = topic
        self.position = 0

    def __bool__(self) -> bool:
        """Whether something changed since this reader took it."""
        return self._topic.number > self.position

    def take(self) -> list[T]:
        """What changed since the last call, each thing once, in the order of their first unread change."""
        return self._topic.since(self)

    def pieces(self, most: int) -> Iterator[list[T]]:
        """What has changed by now, of about so many changes at a time, as there may be a hundred thousand; what changes
        meanwhile is for the next call.
        """
        until = self._topic.number
        while self.position < until:
            yield self._topic.since(self, most)

    def close(self) -> None:
        """Read no more: what only this reader had not taken is dropped."""
        self._topic.leave(self)


class Topic(Generic[T]):
    """Things that changed: of many changes of one thing a reader sees one."""

    def __init__(self) -> None:
        self.number = 0
        """The number of changes, not counting repeated ones of a thing that no reader had taken in between."""
        self._last: dict[T, int] = {}
        """The number of each thing's last change."""
        self._numbers: list[int] = []
        """The changes that are kept, in order; one that is not the last of its thing counts no more."""
        self._things: list[T] = []
        """What changed by them."""
        self._read = 0
        """The furthest position of a cursor."""
        self._cursors: list[Cursor[T]] = []
        self.followed = False
        """Whether it has a reader."""

    def note(self, thing: T) -> None:
        """The thing changed."""
        known = self._last.get(thing)
        if known is not None and known > self._read:
            return  # every reader will see it
        self.number = self._last[thing] = self.number + 1
        self._numbers.append(self.number)
        self._things.append(thing)

    def note_all(self, things: Iterable[T]) -> None:
        """These changed."""
        for thing in things:
            self.note(thing)

    def follow(self) -> Cursor[T]:
        """A new reader."""
        cursor = Cursor(self)
        self._cursors.append(cursor)
        self.followed = True
        return cursor

    def leave(self, cursor: Cursor[T]) -> None:
        """A reader is gone."""
        self._cursors.remove(cursor)
        self.followed = bool(self._cursors)
        self._drop()

    def since(self, cursor: Cursor[T], most: int | None = None) -> list[T]:
        """What changed since the cursor's position, which is then the end, or that of `most` changes later."""
        if cursor.position == self.number or not self._numbers:
            cursor.position = self.number
            return []
        last, start = self._last, bisect_right(self._numbers, cursor.position)
        end = len(self._numbers) if most is None else min(start + most, len(self._numbers))
        fresh = self._things[start:end]
        if len(last) < len(self._numbers):  # some changes are not the last of their things
            kept = zip(self._numbers[start:end], fresh, strict=True)
            fresh = [thing for number, thing in kept if last[thing] == number]
        cursor.position = self._numbers[end - 1]
        self._read = max(self._read, cursor.position)
        self._drop()
        return fresh

    def _drop(self) -> None:
        """Forget what every reader has read."""
        least = min((cursor.position for cursor in self._cursors), default=self.number)
        if least == self.number:
            for kept in (self._last, self._numbers, self._things):
                kept.clear()
            return
        if over := bisect_right(self._numbers, least):
            for number, thing in zip(self._numbers[:over], self._things[:over], strict=True):
                if self._last.get(thing) == number:
                    del self._last[thing]
            del self._numbers[:over], self._things[:over]
        if len(self._numbers) > 2 * len(self._last) + _HOLES:  # one reader stands still
            rest = [pair for pair in zip(self._numbers, self._things, strict=True) if self._last[pair[1]] == pair[0]]
            self._numbers, self._things = [number for number, _ in rest], [thing for _, thing in rest]


class LogCursor(Generic[T]):
    """One reader's place in a log."""

    def __init__(self, log: "Log[T]") -> None:
        self._log = log
        self.position = 0

    def take(self) -> list[T]:
        """The events since the last call, in their order."""
        return self._log.since(self)

    def pieces(self, most: int) -> Iterator[list[T]]:
        """The events by now, so many at a time, as there may be a hundred thousand; what happens meanwhile is for the
        next call.
        """
        until = self._log.number
        while self.position < until:
            yield self._log.since(self, most)


class Log(Generic[T]):
    """Events, each of which every reader sees."""

    def __init__(self) -> None:
        self._events: list[T] = []
        self._dropped = 0
        self._cursors: list[LogCursor[T]] = []

    @property
    def followed(self) -> bool:
        """Whether it has a reader."""
        return bool(self._cursors)

    @property
    def number(self) -> int:
        """The number of events so far."""
        return self._dropped + len(self._events)

    def add(self, event: T) -> None:
        """Something happened."""
        self._events.append(event)

    def follow(self) -> LogCursor[T]:
        """A new reader."""
        cursor = LogCursor(self)
        cursor.position = self._dropped
        self._cursors.append(cursor)
        return cursor

    def since(self, cursor: LogCursor[T], most: int | None = None) -> list[T]:
        """The events since the cursor's position, which is then the end, or that of `most` events later."""
        if not self._events:
            return []
        start = cursor.position - self._dropped
        fresh = self._events[start : None if most is None else start + most]
        cursor.position += len(fresh)
        least = min(each.position for each in self._cursors)
        del self._events[: least - self._dropped]
        self._dropped = least
        return fresh


class ChangeFeed:
    """The topics and logs of the scheduler's state.

    Attributes:
        gangs: groups of which something changed, single pods among them; some may be gone.
        holding: groups of which something changed that decides, whether they wait or run; only while it is followed.
        queues: names of queues of which something changed that their status shows.
        nodes: names of nodes that appeared, went, became ready or not, or take pods or do not.
        edited_queues: names of queues whose object was edited by another client: they are checked without delay.
        jobs: UIDs of jobs of which something changed that users see.
        nameless: groups that pods name and that do not exist, as `namespace/name`.
        acceptances: what was agreed with groups, to be written down.
        owners: UIDs of owners of pods with which something was agreed, to be written down as it is now.
        clocks: UIDs of jobs that began to run, or of which it became known since when they run.
        said: groups that got another reason without being judged by a plan.
        told_elsewhere: UIDs of groups to which anyone but a plan gave another reason, or none; only while it is
            followed.
        left: groups that are gone, and pods of ours that are, each with its group, and the UID of the job that they
            were of; only while it is followed.
        ended: bound pods whose cards came free, and members of gangs that succeeded, with their groups.
        bypassing: pods of our name that their creators put on nodes: namespace, name, UID, node.
        misread_links: nodes whose annotation about links between cards cannot be followed: name, UID, what is wrong.
        misread_cards: the same of what nodes say of single cards.
        held_up: pods with a place on a node that is busy with another's, and how.
    """

    def __init__(self) -> None:
        self.gangs: Topic[GangRecord] = Topic()
        self.holding: Topic[GangRecord] = Topic()
        self.queues: Topic[str] = Topic()
        self.nodes: Topic[str] = Topic()
        self.edited_queues: Topic[str] = Topic()
        self.jobs: Topic[str] = Topic()
        self.nameless: Topic[str] = Topic()
        self.acceptances: Log[Acceptance] = Log()
        self.owners: Topic[str] = Topic()
        self.clocks: Topic[str] = Topic()
        self.said: Log[GangRecord] = Log()
        self.told_elsewhere: Topic[str] = Topic()
        self.left: Log[tuple[str, GangRecord, PodRecord | None]] = Log()
        self.ended: Log[tuple[GangRecord, PodRecord]] = Log()
        self.bypassing: Log[tuple[str, str, str, str]] = Log()
        self.misread_links: Log[tuple[str, str, str]] = Log()
        self.misread_cards: Log[tuple[str, str, str]] = Log()
        self.held_up: Log[tuple[PodRecord, str]] = Log()

    def told_otherwise(self, gang: "GangRecord") -> None:
        """Anyone but a plan gave the group another reason, or none: `told_elsewhere` tells."""
        if self.told_elsewhere.followed:
            self.told_elsewhere.note(gang.uid)

    def held_otherwise(self, gang: "GangRecord") -> None:
        """What the group asks for or holds changed, or what was agreed with it, or whether it goes: `holding` tells."""
        if self.holding.followed:
            self.holding.note(gang)
