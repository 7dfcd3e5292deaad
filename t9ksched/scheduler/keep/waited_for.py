"""What jobs wait for, what is known of that, and the sentence that says so."""

from typing import Final, NamedTuple

import msgspec

from t9ksched.model.names import AFTER_ANNOTATION
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.dependencies import Verdict
from t9ksched.scheduler.state.records import FINISHED
from t9ksched.workloads.dependencies import ANY, Dependency

Name = tuple[str, str, str]
"""Namespace, kind and name of a job or an array."""
Key = str | Name
"""UID of a job; of an array the namespace, the kind and the name."""
_SUCCEEDED: Final = FINISHED[0]
_SHOWN: Final = 3


class Part(msgspec.Struct):
    """A job that is waited for, by itself or as an element of an array; `title` is its name for people.

    Attributes:
        seen: the phase in which it was seen last.
        stopped: which limit ended it, if one did and it may be resumed.
        gone_at: when its object was found to be gone, in nanoseconds since the epoch; 0 while it is there.
    """

    title: str
    seen: str = ""
    stopped: str = ""
    gone_at: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether it ended well."""
        return self.seen == _SUCCEEDED

    @property
    def ended(self) -> bool:
        """Whether it ended, however that was."""
        return self.seen in FINISHED or bool(self.gone_at or self.stopped)

    @property
    def never(self) -> str:
        """Why it can never succeed; empty while it can."""
        if self.succeeded:
            return ""
        if self.seen in FINISHED:
            return f"{self.title} failed"
        if self.gone_at:
            return f"{self.title} was deleted before it succeeded"
        return f"{self.title} was ended: {self.stopped}" if self.stopped else ""


class Tally(NamedTuple):
    """How many parts of a target there are, and how they ended; `never` says of some why they cannot succeed."""

    total: int
    succeeded: int
    ended: int
    never: tuple[str, ...]


class Target(msgspec.Struct, eq=False):
    """What some jobs wait for: a job, or an array with its elements by UID. All that wait for it share it."""

    key: Key
    array: bool = False
    parts: dict[str, Part] = msgspec.field(default_factory=dict)
    waiters: dict[str, None] = msgspec.field(default_factory=dict)
    _tally: Tally | None = None

    def changed(self) -> None:
        """Something of it changed."""
        self._tally = None

    def tally(self, since: int) -> Tally:
        """How it is for a job that was created then: elements that were gone before do not count."""
        if any(part.gone_at and part.gone_at < since for part in self.parts.values()):
            return _counted([part for part in self.parts.values() if not part.gone_at or part.gone_at >= since])
        if self._tally is None:
            self._tally = _counted(list(self.parts.values()))
        return self._tally


def _counted(parts: list[Part]) -> Tally:
    never = tuple(why for part in parts if (why := part.never))
    return Tally(len(parts), sum(part.succeeded for part in parts), sum(part.ended for part in parts), never)


class Want(msgspec.Struct):
    """One name that a job waits for.

    Attributes:
        target: what the name means; None while there is nothing of that name.
        met_at: since when it need not be waited for; 0 while it must.
        ask_at: when the database is asked again for what has gone, after so many `questions`.
        asking: it has not answered.
    """

    dependency: Dependency
    target: Target | None = None
    met_at: int = 0
    ask_at: int = 0
    questions: int = 0
    asking: bool = False

    def met(self, since: int) -> bool:
        """Whether all of it ended as is wanted, for a job that was created then."""
        tally = self.target.tally(since) if self.target is not None else None
        if tally is None or not tally.total:
            return False
        return tally.total == (tally.ended if self.dependency.condition == ANY else tally.succeeded)

    def never(self, since: int) -> tuple[str, ...]:
        """Why it can never be as is wanted; empty while it can."""
        if self.dependency.condition == ANY or self.target is None:
            return ()
        return self.target.tally(since).never

    def waits(self, since: int) -> str:
        """What is waited for."""
        one = self.dependency
        what = f"{one.title} to end" if one.condition == ANY else f"{one.title} to succeed"
        tally = self.target.tally(since) if self.target is not None else None
        if self.target is None or tally is None or not tally.total:
            return f"{what}, of which there is none yet"
        if self.target.array:
            done = tally.ended if one.condition == ANY else tally.succeeded
            return f"{what}: {done} of its {tally.total} elements have"
        (part,) = self.target.parts.values()
        return f"{what}, which is {part.seen or 'Pending'}"

    @property
    def helps(self) -> str:
        """What would end the wait."""
        one = self.dependency
        if self.target is None:
            return f"{one.title} is submitted"
        return f"{one.title} ends" if one.condition == ANY else f"{one.title} succeeds"


class Waiter(msgspec.Struct):
    """A job that waits. Where it waits for itself in the end, `ring` has the jobs on the way, by titles, of which it is
    the one `at` that position: all of them share it. `created` is in nanoseconds since the epoch.
    """

    uid: str
    namespace: str
    created: int
    text: str
    wants: tuple[Want, ...]
    ring: tuple[str, ...] = ()
    at: int = 0
    checked: bool = False
    """Such a way was looked for since the last of what it waits for was found."""

    @property
    def circle(self) -> tuple[str, ...]:
        """The way back to itself, by titles."""
        return (*self.ring[self.at :], *self.ring[: self.at + 1])

    @property
    def open(self) -> list[Want]:
        """What is still waited for."""
        return [want for want in self.wants if not want.met_at]


def verdict(waiter: Waiter) -> Verdict:
    """What holds for a job that waits."""
    left, since = waiter.open, waiter.created
    if not left:
        return Verdict(waiter.text, met_at=max((want.met_at for want in waiter.wants), default=0))
    edit = f"its annotation {AFTER_ANNOTATION} is changed"
    never = [why for want in left for why in want.never(since)]
    if waiter.ring:
        way = " waits for ".join(waiter.circle)
        reason = Reason(Code.DEPENDENCY_NOT_MET, f"it can never start: it waits for itself ({way})", unblocks=(edit,))
        return Verdict(waiter.text, reason, never=True)
    if never:
        message = f"it can never start: it waits for others to succeed, and {_listed(never, '; ')}"
        cancel = "it is cancelled: t9ksched cancel KIND/NAME"
        return Verdict(waiter.text, Reason(Code.DEPENDENCY_NOT_MET, message, unblocks=(edit, cancel)), never=True)
    message = f"it waits for {_listed([want.waits(since) for want in left], '; for ')}"
    helps = tuple(want.helps for want in left[:_SHOWN])
    of = len(waiter.wants)
    needs, has = ({"jobs": of}, {"jobs": of - len(left)}) if of > 1 else ({}, {})
    return Verdict(waiter.text, Reason(Code.DEPENDENCY_NOT_MET, message, needs=needs, has=has, unblocks=helps))


def _listed(texts: list[str], between: str) -> str:
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return between.join(texts[:_SHOWN]) + more
