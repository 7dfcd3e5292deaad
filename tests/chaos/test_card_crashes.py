"""Which cards a pod holds, when the scheduler dies between writing that down, the binding and its answer."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from t9ksched.devcluster.faults.faults import Rule
from t9ksched.kube.resources import PODS
from tests.chaos.asked import Asked, Gang
from tests.chaos.audit import audit_at_rest
from tests.chaos.beginning import new_world
from tests.chaos.process_faults import SimulatedProcess, stepping
from tests.chaos.quiet import Scene
from tests.chaos.repeat import repeatable
from tests.chaos.unrecorded import a_successor_has_not_heard_of_the_last_bindings
from tests.chaos.world import World
from tests.unit.devcluster.virtualtime import VirtualLoop

SEED = 2
KEY = "scheduler.tensorstack.dev/gpu-index-container-main"


def played(scene: Callable[[World], Awaitable[None]]) -> World:
    """The scene on one node of four cards, where nothing else happens; nothing was seen that must not be."""

    async def play(folder: Path) -> World:
        asyncio.get_running_loop().set_task_factory(stepping)
        async with new_world(SEED, folder) as world:
            await world.node("n0", 4, "a")
            await world.queue("qa", None)
            world.begin()
            await asyncio.sleep(30)
            await scene(world)
            assert not world.checker.faults
            return world

    with (
        tempfile.TemporaryDirectory() as folder,
        repeatable(SEED),
        asyncio.Runner(loop_factory=VirtualLoop) as runner,
    ):
        return runner.run(play(Path(folder)))


def process(world: World) -> SimulatedProcess:
    assert world.scheduler is not None
    return world.scheduler


async def edit(world: World, pod: str, text: str | None) -> None:
    await world.port.patch(PODS, pod, "default", {"metadata": {"annotations": {KEY: text}}})


def running(world: World) -> dict[str, set[int]]:
    """The cards of each pod that runs, as it was bound."""
    given = world.checker.ledger.given
    return {
        pod["metadata"]["name"]: set(given[pod["metadata"]["uid"]].cards)
        for pod in world.checker.pods.values()
        if pod["status"].get("phase") == "Running"
    }


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_death_around_the_binding_gives_no_card_away(after: bool) -> None:
    """The row stands, and the pod is bound or not: the next scheduler binds what is left, on cards of its own."""

    async def scene(world: World) -> None:
        dying = process(world)
        dying.port.last, dying.port.after, dying.port.counted = 2, after, ("bind",)
        await world.submit(Gang("gang", "qa", 2, 1, None, 2))
        await dying.ended.wait()
        for pod in list(world.checker.pods.values()):
            if pod["status"].get("phase") == "Running":
                await edit(world, pod["metadata"]["name"], "3")
        await world.submit(Asked("other", "qa", 1, 2, None))
        await asyncio.sleep(200)
        cards = running(world)
        assert cards.keys() == {"gang-0", "gang-1", "other"}
        assert set().union(*cards.values()) == {0, 1, 2, 3}
        await audit_at_rest(world)

    played(scene)


def test_a_lost_answer_and_an_edited_annotation_leave_the_pod_on_its_cards() -> None:
    """Nothing is heard of pods meanwhile: reading the pod is all there is."""

    async def scene(world: World) -> None:
        world.faults.rules = [
            Rule("create", "pods/binding", drop="after", count=1),
            Rule("get", "pods", status=503, count=3),
        ]
        bound = asyncio.Event()

        def deaf(_: str) -> None:
            world.stalled["pods"] = asyncio.get_running_loop().time() + 30
            bound.set()

        world.checker.on_bound.append((world.checker.bindings + 1, deaf))
        await world.submit(Asked("first", "qa", 1, 2, None))
        await asyncio.wait_for(bound.wait(), 60)
        while not running(world):  # noqa: ASYNC110 (its node goes by the annotation until then)
            await asyncio.sleep(0.01)
        await edit(world, "first", "2,3")
        assert process(world).alive
        await asyncio.sleep(200)
        assert running(world) == {"first": {0, 1}}
        await world.submit(Asked("second", "qa", 1, 2, None))
        await asyncio.sleep(60)
        assert running(world) == {"first": {0, 1}, "second": {2, 3}}

    played(scene)


def test_a_gang_in_part_is_finished_without_the_database_and_its_cards_written_first() -> None:
    async def scene(world: World) -> None:
        await finish_without_the_database(world)
        assert sum(world.read_row(uid) is None for uid in uids(world)) == 1
        assert len(running(world)) == 2
        world.database_away = False
        await asyncio.sleep(60)
        assert all(world.read_row(uid) is not None for uid in uids(world))
        await edit(world, "gang-0", "3")
        await edit(world, "gang-1", "3")
        process(world).end()
        await world.submit(Asked("other", "qa", 1, 2, None))
        await asyncio.sleep(100)
        assert set().union(*running(world).values()) == {0, 1, 2, 3}

    played(scene)


def test_a_crash_before_the_database_is_back_keeps_those_cards_from_others() -> None:
    """Which card the second member holds is on no record: the node gives none until that member is gone."""

    async def scene(world: World) -> None:
        await finish_without_the_database(world)
        lost = [pod for pod in world.checker.pods.values() if world.read_row(pod["metadata"]["uid"]) is None]
        assert len(lost) == 1
        await edit(world, lost[0]["metadata"]["name"], "3")
        process(world).end()
        world.database_away = False
        await world.submit(Asked("other", "qa", 1, 2, None))
        await asyncio.sleep(100)
        assert running(world).keys() == {"gang-0", "gang-1"}
        await world.forget("gang")
        await asyncio.sleep(100)
        assert running(world).keys() == {"other"}

    played(scene)


def test_a_refused_member_whose_row_names_other_cards_waits_for_the_database() -> None:
    """The card of its first decision has gone to another; if it were bound to the next one without a new row, a start
    would take it for the holder of the first.
    """

    async def scene(world: World) -> None:
        def come(_: str) -> None:
            world.also(world.submit(Asked("other", "qa", 1, 1, None)))

        def away(_: str) -> None:
            world.database_away = True

        before = world.checker.bindings
        world.faults.rules = [Rule("create", "pods/binding", status=422, count=1)]
        world.checker.on_bound += [(before + 1, come), (before + 2, away)]
        await world.submit(Gang("gang", "qa", 2, 1, None, 2))
        await asyncio.sleep(10)
        assert len(running(world)) == 2
        assert "other" in running(world)
        world.database_away = False
        await asyncio.sleep(40)
        assert len(running(world)) == 3
        process(world).end()
        await world.submit(Asked("last", "qa", 1, 1, None))
        await asyncio.sleep(60)
        assert set().union(*running(world).values()) == {0, 1, 2, 3}
        await audit_at_rest(world)

    played(scene)


def test_a_standby_that_heard_nothing_of_the_last_bindings_gives_no_card_away() -> None:
    async def scene(world: World) -> None:
        await world.cordon("n0", True)
        for node in ("q0", "q1"):
            await world.node(node, 4, "a")
        quiet = Scene(world)
        await a_successor_has_not_heard_of_the_last_bindings(quiet)
        await asyncio.sleep(100)
        assert set().union(*running(world).values()) == {0, 1, 2, 3}
        assert running(world).keys() == {"first-0", "first-1", "second-0", "second-1"}
        assert [one.name for one in quiet.must_run] == ["second"]
        await audit_at_rest(world)

    played(scene)


def uids(world: World) -> list[str]:
    return [pod["metadata"]["uid"] for pod in world.checker.pods.values()]


async def finish_without_the_database(world: World) -> None:
    """A gang of two of which one is bound: the other was refused and made anew, and is decided without the database."""
    first = asyncio.Event()

    def away(_: str) -> None:
        world.database_away = True
        first.set()
        world.also(made_anew())

    async def made_anew() -> None:
        await asyncio.sleep(0.5)
        for pod in list(world.checker.pods.values()):
            if not pod["spec"].get("nodeName"):
                await world.delete(PODS, pod["metadata"]["name"])

    world.faults.rules = [Rule("create", "pods/binding", status=422, count=1)]
    world.checker.on_bound.append((world.checker.bindings + 1, away))
    await world.submit(Gang("gang", "qa", 2, 1, None, 2))
    await asyncio.wait_for(first.wait(), 60)
    await asyncio.sleep(10)
