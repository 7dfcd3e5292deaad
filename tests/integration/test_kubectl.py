"""A day with kubectl on a cluster: what each command prints, on the dev cluster and on a real server alike."""

import asyncio
import json
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched.cli.manifests.chart import render
from t9ksched.cli.manifests.overrides import given
from t9ksched.kube.errors import AlreadyExists
from t9ksched.kube.resources import CRDS
from t9ksched.kube.setup.rbac import API, CONTROLLER, SCHEDULER
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.store import schema
from tests.clustertools import tool
from tests.integration.world import World, established
from tests.unit.cli.manifests.test_chart import EVERYTHING

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(tool("kubectl") is None, reason="kubectl is not installed"),
]
TIMEOUT = 60.0
DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {serviceAccount: default, containers: [{name: main, image: "nginx:1"}]}
---
apiVersion: scheduler.tensorstack.dev/v1beta1
kind: PodGroup
metadata: {name: team}
spec: {minMember: 2, queue: q}
"""
LIST = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: listed}, data: {a: b}}
- {apiVersion: scheduler.tensorstack.dev/v1beta1, kind: PodGroup, metadata: {name: listed}, spec: {minMember: 2}}
"""
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}}
DAY = [  # command, what it prints
    ("apply -f {file}", "created"),
    ("apply -f {file}", "unchanged"),
    ("apply --server-side --force-conflicts -f {file}", "serverside-applied"),
    ("get pods -o wide", "READINESS GATES"),
    ("get podgroups", "MIN"),
    ("get pods -l app=web -o name", "pod/web"),
    ("get pods -l app!=web -o name", ""),
    ("get pods --field-selector spec.nodeName= -o name", "pod/web"),
    ("get pod web -o jsonpath={{.spec.serviceAccountName}}", "default"),
    ("describe pod web", "nginx:1"),
    ("describe podgroup team", "Min Member:  2"),
    ("explain podgroup.spec.minMember", "minMember"),
    ("explain pod.spec.nodeSelector", "nodeSelector"),
    ("label pod web tier=front", "labeled"),
    ("annotate pod web k=v", "annotated"),
    ("patch podgroup team --type merge -p {patch}", "patched"),
    ("get podgroup team -o jsonpath={{.spec.minMember}}", "3"),
    ("apply -f {list}", "podgroup.scheduler.tensorstack.dev/listed created"),
    ("apply -f {list}", "configmap/listed unchanged"),
    ("apply -f {misspelt}", 1),
    ("create -f {other}", "configmap/made created"),
    ("create configmap flags --from-literal a=b", "configmap/flags created"),
    ("get configmap flags -o jsonpath={{.data.a}}", "b"),
    ("create serviceaccount robot", "serviceaccount/robot created"),
    ("create token robot --duration 10m", "ey"),
    ("create role reader --verb get,list --resource pods", "role.rbac.authorization.k8s.io/reader created"),
    ("create rolebinding readers --role reader --user joe --group devs", "readers created"),
    ("get rolebinding readers -o wide", "Role/reader"),
    ("auth can-i list pods", "yes"),
    ("auth can-i list pods --as joe", "yes"),
    ("auth can-i list pods --as sam --as-group devs", "yes"),
    ("auth can-i create pods --as joe -q", 1),
    ("get secrets --as joe", 1),
    ("auth whoami --as joe", "joe"),
    ("create quota q --hard pods=9", "resourcequota/q created"),
    ("create pdb p --selector app=web --min-available 50%", "created"),
    ("get pdb p", "50%"),
    ("create service clusterip s --tcp 80:8080", "service/s created"),
    ("create service externalname e --external-name example.com", "service/e created"),
    ("get service e", "example.com"),
    ("create deployment d --image nginx --replicas 0", "deployment.apps/d created"),
    ("scale deployment d --replicas 1", "scaled"),
    ("get deployment d -o wide", "app=d"),
    ("create job j --image busybox -- sleep 1", "job.batch/j created"),
    ("get job j -o jsonpath={{.metadata.labels.job-name}}", "j"),
    ("create cronjob c --image busybox --schedule @daily -- date", "cronjob.batch/c created"),
    ("get cronjob c", "@daily"),
    ("create cronjob wrong --image busybox --schedule hourly -- date", 1),
    ("get -w --request-timeout 1 configmap made", "made"),
    ("api-resources", "podgroups"),
    ("delete -f {file}", "deleted"),
    ("get pods -l app=web -o name", ""),
]


async def kubectl(world: World, home: Path, *arguments: str) -> tuple[int | None, str, str]:
    """A command's exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        str(tool("kubectl")),
        "--namespace",
        world.namespace,
        *arguments,
        env={"KUBECONFIG": str(world.kubeconfig), "HOME": str(home), "PATH": "/usr/bin:/bin:/usr/local/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(TIMEOUT):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_a_day_with_kubectl(world: World, tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(MANIFEST)
    (tmp_path / "list.yaml").write_text(LIST)
    (tmp_path / "misspelt.yaml").write_text(LIST.replace("minMember", "minMembers"))
    (tmp_path / "other.json").write_text(json.dumps(OTHER))
    words = {name: tmp_path / f"{name}.yaml" for name in ("file", "list", "misspelt")}
    words |= {"other": tmp_path / "other.json", "patch": '{"spec":{"minMember":3}}'}
    for command, expected in DAY:
        arguments = [part.format(**words) for part in command.split()]
        code, out, err = await kubectl(world, tmp_path, *arguments)
        if isinstance(expected, int):
            assert code == expected, f"{command}: {out}{err}"
            continue
        assert code == 0 or "-w" in arguments, f"{command}: {err}"
        assert expected in out, f"{command}: {out}{err}"
        assert expected or not out.strip(), f"{command}: {out}"


async def with_kinds_of_others(world: World) -> None:
    """The definitions of what the Prometheus operator and a Gateway follow, where the cluster has them not."""
    definitions = yaml.safe_load(Path(__file__).with_name("definitions.yaml").read_text())["items"]
    for definition in definitions:
        with suppress(AlreadyExists):
            await world.create_shared(CRDS, definition)
    for definition in definitions:
        await world.until(CRDS, definition["metadata"]["name"], established)


async def test_the_base_is_accepted_as_it_is(world: World, tmp_path: Path) -> None:
    """Every object of deploy/crds, deploy/base and the chart with all that it has, tried out by the server."""
    await with_kinds_of_others(world)
    chart = tmp_path / "chart.yaml"
    chart.write_text("---\n".join(part.text for part in render(given((), EVERYTHING))))
    for what in (("-f", DEPLOY / "crds"), ("-f", chart), ("-k", DEPLOY / "base")):
        arguments = (
            "apply",
            "--server-side",
            "--force-conflicts",
            "--dry-run=server",
            "--namespace",
            SYSTEM_NAMESPACE,
            what[0],
            str(what[1]),
        )
        code, out, err = await kubectl(world, tmp_path, *arguments)
        assert code == 0, err
        assert "dry run" in out
    names = {line.split()[0] for line in out.splitlines()}
    assert {f"deployment.apps/{name}" for name in (SCHEDULER, CONTROLLER, API)} <= names


async def test_the_way_back_is_as_its_page_says(world: World, tmp_path: Path) -> None:
    """The commands and the Job of the page, but those that wait for pods, of which none runs here."""
    installed = "---\n".join(
        part.text for part in render(given((), ())) if part.name in ("scheduler", "controller", "api")
    )
    (tmp_path / "installed.yaml").write_text(installed)
    page = (DEPLOY.parent / "docs/operations/upgrade.md").read_text().split("## Back\n")[1]
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    job = next(text for language, text in blocks if language == "yaml")
    commands = [line for language, text in blocks if language == "sh" for line in text.splitlines()]
    (tmp_path / "back.yaml").write_text(job)

    async def done(*arguments: str) -> str:
        code, out, err = await kubectl(world, tmp_path, *arguments)
        assert code == 0, (arguments, err)
        return out

    async def deployments() -> list[Any]:
        listed = json.loads(await done("-n", SYSTEM_NAMESPACE, "get", "deployments", "-o", "json"))["items"]
        return [one["spec"] for one in listed if one["metadata"]["name"] in (SCHEDULER, CONTROLLER, API)]

    await done("apply", "-n", SYSTEM_NAMESPACE, "-f", str(tmp_path / "installed.yaml"))
    try:
        before = await deployments()
        for line in commands:
            words = [str(tmp_path / word) if word == "back.yaml" else word for word in shlex.split(line)[1:]]
            if words[2] in ("wait", "logs", "rollout"):
                continue
            await done(*words)
            if words[2] == "apply":
                assert [one["replicas"] for one in await deployments()] == [0, 0, 0]
        back = await deployments()
    finally:
        await done("delete", "-n", SYSTEM_NAMESPACE, "--ignore-not-found", "-f", str(tmp_path / "installed.yaml"))
    assert [one["replicas"] for one in back] == [one["replicas"] for one in before] == [2, 2, 2]
    images = {container["image"] for one in back for container in one["template"]["spec"]["containers"]}
    assert images == {"registry.example/t9ksched:0.1.0"}

    made = yaml.safe_load(job)["spec"]["template"]["spec"]
    (container,) = made["containers"]
    theirs = next(one["template"]["spec"] for one in before if one["selector"]["matchLabels"]["app"] == API)
    database = [one for one in theirs["containers"][0]["env"] if one["name"] == "T9KSCHED_DB"]
    assert container["env"] == database
    assert made["securityContext"].items() <= theirs["securityContext"].items()
    assert container["securityContext"].items() <= theirs["containers"][0]["securityContext"].items()
    assert container["args"][:2] == ["db", "downgrade"]
    assert container["args"][2] in schema.revisions()
