"""What is known of the starts of waiting jobs, as they are shown, and how earlier forecasts turned out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from t9ksched.model.forecast import BASES, LEARNED, PLAN, UNKNOWN, Basis, Forecast, Outcome, Room, Tentative
from t9ksched.model.reservation import rounded_up
from t9ksched.model.run_times import RunTimes
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.reservations import ReservationBook

_SECOND: Final = 1_000_000_000


class ForecastBook:
    """Times are nanoseconds since the epoch. `first_moment` says from when on a group may start, at the earliest at the
    moment that it is given.

    Attributes:
        now: when the forecasts were last looked at; what is expected before that has not come yet.
        walks: whether starts beyond the planned ones are looked for.
        walked_at: the present that the latest walk began at; 0 before the first.
        times: how long jobs that have ended ran.
        waiting: how many jobs wait, by the basis of their forecasts.
        started: how many jobs started, by the basis of their first forecasts; `by_latest` and `in_interval` of these.
        error_seconds: the sum of the distances between starts and `latest`, by basis.
    """

    def __init__(self, reservations: ReservationBook, first_moment: Callable[[GangRecord, int], int]) -> None:
        self._reservations = reservations
        self._first_moment = first_moment
        self.now = 0
        self.walks = False
        self.walked_at = 0
        self._walked: Mapping[str, int] = {}
        self._learned: Mapping[str, tuple[int, int]] = {}
        self._rooms: Mapping[str, Room] = {}
        self.times = RunTimes()
        self.waiting: Counter[Basis] = Counter()
        self.started: Counter[Basis] = Counter()
        self.by_latest: Counter[Basis] = Counter()
        self.in_interval: Counter[Basis] = Counter()
        self.error_seconds = dict.fromkeys(BASES, 0.0)

    def walk_found(
        self,
        starts: Mapping[str, int],
        learned: Mapping[str, tuple[int, int]],
        at: int,
        rooms: Mapping[str, Room] = MappingProxyType({}),
    ) -> None:
        """A walk from the present `at` with the enforced ends found these starts of groups, by UID; walks with learned
        ends found others to start between two moments, at the later one in these rooms.
        """
        self._walked, self._learned, self._rooms, self.walked_at = starts, learned, rooms, at

    def forget_walks(self) -> None:
        """No group waits without a plan, or starts are not planned any more."""
        self._walked, self._learned, self._rooms = {}, {}, {}

    def of(self, gangs: Sequence[GangRecord], resolution: int) -> Forecast:
        """The forecast of a job with these groups that wait: that of the first one to start.

        A firm plan says `latest`, rounded up to `resolution`; where there is none, the latest walk does. Jobs that end
        early bring it forward at any time, so that `earliest` is the present. Where neither says anything, walks with
        learned ends do. `earliest` is rounded down, but never to a moment that is past or at which the job may not
        start yet. While scheduling is stopped nothing is known.
        """
        planned = self._reservations.planned
        nothing = not (planned or self._walked or self._learned)
        if nothing or self._reservations.stopped or not gangs:
            return Forecast(self.now)
        starts = [
            at
            for gang in gangs
            if (at := plan[0].since if (plan := planned.get(gang.uid)) and plan[0].firm else self._walked.get(gang.uid))
        ]
        basis: Basis = PLAN if starts else LEARNED
        early, late = 0, min(starts, default=0)
        if not starts:
            learned = [found for gang in gangs if (found := self._learned.get(gang.uid))]
            if not learned:
                return Forecast(self.now)
            early, late = (min(several) for several in zip(*learned, strict=True))
        step = resolution or _SECOND
        # Forecasts are told in whole seconds.
        first = rounded_up(min(self._first_moment(gang, self.now) for gang in gangs), _SECOND)
        return Forecast(self.now, max(early - early % step, first), rounded_up(max(late, first), step), basis)

    def tentative(self, gangs: Sequence[GangRecord], resolution: int) -> Tentative | None:
        """The start of a job with these groups that wait, if its forecast relies on learned ends; None where it does
        not, or where there is none. It holds no room.
        """
        if not self._learned or (found := self.of(gangs, resolution)).basis != LEARNED:
            return None
        first = min((gang.uid for gang in gangs if gang.uid in self._learned), key=lambda uid: self._learned[uid][1])
        return Tentative(found.latest, self._rooms.get(first, ()))

    @property
    def relying(self) -> Sequence[str]:
        """UIDs of the groups whose forecasts may rely on learned ends."""
        return list(self._learned)

    def judge(self, outcome: Outcome) -> None:
        """A job has started: count how its first forecast turned out."""
        basis = outcome.forecast.basis
        self.started[basis] += 1
        if basis != UNKNOWN:
            self.by_latest[basis] += outcome.by_latest
            self.in_interval[basis] += outcome.in_interval
            self.error_seconds[basis] += outcome.error / _SECOND
