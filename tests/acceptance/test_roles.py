"""Against a cluster that the test does not run: everything in one process, and one role a process on PostgreSQL."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from t9ksched.kube.setup.rbac import API, CONTROLLER, SCHEDULER
from tests import forkserver
from tests.acceptance.conftest import EXAMPLES, Cluster, Up, environment, queue, request, run, until
from tests.integration.accounts import EVERYTHING

ADMIN = "administrator-of-the-test"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


def test_up_on_a_cluster_that_is_there(tmp_path: Path, cluster: Cluster) -> None:
    """With the rights of the three roles, and no more."""
    files = cluster.kubeconfigs
    up = Up(tmp_path / "data", "--kubeconfig", str(files[EVERYTHING]), admin=files["admin"])
    try:
        assert up.rest("POST", "/apis/v1/admin/queues", queue("a100", 32, "NVIDIA-A100-PCIE-80GB"))[0] == 201
        up.must("submit", "-f", str(EXAMPLES / "pytorch.yaml"))
        up.must("wait", "pj/resnet", "--for", "running", "--timeout", "150s")
        assert until(lambda: up.held() == 16, "16 cards")
        lease = up.kube("GET", "/apis/coordination.k8s.io/v1/namespaces/t9k-system/leases/t9k-scheduler")[1]
        assert lease["spec"]["holderIdentity"].endswith(f"_{up.process.pid}")
        assert up.audit().ok, str(up.audit())
    finally:
        assert up.stop() == 0


@pytest.mark.postgres
def test_one_role_a_process(tmp_path: Path, cluster: Cluster, postgres: str) -> None:
    shared = environment() | {
        "T9KSCHED_DB": postgres,
        "T9KSCHED_INTERNAL_SECRET": "shared by those of the test",
        "T9KSCHED_ADMIN_TOKEN": ADMIN,
        "T9KSCHED_LOG_FORMAT": "json",
    }
    arguments = ("scheduler", "--leader-elect=true", "--v=4")
    roles = (arguments, arguments, ("controller",), ("api", "--port", "0"))
    accounts = {"scheduler": SCHEDULER, "controller": CONTROLLER, "api": API}
    logs = [tmp_path / f"{number}-{role[0]}.log" for number, role in enumerate(roles)]
    processes = []
    try:
        for role, log in zip(roles, logs, strict=True):
            mine = shared | {"T9KSCHED_KUBECONFIG": str(cluster.kubeconfigs[accounts[role[0]]])}
            if role is arguments:
                mine |= {"T9KSCHED_HEALTH_PORT": "0"}
            with log.open("w") as lines:
                processes.append(forkserver.start("t9ksched", role, mine, stderr=lines))
        url = until(lambda: _told(logs[-1], "serving"), "the REST service")
        scraped = [until(lambda log=log: _told(log, "probes"), "probes") for log in logs[:2]]  # type: ignore[misc]
        assert until(lambda: request("GET", f"{url}/readyz", ADMIN)[0] == 200, "all roles")
        where = ("--server", url, "--token", ADMIN)
        body = queue("a100", 32, "NVIDIA-A100-PCIE-80GB")
        assert request("POST", f"{url}/apis/v1/admin/queues", ADMIN, body)[0] == 201
        assert run("submit", "-f", str(EXAMPLES / "pytorch.yaml"), *where).code == 0
        waited = run("wait", "pj/resnet", "--for", "running", "--timeout", "150s", *where)
        assert waited.code == 0, waited.err

        leader = 0 if '"scheduling"' in logs[0].read_text() else 1
        assert '"scheduling"' not in logs[1 - leader].read_text()
        pages = [metrics(one) for one in scraped]
        assert pages[1 - leader] == {"t9ksched_leading": 0, "t9ksched_build_info": 1}
        assert pages[leader]["t9ksched_leading"] == 1
        assert pages[leader]["T9kScheduler_node_resource_requests"] > 0
        processes[leader].terminate()
        assert processes[leader].wait(30) == 0
        until(lambda: '"scheduling"' in logs[1 - leader].read_text(), "the other scheduler")
        assert run("submit", "-f", str(EXAMPLES / "notebook.yaml"), *where).code == 0
        waited = run("wait", "nb/lab", "--for", "running", "--timeout", "150s", *where)
        assert waited.code == 0, waited.err
    finally:
        for process in processes:
            process.kill()
            process.wait()


def metrics(probes: str) -> dict[str, float]:
    """The sum of each family's values, as a scraper without a token reads them."""
    with urlopen(f"{probes}/metrics", timeout=60) as answer:
        page = answer.read().decode()
    families = text_string_to_metric_families(page)
    return {family.name: sum(sample.value for sample in family.samples) for family in families if family.samples}


def _told(log: Path, event: str) -> str:
    """The address that a log tells in an event, once it does."""
    for line in log.read_text().splitlines():
        if f'"{event}"' in line:
            return str(json.loads(line)["url"])
    return ""
