"""Scenes on an empty cluster where nothing else happens: what one thing that goes wrong needs to be mended.

In the noise of a history another object's event wakes a gang that should have been woken by its own, and a fault that
is mended twice hides what was broken. Here one gang comes, one thing goes wrong with it, and after a few minutes of
silence the cluster must be as it should. Each seed has its scene in turn, so that every promise is tried by many seeds.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random

from t9ksched.devcluster.faults.faults import Rule
from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import PODS
from tests.chaos import rivals, unrecorded
from tests.chaos.asked import Asked, Gang, pod
from tests.chaos.audit import audit_at_rest
from tests.chaos.invariant_checker import LAG, MADE
from tests.chaos.rush import planned_starts_are_kept
from tests.chaos.world import World

SILENCE = 260.0
"""Seconds in which it must be mended."""


async def quiet_scene(world: World, seed: int) -> None:
    """Play the seed's scene and audit the cluster again."""
    for name in list(world.asked):
        await world.forget(name)
    for found in list(world.checker.pods.values()):
        await world.delete(PODS, found["metadata"]["name"])
    for node in sorted(world.checker.nodes):
        await world.cordon(node, True)
    for name in ("q0", "q1"):
        await world.node(name, 4, "a")
    world.closed.clear()
    await world.queue("qa", None, priority=10)
    await asyncio.sleep(150)  # what was avoided or held is over
    scene = Scene(world)
    play = SCENES[seed % len(SCENES)] if world.policy.planning is None else planned_starts_are_kept
    world.note(f"quiet scene: {play.__name__.replace('_', ' ')}")
    await play(scene)
    await asyncio.sleep(SILENCE)
    world.faults.clear()
    for gang in scene.must_run:
        if (running := scene.running(gang)) != gang.size:
            world.checker.say(f"after {SILENCE:g} quiet seconds {running} of {gang.size} pods of {gang.name} run")
    await audit_at_rest(world)


