"""`t9ksched nodes NODE cordon --gpu I`: what is asked, and what is refused before anything is changed."""

import json
from functools import partial

import pytest

from tests.unit.cli.conftest import Call, Service

CARDS = "/apis/v1/admin/nodes/n1/cards"
NODE = {"name": "n1", "mode": "Whole", "gpus": [{"index": index} for index in range(4)], "counted": []}


@pytest.fixture
def run(service: Service, call: Call) -> Call:
    service.answers["GET /apis/v1/nodes/n1"] = (200, NODE)
    for index in range(4):
        shape = {
            "node": "n1",
            "index": index,
            "cordoned": True,
            "why": "fan",
            "by": "root",
            "at": "2090-01-07T20:00:00Z",
        }
        service.answers[f"PUT {CARDS}/{index}"] = (200, shape)

    return partial(call, "nodes")


def sent(service: Service) -> list[tuple[str, object]]:
    return [(path, json.loads(body)) for verb, path, _, body in service.seen if verb == "PUT"]


def test_each_card_is_asked_for_once(run, service: Service) -> None:
    code, out, _ = run("n1", "cordon", "--gpu", "3", "--gpu", "0", "--gpu", "3", "--why", "fan")
    assert code == 0
    body = {"cordoned": True, "why": "fan"}
    assert sent(service) == [(f"{CARDS}/3", body), (f"{CARDS}/0", body)]
    assert out.splitlines()[0] == "n1: card 3 is cordoned (fan): it takes no new work, what runs on it goes on"


def test_uncordon(run, service: Service) -> None:
    service.answers[f"PUT {CARDS}/2"] = (200, {"node": "n1", "index": 2, "cordoned": False, "why": ""})
    assert run("n1", "uncordon", "--gpu", "2")[:2] == (0, "n1: card 2 takes work again\n")
    assert sent(service) == [(f"{CARDS}/2", {"cordoned": False})]
    assert json.loads(run("n1", "uncordon", "--gpu", "2", "-o", "json")[1])[0]["cordoned"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("n1", "cordon", "--gpu", "4"), 1, "there is no card 4: the node n1 has cards with the indices 0 to 3"),
        (("n1", "cordon", "--gpu", "0", "--gpu", "9"), 1, "there is no card 9"),
        (("n1", "cordon", "--gpu", "-1"), 1, "there is no card -1"),
        (("n1", "uncordon", "--gpu", "-1"), 1, "there is no card -1"),
        (("n1", "cordon"), 2, "--gpu"),
        (("n1", "cordon", "--gpu", "x"), 2, "--gpu"),
        (("n1", "drain", "--gpu", "1"), 2, "drain"),
        (("n1", "--gpu", "1"), 2, "go with cordon or uncordon"),
        (("n1", "--why", "x"), 2, "go with cordon or uncordon"),
        (("n1", "uncordon", "--gpu", "1", "--why", "x"), 2, "--why goes with cordon"),
    ],
)
def test_what_is_refused_changes_nothing(
    run, service: Service, arguments: tuple[str, ...], code: int, says: str
) -> None:
    got, _, err = run(*arguments)
    assert got == code
    assert says in " ".join(err.split())
    assert sent(service) == []


def test_a_node_shows_why_its_cards_are_cordoned(run, service: Service) -> None:
    card = {"cordoned": True, "cordonedWhy": "fan", "model": "A100", "memoryMiB": 81920}
    holder = {"namespace": "ml", "pod": "p", "container": "c", "job": "Pod/p"}
    cards = [card | {"index": 0, "holders": []}, card | {"index": 1, "holders": [holder], "cordonedWhy": None}]
    service.answers["GET /apis/v1/nodes/n1"] = (200, NODE | {"gpus": cards})
    lines = [" ".join(line.split()) for line in run("n1")[1].splitlines()[-2:]]
    assert lines == ["0 x A100 80 GiB cordoned: fan", "1 A A100 80 GiB ml/p (cordoned) c"]
