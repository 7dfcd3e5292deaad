"""The queue service used by several people: members, managers, strangers, and users with kubectl only."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.acceptance.conftest import Up, request, until

LAB = "/apis/v1/admin/queues/lab"
QUOTA = {"quota": {"requests": {"nvidia.com/gpu": "2"}}}


class People:
    """Tokens of several users of one service, and what they see."""

    def __init__(self, up: Up) -> None:
        self.up = up
        self.tokens = {
            "ann": up.must("token", "create", "ann", "--group", "nlp").strip(),
            "bob": up.must("token", "create", "bob").strip(),
            "vic": up.must("token", "create", "vic", "--role", "viewer", "--group", "nlp").strip(),
            "mona": up.must("token", "create", "mona", "--role", "manager", "--queue", "lab").strip(),
        }

    def cli(self, who: str, *arguments: str, stdin: str = "") -> tuple[int, str]:
        done = self.up.cli(*arguments, "--token", self.tokens[who], stdin=stdin)
        return done.code, done.out + done.err

    def must(self, who: str, *arguments: str, stdin: str = "") -> str:
        code, told = self.cli(who, *arguments, stdin=stdin)
        assert code == 0, told
        return told

    def rest(self, who: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return request(method, self.up.server + path, self.tokens[who], body)

    def queues(self, who: str) -> dict[str, Any]:
        return {queue["name"]: queue for queue in self.rest(who, "GET", "/apis/v1/queues")[1]["items"]}

    def may(self, who: str, **more: Any) -> dict[str, Any]:
        return dict(self.rest(who, "POST", "/apis/v1/access-reviews", {"queue": "lab", **more})[1])


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    service = Up(tmp_path_factory.mktemp("service") / "data", "--nodes", "small")
    try:
        assert service.rest("POST", "/apis/v1/admin/queues", {"name": "lab", "spec": QUOTA})[0] == 201
        yield People(service)
        assert service.audit().ok
        assert "Traceback" not in service.log
    finally:
        assert service.stop() == 0


def pod(name: str, gpus: int = 1, queue: str | None = None) -> dict[str, Any]:
    labels = {"scheduler.tensorstack.dev/queue": queue} if queue else {}
    limits = {"nvidia.com/gpu": gpus, "cpu": "100m", "memory": "64Mi"}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits, "requests": limits}}
    scheduler = {"schedulerName": "t9k-scheduler"} if queue else {}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **scheduler}}


def submit(people: People, who: str, name: str, *options: str, gpus: int = 1) -> tuple[int, str]:
    return people.cli(who, "submit", "-f", "-", "--queue", "lab", *options, stdin=json.dumps(pod(name, gpus)))


def test_members_are_made_by_a_manager_and_count_at_once(people: People) -> None:
    assert "lab" not in people.queues("ann")
    assert (people.may("ann")["allowed"], people.may("ann")["code"]) == (False, "QueueNotPermitted")
    code, told = submit(people, "ann", "early")
    assert (code, "QueueNotPermitted" in told) == (1, True)
    assert people.cli("ann", "queues", "members", "lab", "--add-user", "ann")[0] == 1
    people.must("mona", "queues", "members", "lab", "--add-group", "nlp", "--max-priority", "5")
    seen = people.queues("ann")["lab"]
    assert seen["access"] == {"rule": "group:nlp", "maxPriority": 5}
    assert seen["members"]["groups"] == ["nlp"]
    assert "lab" in people.queues("vic")
    assert "lab" not in people.queues("bob")
    assert people.may("ann", priority=5)["allowed"]
    review = people.may("ann", priority=9)
    assert (review["allowed"], review["rule"], review["code"]) == (False, "group:nlp", "PriorityAboveMaximum")
    assert people.may("mona")["rule"] == "manager"
    assert people.may("mona", user="ann")["rule"] == "group:nlp"
    assert people.rest("bob", "POST", "/apis/v1/access-reviews", {"queue": "lab", "user": "ann"})[0] == 403
    code, told = submit(people, "vic", "viewers")
    assert (code, "Forbidden" in told) == (1, True)
    code, told = submit(people, "ann", "high", "--priority", "9")
    assert code == 1, told


def test_a_members_job_runs_and_no_other_users_does(people: People) -> None:
    assert submit(people, "ann", "anns", gpus=2)[0] == 0
    people.must("ann", "wait", "pod/anns", "--for", "running", "--timeout", "150s")
    status = until(
        lambda: (found := people.queues("ann")["lab"]["status"])["allocated"].get("nvidia.com/gpu") == "2" and found,
        "what is held",
    )
    assert status["free"] == {"nvidia.com/gpu": "0"}
    assert people.rest("bob", "GET", "/apis/v1/workloads/default/Pod/anns")[0] == 404
    code, told = submit(people, "bob", "bobs")
    assert (code, "QueueNotPermitted" in told) == (1, True)
    assert people.up.kube("POST", "/api/v1/namespaces/default/pods", pod("kubectls", queue="lab"))[0] == 201
    unknown = "its submitter is unknown"  # once nobody said so for a moment
    told = until(lambda: unknown in (out := people.up.must("explain", "pod/kubectls")) and out, "a reason")
    assert "SubmitterUnknown" in told
    refused = until(
        lambda: people.up.rest("GET", "/apis/v1/workloads/default/Pod/kubectls/history")[1]["items"], "its history"
    )
    assert [event["detail"]["codes"] for event in refused if event["event"] == "refused"] == [["SubmitterUnknown"]]
    people.up.must("cancel", "pod/kubectls", "--yes")


def test_a_manager_decides_about_what_waits(people: People) -> None:
    assert submit(people, "ann", "second")[0] == 0
    until(lambda: "QuotaExceeded" in people.must("ann", "explain", "pod/second"), "a reason")
    assert people.cli("ann", "hold", "pod/second")[0] == 1
    assert people.cli("bob", "hold", "pod/second")[0] == 1
    people.must("mona", "hold", "pod/second")
    until(lambda: "held by mona" in people.must("ann", "explain", "pod/second"), "the hold")
    code, told = people.cli("ann", "update", "pod/second", "--priority", "80")
    assert (code, "Forbidden" in told) == (1, True), "its submitter does not raise it"
    people.must("mona", "prioritise", "pod/second", "--priority", "80")
    until(
        lambda: people.rest("ann", "GET", "/apis/v1/workloads/default/Pod/second")[1]["priority"] == 80, "its priority"
    )
    assert people.cli("bob", "update", "pod/second", "--priority", "70")[0] == 1
    assert "has priority 70 now" in people.must("ann", "update", "pod/second", "--priority", "70")
    people.must("mona", "release", "pod/second")
    until(
        lambda: people.rest("ann", "GET", "/apis/v1/workloads/default/Pod/second")[1]["priority"] == 70, "its priority"
    )
    told = [event["event"] for event in people.rest("mona", "GET", "/apis/v1/admin/audit?queue=lab")[1]["items"]]
    assert {"job-held", "job-prioritised", "job-released", "queue-members-changed"} <= set(told)
    code, told_ = people.cli("mona", "hold", "pod/anns")
    assert (code, "Conflict" in told_) == (1, True), "what runs is not held"


def test_a_lowered_quota_shows_the_excess_and_evicts_no_job(people: People) -> None:
    people.up.must("queues", "edit", "lab", "--quota", "nvidia.com/gpu=1")
    status = people.rest("mona", "GET", LAB)[1]["status"]
    assert (status["free"], status["excess"]) == ({"nvidia.com/gpu": "0"}, {"nvidia.com/gpu": "1"})
    assert people.rest("ann", "GET", "/apis/v1/workloads/default/Pod/anns")[1]["phase"] == "Running"
    people.up.must("queues", "edit", "lab", "--quota", "nvidia.com/gpu=2")


def test_a_stop_is_shown_everywhere_and_ends_by_itself(people: People) -> None:
    assert people.cli("mona", "stop-scheduling")[0] == 1
    people.up.must("stop-scheduling", "--why", "switches")
    people.must("ann", "cancel", "pod/anns", "--yes")
    for command in (("jobs",), ("queues", "list"), ("explain", "pod/second")):
        assert "scheduling is stopped by admin" in people.must("ann", *command), command
    assert people.rest("ann", "GET", "/apis/v1/stops")[1]["items"][0]["why"] == "switches"
    with_metrics = people.up.rest("GET", "/apis/v1/workloads")[1]["stopped"]
    assert [stop["what"] for stop in with_metrics] == ["scheduling"]
    assert people.rest("ann", "GET", "/apis/v1/workloads/default/Pod/second")[1]["phase"] == "Pending"
    people.up.must("stop-scheduling", "--for", "2s")
    people.must("ann", "wait", "pod/second", "--for", "running", "--timeout", "150s")
    assert people.rest("ann", "GET", "/apis/v1/stops")[1]["items"] == []
    assert "is stopped" not in people.must("ann", "jobs")


def test_a_used_queue_is_not_deleted_by_accident(people: People) -> None:
    code, told = people.cli("mona", "queues", "delete", "lab", "--yes")
    assert (code, "Forbidden" in told) == (1, True)
    refused = people.up.cli("queues", "delete", "lab", "--yes")
    assert (refused.code, "unfinished job" in refused.err) == (1, True)
    people.must("mona", "queues", "drain", "lab")
    assert "draining" in people.up.must("queues", "list")
    code, told = submit(people, "ann", "late")
    assert (code, "QueueClosed" in told, "is draining" in told) == (1, True, True)
    assert ("this one is being emptied" in told, "is closed" in told) == (True, False)
    assert people.rest("ann", "GET", "/apis/v1/workloads/default/Pod/second")[1]["phase"] == "Running"
    people.must("mona", "queues", "open", "lab")
    people.up.must("queues", "delete", "lab", "--yes", "--jobs", "cancel")
    assert until(lambda: not people.up.pods(), "no pods")
    assert people.rest("mona", "GET", LAB)[0] == 404


def test_usage_is_told_to_whom_it_belongs(people: People) -> None:
    def told() -> list[dict[str, Any]] | None:
        rows = json.loads(people.up.must("usage", "--by", "user,model", "-o", "json"))["items"]
        assert {row["user"] for row in rows} <= {"ann"}
        return rows if sum(row["jobs"] for row in rows) == 2 else None

    everybody = until(told, "the usage of both jobs")
    assert len(everybody) == 1
    assert everybody[0]["model"] != "unknown"
    assert everybody[0]["gpuHours"] > 0
    assert json.loads(people.must("bob", "usage", "-o", "json"))["items"] == []
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # a job that goes on counts more a moment later

    def total(by: str) -> float:
        told = json.loads(people.up.must("usage", "--by", by, "--until", now, "-o", "json"))
        return float(told["total"]["gpuHours"])

    assert total("card") == pytest.approx(total("queue"))