class Scene:
    """One scene: two nodes of four cards, queue qa without quota. `must_run` runs whole at the end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.dice = Random(world.random.random())
        self.count = self.dice.randint(1, 3)
        self.must_run: list[Asked] = []

    async def gang(self, size: int, cards: int, name: str = "quiet", volumes: str = "", runs: bool = True) -> Gang:
        """A gang comes that must run, or need not."""
        made = Gang(name, "qa", size, cards, None, size, volumes)
        if runs:
            self.must_run.append(made)
        await self.world.submit(made)
        return made

    def running(self, made: Asked) -> int:
        """How many pods of it run."""
        return sum(found["status"].get("phase") == "Running" for found in made.pods(self.world))

    def rule(self, **rule: object) -> None:
        """What happens to bindings."""
        self.world.faults.rules = [Rule("create", "pods/binding", **rule)]  # type: ignore[arg-type]

    def dies_after(self, bindings: int) -> asyncio.Event:
        """The scheduler dies after so many of three bindings, the others being on their way; set when it is dead."""
        process = self.world.scheduler
        assert process is not None
        if bindings < 3:
            self.rule(count=3 - bindings, latency=10.0)
        self.world.checker.on_bound.append((self.world.checker.bindings + bindings, lambda _: process.end()))
        return process.ended

    async def preempting(self) -> None:
        """From now on gangs of queue qa may take room from those of queue qb."""
        self.world.policy = Policy(("allocate", "preempt"))
        if self.world.service is not None:
            self.world.service.loop.policy = self.world.policy
        await self.world.queue("qb", None, zone="a", priority=0)
        await asyncio.sleep(30)

    # Answers

    async def bindings_are_refused(self) -> None:
        """Soon after, not when the gang was first evicted: a refused gang is woken by its own timer."""
        self.rule(count=6, status=self.dice.choice((404, 409, 422)))
        gang = await self.gang(3, 1)
        await asyncio.sleep(15)
        if any(found["status"].get("phase") != "Running" for found in gang.pods(self.world)):
            self.world.checker.say("each binding was refused twice, and 15 s later not all pods run")

    async def answers_are_lost(self) -> None:
        self.rule(count=self.count, drop=self.dice.choice(("before", "after")))
        await self.gang(3, 1, volumes=self.dice.choice(("", MADE)))

    async def the_server_is_busy(self) -> None:
        self.rule(count=self.count, status=self.dice.choice((429, 500, 503)))
        await self.gang(3, 1)

    async def claims_cannot_be_written(self) -> None:
        status = self.dice.choice((403, 500))
        self.world.faults.rules = [Rule("patch", "persistentvolumeclaims", count=self.count, status=status)]
        await self.gang(3, 1, volumes=MADE)

    async def an_answer_is_lost_while_another_waits_for_the_room(self) -> None:
        """Both know of each other before nothing more is heard of pods."""
        self.rule(count=2, drop="after")
        loop = asyncio.get_running_loop()

        def deaf(_: str) -> None:
            self.world.stalled["pods"] = loop.time() + 30

        self.world.checker.on_bound.append((self.world.checker.bindings + 1, deaf))
        await self.gang(2, 4, name="first")
        await self.gang(2, 4, name="second", runs=False)

    async def the_place_of_a_refused_member_is_wanted_by_another(self) -> None:
        self.rule(count=1, status=409)
        await self.gang(2, 4, name="first")
        await self.world.submit(Asked("second", "qa", 1, 4, None))

    # Ends

    async def the_scheduler_dies_anywhere(self) -> None:
        process = self.world.scheduler
        if process is not None:
            process.steps_left = int(2 ** self.dice.uniform(0, 9))
        await self.gang(3, 1, volumes=self.dice.choice(("", MADE)))

    async def the_scheduler_dies_half_way(self) -> None:
        self.dies_after(self.dice.randint(1, 2))
        await self.gang(3, 1)

    async def the_scheduler_dies_after_the_last_binding(self) -> None:
        """And what it agreed to has not reached the database."""
        dead = self.dies_after(3)
        self.world.database_away = True
        await self.gang(3, 1)
        await _within(60, dead.wait())
        self.world.database_away = False

    async def the_scheduler_dies_half_way_and_others_take_the_room(self) -> None:
        """The rest can never follow: what is bound must go."""
        dead = self.dies_after(2)
        await self.gang(3, 1, runs=False)
        await _within(60, dead.wait())
        for number in range(6):
            await self.world.create(PODS, pod(f"thief{number}", 1, None, "default-scheduler"))

    async def what_is_taken_back_is_made_anew_meanwhile(self) -> None:
        """Evictions are slow, and pods of the same names are there when they arrive."""
        await self.the_scheduler_dies_half_way_and_others_take_the_room()
        self.world.faults.rules = [Rule("delete", "pods", latency=8.0)]
        known = set(self.world.checker.to_go)
        for _ in range(200):
            await asyncio.sleep(0.5)
            if self.world.checker.to_go - known:
                break
        for uid in sorted(self.world.checker.to_go - known):
            named = {found["metadata"]["uid"]: found["metadata"]["name"] for found in self.world.checker.pods.values()}
            if uid in named:
                await self.world.delete(PODS, named[uid])

    async def a_gang_is_made_anew_while_its_bindings_are_slow(self) -> None:
        self.rule(count=3, latency=8.0)
        await self.gang(3, 1, runs=False)
        await asyncio.sleep(1)
        await self.world.forget("quiet")
        await self.gang(3, 4, runs=False)  # which does not fit

    async def a_new_scheduler_finds_cards_in_use(self) -> None:
        await self.gang(2, 1, name="first")
        await asyncio.sleep(20)
        if self.world.scheduler is not None:
            self.world.scheduler.end()
        await self.gang(2, 1, name="second")

    async def the_scheduler_stands_still(self) -> None:
        async def stop(_: str) -> None:
            process = self.world.scheduler
            if process is not None:
                process.pause()
                await asyncio.sleep(30)
                process.resume()

        self.world.after_bindings(self.count, stop)
        await self.gang(3, 1)

    # Promises and agreements

    async def the_scheduler_dies_while_victims_leave(self) -> None:
        """Half of the room is free long before the other half: who was evicted, and others, must not take it."""
        world, checker = self.world, self.world.checker
        await self.preempting()
        for name, stops in (("quick", 3.0), ("slow", 25.0)):
            await world.submit(Gang(name, "qb", 1, 4, None, 1, stops=stops))
        await asyncio.sleep(30)
        process, before = world.scheduler, len(checker.to_go)
        assert process is not None
        process.port.last, process.port.after, process.port.counted = 2, True, ("delete",)
        await self.gang(2, 4)
        if not await _within(60, process.ended.wait()):
            checker.say("no victim was evicted for a group of a more important queue")
            return
        world.database_away = away = self.dice.random() < 0.5
        await world.submit(Asked("third", "qb", 1, 4, None))
        if away:
            await asyncio.sleep(12)
            world.database_away = False
        await asyncio.sleep(60)
        if len(checker.to_go) - before > 2:
            checker.say(f"{len(checker.to_go) - before} pods were evicted where two had to go")

    async def a_promise_cannot_be_written(self) -> None:
        """No victim is evicted until it is: the connection breaks at a statement of it, or the database is away."""
        world, checker = self.world, self.world.checker
        await self.preempting()
        for name in ("low0", "low1"):
            await world.submit(Gang(name, "qb", 1, 4, None, 1, stops=10.0))
        await asyncio.sleep(30)
        before = len(checker.to_go)
        await self.gang(2, 4)
        world.database_away = True
        await asyncio.sleep(20)
        if len(checker.to_go) > before:
            checker.say("a victim was evicted for a promise that was not written")
        world.database_away = False

    async def new_work_waits_while_the_database_is_away(self) -> None:
        """What was accepted before goes on, and what is new goes on by itself when the database answers."""
        world, checker = self.world, self.world.checker
        await world.submit(Gang("first", "qa", 2, 3, None, 2))
        await asyncio.sleep(20)
        known = await self.gang(2, 2, name="known")
        await asyncio.sleep(20)
        world.database_away = True
        await asyncio.sleep(40)  # parts that use it now and then have noticed
        fresh = await self.gang(2, 1, name="fresh")
        await asyncio.sleep(5)
        await world.forget("first")
        await asyncio.sleep(25)
        if any(found["spec"].get("nodeName") for found in fresh.pods(world)):
            checker.say("a new group was started while the database was away")
        if any(found["spec"].get("nodeName") for found in known.pods(world)):
            checker.say("cards of nodes that honour indices were given while they could not be put on record")
        group = checker.groups.get("default/fresh", {})
        conditions = (group.get("status") or {}).get("conditions") or ()
        if "DatabaseAway" not in [one.get("reason") for one in conditions]:
            checker.say("no reason says that the database is why a new group waits")
        world.database_away = False
        await asyncio.sleep(20)
        if any(found["status"].get("phase") != "Running" for found in fresh.pods(world)):
            checker.say("the database answers, and 20 s later a new group does not run")

    # Nodes

    async def labels_change(self) -> None:
        """Of a pod that runs, near which another would go; and of pods that wait because of theirs."""
        world = self.world
        await world.submit(Asked("there", "qa", 1, 1, None, app="plain"))
        await asyncio.sleep(20)
        await world.label("there", "crowd")
        await asyncio.sleep(LAG + 10)
        await world.submit(Asked("lonely", "qa", 1, 1, None, shuns="crowd"))
        await world.submit(Asked("late", "qa", 1, 4, None, app="crowd"))
        self.must_run.append(world.asked["lonely"])
        await asyncio.sleep(20)
        await world.forget("there")
        await world.label("late", "plain")
        self.must_run.append(world.asked["late"])

    async def a_node_admits_no_pod_for_ever(self) -> None:
        """The one that the first binding goes to."""
        self.world.checker.on_bound.append((self.world.checker.bindings + 1, self.world.faults.broken.add))
        await self.gang(3, 1)


async def _within(seconds: float, work: Awaitable[object]) -> bool:
    """Whether it is done in that time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work
            return True
    return False


