"""Submitting: what is accepted becomes objects and records, what is refused leaves nothing behind."""

import copy
import json
from typing import Any

import pytest
from sqlalchemy import text

from t9ksched.kube.errors import ServerError, TimedOut, Unprocessable, Unreachable
from t9ksched.kube.resources import PODGROUPS
from tests.unit.api.world import Json, World, documents, pod, pod_group, pytorch

WORKLOADS = "/apis/v1/workloads"
QUOTA = {"requests": {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "16"}}


@pytest.fixture(autouse=True)
async def queues(world: World) -> None:
    await world.store.queues.create("a100", {}, {"quota": QUOTA}, {"everyone": True})
    await world.store.queues.create("a40", {}, {}, {"everyone": True})
    await world.store.queues.create("shut", {}, {"closed": True}, {"everyone": True})
    await world.store.queues.create(
        "strict", {}, {"overQuota": "Reject", "quota": {"requests": {"nvidia.com/gpu": "8"}}}, {"everyone": True}
    )


def changed(obj: Json, path: str, value: Any) -> Json:
    """A copy of the object with one field set; `path` as in `spec.replicaSpecs.0.type`."""
    obj = copy.deepcopy(obj)
    *way, last = path.split(".")
    place: Any = obj
    for step in way:
        place = place[int(step)] if step.isdigit() else place.setdefault(step, {})
    if isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return obj


async def nothing_is_left(world: World) -> None:
    assert world.kube.objects == {}
    assert await world.store.acceptances.all() == []
    assert await world.store.jobs.list() == []


class TestAccepted:
    async def test_one_job(self, world: World) -> None:
        made = await world.user("POST", f"{WORKLOADS}?namespace=ml", pytorch())
        assert made.status == 201, made.body
        job = made.job
        shown = {
            key: job[key] for key in ("namespace", "kind", "name", "queue", "priority", "submitter", "phase", "gpus")
        }
        assert shown == {
            "namespace": "ml",
            "kind": "PyTorchTrainingJob",
            "name": "resnet",
            "queue": "a100",
            "priority": 0,
            "submitter": "ann",
            "phase": "Pending",
            "gpus": 8,
        }
        assert job["members"] == {"min": 2, "total": 2, "bound": 0, "running": 0, "succeeded": 0, "failed": 0}
        acceptance = await world.store.acceptances.get(job["uid"])
        assert acceptance is not None
        assert (acceptance.submitter, acceptance.queue, acceptance.cards) == ("ann", "a100", {"nvidia.com/gpu": 8})
        assert acceptance.requests == {"cpu": 8000, "memory": 32 * 2**30}
        assert [event.event for event in await world.store.history.list(uid=job["uid"])] == ["submitted", "accepted"]
        assert [record.uid for record in await world.store.jobs.list(queue="a100")] == [job["uid"]]

    @pytest.mark.parametrize("content_type", ["application/json", "application/yaml", "text/x-yaml", ""])
    async def test_json_and_yaml(self, world: World, content_type: str) -> None:
        made = await world.user("POST", WORKLOADS, json.dumps(pytorch()), Content_Type=content_type)
        assert made.status == 201, made.body

    async def test_the_query_wins_over_the_object(self, world: World) -> None:
        made = await world.user("POST", f"{WORKLOADS}?queue=a40&priority=7&namespace=ml", pytorch(namespace="default"))
        assert (made.job["queue"], made.job["priority"], made.job["namespace"]) == ("a40", 7, "default")
        (obj,) = world.kube.objects.values()
        assert obj["spec"]["scheduler"] == {"t9kScheduler": {"queue": "a40", "priority": 7}}

    async def test_without_a_queue_it_is_the_default_schedulers(self, world: World) -> None:
        made = await world.user("POST", WORKLOADS, pytorch(queue=None))
        assert (made.status, made.job["queue"]) == (201, None)
        assert await world.store.acceptances.all() == []
        assert [event.event for event in await world.store.history.list()] == ["submitted"]

    @pytest.mark.parametrize("obj", [pod("p", ours=False), {"batch": True}])
    async def test_a_queue_for_kinds_of_kubernetes(self, world: World, obj: Json) -> None:
        if "batch" in obj:
            template = {"spec": pod("p", ours=False)["spec"] | {"restartPolicy": "Never"}}
            obj = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
        made = await world.user("POST", f"{WORKLOADS}?queue=a40", obj)
        assert (made.status, made.job["queue"]) == (201, "a40"), made.body
        (stored,) = world.kube.objects.values()
        inner = stored["spec"]["template"] if stored["kind"] == "Job" else stored
        assert inner["spec"]["schedulerName"] == "t9k-scheduler"
        assert inner["metadata"]["labels"]["scheduler.tensorstack.dev/queue"] == "a40"

    async def test_dry_run_creates_nothing(self, world: World) -> None:
        tried = await world.user("POST", f"{WORKLOADS}?dryRun=true", pytorch())
        assert (tried.status, tried.job["queue"]) == (200, "a100")
        await nothing_is_left(world)
        assert await world.store.history.list() == []

    async def test_a_group_with_its_pods_is_one_job(self, world: World) -> None:
        text = documents(pod("p-0", group="g", queue="a40"), pod("p-1", group="g"), pod_group("g", minimum=2))
        made = await world.user("POST", WORKLOADS, text)
        assert made.status == 201, made.body
        assert (made.job["kind"], made.job["name"], made.job["gpus"]) == ("PodGroup", "g", 2)
        assert made.job["members"]["total"] == 2
        assert [kind for verb, kind, _ in world.kube.calls if verb == "create"][-3:] == ["PodGroup", "Pod", "Pod"], (
            "the group comes first"
        )
        recorded = {one.name: (one.group_name, one.queue) for one in await world.store.acceptances.all()}
        assert recorded == dict.fromkeys(("g", "p-0", "p-1"), ("g", "a100")), "the group's queue pays"

    async def test_lists_and_streams(self, world: World) -> None:
        one, two, three = pytorch("a"), pytorch("b"), pytorch("c")
        listed = {"apiVersion": "v1", "kind": "List", "items": [one, two]}
        made = await world.user("POST", WORKLOADS, documents(listed, three) + "\n---\n")
        assert [job["name"] for job in made.body["items"]] == ["a", "b", "c"]

    async def test_a_time_limit_is_written_on_the_job_and_recorded(self, world: World) -> None:
        made = await world.user("POST", f"{WORKLOADS}?timeLimit=90m", pytorch(annotations={LIMIT: "4h"}))
        assert (made.status, made.body["items"][0]["timeLimit"]) == (
            201,
            {"seconds": 5400, "source": "job", "enforced": True},
        )
        (obj,) = world.kube.objects.values()
        assert obj["metadata"]["annotations"][LIMIT] == "90m"
        (accepted,) = await world.store.acceptances.all()
        assert accepted.time_limit_seconds == 5400
        empty = await world.user("POST", f"{WORKLOADS}?timeLimit=", pytorch("other"))
        assert (empty.status, empty.paths) == (422, ["timeLimit"])
        refused = await world.user("POST", f"{WORKLOADS}?timeLimit=1.5h", pytorch("other"))
        assert (refused.body["code"], refused.paths) == ("InvalidField", ["timeLimit"])

    async def test_a_start_time_is_written_on_the_job(self, world: World) -> None:
        time = "2030-01-31T20:00:00%2B08:00"
        made = await world.user("POST", f"{WORKLOADS}?startAfter={time}", pytorch(annotations={START: "2029-01-01"}))
        assert made.status == 201
        (obj,) = world.kube.objects.values()
        assert obj["metadata"]["annotations"][START] == "2030-01-31T20:00:00+08:00"
        for wrong in ("", "tomorrow", "2030-01-31T20:00:00"):
            refused = await world.user("POST", f"{WORKLOADS}?startAfter={wrong}", pytorch("other"))
            assert (refused.status, refused.body["code"], refused.paths) == (422, "InvalidField", ["startAfter"])
        assert len(world.kube.objects) == 1

    async def test_fields_of_the_server_are_dropped(self, world: World) -> None:
        exported = pytorch(uid="forged", resourceVersion="5", creationTimestamp="x") | {
            "status": {"phase": "Succeeded"}
        }
        made = await world.user("POST", WORKLOADS, exported)
        assert (made.status, made.job["phase"]) == (201, "Pending")
        assert made.job["uid"] != "forged"

    async def test_an_older_spelling_of_a_kind_is_taken(self, world: World) -> None:
        spec = {
            "scheduler": {"t9kScheduler": {"queue": "a100"}},
            "config": {"slotPerWorker": 1, "run": {"exec": ["./fit"]}},
            "worker": {"template": pytorch()["spec"]["replicaSpecs"][0]["template"]},
        }
        older = pytorch("old") | {"kind": "DeepspeedJob", "spec": spec}
        made = await world.user("POST", WORKLOADS, older)
        assert (made.status, made.job["kind"]) == (201, "DeepSpeedJob")
        assert world.kube.names() == {"DeepSpeedJob/old"}

    async def test_the_forged_submitter_is_replaced(self, world: World) -> None:
        forged = pytorch(annotations={"scheduler.tensorstack.dev/submitted-by": "root"})
        made = await world.user("POST", WORKLOADS, forged)
        (obj,) = world.kube.objects.values()
        assert obj["metadata"]["annotations"]["scheduler.tensorstack.dev/submitted-by"] == "ann"
        assert made.job["submitter"] == "ann"


SPEC = "spec.replicaSpecs.0.template.spec"
AT = "spec.replicaSpecs[0].template.spec.containers[0]"
BLOCK = "spec.scheduler.t9kScheduler"
QUEUE_LABEL = "metadata.labels[scheduler.tensorstack.dev/queue]"
LIMIT = "scheduler.tensorstack.dev/time-limit"
START = "scheduler.tensorstack.dev/start-after"


def faulty(field: str, value: Any) -> Json:
    """A PyTorchTrainingJob with one field of its container set."""
    return changed(pytorch(), f"{SPEC}.containers.0.{field}", value)


UNEQUAL = {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1}
FAULTY: list[tuple[str, Json, str, str]] = [
    ("unknown queue", pytorch(queue="a10"), "QueueNotFound", f"{BLOCK}.queue"),
    ("closed queue", pytorch(queue="shut"), "QueueClosed", f"{BLOCK}.queue"),
    ("unknown queue of a pod", pod("p", queue="x"), "QueueNotFound", QUEUE_LABEL),
    ("unknown queue of a group", pod_group("g", queue="x"), "QueueNotFound", "spec.queue"),
    ("over the quota", pytorch(replicas=5), "OverQuota", "quota.requests[nvidia.com/gpu]"),
    ("unknown kind", pytorch() | {"kind": "TorchJob"}, "UnknownKind", "kind"),
    (
        "kind without controller",
        pytorch() | {"apiVersion": "tensorstack.dev/v1beta1", "kind": "Project"},
        "UnknownKind",
        "kind",
    ),
    ("no kind", {"metadata": {"name": "x"}}, "UnknownKind", "kind"),
    ("wrong version", pytorch() | {"apiVersion": "v1"}, "UnknownKind", "apiVersion"),
    ("no name", changed(pytorch(), "metadata", {}), "InvalidField", "metadata.name"),
    ("bad name", pytorch("Res Net"), "InvalidField", "metadata.name"),
    ("bad generated name", changed(pod("p"), "metadata", {"generateName": "P_"}), "InvalidField", "metadata.name"),
    ("owner forged", pytorch(ownerReferences=[{"uid": "x"}]), "InvalidField", "metadata.ownerReferences"),
    ("metadata no mapping", pytorch() | {"metadata": "x"}, "InvalidField", "metadata"),
    ("priority too high", changed(pytorch(), f"{BLOCK}.priority", 101), "InvalidField", f"{BLOCK}.priority"),
    ("negative", faulty("resources.requests.cpu", "-4"), "InvalidField", f"{AT}.resources.requests.cpu"),
    ("no quantity", faulty("resources.requests.memory", "16 GB"), "InvalidField", f"{AT}.resources.requests.memory"),
    ("unequal", faulty("resources.requests", UNEQUAL), "InvalidField", f"{AT}.resources.limits[nvidia.com/gpu]"),
    ("undeclared", faulty("resources.requests", {"memory": 1}), "InvalidField", f"{AT}.resources.requests.cpu"),
    ("long container name", faulty("name", "x" * 44), "InvalidField", f"{AT}.name"),
    ("no containers", changed(pytorch(), f"{SPEC}.containers", []), "InvalidField", AT.removesuffix("[0]")),
    ("time limit", pytorch(annotations={LIMIT: "soon"}), "InvalidField", f"metadata.annotations[{LIMIT}]"),
    ("half an hour", pytorch(annotations={LIMIT: "1.5h"}), "InvalidField", f"metadata.annotations[{LIMIT}]"),
    ("start time", pytorch(annotations={START: "soon"}), "InvalidField", f"metadata.annotations[{START}]"),
    ("system namespace", pytorch(namespace="kube-system"), "Forbidden", "metadata.namespace"),
    ("our namespace", pytorch(namespace="t9k-system"), "Forbidden", "metadata.namespace"),
    ("missing namespace", pytorch(namespace="nowhere"), "NotFound", "metadata.namespace"),
]


BOMB = "a: &a [x,x,x,x,x,x,x,x]\n" + "".join(
    f"{n}: &{n} [{','.join([f'*{m}'] * 9)}]\n" for m, n in zip("abcdef", "bcdefg", strict=True)
)


class TestRefused:
    @pytest.mark.parametrize(("obj", "code", "path"), [case[1:] for case in FAULTY], ids=[case[0] for case in FAULTY])
    async def test_each_names_code_and_field(self, world: World, obj: Json, code: str, path: str) -> None:
        refused = await world.user("POST", WORKLOADS, obj)
        assert 400 <= refused.status < 500, refused.body
        assert (refused.body["code"], path in refused.paths) == (code, True), refused.body
        assert all(error["message"] for error in refused.body["errors"])
        await nothing_is_left(world)

    @pytest.mark.parametrize(
        ("query", "code", "path"),
        [
            ("queue=nope", "QueueNotFound", "queue"),
            ("queue=shut", "QueueClosed", "queue"),
            ("queue=", "InvalidField", "query.queue"),
            ("priority=101", "InvalidField", "query.priority"),
            ("priority=high", "InvalidField", "query.priority"),
            ("dryRun=perhaps", "InvalidField", "query.dryRun"),
            ("queue=default%00", "Malformed", None),
        ],
    )
    async def test_faulty_queries(self, world: World, query: str, code: str, path: str | None) -> None:
        refused = await world.user("POST", f"{WORKLOADS}?{query}", pytorch())
        assert (refused.body["code"], refused.body["status"] < 500) == (code, True)
        assert path is None or path in refused.paths
        await nothing_is_left(world)

    @pytest.mark.parametrize("ours", [True, False])
    async def test_no_user_names_the_node(self, world: World, ours: bool) -> None:
        """What is bound already asks no scheduler: it would run outside quota, and while scheduling is stopped."""
        job = pytorch()
        job["spec"]["replicaSpecs"][0]["template"]["spec"]["nodeName"] = "a"
        alone = pod("p", queue="a40", ours=ours)
        alone["spec"]["nodeName"] = "a"
        refused = await world.user("POST", WORKLOADS, documents(job, alone))
        assert (refused.status, refused.body["code"]) == (422, "InvalidField")
        assert refused.paths == ["[0].spec.replicaSpecs[0].template.spec.nodeName", "[1].spec.nodeName"]
        await nothing_is_left(world)

    async def test_a_pod_has_no_priority(self, world: World) -> None:
        refused = await world.user("POST", f"{WORKLOADS}?queue=a40&priority=3", pod("p"))
        assert (refused.body["code"], refused.paths) == ("InvalidField", ["priority"])
        text = documents(pod("p", group="g"), pod_group("g", minimum=1))
        made = await world.user("POST", f"{WORKLOADS}?queue=a40&priority=3", text)
        assert (made.status, made.job["priority"], made.job["queue"]) == (201, 3, "a40")

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("kind: [", "in line"),
            ("a: 1\na: 2", "has the key 'a' twice"),
            ("just text", "is no object"),
            ("- 1", "is no object"),
            ("", "no object"),
            ("---\n---\n", "no object"),
            ("kind: List\nitems: []", "no object"),
            ("kind: Pod\nx: !!python/object:os.system {}", "apiVersion"),
            ("kind: Pod\n~: x", "put it in quotes"),
            ("kind: Pod\nx: .inf", "finite"),
            ("kind: Pod\nx: !!binary aGk", "not text in base64"),
            (b"kind: \xff\xfe", "not YAML"),
            ("x: " + "[" * 2000, "YAML"),
            ("x: " + "[" * 80 + "]" * 80, "nested"),
            (BOMB, "goes beyond 200000 values"),
            ("kind: Pod\napiVersion: 2024-01-01", "'2024-01-01' has no Pod"),
        ],
    )
    async def test_malformed(self, world: World, text: str | bytes, told: str) -> None:
        refused = await world.user("POST", WORKLOADS, text)
        assert 400 <= refused.status < 500, refused.body
        assert told in json.dumps(refused.body, ensure_ascii=False), refused.body
        await nothing_is_left(world)

    @pytest.mark.parametrize("text", ["{", '{"a": NaN}', '{"a": "\\ud800"}', "[" * 5000])
    async def test_malformed_json(self, world: World, text: str) -> None:
        refused = await world.user("POST", WORKLOADS, text, Content_Type="application/json")
        assert (refused.status, refused.body["code"]) == (400, "Malformed")

    async def test_what_is_left_of_the_quota(self, world: World) -> None:
        world.leader.queue_status = {"strict": {"allocated": {"nvidia.com/gpu": "5"}}}
        refused = await world.user("POST", WORKLOADS, pytorch(queue="strict", replicas=1))
        assert (refused.status, refused.body["code"]) == (422, "OverQuota")
        assert "needs 4, what is left of its quota now is 3" in refused.body["detail"]
        world.leader.away = True
        assert (await world.user("POST", WORKLOADS, pytorch(queue="strict", replicas=1))).status == 201

    async def test_a_name_that_exists(self, world: World) -> None:
        await world.user("POST", WORKLOADS, pytorch())
        again = await world.user("POST", WORKLOADS, pytorch())
        assert (again.status, again.body["code"]) == (409, "AlreadyExists")
        assert "PyTorchTrainingJob/resnet exists already" in again.body["detail"]
        assert len(world.kube.objects) == 1

    async def test_a_refusal_is_history(self, world: World) -> None:
        await world.user("POST", WORKLOADS, pytorch(replicas=50))
        (event,) = await world.store.history.list()
        assert (event.event, event.name, event.actor, event.detail["code"]) == ("refused", "resnet", "ann", "OverQuota")

    async def test_a_group_over_the_quota(self, world: World) -> None:
        pods = [pod(f"p-{i}", group="g", gpus=6) for i in range(3)]
        refused = await world.user("POST", WORKLOADS, documents(pod_group("g", minimum=3), *pods))
        assert (refused.body["code"], refused.body["detail"].count("needs 18")) == ("OverQuota", 1)
        made = await world.user("POST", WORKLOADS, documents(pod_group("g", minimum=2), *pods))
        assert made.status == 201, "members above the minimum may wait"

    async def test_a_pod_of_an_existing_group_is_paid_by_its_queue(self, world: World) -> None:
        await world.user("POST", WORKLOADS, pod_group("g", queue="a100"))
        refused = await world.user("POST", WORKLOADS, pod("p", group="g", queue="a40", gpus=17))
        assert refused.body["code"] == "OverQuota"

    async def test_no_user_submits_pods_into_the_group_of_anothers_job(self, world: World) -> None:
        """The scheduler would keep them out; the user hears of it at once."""
        for submitter, client in (("ann", world.user), ("admin", world.admin)):
            job = (await client("POST", WORKLOADS, pytorch(f"of-{submitter}"))).job
            group = pod_group(f"of-{submitter}")
            reference = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["name"], "uid": job["uid"]}
            group["metadata"] |= {"namespace": "default", "ownerReferences": [reference | {"controller": True}]}
            await world.kube.create(PODGROUPS, group, "default")
        refused = await world.user("POST", WORKLOADS, pod("p", group="of-admin"))
        assert (refused.status, refused.body["code"]) == (403, "Forbidden")
        assert refused.paths == ["metadata.labels[scheduler.tensorstack.dev/group-name]"]
        assert "the group of PyTorchTrainingJob/of-admin" in refused.body["detail"]
        assert (await world.user("POST", WORKLOADS, pod("p", group="of-ann"))).status == 201

    async def test_the_cluster_decides_where_a_user_may_create(self, world: World) -> None:
        world.kube.answers["SubjectAccessReview"] = {"status": {"allowed": False}}
        refused = await world.user("POST", WORKLOADS, pytorch())
        assert (refused.status, refused.body["code"]) == (403, "Forbidden")
        assert "'ann' may not create pytorchtrainingjobs.batch.tensorstack.dev" in refused.body["detail"]
        await nothing_is_left(world)
        assert (await world.admin("POST", WORKLOADS, pytorch())).status == 201


class TestAllOrNothing:
    async def test_one_faulty_document_stops_all(self, world: World) -> None:
        bad = changed(pytorch("c"), f"{SPEC}.containers.0.name", "")
        refused = await world.user("POST", WORKLOADS, documents(pytorch("a"), changed(pytorch("b"), "spec", {}), bad))
        assert refused.body["code"] == "InvalidField"
        assert {path.split(".")[0] for path in refused.paths} == {"[1]", "[2]"}
        assert world.kube.calls == []

    async def test_faults_in_a_list_have_its_path(self, world: World) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": [pytorch("a"), pytorch("b", queue="nope")]}
        refused = await world.user("POST", WORKLOADS, listed)
        assert refused.paths == ["items[1].spec.scheduler.t9kScheduler.queue"]

    async def test_the_same_object_twice(self, world: World) -> None:
        refused = await world.user("POST", WORKLOADS, documents(pytorch(), pytorch()))
        assert refused.paths == ["[1].metadata.name"]

    @pytest.mark.parametrize("verb", ["dry-run", "create"])
    async def test_what_was_created_is_deleted_again(self, world: World, verb: str) -> None:
        cause = {"field": "spec.x", "message": "is bad"}
        error = Unprocessable(422, "Invalid", "spec.x is bad", {"causes": [cause]})
        world.kube.faults = lambda v, _, name: error if (v, name) == (verb, "c") else None
        refused = await world.user("POST", WORKLOADS, documents(pytorch("a"), pytorch("b"), pytorch("c")))
        assert (refused.status, refused.paths) == (422, ["[2].spec.x"])
        assert ("create", "PyTorchTrainingJob", "a") in world.kube.calls if verb == "create" else True
        await nothing_is_left(world)

    async def test_what_cannot_be_deleted_is_named(self, world: World) -> None:
        def faults(verb: str, _: object, name: str) -> Exception | None:
            return (
                ServerError(500, "InternalError", "broken")
                if (verb, name) in {("create", "b"), ("delete", "a")}
                else None
            )

        world.kube.faults = faults  # type: ignore[assignment]
        failed = await world.user("POST", WORKLOADS, documents(pytorch("a"), pytorch("b")))
        assert (failed.status, failed.body["code"]) == (503, "Unavailable")
        assert "PyTorchTrainingJob/a was created before and could not be deleted" in failed.body["detail"]

    async def test_a_database_that_fails_leaves_nothing(self, world: World) -> None:
        fault = "CREATE TRIGGER fault BEFORE INSERT ON acceptance BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        async with world.store.database.write() as connection:
            await connection.execute(text(fault))  # acceptances are written last
        head = await world.store.changes.head()
        failed = await world.user("POST", WORKLOADS, pytorch())
        assert (failed.status, failed.body["code"]) == (503, "Unavailable")
        assert world.kube.objects == {}
        assert await world.store.changes.head() == head
        assert await world.store.history.list() == []
        assert await world.store.jobs.list() == []

    @pytest.mark.parametrize(("happened", "status"), [(True, 201), (False, 503)])
    async def test_a_lost_answer_is_found_out(self, world: World, happened: bool, status: int) -> None:
        lost = TimedOut("no answer")
        world.kube.faults = lambda verb, *_: ((lost, True) if happened else lost) if verb == "create" else None
        made = await world.user("POST", WORKLOADS, pytorch())
        assert made.status == status
        assert len(world.kube.objects) == int(happened)

    async def test_a_lost_answer_never_takes_anothers_object_for_ours(self, world: World) -> None:
        await world.user("POST", WORKLOADS, pytorch())
        world.kube.faults = lambda verb, *_: TimedOut("no answer") if verb == "create" else None
        assert (await world.user("POST", WORKLOADS, pytorch())).status == 503
        assert len(world.kube.objects) == 1

    async def test_the_cluster_is_away(self, world: World) -> None:
        world.kube.faults = lambda *_: Unreachable("connection refused")
        failed = await world.user("POST", WORKLOADS, pytorch())
        assert (failed.status, failed.body["code"]) == (503, "Unavailable")
        assert await world.store.history.list() == []


async def test_a_reservation_of_the_request_wins(world: World) -> None:
    annotation = "scheduler.tensorstack.dev/reservation"
    made = await world.user("POST", f"{WORKLOADS}?reservation=eval", pytorch(annotations={annotation: "other"}))
    assert made.status == 201, made.body
    (written,) = [obj for obj in world.kube.objects.values() if obj["kind"] == "PyTorchTrainingJob"]
    assert written["metadata"]["annotations"][annotation] == "eval"
    refused = await world.user("POST", f"{WORKLOADS}?reservation=No%20Name", pytorch("other"))
    assert (refused.status, refused.body["code"]) == (422, "InvalidField")


async def test_the_runtime_of_services_is_no_job(world: World) -> None:
    refused = await world.user("POST", "/apis/v1/workloads", {"kind": "MLServiceRuntime", "metadata": {"name": "vllm"}})
    assert (refused.status, refused.body["code"]) == (422, "UnknownKind")
    assert "kubectl apply makes it" in refused.body["errors"][0]["message"]
