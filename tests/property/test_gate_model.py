"""Random histories of one queue before the last gate: what is let in, what is refused and why, and what goes on.

The oracle knows of each owner how many pods were accepted with it. New work is refused while the queue is closed, may
not be used by its submitter, or has too small a quota; with `overQuota: Reject` also when too little of it is
left, and that stands while queue, members and the work itself are the same. What was accepted is asked no more, but
whether it may still use the queue; what goes beyond it is new work.
"""

import os
import random
from dataclasses import dataclass, field
from typing import Any

from t9ksched.admission.access import Members
from t9ksched.kube.resources import DEPLOYMENTS, REPLICASETS
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.store.acceptances import Acceptance
from tests.examples import part
from tests.unit.scheduler.state.test_lastgate import owned, replicated
from tests.unit.scheduler.state.test_state import GPU, NOW, decide, group, node, pod, state_with

HISTORIES, STEPS = part(int(60 * float(os.environ.get("T9KSCHED_HISTORIES_PART", "1")))), 25


@dataclass
class Work:
    """What a user made: a plain pod, a group by hand, a Deployment with its ReplicaSet, or a thing of a kind that is
    not followed, of whose pods alone it is known what it asks for. `cards` are those of one pod; pods of groups and
    things may ask for more.
    """

    kind: str
    uid: str
    cards: int
    minimum: int
    wanted: int
    submitter: str | None = None
    running: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    let_in: set[str] = field(default_factory=set)
    more: dict[str, int] = field(default_factory=dict)
    """Cards that a pod asks for beyond `cards`, by name."""
    accepted: int | None = None
    """Pods that were accepted with it; None before."""
    amount: int = 0
    """Cards that were accepted with it."""
    ran: bool = False
    standing: dict[str, Any] = field(default_factory=dict)
    """What was refused for want of quota, by pod; the whole by an empty name."""

    @property
    def made_again(self) -> bool:
        """Whether a controller makes its pods again."""
        return self.kind in ("deployment", "thing")

    def size(self, *names: str) -> int:
        """Cards of these pods."""
        return sum(self.cards + self.more.get(name, 0) for name in names)


