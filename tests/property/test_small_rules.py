"""The small books of the scheduler's state, each against its rule written out plainly, over random sequences.

Every oracle keeps what was told it and works the answer out anew each time. Times are drawn close to the moments at
which something ends.
"""

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from t9ksched.engine.nodes import NodeTable
from t9ksched.kube.resources import DEPLOYMENTS, JOBS, REPLICASETS, STATEFULSETS
from t9ksched.kube.write.dialects.card_index import CardIndex
from t9ksched.model.api_resource import Resource
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import NO_CARDS, CardGrant, WholeCards
from t9ksched.model.names import GPU_INDEX_PREFIX
from t9ksched.model.node import NodeFacts
from t9ksched.model.pod import OwnerReference
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Code
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.losses import Failures
from t9ksched.scheduler.state.node_backoff import NodeBackoff
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.outage import Outage
from t9ksched.scheduler.state.owners import Owner, Owners, alike, exceeds
from t9ksched.scheduler.state.preemption_backoff import PreemptionBackoff
from t9ksched.scheduler.state.queue_attribution import QueueAttribution
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.store.acceptances import Acceptance

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
GPU = "nvidia.com/gpu"
HISTORIES = 60

Random = random.Random


def histories(count: int = HISTORIES) -> Any:
    """Dice of so many histories, given to a test one after the other."""

    def decorate(test: Callable[[Random], None]) -> Callable[[], None]:
        def play() -> None:
            for seed in range(count):
                test(Random(f"{test.__name__} {seed}"))

        play.__name__ = test.__name__
        return play

    return decorate


def gangs() -> list[GangRecord]:
    """Two groups of one owner, one made by hand, and one of an owner with another's UID as its own."""
    owner = OwnerReference("batch/v1", "Job", "j", "job", True)
    return [
        GangRecord("ns", "a", uid="a", owner=owner),
        GangRecord("ns", "b", uid="b", owner=owner),
        GangRecord("ns", "c", uid="c"),
    ]


def job(gang: GangRecord) -> str:
    return gang.owner.uid if gang.owner else gang.uid


def later(rng: Random, now: int, *moments: int) -> int:
    """A time not before `now`, often at one of the moments or just beside it."""
    near = [at + off for at in moments for off in (-1, 0, 1) if at + off >= now]
    return rng.choice([*near, *near, now, now + 1, now + rng.randrange(5000) * SECOND])


@histories()
def test_rests_double_with_each_try_that_fails_and_are_forgiven(rng: Random) -> None:
    backoff, now = PreemptionBackoff(), START
    rests: dict[str, tuple[int, int]] = {}
    """End and length of the last rest of each job."""
    for _ in range(40):
        ends = [end for end, _ in rests.values()]
        now = later(rng, now, *ends, *(end + 3600 * SECOND for end in ends))
        gang = rng.choice(gangs())
        if rng.random() < 0.2:
            backoff.forget(now)
            assert backoff.rests.keys() == {one for one, (end, _) in rests.items() if now < end + 3600 * SECOND}
        elif rng.random() < 0.8:
            backoff.refused(gang, now)
            end, length = rests.get(job(gang), (0, 0))
            if not end or now - end >= 3600 * SECOND:
                rests[job(gang)] = now + 10 * SECOND, 10 * SECOND
            elif now >= end:
                length = min(2 * length, 3600 * SECOND)
                rests[job(gang)] = now + length, length
        for one in gangs():
            end = rests.get(job(one), (0, 0))[0]
            assert backoff.until(one, now) == (end if end > now else 0)


