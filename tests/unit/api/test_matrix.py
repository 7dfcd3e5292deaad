"""Every endpoint × every role × own and other's. An endpoint that is not in the table fails the test.

`own` and `other` are queues: `boss` manages the first, `rival` the second; `ann` (a user) and `eye` (a viewer) are
members of the first. Each job has its own submitter. A cell says what the role gets: `+` its way, `F` 403, `-` 404 as
if it were not there. `rival` has the cells of `boss`, with the queues the other way round. What tokens of other kinds
get stands in test_matrix_tokens.py, by this same table.
"""

from collections.abc import Iterator

import pytest
from msgspec import structs

from t9ksched.kube.resources import PODS
from t9ksched.model.notification import EVENTS, Address
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.notifications import new_target
from tests.kinds import PYTORCHTRAININGJOBS
from tests.unit.api.test_jobs import live
from tests.unit.api.world import Answer, Client, Json, World, pod, pytorch

ROLES = ("admin", "boss", "ann", "eye")
PUBLIC = {"/healthz", "/readyz", "/version", "/apis/v1/version", "/docs"}
QUEUE, QUEUES = "/apis/v1/admin/queues/{name}", "/apis/v1/admin/queues"
JOB, JOBS = "/apis/v1/workloads/{namespace}/{kind}/{name}", "/apis/v1/workloads"
RESERVATIONS = "/apis/v1/admin/reservations"
NOTIFICATIONS = "/apis/v1/notifications"
TOKENS, AUDIT = "/apis/v1/admin/tokens", "/apis/v1/admin/audit"

