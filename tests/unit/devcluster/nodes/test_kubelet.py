"""The simulated kubelet, on virtual time: what becomes of the pods that are bound to its nodes."""

import asyncio

import pytest

from t9ksched.devcluster.nodes.kubelet import BACKOFF
from t9ksched.kube.resources import NODES, PODS
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import ASKED, EXIT, GIVEN, GPU, RUN, World, container, pod, world


def state(obj: dict, index: int = 0) -> dict:
    return dict(obj["status"]["containerStatuses"][index]["state"])


def conditions(obj: dict) -> dict[str, str]:
    return {entry["type"]: entry["status"] for entry in obj["status"]["conditions"]}


@on_virtual_time
async def test_a_bound_pod_runs_until_it_is_deleted() -> None:
    async with world() as w:
        await w.run(pod("a", gpu=2), "gpu-a", main="0,3")
        found = await w.get("a")
        assert found["status"]["phase"] == "Running"
        assert "running" in state(found)
        assert conditions(found) == dict.fromkeys(("Initialized", "Ready", "ContainersReady", "PodScheduled"), "True")
        assert found["status"]["podIP"]
        assert found["status"]["hostIP"]
        assert not [key for key in found["metadata"]["annotations"] if key.startswith(GIVEN)]
        await asyncio.sleep(100_000)
        assert await w.phase("a") == "Running"
        await w.port.delete(PODS, "a", "default")
        await asyncio.sleep(1)
        assert await w.gone("a"), "stops well before its grace period of 30 s"
        assert w.agents.refusals == []
        assert w.agents.audit().ok


@on_virtual_time
async def test_an_unbound_pod_is_left_alone() -> None:
    async with world() as w:
        await w.run(pod("a"))
        assert await w.phase("a") == "Pending"


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_run_seconds_end_the_pod(code: str, phase: str) -> None:
    @on_virtual_time
    async def scenario() -> None:
        async with world() as w:
            await w.run(pod("a", gpu=1, annotations={RUN: "60", EXIT: code}), "gpu-a", main="0")
            await asyncio.sleep(58)
            assert await w.phase("a") == "Running"
            await asyncio.sleep(2)
            found = await w.get("a")
            assert found["status"]["phase"] == phase
            assert state(found)["terminated"]["exitCode"] == int(code)
            await w.run(pod("b", gpu=1), "gpu-a", main="0")
            assert await w.phase("b") == "Running", "the card is free again"
            assert w.agents.audit().ok

    scenario()


@on_virtual_time
async def test_the_annotation_may_come_later() -> None:
    async with world() as w:
        await w.run(pod("a"), "gpu-a")
        await w.annotate("a", **{RUN: "5"})
        await asyncio.sleep(6)
        assert await w.phase("a") == "Succeeded"


@on_virtual_time
async def test_a_bad_annotation_is_told_and_can_be_mended() -> None:
    async with world() as w:
        await w.run(pod("a", annotations={RUN: "soon"}), "gpu-a")
        found = await w.get("a")
        assert found["status"]["phase"] == "Pending"
        assert "soon" in state(found)["waiting"]["message"]
        await w.annotate("a", **{RUN: "5"})
        await asyncio.sleep(6)
        assert await w.phase("a") == "Succeeded"
        assert w.agents.refusals == []


@on_virtual_time
async def test_restart_policy_always_restarts_with_growing_pauses() -> None:
    async with world() as w:
        await w.run(pod("a", restart="Always", annotations={RUN: "1"}), "gpu-a")
        await asyncio.sleep(2)
        found = await w.get("a")
        assert found["status"]["containerStatuses"][0]["restartCount"] == 1, "the first restart comes at once"
        waiting = state(found)["waiting"]
        assert waiting["reason"] == "CrashLoopBackOff"
        assert conditions(found)["Ready"] == "False"
        await asyncio.sleep(BACKOFF[1])
        assert (await w.get("a"))["status"]["containerStatuses"][0]["restartCount"] == 2
        await asyncio.sleep(3600)
        assert await w.phase("a") == "Running"
        assert (await w.get("a"))["status"]["containerStatuses"][0]["restartCount"] < 25


@pytest.mark.parametrize(("code", "phase", "restarts"), [("0", "Succeeded", 0), ("1", "Running", 1)])
def test_restart_policy_on_failure(code: str, phase: str, restarts: int) -> None:
    @on_virtual_time
    async def scenario() -> None:
        async with world() as w:
            await w.run(pod("a", restart="OnFailure", annotations={RUN: "10", EXIT: code}), "gpu-a")
            await asyncio.sleep(15)
            found = await w.get("a")
            assert found["status"]["phase"] == phase
            assert found["status"]["containerStatuses"][0]["restartCount"] == restarts

    scenario()


