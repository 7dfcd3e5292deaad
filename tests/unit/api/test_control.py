"""Decisions about waiting jobs, stops, the audit, and usage, through the doors."""

from datetime import UTC, datetime, timedelta

import pytest

from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event
from tests.unit.api.test_jobs import live
from tests.unit.api.test_matrix_tokens import client_of
from tests.unit.api.world import World

JOB = "/apis/v1/workloads/default/mpijob/walk"
STOPS, AUDIT, USAGE = "/apis/v1/admin/stops", "/apis/v1/admin/audit", "/apis/v1/usage"


@pytest.mark.parametrize("phase", ["Pending", "Resuming", "Paused"])
async def test_hold_prioritise_release(world: World, phase: str) -> None:
    world.leader.job_list = [live("walk", phase=phase)]
    assert (await world.admin("POST", f"{JOB}/actions/hold")).body["held"] is True
    assert (await world.user("GET", JOB)).body["held"] is True
    assert [job["held"] for job in (await world.user("GET", "/apis/v1/workloads")).body["items"]] == [True]
    body = (await world.admin("POST", f"{JOB}/actions/prioritise", {"priority": 9})).body
    assert (body["held"], body["priority"], body["by"]) == (True, 9, "admin")
    assert (await world.admin("POST", f"{JOB}/actions/release")).body["held"] is False
    assert "held" not in (await world.user("GET", JOB)).body
    audit = (await world.admin("GET", f"{AUDIT}?name=walk")).body["items"]
    assert [one["event"] for one in audit] == ["job-released", "job-prioritised", "job-held"]


async def test_a_job_whose_submitter_the_leader_does_not_know_yet_is_there_for_its_submitter(world: World) -> None:
    accepted = Acceptance(uid="walk", kind="MPIJob", namespace="default", name="walk", submitter="ann", queue="a100")
    await world.store.acceptances.put_many([accepted])
    world.leader.job_list = [live("walk", phase="Pending", submitter=None, priority=5)]
    assert (await world.user("POST", f"{JOB}/actions/prioritise", {"priority": 3})).status == 200
    assert (await world.user("POST", f"{JOB}/actions/hold")).status == 403
    world.leader.job_list = [live("walk", uid="other", phase="Pending", submitter=None)]
    assert (await world.user("POST", f"{JOB}/actions/hold")).status == 404


async def test_what_is_decided_about_the_job_of_a_deployment_counts_for_its_next_replicaset(world: World) -> None:
    first, second = (live(f"web-{index}", kind="ReplicaSet", phase="Pending") for index in (1, 2))
    above = {"root": "Deployment/web", "rootUid": "the-deployment"}
    address = "/apis/v1/workloads/default/replicaset/web-{}"
    world.leader.job_list = [first | above]
    held = await world.admin("POST", address.format(1) + "/actions/hold")
    assert (held.body["uid"], held.body["held"]) == ("the-deployment", True)
    world.leader.job_list = [first | above, second | above]
    assert [job.get("held") for job in (await world.user("GET", "/apis/v1/workloads")).body["items"]] == [True, True]
    assert (await world.admin("POST", address.format(2) + "/actions/release")).body["held"] is False
    assert "held" not in (await world.user("GET", address.format(1))).body


async def test_what_an_earlier_release_decided_about_a_replicaset_is_taken_back_with_its_deployment(
    world: World,
) -> None:
    job = live("web-1", kind="ReplicaSet", phase="Pending")
    before = Event(event="job-held", kind="ReplicaSet", namespace="default", name="web-1", uid=job["uid"], actor="boss")
    await world.store.controls.hold(before)
    world.leader.job_list = [job | {"root": "Deployment/web", "rootUid": "the-deployment"}]
    address = "/apis/v1/workloads/default/replicaset/web-1"
    assert (await world.user("GET", address)).body["held"] is True
    assert (await world.admin("POST", f"{address}/actions/release")).body["held"] is False
    assert "held" not in (await world.user("GET", address)).body


@pytest.mark.parametrize("action", ["hold", "release"])
async def test_what_runs_is_left_alone(world: World, action: str) -> None:
    world.leader.job_list = [live("walk", phase="Running")]
    refused = await world.admin("POST", f"{JOB}/actions/{action}")
    assert (refused.status, refused.body["code"]) == (409, "Conflict")
    assert await world.store.controls.all() == []