@histories()
def test_a_node_that_turned_a_pod_away_is_avoided_by_its_job_for_two_minutes(rng: Random) -> None:
    avoided, now = NodeBackoff(), START
    until: dict[tuple[str, str], int] = {}
    noted: list[tuple[GangRecord, str, str, str]] = []
    for _ in range(40):
        now = later(rng, now, *until.values())
        match rng.choice(("note", "note", "take", "forget", "")):
            case "note":
                gang: GangRecord | None = rng.choice([*gangs(), None])
                record = PodRecord("p", "ns", "p", True, None, node=rng.choice(("n1", "n2", "")), gang=gang)
                reason = rng.choice(("OutOfcpu", "UnexpectedAdmissionError", "NodeAffinity", "Evicted", "OutOf", ""))
                message = rng.choice(("no room", ""))
                avoided.note(record, reason, message)
                if gang is not None and record.node and reason not in ("Evicted", "OutOf", ""):
                    noted.append((gang, "p", record.node, f"{reason}: {message}" if message else reason))
            case "take":
                told = [(one.gang, one.pod, one.node, one.why) for one in avoided.take(now)]
                assert told == noted
                until |= {(job(gang), node): now + 120 * SECOND for gang, _, node, _ in noted}
                noted = []
            case "forget":
                avoided.forget(now)
                until = {key: end for key, end in until.items() if end > now}
        for one in gangs():
            mine = {node for (of, node), end in until.items() if of == job(one) and end > now}
            assert avoided.by(one, now) == mine
        assert avoided.next_end() == min(until.values(), default=None)


@histories()
def test_while_the_database_is_away_only_what_it_has_taken_goes_on(rng: Random) -> None:
    told: list[int] = []
    outage = Outage(lambda: told.append(1))
    away, unread = False, False
    unwritten: set[str] = set()
    at = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
    for _ in range(30):
        told.clear()
        match rng.choice(("begin", "end", "unread", "read", "accepted", "accepted")):
            case "begin":
                unwritten = set(rng.sample("abc", rng.randrange(3)))
                outage.begin(at, list(unwritten))
                away = True
                assert told
            case "end":
                outage.end()
                away, unwritten = False, set()
                assert told
            case "unread":
                outage.unread = unread = True
            case "read":
                outage.read()
                unread = False
                assert told
            case "accepted":
                uid = rng.choice("abc")
                outage.accepted(uid)
                unwritten |= {uid} if away else set()
        assert outage.away == (away or unread)
        for uid in "abcd":
            gang = GangRecord("ns", uid, uid=uid)
            if placed := rng.random() < 0.3:
                gang.members["p"] = PodRecord("p", "ns", "p", True, None, node="n1", gang=gang)
            reason = outage.refusal(gang)
            assert (reason is not None) == (not placed and (unread or (away and uid in unwritten)))
            assert reason is None or reason.code == Code.DATABASE_AWAY
            assert reason is None or ("since the scheduler started" in reason.message) == unread


@histories()
def test_the_queue_agreed_last_with_a_group_of_a_name_pays(rng: Random) -> None:
    acceptances: dict[str, Acceptance] = {}
    queue_attribution = QueueAttribution(acceptances)
    for number in range(20):
        queue, name = rng.choice((None, "q", "r", "s")), rng.choice((None, "g", "h"))
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.sample(range(1000), 1)[0] + number / 100)
        uid = f"u{rng.randrange(8)}"
        space = rng.choice(("ns", "other"))
        acceptances[uid] = Acceptance(
            uid=uid, kind="PodGroup", namespace=space, name=uid, group_name=name, queue=queue, accepted_at=at
        )
        queue_attribution.changed()
        for gang in (GangRecord(space, name) for space in ("ns", "other") for name in ("g", "h")):
            mine = [
                one
                for one in acceptances.values()
                if (one.namespace, one.group_name) == (gang.namespace, gang.name) and one.queue
            ]
            last = max(mine, key=lambda one: one.accepted_at, default=None)
            assert queue_attribution.of(gang) == (last.queue if last else None)
            assert queue_attribution.of(gang) == (last.queue if last else None)


def class_of(cards: int, cpu: int) -> PodClass:
    requests = {"cpu": cpu, "pods": 1} | ({GPU: cards} if cards else {})
    asked = (WholeCards("main", GPU, cards),) if cards else ()
    return PodClass(requests=tuple(sorted(requests.items())), cards=asked)


