"""Random questions to the gate about who may use a queue and who came with whom, against the plain rule."""

import random
from typing import Any
from unittest.mock import patch

from t9ksched.admission.access import Members
from t9ksched.admission.identity import OWNER_ANNOTATION
from t9ksched.kube.resources import DEPLOYMENTS, JOBS, REPLICASETS
from t9ksched.model.pod import OwnerReference
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state import admission_gate
from t9ksched.scheduler.state.admission_gate import AdmissionGate
from t9ksched.scheduler.state.namespaces import NamespaceObject, Namespaces
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.store.acceptances import Acceptance
from tests.property.accessrules import Asks, Word

HISTORIES, STEPS = 60, 40
USERS, SPACES, QUEUES = ("ann", "bob"), ("ns", "elsewhere"), ("q", "r")
OWNERS = ("job-0", "job-1", "rs-0", "rs-1", "web-0", "web-1", "thing-0", "set-0")
KINDS = {"job": "Job", "rs": "ReplicaSet", "web": "Deployment", "thing": "Thing", "set": "StatefulSet"}
RESOURCES = {"Job": JOBS, "ReplicaSet": REPLICASETS, "Deployment": DEPLOYMENTS}


def kind_of(uid: str) -> str:
    return KINDS[uid.partition("-")[0]]


