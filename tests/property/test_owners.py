"""Random histories of one Deployment in a queue that closes and opens: what was accepted goes on, more of it does not.

The oracle keeps one number, the pods accepted: it grows only while the queue is open. Two faults, one for each
direction, must turn it red.
"""

import random
from unittest.mock import patch

import pytest

from t9ksched.model.queue import Queue, QueueSpec
from t9ksched.scheduler.state import lastgate
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.state.test_lastgate import run, waits, with_deployment
from tests.unit.scheduler.state.test_state import decide, node, state_with

HISTORIES = 60
STEPS = 30


class History:
    """A Deployment that keeps `wanted` pods, as its controller does, and the queue it is in."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.state = state_with(node(gpus=64))
        self.wanted = self.rng.randint(1, 4)
        self.accepted = self.wanted
        self.closed = False
        self.made = 0
        self.running: list[str] = []
        self.waiting: list[str] = []
        with_deployment(self.state, self.wanted)

    def begin(self) -> None:
        """The Deployment is seen while the queue is open."""
        self.control()
        self.cycle()
        self.check()

    def step(self) -> None:
        """Something happens; then the controller makes or removes pods, and the scheduler has its cycle."""
        what = self.rng.choice(("lose", "lose", "scale", "close", "open", "restart"))
        if what == "lose" and self.running:
            self.state.remove_pod(f"pod-{self.running.pop(self.rng.randrange(len(self.running)))}")
        elif what == "scale":
            self.wanted = self.rng.randint(0, 6)
            with_deployment(self.state, self.wanted)
        elif what in ("close", "open"):
            self.closed = what == "close"
            self.state.set_queues([Queue("q", QueueSpec(closed=self.closed))])
        elif what == "restart":
            self.restart()
        self.control()
        if not self.closed:
            self.accepted = max(self.accepted, self.wanted)
        self.cycle()

    def cycle(self) -> None:
        """The scheduler decides, and what it decides runs."""
        for assignment in decide(self.state):
            name = assignment.pod.removeprefix("pod-")
            self.waiting.remove(name)
            self.running.append(name)
            run(self.state, name)
        self.state.accept_running(1)

    def control(self) -> None:
        """The ReplicaSet's controller: pods that wait go first."""
        for pods in (self.waiting, self.running):
            while pods and len(self.waiting) + len(self.running) > self.wanted:
                self.state.remove_pod(f"pod-{pods.pop()}")
        while len(self.waiting) + len(self.running) < self.wanted:
            self.made += 1
            name = f"p{self.made}"
            self.waiting.append(name)
            waits(self.state, name)

    def restart(self) -> None:
        """Another scheduler knows what stands in SQL and in the cluster."""
        known = self.state.acceptances
        self.state: ClusterState = state_with(node(gpus=64))
        self.state.set_queues([Queue("q", QueueSpec(closed=self.closed))])
        for acceptance in known.values():
            self.state.accept(acceptance)
        with_deployment(self.state, self.wanted)
        run(self.state, *self.running)
        for name in self.waiting:
            waits(self.state, name)

    def check(self) -> None:
        """As many run as are wanted and were accepted; all that are wanted while the queue is open."""
        assert len(self.running) == min(self.wanted, self.accepted), (self.running, self.wanted, self.accepted)


def play() -> None:
    for seed in range(HISTORIES):
        history = History(seed)
        history.begin()
        for _ in range(STEPS):
            history.step()
            history.check()


def test_what_was_accepted_goes_on_and_more_of_it_does_not() -> None:
    play()


@pytest.mark.parametrize("covers", [False, True], ids=["each replacement is new work", "an owner covers any number"])
def test_a_fault_turns_it_red(covers: bool) -> None:
    with patch.object(lastgate, "covers", lambda *_: covers), pytest.raises(AssertionError):
        play()
