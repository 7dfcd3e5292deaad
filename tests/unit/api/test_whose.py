"""Cancelling a job deletes what is the caller's, object by object; the answer says what stays, why, and whom to ask."""

from typing import Any

import pytest

from t9ksched.kube.resources import PODGROUPS, PODS
from tests.unit.api.test_jobs import live
from tests.unit.api.world import Answer, Client, Json, World, documents, pod, pod_group, pytorch

WORKLOADS = "/apis/v1/workloads"
GROUP = f"{WORKLOADS}/default/podgroup/g"


@pytest.fixture(autouse=True)
async def queues(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})


def reviews(world: World, *allowed: tuple[str, str, str]) -> list[Json]:
    """The cluster says yes to these `(user, verb, name)`, an empty name for all; returns what it was asked."""
    asked: list[Json] = []
    create = world.kube.create

    async def answering(res: Any, obj: Json, namespace: str | None = None, **more: Any) -> Json:
        if res.kind != "SubjectAccessReview":
            return await create(res, obj, namespace, **more)
        about = obj["spec"]["resourceAttributes"]
        asked.append(about | {"user": obj["spec"]["user"]})
        name = about.get("name", "")
        yes = any((obj["spec"]["user"], about["verb"], each) in allowed for each in ("", name))
        return obj | {"status": {"allowed": yes}}

    world.kube.create = answering  # type: ignore[method-assign]
    return asked


async def by_kubectl(world: World, made: Json, resource: Any = PODS, **spec: Any) -> Json:
    made["metadata"]["namespace"] = "default"
    made["spec"] |= spec
    return await world.kube.create(resource, made, "default")


async def user(world: World, name: str, role: str = "user", **more: Any) -> Client:
    return Client(world.user.url, world.user.session, await world.store.tokens.create(name, role, **more))


def kept(answer: Answer) -> dict[str, str]:
    """What stays, with why."""
    assert answer.status == 200, answer
    return {w["message"].split()[0]: w["message"] for w in answer.body.get("warnings", [])}


async def test_pods_of_others_stay_in_a_group_that_is_cancelled(world: World) -> None:
    reviews(world, ("ann", "create", ""), ("bob", "create", ""))
    await world.user("POST", WORKLOADS, documents(pod_group("g"), pod("p-0", group="g"), pod("p-1", group="g")))
    bob = await user(world, "bob")
    await bob("POST", WORKLOADS, pod("of-bob", group="g"))
    await by_kubectl(world, pod("unknown", group="g"))
    await by_kubectl(world, pod("elsewhere", group="g", ours=False))
    await by_kubectl(world, pod("placed", group="g"), nodeName="n1")
    owned = pod("owned", group="g")
    owned["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web", "controller": True, "uid": "1"}]
    await by_kubectl(world, owned)

    group = await world.kube.get(PODGROUPS, "g", "default")
    dependent = pod("dependent", group="g")
    dependent["metadata"]["ownerReferences"] = [{"kind": "PodGroup", "name": "g", "uid": group["metadata"]["uid"]}]
    await by_kubectl(world, dependent)

    told = kept(await world.user("DELETE", GROUP))
    left = {"Pod/of-bob", "Pod/unknown", "Pod/elsewhere", "Pod/placed", "Pod/owned"}
    assert told.keys() == left
    assert world.kube.names() == left, "what the group owns goes with it"
    assert "submitted by 'bob'" in told["Pod/of-bob"]
    assert "kubectl delete pod/unknown -n default" in told["Pod/unknown"]
    assert "default-scheduler" in told["Pod/elsewhere"]
    assert "put on node n1 by its creator" in told["Pod/placed"]
    assert "ReplicaSet/web" in told["Pod/owned"]


async def test_what_the_cluster_lets_a_user_delete_goes_too(world: World) -> None:
    asked = reviews(world, ("ann", "create", ""), ("ann", "delete", "mine"))
    await world.user("POST", WORKLOADS, documents(pod_group("g"), pod("p-0", group="g")))
    await by_kubectl(world, pod("mine", group="g"))
    await by_kubectl(world, pod("others", group="g"))
    await by_kubectl(world, pod("elsewhere", group="g", ours=False))
    assert kept(await world.user("DELETE", GROUP)).keys() == {"Pod/others", "Pod/elsewhere"}
    assert world.kube.names() == {"Pod/others", "Pod/elsewhere"}
    assert {(one["verb"], one["resource"], one["namespace"]) for one in asked if one["verb"] == "delete"} == {
        ("delete", "pods", "default")
    }


async def test_who_may_delete_all_pods_of_a_namespace_is_asked_about_once(world: World) -> None:
    asked = reviews(world, ("ann", "create", ""), ("ann", "delete", ""))
    await world.user("POST", WORKLOADS, pod_group("g"))
    for number in range(5):
        await by_kubectl(world, pod(f"p-{number}", group="g"))
    assert kept(await world.user("DELETE", GROUP)) == {}
    assert world.kube.names() == set()
    assert [one.get("name") for one in asked if one["verb"] == "delete"] == [None]


