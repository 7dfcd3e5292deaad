"""Against a cluster that the test does not run: everything in one process, and one role a process on PostgreSQL."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from t9ksched.cli.manifests.chart import objects, render
from t9ksched.cli.manifests.overrides import given
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
        for name in ("t9k-scheduler", "t9ksched-controller"):
            lease = up.kube("GET", f"/apis/coordination.k8s.io/v1/namespaces/t9k-system/leases/{name}")[1]
            assert lease["spec"]["holderIdentity"].endswith(f"_{up.process.pid}")
        assert up.audit().ok, str(up.audit())
    finally:
        assert up.stop() == 0


@pytest.mark.postgres
def test_one_role_a_process(tmp_path: Path, cluster: Cluster, postgres: str) -> None:
    """Processes as `t9ksched manifests` describes them: two of each role, of which one schedules and one makes pods."""
    secret = {
        "T9KSCHED_DB": postgres,
        "T9KSCHED_INTERNAL_SECRET": "shared by those of the test",
        "T9KSCHED_ADMIN_TOKEN": ADMIN,
    }
    roles = list(deployed(secret))
    logs = [tmp_path / f"{number}-{account}.log" for number, (account, *_) in enumerate(roles)]
    processes = []
    try:
        for (account, arguments, variables), log in zip(roles, logs, strict=True):
            mine = environment() | variables | {"T9KSCHED_KUBECONFIG": str(cluster.kubeconfigs[account])}
            with log.open("w") as lines:
                processes.append(forkserver.start("t9ksched", arguments, mine, stderr=lines))
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
        scrapes = [until(lambda log=log: _told(log, "probes"), "probes") for log in logs[2:4]]  # type: ignore[misc]
        working = ['"leading"' in log.read_text() for log in logs[2:4]]
        assert sorted(working) == [False, True]
        told = [metrics(one) for one in scrapes]
        assert told[working.index(False)] == {"t9ksched_controller_leading": 0}
        assert told[working.index(True)]["t9ksched_controller_reconciles"] > 0
        assert told[working.index(True)]["t9ksched_controller_workloads"] == 1
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


def deployed(secret: dict[str, str]) -> Iterator[tuple[str, tuple[str, ...], dict[str, str]]]:
    """Account, arguments and variables of each pod that the Deployments make, on free ports of this machine."""
    here = {"0.0.0.0": "127.0.0.1", "8080": "0", "8081": "0", "8090": "0", "8091": "0"}
    for item in objects(render(given((), ()))):
        if item["kind"] != "Deployment":
            continue
        pod = item["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        variables = secret.copy() if "envFrom" in container else {}
        for one in container["env"]:
            if "value" in one:
                variables[one["name"]] = here.get(one["value"], one["value"])
            elif "secretKeyRef" in one["valueFrom"]:
                variables[one["name"]] = secret[one["valueFrom"]["secretKeyRef"]["key"]]
        variables.pop("T9KSCHED_INTERNAL_ADDRESS", None)  # the pod's, by which others reach it
        arguments = tuple(here.get(word, word) for word in container["args"])
        for _ in range(item["spec"]["replicas"]):
            yield pod["serviceAccountName"], arguments, variables


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