class History:
    """A gate, and beside it everything that it was told."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"access {seed}")
        self.acceptances: dict[str, Acceptance] = {}
        self.above: dict[str, tuple[str, str | None]] = {}
        self.members: dict[str, Members] = {}
        self.groups: dict[str, frozenset[str]] = {}
        self.spaces: dict[str, Any] = {}
        self.owners = Owners(lambda uid: None)
        self.owners.unread = {"StatefulSet"}
        self.namespaces = Namespaces(lambda name: self.gate.changed())
        self.gate = AdmissionGate(self.namespaces, self.acceptances, self.owners)
        selector = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
        by_name = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}}
        self.queues = [Queue("q", parse_queue_spec(selector)), Queue("r", parse_queue_spec({}))]
        self.queues.append(Queue("s", parse_queue_spec(by_name)))

    def word(self) -> Word:
        unread = frozenset({"StatefulSet"})
        return Word(self.acceptances, self.above, unread, self.members, self.groups, self.spaces)

    # What happens

    def step(self) -> None:
        getattr(self, self.rng.choice(("record", "record", "owner", "owner", "joins", "grouped", "space")))()

    def record(self) -> None:
        rng, uid = self.rng, self.rng.choice((*OWNERS, "p", "g"))
        if rng.random() < 0.2:
            self.acceptances.pop(uid, None)
            return
        self.acceptances[uid] = Acceptance(
            uid=uid,
            kind="x",
            namespace=rng.choice(("ns", "ns", "elsewhere")),
            name=uid,
            submitter=rng.choice((*USERS, *USERS, None)),
            groups=rng.sample(("staff", "guests"), rng.randrange(3)),
            queue=rng.choice((*QUEUES, None)),
            permitted_by=rng.choice((None, "everyone", "administrator", "manager")),
        )

    def owner(self) -> None:
        rng, uid = self.rng, self.rng.choice(OWNERS)
        kind = kind_of(uid)
        if kind not in RESOURCES:
            return
        if uid in self.above and rng.random() < 0.4:
            del self.above[uid]
            self.owners.remove(uid)
            return
        over = self.above[uid][1] if uid in self.above else rng.choice((None, *OWNERS))
        meta: dict[str, Any] = {"name": uid, "namespace": "ns", "uid": uid}
        if over is not None:
            above = {"apiVersion": "v1", "kind": kind_of(over), "name": over, "uid": over, "controller": True}
            meta["ownerReferences"] = [above]
        self.above[uid] = kind, over
        self.owners.upsert(decoder(JobObject)({"metadata": meta, "spec": {}}), RESOURCES[kind], ours=True)

    def joins(self) -> None:
        rng = self.rng
        self._news(self.gate.set_members, dict(self.members), self.members)
        grant = Members(
            everyone=rng.random() < 0.2,
            users=frozenset(rng.sample(USERS, rng.randrange(2))),
            groups=frozenset(rng.sample(("staff", "guests"), rng.randrange(2))),
            max_priority=rng.choice((None, 3)),
        )
        fresh = self.members | {rng.choice((*QUEUES, "s")): grant}
        self._news(self.gate.set_members, fresh, self.members)
        self.members = fresh

    def grouped(self) -> None:
        self._news(self.gate.set_groups, dict(self.groups), self.groups)
        those = frozenset(self.rng.sample(("staff", "guests"), self.rng.randrange(3)))
        fresh = self.groups | {self.rng.choice(USERS): those}
        self._news(self.gate.set_groups, fresh, self.groups)
        self.groups = fresh

    def _news(self, tell: Any, fresh: Any, before: Any) -> None:
        version = self.gate.version
        assert tell(fresh) == (fresh != before)
        assert (self.gate.version > version) == (fresh != before)

    def space(self) -> None:
        rng, name = self.rng, self.rng.choice(SPACES)
        labels = {"kubernetes.io/metadata.name": name} | ({"team": rng.choice("ab")} if rng.random() < 0.6 else {})
        notes = {OWNER_ANNOTATION: rng.choice(USERS)} if rng.random() < 0.5 else {}
        meta = {"name": name, "labels": labels, "annotations": notes}
        version, before = self.gate.version, self.spaces.get(name)
        if before is not None and rng.random() < 0.3:
            self.namespaces.remove(decoder(NamespaceObject)({"metadata": meta}))
            del self.spaces[name]
        else:
            self.namespaces.upsert(decoder(NamespaceObject)({"metadata": meta}))
            self.spaces[name] = labels, notes
        assert (self.gate.version > version) == (self.spaces.get(name) != before)

    # What must be

    def check(self) -> None:
        for _ in range(3):
            self._ask()
        for name in (*QUEUES, "s"):
            assert self.gate.members(name) == self.members.get(name, Members())

    def _asks(self, uid: str) -> tuple[Asks, OwnerReference | None]:
        rng = self.rng
        owner = rng.choice((None, None, *OWNERS))
        reference = None if owner is None else OwnerReference("v1", kind_of(owner), owner, owner, True)
        kind = "" if owner is None else kind_of(owner)
        return Asks(uid, owner, kind, rng.choice(("ns", "ns", "ns", "elsewhere")), uid), reference

    def _ask(self) -> None:
        gate, word, rng = self.gate, self.word(), self.rng
        pod, of_pod = self._asks("p")
        group, of_group = self._asks("g")
        record = PodRecord("p", pod.space, "p", True, None, owner=of_pod)
        gang = GangRecord(group.space, "g", uid="g", owner=of_group)
        for queue in (*self.queues, rng.choice(self.queues)):
            assert gate.access(gang, queue) == word.access(queue, group.space, group.owner, "g")
        assert gate.submitter(gang) == word.whose(group.owner, "g", group.space)
        assert gate.came_with(record, gang) == word.came_with(pod, group)
        gang.virtual = True
        assert gate.came_with(record, gang)
        gang.virtual = False
        asked = rng.choice((*self.queues, None))
        told = gate.stranger(record, gang, asked)
        assert (told and (str(told.code), told.message, told.unblocks)) == word.stranger(pod, group, asked)


def play(seed: int) -> None:
    history = History(seed)
    for step in range(STEPS):
        history.step()
        try:
            history.check()
        except Exception as error:
            raise AssertionError(f"history {seed}, step {step}") from error


def test_access_to_queues_and_membership_of_groups() -> None:
    for seed in range(HISTORIES):
        play(seed)


def test_the_memory_of_answers_is_bounded() -> None:
    with patch.object(admission_gate, "_MOST_KEPT", 3):
        for seed in range(5):
            history = History(seed)
            for _ in range(STEPS):
                history.step()
                history.check()
                assert len(history.gate._known) <= 3
