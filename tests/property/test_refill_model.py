"""Random losses of two gangs, against the rule written out plainly: whose room is kept, where, which cards, until when.

The rule: from a loss on, as far as a gang that ran lacks of its minimum, the newest losses keep their room, those of
roles that are short first; each its own place while its node is healthy and no two members of the job failed there
within the hour, else what the engine found, else none yet. It ends with the minimum, an eviction, a job that is being
deleted, wants no pods, or of which all pods have ended while nothing is known to make others, or 15 minutes after the
gang fell below its minimum; for a pod without a controller after a minute, unless others of its gang wait.
"""

import random
from collections import Counter
from typing import Any

from t9ksched.engine.nodes import NodeTable
from t9ksched.kube.resources import STATEFULSETS
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import NO_CARDS, CardGrant, WholeCards
from t9ksched.model.names import HONOURS_INDEX
from t9ksched.model.node import Node, NodeFacts
from t9ksched.model.pod import Metadata, OwnerReference
from t9ksched.model.podclass import PodClass
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.change_feed import ChangeFeed
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.losses import Loss
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.refill import Refills
from t9ksched.scheduler.state.replacement import Replacement
from t9ksched.store.job_overrides import JobControl

GPU = "nvidia.com/gpu"
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
NODES = ("n0", "n1", "n2")
NO = Reason(Code.NOT_PERMITTED, "no")
HISTORIES, STEPS = 60, 45
JOB = OwnerReference("batch/v1", "Job", "job", "job", True)
SET = OwnerReference("apps/v1", "StatefulSet", "set", "set", True)
OTHER = OwnerReference("x/v1", "Thing", "thing", "thing", True)
Lost = dict[str, Any]


def class_of(cards: int) -> PodClass:
    asked = (WholeCards("m", GPU, cards),) if cards else ()
    requests = {"cpu": 1000, "pods": 1} | ({GPU: cards} if cards else {})
    return PodClass(requests=tuple(sorted(requests.items())), cards=asked)


def _job(gang: GangRecord) -> str:
    return gang.owner.uid if gang.owner else gang.uid