async def test_a_started_gang_that_lost_a_member_is_not_held(world: World) -> None:
    """It is Pending, and what is left of it runs; a hold from before can be taken back."""
    members = {"min": 2, "total": 2, "bound": 1, "running": 1, "succeeded": 0, "failed": 0}
    world.leader.job_list = [live("walk", phase="Pending", members=members)]
    refused = await world.admin("POST", f"{JOB}/actions/hold")
    assert (refused.status, refused.body["code"]) == (409, "Conflict")
    assert "1 of 2 members" in refused.body["detail"]
    assert (await world.admin("POST", f"{JOB}/actions/release")).status == 200


async def test_a_submitter_shortens_a_time_limit_and_a_manager_lengthens_it(world: World) -> None:
    two_hours = {"seconds": 7200, "source": "job", "enforced": True}
    world.leader.job_list = [live("walk", phase="Running", timeLimit=two_hours)]
    shorter = await world.user("POST", f"{JOB}/actions/update", {"timeLimit": "1h"})
    assert (shorter.status, shorter.body["timeLimitSeconds"]) == (200, 3600)
    for longer in ("3h", "0", "61m"):  # an hour is decided, though the leader does not say so yet
        refused = await world.user("POST", f"{JOB}/actions/update", {"timeLimit": longer})
        assert (refused.status, refused.body["code"]) == (403, "Forbidden")
    assert (await world.admin("POST", f"{JOB}/actions/update", {"timeLimit": "0"})).body["timeLimitSeconds"] == 0
    world.leader.job_list[0]["submitter"] = "bob"
    assert (await world.user("POST", f"{JOB}/actions/update", {"timeLimit": "1m"})).status == 404
    world.leader.job_list[0]["phase"] = "Succeeded"
    assert (await world.admin("POST", f"{JOB}/actions/update", {"timeLimit": "1h"})).body["code"] == "Conflict"
    audit = (await world.admin("GET", f"{AUDIT}?name=walk")).body["items"]
    assert [one["detail"]["after"]["timeLimitSeconds"] for one in audit] == [0, 3600]


async def test_what_is_learned_of_a_job_is_no_limit_that_its_submitter_could_not_exceed(world: World) -> None:
    learned = {"seconds": 60, "source": "learned", "enforced": False}
    world.leader.job_list = [live("walk", phase="Running", timeLimit=learned)]
    given = await world.user("POST", f"{JOB}/actions/update", {"timeLimit": "1h"})
    assert (given.status, given.body["timeLimitSeconds"]) == (200, 3600), "a limit where none was is shorter"


async def test_only_administrators_lengthen_a_limit_past_a_start_that_is_planned_for_another_queue(
    world: World,
) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    manager = await client_of(world, "boss", "manager", "boss", queues=["a100"])
    an_hour = {"seconds": 3600, "source": "job", "enforced": True}
    world.leader.job_list = [live("walk", phase="Running", timeLimit=an_hour)]
    waits = live("large", kind="PodGroup", queue="theirs", submitter="eve", namespace="far")
    world.leader.delayed_plans = [{"at": "2031-05-01T12:00:00Z", "after": "2031-05-01T20:00:00Z", "job": waits}]
    refused = await manager("POST", f"{JOB}/actions/update", {"timeLimit": "9h"})
    assert (refused.status, refused.body["code"]) == (409, "Conflict")
    assert "a job of the queue 'theirs', which is planned to start at 2031-05-01T12:00:00Z" in refused.body["detail"]
    assert "large" not in refused.body["detail"], "a name that this manager may not see"
    assert (await manager("POST", f"{JOB}/actions/update", {"timeLimit": "30m"})).status == 200
    world.leader.delayed_plans = []
    assert (await manager("POST", f"{JOB}/actions/update", {"timeLimit": "2h"})).status == 200
    world.leader.delayed_plans = [{"at": "2031-05-01T12:00:00Z", "after": "2031-05-01T20:00:00Z", "job": waits}]
    assert (await world.admin("POST", f"{JOB}/actions/update", {"timeLimit": "9h"})).status == 200


