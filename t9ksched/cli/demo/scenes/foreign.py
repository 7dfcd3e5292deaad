"""A pod that the cluster's default scheduler placed uses cards too: they are charged, and the pod is never touched."""

from t9ksched.cli.demo import jobs
from t9ksched.cli.demo.scenes.queues import POOLS
from t9ksched.cli.demo.stage import NAMESPACE, Stage
from t9ksched.kube.resources import PODS

NAME, CARDS = "someone-else", 4


async def play(stage: Stage) -> None:
    """Create the pod through the Kubernetes API, as a user without t9ksched would."""
    async with stage.step(f"a plain pod with {CARDS} A100 cards, created through the Kubernetes API") as step:
        pod = jobs.foreign_pod(NAME, CARDS, {"nvidia.com/gpu.product": POOLS["a100"]})
        await stage.kube.create(PODS, pod, NAMESPACE)
        held = await stage.holding("Pod", NAME, CARDS)
        step.note = "charged on " + ", ".join(held)
