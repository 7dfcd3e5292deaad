"""`t9ksched doctor` on a cluster, as an administrator and as a user without rights."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.testing import CliRunner, Result

from t9ksched.cli.application import application
from t9ksched.devcluster.apiserver.auth import User
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodes.presets import load_nodes
from t9ksched.engine.kernel import native
from t9ksched.engine.kernel.reference import Reference
from t9ksched.kube.resources import CLUSTERROLEBINDINGS, CLUSTERROLES, CONFIGMAPS, CRDS, PODS
from t9ksched.kube.setup.crds import ensure, read
from t9ksched.kube.setup.rbac import SCHEDULER, manifest
from t9ksched.packaged import folder
from tests.integration.edge.test_observe import pod
from tests.integration.edge.test_rights import as_user


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[DevCluster]:
    made = DevCluster(None, load_nodes("small"), users={SCHEDULER: User("eve", ())})
    await made.start()
    made.write_kubeconfig(tmp_path / "admin")
    await ensure(made.port_api, read(folder("crds")))
    as_user(made, SCHEDULER, tmp_path)
    yield made
    await made.stop()


def _invoke(*options: str) -> Result:
    return CliRunner().invoke(application(), ["doctor", *options])


async def doctor(kubeconfig: Path, *more: str) -> tuple[int, str]:
    """Exit code and what was printed; in a thread, as it has an event loop of its own."""
    done = await asyncio.to_thread(
        CliRunner().invoke, application(), ["doctor", "--kubeconfig", str(kubeconfig), *more]
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def levels(output: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in json.loads(output):
        found.setdefault(finding["check"], set()).add(finding["level"])
        assert finding["remedy"] or finding["level"] == "ok", finding
    return found


async def test_an_administrator_of_a_sound_cluster(cluster: DevCluster, tmp_path: Path) -> None:
    code, output = await doctor(tmp_path / "admin", "--db", f"sqlite:///{tmp_path}/new.db", "-o", "json")
    found = levels(output)
    assert code == 0
    assert found["server"] == found["rights"] == found["kinds"] == found["schedulers"] == {"ok"}
    assert found["database"] == {"note"}, "the first start makes it"
    assert "there is no file" in output
    assert not (tmp_path / "new.db").exists(), "looking changes nothing"
    assert found["engine"] <= {"ok", "note"}, "the native kernel need not be installed"
    assert "blocks" not in set().union(*found.values())


@pytest.mark.parametrize(
    ("missing", "level", "words", "remedy"),
    [
        ("", "ok", "plans run on the native kernel", ""),
        ("it is not compiled", "note", "decides the same; of the native kernel: it is not compiled", "`make native`"),
        ("T9KSCHED_NATIVE=0", "note", "plans run on numpy", "unset T9KSCHED_NATIVE"),
    ],
)
async def test_the_kernel_of_the_engine(
    missing: str, level: str, words: str, remedy: str, cluster: DevCluster, tmp_path: Path
) -> None:
    with patch.object(native, "chosen", lambda: native.Chosen(Reference(), missing)):
        code, output = await doctor(tmp_path / "admin", "-o", "json")
    (found,) = [item for item in json.loads(output) if item["check"] == "engine"]
    assert (code, found["level"], found["subject"]) == (0, level, "kernel")
    assert words in found["message"]
    assert remedy in found["remedy"]


async def test_who_has_no_rights_is_told_each_with_its_remedy(cluster: DevCluster, tmp_path: Path) -> None:
    code, output = await doctor(tmp_path / SCHEDULER)
    assert code == 1
    assert "create pods/binding" in output
    assert "kubectl apply -f deploy/rbac.yaml" in output
    role: Any = {"metadata": {"name": "r"}, "rules": []}
    role["rules"] = [rule for rule in manifest(SCHEDULER) if rule["resources"] != ["pods/binding"]]
    await cluster.port_api.create(CLUSTERROLES, role)
    subject = {"apiGroup": CLUSTERROLES.group, "kind": "User", "name": "eve"}
    ref = {"apiGroup": CLUSTERROLES.group, "kind": "ClusterRole", "name": "r"}
    await cluster.port_api.create(
        CLUSTERROLEBINDINGS, {"metadata": {"name": "r"}, "roleRef": ref, "subjects": [subject]}
    )
    code, output = await doctor(tmp_path / SCHEDULER, "--role", SCHEDULER, "-o", "json")
    blocking = [item["message"] for item in json.loads(output) if item["level"] == "blocks"]
    assert code == 1
    assert len(blocking) == 5, "the binding, and in t9k-system the lease, the configuration, queues and their status"
    assert any(message.startswith("may not create pods/binding;") for message in blocking)


async def test_missing_kinds_and_other_schedulers(cluster: DevCluster, tmp_path: Path) -> None:
    await cluster.port_api.delete(CRDS, "queues.scheduler.tensorstack.dev")
    foreign = pod("foreign", 2)
    foreign["spec"] |= {"schedulerName": "volcano", "nodeName": "nowhere"}
    await cluster.port_api.create(PODS, foreign)
    code, output = await doctor(tmp_path / "admin", "-o", "json")
    found = {(item["check"], item["subject"]): item for item in json.loads(output)}
    assert code == 1
    assert found["kinds", "queues.scheduler.tensorstack.dev"]["level"] == "blocks"
    assert "1 pod with 2 cards" in found["schedulers", "volcano"]["message"]


async def test_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    gone = DevCluster(None, [])
    await gone.start()
    gone.write_kubeconfig(tmp_path / "admin")
    await gone.stop()
    done = await asyncio.to_thread(
        CliRunner().invoke, application(), ["doctor", "--kubeconfig", str(tmp_path / "admin")]
    )
    assert done.exit_code == 1


async def test_plugins_that_a_policy_leaves_out_are_named(cluster: DevCluster, tmp_path: Path) -> None:
    text = "actions: allocate\ntiers: [{plugins: [{name: basic}, {name: predicates}, {name: affinity}]}]\n"
    config = {"metadata": {"name": "scheduler-config", "namespace": "t9k-system"}, "data": {"scheduler.conf": text}}
    await cluster.port_api.create(CONFIGMAPS, config, "t9k-system")
    code, output = await doctor(tmp_path / "admin")
    assert code == 0
    assert "does not list cardless" in " ".join(output.split())