class History:
    """Two gangs on three nodes; `losses` is what the oracle remembers, oldest first."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"refill {seed}")
        self.now, self.serial = START, 0
        self.table = NodeTable()
        self.nodes: dict[str, tuple[Node, NodeFacts]] = {}
        self.charges = Charges(self.table)
        self.owners = Owners(lambda uid: self.refills._due.note_all((uid,)))
        self.jobs: dict[str, JobRecord] = {}
        self.refused: dict[str, Reservation] = {}
        self.ended: list[GangRecord] = []
        self.feed = ChangeFeed()
        self.deleted: set[str] = set()
        replacement = Replacement(self.jobs, self.owners, self.deleted, self._groups_of)
        tables = self.table, self.nodes, self.charges, replacement, self.refused, self.owners
        self.refills = Refills(*tables, self.feed, self.ended.append)
        self.refills.kinds = frozenset({("batch/v1", "Job")})
        self.queues: dict[str, Queue] = {}
        self.fresh: dict[str, list[Lost]] = {"a": [], "b": []}
        self.losses: dict[str, list[Lost]] = {"a": [], "b": []}
        self.fell = {"a": 0, "b": 0}
        self.failures: list[tuple[int, str, str]] = []
        self.gangs = {
            uid: GangRecord("ns", uid, uid=uid, owner=rng.choice((None, JOB, OTHER)), ran=True) for uid in "ab"
        }
        for gang in self.gangs.values():
            roles = (("m", rng.randint(0, 2)), ("w", rng.randint(1, 3))) if rng.random() < 0.6 else ()
            gang.spec = PodGroupSpec(min_member=rng.randint(2, 4), roles=roles, queue="q")
            for _ in range(gang.spec.min_member + 1):
                self.member(gang)
        self.nobodys()
        for name in NODES:
            self.node(name)
        self.queue()
        self.job()

    # What happens

    def nobodys(self) -> None:
        """What keeps no room: pods of no group, of a group of one, of none that exists, and of no class."""
        for gang in (None, GangRecord("ns", "v", uid="v", virtual=True, ran=True), GangRecord("ns", "x", ran=True)):
            pod = PodRecord("z", "ns", "z", True, class_of(1), node="n0", gang=gang)
            self.refills.lost(pod)
            assert not self.refills.stays(pod)
        self.refills.lost(PodRecord("z", "ns", "z", True, None, node="n0", gang=self.gangs["a"]))
        self.refills.follow(self.now, self.queues)
        assert not any(gang.lost for gang in self.gangs.values())
        assert self.refills._of == {}

    def node(self, name: str = "") -> None:
        rng, name = self.rng, name or self.rng.choice(NODES)
        facts = NodeFacts(
            name,
            uid=name,
            labels={"zone": rng.choice("aab")},
            ready=rng.random() < 0.9,
            unschedulable=rng.random() < 0.1,
            deleting=rng.random() < 0.05,
            allocatable={"cpu": 8000, "pods": 6, GPU: 4},
            cards=CardTable({GPU: 4}),
            card_mode=HONOURS_INDEX if name != "n2" else "plugin-chooses",
        )
        if name in self.nodes and rng.random() < 0.15:
            del self.nodes[name]
            self.charges.node_gone(name)
            self.table.remove(name)
            return
        self.nodes[name] = Node(Metadata(name=name)), facts
        self.table.upsert(facts)
        self.charges.node_appeared(name)

    def queue(self) -> None:
        selector = {"nodeSelector": {"matchLabels": {"zone": "a"}}} if self.rng.random() < 0.3 else {}
        spec = parse_queue_spec({"priority": self.rng.randrange(3), **selector})
        self.queues = {"q": Queue("q", spec)} if self.rng.random() < 0.9 else {}

    def job(self) -> None:
        """The jobs above the gangs come, are paused, and go."""
        rng = self.rng
        self.jobs.clear()
        for owner in (JOB, OTHER):
            if rng.random() < 0.85:
                wants = rng.random() < 0.9
                self.jobs[owner.uid] = JobRecord(
                    owner.uid, owner.api_version, owner.kind, "ns", owner.name, 1, "q", 0, "", wants_pods=wants
                )
            self.refills.changed(owner.uid)
        if rng.random() < 0.5:
            template = {"spec": {"schedulerName": "t9k-scheduler", "containers": [{"name": "m", "image": "x"}]}}
            meta = {"name": "set", "namespace": "ns", "uid": "set"}
            self.replicas = rng.randrange(4)
            obj = {"metadata": meta, "spec": {"replicas": self.replicas, "template": template}}
            self.owners.upsert(decoder(JobObject)(obj), STATEFULSETS, ours=True)

    def member(self, gang: GangRecord | None = None) -> None:
        """Another member, which has a place, waits, or has just got one."""
        rng, gang = self.rng, gang or self.gangs[self.rng.choice("ab")]
        self.serial += 1
        uid, owner = f"p{self.serial}", rng.choice((gang.owner, None, SET))
        pod = PodRecord(uid, "ns", uid, True, class_of(rng.randrange(3)), role=rng.choice("mww"), owner=owner)
        pod.gang = gang
        gang.members[uid] = pod
        self.changed(gang)
        if rng.random() < 0.7:
            self._put(pod, rng.choice(NODES))
            if rng.random() < 0.2:
                pod.node, pod.assumed = "", pod.node

    def _put(self, pod: PodRecord, name: str) -> None:
        assert pod.pod_class is not None
        pod.node, pod.phase = name, "Running"
        taken = sum(dict(charge.cards.masks).get(GPU, 0) for charge in self.charges.on_node(name))
        free = [card for card in range(4) if not taken >> card & 1]
        count = dict(pod.pod_class.requests).get(GPU, 0)
        cards = CardGrant.of({GPU: free[:count]} if count and len(free) >= count else {})
        self.charges.charge(pod.uid, name, pod.pod_class, "q", cards)

    def lose(self) -> None:
        """A member fails, begins to leave, or is gone."""
        rng, gang = self.rng, self.gangs[self.rng.choice("ab")]
        placed = [pod for pod in gang.members.values() if pod.node and not pod.deleting and pod.phase == "Running"]
        if not placed:
            return
        pod = rng.choice(placed)
        pod.evicted = rng.random() < 0.1
        self._lose(gang, pod, failed=rng.random() < 0.5)

    def _lose(self, gang: GangRecord, pod: PodRecord, *, failed: bool) -> None:
        rng = self.rng
        pod.phase = "Failed" if failed else pod.phase
        self.changed(gang)
        charge = self.charges.get(pod.uid)
        lost = {"uid": pod.uid, "role": pod.role, "class": pod.pod_class, "node": pod.node, "owner": pod.owner}
        lost |= {"cards": charge.cards if charge else NO_CARDS, "failed": failed, "found": ""}
        self.refills.lost(pod)
        if not pod.evicted:
            self.fresh[gang.uid].append(lost)
        if not failed and rng.random() < 0.5:
            pod.deleting = True  # and holds its room until it is gone
            return
        self.charges.release(pod.uid)
        if not failed or rng.random() < 0.5:
            del gang.members[pod.uid]

    def end(self) -> None:
        """All members of a gang end, well or with a failure, or are gone."""
        gang = self.gangs[self.rng.choice("ab")]
        for pod in list(gang.members.values()):
            if pod.node and not pod.deleting and pod.phase == "Running" and self.rng.random() < 0.5:
                self._lose(gang, pod, failed=True)
            elif pod.node and not pod.deleting and pod.phase != "Failed":
                pod.phase = "Succeeded"
                self.charges.release(pod.uid)
            elif pod.phase != "Failed":
                self.charges.release(pod.uid)
                del gang.members[pod.uid]
        self.changed(gang)

    def deletion(self) -> None:
        """An object is being deleted; in place of one that was deleted there may be another."""
        uid = self.rng.choice(("a", "b", "job", "thing"))
        self.deleted.discard(uid) if uid in self.deleted else self.deleted.add(uid)
        self.refills.changed(uid)

    def changed(self, gang: GangRecord) -> None:
        """The state tells of each change of a gang, and of the job that it belongs to."""
        gang.changes += 1
        self.feed.held_otherwise(gang)
        self.refills.changed(_job(gang))

    def _groups_of(self, job: str) -> list[GangRecord]:
        return [gang for gang in self.gangs.values() if _job(gang) == job]

    def gone(self) -> None:
        """One that was leaving is gone."""
        for gang in self.gangs.values():
            for pod in [pod for pod in gang.members.values() if pod.deleting][:1]:
                self.charges.release(pod.uid)
                del gang.members[pod.uid]
                self.changed(gang)

    def remembered(self) -> None:
        """History has a loss that no scheduler saw."""
        self.serial += 1
        gang, uid = self.gangs[self.rng.choice("ab")], f"h{self.serial}"
        lost = {"uid": uid, "role": "w", "class": class_of(1), "node": self.rng.choice(NODES), "owner": gang.owner}
        loss = Loss(uid, f"ns/{uid}", "w", class_of(1), lost["node"], owner=gang.owner)
        self.refills.remember(gang, [loss])
        self.fresh[gang.uid].append(lost | {"cards": NO_CARDS, "failed": False, "found": ""})

    def forget(self) -> None:
        gang = self.gangs[self.rng.choice("ab")]
        self.refills.forget(gang)
        self.fresh[gang.uid], self.losses[gang.uid] = [], []

    def gang(self) -> None:
        """Something about a gang itself changes."""
        rng, gang = self.rng, self.gangs[self.rng.choice("ab")]
        gang.displaced = rng.random() < 0.1
        gang.ran = rng.random() < 0.9
        gang.unpermitted = NO if rng.random() < 0.1 else None
        gang.control = JobControl(uid=gang.uid, held=rng.random() < 0.5) if rng.random() < 0.2 else None
        self.changed(gang)
        self.refused.clear()
        if rng.random() < 0.3:
            self.refused["x"] = Reservation(rng.choice(("a", "b", "c")), "n0", class_of(0), ReservationKind.BINDING)

    def time(self) -> None:
        ends = [gang.fell + 900 * SECOND for gang in self.gangs.values() if gang.fell]
        ends += [lost["since"] + 60 * SECOND for those in self.losses.values() for lost in those]
        ends += [at + 3600 * SECOND for at, _, _ in self.failures]
        near = [at for at in ends if at > self.now]
        self.now = self.rng.choice([*near, self.now + SECOND, self.now + 30 * SECOND])

    def step(self) -> None:
        what = ("lose", "lose", "lose", "gone", "member", "remembered", "forget", "gang", "time", "time", "node")
        what = (*what, "deletion") if self.rng.random() < 0.3 else (*what, "end")
        getattr(self, self.rng.choice((*what, "job", "queue")))()
        if self.rng.random() < 0.7:
            self.look()
        if self.rng.random() < 0.2:
            self.engine_finds()

    def engine_finds(self) -> None:
        """The engine found room for what has none."""
        for hold in self.refills.reservations:
            if not hold.node:
                place = self.rng.choice(NODES)
                changes = self.gangs[hold.owner].changes
                self.refills.found([Reservation(hold.owner, place, hold.pod_class, ReservationKind.REFILL)])
                homeless = [one for one in self.losses[hold.owner] if one["kept"] and not one["place"]]
                if fitting := [one for one in homeless if one["class"] == hold.pod_class]:
                    fitting[0]["found"] = fitting[0]["place"] = place
                    assert self.gangs[hold.owner].changes > changes
                return

    # What must be

    def look(self) -> None:
        promised = [uid for uid in "ab" if self.rng.random() < 0.05]
        changes: dict[str, int] = {}
        for gang in self.gangs.values():
            gang.stale = False
            changes[gang.uid] = gang.changes
            if gang.complete():  # as it is settled before each look
                gang.fell, gang.displaced = 0, False
            self.fell[gang.uid] = gang.fell
        was = {uid: gang.lost for uid, gang in self.gangs.items()}
        before = {uid: self._kept(uid) for uid in "ab"}
        self.ended.clear()
        self.failures = [one for one in self.failures if one[0] + 3600 * SECOND > self.now]
        for uid in "ab":
            self._take(self.gangs[uid])
        ended = []
        for uid, gang in self.gangs.items():
            had = bool(self.losses[uid])
            if had and (over := self._over(gang)):
                self.losses[uid] = []
            elif had:
                self._choose(gang, promised)
            if had and (over or (before[uid] and not self._kept(uid))):
                ended.append(gang)
        self.refills.follow(self.now, self.queues, promised)
        assert sorted(gang.uid for gang in self.ended) == sorted(gang.uid for gang in ended)
        for uid, gang in self.gangs.items():
            assert (gang.lost, gang.fell) == (bool(self.losses[uid]), self.fell[uid])
            assert gang.stale or before[uid] == self._kept(uid)
            assert gang.changes > changes[uid] or before[uid] == self._kept(uid)
            assert gang.changes > changes[uid] or was[uid] == gang.lost
            assert bool(self.refills._due.of("thing")) == any(self._owned("thing", one) for one in "ab")
        self._compare()

    def _owned(self, job: str, uid: str) -> bool:
        owners = (self.gangs[uid].owner, *(lost["owner"] for lost in self.losses[uid]))
        return bool(self.losses[uid]) and any(owner is not None and owner.uid == job for owner in owners)

    def _kept(self, uid: str) -> list[Any]:
        return [(one["uid"], one["place"], one["masks"]) for one in self.losses[uid] if one.get("kept")]

    def _take(self, gang: GangRecord) -> None:
        """What was lost since the last look counts from now, of a gang that ran and was not evicted."""
        fresh, self.fresh[gang.uid] = self.fresh[gang.uid], []
        if gang.ran and not gang.displaced:
            for lost in fresh:
                self.losses[gang.uid].append(lost | {"since": self.now, "kept": False, "place": "", "masks": NO_CARDS})
                if lost["failed"]:
                    self.failures.append((self.now, _job(gang), lost["node"]))
        if self.losses[gang.uid] and not gang.complete():
            self.fell[gang.uid] = self.fell[gang.uid] or self.now

    def _over(self, gang: GangRecord) -> bool:
        if gang.displaced or gang.complete(bound=True) or 0 < self.fell[gang.uid] <= self.now - 900 * SECOND:
            return True
        if self.deleted & {gang.uid, _job(gang)}:
            return True
        owners = [owner for owner in (gang.owner, *(lost["owner"] for lost in self.losses[gang.uid])) if owner]
        for owner in owners:
            job = self.jobs.get(owner.uid) if owner is not None else None
            if owner is not None and (
                (job is None and owner.kind == "Job") or (job is not None and not job.wants_pods)
            ):
                return True
        replaced = any(owner.uid in self.jobs or (owner.uid in self.owners and self.replicas) for owner in owners)
        phases = {pod.phase for other in self._groups_of(_job(gang)) for pod in other.members.values()}
        return not replaced and bool(phases) and phases <= {"Succeeded", "Failed"}

    def _choose(self, gang: GangRecord, promised: list[str]) -> None:
        mine = self.losses[gang.uid]
        chosen: list[Lost] = []
        held = gang.control is not None and gang.control.held
        if not (gang.complete() or gang.uid in promised or gang.unpermitted or held):
            chosen = self._newest(gang, mine)
        for lost in mine:
            lost["kept"] = any(lost is one for one in chosen)
        for lost in chosen:
            self._settle(gang, lost)

    def _newest(self, gang: GangRecord, mine: list[Lost]) -> list[Lost]:
        placed = [pod for pod in gang.members.values() if pod.placed and not pod.deleting]
        have = Counter(pod.role for pod in placed)
        short = Counter({role: least - have[role] for role, least in gang.spec.roles if least > have[role]})
        missing = max(sum(short.values()), gang.spec.min_member - len(placed))
        missing -= sum(hold.owner == gang.uid for hold in self.refused.values())
        waiting = sum(pod.waiting for pod in gang.members.values())
        of_set = sum(pod.owner == SET for pod in placed)
        able = []
        for lost in reversed(mine):
            if lost["owner"] == SET and "set" in self.owners:
                of_set += 1
                if of_set > self.replicas:
                    of_set -= 1
                    continue
            if lost["owner"] is None and self.now - lost["since"] >= 60 * SECOND:
                waiting -= 1
                if waiting < 0:
                    continue
            able.append(lost)
        first = []
        for lost in able:
            if short[lost["role"]] > 0:
                short[lost["role"]] -= 1
                first.append(lost)
        others = [lost for lost in able if not any(lost is one for one in first)]
        return [*first, *others][: max(0, missing)]

    def _failed_on(self, gang: GangRecord) -> tuple[str, ...]:
        job = _job(gang)
        counts = Counter(node for _, of, node in self.failures if of == job)
        return tuple(sorted(node for node, count in counts.items() if count >= 2))

    def _settle(self, gang: GangRecord, lost: Lost) -> None:
        queue = self.queues.get("q")

        def healthy(name: str) -> bool:
            if name not in self.nodes:
                return False
            facts = self.nodes[name][1]
            selector = queue.spec.node_selector if queue is not None else None
            right = selector is None or facts.labels["zone"] == "a"
            return facts.ready and not facts.unschedulable and not facts.deleting and right

        def room(name: str, cards: CardGrant = NO_CARDS) -> bool:
            return self.table.has_room(name, lost["class"], cards)

        own, leaving = lost["node"], self.charges.get(lost["uid"]) is not None
        lost["place"], lost["masks"] = "", NO_CARDS
        if own not in self._failed_on(gang) and healthy(own) and (leaving or room(own)):
            lost["place"] = own
            exact = self.nodes[own][1].card_mode == HONOURS_INDEX and not leaving and room(own, lost["cards"])
            lost["masks"] = lost["cards"] if leaving or exact else NO_CARDS
        elif healthy(lost["found"]) and room(lost["found"]):
            lost["place"] = lost["found"]

    def _compare(self) -> None:
        queue = self.queues.get("q")
        expected, ends = [], []
        for uid, gang in self.gangs.items():
            for lost in self.losses[uid]:
                if not lost["kept"]:
                    continue
                end = self.fell[uid] + 900 * SECOND
                if lost["owner"] is None and self.now - lost["since"] < 60 * SECOND:
                    end = min(end, lost["since"] + 60 * SECOND)
                ends.append(end)
                leaving = self.charges.get(lost["uid"]) is not None
                pod = PodRecord(lost["uid"], "ns", "x", True, None, node=lost["node"], gang=gang)
                assert self.refills.stays(pod) == (lost["place"] == lost["node"])
                if leaving and lost["place"] == lost["node"]:
                    continue  # it is charged still
                rank = queue.spec.priority if queue else 0
                avoid = () if lost["place"] else self._failed_on(gang)
                expected.append(
                    Reservation(
                        owner=uid,
                        node=lost["place"],
                        pod_class=lost["class"],
                        cards=lost["masks"],
                        rank=rank,
                        since=lost["since"],
                        until=end,
                        kind=ReservationKind.REFILL,
                        queue="q",
                        avoid=avoid,
                    )
                )
        assert sorted(map(repr, self.refills.reservations)) == sorted(map(repr, expected))
        assert self.refills.next_end() == min(ends, default=None)
        keeping = {uid for uid in "ab" if any(lost["kept"] for lost in self.losses[uid])}
        assert {gang.uid for gang in self.refills.keeping()} == keeping
        for uid, gang in self.gangs.items():
            kept = [
                one for one in self.losses[uid] if one["kept"] and one["place"] and self.charges.get(one["uid"]) is None
            ]
            told = [(one.uid, one.node, one.cards) for one in self.refills.places(gang)]
            assert told == [(one["uid"], one["place"], one["masks"]) for one in kept]
            assert all(one.kept for one in self.refills.places(gang))


def play(seed: int) -> None:
    history = History(seed)
    try:
        for _ in range(STEPS):
            history.step()
    except Exception as error:
        raise AssertionError(f"history {seed}") from error


def test_room_of_lost_members_is_kept_as_the_rule_says() -> None:
    for seed in range(HISTORIES):
        play(seed)