@histories()
def test_each_pod_is_charged_once_to_its_node_its_queue_and_its_cards(rng: Random) -> None:
    nodes = NodeTable()
    charges = Charges(nodes)
    there: set[str] = set()
    held: dict[str, tuple[str, PodClass, str, int, bool]] = {}
    for _ in range(60):
        uid, name = f"p{rng.randrange(5)}", f"n{rng.randrange(3)}"
        match rng.choice(("charge", "charge", "again", "pay", "release", "node", "gone")):
            case "charge":
                pod_class = class_of(rng.randrange(3), rng.randrange(1, 3))
                mask = rng.choice((0, 0b11 << rng.randrange(4)))
                free = 0xFF & ~sum(one[3] for key, one in held.items() if one[0] == name and key != uid)
                mask = mask if pod_class.cards and mask & free == mask else 0
                queue, sure = rng.choice(("", "q", "r")), rng.random() < 0.5
                charges.charge(uid, name, pod_class, queue, CardGrant.packed({GPU: mask}), sure=sure)
                held[uid] = name, pod_class, queue, mask, sure
            case "again" if uid in held:
                name, pod_class, queue, mask, sure = held[uid]
                before = charges.get(uid)
                charges.charge(uid, name, pod_class, queue, CardGrant.packed({GPU: mask}), sure=sure)
                assert charges.get(uid) is before
            case "pay":
                queue = rng.choice(("", "q", "r"))
                charges.pay(uid, queue)
                if uid in held:
                    held[uid] = (*held[uid][:2], queue, *held[uid][3:])
            case "release":
                charge = charges.release(uid)
                assert (charge is not None) == (uid in held)
                held.pop(uid, None)
            case "node":
                nodes.upsert(NodeFacts(name, allocatable={"cpu": 4, "pods": 3, GPU: 8}, cards=CardTable({GPU: 8})))
                charges.node_appeared(name)
                there.add(name)
            case "gone" if name in there:
                charges.node_gone(name)
                nodes.remove(name)
                there.discard(name)
        _books_agree(charges, nodes, there, held)


def _books_agree(charges: Charges, nodes: NodeTable, there: set[str], held: dict[str, Any]) -> None:
    for uid in (f"p{number}" for number in range(5)):
        charge = charges.get(uid)
        told = charge and (
            charge.node,
            charge.pod_class,
            charge.queue,
            dict(charge.cards.masks).get(GPU, 0),
            charge.sure,
        )
        assert told == held.get(uid)
    for name in ("n0", "n1", "n2"):
        mine = {uid: one for uid, one in held.items() if one[0] == name}
        assert sorted(one.uid for one in charges.on_node(name)) == sorted(mine)
        assert (name in charges._by_node) <= bool(mine)
        if name in there:
            used: Counter[str] = Counter()
            for one in mine.values():
                used.update(dict(one[1].requests))
            assert nodes.used(name) == dict(used)
            assert dict(nodes.cards_used(name).masks).get(GPU, 0) == sum(one[3] for one in mine.values())
            asked = class_of(1, 2)
            room = used["cpu"] + 2 <= 4 and used["pods"] < 3 and used[GPU] < 8
            assert nodes.has_room(name, asked, NO_CARDS) == room
    for queue in ("q", "r"):
        paid: Counter[str] = Counter()
        for one in held.values():
            if one[2] == queue:
                paid.update(dict(one[1].requests))
        assert {key: value for key, value in charges.queue_used[queue].items() if value} == dict(paid)


