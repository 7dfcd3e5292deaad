"""The audit of a cluster at rest: gangs whole or not there, and every job accounted for with a reason that is true."""

from collections import Counter, defaultdict
from typing import Any

from t9ksched.kube.resources import QUEUES
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.model.timelimit import limit_seconds
from t9ksched.store.jobs import JobRecord
from tests.chaos.asked import Asked
from tests.chaos.invariant_checker import ENDED, GPU, KEPT, OURS
from tests.chaos.world import World

Object = dict[str, Any]
START_TIMEOUT_AND_MORE = 120.0
"""Seconds after which a job of a history has begun to run, and by which clocks differ."""


async def audit_at_rest(world: World) -> None:
    """Tell the checker whatever is not as it must be."""
    checker = world.checker
    for text in checker.partial():
        checker.say(f"partial gang at rest: {text}")
    for finding in world.agents.audit().findings:
        if finding.kind == "NodeMissing":
            checker.say(f"{finding.kind} on {finding.node}: {finding.detail}")
    store = world.store()
    try:
        stored = {(record.kind, record.name): record for record in await store.jobs.list() if not record.deleted_at}
        accepted = {acceptance.uid: acceptance for acceptance in await store.acceptances.all()}
    finally:
        await store.close()
    for asked in world.asked.values():
        Account(world, asked).check(stored.get((asked.kind, asked.name)))
    for pod in checker.pods.values():
        _accepted(world, pod, accepted)
    await _queues(world)
    _books(world)


def _accepted(world: World, pod: Object, accepted: dict[str, Any]) -> None:
    """What holds a place was agreed with, by uid, and its queue stands in SQL."""
    checker, meta = world.checker, pod["metadata"]
    if pod["spec"].get("schedulerName") != OURS or not checker.holds(pod) or meta["uid"] in checker.bypassing:
        return
    group = checker.group_of(pod)
    if group == {}:
        return  # its PodGroup was deleted, it is being collected
    uid = group["metadata"]["uid"] if group else meta["uid"]
    found = accepted.get(uid)
    if found is None:
        checker.say(f"{meta['name']} runs, and nothing of it stands among the acceptances")
    elif found.queue != checker.queue_of(pod):
        checker.say(f"{meta['name']} of queue {checker.queue_of(pod)} was accepted in {found.queue}")


async def _queues(world: World) -> None:
    """The Queue objects are those of SQL, and say what their queues use."""
    items = {item["metadata"]["name"]: item for item in (await world.port.list(QUEUES, SYSTEM_NAMESPACE)).items}
    for name, facts in world.checker.queues.items():
        quota = (items.get(name, {}).get("spec") or {}).get("quota") or {}
        if name not in items:
            world.checker.say(f"Queue {name} has no object")
        elif (quota.get("requests") or {}).get(GPU) != (
            None if facts.quotas[-1][1] is None else str(facts.quotas[-1][1])
        ):
            world.checker.say(f"the object of queue {name} says quota {quota}, SQL says {facts.quotas[-1][1]}")
    for name, item in items.items():
        if name in world.checker.queues:
            said = int(((item.get("status") or {}).get("allocated") or {}).get(GPU, 0))
            if said != world.checker.used(name):
                world.checker.say(f"Queue {name} says {said} cards are allocated, {world.checker.used(name)} are")


def _books(world: World) -> None:
    """The scheduler's own books agree with the cluster, and no room is held for gangs that need none."""
    if world.service is None:
        return
    state, checker = world.service.state, world.checker
    held: defaultdict[str, int] = defaultdict(int)
    for pod in checker.pods.values():
        if checker.holds(pod):
            held[pod["spec"]["nodeName"]] += checker.cards(pod)
    for name in checker.nodes:
        charged = sum(charge.pod_class.card_counts.get(GPU, 0) for charge in state.charges.on_node(name))
        if charged != held[name]:
            checker.say(f"the scheduler charges {charged} cards on {name}, {held[name]} are held")
        unsure, known = checker.unsure(name), state.node_objects.get(name)
        if known is not None and known[1].unsure != bool(unsure):
            told = "gives no cards" if known[1].unsure else "gives cards"
            checker.say(f"{name} {told}, and those of {unsure or 'no pod'} are on no record")
    for text in checker.ledger.at_rest(pod for pod in checker.pods.values() if checker.holds(pod)):
        checker.say(text)
    for uid, given in checker.ledger.given.items():
        charge = state.charges.get(uid)
        if charge is not None and charge.sure and set(charge.cards.indices(GPU)) != set(given.cards):
            checker.say(f"the scheduler has {given.key} on other cards than {sorted(given.cards)}, as it was bound")
    for hold in state.reservations.refused.values():
        checker.say(f"room on {hold.node} is still held: {hold.kind}")


