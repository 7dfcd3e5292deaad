"""Names of other people's jobs in histories: the job that took the room of mine is shown to managers of its queue."""

from t9ksched.store.history import PREEMPTED, SUBMITTED, Event
from tests.unit.api.test_jobs import live
from tests.unit.api.world import Client, World

JOBS = "/apis/v1/workloads/default/pytorchtrainingjob"


async def test_who_took_the_room_is_hidden_in_history(world: World) -> None:
    store = world.store
    for queue in ("own", "other"):
        await store.queues.create(queue, {}, {}, {"users": ["ann", "bob"]})
    tokens = {
        "boss": await store.tokens.create("boss", "manager", queues=["own"]),
        "rival": await store.tokens.create("rival", "manager", queues=["own", "other"]),
        "ann": await store.tokens.create("ann", "user"),
    }
    for name, queue in (("of-ann", "own"), ("of-bob", "other")):
        job = live(name, uid=f"uid-{name}", submitter=name[3:], queue=queue, phase="Running")
        world.leader.job_list.append(job | {"kind": "PyTorchTrainingJob"})
    about = {"kind": "PyTorchTrainingJob", "namespace": "default", "name": "of-ann", "uid": "uid-of-ann"}
    await store.history.append(Event(event=SUBMITTED, queue="own", actor="ann", **about))
    both = ["default/PyTorchTrainingJob/of-bob", "default/PyTorchTrainingJob/of-ann"]
    for queue, job in zip(("other", "own"), both, strict=True):
        detail = {"pod": "p", "by": job, "byUid": "u", "byQueue": queue, "why": "w"}
        await store.history.append(Event(event=PREEMPTED, queue="own", detail=detail, **about))

    async def takers(client: Client) -> list[str | None]:
        page = await client("GET", f"{JOBS}/of-ann/history")
        return [item["detail"]["by"] for item in page.body["items"] if item["event"] == PREEMPTED]

    clients = {name: Client(world.user.url, world.user.session, token) for name, token in tokens.items()}
    assert await takers(world.admin) == both
    assert await takers(clients["rival"]) == both, "the rival manages both queues"
    assert await takers(clients["boss"]) == [None, both[1]]
    assert await takers(clients["ann"]) == [None, both[1]], "the other one is her own job"
