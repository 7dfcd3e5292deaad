"""An administrator creates two queues: their nodes, their numbers of cards, and their members."""

from t9ksched.cli.demo.jobs import GPU
from t9ksched.cli.demo.stage import NAMESPACE, Stage
from t9ksched.kube.resources import NAMESPACES

POOLS = {"a100": "NVIDIA-A100-PCIE-80GB", "a40": "NVIDIA-A40-40GB"}
QUOTAS = {"a100": 32, "a40": 16}


async def play(stage: Stage) -> None:
    """Make the namespace and the queues."""
    async with stage.step(f"namespace {NAMESPACE}, for the team that will use them"):
        await stage.kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for name, product in POOLS.items():
        async with stage.step(f"queue {name}: at most {QUOTAS[name]} cards, only on nodes with {product}"):
            await stage.post(
                "/apis/v1/admin/queues",
                {
                    "name": name,
                    "labels": {},
                    "spec": {
                        "priority": 10,
                        "quota": {"requests": {GPU: str(QUOTAS[name])}},
                        "nodeSelector": {"matchLabels": {"nvidia.com/gpu.product": product}},
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                    },
                },
            )
