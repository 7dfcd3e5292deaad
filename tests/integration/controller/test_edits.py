"""Edits of jobs over HTTP: what a job owns follows, or the server refuses the edit with the reason."""

import copy
import json
from typing import Any

import pytest

from t9ksched.controller.service import Controllers
from t9ksched.kube.errors import BadRequest, Unprocessable
from t9ksched.kube.resources import CONFIGMAPS, CRDS, PODGROUPS, PODS, SERVICES, of
from t9ksched.kube.setup.crds import ensure, read
from t9ksched.model.names import EVENT_FIELDS_IGNORED
from t9ksched.packaged import folder
from t9ksched.workloads.changes import CHANGES, When
from tests.integration.controller.conftest import Cluster
from tests.integration.world import World
from tests.kinds import MPIJOBS, PYTORCHTRAININGJOBS
from tests.unit.workloads.builders import mpi_v1, mpi_v2, notebook, pytorch
from tests.unit.workloads.test_changes import WORKLOADS, values

Object = dict[str, Any]
ELASTIC: Object = {
    "elastic": {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "expectedReplicas": 3},
    "torchrunConfig": {"enabled": True},
}
PAUSE, RESUME = ({"runMode": {"pause": {"enabled": on}}} for on in (True, False))


def types(job: Object, **changes: Any) -> Object:
    """The replica types of a job with the last one changed."""
    found = copy.deepcopy(job["spec"]["replicaSpecs"])
    found[-1] |= changes
    return {"replicaSpecs": found}


