"""What the annotations of one object ask of the scheduler, as they are written."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from t9ksched.model import names

if TYPE_CHECKING:
    from t9ksched.scheduler.state.records import GangRecord


class Asks(NamedTuple):
    """The texts of annotations; empty for those that an object does not have.

    Attributes:
        limit: `time-limit`.
        start: `start-after`.
        reservation: `reservation`.
        after: `after`, the jobs that it waits for.
        cancel: `after-cancel`, whether it is ended once these can never be as it wants them.
        array: `array`, what it is an element of.
    """

    limit: str = ""
    start: str = ""
    reservation: str = ""
    after: str = ""
    cancel: str = ""
    array: str = ""

    @property
    def about_starts(self) -> tuple[str, ...]:
        """Those that say when something may start."""
        return self[1:]


NOTHING_ASKED: Final = Asks()
_KEYS: Final = (
    names.TIME_LIMIT_ANNOTATION,
    names.START_AFTER_ANNOTATION,
    names.RESERVATION_ANNOTATION,
    names.AFTER_ANNOTATION,
    names.AFTER_CANCEL_ANNOTATION,
    names.ARRAY_ANNOTATION,
)
_ANY: Final = frozenset(_KEYS)


def asks_of(annotations: Mapping[str, str] | None) -> Asks:
    """What these annotations ask."""
    if not annotations or _ANY.isdisjoint(annotations):
        return NOTHING_ASKED
    texts = tuple(annotations.get(key, "") for key in _KEYS)
    return _shared(tuple(map(str, texts))) if any(texts) else NOTHING_ASKED


def asks_nothing(gang: "GangRecord") -> bool:
    """Whether it is a single pod or a PodGroup without an owner, and neither it nor a member of it has annotations that
    ask for something. Called for each new pod.
    """
    if gang.owner is not None or gang.asks is not NOTHING_ASKED:
        return False
    for pod in gang.members.values():  # noqa: SIM110 - a generator costs more than the one look
        if pod.asks is not NOTHING_ASKED:
            return False
    return True


@lru_cache(maxsize=4096)
def _shared(texts: tuple[str, ...]) -> Asks:
    """One value for all objects that ask alike: the pods of a gang, the jobs of a user."""
    return Asks(*texts)