@histories()
def test_annotations_name_as_many_cards_as_are_asked_for_or_none(rng: Random) -> None:
    other = "example.com/npu"
    asked = [WholeCards(name, rng.choice((GPU, other)), rng.randint(1, 3)) for name in "abc"[: rng.randint(1, 3)]]
    words = [[str(rng.choice((0, 1, 5, 62, 63, 64, "x"))) for _ in range(rng.randint(0, 3))] for _ in asked]
    for given, one in zip(words, asked, strict=True):
        if rng.random() < 0.7:
            given[:] = map(str, rng.sample((0, 1, 5, 62, 63, 63, 40), one.count))
        if given and rng.random() < 0.2:
            given[0] = rng.choice(("x", "64", ""))
    texts = {GPU_INDEX_PREFIX + one.container: ",".join(given) for one, given in zip(asked, words, strict=True)}
    if rng.random() < 0.2:
        del texts[GPU_INDEX_PREFIX + "a"]
    expected: dict[str, int] = {}
    for one in asked:
        text = texts.get(GPU_INDEX_PREFIX + one.container, "")
        cards = text.split(",") if text else []
        if not len(cards) == len(set(cards)) == one.count or not all(
            card.isdecimal() and int(card) < 64 for card in cards
        ):
            expected = {}
            break
        for card in cards:
            expected[one.resource] = expected.get(one.resource, 0) | 2 ** int(card)
    assert dict(CardIndex().read(PodClass((), cards=tuple(asked)), texts).masks) == expected
    mask = rng.getrandbits(64)
    assert CardGrant.packed({GPU: mask}).indices(GPU) == tuple(at for at in range(64) if mask // 2**at % 2)


KINDS: dict[str, Resource] = {
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICASETS,
    "StatefulSet": STATEFULSETS,
    "Job": JOBS,
}


class Graph:
    """Objects that own one another, as the API server has them, and the `Owners` that hear of them."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.known: dict[str, dict[str, Any]] = {}
        self.gone: set[str] = set()
        self.told: list[str] = []
        self.references: dict[str, str] = {}
        """The kind by which each object refers to the one above it, by UID."""
        self.owners = Owners(self.told.append)

    def reference(self, uid: str) -> OwnerReference:
        kind = self.known[uid]["kind"] if uid in self.known else self.rng.choice((*KINDS, "Other"))
        return OwnerReference("apps/v1", kind, uid, uid, True)

    def step(self) -> None:
        rng = self.rng
        uid = f"o{rng.randrange(12)}"
        self.told.clear()
        if rng.random() < 0.2:
            self.owners.remove(uid)
            assert self.told == ([uid] if uid in self.known else [])
            if self.known.pop(uid, None) is not None:
                self.gone.add(uid)
            return
        old = self.known.get(uid)
        kind = old["kind"] if old else rng.choice((*KINDS, "ReplicaSet", "ReplicaSet"))
        above = old["above"] if old else rng.choice((None, f"o{rng.randrange(12)}", f"o{rng.randrange(12)}"))
        fresh = {
            "kind": kind,
            "above": above,
            "replicas": rng.randrange(4),
            "limit": rng.choice(("", "1h")),
            "ours": rng.random() < 0.85,
            "created": rng.randrange(1, 60) if old is None else old["created"],
            "broken": kind != "Job" and rng.random() < 0.1,
        }
        if old is not None and rng.random() < 0.4:
            fresh = old  # told again
        referred = self.references.get(uid) if above else None
        self.send(uid, fresh)
        if not fresh["ours"]:
            if self.known.pop(uid, None) is not None:
                self.gone.add(uid)
        else:
            self.known[uid] = fresh
        read = ("replicas", "limit", "broken")
        changed = old is None or [old[key] for key in read] != [fresh[key] for key in read]
        changed = changed or (above is not None and self.references[uid] != referred)
        news = changed if fresh["ours"] else old is not None  # an object whose pods are not ours any more is gone
        assert self.told == ([uid] if news else [])

    def send(self, uid: str, told: dict[str, Any]) -> None:
        container = {"name": "m", "image": "x", "resources": {"requests": {"cpu": "x" if told["broken"] else "1"}}}
        scheduler = "t9k-scheduler" if told["ours"] else "default-scheduler"
        template = {"spec": {"schedulerName": scheduler, "containers": [container]}}
        spec: dict[str, Any] = {"template": template, "replicas": told["replicas"]}
        if told["kind"] == "Job":
            spec |= {"parallelism": told["replicas"], "completions": told["replicas"]}
        meta: dict[str, Any] = {
            "name": f"name-{uid}",
            "namespace": "ns",
            "uid": uid,
            "creationTimestamp": f"2026-01-01T00:00:{told['created']:02}Z",
        }
        if told["limit"]:
            meta["annotations"] = {"scheduler.tensorstack.dev/time-limit": told["limit"]}
        if told["above"]:
            kind = self.known.get(told["above"], {}).get("kind", "Deployment")
            self.references[uid] = kind
            owner = {"apiVersion": "apps/v1", "kind": kind, "name": told["above"], "uid": told["above"]}
            meta["ownerReferences"] = [owner | {"controller": True}]
        obj = decoder(JobObject)({"metadata": meta, "spec": spec})
        kind = told["kind"]
        if kind == "Job":
            self.owners.upsert(obj, JOBS, ours=told["ours"])
        else:
            self.owners.upsert_replicated(obj, KINDS[kind])

    def between(self, uid: str) -> str | None:
        """What stands above an object between a pod and what a user made."""
        known = self.known.get(uid)
        return known["above"] if known is not None and known["kind"] == "ReplicaSet" else None

    def chain(self, uid: str) -> list[str]:
        """The object and those above it, eight at most."""
        found = [uid]
        while len(found) < 8 and (above := self.known.get(found[-1], {}).get("above")):
            found.append(above)
        return found

    def check(self) -> None:
        owners, rng = self.owners, self.rng
        for uid in (f"o{number}" for number in range(12)):
            assert (uid in owners) == (uid in self.known)
            assert owners.gone(uid) == (uid in self.gone)
            reference = self.reference(uid)
            assert owners.root_uid(reference) == (self.between(uid) or uid)
            below = {one for one in self.known if self.between(one) == uid}
            assert set(owners.controllers(uid)) == below | {uid}
            assert (uid in owners._below) == bool(below), "nothing is kept for what is gone"
            other = f"o{rng.randrange(12)}"
            assert owners.leads_to(reference, other) == (other in self.chain(uid))
            self._wants(reference)
            self._root(reference)
            self._titles(uid)
        assert owners.named("ns", "deployment", "nobody") is None

    def _wants(self, reference: OwnerReference) -> None:
        known, living = self.known.get(reference.uid), self.rng.randrange(4)
        wants = reference.uid not in self.gone
        if wants and known is not None and known["kind"] != "Job" and not known["broken"]:
            wants = living < known["replicas"]
        assert self.owners.wants(reference, living) == wants

    def _root(self, reference: OwnerReference) -> None:
        rng, owners = self.rng, self.owners
        virtual = rng.random() < 0.5
        alone = owners.root(GangRecord("ns", "g", uid="g", virtual=virtual))
        kind = ("v1", "Pod") if virtual else ("scheduler.tensorstack.dev/v1beta1", "PodGroup")
        assert alone == ("g", *kind, "ns", "g", None, True)
        gang = GangRecord("ns", "g", uid="g", owner=reference)
        root, uid = owners.root(gang), self.between(reference.uid) or reference.uid
        assert (root.uid, root.name, root.namespace) == (uid, uid, "ns")
        followed = ("Deployment", "ReplicaSet", "StatefulSet", "Job", "PyTorchTrainingJob", "MPIJob", "Notebook")
        assert (root.owner and root.owner.uid) == (uid if uid in self.known else None)
        assert root.certain == (uid in self.known or root.kind not in followed)
        owners.unread = set(rng.sample((*KINDS, "Other"), 2))
        hidden = not root.certain and root.kind in ("Deployment", "ReplicaSet", "StatefulSet", "Job")
        assert owners.awaited(gang) == (hidden and root.kind not in owners.unread and uid not in self.gone)
        assert owners.shows(reference) == (reference.kind in followed and reference.kind not in owners.unread)

    def _titles(self, uid: str) -> None:
        known, owners = self.known.get(uid), self.owners
        found: Owner | None = owners.titled(uid)
        assert (found is not None) == (known is not None)
        if known is None or found is None:
            return
        assert (found.kind, found.name, found.asks.limit) == (known["kind"], f"name-{uid}", known["limit"])
        assert found.created == (datetime(2026, 1, 1, tzinfo=UTC).timestamp() + known["created"]) * 1e9
        assert (found.above and found.above.uid) == known["above"]
        wanted = found.wanted
        assert (wanted is None) == known["broken"]
        if wanted is not None:
            assert wanted.replicas == known["replicas"]
            assert wanted.amounts.get("cpu", 0) == 1000 * known["replicas"]
        assert owners.named("ns", known["kind"].upper(), f"name-{uid}") is found
        assert owners.named("other", known["kind"], f"name-{uid}") is None


@histories(15)
def test_owners_are_followed_up_to_what_a_user_made(rng: Random) -> None:
    graph = Graph(rng)
    for _ in range(60):
        graph.step()
        graph.check()


def test_owners_that_are_gone_are_remembered_up_to_a_number() -> None:
    graph = Graph(Random("gone"))
    told = {
        "kind": "StatefulSet",
        "above": None,
        "replicas": 1,
        "limit": "",
        "ours": True,
        "created": 1,
        "broken": False,
    }
    for number in range(4099):
        graph.send(f"x{number}", told)
        graph.owners.remove(f"x{number}")
    assert [graph.owners.gone(f"x{number}") for number in (0, 2, 3, 4, 4098)] == [False, False, True, True, True]


def test_an_owner_without_a_template_is_not_ours() -> None:
    owners = Owners(lambda uid: None)
    for spec in ({}, {"template": {}}, {"template": {"spec": None}}, {"template": None}):
        owners.upsert_replicated(decoder(JobObject)({"metadata": {"uid": "x", "name": "x"}, "spec": spec}), DEPLOYMENTS)
        assert "x" not in owners


@histories()
def test_failures_of_a_job_on_a_node_count_for_an_hour(rng: Random) -> None:
    failures, now = Failures(), START
    noted: list[tuple[int, str, str]] = []
    for _ in range(40):
        now = later(rng, now, *(at + 3600 * SECOND for at, _, _ in noted))
        if rng.random() < 0.7:
            noted.append((now, rng.choice("jk"), rng.choice(("n1", "n2"))))
            failures.note(noted[-1][1], noted[-1][2], now)
        else:
            failures.forget(now)
            noted = [one for one in noted if one[0] + 3600 * SECOND > now]
            counts = Counter((of, node) for _, of, node in noted)
            assert {(of, node): n for of, nodes in failures._of.items() for node, n in nodes.items()} == counts
            assert all(failures._of.values()), "nothing is kept of what is over"
        for of in "jkl":
            counts = Counter(node for _, one, node in noted if one == of)
            assert failures.nodes(of) == tuple(sorted(node for node, count in counts.items() if count >= 2))


@histories(600)
def test_amounts_are_compared_name_by_name(rng: Random) -> None:
    names = ("cpu", "memory", GPU)
    some = {name: rng.randrange(3) for name in rng.sample(names, rng.randint(0, 3))}
    others = {name: rng.randrange(3) for name in rng.sample(names, rng.randint(0, 3))}
    count, limit = rng.randint(1, 3), rng.randint(1, 3)
    assert exceeds(some, others) == (not all(some[name] <= others.get(name, 0) for name in some))
    one, other = (
        {name: amounts.get(name, 0) / by for name in names} for amounts, by in ((some, count), (others, limit))
    )
    assert alike(some, count, others, limit) == (one == other)
    doubled = {name: 2 * amount for name, amount in some.items()}
    assert alike(doubled, 2 * count, some, count)


def test_the_root_is_titled_by_kind_and_name() -> None:
    gang = GangRecord("ns", "g", uid="g", owner=OwnerReference("v1", "Deployment", "web", "u", True))
    assert Owners(lambda uid: None).root(gang).title == "Deployment/web"
