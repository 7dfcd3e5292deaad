"""TensorBoard: its pod, where it reads logs, and what is refused."""

from typing import Any

import pytest

from t9ksched.workloads.read import read, validate
from t9ksched.workloads.reconcile import expand
from tests.unit.workloads.builders import World, pytorch, tensorboard, tensorflow

Object = dict[str, Any]
POD = "managed-tensorboard-board-0"


def pod(**spec: Any) -> Object:
    found: Object = expand(tensorboard(**spec)).pods[0]
    return found


def places(made: Object) -> list[tuple[str, str | None, str]]:
    """Claim, folder and place of each mount."""
    claims = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in made["spec"]["volumes"]}
    mounts = made["spec"]["containers"][0]["volumeMounts"]
    assert all(each["readOnly"] for each in mounts)
    return [(claims[each["name"]], each.get("subPath"), each["mountPath"]) for each in mounts]


def test_all_places_of_logs_are_mounted_below_one_folder() -> None:
    made = pod()
    assert places(made) == [
        ("runs", "a/log", "/t9k/logs/0"),
        ("runs", "b/log", "/t9k/logs/1"),
        ("more", None, "/t9k/logs/2"),
    ]
    container = made["spec"]["containers"][0]
    assert container["command"][:3] == ["tensorboard", "--logdir", "/t9k/logs"]
    assert made["spec"]["schedulerName"] == "t9k-scheduler"
    assert made["metadata"]["labels"]["scheduler.tensorstack.dev/queue"] == "a100"
    (service,) = expand(tensorboard()).services
    assert service["spec"]["selector"].items() <= made["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["containerPort"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("t9k://pvc/runs/a/log", ("runs", "a/log")),
        ("t9k://pvc/runs/", ("runs", None)),
        ("t9k://pvc/runs", ("runs", None)),
        ("t9k://pvc/runs/a/../b/", ("runs", "b")),
    ],
)
def test_filesets_of_the_older_way(text: str, place: tuple[str, str | None]) -> None:
    made = pod(logDir=None, trainingLogFilesets=[text])
    assert [each[:2] for each in places(made)] == [place]


@pytest.mark.parametrize(
    ("spec", "path", "told"),
    [
        ({"logDir": None}, "spec.logDir", "is missing: say where the training logs are"),
        ({"logDir": {"pvc": [{}]}}, "spec.logDir.pvc[0].name", "is missing"),
        ({"logDir": {"s3": {"uri": ["s3://x"]}}}, "spec.logDir.s3", "is not read"),
        ({"trainingLogFilesets": ["t9k://minio/s/b/p"]}, "spec.trainingLogFilesets[0]", "lies in MinIO"),
        ({"trainingLogFilesets": ["/logs"]}, "spec.trainingLogFilesets[0]", "is no place of logs"),
        ({"trainingLogFilesets": ["t9k://pvc/a/../../b"]}, "spec.trainingLogFilesets[0]", "leads out of the volume"),
        ({"logDir": {"pvc": [{"name": "a", "subPath": ["../b"]}]}}, "spec.logDir.pvc[0].subPath[0]", "leads out"),
        ({"resources": {"limits": {"cpu": "x"}}}, "spec.resources.limits.cpu", "'x'"),
        ({"suspend": "no"}, "spec.suspend", "must be true or false"),
    ],
)
def test_what_cannot_be(spec: Object, path: str, told: str) -> None:
    faults = {fault.path: fault.message for fault in validate(tensorboard(**spec))}
    assert told in faults[path]


def test_it_asks_for_what_is_given_or_for_little() -> None:
    assert read(tensorboard()).totals == {"cpu": 100, "memory": 100 << 20}
    assert read(tensorboard(resources={"requests": {"cpu": 2}})).totals == {"cpu": 2000}
    assert read(tensorboard(suspend=True)).totals == {}


