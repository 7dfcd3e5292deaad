"""Reservations by REST: all verbs, ETags, dry runs, and what the leader says against one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import parse_moment
from t9ksched.store.advance_reservations import Outcome
from t9ksched.store.history import Event
from tests.unit.api.world import Client, Json, World

PATH = "/apis/v1/admin/reservations"
GPU = "nvidia.com/gpu"
FROM, TO = "2090-01-07T20:00:00Z", "2090-01-07T22:00:00Z"


def body(name: str = "eval", **fields: Any) -> Json:
    base = {"name": name, "to": TO, "nodes": {"names": ["n1"]}, "for": {"queues": ["eval"]}, "from": FROM}
    return base | {key.rstrip("_"): value for key, value in fields.items()}


async def test_life_of_a_reservation(world: World) -> None:
    world.leader.judgement = {"nodes": ["n1", "n2"]}
    made = await world.admin("POST", PATH, body(note="weekly"))
    assert (made.status, made.headers["Location"]) == (201, f"{PATH}/eval")
    assert made.body["status"] == {"phase": "Scheduled", "from": FROM, "to": TO, "nodes": ["n1", "n2"], "last": None}
    assert (made.body["drainAhead"], made.body["onConflict"], made.body["createdBy"]) == ("24h", "Refuse", "admin")
    got = await world.admin("GET", f"{PATH}/eval")
    assert [one["path"] for one in made.body.pop("warnings")] == ["for.queues"]
    assert (got.body, got.headers["ETag"]) == (made.body, made.headers["ETag"])
    assert (await world.admin("GET", PATH)).body == {"items": [got.body], "continue": None}

    change = {"to": "2090-01-07T23:00:00Z", "note": None, "for": "maintenance"}
    changed = await world.admin("PATCH", f"{PATH}/eval", change, If_Match=got.headers["ETag"])
    assert (changed.status, changed.body["to"], changed.body["note"]) == (200, "2090-01-07T23:00:00Z", "")
    assert changed.body["for"] == "maintenance"
    assert changed.headers["ETag"] != got.headers["ETag"]
    assert [one["name"] for one in world.leader.judged] == ["eval", "eval"]
    again = await world.admin("PATCH", f"{PATH}/eval", changed.body, If_Match="*")
    assert again.headers["ETag"] == changed.headers["ETag"], "an answer can be sent back"

    assert (await world.admin("DELETE", f"{PATH}/eval", If_Match=changed.headers["ETag"])).status == 204
    gone = await world.admin("GET", f"{PATH}/eval")
    assert (gone.status, gone.body["code"]) == (404, "NotFound")
    audit = (await world.admin("GET", "/apis/v1/admin/audit")).body["items"]
    assert [(one["event"], one["name"], one["actor"]) for one in audit] == [
        ("reservation-deleted", "eval", "admin"),
        ("reservation-changed", "eval", "admin"),
        ("reservation-created", "eval", "admin"),
    ]


async def test_a_queue_that_does_not_exist_is_a_warning(world: World) -> None:
    await world.store.queues.create("training", {}, {})
    text = "there is no queue 'trainign': none of its jobs can use the reservation until there is one"
    told = [{"path": "for.queues", "message": text, "nearest": "training"}]
    spec = body(for_={"queues": ["training", "trainign"]})
    assert (await world.admin("POST", f"{PATH}?dryRun=true", spec)).body["warnings"] == told
    assert (await world.admin("POST", PATH, spec)).body["warnings"] == told
    change = {"for": {"queues": ["training"], "users": ["ann"]}}
    assert (await world.admin("PATCH", f"{PATH}/eval", change)).body["warnings"] == []
    assert "warnings" not in (await world.admin("GET", f"{PATH}/eval")).body


async def test_stale_preconditions_change_nothing(world: World) -> None:
    first = (await world.admin("POST", PATH, body())).headers["ETag"]
    second = (await world.admin("PATCH", f"{PATH}/eval", {"note": "x"}, If_Match=first)).headers["ETag"]
    for method, change in (("PATCH", {"note": "y"}), ("DELETE", None)):
        for tag in (first, "nonsense", 'W/"1"'):
            stale = await world.admin(method, f"{PATH}/eval", change, If_Match=tag)
            assert (stale.status, stale.body["code"], stale.headers["ETag"]) == (412, "PreconditionFailed", second)
    assert (await world.admin("GET", f"{PATH}/eval")).body["note"] == "x"
    assert (await world.admin("PATCH", f"{PATH}/none", {"note": "y"})).status == 404
    assert (await world.admin("DELETE", f"{PATH}/none")).status == 404


async def test_a_dry_run_says_what_would_be_and_changes_nothing(world: World) -> None:
    job = {"kind": "job", "name": "ml/Job/j", "queue": "q", "nodes": ["n1"], "until": None}
    plan = {"job": "ml/Job/k", "queue": "q", "at": FROM, "nodes": ["n1"]}
    world.leader.judgement = {"conflicts": [job], "jobs": [job], "plans": [plan]}
    tried = await world.admin("POST", f"{PATH}?dryRun=true", body())
    assert tried.status == 200
    assert (tried.body["nodes"], tried.body["conflicts"], tried.body["plans"]) == (["n1"], [job], [plan])
    assert (await world.admin("GET", PATH)).body == {"items": [], "continue": None}
    world.leader.judgement = {}
    made = await world.admin("POST", PATH, body())
    for method, change in (("PATCH", {"note": "x"}), ("DELETE", None)):
        assert (await world.admin(method, f"{PATH}/eval?dryRun=true", change)).status == 200
    del made.body["warnings"]
    assert (await world.admin("GET", f"{PATH}/eval")).body == made.body


async def test_a_conflict_says_who_holds_what_until_when(world: World) -> None:
    held = {"kind": "job", "name": "ml/Job/j", "queue": "q", "nodes": ["n1", "n2"], "until": "2090-01-07T21:00:00Z"}
    world.leader.judgement = {"conflicts": [held, held | {"until": None}]}
    refused = await world.admin("POST", PATH, body())
    assert (refused.status, refused.body["code"]) == (409, "Conflict")
    assert "job ml/Job/j holds n1, n2 until 2090-01-07T21:00:00Z (and 1 more)" in refused.body["detail"]
    assert refused.body["conflicts"][0] == held
    assert "onConflict: Wait" in refused.body["remedy"]
    world.leader.judgement = {"conflicts": [held | {"kind": "reservation"}]}
    assert (await world.admin("POST", PATH, body())).body["remedy"] == "take other nodes or times"
    assert (await world.admin("GET", PATH)).body == {"items": [], "continue": None}


async def test_who_is_not_evicted_is_told(world: World) -> None:
    held = {"kind": "job", "name": "ml/Job/j", "queue": "q", "nodes": ["n1"], "until": None, "evicted": 0}
    world.leader.judgement = {"conflicts": [held]}
    refused = await world.admin("POST", PATH, body(onConflict="Preempt"))
    assert (refused.status, refused.body["code"]) == (409, "Conflict")
    assert "job ml/Job/j holds n1 and nothing ends it; its queue is not preemptible" in refused.body["detail"]
    assert refused.body["remedy"] == "take other nodes or times, or force, which evicts such jobs, too"
    world.leader.judgement = {"jobs": [held | {"evicted": 3}]}
    made = await world.admin("POST", PATH, body(onConflict="Preempt", force=True))
    assert (made.status, made.body["onConflict"], made.body["force"]) == (201, "Preempt", True)
    (event,) = (await world.admin("GET", "/apis/v1/admin/audit")).body["items"]
    assert (event["actor"], event["detail"]["after"]["force"]) == ("admin", True)
    assert (await world.admin("PATCH", f"{PATH}/eval", {"force": None, "onConflict": None})).status == 200


async def manager(world: World) -> Client:
    """The manager of the queues eval and mine."""
    for name in ("eval", "mine", "theirs"):
        spec = {"quota": {"requests": {GPU: 8, "cards": 8}}}
        await world.admin("POST", "/apis/v1/admin/queues", {"name": name, "spec": spec})
    about = {"user": "mia", "role": "manager", "queues": ["eval", "mine"], "name": "mia"}
    made = await world.admin("POST", "/apis/v1/admin/tokens", about)
    assert made.status == 201, made.body
    return Client(world.admin.url, world.admin.session, made.body["token"])


async def test_a_manager_reserves_room_that_only_managed_queues_give_up(world: World) -> None:
    mia = await manager(world)
    ours = {"kind": "job", "name": "ml/Job/j", "queue": "mine", "nodes": ["n1"], "until": None, "evicted": 1}
    world.leader.judgement = {"jobs": [ours], "takes": {GPU: 8}}
    begin = datetime.now(UTC) + timedelta(days=2)
    times = {"from_": f"{begin:%Y-%m-%dT%H:%M:%SZ}", "to": f"{begin + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"}
    made = await mia("POST", PATH, body(onConflict="Preempt", **times))
    assert (made.status, made.body["createdBy"]) == (201, "mia")
    assert 172700 < int(made.body["drainAhead"].removesuffix("s")) <= 172800, "no job without an end starts there now"
    assert (await mia("PATCH", f"{PATH}/eval", {"note": "x"})).status == 403
    assert (await mia("DELETE", f"{PATH}/eval")).status == 204
    await world.admin("POST", PATH, body())
    refused = await mia("DELETE", f"{PATH}/eval")
    assert (refused.status, "did not make the reservation 'eval'" in refused.body["detail"]) == (403, True)
    late = await mia("POST", PATH, body("late", onConflict="Preempt"))
    assert (late.status, late.paths) == (422, ["from"])
    assert (await world.user("POST", PATH, body("x", onConflict="Preempt", **times))).status == 403


@pytest.mark.parametrize(
    ("change", "judged", "told"),
    [
        ({"onConflict": "Refuse"}, {}, "with onConflict: Preempt and without force only"),
        ({"force": True}, {}, "without force only"),
        ({"for_": "maintenance"}, {}, "for queues only"),
        ({"for_": {"queues": ["eval"], "users": ["mia"]}}, {}, "for queues only"),
        ({"for_": {"queues": ["eval", "theirs"]}}, {}, "not for theirs"),
        ({}, {"jobs": [{"queue": "theirs"}]}, "every queue whose jobs give way: theirs"),
        ({}, {"plans": [{"queue": "theirs"}]}, "every queue whose planned starts give way: theirs"),
        ({}, {"takes": {GPU: 9}}, f"more {GPU} than the quota of eval allows"),
        ({}, {"takes": {GPU: 7, "vke.volcengine.com/mgpu-core": 150}}, "more cards than the quota of eval allows"),
    ],
)
async def test_what_only_administrators_may_do(world: World, change: Json, judged: Json, told: str) -> None:
    mia = await manager(world)
    world.leader.judgement = {"takes": {"cpu": 99}} | judged
    begin = datetime.now(UTC)
    times = {"from_": f"{begin:%Y-%m-%dT%H:%M:%SZ}", "to": f"{begin + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"}
    for dry in ("", "?dryRun=true"):
        refused = await mia("POST", f"{PATH}{dry}", body(**times | {"onConflict": "Preempt"} | change))
        assert (refused.status, told in refused.body["detail"]) == (403, True), refused.body
    assert (await world.admin("GET", PATH)).body == {"items": [], "continue": None}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"to": FROM}, "to"),
        ({"from_": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}, "to"),
        ({"nodes": {}}, "nodes"),
        ({"onConflict": "Evict"}, "onConflict"),
        ({"force": True}, "force"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_bad_fields_are_named(world: World, change: dict[str, Any], path: str) -> None:
    refused = await world.admin("POST", PATH, body(**change))
    assert (refused.status, refused.body["code"], refused.paths) == (422, "InvalidField", [path])
    assert world.leader.judged == []


async def test_what_the_leader_finds_wrong_is_told(world: World) -> None:
    world.leader.judgement = {"faults": [{"path": "nodes.names", "message": "there is no node 'n9'"}]}
    refused = await world.admin("POST", PATH, body())
    assert (refused.status, refused.paths) == (422, ["nodes.names"])


async def test_a_name_is_taken_once_and_stays(world: World) -> None:
    await world.admin("POST", PATH, body())
    assert (await world.admin("POST", PATH, body())).body["code"] == "AlreadyExists"
    renamed = await world.admin("PATCH", f"{PATH}/eval", {"name": "other"})
    assert (renamed.status, renamed.paths) == (422, ["name"])


async def test_without_a_leader_nothing_is_reserved(world: World) -> None:
    world.leader.away = True
    assert (await world.admin("POST", PATH, body())).status == 503
    assert (await world.admin("GET", PATH)).body == {"items": [], "continue": None}


async def test_it_is_judged_again_when_another_one_changed_meanwhile(world: World) -> None:
    await world.admin("POST", PATH, body("first"))
    world.leader.judgement = {"seen": 0}
    busy = await world.admin("POST", PATH, body("second"))
    assert (busy.status, busy.body["code"]) == (503, "Unavailable")
    assert len(world.leader.judged) == 6, "five times, then it is told"
    real = world.leader.judge_reservation

    async def later(reservation: Json) -> Json:
        judged = await real(reservation)
        return judged | {"seen": 0 if len(world.leader.judged) < 9 else await world.store.changes.head()}

    world.leader.judge_reservation = later  # type: ignore[method-assign]
    assert (await world.admin("POST", PATH, body("second"))).status == 201


async def test_an_unknown_parameter_is_refused_before_anything_is_done(world: World) -> None:
    await world.admin("POST", PATH, body())
    assert (await world.admin("GET", f"{PATH}?dryrun=true")).status == 422


async def test_what_is_over_or_was_released_is_shown(world: World) -> None:
    now = {"from": "2020-01-01T00:00:00Z", "to": "2089-01-01T00:00:00Z"}
    made = await world.admin("POST", PATH, body() | now)
    assert made.body["status"]["phase"] == "Active"


def ended(begin: str, end: str, what: str) -> tuple[Outcome, Event]:
    """What the scheduler writes when an occurrence is over."""
    outcome = Outcome(parse_moment(begin), parse_moment(end), what, parse_moment(end))
    detail = {"from": begin, "to": end, "message": f"reservation eval: {what}"}
    return outcome, Event(event=f"reservation-{what.lower()}", at=outcome.at, name="eval", detail=detail)


@pytest.mark.parametrize("what", ["Over", "Released", "Missed"])
async def test_what_became_of_one_that_is_over_can_be_read(world: World, what: str) -> None:
    begin, end = "2026-01-07T20:00:00Z", "2026-01-07T22:00:00Z"
    spec = parse_reservation(body(from_=begin, to=end)).to_dict()
    made = await world.store.reservations.create(spec, ["n1"], 0, by="admin")
    unknown = {"phase": "Over", "from": begin, "to": end, "nodes": ["n1"], "last": None}
    assert (await world.admin("GET", f"{PATH}/eval")).body["status"] == unknown
    assert await world.store.reservations.end("eval", made.uid, *ended(begin, end, what))
    last = {"from": begin, "to": end, "outcome": what, "at": end}
    assert (await world.admin("GET", f"{PATH}/eval")).body["status"] == unknown | {"phase": what, "last": last}
    event = f"reservation-{what.lower()}"
    for address in (f"/apis/v1/admin/audit?event={event}", f"{PATH}/eval/history?event={event}"):
        (found,) = (await world.admin("GET", address)).body["items"]
        assert (found["event"], found["name"]) == (event, "eval")
        assert (found["detail"]["from"], found["detail"]["to"]) == (begin, end)
    everything = (await world.admin("GET", f"{PATH}/eval/history")).body["items"]
    assert [one["event"] for one in everything] == ["reservation-created", event]
    refused = await world.admin("GET", f"{PATH}/eval/history?event=missed")
    assert (refused.status, refused.paths) == (422, ["query.event"])


async def test_of_one_that_repeats_the_last_one_is_told_beside_the_next(world: World) -> None:
    begin, end = "2026-01-07T20:00:00Z", "2026-01-07T22:00:00Z"
    spec = parse_reservation(body(from_=begin, to=end, every="daily")).to_dict()
    made = await world.store.reservations.create(spec, ["n1"], 0)
    await world.store.reservations.end("eval", made.uid, *ended(begin, end, "Missed"))
    status = (await world.admin("GET", f"{PATH}/eval")).body["status"]
    assert (status["phase"] in ("Scheduled", "Active"), status["last"]["outcome"]) == (True, "Missed")
    await world.store.reservations.edit("eval", spec | {"until": begin}, ["n1"], await world.store.changes.head())
    status = (await world.admin("GET", f"{PATH}/eval")).body["status"]
    assert (status["phase"], status["from"], status["to"]) == ("Missed", begin, end)


async def test_those_whom_it_is_for_see_it_and_what_became_of_it(world: World) -> None:
    store = world.store
    await store.queues.create("theirs", {}, {}, {"users": ["bob"]})
    await store.queues.create("ours", {}, {}, {"everyone": True})
    begin, end = "2026-01-07T20:00:00Z", "2026-01-07T22:00:00Z"
    whom = {
        "mine": {"users": ["bob", "ann"], "queues": ["theirs", "ours"]},
        "groups": {"groups": ["ops"]},
        "theirs": {"queues": ["theirs"]},
        "nobody": "maintenance",
    }
    for name, of in whom.items():
        spec = parse_reservation(body(name, from_=begin, to=end, for_=of)).to_dict()
        made = await store.reservations.create(spec, ["n1"], await store.changes.head(), by="admin")
        outcome, event = ended(begin, end, "Released")
        await store.reservations.end(name, made.uid, outcome, structs.replace(event, name=name, at=datetime.now(UTC)))
    (seen,) = (await world.user("GET", PATH)).body["items"]
    assert (seen["name"], seen["createdBy"], seen["status"]["last"]["outcome"]) == ("mine", None, "Released")
    assert seen["for"] == {"queues": ["ours"], "users": ["ann"], "groups": []}
    (event,) = (await world.user("GET", f"{PATH}/mine/history")).body["items"]
    assert event["event"] == "reservation-released"
    for hidden in ("theirs", "nobody", "groups", "none"):
        for address in (hidden, f"{hidden}/history"):
            assert (await world.user("GET", f"{PATH}/{address}")).status == 404
    assert len((await world.admin("GET", PATH)).body["items"]) == len(whom)


async def test_what_the_leader_warns_of_is_told_with_the_answer_and_the_dry_run(world: World) -> None:
    assert (await world.admin("POST", PATH, body())).status == 201
    told = [{"path": "to", "message": "job ml/Job/j may run beyond it", "nearest": None}]
    world.leader.judgement = {"warnings": told}
    for address in (f"{PATH}/eval?dryRun=true", f"{PATH}/eval"):
        answer = await world.admin("PATCH", address, {"note": "x"})
        assert [one for one in answer.body["warnings"] if one["path"] == "to"] == told
