"""The life of a job, told as what happens to its pods and what must follow."""

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.workloads.builders import NOW, World, beam, generic, mpi_v1, mpi_v2, notebook, pytorch

MASTER, WORKER = "net-worker-0", "net-worker-1"


def started(job: dict[str, Any] | None = None) -> World:
    world = World(job or pytorch())
    world.settle()
    world.run_all()
    world.settle()
    return world


def remade(world: World, name: str) -> bool:
    """Whether the pod is a new one, made after the first."""
    return world.created.count(name) > 1 and ("Pod", name) in world.objects


def test_from_nothing_to_running_to_done() -> None:
    world = World(pytorch())
    world.settle()
    assert world.pods() == [MASTER, WORKER]
    assert {kind for kind, _ in world.objects} == {"Pod", "PodGroup", "Service"}
    assert world.status["phase"] == "Pending"
    assert world.status["aggregate"]["creating"] == 2
    assert world.condition("Initialized") == "True"

    world.set_phase(MASTER, "Running")
    world.settle()
    assert world.status["phase"] == "Pending", "one of two is not the gang"
    world.run_all()
    world.later(5)
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.status["startTime"] == "2026-03-01T12:00:05Z"
    assert world.condition("Running") == "True"

    world.later(60)
    world.set_phase(MASTER, "Succeeded", 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"
    assert world.status["completionTime"] == "2026-03-01T12:01:05Z"
    assert [world.condition(kind) for kind in ("Running", "Completed", "Failed", "ReplicaFailure")] == [
        "False", "True", "False", "False"
    ]  # fmt: skip
    assert world.pods() == [MASTER, WORKER], "cleanUpPolicy None keeps them"
    assert world.reasons() == ["Created", "Start", "Succeeded"]


def test_a_job_over_before_its_start_was_seen_started_when_its_pods_did() -> None:
    world = World(pytorch())
    world.settle()
    for name in (MASTER, WORKER):
        world.set_phase(name, "Succeeded", 0)
        world.pod(name)["status"]["startTime"] = "2026-03-01T12:00:01Z"
    world.later(5)
    world.settle()
    assert (world.status["startTime"], world.status["completionTime"]) == (
        "2026-03-01T12:00:01Z",
        "2026-03-01T12:00:05Z",
    )
    assert world.reasons() == ["Created", "Start", "Succeeded"]


@pytest.mark.parametrize(
    ("job", "code"),
    [*((job, code) for job in (pytorch(restart="Never"), mpi_v2(), generic()) for code in (0, 1)), (beam(1), 0)],
)
def test_conditions_of_a_job_that_ended_while_nobody_looked(job: Any, code: int) -> None:
    """The controller dies once the pods are made, and comes back when they have ended."""
    world = World(job)
    while not world.pods():
        world.carry_out(world.plan())
    assert world.condition("Initialized") != "True"
    world.later(60)
    times = {"startTime": "2026-03-01T12:00:10Z"}
    for name in world.pods():
        if "flinkcluster" not in name:
            world.set_phase(name, "Failed" if code else "Succeeded", code, **times)
            world.pod(name)["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"] = times["startTime"]
    world.settle(60)
    assert world.status["phase"] == ("Failed" if code else "Succeeded")
    found = {each["type"]: each for each in world.status["conditions"]}
    assert found["Initialized"]["status"] == "True"
    assert world.status["startTime"] == times["startTime"]
    for kind in {"Running", "JobRunning", "ClusterRunning"} & found.keys():
        assert (found[kind]["status"], found[kind]["lastTransitionTime"]) == ("False", "2026-03-01T12:01:00Z")


def test_a_launcher_that_never_began_goes_with_its_workers() -> None:
    """It would wait in its init container for ever, and has no log to keep."""
    world = World(mpi_v2())
    world.settle()
    for name in ("walk-worker-0", "walk-worker-1"):
        world.set_phase(name, "Failed", 1)
    world.set_phase("walk-launcher-0", "Pending")
    world.settle(60)
    assert (world.status["phase"], world.pods()) == ("Failed", ["walk-worker-0", "walk-worker-1"])
    assert world.status["aggregate"]["deleted"] == 1


def test_status_shows_the_replicas() -> None:
    world = started()
    world.set_phase(MASTER, "Succeeded", 0)
    world.settle()
    (task,) = world.status["tasks"]
    assert (task["type"], task["restartCount"]) == ("worker", 0)
    assert [(each["name"], each["phase"]) for each in task["replicas"]] == [(MASTER, "Succeeded"), (WORKER, "Running")]
    assert task["replicas"][0]["containers"] == [{"name": "pytorch", "state": "terminated", "exitCode": 0}]
    assert task["replicas"][0]["uid"] == world.pod(MASTER)["metadata"]["uid"]
    assert world.status["backoffCount"] == 0
    assert world.status["aggregate"] == {
        "creating": 0, "pending": 0, "running": 1, "succeeded": 1, "failed": 0, "unknown": 0, "deleted": 0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Never", 1, False), ("Never", 137, False), ("OnFailure", 1, True), ("Always", 1, True),
        ("ExitCode", 1, False), ("ExitCode", 2, False), ("ExitCode", 130, True), ("ExitCode", 137, True),
        ("ExitCode", 138, True), ("ExitCode", 143, True), (None, 1, True),
    ],
)  # fmt: skip
def test_restart_policies(policy: str | None, code: int, again: bool) -> None:
    for name in (MASTER, WORKER):
        world = started(pytorch(restart=policy))
        world.set_phase(name, "Failed", code)
        world.settle()
        assert remade(world, name) is again
        assert world.status["backoffCount"] == (1 if again else 0)
        if not again:
            assert world.status["phase"] == ("Failed" if name == MASTER else "Running")
            assert world.condition("ReplicaFailure") == "True"


