"""The SSH keys of MPI jobs: made once, never read, and never another's."""

import base64
import copy

import pytest

from t9ksched.controller.service import Controllers
from t9ksched.kube.resources import CONFIGMAPS, PODS, SECRETS, of
from t9ksched.kube.transport.client import Client
from t9ksched.workloads.keypair import with_keys
from t9ksched.workloads.reconcile import expand
from tests.integration.controller.conftest import Cluster, running
from tests.unit.workloads.builders import mpi_v1


@pytest.mark.cluster
async def test_an_mpi_job_has_its_hosts_and_keys(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(mpi_v1(replicas=2))
    await cluster.phase(job, "Running")
    worker = await cluster.client.get(PODS, "walk-worker-0", cluster.namespace)
    name = f"walk-{worker['metadata']['ownerReferences'][0]['uid']}-ssh"
    assert [each["secret"]["secretName"] for each in worker["spec"]["volumes"] if "secret" in each] == [name]
    secret = await cluster.client.get(SECRETS, name, cluster.namespace)
    assert base64.b64decode(secret["data"]["ssh-privatekey"]).startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    assert base64.b64decode(secret["data"]["ssh-publickey"]).startswith(b"ssh-ed25519 ")
    config = await cluster.client.get(CONFIGMAPS, "walk-mpi", cluster.namespace)
    assert config["data"]["hostfile"] == "walk-worker-0.walk slots=1\nwalk-worker-1.walk slots=1\n"


@pytest.mark.cluster
async def test_a_strangers_secret_gives_a_job_no_keys(cluster: Cluster, account: Client) -> None:
    """A Secret of the name, made by another between the job and its controller, is not used, and not deleted."""
    job = await cluster.submit(mpi_v1(replicas=1))
    name = f"walk-{job['metadata']['uid']}-ssh"
    meta = {"name": name, "namespace": cluster.namespace}
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"ssh-privatekey": "known"}}
    theirs = await cluster.client.create(SECRETS, theirs)
    async with running(Controllers(account)):
        await cluster.event("NameTaken")
        assert await cluster.names(PODS) == []
        there = await cluster.client.get(SECRETS, name, cluster.namespace)
        assert there["metadata"]["uid"] == theirs["metadata"]["uid"]
        await cluster.client.delete(SECRETS, name, cluster.namespace)
        await cluster.phase(job, "Running")
        there = await cluster.client.get(SECRETS, name, cluster.namespace)
        assert base64.b64decode(there["data"]["ssh-privatekey"]).startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")


@pytest.mark.cluster
async def test_keys_of_a_try_that_did_not_end_are_made_anew(cluster: Cluster, account: Client) -> None:
    """The controller died after it made the Secret, before it was on record."""
    job = await cluster.submit(mpi_v1(replicas=1))
    expansion = expand(job)
    config = await cluster.client.create(CONFIGMAPS, expansion.configmaps[0])
    before = await cluster.client.create(SECRETS, with_keys(expansion.secrets[0], config, "PRIVATE", "PUBLIC"))
    async with running(Controllers(account)):
        await cluster.phase(job, "Running")
    name = before["metadata"]["name"]
    there = await cluster.client.get(SECRETS, name, cluster.namespace)
    assert there["metadata"]["uid"] != before["metadata"]["uid"]
    found = await cluster.client.get(CONFIGMAPS, "walk-mpi", cluster.namespace)
    assert there["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]


@pytest.mark.cluster
async def test_a_job_of_an_older_release_keeps_its_pods_and_its_keys(cluster: Cluster, account: Client) -> None:
    job = await cluster.submit(mpi_v1(replicas=1))
    expansion = expand(job)
    secret = copy.deepcopy(expansion.secrets[0])
    secret["metadata"] |= {"name": "walk-ssh", "ownerReferences": expansion.pods[0]["metadata"]["ownerReferences"]}
    await cluster.client.create(SECRETS, secret | {"stringData": {"ssh-privatekey": "old"}})
    for each in (expansion.podgroup, *expansion.services, *expansion.configmaps, *expansion.pods):
        assert each is not None
        made = copy.deepcopy(each)
        for volume in made["spec"].get("volumes", ()) if each["kind"] == "Pod" else ():
            if "secret" in volume:
                volume["secret"]["secretName"] = "walk-ssh"
        await cluster.client.create(of(made), made)
    pods = {each["metadata"]["uid"] for each in (await cluster.client.list(PODS, cluster.namespace)).items}
    async with running(Controllers(account)):
        await cluster.phase(job, "Running")
        listed = (await cluster.client.list(PODS, cluster.namespace)).items
        assert {each["metadata"]["uid"] for each in listed} == pods
        await cluster.client.delete(PODS, "walk-worker-0", cluster.namespace, grace=0)
        anew = await cluster.until(PODS, "walk-worker-0", lambda pod: pod["metadata"]["uid"] not in pods)
    assert [each["secret"]["secretName"] for each in anew["spec"]["volumes"] if "secret" in each] == ["walk-ssh"]
