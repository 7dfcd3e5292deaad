"""What follows when a user edits a job, or something that a job owns: everything is brought to what the spec says."""

import copy
from typing import Any

import pytest

from t9ksched.kube.setup.crds import read
from t9ksched.packaged import folder
from t9ksched.workloads import training
from t9ksched.workloads.job import REVISION_ANNOTATION, revision
from t9ksched.workloads.kinds import colossalai as colossalai_kind
from t9ksched.workloads.kinds import deepspeed as deepspeed_kind
from t9ksched.workloads.kinds import generic as generic_kind
from t9ksched.workloads.kinds import mpi as mpi_kind
from t9ksched.workloads.kinds import pytorch as pytorch_kind
from t9ksched.workloads.upkeep import follow, upkeep
from tests.unit.workloads.builders import World, mpi_v1, mpi_v2, notebook, pytorch

Object = dict[str, Any]
ELASTIC = {"elastic": {"enabled": True, "minReplicas": 1, "maxReplicas": 6, "expectedReplicas": 4}}
TORCHRUN = {"torchrunConfig": {"enabled": True}}


def running(job: Object) -> World:
    world = World(job)
    world.settle()
    world.run_all()
    world.settle()
    return world


def resize(world: World, replicas: int) -> None:
    spec = world.obj["spec"]
    kind = spec["worker"] if "worker" in spec else spec["replicaSpecs"][-1]
    kind["replicas"] = replicas


def pause(world: World, on: bool) -> None:
    world.obj["spec"]["runMode"] = {"pause": {"enabled": on}}


def group(world: World) -> Object:
    return world.objects["PodGroup", world.obj["metadata"]["name"]]["spec"]


def env(world: World, pod: str) -> dict[str, str]:
    found = world.pod(pod)["spec"]["containers"][0]["env"]
    return {each["name"]: each["value"] for each in found}


@pytest.mark.parametrize("replicas", [1, 2, 4, 7])
def test_a_paused_job_of_another_size_runs_on_with_it(replicas: int) -> None:
    world = running(pytorch(replicas=4))
    pause(world, True)
    world.settle()
    resize(world, replicas)
    world.settle()
    assert group(world)["minMember"] == replicas
    pause(world, False)
    world.settle()
    assert world.pods() == [f"net-worker-{index}" for index in range(replicas)]
    assert env(world, "net-worker-0")["WORLD_SIZE"] == str(replicas)
    world.run_all()
    world.settle()
    assert world.status["phase"] == "Running"


@pytest.mark.parametrize("make", [mpi_v1, mpi_v2])
def test_an_mpi_job_of_another_size_lists_its_hosts(make: Any) -> None:
    world = running(make(replicas=3))
    pause(world, True)
    resize(world, 5)
    world.settle()
    pause(world, False)
    world.settle()
    hosts = world.objects["ConfigMap", "walk-mpi"]["data"]["hostfile"].splitlines()
    assert [line.split()[0] for line in hosts] == [f"walk-worker-{index}.walk" for index in range(5)]
    assert group(world)["minMember"] == 6
    assert {each["name"]: each["minMember"] for each in group(world)["roles"]} == {"launcher": 1, "worker": 5}
    assert len(world.pods()) == 6


def test_an_elastic_job_shrinks_and_grows_while_it_runs() -> None:
    world = running(pytorch(**ELASTIC, **TORCHRUN))
    kept = world.pod("net-worker-0")["metadata"]["uid"]
    world.obj["spec"]["elastic"]["expectedReplicas"] = 2
    assert [each["metadata"]["name"] for each in world.plan().delete] == ["net-worker-3", "net-worker-2"]
    world.settle()
    assert world.pods() == ["net-worker-0", "net-worker-1"]
    world.obj["spec"]["elastic"]["expectedReplicas"] = 6
    world.settle()
    assert len(world.pods()) == 6
    assert world.pod("net-worker-0")["metadata"]["uid"] == kept
    assert group(world)["minMember"] == 1
    assert world.status["phase"] == "Running"


