"""What users are told when a planned start moves: whether, how often, and the cause."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.report.plan_causes import Causes, Seen
from t9ksched.scheduler.report.plan_moves import SETTLE_NS, TELL_NS, PlanMoves
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.reservations import Move
from t9ksched.store.job_overrides import JobControl
from tests.unit.scheduler.planning import MINUTE, SECOND, START_TIMEOUT, cycle, limited, policy_of, runs
from tests.unit.scheduler.state.test_state import NOW, group, node, pod, state_with

AHEAD = START_TIMEOUT * SECOND + 10 * SECOND


class Told:
    """In place of the recorder."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def ended(self, gang: Any, event: str, text: str, now: int, *, notice: str) -> None:
        assert (event, notice) == ("plan-moved", "PlanMoved")
        self.texts.append(f"{gang.name}: {text}")


class Scene:
    """Node n1 has `long` for ten hours, n2 `short` for two; `large` waits for all of n2, as `short` ends first."""

    def __init__(self) -> None:
        self.now = NOW
        self.state = state_with(node("n1", 4), node("n2", 4), queues={"q": {}, "high": {"priority": 50}})
        self.told = Told()
        self.planning: dict[str, Any] = {}
        """What the policy says of planning from now on."""
        self.moves = self.follower()
        for name, limit, at in (("long", "10h", "n1"), ("short", "2h", "n2")):
            self.state.upsert_pod(limited(name, 4, limit, nodeSelector={"kubernetes.io/hostname": at}))
        self.cycle()
        self.state.upsert_pod(limited("large", 4, "1h"))
        self.cycle()

    def follower(self) -> PlanMoves:
        return PlanMoves(self.state, self.told)  # type: ignore[arg-type]

    def cycle(self, seconds: float = 1, **planning: Any) -> list[str]:
        """A cycle so much later, and the one that the loop makes when there is something to tell; what was told."""
        told = self.moved(seconds, **planning)
        if self.moves.due is not None and self.moves.due <= self.now + SETTLE_NS:
            told += self.moved((self.moves.due - self.now) / SECOND, **planning)
        return told

    def moved(self, seconds: float = 1, **planning: Any) -> list[str]:
        """A cycle so much later; what was told at once."""
        self.now += int(seconds * SECOND)
        self.planning |= planning
        view, plan, moves = cycle(self.state, self.now, **self.planning)
        before = len(self.told.texts)
        resolution = self.planning.get("resolution", 60) * SECOND
        self.moves.follow(moves, view, plan, policy_of(**self.planning), resolution, self.now)
        return self.told.texts[before:]

    def planned(self, name: str = "large") -> int | None:
        """Minutes from the beginning until the planned start."""
        found = self.state.reservations.planned.get(f"pod-{name}")
        return None if found is None else round((found[0].since - NOW) / MINUTE)

    def later(self, name: str, seconds: int) -> None:
        """The running job is bound so much later than was thought."""
        gang = self.state.gangs_by_uid[f"pod-{name}"]
        gang.first_bound += seconds * SECOND
        self.state.feed.gangs.note(gang)

    def limit(self, name: str, spec: dict[str, Any]) -> None:
        self.state.set_queues([Queue("q", parse_queue_spec(spec)), Queue("high", parse_queue_spec({"priority": 50}))])


@pytest.fixture
def scene() -> Scene:
    return Scene()


