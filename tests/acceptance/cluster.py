"""A cluster in a process of its own: `python -m tests.acceptance.cluster FOLDER` prints the path of a kubeconfig."""

import asyncio
import sys
from pathlib import Path

from t9ksched.devcluster.agents import Agents
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.presets import load_nodes


async def main(folder: Path) -> None:
    cluster = DevCluster(folder / "cluster", load_nodes("demo"))
    await cluster.start()
    cluster.write_kubeconfig(folder / "kubeconfig")
    agents = Agents(cluster.port_api)
    running = asyncio.create_task(agents.run())
    await agents.synced()
    sys.stdout.write(f"{folder / 'kubeconfig'}\n")
    sys.stdout.flush()
    await running


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
