"""Random histories of a job: looking twice changes nothing, dying anywhere changes nothing, limits are never passed."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.workloads.jobspec import spread
from tests.unit.workloads.builders import World, mpi_v1, mpi_v2, notebook, pytorch

POLICIES = ("Never", "OnFailure", "Always", "ExitCode")
OBJECTS = st.one_of(
    st.builds(
        lambda replicas, restart, limit, clean: pytorch(
            replicas, restart=restart, runPolicy={"backoffLimit": limit, "cleanUpPolicy": clean}
        ),
        st.integers(1, 3),
        st.sampled_from(POLICIES),
        st.integers(0, 2),
        st.sampled_from(("None", "Unfinished", "All")),
    ),
    st.builds(
        lambda expected: pytorch(
            elastic={"enabled": True, "minReplicas": 1, "maxReplicas": 3, "expectedReplicas": expected},
            torchrunConfig={"enabled": True},
            runPolicy={"activeDeadlineSeconds": 50},
        ),
        st.integers(1, 3),
    ),
    st.builds(lambda clean: mpi_v1(2, runPolicy={"cleanUpWorkers": clean}), st.booleans()),
    st.builds(lambda limit: mpi_v2(2, {"restartPolicy": {"policy": "OnFailure", "limit": limit}}), st.integers(0, 2)),
    st.builds(notebook),
)
HAPPENINGS = st.tuples(
    st.sampled_from(
        (
            "run",
            "succeed",
            "fail",
            "kill",
            "refuse",
            "preempt",
            "vanish",
            "terminate",
            "wait",
            "pause",
            "unpause",
            "lose",
        )
    ),
    st.integers(0, 5),
)


def happen(world: World, what: str, which: int) -> None:
    """One thing that users, nodes or the scheduler do."""
    match what:
        case "wait":
            return world.later(20)
        case "pause" | "unpause":
            if world.obj["kind"] == "Notebook":
                world.obj["spec"]["suspend"] = what == "pause"
            else:
                world.obj["spec"]["runMode"] = {"pause": {"enabled": what == "pause"}}
            return None
        case "lose":
            others = sorted(key for key in world.objects if key[0] not in ("Pod", "Secret"))
            if others:
                del world.objects[others[which % len(others)]]
                world.collect()
            return None
    pods = world.pods()
    if not pods:
        return None
    name = pods[which % len(pods)]
    over = (world.pod(name).get("status") or {}).get("phase") in ("Succeeded", "Failed")
    if what == "vanish":
        world.vanish(name)
    elif what == "terminate":
        world.pod(name)["metadata"]["deletionTimestamp"] = world.now.isoformat()
    elif not over:  # a pod ends once
        match what:
            case "run":
                world.set_phase(name, "Running")
            case "succeed":
                world.set_phase(name, "Succeeded", 0)
            case "fail":
                world.set_phase(name, "Failed", 1)
            case "kill":
                world.set_phase(name, "Failed", 137)
            case "refuse":
                world.set_phase(name, "Failed", reason="UnexpectedAdmissionError")
            case "preempt":
                world.set_phase(name, "Failed", 143, conditions=[{"type": "DisruptionTarget", "status": "True"}])
    return None


def essence(world: World) -> Any:
    """What must not depend on where the controller died: everything but the UIDs the server gave."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(each) for key, each in value.items() if key not in ("uid", "lastFailedUid")}
        return [strip(each) for each in value] if isinstance(value, list) else value

    return strip(world.status), sorted(world.objects)


@settings(max_examples=80, deadline=None)
@given(OBJECTS, st.lists(HAPPENINGS, max_size=15), st.data())
def test_dying_anywhere_leads_to_the_same_end(obj: dict[str, Any], history: list[Any], data: st.DataObject) -> None:
    world = World(obj)
    for what, which in history:
        happen(world, what, which)
        actions = world.plan()
        steps = len(world.steps(actions))
        broken = copy.deepcopy(world)
        broken.carry_out(actions, data.draw(st.integers(0, steps)))
        world.settle()
        broken.settle()
        assert essence(broken) == essence(world)
        assert not world.plan(), "looking again finds nothing to do"


@settings(max_examples=80, deadline=None)
@given(OBJECTS, st.lists(HAPPENINGS, max_size=25), st.data())
def test_limits_are_never_passed(obj: dict[str, Any], history: list[Any], data: st.DataObject) -> None:
    """However often the controller dies, no replica is restarted more often than its job allows."""
    world = World(obj)
    own_failures: set[str] = set()
    for what, which in history:
        happen(world, what, which)
        for key, pod in world.objects.items():
            status = pod.get("status") or {}
            if (
                key[0] == "Pod"
                and status.get("phase") in ("Failed", "Succeeded")
                and what in ("fail", "kill", "succeed")
            ):
                own_failures.add(pod["metadata"]["uid"])
        actions = world.plan()
        world.carry_out(actions, data.draw(st.integers(0, len(world.steps(actions)))))
        world.settle()
        spec, status = world.obj["spec"], world.status
        restarts = sum(task["restartCount"] for task in status.get("tasks", ()))
        assert restarts <= len(own_failures)
        if world.obj["kind"] == "PyTorchTrainingJob":
            limit = spec.get("runPolicy", {}).get("backoffLimit", 3)
            assert status["backoffCount"] == restarts <= limit
        for entry in spec.get("replicaSpecs") or ():
            limit = (entry.get("restartPolicy") or {}).get("limit") if world.obj["kind"] == "MPIJob" else None
            if limit is not None:
                (task,) = [task for task in status["tasks"] if task["type"] == entry["type"]]
                assert task["restartCount"] <= limit


@settings(max_examples=80, deadline=None)
@given(OBJECTS, st.lists(HAPPENINGS, max_size=15))
def test_what_has_ended_never_begins_again(obj: dict[str, Any], history: list[Any]) -> None:
    world = World(obj)
    world.settle()
    for what, which in history:
        ended = world.status["phase"] in ("Succeeded", "Failed") and world.obj["kind"] != "Notebook"
        phase, made = world.status["phase"], len(world.created)
        happen(world, what, which)
        world.settle()
        if ended:
            assert (world.status["phase"], len(world.created)) == (phase, made)
        names = [pod["metadata"]["name"] for pod in world.children().pods]
        assert len(names) == len(set(names))


@given(st.integers(0, 200), st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_spread_gives_out_all_and_the_first_type_one(total: int, weights: list[int]) -> None:
    shares = spread(total, weights)
    assert sum(shares) == total
    assert min(shares) >= 0
    assert shares[0] >= min(total, 1)