async def test_only_administrators_lengthen_a_limit_into_a_reservation(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    manager = await client_of(world, "boss", "manager", "boss", queues=["a100"])
    an_hour = {"seconds": 3600, "source": "job", "enforced": True}
    world.leader.job_list = [live("walk", phase="Running", timeLimit=an_hour)]
    taken = {"name": "firmware", "nodes": ["n1"], "from": "2031-05-01T12:00:00Z", "to": "2031-05-01T14:00:00Z"}
    world.leader.reserved_room = [taken]
    refused = await manager("POST", f"{JOB}/actions/update", {"timeLimit": "9h"})
    assert (refused.status, refused.body["code"]) == (409, "Conflict")
    told = (
        "the job would still hold n1 in the reservation 'firmware', from 2031-05-01T12:00:00Z to 2031-05-01T14:00:00Z"
    )
    assert told in refused.body["detail"]
    assert (await manager("POST", f"{JOB}/actions/update", {"timeLimit": "30m"})).body["warnings"] == []
    changed = await world.admin("POST", f"{JOB}/actions/update", {"timeLimit": "9h"})
    (warning,) = changed.body["warnings"]
    assert (changed.status, warning["path"]) == (200, "timeLimit")
    assert told in warning["message"]
    last, first = (await world.admin("GET", f"{AUDIT}?name=walk")).body["items"]
    assert last["detail"]["reservations"] == [taken]
    assert "reservations" not in first["detail"]


async def test_a_group_that_its_limit_ended_gets_another_limit(world: World) -> None:
    """Its pods are made anew by hand: they run only with another one."""
    ended = {"code": "TimeLimitExceeded", "message": "it reached its time limit"}
    world.leader.job_list = [live("walk", kind="PodGroup", phase="Failed", reason=ended)]
    address = "/apis/v1/workloads/default/podgroup/walk/actions/update"
    changed = await world.admin("POST", address, {"timeLimit": "1h"})
    assert (changed.status, changed.body.get("timeLimitSeconds")) == (200, 3600)


@pytest.mark.parametrize("body", [{}, {"timeLimit": "1.5h"}, {"timeLimit": 5}, {"timeLimit": "5h"}, {"timeLimit": "0"}])
async def test_faulty_time_limits(world: World, body: dict[str, object]) -> None:
    await world.store.queues.create("short", {}, {"maxDuration": "4h"}, {"everyone": True})
    world.leader.job_list = [live("walk", phase="Pending", queue="short")]
    refused = await world.admin("POST", f"{JOB}/actions/update", body)
    assert (refused.status, refused.body["code"], refused.paths) == (422, "InvalidField", ["timeLimit"])
    assert not body or "is missing" not in refused.body["detail"]
    assert body or "is missing: write one such as 2h, or 0 for none" in refused.body["errors"][0]["message"]


async def test_a_submitter_releases_what_did_not_start_in_time(world: World) -> None:
    world.leader.job_list = [live("walk", phase="Pending")]
    assert (await world.user("POST", f"{JOB}/actions/release")).status == 403
    world.leader.job_list[0]["reason"] = {"code": "StartTimedOut", "message": "three times"}
    assert (await world.user("POST", f"{JOB}/actions/release")).status == 200
    (control,) = await world.store.controls.all()
    assert control.released_at is not None


@pytest.mark.parametrize("body", [{}, {"priority": 101}, {"priority": True}, {"priority": 1, "x": 2}])
async def test_faulty_priorities(world: World, body: dict[str, object]) -> None:
    world.leader.job_list = [live("walk", phase="Pending")]
    assert (await world.admin("POST", f"{JOB}/actions/prioritise", body)).body["code"] == "InvalidField"


async def test_stops_are_shown_everywhere_and_end(world: World) -> None:
    put = await world.admin("PUT", f"{STOPS}/scheduling", {"duration": "1h", "why": "new switches"})
    assert (put.body["what"], put.body["by"], put.body["why"]) == ("scheduling", "admin", "new switches")
    for path in ("/apis/v1/queues", "/apis/v1/workloads"):
        assert (await world.user("GET", path)).body["stopped"] == [put.body], path
    assert (await world.user("GET", "/apis/v1/stops")).body["items"] == [put.body]
    assert (await world.admin("DELETE", f"{STOPS}/scheduling")).status == 204
    assert (await world.admin("DELETE", f"{STOPS}/scheduling")).body["code"] == "NotFound"
    await world.admin("PUT", f"{STOPS}/preemption", {"duration": "1ms"})
    assert (await world.user("GET", "/apis/v1/stops")).body["items"] == []
    assert (await world.admin("PUT", f"{STOPS}/everything", {})).status == 422
    usual = await world.admin("PUT", f"{STOPS}/preemption", {})
    lasts = datetime.fromisoformat(usual.body["until"]) - datetime.fromisoformat(usual.body["at"])
    assert lasts.total_seconds() == pytest.approx(86_400, abs=2)
    endless = await world.admin("PUT", f"{STOPS}/preemption", {"duration": "never"})
    assert endless.body["until"] is None
    await world.admin("DELETE", f"{STOPS}/preemption")
    for text in ("0", "0s", "", 0):
        refused = await world.admin("PUT", f"{STOPS}/scheduling", {"duration": text})
        assert (refused.status, refused.paths) == (422, ["duration"])
    refused = await world.admin("PUT", f"{STOPS}/scheduling", {"duration": "soon", "way": 1})
    assert sorted(refused.paths) == ["duration", "way"]


async def test_audit_pages_and_filters(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.admin("POST", "/apis/v1/admin/queues", {"name": name})
    await world.admin("PUT", "/apis/v1/admin/queues/a/members", {"users": ["ann"]})
    await world.store.history.append(Event(event="bound", queue="a"))
    first = (await world.admin("GET", f"{AUDIT}?limit=3")).body
    assert [(one["event"], one["queue"]) for one in first["items"]] == [
        ("queue-members-changed", "a"),
        ("queue-created", "c"),
        ("queue-created", "b"),
    ]
    rest = (await world.admin("GET", f"{AUDIT}?limit=3&after={first['next']}")).body
    assert ([one["queue"] for one in rest["items"]], rest["next"]) == (["a"], None)
    assert len((await world.admin("GET", f"{AUDIT}?queue=a&event=queue-created")).body["items"]) == 1
    assert (await world.admin("GET", f"{AUDIT}?event=bound")).status == 422
    assert (await world.admin("GET", f"{AUDIT}?actor=eve")).body["items"] == []
    assert (await world.admin("GET", f"{AUDIT}?until=2001-01-01T00:00:00Z")).body["items"] == []


NONE = {"idleHours": 0.0, "freeHours": 0.0}


async def test_usage_of_ones_own_and_of_all(world: World) -> None:
    start = datetime(2026, 3, 31, 22, tzinfo=UTC)
    events = []
    for user, queue, uid in (("ann", "a", "u1"), ("bob", "b", "u2")):
        head = {"uid": uid, "namespace": "ml", "kind": "Pod", "name": uid, "queue": queue}
        events += [
            Event(event="submitted", actor=user, at=start, **head),
            Event(
                event="bound",
                at=start,
                detail={"pod": "p", "node": "n1", "model": "A100", "cards": {"c": [0, 1] if uid == "u1" else [2]}},
                **head,
            ),
            Event(event="started", at=start + timedelta(hours=1), **head),
            Event(event="finished", at=start + timedelta(hours=4), **head),
        ]
    await world.store.history.append_many(events)
    mine = (await world.user("GET", f"{USAGE}?by=queue&by=model&by=month")).body
    assert mine["items"] == [
        {"queue": "a", "model": "A100", "month": "2026-03", "gpuHours": 4.0, "heldHours": 2.0, "jobs": 1} | NONE,
        {"queue": "a", "model": "A100", "month": "2026-04", "gpuHours": 4.0, "heldHours": 0.0, "jobs": 1} | NONE,
    ]
    everything = (await world.admin("GET", f"{USAGE}?by=user")).body
    assert [(row["user"], row["gpuHours"]) for row in everything["items"]] == [("ann", 8.0), ("bob", 4.0)]
    assert everything["total"] == {"gpuHours": 12.0, "heldHours": 3.0} | NONE
    april = (await world.admin("GET", f"{USAGE}?month=2026-04")).body
    assert april["total"]["gpuHours"] == 6.0
    table = (await world.admin("GET", f"{USAGE}?format=csv&by=card")).body.decode()
    assert table.splitlines()[:2] == ["card,gpuHours,heldHours,jobs,idleHours,freeHours", "n1#0,4.0,1.0,1,0.0,0.0"]
    for query in ("by=colour", "month=2026-13", "month=2026-04&since=2026-04-01", "since=2030-01-01&until=2029-01-01"):
        assert (await world.admin("GET", f"{USAGE}?{query}")).body["code"] == "InvalidField", query