def test_a_gang_short_of_members_does_not_run() -> None:
    world = started()
    world.vanish(WORKER)
    world.settle()
    assert (world.status["phase"], world.condition("Running")) == ("Pending", "False")
    assert world.status["startTime"], "it has started, and its deadline counts on"
    world.run_all()
    world.settle()
    assert world.status["phase"] == "Running"


def test_a_failed_job_says_which_pod_and_how() -> None:
    world = started(pytorch(restart="Never"))
    world.set_phase(MASTER, "Failed", 137)
    end = world.pod(MASTER)["status"]["containerStatuses"][0]["state"]["terminated"]
    end |= {"reason": "OOMKilled", "message": "CUDA error\nout of memory"}
    world.settle()
    (failed,) = (each for each in world.status["conditions"] if each["type"] == "Failed")
    assert failed["message"] == (
        "pod net-worker-0 ended with exit code 137 (SIGKILL), OOMKilled, and its restart policy is Never"
        "; its last message: CUDA error | out of memory"
    )
    shown = world.status["tasks"][0]["replicas"][0]["containers"][0]
    assert (shown["reason"], shown["message"]) == ("OOMKilled", "CUDA error | out of memory")


def test_pods_are_quoted_from_their_logs_unless_the_user_chose() -> None:
    job = pytorch()
    world = started(job)
    assert world.pod(MASTER)["spec"]["containers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["terminationMessagePolicy"] = "File"
    assert started(job).pod(MASTER)["spec"]["containers"][0]["terminationMessagePolicy"] == "File"


def test_always_restarts_success_too_but_not_the_masters() -> None:
    world = started(pytorch(restart="Always"))
    world.set_phase(WORKER, "Succeeded", 0)
    world.settle()
    assert remade(world, WORKER)
    world.set_phase(MASTER, "Succeeded", 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"


def test_a_worker_that_succeeded_is_not_made_again() -> None:
    world = started()
    world.set_phase(WORKER, "Succeeded", 0)
    world.settle()
    world.vanish(WORKER)
    world.settle()
    assert world.pods() == [MASTER]


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_backoff_limit_is_shared(limit: int) -> None:
    world = started(pytorch(replicas=3, runPolicy={"backoffLimit": limit}))
    for turn in range(limit):
        world.later(100)
        world.set_phase(f"net-worker-{turn % 3}", "Failed", 1)
        world.settle()
        assert world.status["backoffCount"] == turn + 1
        world.run_all()
        world.settle()
    world.set_phase("net-worker-2", "Failed", 1)
    world.settle()
    assert world.status["phase"] == "Failed"
    assert world.status["backoffCount"] == limit
    assert [each["reason"] for each in world.status["conditions"] if each["type"] == "Failed"] == [
        "BackoffLimitExceeded"
    ]
    assert world.condition("Completed") == "True"


@pytest.mark.parametrize(
    "status",
    [
        {"reason": "UnexpectedAdmissionError"},
        {"reason": "OutOfnvidia.com/gpu"},
        {"reason": "OutOfcpu"},
        {"reason": "NodeAffinity"},
        {"conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ],
)
def test_what_the_cluster_takes_does_not_count(status: dict[str, Any]) -> None:
    world = started(pytorch(restart="Never", runPolicy={"backoffLimit": 0}))
    for _ in range(3):
        world.later(100)
        world.set_phase(MASTER, "Failed", 137, **status)
        world.settle()
        assert world.status["backoffCount"] == 0
        assert world.status["phase"] != "Failed"
        if ("Pod", MASTER) in world.objects and world.pod(MASTER).get("status", {}).get("phase") == "Failed":
            world.later(100)
            world.settle()
        world.run_all()
        world.settle()
    assert world.created.count(MASTER) == 4
    assert "Remade" in world.reasons()


def test_repeated_trouble_waits_longer() -> None:
    world = started()
    world.set_phase(MASTER, "Failed", 1)
    world.settle()
    assert remade(world, MASTER), "the first time at once"
    world.run_all()
    world.settle()
    world.set_phase(MASTER, "Failed", 1)
    world.settle()
    assert world.created.count(MASTER) == 2
    assert world.plan().again_in == 2.0
    world.later(2)
    world.settle()
    assert world.created.count(MASTER) == 3
    assert world.status["backoffCount"] == 2


def test_a_preempted_gang_comes_back_whole() -> None:
    world = started()
    for name in (MASTER, WORKER):
        world.pod(name)["metadata"]["deletionTimestamp"] = NOW.isoformat()
        world.set_phase(name, "Failed", 143)
    world.settle()
    assert world.created.count(MASTER) == 1, "the name is not free yet"
    for name in (MASTER, WORKER):
        world.vanish(name)
    world.settle()
    assert world.created.count(MASTER) == world.created.count(WORKER) == 2
    assert world.status["phase"] == "Pending"
    assert world.status["backoffCount"] == 0


def test_deadline_counts_from_the_start_and_stops_the_pods() -> None:
    world = World(pytorch(runPolicy={"activeDeadlineSeconds": 60}))
    world.settle()
    world.later(600)
    world.settle()
    assert world.status["phase"] == "Pending", "waiting does not use up the time"
    world.run_all()
    world.settle()
    assert world.plan().again_in == 60
    world.later(61)
    world.settle()
    assert world.status["phase"] == "Failed"
    assert world.pods() == [], "a deadline stops what runs, whatever the clean-up policy"
    assert world.status["aggregate"]["deleted"] == 2


@pytest.mark.parametrize(("policy", "left"), [("None", [MASTER, WORKER]), ("Unfinished", [MASTER]), ("All", [])])
def test_clean_up(policy: str, left: list[str]) -> None:
    world = started(pytorch(runPolicy={"cleanUpPolicy": policy}))
    world.set_phase(MASTER, "Succeeded", 0)
    world.settle()
    assert world.pods() == left
    assert world.status["phase"] == "Succeeded"


def test_a_finished_job_stays_finished() -> None:
    world = started(pytorch(runPolicy={"cleanUpPolicy": "All"}))
    world.set_phase(MASTER, "Succeeded", 0)
    world.settle()
    world.obj["spec"]["runMode"] = {"pause": {"enabled": True}}
    world.later(1000)
    world.settle()
    assert world.status["phase"] == "Succeeded"
    assert world.pods() == []


def test_pause_and_resume() -> None:
    world = started()
    mode = {"pause": {"enabled": True, "resumeSpecs": [{"type": "worker", "command": ["again"]}]}}
    world.obj["spec"]["runMode"] = mode
    world.settle()
    assert (world.pods(), world.status["phase"], world.condition("Paused")) == ([], "Paused", "True")
    assert "startTime" not in world.status
    assert world.status["aggregate"]["deleted"] == 2
    mode["pause"]["enabled"] = False
    world.settle()
    assert world.status["phase"] == "Resuming"
    assert world.pods() == [MASTER, WORKER]
    assert world.pod(MASTER)["spec"]["containers"][0]["command"] == ["again"]
    world.run_all()
    world.settle()
    assert (world.status["phase"], world.condition("Paused")) == ("Running", "False")
    assert world.reasons() == ["Created", "Start", "Paused", "Resumed", "Start"]


@pytest.mark.parametrize("make", [pytorch, mpi_v2])
def test_a_pause_by_a_limit_says_why(make: Callable[[], dict[str, Any]]) -> None:
    world = started(make())

    def paused() -> tuple[str, str]:
        (found,) = (each for each in world.status["conditions"] if each["type"] == "Paused")
        assert found["status"] == "True"
        return found["reason"], found["message"]

    world.obj["spec"]["runMode"] = {"pause": {"enabled": True}}
    world.settle()
    assert paused() == ("JobPaused", "")
    (group,) = (each for (kind, _), each in world.objects.items() if kind == "PodGroup")
    evicted = {"type": "Evicted", "status": "True", "reason": "MaxDurationExceeded", "message": "over 1s"}
    group["status"] = {"conditions": [evicted]}
    world.settle()
    assert paused() == ("MaxDurationExceeded", "over 1s")
    evicted["reason"] = "Preempted"
    world.settle()
    assert paused() == ("JobPaused", "")


def test_a_job_made_paused_makes_nothing() -> None:
    world = World(pytorch(runMode={"pause": {"enabled": True}}))
    world.settle()
    assert world.objects == {}
    assert world.status["phase"] == "Paused"


def test_elastic_follows_the_expected_number() -> None:
    elastic = {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "expectedReplicas": 2}
    world = started(pytorch(elastic=elastic, torchrunConfig={"enabled": True}))
    elastic["expectedReplicas"] = 4
    world.obj["spec"]["elastic"] = elastic
    world.settle()
    assert len(world.pods()) == 4
    elastic["expectedReplicas"] = 1
    world.settle()
    assert world.pods() == [MASTER]
    assert world.status["phase"] == "Running"


def test_an_elastic_job_runs_with_its_minimum() -> None:
    elastic = {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "expectedReplicas": 3}
    world = World(pytorch(elastic=elastic, torchrunConfig={"enabled": True}))
    world.settle()
    world.set_phase(MASTER, "Running")
    world.settle()
    assert world.status["phase"] == "Running"


def test_the_queue_of_a_job_is_settled() -> None:
    world = started()
    world.obj["spec"]["scheduler"]["t9kScheduler"]["queue"] = "a40"
    world.vanish(WORKER)
    world.settle()
    assert world.pod(WORKER)["metadata"]["labels"]["scheduler.tensorstack.dev/queue"] == "a100"
    assert world.objects["PodGroup", "net"]["spec"]["queue"] == "a100"
    assert world.reasons().count("Refused") == 1
    world.obj["spec"]["scheduler"]["t9kScheduler"]["queue"] = "a100"
    world.settle()
    assert world.condition("QueueChangeRefused") == "absent"


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("make", [pytorch, mpi_v1, mpi_v2])
def test_queue_and_priority_of_a_podgroup_edited_by_hand_are_put_back(
    make: Callable[[], dict[str, Any]], paused: bool, recorded: bool
) -> None:
    world = started(make())
    name = world.obj["metadata"]["name"]
    if not recorded:  # a job of a release that recorded nothing, seen once by this one
        del world.obj["status"]["scheduling"]
        world.settle()
    if paused:
        world.obj["spec"]["runMode"] = {"pause": {"enabled": True}}
        world.settle()
    group = world.objects["PodGroup", name]["spec"]
    before = dict(group)
    for edit in ({"queue": "default"}, {"priority": 99}, {"queue": "default", "priority": 99}):
        world.objects["PodGroup", name]["spec"].update(edit)
        world.settle()
        assert world.objects["PodGroup", name]["spec"] == before
        assert world.condition("QueueChangeRefused") == "absent"
    assert "Refused" not in world.reasons()


def test_job_and_podgroup_edited_at_once() -> None:
    world = started()
    block = world.obj["spec"]["scheduler"]["t9kScheduler"]
    first = (block["queue"], block.get("priority", 0))
    for asked, priority in (("a40", 7), ("default", 8)):
        block.update(queue=asked, priority=priority)
        world.objects["PodGroup", "net"]["spec"].update(queue="default", priority=99)
        world.settle()
        spec = world.objects["PodGroup", "net"]["spec"]
        assert (spec["queue"], spec.get("priority", 0)) == first
        refused = [event.message for event in world.events if event.reason == "Refused"]
        assert refused[-1].startswith(f"the job stays in queue a100: a job cannot change to {asked};")
    assert len(refused) == 2
    del world.objects["PodGroup", "net"]
    world.settle()
    assert world.objects["PodGroup", "net"]["spec"]["queue"] == "a100"
    block.update(queue="a100")
    world.settle()
    assert world.condition("QueueChangeRefused") == "absent"


def test_a_faulty_job_makes_nothing_and_says_why() -> None:
    job = pytorch(gpu=1)
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = 2
    world = World(job)
    world.settle()
    assert world.objects == {}
    (condition,) = world.status["conditions"]
    assert (condition["reason"], world.reasons()) == ("InvalidSpec", ["Refused"])
    assert "limits[nvidia.com/gpu]" in condition["message"]


def test_lost_companions_are_made_again() -> None:
    world = started(mpi_v1())
    keys = ("Secret", "walk-uid-walk-ssh")
    for kind in ("PodGroup", "Service", "ConfigMap"):
        gone = next(key for key in world.objects if key[0] == kind)
        before = world.objects[keys]
        del world.objects[gone]
        world.collect()
        world.settle()
        assert {gone, keys} <= set(world.objects)
        assert (world.objects[keys] is before) == (kind != "ConfigMap"), "keys belong to their ConfigMap"


def test_no_pod_is_made_before_the_jobs_keys_are_on_record() -> None:
    """Wherever the controller dies, pods that exist mount a Secret that was made for the ConfigMap there is now."""
    for most in range(len(World(mpi_v1()).steps(World(mpi_v1()).plan())) + 1):
        world = World(mpi_v1())
        world.carry_out(world.plan(), most)
        if world.pods():
            assert world.objects["ConfigMap", "walk-mpi"]["metadata"]["annotations"] == {
                "batch.tensorstack.dev/ssh-secret": "walk-uid-walk-ssh"
            }
        world.settle()
        config, secret = world.objects["ConfigMap", "walk-mpi"], world.objects["Secret", "walk-uid-walk-ssh"]
        assert secret["metadata"]["ownerReferences"][0]["uid"] == config["metadata"]["uid"]
        assert world.pods() == ["walk-launcher-0", "walk-worker-0", "walk-worker-1", "walk-worker-2"]


def test_a_strangers_secret_keeps_the_job_waiting_until_it_goes() -> None:
    world = World(mpi_v1())
    taken = ("Secret", "walk-uid-walk-ssh")
    world.objects[taken] = {"kind": "Secret", "metadata": {"name": taken[1], "uid": "theirs"}}
    for _ in range(5):
        world.carry_out(world.plan())
        assert world.pods() == []
    assert world.condition("Initialized") == "False"
    assert "walk-uid-walk-ssh is taken" in world.events
    del world.objects[taken]
    world.settle()
    assert len(world.pods()) == 4


def of_an_older_release() -> World:
    """A job that runs with the Secret of the name of before."""
    world = started(mpi_v2(worker={"restartPolicy": {"policy": "OnFailure", "limit": 3}}))
    secret = world.objects.pop(("Secret", "walk-uid-walk-ssh"))
    secret["metadata"] |= {"name": "walk-ssh", "ownerReferences": [{"uid": "uid-walk"}]}
    world.objects["Secret", "walk-ssh"] = secret
    del world.objects["ConfigMap", "walk-mpi"]["metadata"]["annotations"]
    for name in world.pods():
        for volume in world.pod(name)["spec"]["volumes"]:
            if "secret" in volume:
                volume["secret"]["secretName"] = "walk-ssh"
    return world


def mounted(world: World) -> set[str]:
    volumes = [volume for name in world.pods() for volume in world.pod(name)["spec"]["volumes"]]
    return {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}


def test_a_job_of_an_older_release_goes_on_with_its_keys() -> None:
    world = of_an_older_release()
    uids = {name: world.pod(name)["metadata"]["uid"] for name in world.pods()}
    world.settle()
    assert {name: world.pod(name)["metadata"]["uid"] for name in world.pods()} == uids, "no pod is made anew"
    world.set_phase("walk-worker-0", "Failed", 1)
    world.later(600)
    world.settle()
    assert world.pod("walk-worker-0")["metadata"]["uid"] != uids["walk-worker-0"]
    assert mounted(world) == {"walk-ssh"}, "all pods of a job have the same keys"
    assert ("Secret", "walk-uid-walk-ssh") not in world.objects


def test_a_job_of_an_older_release_gets_new_keys_with_new_pods() -> None:
    world = of_an_older_release()
    world.obj["spec"]["runMode"] = {"pause": {"enabled": True}}
    world.settle()
    world.obj["spec"]["runMode"] = {"pause": {"enabled": False}}
    world.settle()
    assert mounted(world) == {"walk-uid-walk-ssh"}
    assert ("Secret", "walk-uid-walk-ssh") in world.objects


# MPIJob


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_the_launchers_end_is_the_jobs(code: int, phase: str) -> None:
    world = started(mpi_v1())
    world.set_phase("walk-launcher-0", "Succeeded" if code == 0 else "Failed", code)
    world.settle()
    assert world.status["phase"] == phase
    assert len(world.pods()) == 4, "workers are kept unless cleanUpWorkers"


def test_clean_up_workers_keeps_the_launcher() -> None:
    world = started(mpi_v1(runPolicy={"cleanUpWorkers": True}))
    world.set_phase("walk-launcher-0", "Succeeded", 0)
    world.settle()
    assert world.pods() == ["walk-launcher-0"]


def test_a_failed_worker_fails_the_job() -> None:
    world = started(mpi_v1())
    world.set_phase("walk-worker-1", "Failed", 1)
    world.settle()
    assert world.status["phase"] == "Failed"


def test_a_type_that_is_not_restarted_says_so() -> None:
    world = started(mpi_v2(worker={"restartPolicy": {"policy": "OnFailure", "limit": 0}}))
    world.set_phase(next(name for name in world.pods() if "worker" in name), "Failed", 1)
    world.settle()
    told = " ".join(event.message for event in world.events)
    assert "and its type is not restarted (its limit is 0)" in told
    assert "the 0 restarts" not in told


def test_restart_limits_count_by_type() -> None:
    world = started(mpi_v2(worker={"restartPolicy": {"policy": "OnFailure", "limit": 1}}))
    world.set_phase("walk-worker-0", "Failed", 1)
    world.settle()
    assert remade(world, "walk-worker-0")
    world.run_all()
    world.settle()
    world.set_phase("walk-worker-1", "Failed", 1)
    world.settle()
    assert world.status["phase"] == "Failed"


def test_a_worker_may_end_before_the_launcher() -> None:
    world = started(mpi_v1())
    world.set_phase("walk-worker-1", "Succeeded", 0)
    world.settle()
    assert world.status["phase"] == "Running"


# Notebook

POD = "managed-notebook-lab-0"


def change_queue(spec: dict[str, Any]) -> None:
    spec["scheduler"]["t9kScheduler"]["queue"] = "a40"


def change_image(spec: dict[str, Any]) -> None:
    spec["template"]["spec"]["containers"][0]["image"] = "busybox:2"


def change_type(spec: dict[str, Any]) -> None:
    spec["type"] = "rstudio"


def test_notebook_runs_and_is_ready() -> None:
    world = started(notebook())
    assert world.status["phase"] == "Running"
    assert world.condition("Ready") == "True"
    assert world.status["pod"]["reference"] == {"name": POD, "uid": world.pod(POD)["metadata"]["uid"]}
    assert world.status["url"].endswith("/notebook/lab/lab/")


@pytest.mark.parametrize(("change", "anew"), [(change_queue, True), (change_image, True), (change_type, False)])
def test_notebook_changes(change: Callable[[dict[str, Any]], None], anew: bool) -> None:
    world = started(notebook())
    change(world.obj["spec"])
    world.settle()
    assert remade(world, POD) is anew


def test_notebook_suspends_and_resumes() -> None:
    for suspended, running in (({"suspend": True}, {"suspend": False}), ({"runMode": "paused"}, {"runMode": ""})):
        world = started(notebook())
        world.obj["spec"].update(suspended)
        world.settle()
        assert (world.pods(), world.status["phase"], world.condition("Suspended")) == ([], "Paused", "True")
        world.obj["spec"].update(running)
        world.settle()
        assert world.pods() == [POD]


@pytest.mark.parametrize("status", [{}, {"reason": "Evicted"}])
def test_notebook_that_is_lost_comes_back(status: dict[str, Any]) -> None:
    world = started(notebook())
    world.set_phase(POD, "Failed", 1, **status)
    world.settle()
    assert remade(world, POD)


def test_notebook_that_ended_well_stays_ended() -> None:
    world = started(notebook())
    world.set_phase(POD, "Succeeded", 0)
    world.settle()
    assert world.created == [POD]
    assert world.status["phase"] == "Succeeded"


def test_a_clock_that_stands_still_or_runs_back_does_no_harm() -> None:
    world = started(pytorch(runPolicy={"activeDeadlineSeconds": 60}))
    world.now -= timedelta(days=1)
    before = copy.deepcopy(world.status)
    world.settle()
    assert world.status == before


def _group(world: World) -> dict[str, Any]:
    return world.objects["PodGroup", "net"]["spec"]


def test_members_that_failed_for_good_are_not_part_of_the_groups_minimum() -> None:
    """Nothing comes back to their room, and what is made anew of the others is placed without them."""
    job = pytorch(restart="Never", replicas=3)
    worker = job["spec"]["replicaSpecs"][0]
    job["spec"]["replicaSpecs"] = [
        {**worker, "type": "master", "replicas": 1, "restartPolicy": "OnFailure"},
        {**worker, "replicas": 2},
    ]
    world = World(job)
    world.settle()
    assert (_group(world)["minMember"], len(_group(world)["roles"])) == (3, 2)
    world.run_all()
    world.set_phase("net-worker-0", "Failed", 1)
    world.settle()
    assert _group(world)["minMember"] == 2
    assert {role["name"]: role["minMember"] for role in _group(world)["roles"]} == {"master": 1, "worker": 1}
    world.set_phase("net-master-0", "Failed", 1)
    world.set_phase("net-worker-1", "Failed", 1)
    world.settle()
    assert (_group(world)["minMember"], _group(world)["roles"]) == (1, [{"name": "master", "minMember": 1}])
    assert world.condition("Failed") == "False"
    pause, resume = ({"pause": {"enabled": on}} for on in (True, False))
    world.obj["spec"]["runMode"] = pause
    world.settle()
    world.obj["spec"]["runMode"] = resume
    world.settle()
    assert (_group(world)["minMember"], len(_group(world)["roles"])) == (3, 2)