# Method and path, then the cells of admin, boss, ann, eye for what is their own, and for what is another user's.
TABLE: dict[tuple[str, str], tuple[str, str]] = {
    ("GET", QUEUES): ("++FF", "++FF"),
    ("POST", QUEUES): ("+FFF", "+FFF"),
    ("GET", QUEUE): ("++FF", "+FFF"),
    ("PUT", QUEUE): ("+FFF", "+FFF"),
    ("PATCH", QUEUE): ("+FFF", "+FFF"),
    ("DELETE", QUEUE): ("+FFF", "+FFF"),
    ("GET", QUEUE + "/members"): ("++FF", "+FFF"),
    ("PUT", QUEUE + "/members"): ("++FF", "+FFF"),
    ("POST", QUEUE + "/actions/close"): ("++FF", "+FFF"),
    ("POST", QUEUE + "/actions/open"): ("++FF", "+FFF"),
    ("POST", QUEUE + "/actions/drain"): ("++FF", "+FFF"),
    ("GET", TOKENS): ("+FFF", "+FFF"),
    ("POST", TOKENS): ("+FFF", "+FFF"),
    ("DELETE", TOKENS + "/{name}"): ("+FFF", "+FFF"),
    ("GET", AUDIT): ("++FF", "++FF"),
    ("GET", "/apis/v1/queues"): ("++++", "++++"),
    ("POST", "/apis/v1/access-reviews"): ("++++", "++++"),
    ("GET", JOBS): ("++++", "++++"),
    ("POST", JOBS): ("+++F", "+FFF"),
    ("GET", JOB): ("++++", "+---"),
    ("DELETE", JOB): ("+++F", "+--F"),
    ("GET", JOB + "/explanation"): ("++++", "+---"),
    ("GET", JOB + "/history"): ("++++", "+---"),
    ("GET", JOB + "/pods"): ("++++", "+---"),
    ("GET", JOB + "/log"): ("++++", "+---"),
    ("GET", JOB + "/pods/{pod}/log"): ("++++", "+---"),
    ("POST", JOB + "/exec"): ("FFFF", "F--F"),
    ("POST", JOB + "/actions/hold"): ("++FF", "+---"),
    ("POST", JOB + "/actions/release"): ("++FF", "+---"),
    ("POST", JOB + "/actions/prioritise"): ("++FF", "+---"),
    ("POST", JOB + "/actions/update"): ("+++F", "+--F"),
    ("POST", JOB + "/actions/pause"): ("+++F", "+--F"),
    ("POST", JOB + "/actions/resume"): ("+++F", "+--F"),
    ("POST", JOB + "/actions/scale"): ("+++F", "+--F"),
    ("POST", JOB + "/actions/resubmit"): ("+++F", "+--F"),
    ("POST", JOB + "/results"): ("????", "????"),  # with the trial's own token alone
    ("GET", "/apis/v1/nodes"): ("++++", "++++"),
    ("GET", "/apis/v1/nodes/{name}"): ("++++", "++++"),
    ("PUT", "/apis/v1/admin/nodes/{name}/cards/{index}"): ("+FFF", "+FFF"),
    ("GET", "/apis/v1/timeline"): ("++++", "++++"),
    ("GET", "/apis/v1/usage"): ("++++", "++++"),
    ("GET", "/apis/v1/forecast-accuracy"): ("++FF", "++FF"),
    ("GET", "/apis/v1/stops"): ("++++", "++++"),
    ("GET", "/apis/v1/whoami"): ("++++", "++++"),
    ("GET", "/apis/v1/events"): ("++++", "++++"),
    ("GET", "/metrics"): ("++++", "++++"),
    ("GET", RESERVATIONS): ("++++", "++++"),
    ("POST", RESERVATIONS): ("+FFF", "+FFF"),
    ("GET", RESERVATIONS + "/{name}"): ("++--", "++--"),
    ("GET", RESERVATIONS + "/{name}/history"): ("++--", "++--"),
    ("PATCH", RESERVATIONS + "/{name}"): ("+FFF", "+FFF"),
    ("DELETE", RESERVATIONS + "/{name}"): ("+FFF", "+FFF"),
    ("GET", NOTIFICATIONS): ("++++", "++++"),
    ("POST", NOTIFICATIONS): ("++FF", "+FFF"),
    ("GET", NOTIFICATIONS + "/{id}"): ("++--", "+---"),
    ("DELETE", NOTIFICATIONS + "/{id}"): ("++-F", "+--F"),
    ("POST", NOTIFICATIONS + "/{id}/actions/test"): ("++-F", "+--F"),
    ("POST", "/apis/v1/simulate"): ("++FF", "+FFF"),
    ("GET", "/apis/v1/admin/snapshot"): ("+FFF", "+FFF"),
    ("PUT", "/apis/v1/admin/stops/{what}"): ("+FFF", "+FFF"),
    ("DELETE", "/apis/v1/admin/stops/{what}"): ("+FFF", "+FFF"),
}
BODIES: dict[tuple[str, str], Json] = {
    ("POST", QUEUES): {"name": "new"},
    ("PUT", QUEUE): {"spec": {}},
    ("PATCH", QUEUE): {"spec": {}},
    ("PUT", QUEUE + "/members"): {"everyone": False, "users": ["ann", "eye"]},
    ("POST", TOKENS): {"name": "new"},
    ("POST", JOB + "/actions/prioritise"): {"priority": 3},
    ("POST", JOB + "/actions/update"): {"timeLimit": "2h"},
    ("POST", JOB + "/actions/scale"): {"replicas": 2},
    ("POST", JOB + "/exec"): {"command": ["ls"]},
    ("POST", JOB + "/results"): {"value": 1},
    ("PUT", "/apis/v1/admin/stops/{what}"): {},
    ("PUT", "/apis/v1/admin/nodes/{name}/cards/{index}"): {"cordoned": True},
    ("POST", RESERVATIONS): {
        "name": "new",
        "from": "2090-01-01T00:00:00Z",
        "to": "2090-01-02T00:00:00Z",
        "nodes": {"names": ["n1"]},
        "for": "maintenance",
    },
    ("PATCH", RESERVATIONS + "/{name}"): {"note": "x"},
}
TARGETS = {"own": "0a", "other": "0b"}
"""Addresses for notifications, by queue."""


