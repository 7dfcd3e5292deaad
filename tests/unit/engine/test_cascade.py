"""No cascade: controllers make their evicted pods anew, round after round, and no job preempts twice for one start.

`make soak` plays more histories, and longer rounds.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy, Preemption
from t9ksched.model.gang import Gang, Running
from t9ksched.model.reservation import Reservation
from tests.builders import gang, node, pod_class, queue, running, view

ROUNDS = 200
LONG = pytest.mark.soak
CARDS = 4
QUEUES = {
    "low": queue(priority=1),
    "mid": queue(priority=2),
    "safe": queue(priority=1, preemptible=False),
    "high": queue(priority=3),
}


@dataclass
class Job:
    """What a controller keeps alive: so many pods, each with so many cards."""

    name: str
    queue: str
    pods: int
    gpu: int
    minimum: int
    made: int = 0
    """How often its gang was made."""


@dataclass
class Cluster:
    """A cluster by hand. Victims take a round or two to end; then their controller makes them anew."""

    random: Random
    policy: Policy = field(default_factory=lambda: Policy(actions=("allocate", "preempt")))
    jobs: dict[str, Job] = field(default_factory=dict)
    waiting: dict[str, Gang] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    holds: dict[str, tuple[Reservation, ...]] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=lambda: [f"n{at}" for at in range(6)])
    job_of: dict[str, Job] = field(default_factory=dict)
    preemptions: Counter[str] = field(default_factory=Counter)
    evicted: int = 0
    memory: Memory = field(default_factory=Memory)

    def arrive(self, name: str, queue: str, pods: int, gpu: int, minimum: int) -> None:
        self.jobs[name] = job = Job(name, queue, pods, gpu, minimum)
        self.make(job)

    def make(self, job: Job) -> None:
        job.made += 1
        uid = f"{job.name}.{job.made}"
        self.waiting[uid] = gang(uid, job.queue, pods=job.pods, gpu=job.gpu, cpu=1, min_member=job.minimum)
        self.job_of[uid] = job

    def end(self, name: str) -> None:
        job = self.jobs.pop(name)
        for uid in [uid for uid, of in self.job_of.items() if of is job]:
            for of in (self.waiting, self.running, self.holds, self.job_of):
                of.pop(uid, None)

    def lose_node(self) -> None:
        """A node goes with all that runs there; who was promised room on it may look for other victims."""
        lost = self.nodes.pop(self.random.randrange(len(self.nodes)))
        for uid, holds in self.holds.items():
            if any(hold.node == lost for hold in holds):
                self.preemptions[uid] = 0
        for uid in [uid for uid, one in self.running.items() if any(pod.node == lost for pod in one.pods)]:
            self.gone(uid)

    def gone(self, uid: str) -> None:
        del self.running[uid]
        job = self.job_of.pop(uid)
        if job.name in self.jobs:
            self.make(job)

    def cycle(self, round_: int) -> Plan:
        nodes = [node(name, cpu=96, gpu=CARDS) for name in self.nodes]
        holds = [hold for mine in self.holds.values() for hold in mine]
        given = view(nodes, self.waiting.values(), QUEUES, holds, self.running.values())
        return plan(given, self.policy, round_, self.memory)

    def apply(self, found: Plan, round_: int) -> None:
        for by in {one.by for one in found.evictions}:
            self.preemptions[by] += 1
            assert self.preemptions[by] <= 1, f"{by} preempts a second time in round {round_}"
            self.holds[by] = tuple(hold for hold in found.reservations if hold.owner == by)
        going = {one.pod for one in found.evictions}
        self.evicted += len(going)
        for uid, one in list(self.running.items()):
            if going & {pod.uid for pod in one.pods}:
                pods = tuple(structs.replace(pod, leaving=pod.leaving or pod.uid in going) for pod in one.pods)
                self.running[uid] = structs.replace(one, pods=pods)
        placed: dict[str, list[tuple[str, tuple[tuple[str, int], ...]]]] = {}
        for one in found.assignments:
            placed.setdefault(one.gang, []).append((one.node, one.grant))
        for uid, places in placed.items():
            asked = self.waiting.pop(uid)
            self.holds.pop(uid, None)
            started = running(uid, asked.queue, [at for at, _ in places], min_member=asked.min_member, created=round_)
            shape = pod_class(cpu=1, gpu=self.job_of[uid].gpu)
            pods = zip(started.pods, places, strict=True)
            self.running[uid] = structs.replace(
                started, pods=tuple(structs.replace(pod, pod_class=shape, cards=masks) for pod, (_, masks) in pods)
            )

    def leave(self) -> None:
        """Some victims have ended: surplus is not missed, a gang below its minimum is made anew."""
        for uid, one in list(self.running.items()):
            left = tuple(pod for pod in one.pods if not (pod.leaving and self.random.random() < 0.6))
            if len(left) >= one.min_member:
                self.running[uid] = structs.replace(one, pods=left)
            elif all(pod.leaving for pod in left):
                self.gone(uid) if not left else self.running.update({uid: structs.replace(one, pods=left)})


def play(seed: int, rounds: int = ROUNDS, policy: Policy | None = None) -> Cluster:
    """A history: jobs come and end at random, a node is lost now and then."""
    random = Random(seed)
    cluster = Cluster(random, policy or Policy(actions=("allocate", "preempt")))
    for round_ in range(rounds):
        for _ in range(random.randrange(3)):
            pods = random.choice((1, 1, 2, 3, 6))
            name, of = f"j{round_}-{len(cluster.job_of)}", random.choice(list(QUEUES))
            cluster.arrive(name, of, pods, random.choice((1, 1, 2, 4)), random.choice((pods, max(1, pods // 2))))
        for name in list(cluster.jobs):
            if random.random() < 0.04:
                cluster.end(name)
        if random.random() < 0.02 and len(cluster.nodes) > 3:
            cluster.lose_node()
        elif len(cluster.nodes) < 6 and random.random() < 0.1:
            cluster.nodes.append(f"m{round_}")
        cluster.leave()
        cluster.apply(cluster.cycle(round_), round_)
    return cluster


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=LONG) for seed in range(2, 20))])
def test_at_most_one_preemption_a_preemptor(seed: int) -> None:
    cluster = play(seed)
    assert sum(cluster.preemptions.values()) > 10, "the history is about preemption"
    assert cluster.evicted > 20


def test_inside_a_queue_too() -> None:
    policy = Policy(actions=("allocate", "preempt"), preemption=Preemption(inside_queue=True))
    assert play(7, policy=policy).evicted > 20


@pytest.mark.parametrize("rounds", [ROUNDS // 4, pytest.param(ROUNDS, marks=LONG)])
@pytest.mark.parametrize("queue_", ["low", "mid"])
def test_the_same_victims_come_again_and_again(queue_: str, rounds: int) -> None:
    """One high job after the other, each for one round: the low job makes room and waits, and preempts no job."""
    cluster = Cluster(Random(1))
    for at in range(6):
        cluster.arrive(f"v{at}", queue_, 1, CARDS, 1)
    cluster.apply(cluster.cycle(0), 0)
    for round_ in range(1, rounds + 1):
        cluster.arrive(f"p{round_}", "high", 1, CARDS, 1)
        for _ in range(50):
            cluster.apply(cluster.cycle(round_), round_)
            if f"p{round_}.1" in cluster.running:
                break
            cluster.leave()
        assert f"p{round_}.1" in cluster.running
        assert len(cluster.running) == 6
        cluster.end(f"p{round_}")
        cluster.apply(cluster.cycle(round_), round_)
        assert all(one.queue == queue_ for one in cluster.running.values())
    assert cluster.evicted == rounds
    assert set(cluster.preemptions.values()) == {1}
