"""Pages hold each item once, whatever comes and goes between two of them; filters are one grammar everywhere."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.api.http.paging import Paging
from t9ksched.api.http.selectors import met, parse
from t9ksched.store.jobs import JobRecord
from tests.unit.api.test_jobs import live
from tests.unit.api.world import Client, Json, World

JOBS, AUDIT = "/apis/v1/workloads", "/apis/v1/admin/audit"


@given(st.sets(st.integers(0, 99)), st.integers(1, 7), st.booleans(), st.data())
def test_pages_hold_each_item_once(items: set[int], limit: int, newest: bool, data: st.DataObject) -> None:
    """Items that appear or go between two pages move no other one."""
    there, always, seen, after = set(items), set(items), [], None
    while True:
        ordered = sorted((f"{one:02}" for one in there), reverse=newest)
        page, token = Paging(limit, after, "").of(ordered, lambda one: (one,), newest_first=newest)
        seen += page
        if token is None:
            break
        after = (page[-1],)
        there ^= data.draw(st.sets(st.sampled_from([one for one in range(100) if f"{one:02}" not in seen]), max_size=3))
        always &= there | {int(one) for one in seen}
    assert len(seen) == len(set(seen))
    assert seen == sorted(seen, reverse=newest)
    assert {f"{one:02}" for one in always} <= set(seen)


async def pages(client: Client, path: str, **headers: str) -> list[list[Json]]:
    found, more = [], ""
    while True:
        answer = await client("GET", path + more, **headers)
        assert answer.status == 200, answer.body
        found.append(answer.body["items"])
        if answer.body["continue"] is None:
            return found
        more = f"&continue={answer.body['continue']}"


async def test_lists_of_every_kind_have_pages(world: World) -> None:
    for number in range(5):
        made = {"name": f"q{number}", "labels": {"n": str(number)}, "members": {"everyone": True}}
        assert (await world.admin("POST", "/apis/v1/admin/queues", made)).status == 201
        await world.store.tokens.create(f"t{number}")
    world.leader.node_list = [{"name": f"n{number}", "labels": {"n": str(number)}, "gpus": []} for number in range(5)]
    world.leader.job_list = [live(f"j{number}", submittedAt=f"2031-01-01T00:00:0{number}Z") for number in range(5)]
    for path, one in (
        ("/apis/v1/admin/queues", "name"),
        ("/apis/v1/queues", "name"),
        ("/apis/v1/nodes", "name"),
        ("/apis/v1/admin/tokens", "name"),
        ("/apis/v1/admin/audit", "id"),
        (JOBS, "name"),
    ):
        whole = [item[one] for item in (await world.admin("GET", path)).body["items"]]
        paged = await pages(world.admin, f"{path}?limit=2")
        assert [item[one] for page in paged for item in page] == whole, path
        assert {len(page) for page in paged[:-1]} == {2}
    assert [job["name"] for page in await pages(world.admin, f"{JOBS}?limit=2&order=newest") for job in page] == [
        f"j{number}" for number in reversed(range(5))
    ]


@pytest.mark.parametrize("order", ["oldest", "newest"])
@pytest.mark.parametrize("away", [False, True])
async def test_what_is_recorded_and_what_lives_are_one_list(
    world: World, monkeypatch: pytest.MonkeyPatch, order: str, away: bool
) -> None:
    """Also where rows are read in several steps, and where records differ by seconds from their objects."""
    monkeypatch.setattr("t9ksched.api.joblist._ROWS", 7)
    start = datetime(2031, 1, 1, tzinfo=UTC)
    for number in range(60):
        at = start + timedelta(seconds=20 * (number // 3))
        shape = live(f"j{number:02}", submittedAt=at.strftime("%Y-%m-%dT%H:%M:%SZ"), labels={"odd": str(number % 2)})
        gone = {"deleted_at": at} if number % 4 else {}
        skew = timedelta(seconds=(number * 7) % 5 - 2)
        head: dict[str, Any] = {key: shape[key] for key in ("uid", "namespace", "kind", "name", "queue", "phase")}
        await world.store.jobs.put_many([JobRecord(**head, submitted_at=at + skew, shape=shape, **gone)])
        if not gone:
            world.leader.job_list.append(shape)
    world.leader.away = away
    paged = await pages(world.user, f"{JOBS}?deleted=true&limit=4&order={order}")
    names = [job["name"] for page in paged for job in page]
    assert names == [f"j{number:02}" for number in sorted(range(60), reverse=order == "newest")]
    odd = await pages(world.user, f"{JOBS}?deleted=true&limit=4&order={order}&label=odd%3D1")
    assert [job["name"] for page in odd for job in page] == [name for name in names if int(name[1:]) % 2]
    times = "since=2031-01-01T00:01:00Z&until=2031-01-01T00:02:00Z"
    some = [job["name"] for page in await pages(world.user, f"{JOBS}?deleted=true&limit=4&{times}") for job in page]
    assert some == [f"j{number:02}" for number in range(9, 18)]


async def test_filters_of_jobs(world: World) -> None:
    world.leader.job_list = [
        live("a", labels={"team": "ml"}),
        live("b", queue="a40", submitter="bob", kind="PyTorchTrainingJob"),
        live("c", phase="Pending", labels={"team": "cv"}),
    ]
    asked = {
        "queue=a40&queue=a100": "abc",
        "phase=Pending&phase=Failed": "c",
        "user=bob": "b",
        "user=ann&user=bob": "abc",
        "kind=pj": "b",
        "kind=mpijobs": "ac",
        "label=team": "ac",
        "label=team%3Dml": "a",
        "label=team!%3Dml": "bc",
        "label=!team": "b",
        "label=team+in+(ml,cv)&phase=Running": "a",
        "since=2032-01-01T00:00:00Z": "",
        "until=2032-01-01": "abc",
        "until=9999-12-31T23:59:59.999999Z": "abc",
        "since=0001-01-01T00:00:00Z": "abc",
        "since=9999-12-31T23:59:59.999999Z": "",
    }
    for query, names in asked.items():
        found = await world.admin("GET", f"{JOBS}?{query}")
        assert (found.status, "".join(job["name"] for job in found.body["items"])) == (200, names), query


@pytest.mark.parametrize(
    ("query", "path", "told"),
    [
        ("limit=0", "query.limit", "less than 1"),
        ("limit=1001", "query.limit", "more than 1000"),
        ("continue=x", "query.continue", "is no continue of this list"),
        ("continue=WyJ4IixbImEiXV0", "query.continue", "is no continue of this list"),
        ("label=a%3D%3D%3Db", "query.label", "cannot be read at"),
        ("label=", "query.label", "cannot be read"),
        ("kind=unicorn", "query.kind", "'unicorn' is no kind of workload"),
        ("kind=mpijop", "query.kind", "did you mean MPIJob?"),
        ("since=2031-01-02&until=2031-01-01", "query.since", "is after until"),
        ("since=0001-01-01T00:00:00%2B23:00", "query.since", "is no time this service can count with"),
        ("until=0001-01-01T00:00:00%2B23:00", "query.until", "is no time this service can count with"),
        ("order=best", "query.order", "is none of oldest or newest"),
    ],
)
async def test_bad_questions(world: World, query: str, path: str, told: str) -> None:
    refused = await world.user("GET", f"{JOBS}?{query}")
    assert (refused.status, refused.paths) == (422, [path])
    assert told in refused.body["errors"][0]["message"]


@pytest.mark.parametrize("query", ["until=9999-12-31T23:59:59.999999Z", "since=0001-01-01T00:00:00Z"])
async def test_moments_at_the_ends_of_the_calendar_leave_nothing_of_the_audit_out(world: World, query: str) -> None:
    whole, asked = await world.admin("GET", AUDIT), await world.admin("GET", f"{AUDIT}?{query}")
    assert (asked.status, asked.body["items"]) == (200, whole.body["items"])


@pytest.mark.parametrize(
    "key",
    [
        ["9999-12-31T23:59:59Z", "x"],
        ["0001-01-01T00:00:00Z", "x"],
        ["2031-01-01T00:00:00", "x"],
        ["now"],
        [],
    ],
)
async def test_a_token_that_nobody_was_given_does_no_harm(world: World, key: list[str]) -> None:
    world.leader.job_list = [live(name) for name in "abc"]
    given = (await world.user("GET", f"{JOBS}?limit=1")).body["continue"]
    made_for, _ = json.loads(base64.urlsafe_b64decode(given + "=="))
    forged = base64.urlsafe_b64encode(json.dumps([made_for, key]).encode()).decode().rstrip("=")
    assert (await world.user("GET", f"{JOBS}?limit=1&continue={forged}")).status in (200, 422)


async def test_a_page_goes_on_with_its_own_filters_only(world: World) -> None:
    world.leader.job_list = [live(name) for name in "abc"]
    token = (await world.user("GET", f"{JOBS}?limit=1&phase=Running")).body["continue"]
    assert (await world.user("GET", f"{JOBS}?phase=Running&limit=2&continue={token}")).status == 200
    for query in ("", "&phase=Pending"):
        refused = await world.user("GET", f"{JOBS}?limit=1&continue={token}{query}")
        assert (refused.status, refused.paths) == (422, ["query.continue"])


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_change_with_an_unknown_parameter_is_refused(world: World, method: str) -> None:
    address = f"{JOBS}?dryrun=true" if method == "POST" else f"{JOBS}/default/mpijob/x?force=1"
    refused = await world.user(method, address, {} if method == "POST" else None)
    assert (refused.status, refused.paths) == (422, ["query.dryrun" if method == "POST" else "query.force"])


def test_selectors() -> None:
    labels = {"team": "ml", "zone": "a", "example.com/x": "1"}
    for text, passes in {
        "team": True,
        "!team": False,
        "team=ml,zone!=b": True,
        "team==ml , zone notin (b, c)": True,
        "zone in (b)": False,
        "example.com/x=1": True,
        "none!=1": True,
        "none notin (1)": True,
    }.items():
        assert met(parse(text), labels) is passes, text
    for text in ("", ",", "a b", "=x", "a in b", "a=ü"):
        with pytest.raises(ValueError):
            parse(text)