@pytest.fixture
async def callers(world: World) -> dict[str, Client]:
    """One client a role, the two queues, and for each role a job of its own and one of another user."""
    store = world.store
    who = {"users": ["ann", "eye"]}
    await store.queues.create("own", {}, {}, who)
    await store.queues.create("other", {}, {}, {"users": ["bob"]})
    tokens = {
        "boss": await store.tokens.create("boss", "manager", queues=["own"]),
        "rival": await store.tokens.create("rival", "manager", queues=["other"]),
        "ann": await store.tokens.create("ann", "user"),
        "eye": await store.tokens.create("eye", "viewer"),
    }
    await store.tokens.create("spare")
    times = {"from": "2090-02-01T00:00:00Z", "to": "2090-02-02T00:00:00Z"}
    spare = {"name": "spare", "nodes": {"names": ["n1"]}, "for": "maintenance"} | times
    await store.reservations.create(parse_reservation(spare).to_dict(), ["n1"], 0)
    world.leader.node_list = [{"name": "n1", "gpus": [{"index": 0, "cordoned": False}]}]
    for queue, id_ in TARGETS.items():
        told = new_target(
            Address("webhook", "https://example.org/", "https://example.org/…"), "carl", EVENTS, queue=queue
        )
        await store.notifications.add(structs.replace(told, id=id_), 20, by="carl")
    for submitter, queue in (*((name, "own") for name in ROLES), ("bob", "other"), ("rival", "other")):
        made = await world.kube.create(
            PYTORCHTRAININGJOBS, pytorch(f"of-{submitter}", queue=queue, namespace="default"), "default"
        )
        await world.kube.create(PODS, _member(made), "default")
        job = live(f"of-{submitter}", uid=made["metadata"]["uid"], submitter=submitter, queue=queue, phase="Pending")
        job |= {"kind": "PyTorchTrainingJob"}
        world.leader.job_list.append(job)
        world.leader.explanations[f"default/PyTorchTrainingJob/{job['name']}"] = {"job": job}
        await store.acceptances.put_many([_accepted(job)])
    return {name: Client(world.user.url, world.user.session, token) for name, token in tokens.items()} | {
        "admin": world.admin,
        "nobody": world.nobody,
    }


