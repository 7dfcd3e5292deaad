"""Whatever is wrong with a request, the answer says what and where; the service goes on and nothing is half made."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import httpx
import pytest
import yaml

from tests.acceptance.conftest import EXAMPLES, Up, environment, run

Json = dict[str, Any]


def _container(job: Json) -> Json:
    container: Json = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    return container


def _resources(**parts: Json) -> Callable[[Json], None]:
    def change(job: Json) -> None:
        resources = _container(job)["resources"]
        for part, amounts in parts.items():
            resources[part] = {**resources.get(part, {}), **amounts}

    return change


def _unknown_queue(job: Json) -> None:
    job["spec"]["scheduler"]["t9kScheduler"]["queue"] = "nowhere"


def _unknown_kind(job: Json) -> None:
    job["kind"] = "TorchJob"


def _long_name(job: Json) -> None:
    _container(job)["name"] = "c" * 44


def _no_cpu(job: Json) -> None:
    resources = _container(job)["resources"]
    for part in ("requests", "limits"):
        resources[part].pop("cpu", None)
    job["spec"]["scheduler"]["t9kScheduler"]["queue"] = "metered"


def _closed(job: Json) -> None:
    job["spec"]["scheduler"]["t9kScheduler"]["queue"] = "closed"


def _nameless(job: Json) -> None:
    job["metadata"] = {}


def _far_too_large(job: Json) -> None:
    job["spec"]["replicaSpecs"][0]["replicas"] = 9


RESOURCES = "spec.replicaSpecs[0].template.spec.containers[0].resources"
CASES: list[tuple[str, Callable[[Json], None], int, str, str]] = [
    ("unknown queue", _unknown_queue, 422, "QueueNotFound", "spec.scheduler.t9kScheduler.queue"),
    ("closed queue", _closed, 409, "QueueClosed", "spec.scheduler.t9kScheduler.queue"),
    ("unknown kind", _unknown_kind, 422, "UnknownKind", "kind"),
    ("negative quantity", _resources(requests={"cpu": "-1"}), 422, "InvalidField", f"{RESOURCES}.requests.cpu"),
    (
        "unparsable quantity",
        _resources(requests={"memory": "lots"}),
        422,
        "InvalidField",
        f"{RESOURCES}.requests.memory",
    ),
    (
        "GPU request unlike its limit",
        _resources(requests={"nvidia.com/gpu": 1}),
        422,
        "InvalidField",
        f"{RESOURCES}.limits[nvidia.com/gpu]",
    ),
    ("no request where the quota names it", _no_cpu, 422, "InvalidField", RESOURCES),
    (
        "a container name too long for its annotation",
        _long_name,
        422,
        "InvalidField",
        "spec.replicaSpecs[0].template.spec.containers[0].name",
    ),
    ("more than the whole quota", _far_too_large, 422, "OverQuota", ""),
    ("no name", _nameless, 422, "InvalidField", "metadata.name"),
]


@pytest.fixture(scope="module", autouse=True)
def queues(up: Up) -> None:
    """A queue that is closed, and one whose quota names cpu."""
    for name, spec in (("closed", {"closed": True}), ("metered", {"quota": {"requests": {"cpu": "500"}}})):
        allowed = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}
        assert up.rest("POST", "/apis/v1/admin/queues", {"name": name, "spec": allowed | spec})[0] == 201


def _nothing_was_made(up: Up) -> bool:
    kinds = ("pytorchtrainingjobs", "mpijobs")
    jobs = [up.kube("GET", f"/apis/batch.tensorstack.dev/v1beta1/{kind}")[1]["items"] for kind in kinds]
    return not any(jobs) and not up.pods()


@pytest.mark.parametrize(("change", "status", "code", "path"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_a_job_that_cannot_be_accepted(
    up: Up, change: Callable[[Json], None], status: int, code: str, path: str
) -> None:
    job = yaml.safe_load((EXAMPLES / "pytorch.yaml").read_text())
    change(job)
    answered, problem = up.rest("POST", "/apis/v1/workloads?namespace=default", job)
    assert (answered, problem["code"]) == (status, code), problem
    paths = [fault["path"] for fault in problem.get("errors", [])]
    assert any(each.startswith(path) for each in paths), (path, paths)
    assert problem["detail"]
    assert _nothing_was_made(up)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("kind: [unclosed", "Malformed"),
        ("just words", "InvalidField"),
        ("", "Malformed"),
        ("kind: PyTorchTrainingJob", "UnknownKind"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}", "InvalidField"),
        ("{" * 2000, "Malformed"),
        ("a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n---\n!!python/object/apply:os.system [id]", "UnknownKind"),
        ("- " * 2000, "Malformed"),
        ("a: &a [x, x]\n" + "".join(f"a{n}: &a [*a, *a, *a, *a]\n" for n in range(20)), "Malformed"),
    ],
)
def test_files_that_are_no_job(up: Up, tmp_path: Path, text: str, code: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    done = up.cli("submit", "-f", str(file))
    assert done.code == 1
    assert f"error {code}: {file}: " in done.err, done.err
    assert _nothing_was_made(up)


def test_a_name_that_exists(up: Up) -> None:
    up.must("submit", "-f", str(EXAMPLES / "pod.yaml"))
    again = up.cli("submit", "-f", str(EXAMPLES / "pod.yaml"))
    assert again.code == 1
    assert "AlreadyExists" in again.err
    assert "metadata.name" in again.err
    assert len(up.pods()) == 1
    up.must("cancel", "pod/nvidia-smi", "--yes")
    up.must("wait", "pod/nvidia-smi", "--for", "deleted", "--timeout", "150s")


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"priority": 101}, "spec.priority"),
        ({"priority": "high"}, "spec.priority"),
        ({"quota": {"requests": {"cpu": "-1"}}}, "spec.quota.requests.cpu"),
        ({"quota": {"requests": {"cpu": "many"}}}, "spec.quota.requests.cpu"),
        ({"maxDuration": "1.5h"}, "spec.maxDuration"),
        ({"starvation": {"after": "soon"}}, "spec.starvation.after"),
        ({"starvation": {"maxHeldShare": "20"}}, "spec.starvation.maxHeldShare"),
        ({"startWindows": [{"from": "20:00", "to": "20:00"}]}, "spec.startWindows[0].to"),
        ({"startWindows": [{"from": "20:00", "to": "06:00", "timeZone": "Mars"}]}, "spec.startWindows[0].timeZone"),
        ({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, "spec.nodeSelector"),
        ({"colour": "red"}, "spec.colour"),
    ],
)
def test_a_queue_with_a_fault(up: Up, spec: Json, path: str) -> None:
    status, problem = up.rest("POST", "/apis/v1/admin/queues", {"name": "faulty", "spec": spec})
    assert (status, problem["code"]) == (422, "InvalidField")
    assert any(fault["path"].startswith(path) for fault in problem["errors"]), problem
    assert up.rest("GET", "/apis/v1/admin/queues/faulty")[0] == 404


@pytest.mark.parametrize("token", ["wrong", "t9k_" + "x" * 43, "ü", "x" * 5000])
def test_a_wrong_token(up: Up, token: str) -> None:
    done = up.cli("queues", "list", "--token", token)
    assert done.code == 1
    assert "Unauthenticated" in done.err


@pytest.mark.parametrize(
    "command", [("explain", "ptj/nobody"), ("wait", "ptj/nobody"), ("cancel", "ptj/nobody", "--yes"), ("nodes", "x")]
)
def test_what_is_not_there(up: Up, command: tuple[str, ...]) -> None:
    done = up.cli(*command)
    assert (done.code, "NotFound" in done.err) == (1, True), done.err


def test_an_unknown_kind(up: Up) -> None:
    done = up.cli("explain", "nonsense/x")
    assert (done.code, "nonsense" in done.err) == (1, True), done.err


def test_no_service_at_all(tmp_path: Path) -> None:
    done = run("jobs", data_dir=tmp_path)
    assert done.code == 1
    assert "t9ksched up" in done.err


def test_an_image_that_cannot_be_pulled_is_told_wherever_the_job_is(up: Up) -> None:
    up.must("run", "--image", "a b", "--name", "no-image", "--gpus", "1", "--", "x")
    waited = up.cli("wait", "job/no-image", "--for", "running", "--timeout", "5s")
    assert waited.code == 1
    assert "InvalidImageName: pod no-image-" in waited.err
    assert 'couldn\'t parse image name "a b"' in waited.err
    listed = up.cli("jobs", "-o", "json").json["items"]
    assert next(job["reason"]["code"] for job in listed if job["name"] == "no-image") == "InvalidImageName"
    up.must("cancel", "job/no-image", "--yes")


@pytest.mark.parametrize("key", ["a b", "/x", "UPPER/x", "x" * 64])
def test_an_annotation_key_that_is_none_is_refused(up: Up, key: str) -> None:
    refused = up.cli("run", "--image", "i", "--annotation", f"{key}=c", "--", "x")
    assert (refused.code, refused.out) == (2, "")
    assert "--annotation" in refused.err
    assert "is not an annotation key" in refused.err


def test_waiting_for_a_job_that_fails_ends_with_1(up: Up) -> None:
    run_s, code = "devcluster.tensorstack.dev/run-seconds", "devcluster.tensorstack.dev/exit-code"
    words = ("--annotation", f"{run_s}=1", "--annotation", f"{code}=3")
    up.must("run", "--image", "i", "--name", "fails", *words, "--", "x")
    waited = up.cli("wait", "job/fails")
    assert (waited.code, waited.out) == (1, "")
    assert "Job/fails ended as Failed." in waited.err
    assert "exit code 3" in waited.err
    assert up.cli("wait", "job/fails", "--for", "finished").code == 0
    up.must("cancel", "job/fails", "--yes")


@pytest.mark.parametrize("words", [("logs", "-f", "job/x"), ("wait", "job/x"), ("jobs",)])
def test_without_a_service_nothing_is_waited_for(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*words, data_dir=tmp_path, also={"T9KSCHED_SERVER": "http://127.0.0.1:1", "T9KSCHED_TOKEN": "x"})
    assert done.code == 1
    assert "Nothing answers at http://127.0.0.1:1" in done.err


def test_a_token_may_end_in_a_line_break_and_have_none_inside(up: Up) -> None:
    server = {"T9KSCHED_SERVER": up.server}
    assert run("jobs", data_dir=up.data_dir, also=server | {"T9KSCHED_TOKEN": f"{up.token}\n"}).code == 0
    done = run("jobs", data_dir=up.data_dir, also=server | {"T9KSCHED_TOKEN": "a\nb"})
    assert done.code == 2
    assert "T9KSCHED_TOKEN gives is no token" in done.err
    assert "a\nb" not in done.err


def test_what_a_refused_method_may_be_is_told_of_the_whole_address(up: Up) -> None:
    answer = httpx.request("PUT", f"{up.server}/apis/v1/workloads", headers={"Authorization": f"Bearer {up.token}"})
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"


def alone(up: Up, *words: str, stdout: int | TextIO = subprocess.PIPE, **also: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, with the files that it is given."""
    command = [sys.executable, "-m", "t9ksched", *words]
    env = environment(up.data_dir) | also
    return subprocess.run(command, env=env, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def test_output_that_finds_no_room_is_no_fault_of_the_program(up: Up) -> None:
    with Path("/dev/full").open("w") as full:
        done = alone(up, "jobs", stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith("error: What there is to say cannot be written: No space left on device.")


def test_a_terminal_without_unicode(up: Up) -> None:
    done = alone(up, "jobs", "--user", "ü", PYTHONIOENCODING="ascii")
    assert (done.returncode, "No jobs of user ?." in done.stdout) == (0, True), done.stderr


def test_a_wait_of_no_time_looks_once(up: Up) -> None:
    up.must("run", "--image", "a b", "--name", "no-time", "--gpus", "1", "--", "x")
    done = up.cli("wait", "job/no-time", "--timeout", "0s")
    assert (done.code, "is not finished after 0s" in done.err) == (1, True)
    up.must("cancel", "job/no-time", "--yes")


@pytest.mark.parametrize(
    "words", [("--gpus", "-3"), ("--image", ""), ("--replicas", "0"), ("--cpu", "many"), ("--time-limit", "soon")]
)
def test_a_profile_takes_no_value_that_can_never_be_one(tmp_path: Path, words: tuple[str, str]) -> None:
    done = run("profile", "set", "team", *words, data_dir=tmp_path)
    assert (done.code, words[0] in done.err) == (2, True)
    assert "No profiles" in run("profile", "list", data_dir=tmp_path).out
