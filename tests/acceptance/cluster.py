"""A cluster in a process of its own: `python -m tests.acceptance.cluster FOLDER` prints where its kubeconfigs are.

It is a dev cluster, or the server of `T9KSCHED_TEST_KUBECONFIG` with the demo's nodes and their kubelets played there,
and the usual controllers too where it has none. The kubeconfigs are the administrator's and those of the service
accounts of deploy/rbac.yaml. It ends when its input does, and takes its nodes, jobs and queues away: the next one, with
a database of its own, finds the server as this one did.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from t9ksched.devcluster.agents import Agents, register
from t9ksched.devcluster.nodes.presets import load_nodes
from t9ksched.kube.errors import AlreadyExists, NotFound
from t9ksched.kube.resources import JOBS, NODES, PODGROUPS, PODS, QUEUES, SERVICEACCOUNTS
from t9ksched.kube.setup.rbac import ROLES
from t9ksched.model.api_resource import Resource
from t9ksched.model.names import SYSTEM_NAMESPACE
from tests.integration.accounts import EVERYTHING
from tests.integration.collector import collect
from tests.integration.world import TIMEOUT, World, new_world
from tests.kinds import MPIJOBS, NOTEBOOKS, PYTORCHTRAININGJOBS


@asynccontextmanager
async def demo_nodes(world: World) -> AsyncIterator[Agents]:
    """The demo's nodes, played."""
    async with AsyncExitStack() as stack:
        names = []
        for node in load_nodes("demo"):
            names.append(node["metadata"]["name"])
            with suppress(NotFound):  # of a run that was killed
                await world.client.delete(NODES, names[-1])
            world.goes_with_it(NODES, names[-1])
            await register(world.client, node)
        agents = Agents(world.client, nodes=names, controllers=not world.controllers, faults=world.faults)
        agents.begin()
        stack.push_async_callback(agents.stop)
        await agents.synced()
        if world.real and not world.controllers:
            with suppress(AlreadyExists):
                await world.client.create(SERVICEACCOUNTS, {"metadata": {"name": "default"}}, "default")
            stack.callback(asyncio.create_task(collect(world.client, "default")).cancel)
        before = await jobs(world)
        queues = await queue_names(world) if world.real else set()
        yield agents
        if world.real:
            for name in await queue_names(world) - queues:
                with suppress(NotFound):
                    await world.client.delete(QUEUES, name, SYSTEM_NAMESPACE)
            for name, res in (await jobs(world)).items():
                if name not in before:
                    with suppress(NotFound):
                        await world.client.delete(res, name[1], "default", grace=0, propagation="Background")
            async with asyncio.timeout(TIMEOUT):  # owners first: what they owned goes after them
                while (await jobs(world)).keys() - before.keys():  # noqa: ASYNC110
                    await asyncio.sleep(0.2)


async def jobs(world: World) -> dict[tuple[str, str], Resource]:
    """What tests submit to the default namespace, by kind and name."""
    found = {}
    for res in (PYTORCHTRAININGJOBS, MPIJOBS, NOTEBOOKS, JOBS, PODGROUPS, PODS):
        for item in (await world.client.list(res, "default")).items:
            found[res.kind, item["metadata"]["name"]] = res
    return found


async def queue_names(world: World) -> set[str]:
    """The queues that the server has."""
    return {queue["metadata"]["name"] for queue in (await world.client.list(QUEUES, SYSTEM_NAMESPACE)).items}


async def main(folder: Path) -> None:
    async with new_world(folder) as world, demo_nodes(world):
        told = {name: str(await world.account_file(name)) for name in (*ROLES, EVERYTHING)}
        sys.stdout.write(json.dumps({"admin": str(world.kubeconfig), **told}) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
