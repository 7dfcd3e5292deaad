"""What one user may ask for has an end, is refused before the cluster is asked, and harms no other user."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from msgspec import structs

from t9ksched.api.allowances import Allowances, Limits
from t9ksched.api.http.problems import Problem
from t9ksched.settings import Settings
from t9ksched.store import history
from t9ksched.store.jobs import Jobs
from tests.unit.api.world import Answer, Client, World, documents, pod, pytorch

JOBS = "/apis/v1/workloads"


@pytest.fixture(autouse=True)
async def queues(world: World) -> None:
    for name in ("a100", "a40"):
        await world.store.queues.create(name, {}, {}, {"everyone": True})


@pytest.fixture
def limited(world: World) -> Callable[..., None]:
    """Serves with limits."""

    def serve(**limits: int) -> None:
        world.app.state.services = replace(world.app.state.services, limits=Limits(**limits))
        world.kube.calls.clear()

    return serve


async def bob(world: World) -> Client:
    return Client(world.user.url, world.user.session, await world.store.tokens.create("bob"))


def refused(answer: Answer, world: World) -> str:
    """What a user is told who asked too much."""
    assert (answer.status, answer.body["code"]) == (429, "RateLimited"), answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert int(answer.headers["Retry-After"]) >= 1
    assert world.kube.calls == []
    return str(answer.body["detail"])


@pytest.mark.parametrize(
    ("times", "answers"),
    [
        ([0.0] * 4, [None, None, None, 20]),
        ([0.0, 0.0, 0.0, 19.0, 20.0, 20.0], [None, None, None, 1, None, 20]),
        ([0.0, 0.0, 0.0, 3600.0, 3600.0, 3600.0, 3600.0], [None] * 6 + [20]),
    ],
)
def test_a_minutes_worth_at_once_then_one_after_the_other(times: list[float], answers: list[int | None]) -> None:
    now = iter(times)
    allowances = Allowances(Limits(requests=3), cast(Jobs, None), lambda: next(now))
    told: list[int | None] = []
    for _ in times:
        try:
            allowances.request("ann")
            told.append(None)
        except Problem as problem:
            told.append(int(problem.headers["Retry-After"]))
    assert told == answers


def test_what_is_remembered_of_users_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.api.allowances._MOST_KEPT", 10)
    allowances = Allowances(Limits(requests=2), cast(Jobs, None), lambda: 0.0)
    for number in range(100):
        allowances.request(f"u{number}")
        assert len(allowances._buckets) <= 10


async def test_requests_a_minute(world: World, limited: Callable[..., None]) -> None:
    limited(requests=3)
    world.app.state.services.allowances._clock = lambda: 0.0
    for _ in range(3):
        assert (await world.user("GET", JOBS)).status == 200
    world.kube.calls.clear()
    for method, path, body in (("GET", JOBS, None), ("POST", JOBS, pytorch()), ("GET", "/apis/v1/queues", None)):
        assert "3 requests a minute" in refused(await world.user(method, path, body), world)
    assert (await (await bob(world))("GET", JOBS)).status == 200
    assert (await world.nobody("GET", "/healthz")).status == 200
    assert await world.store.history.list(event=history.REFUSED) == []


async def test_objects_of_a_request(world: World, limited: Callable[..., None]) -> None:
    limited(objects=3)
    for query in ("", "?dryRun=true"):
        answer = await world.user("POST", JOBS + query, documents(*(pytorch(f"j{at}") for at in range(4))))
        assert (answer.status, answer.body["code"]) == (422, "InvalidField")
        assert "4 objects" in answer.body["detail"]
        assert world.kube.calls == []
    assert (await world.user("POST", JOBS, documents(*(pytorch(f"j{at}") for at in range(3))))).status == 201


@pytest.mark.parametrize(
    ("limits", "told"), [({"waiting": 3}, "of 'ann'"), ({"queued": 3}, "in the queue 'a100'")], ids=["user", "queue"]
)
async def test_jobs_that_wait(
    world: World,
    limited: Callable[..., None],
    limits: dict[str, int],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited(**limits)
    for number in range(3):
        assert (await world.user("POST", JOBS, pytorch(f"j{number}"))).status == 201
    world.kube.calls.clear()
    assert f"3 jobs {told} wait already, and at most 3 may wait" in refused(
        await world.user("POST", JOBS, pytorch("more")), world
    )
    assert refused(await world.user("POST", f"{JOBS}?dryRun=true", pytorch("more")), world)
    theirs = await (await bob(world))("POST", JOBS, pytorch("theirs"))
    elsewhere = await world.user("POST", f"{JOBS}?queue=a40", pytorch("elsewhere"))
    by_user = "waiting" in limits
    assert (theirs.status, elsewhere.status) == ((201, 429) if by_user else (429, 201))
    (first, *_) = await world.store.jobs.list(queue="a100")
    await world.store.jobs.put_many([structs.replace(first, phase="Running")])
    monkeypatch.setattr("t9ksched.api.allowances._COUNTED_SECONDS", 0.0)
    assert (await world.user("POST", JOBS, pytorch("more"))).status == 201


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"waiting": 3}, "4 jobs of 'ann', and at most 3 of them may wait"),
        ({"queued": 3}, "4 jobs in the queue 'a100', and at most 3 of them may wait"),
        ({"waiting": 1, "queued": 3}, "4 jobs of 'ann', and at most 1 of them may wait"),
    ],
    ids=["user", "queue", "both"],
)
async def test_more_jobs_in_a_request_than_may_ever_wait(
    world: World, limited: Callable[..., None], limits: dict[str, int], told: str
) -> None:
    """To ask again would help never, whatever waits now."""
    limited(**limits)
    four = documents(*(pytorch(f"j{at}") for at in range(4)))
    for waiting in (0, 1):
        for query in ("", "?dryRun=true"):
            answer = await world.user("POST", JOBS + query, four)
            assert (answer.status, answer.body["code"]) == (422, "InvalidField"), (waiting, answer.body)
            assert told in answer.body["detail"]
            assert "split it" in answer.body["remedy"]
            assert "Retry-After" not in answer.headers
            assert world.kube.calls == []
        if not waiting:
            assert (await world.user("POST", JOBS, pytorch("first"))).status == 201
            world.kube.calls.clear()


async def test_a_request_that_fits_later_says_how_many_jobs_it_has(world: World, limited: Callable[..., None]) -> None:
    limited(waiting=3)
    two = documents(pytorch("c"), pytorch("d"))
    assert (await world.user("POST", JOBS, documents(pytorch("a"), pytorch("b")))).status == 201
    world.kube.calls.clear()
    told = refused(await world.user("POST", JOBS, two), world)
    assert told == "2 jobs of 'ann' wait already, the request has 2, and at most 3 may wait"


async def test_a_refusal_is_one_bounded_row(world: World) -> None:
    names = [f"{'x' * 40}-{number}" for number in range(60)]
    body = documents(*(pytorch(name) for name in names[:-1]), pytorch(names[-1], queue="missing"))
    assert (await world.user("POST", JOBS, body)).status == 422
    (event,) = await world.store.history.list(event=history.REFUSED)
    assert (event.name, event.queue, event.actor) == (names[-1], "missing", "ann")
    assert (event.detail["code"], event.detail["objects"], len(event.detail["sha256"])) == ("QueueNotFound", 60, 64)


async def test_texts_in_history_are_bounded(world: World) -> None:
    long = "y" * 100_000
    await world.store.history.append(history.Event(event=history.REFUSED, detail={"message": long}))
    await world.store.history.append(history.Event(event=history.QUEUE_CHANGED, detail={"before": long}))
    one, two = await world.store.history.list()
    assert len(one.detail["message"]) < history.TEXT + 100
    assert "(100000 characters)" in one.detail["message"]
    assert two.detail["before"] == long, "what was decided about is kept whole"


async def test_many_objects_are_worked_on_beside_the_event_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, bool] = {}

    def noting(module: str, name: str) -> None:
        work = getattr(__import__(module, fromlist=[name]), name)

        def noted(*args: Any, **options: Any) -> Any:
            seen[name] = threading.current_thread() is threading.main_thread()
            return work(*args, **options)

        monkeypatch.setattr(f"{module}.{name}", noted)

    noting("t9ksched.api.routers.workloads", "prepare")
    noting("t9ksched.api.submission.judging", "check")
    noting("t9ksched.api.submission.creation", "intents")
    noting("t9ksched.api.submission.creation", "_written")
    made = await world.user("POST", JOBS, documents(*(pod(f"p{at}", queue="a100") for at in range(50))))
    assert made.status == 201, made.body
    assert seen == {"prepare": False, "check": False, "intents": False, "_written": False}
    assert (await world.user("POST", JOBS, pytorch())).status == 201
    assert set(seen.values()) == {True}


def test_the_limits_are_finite_by_default() -> None:
    limits = Settings.load()
    assert limits.max_objects_per_request == 1000
    for value in (limits.max_requests_per_minute, limits.max_waiting_jobs_per_user, limits.max_waiting_jobs_per_queue):
        assert value > 0
