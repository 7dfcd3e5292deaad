"""Two schedulers on one PostgreSQL: the leader is frozen, thaws, is asked to stop, and the other one takes over."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t9ksched.kube.errors import NotFound
from t9ksched.kube.resources import LEASES, PODS
from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.kube.transport.config import connect
from t9ksched.kube.write.standby import lease_of
from t9ksched.model.names import SCHEDULER_NAME, SYSTEM_NAMESPACE
from tests.acceptance.conftest import TIMEOUT_SECONDS, Cluster, until
from tests.acceptance.test_soak import Processes
from tests.postgresql import postgresql

pytestmark = pytest.mark.postgres
LEASE = "t9k-scheduler"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    cluster = Cluster(tmp_path)
    try:
        with postgresql() as database:
            made = Processes(database, database.create("takeover"), cluster.pid, cluster.kubeconfigs, tmp_path)
            try:
                yield made
            finally:
                made.stop()
    finally:
        cluster.stop()


def ask(processes: Processes, verb: str, *arguments: Any) -> Any:
    """One request to the cluster as its administrator; None for what is not there."""

    async def once() -> Any:
        async with connect(processes.kubeconfigs["admin"]) as client:
            try:
                return await getattr(client, verb)(*arguments)
            except NotFound:
                return None

    return asyncio.run(once())


def holder(processes: Processes, name: str = LEASE) -> int:
    """The process that holds a lease; 0 for none."""
    lease = ask(processes, "get", LEASES, name, SYSTEM_NAMESPACE)
    return int(((lease or {"spec": {}})["spec"].get("holderIdentity") or "_0").rpartition("_")[2])


def pod(name: str) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "x", "resources": {"limits": amounts, "requests": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container]},
    }


def bound(processes: Processes, name: str) -> str:
    """Where a pod was put, once it was."""
    return str(until(lambda: ask(processes, "get", PODS, name, "default")["spec"].get("nodeName"), f"{name}'s node"))


def test_a_frozen_leader_is_succeeded_and_writes_nothing_more(processes: Processes) -> None:
    logs = [processes.start(SCHEDULER, "scheduler") for _ in range(2)]
    leader = until(lambda: holder(processes), "a leader")
    first, second = sorted(processes.running, key=lambda one: one.pid != leader)
    until(lambda: holder(processes, lease_of(LEASE)) == second.pid, "the standby's report")
    ask(processes, "create", PODS, pod("before"), "default")
    bound(processes, "before")

    first.send_signal(signal.SIGSTOP)
    try:
        ask(processes, "create", PODS, pod("after"), "default")
        bound(processes, "after")
        assert holder(processes) == second.pid
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait(TIMEOUT_SECONDS) == 1, "who lost its lease ends, for a Deployment to start it again"
    assert holder(processes) == second.pid
    log = logs[processes.running.index(first)].read_text()
    assert "was lost" in log
    assert "Traceback" not in log

    second.send_signal(signal.SIGTERM)
    assert second.wait(TIMEOUT_SECONDS) == 0
    lease = ask(processes, "get", LEASES, LEASE, SYSTEM_NAMESPACE)["spec"]
    assert (lease["holderIdentity"], lease["leaseDurationSeconds"]) == ("", 1), "given back, no standby need wait"


def test_a_standby_stops_in_order(processes: Processes) -> None:
    processes.start(SCHEDULER, "scheduler")
    leader = until(lambda: holder(processes), "a leader")
    log = processes.start(SCHEDULER, "scheduler")
    standby = processes.running[1]
    until(lambda: holder(processes, lease_of(LEASE)) == standby.pid, "the standby's report")
    assert "scheduling" not in {json.loads(line)["event"] for line in log.read_text().splitlines()}
    standby.send_signal(signal.SIGTERM)
    assert standby.wait(TIMEOUT_SECONDS) == 0
    assert "Traceback" not in log.read_text()
    assert holder(processes) == leader