def text(before: int, after: int | None, why: str) -> str:
    """What is told of a move between these, in minutes from the beginning."""

    def shown(minutes: int) -> str:
        return str(timestamp(-(-(NOW + minutes * MINUTE) // MINUTE) * MINUTE))

    if after is None:
        return f"large: it is no longer planned to start at {shown(before)}: {why}"
    return f"large: its planned start moved from {shown(before)} to {shown(after)}: {why}"


def test_a_new_plan_and_one_that_stays_are_no_news(scene: Scene) -> None:
    assert scene.planned() == 135
    assert scene.cycle() == scene.cycle(1000) == []


def lost(scene: Scene) -> None:
    scene.state.remove_node("n2")


def closed(scene: Scene) -> None:
    scene.state.upsert_node(node("n2", 4, unschedulable=True))


def not_ready(scene: Scene) -> None:
    made = node("n2", 4)
    made.status.conditions[0].status = "False"
    scene.state.upsert_node(made)


def outranked(scene: Scene) -> None:
    scene.state.upsert_pod(limited("urgent", 4, "1h", queue="high"))


def queue_changed(scene: Scene) -> None:
    scene.limit("q", {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "n1"}}})


def longer(scene: Scene) -> None:
    scene.later("short", 1200)


def foreign(scene: Scene) -> None:
    scene.state.remove_pod("pod-short")
    scene.state.upsert_pod(pod("other", 4, node="n2", ours=False, phase="Running"))


def limit_lifted(scene: Scene) -> None:
    scene.state.direct({"pod-short": JobControl("pod-short", time_limit_seconds=0, at=datetime.now(UTC))})


def card_cordoned(scene: Scene) -> None:
    scene.state.node_events.cordon_cards({"n2": {3: "fan"}})


def smaller(scene: Scene) -> None:
    scene.state.upsert_node(node("n2", 3))


def longer_start(scene: Scene) -> None:
    scene.planning["start_timeout"] = START_TIMEOUT + 1200


def held(scene: Scene) -> None:
    scene.state.direct({"pod-large": JobControl("pod-large", held=True, at=datetime.now(UTC))})


def strict(scene: Scene) -> None:
    scene.limit("q", {"ordering": "Strict"})
    scene.cycle()
    scene.cycle()
    scene.state.upsert_group(group("crew", 1, priority=9))
    scene.state.upsert_pod(limited("crew-0", 4, "2h", group="crew"))


LATER: dict[str, tuple[Callable[[Scene], None], str]] = {
    "a lost node": (lost, "node n2 was lost or closed"),
    "a closed node": (closed, "node n2 was lost or closed"),
    "a node that is not ready": (not_ready, "node n2 was lost or closed"),
    "a queue of larger priority": (outranked, "queue 'high' has a larger priority (50 against 0)"),
    "a changed queue": (queue_changed, "queue 'q' was changed"),
    "a job that runs longer": (longer, "a running job may run longer than before"),
    "a job whose limit is lifted": (limit_lifted, "a running job may run longer than before"),
    "a node with a card less": (smaller, "node n2 has less than before"),
    "a cordoned card": (card_cordoned, "node n2 has less than before"),
    "another startTimeout": (longer_start, "the scheduling policy was changed"),
    "another scheduler's pod": (foreign, "room that it needs is used otherwise: by pods of other schedulers"),
}


@pytest.mark.parametrize("case", LATER)
def test_a_later_start_is_told_with_its_cause(scene: Scene, case: str) -> None:
    act, why = LATER[case]
    act(scene)
    (told,) = scene.cycle()
    moved = scene.planned()
    assert moved is not None
    assert moved > 135
    assert told.startswith(text(135, moved, why))


@pytest.mark.parametrize(
    ("act", "why"),
    [(strict, "queue 'q' keeps strict order, and a job before it takes the room"), (held, "it was held")],
    ids=["a job before it in strict order", "hold"],
)
def test_a_plan_that_is_given_up_is_told_with_its_cause(scene: Scene, act: Callable[[Scene], None], why: str) -> None:
    act(scene)
    (told,) = scene.cycle()
    assert scene.planned() is None
    assert told == text(135, None, why)


def test_an_earlier_start_by_another_policy_is_told_so(scene: Scene) -> None:
    assert scene.cycle(start_timeout=600) == [text(135, 130, "the scheduling policy was changed")]


def test_a_plan_that_the_policy_allows_no_longer_is_told_so(scene: Scene) -> None:
    scene.state.upsert_pod(limited("next", 4, "1h"))
    scene.cycle()
    (told,) = scene.cycle(mode="EASY")
    assert scene.planned() == 135
    assert scene.planned("next") is None
    assert told.startswith("next: it is no longer planned to start at ")
    assert told.endswith(": the scheduling policy was changed")


def test_a_plan_that_was_held_is_told_why_it_moved_while_another_took_its_turn(scene: Scene) -> None:
    scene.state.upsert_pod(limited("next", 4, "1h"))
    scene.cycle()
    held(scene)
    assert scene.moved() == []
    scene.state.direct({"pod-large": JobControl("pod-large", at=datetime.now(UTC))})
    told = [one for one in scene.cycle() if one.startswith("large: ")]
    assert [one.rpartition(": ")[2] for one in told] == ["it was held"]


def test_what_moved_another_plan_to_the_room_of_this_one_is_the_cause(scene: Scene) -> None:
    """`large` loses n2, and goes before `next`, which was to start later on n3: that is told that n2 was lost."""
    scene.state.remove_pod("pod-large")
    scene.state.upsert_node(node("n3", 4))
    scene.state.upsert_pod(limited("mid", 4, "3h", nodeSelector={"kubernetes.io/hostname": "n3"}))
    scene.cycle()
    for name, limit in (("large", "1h"), ("next", "20h")):
        scene.state.upsert_pod(limited(name, 4, limit))
        scene.cycle()
    assert (scene.planned(), scene.planned("next")) == (135, 195)
    scene.state.remove_node("n2")
    told = scene.cycle()
    assert scene.planned() == 195
    assert sorted(one.split(": ")[0] for one in told) == ["large", "next"]
    assert all(one.endswith("node n2 was lost or closed") for one in told)


def test_while_plans_follow_one_another_the_cause_stays(scene: Scene) -> None:
    policy = policy_of()
    view, plan, _ = cycle(scene.state, scene.now)
    (before,) = scene.state.reservations.planned.values()
    later = tuple(replace(one, since=one.since + MINUTE) for one in before)
    causes = [
        Causes(Seen.of(view, policy, why), view, plan, policy, lambda uid: False, scene.now) for why in ("", "a stop")
    ]
    assert [one.of(Move(before, later)).partition(":")[0] for one in causes] == [
        "room that it needs is used otherwise",
        "a stop",
    ]


def test_victims_that_leave_too_late(scene: Scene) -> None:
    """Room on n2 is promised to `urgent`, which would have ended in time had its victims left when they were to."""
    scene.state.upsert_pod(limited("urgent", 4, "30m"))
    scene.state.settle()
    gang = scene.state.gangs_by_uid["pod-urgent"]
    (of,) = {pod.pod_class for pod in gang.members.values()}
    assert of is not None
    victims = Reservation(gang.uid, "n2", of, ReservationKind.VICTIMS, since=scene.now)
    scene.state.reservations.promise([victims], NOW + 91 * MINUTE)
    assert scene.cycle(resolution=1) == []
    assert scene.planned() == 135
    (told,) = scene.cycle(90.5 * 60)
    assert told.startswith("large: its planned start moved from ")
    assert told.endswith("evicted pods have not left in time")


def test_pods_that_outlive_their_group(scene: Scene) -> None:
    scene.state.remove_pod("pod-short")
    scene.state.upsert_group(group("crew", 2, priority=1))
    for at in range(2):
        selector = {"kubernetes.io/hostname": "n2"}
        scene.state.upsert_pod(limited(f"crew-{at}", 2, "3h", group="crew", nodeSelector=selector))
    scene.state.remove_pod("pod-large")
    scene.cycle()
    scene.state.upsert_pod(limited("large", 4, "1h"))
    scene.cycle()
    assert scene.planned() == 195
    scene.state.remove_group(group("crew", 2))
    assert scene.cycle(1) == scene.cycle(30) == []
    assert scene.planned() == 195
    (told,) = scene.cycle(60)
    assert "a PodGroup was deleted, and its pods run on without a time limit" in told


def test_room_that_is_kept_elsewhere_for_a_lost_member(scene: Scene) -> None:
    """A member loses its node, and the room that another job leaves is kept for it."""
    scene.state.remove_pod("pod-large")
    scene.state.upsert_node(node("n3", 4))
    scene.state.upsert_group(group("crew", 1))
    crew = limited("crew-0", 4, "20h", group="crew")
    scene.state.upsert_pod(crew)
    scene.cycle()
    runs(scene.state, scene.now, crew)
    scene.state.upsert_pod(limited("large", 4, "1h"))
    scene.cycle()
    assert scene.planned() == 135
    scene.state.remove_node("n3")
    scene.state.remove_pod("pod-crew-0")
    assert scene.cycle() == []
    assert scene.planned() == 135
    scene.state.remove_pod("pod-short")
    (told,) = scene.cycle()
    assert "room is kept for members that a running job lost" in told


def test_a_job_that_does_not_end_in_time(scene: Scene) -> None:
    (told,) = scene.cycle(135.2 * 60)
    assert "a job that was to end has not ended yet" in told


def test_a_gang_that_may_not_start(scene: Scene) -> None:
    scene.limit("q", {"closed": True})
    scene.state.set_queues([Queue("q", parse_queue_spec({"quota": {"requests": {"nvidia.com/gpu": "3"}}}))])
    (told,) = scene.cycle()
    assert scene.planned() is None
    assert told == text(135, None, "queue 'q' was changed")


@pytest.mark.parametrize(("sooner", "told"), [(4, False), (5, True), (60, True)])
def test_an_earlier_start_is_told_from_five_minutes_on(scene: Scene, sooner: int, told: bool) -> None:
    scene.later("short", -60 * sooner)
    found = scene.cycle()
    assert scene.planned() == 135 - sooner
    assert found == ([text(135, 135 - sooner, "room is expected sooner than before")] if told else [])


@pytest.mark.parametrize(("seconds", "told"), [(60, False), (61, True)])
def test_a_later_start_is_told_from_more_than_a_resolution_on(scene: Scene, seconds: int, told: bool) -> None:
    scene.later("short", seconds)
    assert bool(scene.cycle()) is told


def test_small_moves_add_up(scene: Scene) -> None:
    scene.later("short", 40)
    assert scene.cycle() == []
    scene.later("short", 40)
    (told,) = scene.cycle()
    assert told == text(135, 136, "what runs and what is planned changed")


def test_a_job_is_told_once_in_five_minutes_and_then_all_of_it(scene: Scene) -> None:
    scene.later("short", 600)
    assert len(scene.cycle()) == 1
    scene.later("short", 600)
    assert scene.cycle() == scene.cycle(290) == []
    assert scene.cycle(10) == [text(145, 155, "a running job may run longer than before")]
    scene.later("short", -600)
    assert scene.cycle() == []
    scene.later("short", 600)
    assert scene.cycle() == []
    assert scene.cycle(300) == [], "it is where it was told to be"


def test_the_cause_is_that_of_the_direction_in_which_it_moved_in_all(scene: Scene) -> None:
    scene.later("short", 600)
    scene.cycle()
    scene.later("short", 1800)
    scene.cycle()
    scene.later("short", -600)
    assert scene.cycle() == []
    assert scene.cycle(300) == [text(145, 165, "a running job may run longer than before")]


def test_what_an_earlier_scheduler_planned_was_told(scene: Scene) -> None:
    scene.moves = scene.follower()
    scene.later("short", 600)
    assert scene.cycle() == [text(135, 145, "what runs changed while no scheduler looked")]


def test_a_plan_that_is_gone_and_comes_again_is_not_told_twice_in_five_minutes(scene: Scene) -> None:
    quota = {"quota": {"requests": {"nvidia.com/gpu": "3"}}}
    scene.limit("q", quota)
    assert len(scene.cycle()) == 1
    scene.limit("q", {})
    assert scene.cycle() == []
    assert scene.planned() == 135
    scene.limit("q", quota)
    assert scene.cycle() == scene.cycle(200) == []
    assert scene.cycle(100) == [text(135, None, "queue 'q' was changed")]
    assert scene.moves._told
    scene.cycle(301)
    assert not scene.moves._told, "nothing is kept of a job that is not planned and was not told of lately"


def test_one_that_starts_or_goes_is_not_told(scene: Scene) -> None:
    scene.state.remove_pod("pod-short")
    assert scene.cycle() == []
    assert not scene.moves._told
    scene.state.upsert_pod(limited("next", 4, "1h"))
    scene.cycle()
    assert set(scene.moves._told) == {"pod-next"}
    scene.state.remove_pod("pod-next")
    assert scene.cycle() == []
    assert not scene.moves._told


def test_a_move_that_is_taken_back_within_seconds_is_none(scene: Scene) -> None:
    scene.later("short", 600)
    assert scene.moved() == []
    assert scene.moves.due == scene.now + SETTLE_NS
    scene.later("short", -600)
    assert scene.moved(4) == scene.moved(4) == []
    assert scene.moves.due is None, "no cycle is needed for it"
    scene.later("short", 600)
    assert scene.moved() == [], "the seconds are counted anew"


def test_many_ends_are_told_once(scene: Scene) -> None:
    for _ in range(4):
        scene.later("short", -600)
        assert scene.moved() == []
    assert scene.moved() == []
    assert scene.moved() == [text(135, 95, "room is expected sooner than before")]
    scene.later("short", -600)
    assert scene.moved() == []
    assert scene.moves.due == scene.now - SECOND + TELL_NS, "told by itself when five minutes are over"
    assert scene.cycle(299) == [text(95, 85, "room is expected sooner than before")]


STOP = "scheduling is stopped by root (no job is started): power"


def stopped(scene: Scene, seconds: float) -> list[str]:
    """The loop stands still, and looks again so much later."""
    scene.now += int(seconds * SECOND)
    before = len(scene.told.texts)
    scene.moves.stand_still(STOP, MINUTE, scene.now)
    return scene.told.texts[before:]


def test_while_scheduling_is_stopped_no_start_is_planned(scene: Scene) -> None:
    assert stopped(scene, 1) == []
    assert scene.moves.due == scene.now + SETTLE_NS
    assert stopped(scene, 5) == [text(135, None, STOP)]
    assert stopped(scene, 600) == stopped(scene, 1) == stopped(scene, 600) == []
    assert scene.moves.due is None
    scene.later("short", 600)
    assert scene.cycle() == [], "a new plan has not moved"


def test_a_short_stop_is_told_as_the_cause_of_what_moved(scene: Scene) -> None:
    assert stopped(scene, 1) == []
    assert scene.cycle() == [], "it is where it was"
    stopped(scene, 1)
    scene.later("short", 600)
    assert scene.cycle() == [text(135, 145, "scheduling was stopped")]