@pytest.mark.cluster
async def test_a_training_job_changes_its_size_while_it_is_paused(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(pytorch(replicas=4))
    await cluster.phase(job, "Running")
    with pytest.raises(Unprocessable, match="only while the job is paused"):
        await cluster.patch(job, {"spec": types(job, replicas=2)})
    await cluster.patch(job, {"spec": PAUSE})
    await cluster.until_gone(PODS)
    await cluster.patch(job, {"spec": types(job, replicas=2) | RESUME})
    await cluster.phase(job, "Running")
    group = await cluster.client.get(PODGROUPS, "net", cluster.namespace)
    assert group["spec"]["minMember"] == 2
    assert await cluster.names(PODS) == ["net-worker-0", "net-worker-1"]


@pytest.mark.cluster
async def test_an_mpi_job_changes_its_size_while_it_is_paused(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(mpi_v1(replicas=3))
    await cluster.phase(job, "Running")
    with pytest.raises(Unprocessable, match="only while the job is paused"):
        await cluster.patch(job, {"spec": {"worker": {"replicas": 5}}})
    await cluster.patch(job, {"spec": {"worker": {"replicas": 5}} | PAUSE})
    config = await cluster.until(CONFIGMAPS, "walk-mpi", lambda each: "walk-worker-4" in each["data"]["hostfile"])
    assert config["data"]["hostfile"].count("\n") == 5
    await cluster.patch(job, {"spec": RESUME})
    await cluster.phase(job, "Running")
    assert (await cluster.client.get(PODGROUPS, "walk", cluster.namespace))["spec"]["minMember"] == 6


@pytest.mark.cluster
async def test_an_elastic_job_follows_its_target(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(pytorch(**ELASTIC))
    await cluster.phase(job, "Running")
    await cluster.patch(job, {"spec": {"elastic": {"expectedReplicas": 1}}})
    for name in ("net-worker-2", "net-worker-1"):
        await cluster.world.gone(PODS, name)
    assert await cluster.names(PODS) == ["net-worker-0"]
    with pytest.raises(Unprocessable, match="within minReplicas and maxReplicas"):
        await cluster.patch(job, {"spec": {"elastic": {"expectedReplicas": 5}}})


NEVER, PAUSED = "never change", "only while the job is paused"
RESUME_SPECS = {"runMode": {"pause": {"resumeSpecs": [{"type": "worker", "command": ["x"]}]}}}


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("job", "edit", "why"),
    [
        (pytorch(**ELASTIC), {"elastic": {"minReplicas": 2}}, NEVER),
        (pytorch(**ELASTIC), {"elastic": {"maxReplicas": None}}, NEVER),
        (pytorch(), {"elastic": {"enabled": True}}, NEVER),
        (pytorch(**ELASTIC), {"elastic": None}, NEVER),
        (pytorch(), RESUME_SPECS, NEVER),
        (pytorch(), RESUME_SPECS | {"scheduler": None}, NEVER),
        (pytorch(), {"scheduler": None}, "keeps its scheduler"),
        (pytorch(queue=None), {"scheduler": {"t9kScheduler": {"queue": "a100"}}}, "keeps its scheduler"),
        (pytorch(), types(pytorch(), template={"spec": {"containers": []}}), PAUSED),
        (pytorch(), types(pytorch(), restartPolicy="Never"), PAUSED),
        (pytorch(), {"torchrunConfig": {"enabled": True}}, PAUSED),
        (pytorch(), {"runMode": {"debug": {"enabled": True}}}, PAUSED),
        (mpi_v1(), {"mpiHome": "/elsewhere"}, PAUSED),
        (mpi_v1(), {"ssh": {"sshdPath": "/bin/sshd"}}, PAUSED),
        (mpi_v1(), {"worker": {"cmd": ["./other"]}}, PAUSED),
        (mpi_v1(), RESUME_SPECS, NEVER),
        (mpi_v2(), types(mpi_v2(), replicas=9), PAUSED),
        (mpi_v2(), {"mpiConfig": {"mca": {"btl": "tcp"}}}, PAUSED),
    ],
)
async def test_edits_that_are_refused(world: World, job: Object, edit: Object, why: str) -> None:
    cluster = Cluster(world, None)  # type: ignore[arg-type]
    made = await cluster.submit(job)
    with pytest.raises(Unprocessable, match=why):
        await cluster.patch(made, {"spec": edit})


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("job", "edit"),
    [
        (pytorch(), {"runPolicy": {"backoffLimit": 9, "activeDeadlineSeconds": 60, "cleanUpPolicy": "All"}}),
        (pytorch(), PAUSE | types(pytorch(), replicas=9)),
        (pytorch(**PAUSE), RESUME | types(pytorch(), replicas=9)),
        (pytorch(), {"tensorboardSpec": {"x": "y"}}),
        (mpi_v1(**PAUSE), {"mpiHome": "/elsewhere", "ssh": None, "mca": {"btl": "tcp"}}),
        (mpi_v1(), {"runPolicy": {"cleanUpWorkers": True}}),
        (notebook(), {"ssh": {"enabled": True}, "scheduler": {"t9kScheduler": {"queue": "a40"}}, "type": "rstudio"}),
    ],
)
async def test_edits_that_are_taken(world: World, job: Object, edit: Object) -> None:
    cluster = Cluster(world, None)  # type: ignore[arg-type]
    made = await cluster.submit(job)
    assert (await cluster.patch(made, {"spec": edit}))["metadata"]["generation"] == 2


@pytest.mark.cluster
async def test_jobs_made_under_older_definitions_live_on(world: World) -> None:
    """The rules speak of changes only: what an older release let pass is left as it is."""
    if world.real:
        pytest.skip("the definitions of a shared server are not taken back")
    names = ("pytorchtrainingjobs.batch.tensorstack.dev", "mpijobs.batch.tensorstack.dev")
    for name in names:
        there = await world.client.get(CRDS, name)
        for key in ("annotations", "labels"):
            there["metadata"].pop(key, None)
        schema = there["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["x-kubernetes-validations"]
        await world.client.replace(CRDS, there)
    cluster = Cluster(world, None)  # type: ignore[arg-type]
    odd = await cluster.submit(pytorch(elastic={"enabled": True, "minReplicas": 3, "expectedReplicas": 1}))
    await cluster.patch(odd, {"spec": {"elastic": {"maxReplicas": 2}}})
    old = await cluster.submit(mpi_v1())
    assert set(await ensure(world.client, read(folder("crds")))) == set(names)
    for job, res in ((odd, PYTORCHTRAININGJOBS), (old, MPIJOBS)):
        await cluster.patch(job, {"metadata": {"labels": {"team": "vision"}}, "spec": PAUSE})
        now = await world.client.get(res, job["metadata"]["name"], world.namespace)
        await world.client.replace_status(res, now | {"status": {"phase": "Paused"}})
    with pytest.raises(Unprocessable, match=NEVER):
        await cluster.patch(odd, {"spec": {"elastic": {"maxReplicas": 7}}})


@pytest.mark.cluster
async def test_the_server_refuses_what_the_table_says_with_the_field(world: World) -> None:
    """Every row of every kind that is refused while the job runs, one edit each."""
    cluster = Cluster(world, None)  # type: ignore[arg-type]
    for kind, changes in CHANGES.items():
        made = await cluster.submit(WORKLOADS[kind])
        made = await cluster.client.replace_status(of(made), made | {"status": {"scheduling": SETTLED}})
        for row in changes:
            if row.when not in REFUSED or row.field == "scheduler.t9kScheduler":
                continue
            with pytest.raises(Unprocessable) as refused:
                await cluster.patch(made, {"spec": nested(row.field, values(kind, row.field)[1])})
            assert [cause["field"] for cause in refused.value.causes] == [f"spec.{row.field}"]


@pytest.mark.cluster
async def test_unknown_fields_are_refused_where_the_definition_is_closed_and_told_elsewhere(
    cluster: Cluster, controllers: Controllers
) -> None:
    wrong = pytorch()
    wrong["spec"] |= {"bogusField": 1, "runPolicy": {"activeDeadline": 4}}
    wrong["spec"]["replicaSpecs"][0]["replica"] = 2
    path, body = PYTORCHTRAININGJOBS.path(cluster.namespace), json.dumps(wrong).encode()
    with pytest.raises(BadRequest) as refused:
        await cluster.client.request("POST", path, query={"fieldValidation": "Strict"}, body=body)
    for field in ("spec.bogusField", "spec.runPolicy.activeDeadline", "spec.replicaSpecs[0].replica"):
        assert f'unknown field "{field}"' in refused.value.message
    told = pytorch()
    told["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["frobnicate"] = 1
    made = await cluster.submit(told)
    assert made["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["frobnicate"] == 1, "kept as written"
    event = await cluster.world.event(EVENT_FIELDS_IGNORED, "net")
    assert event["message"].endswith(": spec.replicaSpecs[0].template.spec.containers[0].frobnicate")


SETTLED = {"queue": "a100", "priority": 5}
REFUSED = (When.PAUSED, When.NEVER, When.UNTIL_MADE)


def nested(field: str, value: Any) -> Object:
    for key in reversed(field.split(".")):
        value = {key: value}
    return dict(value)


SSH = {"enabled": True, "authorized_keys": ["ssh-ed25519 AAA ann", "ssh-ed25519 BBB bob"]}
LAB, DOOR = "managed-notebook-lab-0", "managed-notebook-lab-ssh"


@pytest.mark.cluster
async def test_a_removed_key_opens_nothing_and_a_closed_door_is_gone(
    cluster: Cluster, controllers: Controllers
) -> None:
    book = await cluster.submit(notebook(ssh={**SSH, "serviceType": "NodePort"}))
    await cluster.phase(book, "Running")
    first = (await cluster.client.get(PODS, LAB, cluster.namespace))["metadata"]["uid"]
    await cluster.patch(book, {"spec": {"ssh": {"authorized_keys": SSH["authorized_keys"][:1]}}})  # type: ignore[index]
    again = await cluster.until(PODS, LAB, lambda pod: pod["metadata"]["uid"] != first)
    assert again["metadata"]["uid"] != first
    keys = await cluster.client.get(CONFIGMAPS, DOOR, cluster.namespace)
    assert keys["data"] == {"authorized_keys": "ssh-ed25519 AAA ann\n"}
    assert (await cluster.client.get(SERVICES, DOOR, cluster.namespace))["spec"]["ports"][0]["nodePort"]

    await cluster.patch(book, {"spec": {"ssh": {"serviceType": "ClusterIP"}}})
    plain = await cluster.until(SERVICES, DOOR, lambda service: service["spec"]["type"] == "ClusterIP")
    assert "nodePort" not in plain["spec"]["ports"][0]
    await cluster.patch(book, {"spec": {"ssh": {"serviceType": "NodePort"}}})
    await cluster.until(SERVICES, DOOR, lambda service: service["spec"]["ports"][0].get("nodePort"))

    await cluster.patch(book, {"spec": {"ssh": {"enabled": False}}})
    await cluster.world.gone(SERVICES, DOOR)
    await cluster.world.gone(CONFIGMAPS, DOOR)
    pod = await cluster.until(PODS, LAB, lambda pod: "authorized-keys" not in str(pod["spec"].get("volumes")))
    assert {"name": "ENABLE_SSH_SERVER", "value": "false"} in pod["spec"]["containers"][0]["env"]


@pytest.mark.cluster
async def test_what_is_edited_by_hand_is_brought_back(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(mpi_v1(replicas=2))
    await cluster.phase(job, "Running")
    client, where = cluster.client, cluster.namespace
    await client.patch(CONFIGMAPS, "walk-mpi", where, {"data": {"hostfile": "elsewhere\n"}})
    await client.patch(PODGROUPS, "walk", where, {"spec": {"minMember": 1}})
    await client.patch(SERVICES, "walk", where, {"spec": {"selector": {"app": "other"}}})
    await cluster.until(CONFIGMAPS, "walk-mpi", lambda each: "walk-worker-1" in each["data"]["hostfile"])
    await cluster.until(PODGROUPS, "walk", lambda each: each["spec"]["minMember"] == 3)
    agreed = job["spec"]["scheduler"]["t9kScheduler"]["queue"]
    await client.patch(PODGROUPS, "walk", where, {"spec": {"queue": "default", "priority": 99}})
    group = await cluster.until(PODGROUPS, "walk", lambda each: each["spec"]["queue"] == agreed)
    assert group["spec"]["priority"] != 99
    await cluster.until(SERVICES, "walk", lambda each: "app" not in each["spec"]["selector"])
    label = "tensorstack.dev/component"
    await client.patch(SERVICES, "walk", where, {"metadata": {"labels": {label: None}}})
    await cluster.until(SERVICES, "walk", lambda each: label in each["metadata"]["labels"])
    await client.delete(CONFIGMAPS, "walk-mpi", where)
    await cluster.until(CONFIGMAPS, "walk-mpi", lambda each: not each["metadata"].get("deletionTimestamp"))
    uids = {pod["metadata"]["uid"] for pod in (await client.list(PODS, where)).items}
    assert len(uids) == 3
    assert (await client.get(MPIJOBS, "walk", where))["status"]["phase"] == "Running"


@pytest.mark.cluster
async def test_a_type_that_the_door_cannot_have_is_refused_and_other_faults_stop_no_withdrawal(
    cluster: Cluster, controllers: Controllers
) -> None:
    book = await cluster.submit(notebook(ssh={**SSH, "serviceType": "NodePort"}))
    await cluster.phase(book, "Running")
    with pytest.raises(Unprocessable, match="must be ClusterIP, NodePort or LoadBalancer"):
        await cluster.patch(book, {"spec": {"ssh": {"serviceType": "nodeport"}}})
    container = {"name": "notebook", "image": "x", "resources": {"requests": {"cpu": "5"}, "limits": {"cpu": "1"}}}
    template = {"template": {"spec": {"containers": [container]}}}
    await cluster.patch(book, {"spec": template | {"ssh": {"authorized_keys": SSH["authorized_keys"][:1]}}})  # type: ignore[index]
    await cluster.world.gone(PODS, LAB)
    await cluster.until(CONFIGMAPS, DOOR, lambda file: file["data"] == {"authorized_keys": "ssh-ed25519 AAA ann\n"})
    await cluster.patch(book, {"spec": {"suspend": True, "ssh": {"enabled": False}}})
    await cluster.phase(book, "Paused")
    await cluster.world.gone(SERVICES, DOOR)
    await cluster.world.gone(CONFIGMAPS, DOOR)


@pytest.mark.cluster
async def test_a_job_with_a_faulty_template_is_paused(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(pytorch())
    await cluster.phase(job, "Running")
    container = {"name": "pytorch", "image": "x", "resources": {"requests": {"cpu": "5"}, "limits": {"cpu": "1"}}}
    await cluster.patch(job, {"spec": PAUSE | types(job, template={"spec": {"containers": [container]}})})
    await cluster.phase(job, "Paused")
    await cluster.until_gone(PODS)