SCENES: tuple[Callable[[Scene], Awaitable[None]], ...] = (
    Scene.bindings_are_refused,
    Scene.the_scheduler_dies_anywhere,
    Scene.an_answer_is_lost_while_another_waits_for_the_room,
    Scene.the_scheduler_dies_half_way,
    Scene.the_scheduler_stands_still,
    Scene.the_place_of_a_refused_member_is_wanted_by_another,
    Scene.a_gang_is_made_anew_while_its_bindings_are_slow,
    Scene.the_scheduler_dies_half_way_and_others_take_the_room,
    Scene.a_new_scheduler_finds_cards_in_use,
    Scene.what_is_taken_back_is_made_anew_meanwhile,
    Scene.a_node_admits_no_pod_for_ever,
    Scene.the_scheduler_dies_after_the_last_binding,
    Scene.claims_cannot_be_written,
    Scene.answers_are_lost,
    Scene.the_server_is_busy,
    Scene.the_scheduler_dies_while_victims_leave,
    Scene.new_work_waits_while_the_database_is_away,
    Scene.a_promise_cannot_be_written,
    Scene.labels_change,
    rivals.who_was_evicted_whole_has_no_precedence,
    rivals.the_room_of_a_lost_member_is_kept,
    rivals.room_is_taken_in_the_order_of_the_policy,
    rivals.a_closed_queue_goes_on_with_what_it_accepted,
    unrecorded.cards_on_no_record_are_given_to_nobody,
    unrecorded.a_successor_has_not_heard_of_the_last_bindings,
)
