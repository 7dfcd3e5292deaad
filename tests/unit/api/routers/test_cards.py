"""Cordoning a card by REST: what is written, and every wrong request with its path and a sentence."""

from typing import Any

import pytest

from tests.unit.api.world import Json, World

NODES = "/apis/v1/admin/nodes"
GPU = "nvidia.com/gpu"


def node(name: str = "n1", cards: int = 8, **fields: Any) -> Json:
    gpus = [{"index": index, "cordoned": index == 7, "holders": []} for index in range(cards)]
    return {"name": name, "gpus": gpus, "counted": [], "mode": "Whole"} | fields


async def put(world: World, path: str, **body: Any) -> tuple[int, Json]:
    answer = await world.admin("PUT", f"{NODES}/{path}", body)
    return answer.status, answer.body


async def test_a_card_is_cordoned_and_let_go(world: World) -> None:
    world.leader.node_list = [node()]
    status, made = await put(world, "n1/cards/3", cordoned=True, why=" ECC errors ")
    assert status == 200
    assert made | {"at": ""} == {
        "node": "n1",
        "index": 3,
        "cordoned": True,
        "why": "ECC errors",
        "by": "admin",
        "at": "",
    }
    assert [(one.node, one.card, one.why) for one in await world.store.card_cordons.all()] == [("n1", 3, "ECC errors")]
    world.leader.node_list = []  # it may be away
    assert (await put(world, "n1/cards/3", cordoned=True, why="fan"))[0] == 200
    status, made = await put(world, "n1/cards/3", cordoned=False)
    assert (status, made["cordoned"], made["by"]) == (200, False, None)
    assert await world.store.card_cordons.all() == []
    audit = (await world.admin("GET", "/apis/v1/admin/audit")).body["items"]
    assert [(one["event"], one["name"], one["actor"]) for one in audit] == [
        ("card-uncordoned", "n1", "admin"),
        ("card-cordoned", "n1", "admin"),
        ("card-cordoned", "n1", "admin"),
    ]


@pytest.mark.parametrize(
    ("path", "body", "status", "where", "says"),
    [
        ("none/cards/0", {"cordoned": True}, 404, "", "there is no node 'none'"),
        ("n1/cards/8", {"cordoned": True}, 422, "index", "has 8 cards, of indices 0 to 7"),
        ("n1/cards/8", {"cordoned": False}, 422, "index", "there is no card 8"),
        ("one/cards/1", {"cordoned": True}, 422, "index", "has 1 card, of index 0"),
        ("mig/cards/0", {"cordoned": True}, 422, "index", "has no whole cards: its mode is MIGSingle"),
        ("cpu/cards/0", {"cordoned": True}, 422, "index", "has no whole cards"),
        ("many/cards/80", {"cordoned": True}, 422, "index", "has 80 cards"),
        ("n1/cards/-1", {"cordoned": True}, 422, "index", ""),
        ("n1/cards/x", {"cordoned": True}, 422, "index", ""),
        ("n1/cards/99999999999999999999", {"cordoned": True}, 422, "index", ""),
        ("n1/cards/0", {}, 422, "cordoned", "must be true or false"),
        ("n1/cards/0", {"cordoned": "yes"}, 422, "cordoned", "must be true or false"),
        ("n1/cards/0", {"cordoned": 1}, 422, "cordoned", "must be true or false"),
        ("n1/cards/0", {"cordoned": True, "why": 3}, 422, "why", "must be a text"),
        ("n1/cards/0", {"cordoned": True, "why": "x" * 1001}, 422, "why", "at most 1000"),
        ("n1/cards/0", {"cordoned": False, "why": "x"}, 422, "why", "goes with cordoned: true"),
        ("n1/cards/0", {"cordoned": True, "reason": "x"}, 422, "reason", "is unknown: the fields are cordoned, why"),
        ("n1/cards/7", {"cordoned": False}, 409, "", "names the card 7, and is not on record yet"),
    ],
)
async def test_what_is_wrong_is_said(world: World, path: str, body: Json, status: int, where: str, says: str) -> None:
    counted = [{"resource": GPU, "has": 80}]
    world.leader.node_list = [
        node(),
        node("one", 1),
        node("mig", 0, mode="MIGSingle", counted=counted),
        node("cpu", 0, mode=None),
        node("many", 0, counted=counted),
    ]
    got, problem = await put(world, path, **body)
    assert got == status, problem
    told = f"{problem['detail']} {problem.get('errors')}"
    assert says in told
    if where:
        (fault,) = problem["errors"]
        assert fault["path"].rpartition(".")[2] == where
    assert await world.store.card_cordons.all() == []


async def test_a_card_that_is_counted_by_number(world: World) -> None:
    world.leader.node_list = [node(cards=0, counted=[{"resource": GPU, "has": 80}])]
    assert (await put(world, "n1/cards/79", cordoned=True))[0] == 200


async def test_without_a_leader_only_what_is_on_record_can_be_changed(world: World) -> None:
    await world.store.card_cordons.cordon("n1", 3, "fan", "root")
    world.leader.away = True
    assert (await put(world, "n1/cards/4", cordoned=True))[0] == 503
    assert (await put(world, "n1/cards/3", cordoned=False))[0] == 200
