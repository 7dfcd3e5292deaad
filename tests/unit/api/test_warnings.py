"""What is accepted and odd is told in `warnings`; without a leader nothing is known, and nothing is odd."""

from typing import Any

import pytest

from t9ksched.admission.oddities import Vocabulary
from t9ksched.model.names import QUEUE_LABEL, RESERVATION_ANNOTATION, SIGNAL_BEFORE_ANNOTATION
from t9ksched.model.reservation_form import parse_reservation
from tests.unit.api.world import Json, World, documents, pod, pytorch
from tests.unit.workloads.builders import block, mpi_v1

QUEUES, JOBS = "/apis/v1/admin/queues", "/apis/v1/workloads"
GPU = "nvidia.com/gpu"
KNOWN = Vocabulary(("cpu", "memory", "pods", GPU), {"pool": frozenset({"train"})}, ())
ODD: Json = {"quota": {"requests": {"gpu": "8"}}, "nodeSelector": {"matchLabels": {"pol": "train"}}}
TOLD = [("spec.quota.requests.gpu", GPU), ("spec.nodeSelector", "pool")]


@pytest.fixture(autouse=True)
def known(world: World) -> None:
    world.leader.vocabulary = KNOWN


def inside(obj: Json, path: str) -> Json:
    """What stands at a path."""
    found: Any = obj
    for part in path.replace("[0]", ".0").split("."):
        found = found[0] if part == "0" else found[part]
    spec: Json = found
    return spec


def job(name: str, *, queue: str) -> Json:
    template = {"spec": pod(name)["spec"] | {"restartPolicy": "Never"}, "metadata": {"labels": {QUEUE_LABEL: queue}}}
    template["spec"]["schedulerName"] = "t9k-scheduler"
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


def notebook(name: str, *, queue: str) -> Json:
    spec = {"type": "jupyter", "template": {"spec": pod(name)["spec"]}, "scheduler": {"t9kScheduler": {"queue": queue}}}
    return {"apiVersion": "tensorstack.dev/v1beta1", "kind": "Notebook", "metadata": {"name": name}, "spec": spec}


def told(body: Json) -> list[tuple[str, str | None]]:
    assert all(one["message"] for one in body["warnings"])
    return [(one["path"], one["nearest"]) for one in body["warnings"]]


@pytest.mark.parametrize(("away", "expected"), [(False, TOLD), (True, [])], ids=["known", "leader away"])
async def test_of_a_queue_by_every_verb(world: World, away: bool, expected: list[Any]) -> None:
    world.leader.away = away
    made = await world.admin("POST", QUEUES, {"name": "q", "spec": ODD})
    assert (made.status, told(made.body)) == (201, expected)
    put = await world.admin("PUT", f"{QUEUES}/q", {"spec": ODD})
    assert (put.status, told(put.body)) == (200, expected)
    patched = await world.admin("PATCH", f"{QUEUES}/q", {"spec": {"nodeSelector": None}})
    assert told(patched.body) == expected[:1]
    assert "warnings" not in (await world.admin("GET", f"{QUEUES}/q")).body
    again = await world.admin("PUT", f"{QUEUES}/q", patched.body)
    assert again.status == 200, "what was answered can be sent back"


async def test_a_sound_queue_has_none(world: World) -> None:
    made = await world.admin("POST", QUEUES, {"name": "q", "spec": {"quota": {"requests": {GPU: "8"}}}})
    assert told(made.body) == []


@pytest.mark.parametrize("query", ["", "?dryRun=true"])
async def test_of_a_submission(world: World, query: str) -> None:
    quota = {"requests": {"example.com/fpga": "8"}}
    await world.store.queues.create("a100", {}, {"quota": quota}, {"everyone": True})
    odd, named = pytorch("odd"), pytorch("named")
    for job, resource in ((odd, "nvidia.com/gpus"), (named, "example.com/fpga")):
        (container,) = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
        container["resources"]["limits"] = {resource: 1}
    made = await world.user("POST", JOBS + query, documents(pytorch(), odd))
    place = "[1].spec.replicaSpecs[0].template.spec.containers[0].resources.limits[nvidia.com/gpus]"
    assert (made.status < 300, told(made.body)) == (True, [(place, GPU)]), made.body
    assert told((await world.user("POST", f"{JOBS}?dryRun=true", named)).body) == [], "a queue knows it"
    world.leader.away = True
    assert told((await world.user("POST", f"{JOBS}?dryRun=true", pytorch("other"))).body) == []


async def test_a_typo_in_anothers_quota_does_not_silence_the_warning(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    await world.store.queues.create("other", {}, {"quota": {"requests": {"nvidia.com/gpus": "8"}}}, {"users": ["bob"]})
    job = pytorch()
    (container,) = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    container["resources"]["limits"] = {"nvidia.com/gpus": 1}
    ((_, near),) = told((await world.user("POST", f"{JOBS}?dryRun=true", job)).body)
    assert near == GPU


@pytest.mark.parametrize(("early", "warned"), [("5m", True), ("4m", False)])
async def test_of_a_signal_before_a_limit_that_the_queue_or_the_kind_sets(
    world: World, early: str, warned: bool
) -> None:
    await world.store.queues.create("a100", {}, {"maxDuration": "5m"}, {"everyone": True})
    await world.store.queues.create("long", {}, {}, {"everyone": True})
    by_queue, by_kind = notebook("lab", queue="a100"), job("sweep", queue="long")
    by_kind["spec"]["activeDeadlineSeconds"] = 300
    of_pods = job("pods", queue="a100")
    for metadata in (by_queue["metadata"], by_kind["metadata"], of_pods["spec"]["template"]["metadata"]):
        metadata["annotations"] = {SIGNAL_BEFORE_ANNOTATION: early}
    made = await world.user("POST", f"{JOBS}?dryRun=true", documents(by_queue, by_kind, of_pods))
    paths = [f"[{nth}].{where}metadata.annotations" for nth, where in enumerate(("", "", "spec.template."))]
    expected = [(f"{path}[{SIGNAL_BEFORE_ANNOTATION}]", None) for path in paths] if warned else []
    assert (made.status < 300, told(made.body)) == (True, expected), made.body


async def test_of_what_has_no_effect(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    lab = notebook("lab", queue="a100")
    lab["spec"]["ssh"] = {"enabled": True, "authorized_keys": ["not a key"]}
    made = await world.user("POST", f"{JOBS}?dryRun=true", documents(lab, pytorch("p")))
    assert told(made.body) == [("[0].spec.ssh.authorized_keys[0]", None)]


@pytest.mark.parametrize("away", [False, True], ids=["known", "leader away"])
async def test_of_fields_and_annotations_that_nothing_reads(world: World, away: bool) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    world.leader.away = away
    job, of_pods = pytorch("odd"), pod("p", queue="a100")
    job["metadata"] |= {"annotations": {"scheduler.tensorstack.dev/time-limt": "1h"}, "lables": {}}
    job["spec"]["scheduler"]["t9kScheduler"]["prority"] = 3
    job["spec"]["runPolicy"] = {"backofLimit": 3}
    (replicas,) = job["spec"]["replicaSpecs"]
    replicas["replica"] = 2
    replicas["template"]["metadata"] = {"annotations": {"scheduler.tensorstack.dev/timelimit": "1h"}}
    of_pods["metadata"]["annotations"] = {"scheduler.tensorstack.dev/group-name": "g"}
    made = await world.user("POST", f"{JOBS}?dryRun=true", documents(job, of_pods))
    assert set(told(made.body)) == {
        ("[0].metadata.lables", "labels"),
        ("[0].metadata.annotations[scheduler.tensorstack.dev/time-limt]", "scheduler.tensorstack.dev/time-limit"),
        ("[0].spec.replicaSpecs[0].replica", "replicas"),
        ("[0].spec.scheduler.t9kScheduler.prority", "priority"),
        ("[0].spec.runPolicy.backofLimit", "backoffLimit"),
        (
            "[0].spec.replicaSpecs[0].template.metadata.annotations[scheduler.tensorstack.dev/timelimit]",
            "scheduler.tensorstack.dev/time-limit",
        ),
        ("[1].metadata.annotations[scheduler.tensorstack.dev/group-name]", None),
    }


@pytest.mark.parametrize("query", ["", "&dryRun=true"])
async def test_of_a_reservation_that_does_not_exist(world: World, query: str) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    times = {"from": "2090-02-01T00:00:00Z", "to": "2090-02-02T00:00:00Z"}
    spare = {"name": "spare", "nodes": {"names": ["n1"]}, "for": "maintenance"} | times
    await world.store.reservations.create(parse_reservation(spare).to_dict(), ["n1"], 0)
    known = await world.user("POST", f"{JOBS}?reservation=spare{query}", pytorch("a"))
    assert (known.status < 300, known.body["warnings"]) == (True, [])
    unknown = await world.user("POST", f"{JOBS}?reservation=spar{query}", pytorch("b"))
    (warning,) = unknown.body["warnings"]
    assert (unknown.status < 300, warning["path"]) == (True, f"metadata.annotations[{RESERVATION_ANNOTATION}]")
    assert "there is no reservation 'spar'" in warning["message"]
    inside_pods = job("c", queue="a100")
    inside_pods["spec"]["template"]["metadata"]["annotations"] = {RESERVATION_ANNOTATION: "gone"}
    (warning,) = (await world.user("POST", f"{JOBS}?{query}", inside_pods)).body["warnings"]
    assert warning["path"] == f"spec.template.metadata.annotations[{RESERVATION_ANNOTATION}]"


async def test_a_list_of_jobs_of_no_queue_is_refused(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    refused = await world.user("GET", f"{JOBS}?queue=a10")
    assert (refused.status, refused.body["code"], refused.paths) == (422, "QueueNotFound", ["queue"])
    assert "did you mean 'a100'?" in refused.body["detail"]
    assert (await world.user("GET", f"{JOBS}?queue=a100")).body["items"] == []
    world.leader.job_list = [(await world.user("POST", JOBS, pytorch())).job | {"queue": "gone"}]
    assert len((await world.user("GET", f"{JOBS}?queue=gone")).body["items"]) == 1, "its jobs outlive it"


def mpi(name: str, *, queue: str) -> Json:
    return mpi_v1(scheduler=block(queue)) | {"metadata": {"name": name}}


TEMPLATES = [
    (pod, "spec"),
    (pytorch, "spec.replicaSpecs[0].template.spec"),
    (job, "spec.template.spec"),
    (notebook, "spec.template.spec"),
]


@pytest.mark.parametrize(("make", "path"), TEMPLATES, ids=["Pod", "PyTorchTrainingJob", "Job", "Notebook"])
async def test_a_misspelt_field_of_a_pod_is_told_in_every_template(world: World, make: Any, path: str) -> None:
    """`nodeName` is refused, and another spelling of it would be ignored without a word."""
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    made = make("odd", queue="a100")
    spec = inside(made, path)
    spec |= {"NodeName": "a", "tolerations": [{"efect": "NoSchedule"}], "ownField": 1}
    spec["containers"][0] |= {"imagePulPolicy": "Always", "resources": {"limit": {GPU: 1}}}
    spec["containers"][0]["livenessProbe"] = {"httpGet": {"pth": "/", "port": 80}}
    spec["affinity"] = {"podAntiAffinity": {"requiredDuringScheduling": []}}
    answer = await world.user("POST", f"{JOBS}?dryRun=true", made)
    assert answer.status < 300, answer.body
    assert sorted(told(answer.body)) == [
        (f"{path}.NodeName", "nodeName"),
        (
            f"{path}.affinity.podAntiAffinity.requiredDuringScheduling",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ),
        (f"{path}.containers[0].imagePulPolicy", "imagePullPolicy"),
        (f"{path}.containers[0].livenessProbe.httpGet.pth", "path"),
        (f"{path}.containers[0].resources.limit", "limits"),
        (f"{path}.ownField", None),
        (f"{path}.tolerations[0].efect", "effect"),
    ]


@pytest.mark.parametrize(("make", "path"), TEMPLATES, ids=["Pod", "PyTorchTrainingJob", "Job", "Notebook"])
async def test_a_null_entry_of_a_list_is_refused_with_its_path(world: World, make: Any, path: str) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    made = make("odd", queue="a100")
    spec = inside(made, path)
    spec["volumes"] = [None]
    spec["containers"][0]["env"] = [{"name": "A", "value": "x"}, None]
    answer = await world.user("POST", f"{JOBS}?dryRun=true", made)
    assert (answer.status, sorted(answer.paths)) == (422, [f"{path}.containers[0].env[1]", f"{path}.volumes[0]"])


@pytest.mark.parametrize("door", [JOBS, f"{JOBS}?dryRun=true"], ids=["submit", "dry run"])
@pytest.mark.parametrize(
    ("make", "path"),
    [*TEMPLATES, (mpi, "spec.worker.template.spec")],
    ids=["Pod", "PyTorchTrainingJob", "Job", "Notebook", "MPIJob"],
)
async def test_a_value_of_a_wrong_type_is_refused_with_its_path(world: World, make: Any, path: str, door: str) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    made = make("odd", queue="a100")
    inside(made, path).update(hostAliases={"a": 1}, imagePullSecrets="x", terminationGracePeriodSeconds="x")
    inside(made, path)["containers"][0] |= {"command": "sleep 5", "tty": "yes", "securityContext": {"runAsUser": "x"}}
    answer = await world.user("POST", door, made)
    below = ("command", "securityContext.runAsUser", "tty")
    places = [f"containers[0].{name}" for name in below]
    places += ["hostAliases", "imagePullSecrets", "terminationGracePeriodSeconds"]
    assert (answer.status, sorted(answer.paths)) == (422, [f"{path}.{place}" for place in places])
    assert world.kube.objects == {}


@pytest.mark.parametrize(("make", "path"), TEMPLATES, ids=["Pod", "PyTorchTrainingJob", "Job", "Notebook"])
async def test_a_null_field_of_a_pod_counts_as_absent(world: World, make: Any, path: str) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    made = make("nulls", queue="a100")
    spec = inside(made, path)
    spec |= dict.fromkeys(
        ("nodeName", "initContainers", "overhead", "tolerations", "volumes", "hostNetwork", "priority")
    )
    spec["containers"][0] |= dict.fromkeys(("ports", "restartPolicy"))
    answer = await world.user("POST", f"{JOBS}?dryRun=true", made)
    assert (answer.status < 300, told(answer.body)) == (True, []), answer.body


async def test_a_deleted_queue_that_reservations_are_for(world: World) -> None:
    store = world.store
    await store.queues.create("eval", {}, {})
    times = {"from": "2090-01-07T20:00:00Z", "to": "2090-01-07T22:00:00Z"}
    past = {"from": "2020-01-07T20:00:00Z", "to": "2020-01-07T22:00:00Z"}
    only, others = {"queues": ["eval"]}, {"queues": ["eval", "train"]}
    for name, whom, at in (("alone", only, times), ("shared", others, times), ("over", only, past)):
        raw = {"name": name, "nodes": {"names": ["n1"]}, "for": whom} | at
        await store.reservations.create(parse_reservation(raw).to_dict(), ["n1"], await store.changes.head())
    gone = await world.admin("DELETE", "/apis/v1/admin/queues/eval")
    assert (gone.status, await store.queues.get("eval")) == (200, None)
    alone, shared = gone.body["warnings"]
    assert alone["path"] == "reservations.alone"
    assert "stays for no job: delete it, or say for whom it is" in alone["message"]
    assert "stays for others only" in shared["message"]
    assert [one.name for one in await store.reservations.list()] == ["alone", "over", "shared"]
