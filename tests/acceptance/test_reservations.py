"""Reservations that evict what is in their way: by command and REST, from outside."""

import json
from datetime import UTC, datetime, timedelta

from tests.acceptance.conftest import EXAMPLES, Json, Up, request, until

PATH = "/apis/v1/admin/reservations"
JOB = str(EXAMPLES / "pytorch.yaml")


def test_a_reservation_evicts_what_is_in_its_way_and_the_job_runs_elsewhere(up: Up) -> None:
    up.must("submit", "-f", JOB)
    try:
        up.must("wait", "pj/resnet", "--for", "running")
        pods = [pod for pod in up.pods() if pod["metadata"]["name"].startswith("resnet")]
        node = pods[0]["spec"]["nodeName"]
        begin = datetime.now(UTC) + timedelta(seconds=4)
        times = ("--from", f"{begin:%Y-%m-%dT%H:%M:%SZ}", "--to", f"{begin + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}")
        asked = ("create", "firmware", "--maintenance", "--node", node, *times)
        refused = up.cli("reservations", *asked)
        assert (refused.code, "PyTorchTrainingJob/resnet holds" in refused.err) == (1, True), refused.err
        assert "--on-conflict: 'Evict' is unknown" in up.cli("reservations", *asked, "--on-conflict", "Evict").err
        assert "--force: has an effect only with" in up.cli("reservations", *asked, "--force").err
        preempt = (*asked, "--on-conflict", "Preempt", "--note", "firmware")
        told = up.must("reservations", *preempt, "--dry-run")
        assert "PyTorchTrainingJob/resnet" in told
        assert "of its pods are evicted" in told
        token = json.loads(up.must("token", "create", "mia", "--role", "manager", "--queue", "default", "-o", "json"))
        status, problem = request("POST", up.server + PATH, token["token"], {})
        assert (status, problem["code"]) == (422, "InvalidField")
        up.must("reservations", *preempt)

        def elsewhere() -> bool:
            names = {
                pod["spec"].get("nodeName", "") for pod in up.pods() if not pod["metadata"].get("deletionTimestamp")
            }
            return bool(names) and "" not in names and node not in names

        until(elsewhere, "the job on other nodes")

        def evicted() -> list[Json]:
            status, page = up.rest("GET", "/apis/v1/workloads/default/PyTorchTrainingJob/resnet/history")
            assert status == 200, page
            return [one for one in page["items"] if one["event"] == "preempted"]

        until(lambda: len(evicted()) >= len(pods), "evictions that are told")
        assert {one["detail"]["reservation"] for one in evicted()} == {"firmware"}
        assert len(evicted()) == len(pods), "each pod once"
        assert up.audit().ok, str(up.audit())
    finally:
        up.must("cancel", "pj/resnet", "--yes")
        up.cli("reservations", "delete", "firmware", "--yes")
        until(lambda: up.held() == 0, "free cards")