def _member(job: Json) -> Json:
    """A pod of the job."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    made = pod(f"{name}-node-0")
    made["metadata"] |= {
        "namespace": "default",
        "labels": {"tensorstack.dev/owner-name": name},
        "ownerReferences": [{"kind": job["kind"], "name": name, "uid": uid, "controller": True}],
    }
    return made


def _accepted(job: Json) -> Acceptance:
    head = {key: job[key] for key in ("uid", "kind", "namespace", "name", "submitter", "queue")}
    return Acceptance(**head)


def operations(world: World) -> Iterator[tuple[str, str]]:
    for path, methods in world.app.openapi()["paths"].items():
        for method in methods:
            yield method.upper(), path


async def ask(client: Client, method: str, path: str, queue: str, job: str) -> Answer:
    """The request, about that queue and that job where it is about one."""
    values = {"namespace": "default", "kind": "pytorchtrainingjob", "what": "scheduling", "name": queue}
    values["id"] = TARGETS[queue]
    if path.startswith(JOB):
        values |= {"name": job, "pod": f"{job}-node-0"}
    elif "/nodes/{name}" in path:
        values |= {"name": "n1", "index": "0"}
    elif path.startswith((TOKENS, RESERVATIONS)):
        values["name"] = "spare"
    body = BODIES.get((method, path))
    if (method, path) == ("POST", JOBS):
        body = pytorch("fresh", queue=queue)
    if path.endswith("simulate"):
        body = {"change": {"queues": [{"name": queue}]}}
    if (method, path) == ("POST", NOTIFICATIONS):
        body = {"url": "https://example.org/s3cret", "queue": queue}
    if path.endswith("access-reviews"):
        body = {"queue": queue}
    return await client(method, path.format(**values), body)


async def cells(client: Client, queue: str, job: str) -> dict[tuple[str, str], str]:
    """What the caller gets of each endpoint; reading comes before changing, and deleting last."""
    order = ["GET", "PATCH", "PUT", "POST", "DELETE"]
    got = {}
    for method, path in sorted(TABLE, key=lambda row: order.index(row[0])):
        status = (await ask(client, method, path, queue, job)).status
        got[method, path] = {401: "?", 403: "F", 404: "-"}.get(status, "+" if status < 300 or status == 409 else "!")
    return got


async def test_every_endpoint_has_its_row(world: World) -> None:
    listed = {(method, path) for method, path in operations(world) if path not in PUBLIC}
    assert listed == set(TABLE)


@pytest.mark.parametrize("whose", ["own", "other"])
@pytest.mark.parametrize("role", [*ROLES, "rival"])
async def test_who_may_do_what(world: World, callers: dict[str, Client], role: str, whose: str) -> None:
    column = ROLES.index("boss" if role == "rival" else role)
    expected = {row: both[whose == "other"][column] for row, both in TABLE.items()}
    if role == "rival":
        queue, job = ("other", "of-rival") if whose == "own" else ("own", "of-ann")
    else:
        queue, job = ("own", f"of-{role}") if whose == "own" else ("other", "of-bob")
    assert await cells(callers[role], queue, job) == expected


async def test_lists_show_what_is_ones_own(world: World, callers: dict[str, Client]) -> None:
    async def names(role: str, path: str) -> list[str]:
        return [one["name"] for one in (await callers[role]("GET", path)).body["items"]]

    everything = ["of-admin", "of-ann", "of-bob", "of-boss", "of-eye", "of-rival"]
    others = {"of-bob", "of-rival"}
    assert await names("admin", JOBS) == everything
    assert await names("boss", JOBS) == [name for name in everything if name not in others], "all of the managed queue"
    assert await names("ann", JOBS) == ["of-ann"]
    assert await names("boss", QUEUES) == ["own"]
    assert await names("ann", "/apis/v1/queues") == ["default", "own"]
    told = (await callers["ann"]("GET", "/apis/v1/queues")).body["items"][1]
    assert told["members"]["users"] == ["ann"], "who else is a member is for managers"
    assert (await callers["boss"]("GET", "/apis/v1/queues")).body["items"][1]["members"]["users"] == ["ann", "eye"]


async def test_names_of_others_are_hidden_on_cards_and_in_explanations(
    world: World, callers: dict[str, Client]
) -> None:
    def holder(name: str, queue: str) -> Json:
        job = f"PyTorchTrainingJob/{name}"
        return {"namespace": "default", "pod": f"{name}-0", "container": "c", "job": job, "queue": queue, "cores": 100}

    cards = [{"index": 0, "holders": [holder("of-ann", "own")]}, {"index": 1, "holders": [holder("of-bob", "other")]}]
    world.leader.node_list = [{"name": "n1", "gpus": cards}]

    async def pods(role: str) -> list[str | None]:
        node = (await callers[role]("GET", "/apis/v1/nodes/n1")).body
        return [card["holders"][0]["pod"] for card in node["gpus"]]

    assert await pods("admin") == ["of-ann-0", "of-bob-0"]
    assert await pods("boss") == ["of-ann-0", None]
    assert await pods("ann") == ["of-ann-0", None]
    assert await pods("eye") == [None, None]
    planned = [
        {"at": "2031-05-01T10:00:00Z"} | holder(name, queue) for name, queue in (("of-ann", "own"), ("of-bob", "other"))
    ]
    world.leader.node_list = [{"name": "n1", "gpus": [], "planned": planned}]
    world.leader.timeline_now |= {"items": [one | {"from": None} for one in planned]}
    for role, names in {
        "admin": (True, True),
        "boss": (True, False),
        "ann": (True, False),
        "eye": (False, False),
    }.items():
        node, times = [(await callers[role]("GET", path)).body for path in ("/apis/v1/nodes/n1", "/apis/v1/timeline")]
        for shown in (node["planned"], times["items"]):
            assert [bool(one["job"] and one["namespace"]) for one in shown] == list(names)
            assert [one["queue"] for one in shown] == ["own", "other"]
    explanation = world.leader.explanations["default/PyTorchTrainingJob/of-ann"]
    explanation["holders"] = [
        {"queue": "other", "job": "default/PyTorchTrainingJob/of-bob", "gpus": 4},
        {"queue": "own", "job": "default/PyTorchTrainingJob/of-ann", "gpus": 2},
    ]
    told = (await callers["ann"]("GET", f"{JOBS}/default/pytorchtrainingjob/of-ann/explanation")).body["holders"]
    assert [(one["job"], one["gpus"]) for one in told] == [(None, 4), ("default/PyTorchTrainingJob/of-ann", 2)]


async def test_a_namespaces_owner_sees_and_cancels_its_jobs(world: World, callers: dict[str, Client]) -> None:
    world.kube.namespace_meta["default"] = {"annotations": {"tensorstack.dev/owner": "ann"}}
    assert len((await callers["ann"]("GET", JOBS)).body["items"]) == 6
    assert (await callers["ann"]("DELETE", f"{JOBS}/default/pytorchtrainingjob/of-bob")).status == 200


async def test_a_misspelt_queue_is_answered_with_the_queues_that_the_caller_may_use(
    world: World, callers: dict[str, Client]
) -> None:
    refused = await callers["ann"]("POST", JOBS, pytorch("fresh", queue="nowhere"))
    assert (refused.status, refused.body["code"]) == (422, "QueueNotFound")
    assert "own" in refused.body["detail"]
    assert "other" not in refused.body["detail"]