class History:
    """The queue, the work in it, and a scheduler."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"gate {seed}")
        self.serial = 0
        self.spec: dict[str, Any] = {}
        self.members = Members(everyone=True)
        self.work: list[Work] = []
        self.state = state_with(node(gpus=64))
        self.now = NOW

    # What happens

    def step(self) -> None:
        what = self.rng.choice(("make", "make", "make", "lose", "lose", "scale", "queue", "joins", "named", "restart"))
        getattr(self, what)()
        self.control()

    def make(self) -> None:
        rng = self.rng
        self.serial += 1
        kind, uid = rng.choice(("pod", "group", "group", "deployment", "deployment", "thing")), f"w{self.serial}"
        wanted = {"pod": 1, "group": rng.randint(1, 3)}.get(kind, rng.randint(1, 4))
        minimum = min(wanted, rng.randint(1, 2)) if kind == "group" else 1
        work = Work(kind, uid, rng.randint(0, 2), minimum, wanted, rng.choice((None, "ann", "bob")))
        self.work.append(work)
        if work.submitter:
            self._record(work)
        self._send(work)

    def _record(self, work: Work) -> None:
        made = Acceptance(uid=self._root(work), kind="x", namespace="ns", name=work.uid, submitter=work.submitter)
        self.state.accept(made)

    @staticmethod
    def _root(work: Work) -> str:
        return {"pod": f"pod-{work.uid}-1", "group": f"group-{work.uid}"}.get(work.kind, work.uid)

    def _send(self, work: Work) -> None:
        if work.kind == "group":
            self.state.upsert_group(group(work.uid, work.minimum))
        if work.kind == "deployment":
            small = {GPU: str(work.cards)} if work.cards else {GPU: "0"}
            made = (replicated("Deployment", work.uid, work.wanted, **small), DEPLOYMENTS)
            below = (replicated("ReplicaSet", f"rs-{work.uid}", work.wanted, work.uid, **small), REPLICASETS)
            for obj, kind in (made, below):
                obj.spec["template"]["spec"]["containers"][0]["resources"]["limits"] = small
                self.state.owners.upsert_replicated(obj, kind)

    def control(self) -> None:
        """As many pods as are wanted; a plain pod and a group by hand get no replacement."""
        for work in self.work:
            if work.made_again:
                for pods in (work.waiting, work.running):
                    while pods and len(work.waiting) + len(work.running) > work.wanted:
                        self._gone(work, pods.pop())
            while len(work.waiting) + len(work.running) < work.wanted and (
                work.made_again or not (work.running or work.let_in or "made" in work.standing)
            ):
                self.serial += 1
                name = f"{work.uid}-1" if work.kind == "pod" else f"{work.uid}-{self.serial}"
                work.waiting.append(name)
                if work.kind in ("group", "thing"):
                    work.more[name] = self.rng.choice((0, 0, 1))
                self._pod(work, name)
                if len(work.waiting) == work.wanted and not work.made_again:
                    work.standing["made"] = True

    def _pod(self, work: Work, name: str, **more: Any) -> None:
        if work.kind == "group" and work.submitter and f"pod-{name}" not in self.state.acceptances:
            self.state.accept(
                Acceptance(
                    uid=f"pod-{name}",
                    kind="Pod",
                    namespace="ns",
                    name=name,
                    group_name=work.uid,
                    submitter=work.submitter,
                )
            )
        made = pod(name, work.size(name), queue="q", group=work.uid if work.kind == "group" else "", **more)
        if work.kind == "deployment":
            made = owned(made, "ReplicaSet", f"rs-{work.uid}")
        if work.kind == "thing":
            made = owned(made, "Thing", work.uid)
        self.state.upsert_pod(made)

    def _gone(self, work: Work, name: str) -> None:
        work.let_in.discard(name)
        self.state.remove_pod(f"pod-{name}")

    def lose(self) -> None:
        those = [work for work in self.work if work.running]
        if those:
            work = self.rng.choice(those)
            self._gone(work, work.running.pop(self.rng.randrange(len(work.running))))

    def scale(self) -> None:
        those = [work for work in self.work if work.made_again]
        if those:
            work = self.rng.choice(those)
            work.wanted = self.rng.randint(0, 6)
            self._send(work)

    def queue(self) -> None:
        rng = self.rng
        quota = {"quota": {"requests": {GPU: str(rng.randint(0, 8))}}} if rng.random() < 0.7 else {}
        self.spec = {"closed": rng.random() < 0.3, "overQuota": rng.choice(("Wait", "Reject")), **quota}
        self.state.set_queues([Queue("q", parse_queue_spec(self.spec))])

    def joins(self) -> None:
        self.members = self.rng.choice((Members(everyone=True), Members(users=frozenset({"ann"}))))
        self.state.permit({"q": self.members})

    def named(self) -> None:
        """It comes to be known who submitted something."""
        those = [work for work in self.work if work.submitter is None]
        if those:
            work = self.rng.choice(those)
            work.submitter = self.rng.choice(("ann", "bob"))
            self._record(work)
            for name in work.waiting if work.kind == "group" else ():
                self._pod(work, name)

    def restart(self) -> None:
        """Another scheduler knows what stands in SQL, and what runs."""
        known = self.state.acceptances
        self.state = state_with(node(gpus=64))
        self.state.set_queues([Queue("q", parse_queue_spec(self.spec))])
        self.state.permit({"q": self.members})
        for acceptance in known.values():
            self.state.accept(acceptance)
        for work in self.work:
            self._send(work)
            for name in work.running:
                self._pod(work, name, node="n1", phase="Running")
            for name in work.waiting:
                self._pod(work, name)
            if work.made_again:  # a pod that waits is let in by what its owner may have
                single = {name for name in work.waiting if f"pod-{name}" in known}
                work.let_in = single | set(work.running)
            work.standing = {key: value for key, value in work.standing.items() if key == "made"}

    # What must be

    def look(self) -> None:
        used = sum(work.size(*work.running) for work in self.work)
        expected = {name: code for work in self.work for name, code in self._verdicts(work, used).items()}
        for work in self.work:
            self.ran(work)
        view = decide(self.state)
        told = {name: self._told(name) for work in self.work for name in work.waiting}
        assert told == expected
        for one in view:
            name = one.pod.removeprefix("pod-")
            assert expected[name] is None
            work = next(work for work in self.work if name in work.waiting)
            work.waiting.remove(name)
            work.running.append(name)
            work.let_in.add(name)
            self._pod(work, name, node="n1", phase="Running")
        self.state.accept_running(NOW)
        for work in self.work:
            self.ran(work)
            self._on_record(work)

    @staticmethod
    def ran(work: Work) -> None:
        work.ran = work.ran or len(work.running) >= work.minimum

    def _told(self, name: str) -> str | None:
        record = self.state.pods[f"pod-{name}"]
        assert record.gang is not None
        reasons = [reason for reason in (record.gang.unpermitted, *record.unpermitted) if reason is not None]
        return str(reasons[0].code) if reasons else None

    def _may(self, work: Work) -> bool:
        return self.members.everyone or work.submitter in self.members.users

    def _verdicts(self, work: Work, used: int) -> dict[str, str | None]:
        """Of each pod that waits, why it may not start. What a door recorded by its own UID was judged there."""
        if work.accepted is None and work.waiting and work.submitter and not work.made_again:
            work.let_in |= set(work.waiting)
            self._accept(work)
        if work.accepted is None and work.waiting and not self._may(work):
            code = "SubmitterUnknown" if work.submitter is None else "QueueNotPermitted"
            return dict.fromkeys(work.waiting, code)
        found: dict[str, str | None] = {}
        for name in work.waiting:
            if work.accepted is None:
                found[name] = self._new(work, name, used)
                if found[name] is not None and work.kind == "group":
                    return dict.fromkeys(work.waiting, found[name])
            elif not self._may(work):
                found[name] = "NotPermitted"
            else:
                found[name] = None if name in work.let_in else self._more(work, name, used)
        return found

    def _new(self, work: Work, name: str, used: int) -> str | None:
        sizes = sorted(work.size(one) for one in work.waiting)
        needs = {"pod": work.cards, "group": sum(sizes[: work.minimum]), "thing": work.size(name)}
        asked = needs.get(work.kind, work.wanted * work.cards)
        reason = self._judged(work, "" if work.kind == "group" else name, asked, asked, used)
        if reason is None:
            work.let_in |= set(work.waiting) if work.kind == "group" else {name}
            self._accept(work)
        return reason

    @staticmethod
    def _accept(work: Work) -> None:
        """What was let in is accepted, and all that its owner asks for, if that is known; never less than before."""
        wanted = work.wanted if work.kind == "deployment" else 0
        work.accepted = max(work.accepted or 0, len(work.let_in), wanted)
        work.amount = max(work.amount, work.size(*work.let_in), wanted * work.cards)

    def _more(self, work: Work, name: str, used: int) -> str | None:
        assert work.accepted is not None
        within = work.kind == "deployment" and work.wanted <= work.accepted
        surge = -(-work.accepted // 4) if within else 0
        held, total = len(work.let_in), work.size(*work.let_in, name)
        if held + 1 <= work.accepted + surge and (work.kind == "deployment" or total <= work.amount):
            work.let_in.add(name)
            return None
        reason = self._judged(work, name, total, work.size(name), used)
        if reason is None:
            work.let_in.add(name)
            self._accept(work)
        return reason

    def _judged(self, work: Work, key: str, total: int, fresh: int, used: int) -> str | None:
        """The rules of the queue about so many cards in all, of which so many are not charged yet."""
        judged = (str(self.spec), self.members, total)
        if work.standing.get(key) == judged:
            return "OverQuota"
        if self.spec.get("closed"):
            return "QueueClosed"
        quota = self.spec.get("quota", {}).get("requests", {}).get(GPU)
        if quota is None or not fresh:
            return None
        if total > int(quota) or (self.spec["overQuota"] == "Reject" and fresh + used > int(quota)):
            work.standing[key] = judged
            return "OverQuota"
        return None

    def _on_record(self, work: Work) -> None:
        """What stands on record of it: how many pods, with how much."""
        record = self.state.acceptances.get(self._root(work))
        if work.accepted is None:
            assert record is None or record.replicas is None
            return
        assert record is not None
        assert (record.replicas, record.queue) == (work.accepted, "q")
        assert record.cards.get(GPU, 0) == work.amount
        assert record.requests["cpu"] == work.accepted * 1000
        assert record.submitter == work.submitter
        assert (record.started_at is not None) >= (work.kind != "pod" and bool(work.running))
        assert record.started_at is None or work.kind != "pod"


def play(seed: int) -> None:
    history = History(seed)
    try:
        for _ in range(STEPS):
            history.step()
            history.look()
    except Exception as error:
        raise AssertionError(f"history {seed}") from error


def test_what_is_let_in_is_what_the_rules_say() -> None:
    for seed in range(HISTORIES):
        play(seed)
