"""What is told of starts to come: never a moment at which the job cannot start, and never one that is past."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from t9ksched.model.forecast import LEARNED, PLAN, UNKNOWN, Forecast, Tentative
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.report.planned_shape import planned_start
from t9ksched.scheduler.state.objects import nanoseconds
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState
from tests.builders import pod_class
from tests.unit.scheduler.state.test_advance_book import known
from tests.unit.scheduler.state.test_start_times import LATER, SOON, asking, gang_of
from tests.unit.scheduler.state.test_state import NOW, pod, state_with

SECOND = 1_000_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
AT = NOW + SECOND // 2
"""Not a whole second."""


def waiting(start_after: str = "", **queue: Any) -> tuple[ClusterState, GangRecord]:
    """A state in which a pod waits that has been judged."""
    state = state_with()
    one = pod("a", queue="q")
    state.upsert_pod(asking(one, start_after) if start_after else one)
    state.queues["q"] = Queue("q", parse_queue_spec(queue))
    state.view(AT)
    state.forecasts.now = AT
    return state, gang_of(state)


def told(state: ClusterState, gang: GangRecord, resolution: int = MINUTE) -> Forecast:
    return state.forecasts.of([gang], resolution)


def test_a_plan_is_expected_from_now_on() -> None:
    state, gang = waiting()
    state.forecasts.walk_found({gang.uid: AT + HOUR}, {}, AT)
    for resolution in (SECOND, MINUTE, HOUR):
        found = told(state, gang, resolution)
        assert found.earliest == NOW + SECOND, "the next whole second, whatever the resolution is"
        assert AT + HOUR <= found.latest < AT + HOUR + resolution


def test_where_no_start_is_known_no_group_is_looked_at() -> None:
    """A list asks three times for each job that waits."""
    state, gang = waiting()
    unread: Any = [object()]  # a look at any of its fields fails
    assert state.forecasts.of(unread, MINUTE) == Forecast(AT)
    assert state.forecasts.tentative(unread, MINUTE) is None
    assert planned_start(unread, state) is None
    state.forecasts.walk_found({gang.uid: AT + HOUR}, {}, AT)
    assert told(state, gang).basis == PLAN
    assert state.forecasts.tentative(unread, MINUTE) is None, "none relies on learned ends"


def test_not_before_the_moment_that_it_asks_for() -> None:
    state, gang = waiting(SOON)
    state.forecasts.walk_found({gang.uid: nanoseconds(LATER)}, {}, AT)
    assert told(state, gang) == Forecast(AT, nanoseconds(SOON), nanoseconds(LATER), PLAN)
    state.forecasts.walk_found({}, {gang.uid: (AT, nanoseconds(LATER))}, AT)
    assert told(state, gang) == Forecast(AT, nanoseconds(SOON), nanoseconds(LATER), LEARNED)
    # The annotation was changed since the walk.
    state.forecasts.walk_found({gang.uid: AT}, {}, AT)
    assert told(state, gang) == Forecast(AT, nanoseconds(SOON), nanoseconds(SOON), PLAN)


def test_what_has_begun_may_go_on_at_once() -> None:
    state, gang = waiting(SOON, startWindows=[{"days": ["Sat"], "from": "01:00", "to": "02:00"}])
    gang.lost = True
    state.forecasts.walk_found({gang.uid: AT}, {}, AT)
    assert told(state, gang).earliest == NOW + SECOND


@pytest.mark.parametrize(
    ("start_after", "opens"), [("", "2023-11-17T20:00:00Z"), ("2023-11-24T21:30:00Z", "2023-11-24T21:30:00Z")]
)
def test_not_before_the_queue_starts_jobs(start_after: str, opens: str) -> None:
    state, gang = waiting(start_after, startWindows=[{"days": ["Fri"], "from": "20:00", "to": "06:00"}])
    end = nanoseconds("2023-11-25T05:00:00Z")
    state.forecasts.walk_found({gang.uid: end}, {}, AT)
    assert told(state, gang) == Forecast(AT, nanoseconds(opens), end, PLAN)


def test_not_before_the_reservation_that_it_names_begins() -> None:
    state, gang = waiting()
    end = nanoseconds("2030-01-09T00:00:00Z")
    state.forecasts.walk_found({gang.uid: end}, {}, AT)
    state.advance.take([known(every="daily")])
    gang.reservation = "r"
    assert told(state, gang).earliest == nanoseconds("2030-01-07T20:00:00Z")
    now = state.forecasts.now = nanoseconds("2030-01-07T21:00:00Z")
    assert told(state, gang).earliest == now
    gang.lasts = 2 * HOUR
    assert told(state, gang).earliest == nanoseconds("2030-01-08T20:00:00Z"), "the first that is long enough"
    gang.reservation = "unknown"
    assert told(state, gang).earliest == now


def test_a_start_that_relies_on_learned_ends_is_tentative_until_there_is_another() -> None:
    state, gang = waiting()
    assert state.forecasts.tentative([gang], MINUTE) is None
    room = (("n1", 2, 8), ("n2", 1, 4))
    state.forecasts.walk_found({}, {gang.uid: (AT + MINUTE, AT + HOUR)}, AT, {gang.uid: room})
    found = state.forecasts.tentative([gang], MINUTE)
    assert found == Tentative(told(state, gang).latest, room)
    assert found.nodes == ("n1", "n2")
    state.reservations.stopped = True
    assert state.forecasts.tentative([gang], MINUTE) is None
    state.reservations.stopped = False
    state.reservations.planned = {gang.uid: (start(gang, AT + HOUR),)}
    assert state.forecasts.tentative([gang], MINUTE) is None, "it is planned"
    state.reservations.planned = {}
    state.forecasts.walk_found({gang.uid: AT + HOUR}, {}, AT)
    assert state.forecasts.tentative([gang], MINUTE) is None, "the walk with enforced ends finds it"
    state.forecasts.walk_found({}, {gang.uid: (AT, AT)}, AT)
    assert state.forecasts.tentative([gang], MINUTE) == Tentative(told(state, gang).latest, ())
    state.forecasts.forget_walks()
    assert state.forecasts.tentative([gang], MINUTE) is None
    assert state.forecasts.relying == []


def start(gang: GangRecord, at: int) -> Reservation:
    return Reservation(gang.uid, "n", pod_class(), ReservationKind.PLANNED, since=at, firm=True)


MOMENTS = st.integers(AT - 2 * HOUR, AT + 30 * 24 * HOUR)


@given(
    now=st.integers(AT, AT + 3 * HOUR),
    first=MOMENTS,
    plan=st.none() | MOMENTS,
    walked=st.none() | MOMENTS,
    learned=st.none() | st.tuples(MOMENTS, MOMENTS),
    resolution=st.sampled_from([0, SECOND, MINUTE, HOUR, 7 * SECOND]),
)
@example(AT, AT + HOUR, None, AT, None, HOUR)
@example(AT, AT - HOUR, None, None, (AT - HOUR, AT - HOUR), HOUR)
def test_whatever_is_known_a_forecast_is_an_interval_to_come(
    now: int, first: int, plan: int | None, walked: int | None, learned: tuple[int, int] | None, resolution: int
) -> None:
    state, gang = waiting()
    state.forecasts.now = now
    if plan is not None:
        state.reservations.planned = {gang.uid: (start(gang, plan),)}
    learns = {gang.uid: (min(learned), max(learned))} if learned is not None else {}
    state.forecasts.walk_found({gang.uid: walked} if walked is not None else {}, learns, now)
    state.forecasts._first_moment = lambda gang, now: max(first, now)
    found = told(state, gang, resolution)
    if plan is None and walked is None and learned is None:
        assert found == Forecast(now, basis=UNKNOWN)
        return
    assert max(now, first) <= found.earliest <= found.latest
    assert found.earliest % SECOND == found.latest % (resolution or SECOND) == 0
    most = plan or walked or max(learned or (0,))
    assert found.latest >= most
    assert found.latest < max(most, now, first) + (resolution or SECOND) + SECOND
