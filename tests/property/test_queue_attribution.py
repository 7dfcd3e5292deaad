"""Random histories of two groups in two namespaces: which queue is charged for a pod, and which submitter counts.

The oracle keeps for each group the queue that was agreed when it first got its place. Groups are edited, deleted while
their members go on, made anew, and the scheduler starts again with what stands in SQL. After each step every queue is
charged with what members of groups agreed in it hold, no more and no less.
"""

import random
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from t9ksched.admission.access import Members
from t9ksched.model import names
from t9ksched.model.cards import NO_CARDS
from t9ksched.model.node import decode_node
from t9ksched.model.pod import OwnerReference
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.state.admission_gate import NAMING_NS, AdmissionGate
from t9ksched.scheduler.state.queue_attribution import QueueAttribution
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.refill import Refills
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from tests.unit.scheduler.state.test_state import GPU, NOW, decide, group, node, pod, state_with

QUEUES = ("a", "b")
HISTORIES, STEPS = 60, 25


class History:
    """What there is, as the API server and SQL have it, and a scheduler that hears of it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"payers {seed}")
        self.serial = 0
        self.groups: dict[str, Any] = {}
        self.agreed: dict[str, str] = {}
        """By name, the queue that was agreed with the last group of that name that got its place."""
        self.pods: dict[str, tuple[str, int]] = {}
        """Group and cards of each pod that holds a place."""
        self.state = self._new()
        for name in ("g", "h"):
            self.make(name)

    def _new(self) -> ClusterState:
        return state_with(node(gpus=64), queues={name: {} for name in QUEUES})

    def make(self, name: str) -> None:
        """A group with two members, in some queue, gets its place; its queue may be edited first."""
        self.serial += 1
        uid, queue = f"{name}-{self.serial}", self.rng.choice(QUEUES)
        self._send(name, uid, queue)
        members = [f"{uid}-{number}" for number in range(2)]
        for member in members:
            self.state.upsert_pod(pod(member, 1, group=name))
        placed = {one.pod.removeprefix("pod-") for one in decide(self.state)}
        assert placed == set(members)
        self.agreed[name] = queue
        for member in members:
            self.pods[member] = name, 1
            self._run(member)

    def _send(self, name: str, uid: str, queue: str) -> None:
        self.groups[name] = uid, queue
        self.state.upsert_group(group(name, 2, uid=uid, queue=queue))

    def _run(self, member: str) -> None:
        self.state.upsert_pod(pod(member, 1, group=self.pods[member][0], node="n1", phase="Running"))

    def step(self) -> None:
        """Something happens."""
        name = self.rng.choice(("g", "h"))
        match self.rng.choice(("edit", "edit", "delete", "restart", "end", "again")):
            case "edit" if name in self.groups:
                self._send(name, self.groups[name][0], self.rng.choice(QUEUES))
            case "delete" if name in self.groups:
                uid, queue = self.groups.pop(name)
                self.state.remove_group(group(name, 2, uid=uid, queue=queue))
            case "restart":
                self.restart()
            case "end" if self.pods:
                member = self.rng.choice(sorted(self.pods))
                del self.pods[member]
                self.state.remove_pod(f"pod-{member}")
            case "again" if name not in self.groups and name not in [of for of, _ in self.pods.values()]:
                self.make(name)

    def restart(self) -> None:
        """Acceptances stand in SQL; members may be seen before their groups."""
        known = self.state.acceptances
        self.state = self._new()
        for acceptance in known.values():
            self.state.accept(acceptance)
        parts = [lambda: [self._run(member) for member in self.pods]]
        parts.append(lambda: [self._send(name, *of) for name, of in list(self.groups.items())])
        self.rng.shuffle(parts)
        for part in parts:
            part()

    def check(self) -> None:
        """Each queue pays what was agreed."""
        expected: Counter[str] = Counter()
        for of, cards in self.pods.values():
            expected[self.agreed[of]] += cards
        for queue in QUEUES:
            assert self.state.charges.queue_used[queue].get(GPU, 0) == expected[queue], queue


def play() -> None:
    for seed in range(HISTORIES):
        history = History(seed)
        for _ in range(STEPS):
            history.step()
            history.check()


def test_the_queue_that_was_agreed_pays_until_the_last_member_is_gone() -> None:
    play()


@pytest.mark.parametrize(
    "change",
    [
        (QueueAttribution, "of", lambda self, gang: None),
        (GangRecord, "queue", property(lambda self: self.spec.queue)),
    ],
    ids=["no queue pays for members without a group", "attribution moves with edits"],
)
def test_a_fault_in_queue_attribution_turns_it_red(change: tuple[Any, str, Any]) -> None:
    with patch.object(*change), pytest.raises(AssertionError):
        play()


def lose_members() -> None:
    """Gangs of three on named cards lose a member each: its cards are kept while they are free."""
    for seed in range(40):
        rng = random.Random(f"kept cards {seed}")
        state = state_with(queues={"q": {}})
        facts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8"}
        meta = {"name": "n1", "uid": "n1", "annotations": {names.CARD_MODE_ANNOTATION: names.HONOURS_INDEX}}
        ready = [{"type": "Ready", "status": "True"}]
        state.upsert_node(decode_node({"metadata": meta, "status": {"allocatable": facts, "conditions": ready}}))
        state.upsert_group(group("g", 3))
        cards = rng.choice((1, 2))
        members = [f"p{number}" for number in range(3)]
        for member in members:
            state.upsert_pod(pod(member, cards, group="g"))
        decide(state)
        masks = {uid: dict(state.charges.get(uid).cards.masks) for uid in ("pod-p0", "pod-p1", "pod-p2")}  # type: ignore[union-attr]
        for member in members:
            given = ",".join(str(card) for card in range(8) if masks[f"pod-{member}"][GPU] >> card & 1)
            state.upsert_pod(pod(member, cards, group="g", node="n1", phase="Running", cards=given))
        state.view(NOW)
        lost = rng.choice(members)
        state.remove_pod(f"pod-{lost}")
        (hold,) = [hold for hold in state.view(NOW).reservations if hold.kind == "refill"]
        assert (hold.node, dict(hold.cards.masks)) == ("n1", masks[f"pod-{lost}"])
        thief = pod("thief", 8 - 3 * cards, queue="q")
        state.upsert_pod(thief)
        decide(state)
        taken = state.charges.get("pod-thief")
        assert taken is not None
        assert not dict(taken.cards.masks)[GPU] & masks[f"pod-{lost}"][GPU]


def test_the_cards_of_a_lost_member_are_kept_for_its_gang() -> None:
    lose_members()


def test_a_kept_place_that_forgets_its_cards_would_be_noticed() -> None:
    settle = Refills._settle_place

    def without(self: Refills, loss: Any, *args: Any) -> None:
        settle(self, loss, *args)
        loss.kept_cards = NO_CARDS

    with patch.object(Refills, "_settle_place", without), pytest.raises(AssertionError):
        lose_members()


def ask_from_other_namespaces() -> None:
    """Pods name owners in their own and in other namespaces; only an owner of their own speaks for them."""
    for seed in range(60):
        rng = random.Random(f"owners elsewhere {seed}")
        state = ClusterState()
        state.set_queues([Queue("q", parse_queue_spec({}))])
        state.permit({"q": Members(users=frozenset({"ann"}))})
        state.upsert_node(node())
        homes = {f"job{number}": rng.choice(("ns", "elsewhere")) for number in range(3)}
        users = {uid: rng.choice(("ann", "bob")) for uid in homes}
        for uid, space in homes.items():
            state.accept(Acceptance(uid=uid, kind="MPIJob", namespace=space, name=uid, submitter=users[uid], queue="q"))
        expected = set()
        for number in range(4):
            made, root = pod(f"p{number}", 1, queue="q"), rng.choice(sorted(homes))
            made.metadata.owner_references = [OwnerReference(kind="MPIJob", name=root, uid=root, controller=True)]
            state.upsert_pod(made)
            if homes[root] == "ns" and users[root] == "ann":
                expected.add(f"pod-p{number}")
        state.view(NOW)
        view = state.view(NOW + NAMING_NS)
        assert {member.uid for gang in view.gangs for member in gang.waiting} == expected


def test_an_owner_in_another_namespace_does_not_count() -> None:
    ask_from_other_namespaces()


def test_an_owner_elsewhere_that_is_believed_would_be_noticed() -> None:
    ask = AdmissionGate._ask

    def believed(self: AdmissionGate, queue: Any, space: str, root: Acceptance | None) -> Any:
        return ask(self, queue, root.namespace if root else space, root)

    with patch.object(AdmissionGate, "_ask", believed), pytest.raises(AssertionError):
        ask_from_other_namespaces()
