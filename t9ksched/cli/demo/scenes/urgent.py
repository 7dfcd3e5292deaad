"""An urgent queue takes the room of exactly one lower gang, and an event tells that gang's owner for which gang and
why.
"""

from t9ksched.cli.demo import jobs
from t9ksched.cli.demo.jobs import GPU, Json
from t9ksched.cli.demo.scenes.queues import POOLS
from t9ksched.cli.demo.stage import NAMESPACE, Stage, Unexpected
from t9ksched.kube.resources import CONFIGMAPS, EVENTS
from t9ksched.model.names import EVENT_PREEMPTED, SYSTEM_NAMESPACE

KIND, LOWER, URGENT, CARDS = "PyTorchTrainingJob", "tune", "hotfix", 4
UNTOUCHED = ("MPIJob", "walk", 4)
CONFIGURATION = """\
actions: "allocate,preempt"
tiers:
- plugins: [{name: basic}, {name: resource}, {name: affinity}, {name: predicates}, {name: binpack}]
"""


async def play(stage: Stage) -> None:
    """Allow preemption, fill the pool, and submit something urgent."""
    async with stage.step("an administrator allows preemption (ConfigMap scheduler-config)"):
        metadata = {"name": "scheduler-config", "namespace": SYSTEM_NAMESPACE}
        data = {"scheduler.conf": CONFIGURATION}
        await stage.kube.create(
            CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        )
    async with stage.step("queue urgent: priority 90 against 10, on the same A40 nodes"):
        spec = {
            "priority": 90,
            "quota": {"requests": {GPU: "8"}},
            "nodeSelector": {"matchLabels": {"nvidia.com/gpu.product": POOLS["a40"]}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        }
        await stage.post("/apis/v1/admin/queues", {"name": "urgent", "labels": {}, "spec": spec})
    async with stage.step(f"{KIND} {LOWER} takes the last {CARDS} A40 cards"):
        await stage.submit(jobs.pytorch(LOWER, "a40", 1, CARDS))
        await stage.running(KIND, LOWER, 1)
    async with stage.step(f"{KIND} {URGENT} in queue urgent: {CARDS} cards; it starts, and {LOWER} is evicted") as step:
        await stage.submit(jobs.pytorch(URGENT, "urgent", 1, CARDS))
        await stage.running(KIND, URGENT, 1)
        step.note = f"{LOWER}'s owner reads: {await _why(stage)}"
    async with stage.step("no other job was touched"):
        kind, name, members = UNTOUCHED
        job = await stage.job(kind, name)
        if job["members"]["running"] != members:
            raise Unexpected(f"{job['members']['running']} of {members} members of {name} run")


async def _why(stage: Stage) -> str:
    """The event on the evicted job."""

    async def look() -> Json:
        events = (await stage.kube.list(EVENTS, NAMESPACE)).items
        mine = [event for event in events if event["involvedObject"]["name"] == LOWER]
        return next((event for event in mine if event["reason"] == EVENT_PREEMPTED), {})

    return str((await stage.until(f"an event {EVENT_PREEMPTED} on {LOWER}", look, bool))["message"])