def test_restarts_of_replicas_that_went_stay_used() -> None:
    world = running(pytorch(**ELASTIC, **TORCHRUN, runPolicy={"backoffLimit": 2}))
    for _ in range(2):
        world.set_phase("net-worker-3", "Failed", 1)
        world.later(100)
        world.settle()
        world.run_all()
        world.settle()
    assert world.status["backoffCount"] == 2
    world.obj["spec"]["elastic"]["expectedReplicas"] = 2
    world.settle()
    assert world.status["backoffCount"] == 2
    world.set_phase("net-worker-1", "Failed", 1)
    world.settle()
    assert world.status["phase"] == "Failed"


def test_a_size_that_was_not_refused_makes_all_pods_anew() -> None:
    """As with older definitions, or where the pause was over before the controller looked."""
    world = running(pytorch(replicas=4))
    resize(world, 2)
    world.settle()
    assert world.pods() == ["net-worker-0", "net-worker-1"]
    assert env(world, "net-worker-0")["WORLD_SIZE"] == "2"
    assert group(world)["minMember"] == 2
    assert world.status["backoffCount"] == 0
    assert "Changed" in world.reasons()


def test_pods_of_an_older_release_are_left_as_they_are() -> None:
    world = running(pytorch(replicas=2))
    for name in world.pods():
        del world.pod(name)["metadata"]["annotations"][REVISION_ANNOTATION]
    assert not world.plan()


def test_a_minimum_is_not_raised_above_what_a_running_gang_has() -> None:
    """A job that an older release let grow while it ran is not evicted for it."""
    world = running(pytorch(replicas=2))
    for name in world.pods():
        del world.pod(name)["metadata"]["annotations"][REVISION_ANNOTATION]
    resize(world, 4)
    world.settle()
    assert (len(world.pods()), group(world)["minMember"]) == (4, 2)
    world.run_all()
    world.settle()
    assert group(world)["minMember"] == 4


@pytest.mark.parametrize(
    ("kind", "name", "break_it"),
    [
        ("PodGroup", "walk", lambda obj: obj["spec"].update(minMember=1)),
        ("PodGroup", "walk", lambda obj: obj["spec"].update(roles=[{"name": "worker", "minMember": 1}])),
        ("Service", "walk", lambda obj: obj["spec"]["selector"].update(other="x")),
        ("Service", "walk", lambda obj: obj["spec"].update(publishNotReadyAddresses=False)),
        ("Service", "walk", lambda obj: obj["spec"]["ports"][0].update(targetPort=1)),
        ("ConfigMap", "walk-mpi", lambda obj: obj["data"].update(hostfile="nobody")),
        ("ConfigMap", "walk-mpi", lambda obj: obj["data"].update(other="x")),
        ("ConfigMap", "walk-mpi", lambda obj: obj["metadata"]["labels"].clear()),
        ("Service", "walk", None),
        ("PodGroup", "walk", None),
        ("ConfigMap", "walk-mpi", None),
    ],
)
def test_what_is_edited_or_deleted_by_hand_is_brought_back(kind: str, name: str, break_it: Any) -> None:
    world = running(mpi_v1(replicas=3))
    good = copy.deepcopy(world.objects[kind, name])
    if break_it is None:
        del world.objects[kind, name]
    else:
        break_it(world.objects[kind, name])
    world.settle()
    back = world.objects[kind, name]
    for port in back.get("spec", {}).get("ports", ()):
        port.pop("protocol", None)  # the server's default, which we may write too
    for part in ("spec", "data"):
        assert back.get(part) == good.get(part)
    assert back["metadata"]["labels"] == good["metadata"]["labels"]
    assert len(world.created) == 4, "no pod was touched"


