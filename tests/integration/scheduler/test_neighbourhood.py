"""Rules about other pods from outside: namespaces by label, and what pods that are there prefer."""

from typing import Any

from t9ksched.kube.resources import NAMESPACES, NODES, PODS
from t9ksched.model import names
from tests.integration.scheduler.conftest import Start
from tests.integration.world import RUN_LABEL, World

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def near(app: str, **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST, **more}


def labelled(pod: dict[str, Any], app: str) -> dict[str, Any]:
    pod["metadata"]["labels"]["app"] = app
    return pod


async def test_namespaces_are_selected_by_their_labels_as_they_change(world: World, start: Start, queue: str) -> None:
    await world.play(3, 1)
    async with start():
        server = world.pod("server", 0, queue=queue, nodeSelector={HOST: world.nodes[2]})
        await world.create(labelled(server, "server"))
        await world.running("server")
        red = near("server", namespaceSelector={"matchLabels": {"t9ksched.test/team": "red"}})
        await world.create(world.pod("client", 0, queue=queue, affinity={"podAffinity": {REQUIRED: [red]}}))
        told = await world.event(names.EVENT_WAITING, "client")
        assert "pod affinity forbids" in told["message"]
        await world.client.patch(
            NAMESPACES, world.namespace, None, {"metadata": {"labels": {"t9ksched.test/team": "red"}}}
        )
        (client,) = await world.running("client")
        assert client["spec"]["nodeName"] == world.nodes[2]


async def test_what_a_running_pod_prefers_counts_for_newcomers(world: World, start: Start, queue: str) -> None:
    await world.play(3, 1)
    async with start():
        wish = [{"weight": 100, "podAffinityTerm": near("web")}]
        server = world.pod(
            "server", 0, queue=queue, nodeSelector={HOST: world.nodes[1]}, affinity={"podAffinity": {PREFERRED: wish}}
        )
        await world.create(server)
        await world.running("server")
        await world.create(labelled(world.pod("web", 0, queue=queue), "web"))
        (web,) = await world.running("web")
        assert web["spec"]["nodeName"] == world.nodes[1]


async def test_pods_that_leave_do_not_count_where_others_are_spread(world: World, start: Start, queue: str) -> None:
    await world.play(2, 1)
    spread = [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **near("x")}]
    async with start():
        held = {"finalizers": ["t9ksched.test/held"]}
        for name in ("a", "b"):
            pod = labelled(world.pod(name, 0, queue=queue, nodeSelector={HOST: world.nodes[0]}), "x")
            pod["metadata"] |= held
            await world.create(pod)
        await world.running("a", "b")
        here = {HOST: world.nodes[0]}
        late = labelled(world.pod("c", 0, queue=queue, nodeSelector=here, topologySpreadConstraints=spread), "x")
        late["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = "Ignore"
        await world.create(late)
        await world.event(names.EVENT_WAITING, "c")
        for name in ("a", "b"):
            await world.client.delete(PODS, name, world.namespace)
        await world.running("c")
        for name in ("a", "b"):
            await world.client.patch(PODS, name, world.namespace, {"metadata": {"finalizers": None}})


async def test_a_cordoned_domain_counts_again_once_it_is_open_where_spread_honours_taints(
    world: World, start: Start, queue: str
) -> None:
    await world.play(2, 1)
    spread = [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor", **near("x")}]
    more = {"nodeSelector": {RUN_LABEL: world.run}, "topologySpreadConstraints": spread}
    closed, other = world.nodes
    await world.client.patch(NODES, closed, None, {"spec": {"unschedulable": True}})
    async with start():
        await world.create(world.group("g", 3, queue))
        pods = [labelled(world.pod(f"g-{at}", 0, group="g", **more), "x") for at in range(3)]
        await world.create(*pods)
        assert {pod["spec"]["nodeName"] for pod in await world.running("g-0", "g-1", "g-2")} == {other}
        await world.client.patch(NODES, closed, None, {"spec": {"unschedulable": None}})
        await world.until(NODES, closed, lambda node: not node["spec"].get("taints"))
        await world.create(labelled(world.pod("late", 0, queue=queue, **more), "x"))
        (late,) = await world.running("late")
        assert late["spec"]["nodeName"] == closed


async def test_labels_that_change_are_seen_in_both_directions(world: World, start: Start, queue: str) -> None:
    await world.play(2, 1)
    async with start():
        first, second = ({HOST: node} for node in world.nodes)
        lonely = world.pod(
            "lonely", 0, queue=queue, nodeSelector=first, affinity={"podAntiAffinity": {REQUIRED: [near("web")]}}
        )
        await world.create(lonely)
        await world.create(labelled(world.pod("server", 0, queue=queue, nodeSelector=second), "other"))
        await world.running("lonely", "server")
        # Its own label changes while it waits: those who keep such pods away let it in.
        await world.create(labelled(world.pod("late", 0, queue=queue, nodeSelector=first), "web"))
        told = await world.event(names.EVENT_WAITING, "late")
        assert "pod anti-affinity forbids" in told["message"]
        await world.client.patch(PODS, "late", world.namespace, {"metadata": {"labels": {"app": "other"}}})
        await world.running("late")
        # The label of a running pod changes: it now satisfies the affinity of the waiting pods.
        await world.create(
            world.pod("friend", 0, queue=queue, nodeSelector=second, affinity={"podAffinity": {REQUIRED: [near("db")]}})
        )
        told = await world.event(names.EVENT_WAITING, "friend")
        assert "pod affinity forbids" in told["message"]
        await world.client.patch(PODS, "server", world.namespace, {"metadata": {"labels": {"app": "db"}}})
        await world.running("friend")
