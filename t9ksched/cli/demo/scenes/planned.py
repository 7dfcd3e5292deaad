"""A large gang gets a planned start: a short job passes it, one without an end does not, and it starts in time."""

from datetime import UTC, datetime, timedelta

from t9ksched.cli.demo import jobs
from t9ksched.cli.demo.jobs import Json
from t9ksched.cli.demo.stage import NAMESPACE, Stage, Unexpected
from t9ksched.kube.resources import CONFIGMAPS, JOBS, PODGROUPS, PODS
from t9ksched.model.names import SYSTEM_NAMESPACE

QUEUE, CARDS = "a100", 8
FIRST, LARGE, SHORT, ENDLESS = "evening", "atlas", "quick", "endless"
LIMIT, SHORTER, REPLICAS = "2m", "5s", 4
ALLOWANCE = timedelta(seconds=2)
"""A planned start may become later by its resolution and a cycle."""
CONFIGURATION = """\
actions: allocate
tiers:
- plugins: [{name: basic}, {name: resource}, {name: affinity}, {name: predicates}, {name: binpack}]
planning: {enabled: true, resolution: 1s}
"""


async def play(stage: Stage) -> None:
    """Take half of the nodes for a while, and submit a gang that needs all of them."""
    about = {"name": "scheduler-config", "namespace": SYSTEM_NAMESPACE}
    async with stage.step("an administrator turns planning on (ConfigMap scheduler-config)"):
        data = {"scheduler.conf": CONFIGURATION}
        await stage.kube.create(CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data})
    async with stage.step(f"a gang of 2 × {CARDS} cards with a time limit of {LIMIT} runs"):
        group, *members = jobs.limited_group(FIRST, QUEUE, 2, CARDS, LIMIT)
        await stage.kube.create(PODGROUPS, group, NAMESPACE)
        for member in members:
            await stage.kube.create(PODS, member, NAMESPACE)
        await stage.running("PodGroup", FIRST, 2)
    async with stage.step(f"a gang of {REPLICAS} × {CARDS} cards waits, and explain says when it starts") as step:
        await stage.submit(jobs.pytorch(LARGE, QUEUE, REPLICAS, CARDS))
        plan = await _planned(stage, 180)
        reason = (await stage.explain("PyTorchTrainingJob", LARGE))["reasons"][0]
        step.note = f"why: {reason['code']}: {reason['message']}"
    async with stage.step("a job of 4 cards that ends before that starts at once"):
        await stage.kube.create(JOBS, jobs.batch(SHORT, QUEUE, 4, seconds=1, deadline=2), NAMESPACE)
        await stage.until(
            f"{SHORT} running", lambda: stage.job("Job", SHORT), lambda job: job["phase"] in ("Running", "Succeeded")
        )
    async with stage.step("one without an end would still run then: it waits, and the planned start stays") as step:
        await stage.submit(jobs.pytorch(ENDLESS, QUEUE, 1, CARDS))
        answer = await stage.until(
            "a reason to wait",
            lambda: stage.explain("PyTorchTrainingJob", ENDLESS),
            lambda answer: any(reason["code"] == "HeldForOther" for reason in answer["reasons"]),
        )
        step.note = f"why: HeldForOther: {answer['reasons'][0]['message']}"
        plan = await _not_later(stage, plan)
    async with stage.step(
        f"the first gang needs {SHORTER} only: its limit is shortened, and the start moves earlier"
    ) as step:
        path = f"/apis/v1/workloads/{NAMESPACE}/PodGroup/{FIRST}/actions/update"
        await stage.post(path, {"timeLimit": SHORTER})
        plan = await _planned(stage, 60) or plan
        step.note = f"planned start: {plan['at']}"
    async with stage.step("it reaches its limit, and the large gang starts whole, in time") as step:
        await stage.running("PyTorchTrainingJob", LARGE, REPLICAS)
        began = (await stage.job("PyTorchTrainingJob", LARGE))["startedAt"]
        if _moment(began) > _moment(plan["at"]) + ALLOWANCE:
            raise Unexpected(f"it started at {began}, and was planned for {plan['at']}")
        step.note = f"started at {began}; {plan['at']} was the latest"
    async with stage.step("all of them are cancelled, and planning is turned off"):
        for name in (LARGE, ENDLESS):
            await stage.cancel("PyTorchTrainingJob", name)
        await stage.cancel("PodGroup", FIRST)
        await stage.cancel("Job", SHORT)
        await stage.kube.delete(CONFIGMAPS, about["name"], SYSTEM_NAMESPACE)
        await stage.holding("PyTorchTrainingJob", LARGE, 0)


async def _planned(stage: Stage, within: float = 1e9) -> Json:
    """The planned start of the large gang, once it is no further away than so many seconds: as long as the first gang
    does not run it might begin late. Empty if it has started already.
    """

    def good(job: Json) -> bool:
        if job["members"]["bound"]:
            return True
        at = (job.get("plannedStart") or {}).get("at")
        return at is not None and (_moment(at) - datetime.now(UTC)).total_seconds() < within

    job = await stage.until(f"a planned start of {LARGE}", lambda: stage.job("PyTorchTrainingJob", LARGE), good)
    return dict(job.get("plannedStart") or {})


async def _not_later(stage: Stage, plan: Json) -> Json:
    """The plan as it is now; what came later must not have moved it later."""
    now = await _planned(stage) or plan
    if _moment(now["at"]) > _moment(plan["at"]) + ALLOWANCE:
        raise Unexpected(f"its planned start moved from {plan['at']} to {now['at']}")
    return now


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