@on_virtual_time
async def test_active_deadline() -> None:
    async with world() as w:
        await w.run(pod("a", activeDeadlineSeconds=30), "gpu-a")
        await asyncio.sleep(31)
        found = await w.get("a")
        assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", "DeadlineExceeded")


@on_virtual_time
async def test_init_containers_succeed_and_sidecars_run() -> None:
    async with world() as w:
        sidecar = {**container("proxy"), "restartPolicy": "Always"}
        await w.run(pod("a", initContainers=[container("setup"), sidecar]), "gpu-a")
        setup, proxy = (await w.get("a"))["status"]["initContainerStatuses"]
        assert setup["state"]["terminated"]["exitCode"] == 0
        assert "running" in proxy["state"]


FULL = [container(cpu="7")]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (pod("a", containers=FULL), pod("b", containers=FULL), "OutOfcpu"),
        (pod("a", containers=[container(memory="20Gi")]), pod("b", containers=[container(memory="20Gi")]),
         "OutOfmemory"),
        (pod("a", gpu=3), pod("b", gpu=2), f"OutOf{GPU}"),
        (pod("a"), pod("b", nodeSelector={"zone": "mars"}), "NodeAffinity"),
        (pod("a", gpu=1, annotations={ASKED + "main": "2"}), pod("b", gpu=1, annotations={ASKED + "main": "2"}),
         "UnexpectedAdmissionError"),
        (pod("a"), pod("b", gpu=1, annotations={ASKED + "main": "4"}), "UnexpectedAdmissionError"),
        (pod("a"), pod("b", gpu=2, annotations={ASKED + "main": "1"}), "UnexpectedAdmissionError"),
        (pod("a", containers=[{**container(), "ports": [{"containerPort": 80, "hostPort": 80}]}]),
         pod("b", containers=[{**container(), "ports": [{"containerPort": 80, "hostPort": 80}]}]), "NodePorts"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(first: dict, second: dict, reason: str) -> None:
    @on_virtual_time
    async def scenario() -> None:
        async with world() as w:
            await w.run(first, "gpu-a")
            await w.run(second, "gpu-a")
            assert await w.phase("a") == "Running"
            found = await w.get("b")
            assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", reason)
            assert found["status"]["message"]
            (refusal,) = w.agents.refusals
            assert (refusal.pod, refusal.reason, refusal.node) == ("default/b", reason, "gpu-a")

    scenario()


@on_virtual_time
async def test_the_number_of_pods_is_limited() -> None:
    async with world("nodes: [{name: 'n', allocatable: {cpu: 8, memory: 1Gi, pods: 1}}]") as w:
        await w.run(pod("a"), "n")
        await w.run(pod("b"), "n")
        assert (await w.get("b"))["status"]["reason"] == "OutOfpods"


@on_virtual_time
async def test_foreign_pods_get_cards_from_the_top_and_they_are_recorded() -> None:
    async with world() as w:
        await w.run(pod("ours", gpu=1), "gpu-a", main="3")
        await w.run(pod("foreign", gpu=2, scheduler="default-scheduler"), "gpu-a")
        annotations = (await w.get("foreign"))["metadata"]["annotations"]
        assert (annotations[GIVEN + "main"], annotations[ASKED + "main"]) == ("1,2", "1,2")
        assert w.agents.audit().ok


@on_virtual_time
async def test_a_plugin_that_chooses_takes_the_lowest_whatever_is_asked() -> None:
    async with world() as w:
        await w.run(pod("a", gpu=2), "gpu-b", main="2,3")
        assert (await w.get("a"))["metadata"]["annotations"][GIVEN + "main"] == "0,1"
        await w.run(pod("b", gpu=2), "gpu-b", main="2,3")
        assert (await w.get("b"))["metadata"]["annotations"][GIVEN + "main"] == "2,3"
        assert w.agents.refusals == []
        assert w.agents.audit().ok


async def snapshot(w: World) -> dict[str, dict]:
    return {obj["metadata"]["name"]: obj for obj in await w.pods()}


@on_virtual_time
async def test_after_a_restart_a_pod_that_cannot_start_keeps_its_start() -> None:
    async with world() as w:
        await w.run(pod("a", annotations={RUN: "never"}), "gpu-a")
        await asyncio.sleep(30)
        before = await w.get("a")
        assert before["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        await w.restart()
        await asyncio.sleep(30)
        assert (await w.get("a"))["status"]["startTime"] == before["status"]["startTime"]


@on_virtual_time
async def test_after_a_restart_nothing_restarts_and_ends_come_on_time() -> None:
    async with world() as w:
        await w.run(pod("a", gpu=1, annotations={RUN: "100"}), "gpu-a", main="0")
        await w.run(pod("b", gpu=1), "gpu-a", main="1")
        await w.run(pod("foreign", gpu=1), "gpu-a")
        await w.run(pod("loop", restart="Always", annotations={RUN: "1"}), "gpu-a")
        await asyncio.sleep(5)
        before = await snapshot(w)
        await w.restart()
        await asyncio.sleep(1)
        after = await snapshot(w)
        assert after == before
        await w.run(pod("c", gpu=1), "gpu-a", main="1")
        assert await w.phase("c") == "Failed", "the new kubelet knows whose card 1 is"
        await w.run(pod("d", gpu=1), "gpu-a", main="3")
        assert await w.phase("d") == "Failed", "and the foreign pod's"
        await asyncio.sleep(100)
        found = await w.get("a")
        assert found["status"]["phase"] == "Succeeded"
        assert found["status"]["startTime"] == before["a"]["status"]["startTime"]
        assert await w.phase("b") == "Running"


@on_virtual_time
async def test_what_ended_while_no_kubelet_ran_ends_at_the_next_start() -> None:
    async with world() as w:
        await w.run(pod("a", annotations={RUN: "10"}), "gpu-a")
        await w.stop()
        await w.run(pod("b", gpu=1), "gpu-a", main="2")
        await w.port.delete(PODS, "b", "default")
        await asyncio.sleep(60)
        assert await w.phase("a") == "Running"
        await w.start()
        await asyncio.sleep(1)
        assert await w.phase("a") == "Succeeded"
        assert await w.gone("b")


@on_virtual_time
async def test_promised_cards_are_not_given_to_foreign_pods() -> None:
    async with world() as w:
        await w.stop()
        await w.run(pod("foreign", gpu=2), "gpu-a")
        await w.run(pod("ours", gpu=2), "gpu-a", main="2,3")
        await w.start()
        await asyncio.sleep(1)
        assert (await w.get("foreign"))["metadata"]["annotations"][GIVEN + "main"] == "0,1"
        assert await w.phase("ours") == "Running"
        assert w.agents.refusals == []


@on_virtual_time
async def test_a_new_pod_of_the_same_name_is_another_pod() -> None:
    async with world() as w:
        for _ in range(3):
            await w.run(pod("a", gpu=4), "gpu-a", main="0,1,2,3")
            assert await w.phase("a") == "Running"
            await w.port.delete(PODS, "a", "default", grace=0)
        assert w.agents.refusals == []
        assert w.agents.audit().ok


@on_virtual_time
async def test_stopping_takes_as_long_as_the_pod_says_but_no_longer_than_its_grace() -> None:
    async with world() as w:
        slow = {"devcluster.tensorstack.dev/stop-seconds": "20"}
        await w.run(pod("a", annotations=slow), "gpu-a")
        await w.run(pod("b", annotations=slow, terminationGracePeriodSeconds=5), "gpu-a")
        for name in "ab":
            await w.port.delete(PODS, name, "default")
        await asyncio.sleep(7)
        assert await w.gone("b")
        assert not await w.gone("a")
        await asyncio.sleep(15)
        assert await w.gone("a")


@on_virtual_time
async def test_a_node_that_is_deleted_takes_its_pods_with_it() -> None:
    async with world() as w:
        await w.run(pod("a"), "gpu-a")
        await w.run(pod("b"), "gpu-b")
        await w.port.delete(NODES, "gpu-a")
        await asyncio.sleep(1)
        assert await w.gone("a")
        assert await w.phase("b") == "Running"


@on_virtual_time
async def test_a_pod_may_be_bound_before_its_node_is_there() -> None:
    async with world() as w:
        await w.run(pod("a"), "late")
        assert await w.phase("a") == "Pending"
        node = {**await w.get("gpu-a", NODES)}
        node["metadata"] = {"name": "late", "labels": {"kubernetes.io/hostname": "late"}}
        await w.create(NODES, node)
        await asyncio.sleep(1)
        assert await w.phase("a") == "Running"


@on_virtual_time
async def test_only_its_own_nodes_are_played() -> None:
    async with world() as w:
        await w.stop()
        await w.start(nodes=["gpu-b"])
        await w.run(pod("a"), "gpu-a")
        await w.run(pod("b"), "gpu-b")
        assert (await w.phase("a"), await w.phase("b")) == ("Pending", "Running")
