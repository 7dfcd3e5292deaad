"""A gang of two pods with six cards each: more than is free, so none of it starts until all of it can."""

from typing import Any

from t9ksched.cli.demo import jobs
from t9ksched.cli.demo.scenes.foreign import NAME as FOREIGN
from t9ksched.cli.demo.stage import NAMESPACE, Stage, Unexpected
from t9ksched.kube.resources import PODS

KIND, NAME, REPLICAS, CARDS = "PyTorchTrainingJob", "llama", 2, 6


def _codes(answer: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in answer["reasons"]] or ["GangIncomplete"]


async def play(stage: Stage) -> None:
    """Submit it, read why it waits, make room, and see it start whole."""
    async with stage.step(f"{KIND} {NAME}: {REPLICAS} replicas × {CARDS} cards; it waits") as step:
        await stage.submit(jobs.pytorch(NAME, "a100", REPLICAS, CARDS))
        answer = await stage.until(
            "a reason to wait",
            lambda: stage.explain(KIND, NAME),
            # Before its pods are made the reason is that there are none.
            lambda answer: answer["verdict"] == "Waiting" and "GangIncomplete" not in _codes(answer),
        )
        reason = answer["reasons"][0]
        step.note = f"why: {reason['code']}: {reason['message']}"
    async with stage.step("none of its pods has started"):
        job = await stage.job(KIND, NAME)
        if job["members"]["bound"] or job["members"]["running"]:
            raise Unexpected(f"{job['members']['bound']} of its pods are bound")
    async with stage.step("the other scheduler's pod goes, and the gang starts whole") as step:
        await stage.kube.delete(PODS, FOREIGN, NAMESPACE)
        await stage.running(KIND, NAME, REPLICAS)
        step.note = f"{REPLICAS} of {REPLICAS} running"
