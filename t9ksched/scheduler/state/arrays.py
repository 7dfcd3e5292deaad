"""Job arrays: of each no more elements run at once than it says.

An element that may not start yet is in no order and holds up no other job. Elements that changed are looked at when a
pass begins; those that it lets the engine see count as if they ran. Elements of another submitter do not count:
anybody may write the name of an array into a job.

The rest of an array, which may be thousands, is refused once. Of these as many are judged again as there is room for,
and those of which something changed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from t9ksched.model.names import ARRAY_ANNOTATION
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.dependencies import root_asks
from t9ksched.scheduler.state.records import GangRecord, job_of
from t9ksched.scheduler.state.refused_lines import RefusedLines
from t9ksched.workloads.arrays import Element, read_element

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_LOOKED_AT_ONCE: Final = 500
_Key = tuple[str, str]
"""Namespace and name of an array."""
_Rest = tuple[str, int]
"""Who submitted elements, and how many may run at once as they say."""


class Arrays:
    """The elements of arrays by UID of their jobs."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._changed: dict[str, None] = {}
        self.known: dict[str, _Key] = {}
        """The array of each element, by UID of its job."""
        self._elements: defaultdict[_Key, dict[str, None]] = defaultdict(dict)
        self._running: defaultdict[_Key, dict[str, None]] = defaultdict(dict)
        self._shown: dict[str, None] = {}
        self._counts: dict[tuple[_Key, str], Counter[str]] = {}
        self._refused: RefusedLines[_Key, _Rest] = RefusedLines()
        self._roomy: dict[_Key, None] = {}
        """Arrays that may have room for more elements than the pass has let through."""
        self._doubted: dict[GangRecord, None] = {}
        """Groups that were refused, and of which something changed."""

    def note(self, uid: str) -> None:
        """The job of that UID says that it is an element, or something changed of one that said so."""
        self._changed[uid] = None

    def touch(self, uid: str) -> None:
        """Something of a job changed; most are elements of nothing."""
        if uid in self.known:
            self._changed[uid] = None

    def begin(self) -> Iterator[None]:
        """A pass over what waits begins; in steps, of which the last takes in what changed meanwhile."""
        while len(self._changed) > _LOOKED_AT_ONCE:
            for uid in list(islice(self._changed, _LOOKED_AT_ONCE)):
                del self._changed[uid]
                self._look(uid)
            yield
        self._follow()
        # What came first in the last pass may be refused for another reason in this one.
        self._roomy |= {key: None for (key, _), count in self._counts.items() if count["first"]}
        self._shown.clear()
        self._counts.clear()

    def _follow(self) -> None:
        changed, self._changed = self._changed, {}
        for uid in changed:
            self._look(uid)

    def has(self, namespace: str, array: str) -> bool:
        """Whether elements of an array are there."""
        if self._changed:
            self._follow()
        return (namespace, array) in self._elements

    def elements(self, namespace: str, array: str) -> list[str]:
        """UIDs of the elements of an array that are there."""
        self._follow()
        return list(self._elements.get((namespace, array), ()))

    def refusal(self, gang: GangRecord) -> Reason | None:
        """Why the group may not start yet; None when it may, and then it counts as one that runs. Which others run and
        come first is not told, so that a refusal holds for all of a large array while they change.
        """
        text = gang.asked.array
        element = _read(text) if text else None
        if not isinstance(element, Element) or element.most is None:
            self._refused.discard(gang)
            return None
        uid, key = job_of(gang), (gang.namespace, element.array)
        if uid in self._shown or uid in self._running.get(key, ()):
            self._refused.discard(gang)
            return None
        whose = self._state.permissions.submitter(gang) or ""
        count = self._count(key, whose)
        if count.total() < element.most:
            count["first"] += 1
            self._shown[uid] = None
            self._refused.discard(gang)
            return None
        self._refused.add(gang, key, (whose, element.most), self._state._pending.get(gang, 0))
        allowed = f"at most {element.most} elements of its array {element.array!r} run at once"
        message = f"{allowed}, and as many run or come first"
        helps = ("another element of the array ends", f"its annotation {ARRAY_ANNOTATION} has a larger number behind %")
        return Reason(Code.ARRAY_LIMIT, message, {"elements": 1}, {"elements": 0}, unblocks=helps)

    def to_judge(self) -> list[GangRecord]:
        """Groups that were refused and are to be judged again, once in this pass everything else is: if they do not
        take the room there is, others may.
        """
        found, self._doubted = self._doubted, {}
        roomy, self._roomy = self._roomy, {}
        for key in roomy:
            for whose, most in self._refused.keys(key):
                room = most - self._count(key, whose).total()
                if taken := self._refused.take(key, (whose, most), room):
                    found |= dict.fromkeys(taken)
                    self._roomy[key] = None
        return list(found)

    def forget(self, gang: GangRecord) -> None:
        """The group waits no more."""
        self._refused.discard(gang)

    def fault(self, gang: GangRecord) -> str:
        """Why what the group's annotation says of an array is ignored; empty where nothing is."""
        found = _read(gang.asked.array) if gang.asked.array else None
        return found if isinstance(found, str) else ""

    def _count(self, key: _Key, whose: str) -> Counter[str]:
        """How many elements of the array, of that submitter, `run`, or come `first` in this pass."""
        count = self._counts.get((key, whose))
        if count is None:
            count = self._counts[key, whose] = Counter()
            for uid in self._running.get(key, ()):
                others = self._state.groups_of(uid)
                if others and (self._state.permissions.submitter(others[0]) or "") == whose:
                    count["run"] += 1
        return count

    def _look(self, uid: str) -> None:
        pod = self._state.pods.get(uid)
        if (one := pod.gang if pod is not None else self._state.gangs_by_uid.get(uid)) is not None:
            uid = job_of(one)
        gangs, job = self._state.groups_of(uid), self._state.jobs.get(uid)
        text = self._text(uid, gangs)
        element = _read(text) if text else None
        namespace = job.namespace if job is not None else gangs[0].namespace if gangs else ""
        key = (namespace, element.array) if isinstance(element, Element) and namespace else None
        before = self.known.get(uid)
        self._roomy |= {one: None for one in (before, key) if one is not None}
        self._doubted |= {gang: None for gang in gangs if gang in self._refused}
        if before is not None and element is None and job is None and any(map(_runs, gangs)):
            key = before  # its object is gone, and its pods still end
        if before is not None and before != key:
            del self.known[uid]
            _leave(self._elements, before, uid)
            _leave(self._running, before, uid)
        if key is None:
            return
        self.known[uid] = key
        self._elements[key][uid] = None
        if any(map(_runs, gangs)):
            self._running[key][uid] = None
        else:
            _leave(self._running, key, uid)

    def _text(self, uid: str, gangs: Sequence[GangRecord]) -> str:
        """What the job says of an array, by its object or by what stands for it."""
        job = self._state.jobs.get(uid)
        if job is not None:
            return job.asks.array
        return next((asks.array for gang in gangs if (asks := root_asks(self._state, gang)).array), "")


def _runs(gang: GangRecord) -> bool:
    """Whether it has places, or room is kept for members that it lost."""
    return gang.lost or any(pod.assumed or (pod.node and not pod.finished) for pod in gang.members.values())


def _leave(index: defaultdict[_Key, dict[str, None]], key: _Key, uid: str) -> None:
    found = index.get(key)
    if found is not None:
        found.pop(uid, None)
        if not found:
            del index[key]


@lru_cache(maxsize=4096)
def _read(text: str) -> Element | str:
    """What an annotation says; or why it is ignored."""
    try:
        return read_element(text)
    except ValueError as error:
        return f"the annotation {ARRAY_ANNOTATION} is ignored: {error}"