class Account:
    """One job: what it asks for, its pods, and what the scheduler says of it."""

    def __init__(self, world: World, asked: Asked) -> None:
        self.checker = world.checker
        self.asked = asked
        self.title = f"{asked.kind} {asked.name}"
        self.planned = world.service is not None and bool(world.service.state.reservations.planned)
        self.lowered = world.lowered.get(asked.name, asked.minimum)
        self.pods = [pod for pod in asked.pods(world) if pod["metadata"]["uid"] not in self.checker.bypassing]

    def check(self, record: JobRecord | None) -> None:
        """It ended, it runs, or it waits for a reason that is true."""
        if record is None:
            self.checker.say(f"{self.title} is not in the database")
            return
        if record.phase in ENDED or (record.phase == "Paused" and self.asked.limit):
            return
        self.over()
        waiting = [pod for pod in self.pods if not pod["spec"].get("nodeName") and not _ended(pod)]
        placed = sum(bool(pod["spec"].get("nodeName")) for pod in self.pods)
        holding = sum(map(self.checker.holds, self.pods))
        # As long as a group runs, a minimum that was raised meanwhile does not count.
        minimum = min(self.asked.minimum, self.lowered) if holding else self.asked.minimum
        runs = self.asked.kind in ("PodGroup", "Pod") and all(p["status"].get("phase") == "Running" for p in self.pods)
        if self.pods and runs and record.phase != "Running":
            self.checker.say(f"{self.title} runs, and the database has it {record.phase}")
        if not waiting:
            if placed < minimum:
                said = f"has {placed} of {minimum} pods and none waits"
                self.checker.say(f"{self.title} is {record.phase}, {said}")
            return
        reason = (record.shape.get("reason") or {}).get("code", "")
        first = waiting[: max(1, minimum - placed)]
        if placed < minimum and holding:
            self.checker.say(f"{self.title} has {holding} of {minimum} pods at rest")
        if reason == "QueueClosed":
            self.closed(waiting)
        elif reason == "OverQuota":
            if not self.over_quota():
                self.checker.say(f"{self.title} is refused by its quota, which would allow it whole")
        elif reason in ("PlannedStart", "HeldForOther") and self.planned:
            return  # it leaves room to starts that are planned, or waits for its own
        elif self.fits(first):
            self.checker.say(
                f"{self.title} waits ({reason or 'no reason'}) although {len(first)} pods of it could start"
            )
        elif not reason:
            self.checker.say(f"{self.title} waits without a reason")
        elif reason == "QuotaExceeded" and self.within_quota(first):
            self.checker.say(f"{self.title} is said to wait for quota, which would allow {len(first)} pods")
        elif reason == "InsufficientResources" and self.has_room(first):
            self.checker.say(f"{self.title} is said to wait for room, and there is room for {len(first)} pods")

    def over(self) -> None:
        """Pods that run although their job's time limit is over must not be there at rest."""
        if not self.asked.limit:
            return
        most = limit_seconds(self.asked.limit) or 0
        for pod in self.pods:
            ran = self.checker.now() - self.checker.bound_at.get(pod["metadata"]["uid"], self.checker.now())
            if self.checker.holds(pod) and ran > most + START_TIMEOUT_AND_MORE:
                name = pod["metadata"]["name"]
                self.checker.say(f"{name} runs for {ran:.0f} s, and its time limit is {self.asked.limit}")

    def closed(self, waiting: list[Object]) -> None:
        """It is refused as new work: its queue must be closed, and these pods not among those accepted before."""
        facts = self.checker.queues[self.asked.queue]
        if facts.closed_since is None:
            self.checker.say(f"{self.title} is said to wait for queue {self.asked.queue}, which is open")
            return
        living = sum(not _ended(pod) for pod in self.pods)
        for pod in waiting:
            accepted = [facts.accepted[uid] for uid in self.checker.roots(pod) & facts.accepted.keys()]
            if any(replicas is None or replicas >= living for replicas in accepted):
                name = pod["metadata"]["name"]
                self.checker.say(f"{name} is refused by a queue that accepted {self.title} before it was closed")
                return

    def over_quota(self) -> bool:
        """Whether the whole job asks for more than its queue may ever give: the door refuses it."""
        quota = self.checker.queues[self.asked.queue].quotas[-1][1]
        return quota is not None and self.asked.size * self.asked.cards > quota

    def fits(self, pods: list[Object]) -> bool:
        """Whether these pods could be placed now, and no gang of a strict queue is before them."""
        strict = self.checker.queues[self.asked.queue].strict
        return not strict and self.asked.storage != KEPT and self.within_quota(pods) and self.has_room(pods)

    def within_quota(self, pods: list[Object]) -> bool:
        """Whether the queue may pay for these pods."""
        quota = self.checker.queues[self.asked.queue].quotas[-1][1]
        more = sum(map(self.checker.cards, pods))
        return quota is None or self.checker.used(self.asked.queue) + more <= quota

    def has_room(self, pods: list[Object]) -> bool:
        """Whether the nodes have room for these pods, as far as they are alike."""
        zone = self.checker.queues[self.asked.queue].zone
        if self.asked.storage:  # each has a volume of its own, which may lie elsewhere
            return len(pods) == 1 and self.checker.places(pods[0], zone) >= 1
        alike = Counter(map(self.checker.cards, pods))
        return all(
            self.checker.places(next(pod for pod in pods if self.checker.cards(pod) == cards), zone) >= count
            for cards, count in alike.items()
        )


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED
