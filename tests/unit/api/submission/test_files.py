"""ConfigMaps that come with a job: they belong to it, and what none mounts is refused."""

import pytest

from t9ksched.api.submission.configmaps import read_file
from t9ksched.kube.errors import Forbidden, ServerError
from t9ksched.model.errors import Invalid
from tests.unit.api.world import Json, World, config_map, documents, mounting, pod, pod_group, pytorch


@pytest.fixture(autouse=True)
async def _queue(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})


JOBS = "/apis/v1/workloads"


def owners(world: World, name: str) -> list[str]:
    return [one["name"] for one in world.kube.objects["configmaps", "default", name]["metadata"]["ownerReferences"]]


async def test_it_is_owned_by_the_job_that_mounts_it_and_is_no_job(world: World) -> None:
    body = documents(pytorch("other"), config_map("files", script="true"), mounting(pytorch("a"), "files"))
    made = await world.user("POST", JOBS, body)
    assert (made.status, [job["name"] for job in made.body["items"]]) == (201, ["other", "a"])
    assert owners(world, "files") == ["a"]
    assert (await world.user("DELETE", f"{JOBS}/default/PyTorchTrainingJob/a")).status == 200
    assert world.kube.names() == {"PyTorchTrainingJob/other"}


async def test_of_pods_of_a_group_it_belongs_to_the_group(world: World) -> None:
    pods = [mounting(pod(f"p{number}", group="g"), "files") for number in range(2)]
    assert (await world.user("POST", JOBS, documents(pod_group("g"), *pods, config_map("files")))).status == 201
    assert owners(world, "files") == ["g"]


async def test_each_element_of_an_array_owns_it(world: World) -> None:
    body = documents(mounting(pytorch("a"), "files"), config_map("files"))
    made = await world.user("POST", f"{JOBS}?array=0-2", body)
    assert made.status == 201, made.body
    assert owners(world, "files") == ["a-0", "a-1", "a-2"]
    two = await world.user("POST", f"{JOBS}?array=0-2", documents(pytorch("b"), pytorch("c"), config_map("files")))
    assert (two.status, "the request has 2" in two.body["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("objects", "path", "said"),
    [
        ([config_map("f")], "kind", "submitted with the job that mounts it"),
        ([config_map("f"), pytorch("a")], "[0].metadata.name", "no pods of the request use it"),
        (
            [config_map("f"), mounting(pytorch("a"), "f"), mounting(pytorch("b"), "f")],
            "[0].metadata.name",
            "PyTorchTrainingJob/a and PyTorchTrainingJob/b use it",
        ),
        ([config_map("f"), config_map("f"), mounting(pytorch("a"), "f")], "[1].metadata.name", "twice"),
        ([config_map("F_"), mounting(pytorch("a"), "F_")], "[0].metadata.name", "not a valid name"),
        ([config_map("f") | {"metadata": {}}, pytorch("a")], "[0].metadata.name", "is missing"),
        ([config_map("f") | {"spec": {}}, pytorch("a")], "[0].spec", "no field of a ConfigMap"),
        ([config_map("f") | {"apiVersion": "v2"}, pytorch("a")], "[0].apiVersion", "use v1"),
        ([config_map("f") | {"data": {"a": 1}}, pytorch("a")], "[0].data", "mapping of texts"),
        (
            [config_map("f") | {"metadata": {"name": "f", "ownerReferences": [{}]}}, mounting(pytorch("a"), "f")],
            "[0].metadata.ownerReferences",
            "leave it out",
        ),
    ],
)
async def test_what_is_refused(world: World, objects: list[Json], path: str, said: str) -> None:
    refused = await world.user("POST", JOBS, documents(*objects))
    assert (refused.status, refused.body["errors"][0]["path"]) == (422, path), refused.body
    assert said in refused.body["errors"][0]["message"]
    assert world.kube.names() == set()


def test_one_that_is_larger_than_the_cluster_takes() -> None:
    with pytest.raises(Invalid, match="data: has 1048577 bytes, and a ConfigMap at most 1048576"):
        read_file("", config_map("f", a="x" * 2**20, b="y"), None)


async def test_a_name_that_is_taken_leaves_nothing(world: World) -> None:
    world.kube.objects["configmaps", "default", "f"] = config_map("f") | {"metadata": {"name": "f", "uid": "u"}}
    refused = await world.user("POST", JOBS, documents(config_map("f"), mounting(pytorch("a"), "f")))
    assert (refused.status, refused.body["code"]) == (409, "AlreadyExists")
    assert "ConfigMap/f" in refused.body["detail"]
    assert world.kube.names() == {"ConfigMap/f"}


@pytest.mark.parametrize("late", [False, True])
async def test_an_answer_that_was_lost_is_looked_up(world: World, late: bool) -> None:
    error = ServerError(504, "Timeout", "gone") if late else Forbidden(403, "Forbidden", "no")
    world.kube.faults = lambda verb, res, _: (
        ((error, late) if late else error) if (verb == "create" and res.kind == "ConfigMap") else None
    )
    answer = await world.user("POST", JOBS, documents(config_map("f"), mounting(pytorch("a"), "f")))
    assert answer.status == (201 if late else 403), answer.body
    assert world.kube.names() == ({"PyTorchTrainingJob/a", "ConfigMap/f"} if late else set())


async def test_a_user_who_may_create_no_config_maps_submits_none(world: World) -> None:
    asked: list[str] = []
    world.kube.answers["SubjectAccessReview"] = {"status": {"allowed": True}}
    create = world.kube.create

    async def reviewing(res: object, obj: Json, *args: object, **options: object) -> Json:
        if getattr(res, "kind", "") == "SubjectAccessReview":
            resource = obj["spec"]["resourceAttributes"]["resource"]
            asked.append(resource)
            return obj | {"status": {"allowed": resource != "configmaps"}}
        return await create(res, obj, *args, **options)  # type: ignore[arg-type]

    world.kube.create = reviewing  # type: ignore[method-assign]
    refused = await world.user("POST", JOBS, documents(config_map("f"), mounting(pytorch("a"), "f")))
    assert (refused.status, refused.body["code"], "configmaps" in asked) == (403, "Forbidden", True), refused.body
    assert world.kube.names() == set()


async def test_a_job_that_is_submitted_again_has_files_of_its_own(world: World) -> None:
    job = mounting(pytorch("a"), "f")
    template = job["spec"]["replicaSpecs"][0]["template"]
    group = {"matchLabels": {"scheduler.tensorstack.dev/group-name": "a"}}
    template["spec"]["affinity"] = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": group, "topologyKey": "rack"}]
        }
    }
    template["spec"]["containers"][0]["env"] = [{"name": "SLURM_JOB_ID", "value": "a"}, {"name": "X", "value": "a"}]
    template["spec"]["volumes"].append({"name": "shared", "configMap": {"name": "shared"}})
    world.kube.objects["configmaps", "default", "shared"] = config_map("shared") | {
        "metadata": {"name": "shared", "namespace": "default", "uid": "s"}
    }
    assert (await world.user("POST", JOBS, documents(job, config_map("f")))).status == 201
    for query in ("?dryRun=true", "?newName=b"):
        again = await world.user("POST", f"{JOBS}/default/PyTorchTrainingJob/a/actions/resubmit{query}")
        assert again.status in (200, 201), again.body
    ((name, copy),) = [
        (name, obj)
        for (kind, _, name), obj in world.kube.objects.items()
        if kind == "configmaps" and name not in ("f", "shared")
    ]
    assert (name[:2], len(name), copy["data"]) == ("f-", 7, config_map("f")["data"])
    assert owners(world, name) == ["b"]
    assert owners(world, "f") == ["a"]
    made = next(obj for (_, _, one), obj in world.kube.objects.items() if one == "b")
    spec = made["spec"]["replicaSpecs"][0]["template"]["spec"]
    assert [one["configMap"]["name"] for one in spec["volumes"] if "configMap" in one] == [name, "shared"]
    assert [one["value"] for one in spec["containers"][0]["env"]] == ["b", "a"]
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"scheduler.tensorstack.dev/group-name": "b"}
