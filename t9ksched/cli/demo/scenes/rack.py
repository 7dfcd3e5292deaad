"""A gang that must be in one rack: there is room beside it, but it starts whole where one rack has all of it."""

from t9ksched.cli.demo import jobs
from t9ksched.cli.demo.stage import NAMESPACE, Stage, Unexpected
from t9ksched.kube.resources import NODES, PODGROUPS, PODS

RACKS = {"r1": ("a100-0", "a100-1"), "r2": ("a100-2", "a100-3")}
LABEL = "rack"
KIND, FIRST, TOGETHER, PODS_OF_GANG, CARDS = "PodGroup", "probe", "tensor", 2, 8


async def play(stage: Stage) -> None:
    """Name the racks, take half of one, and submit a gang as large as a rack."""
    async with stage.step("an administrator labels the A100 nodes with their racks, two nodes each"):
        for rack, nodes in RACKS.items():
            for node in nodes:
                await stage.kube.patch(NODES, node, None, {"metadata": {"labels": {LABEL: rack}}})
    async with stage.step(f"a pod takes {CARDS} cards; three nodes are free, one rack is") as step:
        await _submit(stage, FIRST, 1)
        step.note = _where(await stage.holding(KIND, FIRST, CARDS))
    async with stage.step(
        f"a gang of {PODS_OF_GANG} × {CARDS} cards with topologyPolicy Required over {LABEL}"
    ) as step:
        await _submit(stage, TOGETHER, PODS_OF_GANG, topologyPolicy="Required")
        await stage.running(KIND, TOGETHER, PODS_OF_GANG)
        held = await stage.holding(KIND, TOGETHER, PODS_OF_GANG * CARDS)
        racks = {rack for rack, nodes in RACKS.items() if set(nodes) & set(held)}
        if len(racks) != 1:
            raise Unexpected(f"it is spread over {', '.join(sorted(racks))}: {_where(held)}")
        step.note = f"whole in {racks.pop()}: {_where(held)}"
    async with stage.step("both are cancelled"):
        for name in (FIRST, TOGETHER):
            await stage.cancel(KIND, name)
        for name in (FIRST, TOGETHER):
            await stage.holding(KIND, name, 0)


async def _submit(stage: Stage, name: str, pods: int, **spec: str) -> None:
    """A PodGroup and its pods, as `kubectl apply` would make them."""
    group, *members = jobs.pod_group(name, "a100", pods, CARDS, LABEL, **spec)
    await stage.kube.create(PODGROUPS, group, NAMESPACE)
    for member in members:
        await stage.kube.create(PODS, member, NAMESPACE)


def _where(held: dict[str, list[int]]) -> str:
    return "  ".join(f"{node}:{','.join(map(str, cards))}" for node, cards in sorted(held.items()))
