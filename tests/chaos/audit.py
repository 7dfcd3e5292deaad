"""The audit of a cluster at rest: gangs whole or not there, and every job accounted for with a reason that is true."""

from typing import Any

from t9ksched.store.jobs import JobRecord
from tests.chaos.witness import ENDED, GPU, GROUP
from tests.chaos.world import World

Object = dict[str, Any]


async def audit_at_rest(world: World) -> None:
    """Tell the witness whatever is not as it must be."""
    witness = world.witness
    for text in witness.partial():
        witness.say(f"partial gang at rest: {text}")
    for finding in world.agents.audit().findings:
        if finding.kind == "NodeMissing":
            witness.say(f"{finding.kind} on {finding.node}: {finding.detail}")
    store = world.store()
    try:
        stored = {(record.kind, record.name): record for record in await store.jobs.list() if not record.deleted_at}
    finally:
        await store.close()
    for name, gang in world.gangs.items():
        pods = _members(world, name)
        Account(world, f"gang {name}", gang.queue, gang.minimum, gang.cards, pods).check(stored.get(("PodGroup", name)))
    for name, pod in world.singles.items():
        labels = pod["metadata"]["labels"]
        asked = int(pod["spec"]["containers"][0]["resources"]["limits"].get(GPU, 0))
        found = [seen for seen in witness.pods.values() if seen["metadata"]["name"] == name]
        queue = labels["scheduler.tensorstack.dev/queue"]
        Account(world, f"pod {name}", queue, 1, asked, found).check(stored.get(("Pod", name)))
    for name, (queue, replicas, cards) in world.jobs.items():
        found = [pod for pod in witness.pods.values() if _owner(pod) == name]
        record = stored.get(("PyTorchTrainingJob", name))
        Account(world, f"job {name}", queue, replicas, cards, found).check(record)


def _members(world: World, group: str) -> list[Object]:
    return [pod for pod in world.witness.pods.values() if (pod["metadata"].get("labels") or {}).get(GROUP) == group]


def _owner(pod: Object) -> str:
    owners = pod["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("name", "")) if owners[0].get("kind") == "PyTorchTrainingJob" else ""


class Account:
    """One job: what it asks for, its pods, and what the scheduler says of it."""

    def __init__(self, world: World, title: str, queue: str, minimum: int, cards: int, pods: list[Object]) -> None:
        self.witness = world.witness
        self.title, self.queue, self.minimum, self.cards, self.pods = title, queue, minimum, cards, pods

    def check(self, record: JobRecord | None) -> None:
        """It ended, it runs, or it waits for a reason that is true."""
        if record is None:
            self.witness.say(f"{self.title} is not in the database")
            return
        if record.phase in ENDED:
            return
        waiting = [pod for pod in self.pods if not pod["spec"].get("nodeName") and not _ended(pod)]
        placed = sum(bool(pod["spec"].get("nodeName")) for pod in self.pods)
        if not waiting:
            if placed < self.minimum:
                self.witness.say(f"{self.title} is {record.phase}, has {placed} of {self.minimum} pods and none waits")
            return
        reason = (record.shape.get("reason") or {}).get("code", "")
        needed = max(1, self.minimum - placed)
        fits = self.fits(waiting[0]["spec"], needed)
        if fits:
            self.witness.say(f"{self.title} waits ({reason or 'no reason'}) although {needed} pods of it could start")
        elif not reason:
            self.witness.say(f"{self.title} waits and nobody says why")
        elif reason == "QuotaExceeded" and self.within_quota(needed):
            self.witness.say(f"{self.title} is said to wait for quota, which would allow {needed} pods")
        elif reason == "InsufficientResources" and self.has_room(waiting[0]["spec"], needed):
            self.witness.say(f"{self.title} is said to wait for room, and there is room for {needed} pods")

    def fits(self, spec: Object, count: int) -> bool:
        """Whether so many pods could be placed now."""
        return self.within_quota(count) and self.has_room(spec, count)

    def within_quota(self, count: int) -> bool:
        """Whether the queue may pay for so many pods more."""
        quota = self.witness.queues[self.queue].quotas[-1][1]
        return quota is None or self.witness.used(self.queue) + count * self.cards <= quota

    def has_room(self, spec: Object, count: int) -> bool:
        """Whether the nodes have room for so many pods more."""
        return self.witness.places(spec, self.witness.queues[self.queue].zone) >= count


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED
