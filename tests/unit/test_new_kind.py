"""A new kind of job is one file and one row: REST, command line, scheduler, controllers and rights follow the table."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from t9ksched.packaged import folder
from t9ksched.workloads.registry import ROWS

ROOT = Path(__file__).parents[2]
FILE = '''
"""A job of a made-up kind: pods alike, of which the first decides."""

from typing import Final

from t9ksched.workloads.actions import Expansion
from t9ksched.workloads.controller import job_controller
from t9ksched.workloads.ending import led_by
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job, revision
from t9ksched.workloads.jobspec import RunPolicy, read_replica_types, read_run_mode
from t9ksched.workloads.parts import job_pod, pod_group, pod_name


def read(root):
    return [kind.template for kind in read_replica_types(root["spec"]["replicaSpecs"])]


def build(obj, owner, children):
    spec = Field(obj)["spec"]
    types = tuple(read_replica_types(spec["replicaSpecs"]))
    count = sum(kind.replicas for kind in types)
    return Job(
        owner=owner,
        types=types,
        run_policy=RunPolicy(),
        paused=read_run_mode(spec["runMode"]).paused,
        around=Expansion(podgroup=pod_group(owner, types, count)),
        build=lambda kind, index: job_pod(owner, kind, index),
        ending=led_by(pod_name(owner, types[0], 0)),
        min_member=count,
        revision=revision(obj, ("replicaSpecs",)),
    )


CONTROLLER: Final = job_controller(build)
'''
ROW = """
    Kind(
        _batch("WalkJob"),
        "walk:read",
        short=("wj",),
        controller="walk:CONTROLLER",
        followed="job",
        stop=_PAUSED,
        endless=True,
    ),
"""
ASK = """
import json
from datetime import UTC, datetime
from t9ksched.api.submission.kinds import ACCEPTED, accepted, addressed, owner_of
from t9ksched.cli.kinds import parse_target
from t9ksched.controller.service import Controllers
from t9ksched.kube import resources
from t9ksched.kube.setup.rbac import ROLES, rights
from t9ksched.model.pod import OwnerReference
from t9ksched.scheduler.act.stopping import STOPS
from t9ksched.scheduler.observe.informers import Informers
from t9ksched.scheduler.state.owners import is_followed
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import ENDLESS_KINDS
from t9ksched.workloads.actions import NO_CHILDREN
from t9ksched.workloads.read import read
from t9ksched.workloads.reconcile import expand, reconcile
from unittest.mock import Mock

container = {"name": "main", "image": "example/none:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
job = {
    "apiVersion": "batch.tensorstack.dev/v1beta1",
    "kind": "WalkJob",
    "metadata": {"name": "walk", "namespace": "ns", "uid": "u"},
    "spec": {
        "scheduler": {"t9kScheduler": {"queue": "a100"}},
        "replicaSpecs": [{"type": "worker", "replicas": 3, "template": {"spec": {"containers": [container]}}}],
    },
}
now = datetime(2026, 1, 1, tzinfo=UTC)
found = read(job)
resource = resources.of(job)
faulty = {**job, "spec": {**job["spec"], "scheduler": 1, "runMode": {"pause": {"enabled": True}}}}
followed = Informers(Mock(), ClusterState(), Mock(), lambda: None).reflectors()
controlled = Controllers(Mock())._reflectors
reference = OwnerReference(api_version=job["apiVersion"], kind="WalkJob", name="walk", uid="u", controller=True)
owner = {"kind": "WalkJob", "apiVersion": job["apiVersion"], "name": "walk", "controller": True}
pod = {"metadata": {"ownerReferences": [owner]}}
stopped = {**job, "spec": {**job["spec"], **STOPS[resource.group, "WalkJob"].patch["spec"]}}
print(json.dumps({
    "read": [found.queue, found.replicas],
    "expanded": [len(expand(job).pods), expand(job).podgroup["spec"]["minMember"]],
    "made": len(reconcile(job, NO_CHILDREN, now).create),
    "paused": reconcile(stopped, NO_CHILDREN, now).status["phase"],
    "withdrawn": reconcile(faulty, NO_CHILDREN, now).status["phase"],
    "path": resource.path("ns", "walk"),
    "command line": [parse_target(text, "ns").kind for text in ("wj/walk", "WalkJob/walk", "walkjobs/walk")],
    "rest": [accepted("WalkJob").plural, addressed("walkjobs").kind, owner_of(pod)[1]],
    "scheduler follows": sum(one.res == resource for one in followed),
    "controllers follow": sum(one.res == resource for one in controlled),
    "known as owner": is_followed(reference),
    "endless": "WalkJob" in ENDLESS_KINDS,
    "rights": {
        role: sorted(str(right) for right, _ in rights(role) if "walkjobs" in right.resource) for role in ROLES
    },
}))
"""
GROUP = "batch.tensorstack.dev"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a copy of the program says of a made-up kind, after one more file and one more row."""
    place = tmp_path_factory.mktemp("copy")
    # With what is compiled already, but not with what another process is just writing.
    shutil.copytree(ROOT / "t9ksched", place / "t9ksched", ignore=shutil.ignore_patterns("*.pyc.*"))
    (place / "t9ksched/workloads/kinds/walk.py").write_text(FILE)
    table = place / "t9ksched/workloads/registry.py"
    head, begin, rows = table.read_text().partition("ROWS: Final = (\n")
    table.write_text(head + begin + ROW.lstrip("\n") + rows)
    asked = subprocess.run([sys.executable, "-c", ASK], cwd=place, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    answer: dict[str, object] = json.loads(asked.stdout)
    return answer


EXPECTED = {
    "read": ["a100", 3],
    "expanded": [3, 3],
    "made": 4,
    "paused": "Paused",
    "withdrawn": "Paused",
    "path": f"/apis/{GROUP}/v1beta1/namespaces/ns/walkjobs/walk",
    "command line": ["WalkJob"] * 3,
    "rest": ["walkjobs", "WalkJob", "walk"],
    "scheduler follows": 1,
    "controllers follow": 1,
    "known as owner": True,
    "endless": True,
    "rights": {
        "t9k-scheduler": [f"{verb} walkjobs.{GROUP}" for verb in ("get", "list", "patch", "watch")],
        "t9ksched-controller": sorted(
            [
                *(f"{verb} walkjobs.{GROUP}" for verb in ("list", "watch")),
                f"update walkjobs/finalizers.{GROUP}",
                f"update walkjobs/status.{GROUP}",
            ]
        ),
        "t9ksched-api": [f"{verb} walkjobs.{GROUP}" for verb in ("create", "delete", "get", "patch")],
    },
}


@pytest.mark.parametrize("door", EXPECTED)
def test_one_file_and_one_row_are_enough(told: dict[str, object], door: str) -> None:
    assert told[door] == EXPECTED[door]


def test_each_row_names_code_that_is_there() -> None:
    for row in ROWS:
        assert not row.reader or callable(row.read), row.name
        assert not row.controlled or callable(row.control.reconcile), row.name


def test_each_kind_of_the_platform_has_its_definition() -> None:
    shipped = {path.stem for path in folder("crds").glob("*.yaml")}
    ours = {str(row.resource) for row in ROWS if row.resource.group.endswith("tensorstack.dev")}
    assert shipped - ours == {"queues.scheduler.tensorstack.dev", "mlserviceruntimes.tensorstack.dev"}
    assert ours <= shipped


def test_what_was_stopped_is_let_go_on_by_the_same_fields() -> None:
    def fields(patch: object, path: str = "") -> set[str]:
        if not isinstance(patch, dict):
            return {path}
        return {one for key, value in patch.items() for one in fields(value, f"{path}.{key}")}

    for row in ROWS:
        if row.stop is not None and row.stop.resume is not None:
            assert fields(row.stop.patch) == fields(row.stop.resume), row.name
            assert row.stop.patch != row.stop.resume, row.name