def test_it_lives_until_it_is_suspended() -> None:
    world = World(tensorboard())
    world.settle()
    world.run_all()
    world.settle()
    assert (world.status["phase"], world.condition("Ready"), world.condition("Idle")) == ("Running", "True", "Unknown")
    assert world.status["url"] == "http://managed-tensorboard-board.lab.svc/"
    world.set_phase(POD, "Failed", 1)
    world.settle()
    assert world.created.count(POD) == 2
    first = world.pod(POD)["metadata"]["uid"]
    world.obj["spec"]["logDir"] = {"pvc": [{"name": "other"}]}
    world.settle()
    assert world.pod(POD)["metadata"]["uid"] != first
    world.obj["spec"]["suspend"] = True
    world.settle()
    assert (world.status["phase"], world.pods(), world.condition("Suspended")) == ("Paused", [], "True")
    world.obj["spec"]["suspend"] = False
    world.settle()
    assert world.pods() == [POD]


BOARD = {"image": "example/board:1", "trainingLogFilesets": ["t9k://pvc/runs/log"]}
NAME = ("TensorBoard", "net-tensorboard")


@pytest.mark.parametrize("make", [pytorch, lambda **spec: tensorflow(spec, worker=1)])
def test_a_training_job_has_the_tensorboard_that_it_asks_for(make: Any) -> None:
    job = make(tensorboardSpec={**BOARD, "suspend": True})
    (board,) = expand(job).boards
    assert board["spec"] == BOARD
    assert board["metadata"]["name"] == f"{job['metadata']['name']}-tensorboard"
    assert board["metadata"]["ownerReferences"][0]["name"] == job["metadata"]["name"]
    assert validate({**board, "metadata": {"name": "x", "namespace": "lab"}}) == []
    for nothing in (None, {}):
        assert expand(make(tensorboardSpec=nothing)).boards == ()


def test_it_follows_the_job_and_the_job_tells_of_it() -> None:
    world = World(pytorch(tensorboardSpec=BOARD))
    world.settle()
    told = world.status["tensorboard"]
    assert (told["ready"], told["dependent"]["name"]) == (False, "net-tensorboard")
    ready = [{"type": "Ready", "status": "True"}]
    world.objects[NAME]["status"] = {"phase": "Running", "conditions": ready, "url": "http://x/"}
    world.settle()
    told = world.status["tensorboard"]
    assert (told["ready"], told["reason"], told["url"]) == (True, "DependentReady", "http://x/")
    world.objects[NAME]["spec"]["suspend"] = True
    world.obj["spec"]["tensorboardSpec"] = {**BOARD, "image": "example/board:2"}
    world.settle()
    assert world.objects[NAME]["spec"] == {**BOARD, "image": "example/board:2", "suspend": True}
    wrong = [{"type": "Initialized", "status": "False", "reason": "InvalidSpec", "message": "spec.image: no"}]
    world.objects[NAME]["status"] = {"phase": "Pending", "conditions": wrong}
    world.settle()
    assert world.status["tensorboard"]["note"] == "TensorBoard net-tensorboard is Pending: spec.image: no"
    del world.obj["spec"]["tensorboardSpec"]
    world.settle()
    assert NAME not in world.objects
    assert "tensorboard" not in world.status


def test_it_stays_when_the_job_has_ended() -> None:
    world = World(pytorch(tensorboardSpec=BOARD, runPolicy={"cleanUpPolicy": "All"}))
    world.settle()
    world.run_all()
    world.set_phase("net-worker-0", "Succeeded", 0)
    world.settle()
    assert (world.status["phase"], world.pods(), NAME in world.objects) == ("Succeeded", [], True)


def test_one_with_faults_is_suspended_all_the_same() -> None:
    world = World(tensorboard())
    world.settle()
    world.obj["spec"] |= {"logDir": None, "suspend": True}
    world.settle()
    assert (world.status["phase"], world.pods()) == ("Paused", [])
    assert world.condition("Initialized") == "False"