async def test_a_stranger_stays_though_the_cluster_lets_the_user_delete_it(world: World) -> None:
    reviews(world, ("ann", "create", ""), ("ann", "delete", ""))
    await world.user("POST", WORKLOADS, documents(pod_group("g"), pod("p-0", group="g")))
    await by_kubectl(world, pod("member", group="g"))
    await by_kubectl(world, pod("stranger", group="g"))
    world.leader.job_list = [live("stranger", kind="Pod", queue="default")]
    told = kept(await world.user("DELETE", GROUP))
    assert told.keys() == world.kube.names() == {"Pod/stranger"}
    assert "no member" in told["Pod/stranger"]


@pytest.mark.parametrize("role", ["admin", "manager"])
async def test_a_role_deletes_members_and_no_strangers(world: World, role: str) -> None:
    reviews(world, ("ann", "create", ""))
    await world.user("POST", WORKLOADS, documents(pod_group("g"), pod("p-0", group="g")))
    for name, ours in (("member", True), ("stranger", True), ("elsewhere", False)):
        await by_kubectl(world, pod(name, group="g", ours=ours))
    world.leader.job_list = [live("stranger", kind="Pod", queue="default")]
    caller = world.admin if role == "admin" else await user(world, "boss", "manager", queues=["a100"])
    told = kept(await caller("DELETE", GROUP))
    assert told.keys() == world.kube.names() == {"Pod/stranger", "Pod/elsewhere"}
    assert "no member" in told["Pod/stranger"]


async def test_while_no_scheduler_leads_a_manager_deletes_what_was_submitted_together(world: World) -> None:
    reviews(world, ("ann", "create", ""))
    await world.user("POST", WORKLOADS, documents(pod_group("g"), pod("p-0", group="g")))
    await by_kubectl(world, pod("unknown", group="g"))
    world.leader.away = True
    told = kept(await world.admin("DELETE", GROUP))
    assert told.keys() == world.kube.names() == {"Pod/unknown"}
    assert "no scheduler" in told["Pod/unknown"]


async def test_the_owner_of_a_namespace_needs_the_clusters_word_for_jobs_of_others(world: World) -> None:
    world.kube.namespace_meta["default"] = {"annotations": {"tensorstack.dev/owner": "olga"}}
    await world.user("POST", WORKLOADS, pytorch())
    address = f"{WORKLOADS}/default/pytorchtrainingjob/resnet"
    olga = await user(world, "olga")
    reviews(world)
    refused = await olga("DELETE", address)
    assert (refused.status, refused.body["code"]) == (403, "Forbidden")
    assert "'ann'" in refused.body["detail"]
    assert world.kube.names() == {"PyTorchTrainingJob/resnet"}
    reviews(world, ("olga", "delete", "resnet"))
    assert (await olga("DELETE", address)).status == 200


@pytest.mark.parametrize("anew", ["by kubectl", "by REST", "not"])
async def test_a_group_made_anew_by_another_user_prevents_no_cancelling(world: World, anew: str) -> None:
    """The first owner's pods run on, at the cost of their queue: their record says whose they are."""
    reviews(world, ("ann", "create", ""), ("bob", "create", ""), ("bob", "delete", ""))
    await world.user("POST", WORKLOADS, documents(pod_group("g"), pod("p-0", group="g"), pod("p-1", group="g")))
    await world.kube.delete(PODGROUPS, "g", "default")
    bob = await user(world, "bob")
    if anew == "by REST":
        await bob("POST", WORKLOADS, documents(pod_group("g"), pod("of-bob", group="g")))
    elif anew == "by kubectl":
        await by_kubectl(world, pod_group("g"), PODGROUPS)
    await by_kubectl(world, pod("unknown", group="g"))
    others = world.kube.names() - {"Pod/p-0", "Pod/p-1"}
    cat = await user(world, "cat")
    assert (await cat("DELETE", GROUP)).status == 404
    told = await world.user("DELETE", GROUP)
    assert (told.status, told.body["phase"], told.body["queue"]) == (200, "Terminating", "a100")
    assert (told.body["name"], told.body["submitter"], told.body["members"]["total"]) == ("g", "ann", 2)
    assert [one["message"][:34] for one in told.body["warnings"]] == ["only the pods that you submitted i"]
    assert world.kube.names() == others
    events = await world.store.history.list(event="job-cancelled")
    assert {(event.name, event.actor) for event in events} == {("p-0", "ann"), ("p-1", "ann")}
    assert (await world.user("DELETE", GROUP)).status == 404


async def test_a_pod_of_the_same_name_that_came_since_stays(world: World) -> None:
    """Between the look and the deletion another pod may take the name: each deletion names its UID."""
    await world.user("POST", WORKLOADS, documents(pod_group("g"), pod("p-0", group="g")))

    def renewed(verb: str, res: Any, name: str) -> None:
        if (verb, res) == ("delete", PODGROUPS):
            world.kube.objects[str(PODS), "default", "p-0"]["metadata"]["uid"] = "another"

    world.kube.faults = renewed
    kept(await world.user("DELETE", GROUP))
    assert world.kube.names() == {"Pod/p-0"}