def test_what_others_keep_in_our_objects_stays() -> None:
    wanted = {
        "kind": "Service",
        "metadata": {"name": "s", "labels": {"a": "b"}},
        "spec": {"type": "NodePort", "selector": {"x": "y"}, "ports": [{"name": "ssh", "port": 22, "targetPort": 22}]},
    }
    found = copy.deepcopy(wanted)
    found["metadata"] |= {"labels": {"a": "b", "theirs": "c"}, "resourceVersion": "7"}
    found["spec"] |= {"clusterIP": "10.0.0.1", "sessionAffinity": "None", "externalTrafficPolicy": "Local"}
    found["spec"]["ports"][0] |= {"protocol": "TCP", "nodePort": 30001}
    assert follow(found, wanted) is None
    changed = {**wanted, "spec": {**wanted["spec"], "selector": {"x": "z"}}}
    better = follow(found, changed)
    assert better is not None
    assert better["spec"]["ports"][0]["nodePort"] == 30001
    assert better["spec"]["clusterIP"] == "10.0.0.1"
    assert better["metadata"]["resourceVersion"] == "7"
    plain = follow(found, {**wanted, "spec": {**wanted["spec"], "type": "ClusterIP"}})
    assert plain is not None
    assert "nodePort" not in plain["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in plain["spec"]


def test_what_is_being_deleted_is_left_to_go() -> None:
    gone = {"kind": "Service", "metadata": {"name": "s", "deletionTimestamp": "2026-03-01T12:00:00Z"}, "spec": {}}
    found = upkeep(({"kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "NodePort"}},), (gone,))
    assert (found.update, found.delete, found.create) == ((), (), ())


FIXED = {
    "ColossalAIJob": colossalai_kind.FIXED_WHILE_RUNNING,
    "DeepSpeedJob": deepspeed_kind.FIXED_WHILE_RUNNING,
    "GenericJob": generic_kind.FIXED_WHILE_RUNNING,
    "MPIJob": mpi_kind.FIXED_WHILE_RUNNING,
    "PyTorchTrainingJob": pytorch_kind.FIXED_WHILE_RUNNING,
    "TensorFlowTrainingJob": training.FIXED_WHILE_RUNNING,
    "XGBoostTrainingJob": training.FIXED_WHILE_RUNNING,
}


def test_the_definitions_refuse_what_makes_pods_outdated() -> None:
    for definition in read(folder("crds")):
        kind = definition["spec"]["names"]["kind"]
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        rules: dict[str, str] = {}
        for rule in (each for each in schema.get("x-kubernetes-validations", ()) if "fieldPath" in each):
            rules[rule["fieldPath"][1:]] = f"{rules.get(rule['fieldPath'][1:], '')}; {rule['rule']}"
        for name in FIXED.get(kind, ()):
            assert f"self.{name} == oldSelf.{name}" in rules[name]
        if kind in FIXED:
            assert "self.runMode.debug == oldSelf.runMode.debug" in rules["runMode.debug"]


def test_the_revision_is_of_the_users_words_and_does_not_change_with_releases() -> None:
    assert revision(pytorch(), FIXED["PyTorchTrainingJob"]) == "146d88f5edc5826e"
    assert revision(mpi_v1(), FIXED["MPIJob"]) == "78b762be128c894b"


SSH = {"enabled": True, "authorized_keys": ["ssh-ed25519 AAA ann", "ssh-ed25519 BBB bob"]}
KEYS = ("ConfigMap", "managed-notebook-lab-ssh")
DOOR = ("Service", "managed-notebook-lab-ssh")
POD = "managed-notebook-lab-0"


def lab() -> World:
    return running(notebook(ssh=copy.deepcopy(SSH)))


def test_a_removed_key_opens_nothing_any_more() -> None:
    world = lab()
    first = world.pod(POD)["metadata"]["uid"]
    world.obj["spec"]["ssh"]["authorized_keys"].pop()
    steps = [what for what, _ in world.steps(world.plan())]
    assert steps.index("update") < steps.index("delete"), "the pod made next reads the new keys"
    world.settle()
    assert "BBB" not in world.objects[KEYS]["data"]["authorized_keys"]
    assert world.pod(POD)["metadata"]["uid"] != first, "sessions that the key opened end"


def test_without_any_key_the_file_goes() -> None:
    world = lab()
    world.obj["spec"]["ssh"]["authorized_keys"] = []
    world.settle()
    assert KEYS not in world.objects
    assert DOOR in world.objects


@pytest.mark.parametrize("suspended", [False, True])
def test_ssh_switched_off_takes_its_door_away(suspended: bool) -> None:
    world = lab()
    world.obj["spec"] |= {"suspend": suspended, "ssh": {**SSH, "enabled": False}}
    world.settle()
    assert DOOR not in world.objects
    assert KEYS not in world.objects
    assert ("Service", "managed-notebook-lab") in world.objects


def test_ports_and_types_are_followed() -> None:
    world = lab()
    assert world.objects[DOOR]["spec"]["type"] == "ClusterIP"
    world.obj["spec"]["ssh"]["serviceType"] = "NodePort"
    world.obj["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 8787}]
    world.settle()
    assert world.objects[DOOR]["spec"]["type"] == "NodePort"
    assert world.objects["Service", "managed-notebook-lab"]["spec"]["ports"][0]["targetPort"] == 8787


NODE_PORT_SSH = {"enabled": True, "serviceType": "NodePort", "authorized_keys": ["one", "two"]}
BOOK_POD, GATE = "managed-notebook-lab-0", "managed-notebook-lab-ssh"


def spoil_template(world: World) -> None:
    spec = world.obj["spec"]
    pod = spec["template"] if "template" in spec else spec.get("worker", {}).get("template")
    pod = pod or spec["replicaSpecs"][-1]["template"]
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "5"}, "limits": {"cpu": "1"}}


def spoil_door(world: World) -> None:
    world.obj["spec"].setdefault("ssh", {})["serviceType"] = "nodeport"


def open_book() -> World:
    return running(notebook(ssh=copy.deepcopy(NODE_PORT_SSH)))


@pytest.mark.parametrize("spoil", [spoil_template, spoil_door])
@pytest.mark.parametrize("earlier", [True, False])
def test_a_key_that_is_removed_opens_nothing_whatever_else_is_wrong(spoil: Any, earlier: bool) -> None:
    world = open_book()
    if earlier:
        spoil(world)
        world.settle()
        assert world.pods() == [BOOK_POD]
    world.obj["spec"]["ssh"]["authorized_keys"] = ["two"]
    spoil(world)
    world.settle()
    assert world.objects["ConfigMap", GATE]["data"] == {"authorized_keys": "two\n"}
    assert world.pods() == []
    assert world.reasons().count("Refused") == 1
    world.obj["spec"]["ssh"]["enabled"] = False
    world.settle()
    assert not {("ConfigMap", GATE), ("Service", GATE)} & set(world.objects)


@pytest.mark.parametrize("spoil", [spoil_template, spoil_door])
def test_a_notebook_is_suspended_whatever_else_is_wrong_and_runs_when_it_is_mended(spoil: Any) -> None:
    world = open_book()
    sound = copy.deepcopy(world.obj["spec"])
    world.obj["spec"]["suspend"] = True
    spoil(world)
    world.settle()
    assert (world.pods(), world.status["phase"], world.condition("Initialized")) == ([], "Paused", "False")
    assert world.objects["Service", GATE]["spec"]["type"] == "NodePort"
    world.obj["spec"] = sound | {"suspend": False}
    world.settle()
    assert (world.pods(), world.condition("Initialized")) == ([BOOK_POD], "absent")


@pytest.mark.parametrize("make", [pytorch, mpi_v1, mpi_v2])
def test_a_job_is_paused_whatever_else_is_wrong_and_runs_on_when_it_is_mended(make: Any) -> None:
    world = running(make())
    before, sound = world.pods(), copy.deepcopy(world.obj["spec"])
    pause(world, True)
    spoil_template(world)
    world.settle()
    assert (world.pods(), world.status["phase"], world.condition("Paused")) == ([], "Paused", "True")
    assert "is more than the limit" in str(world.status["conditions"])
    world.obj["spec"] = sound
    pause(world, True)
    world.settle()
    assert "InvalidSpec" not in str(world.status["conditions"])
    pause(world, False)
    world.settle()
    world.run_all()
    world.settle()
    assert (world.pods(), world.status["phase"], world.condition("Initialized")) == (before, "Running", "True")
