"""Planned starts on nodes that divide their cards: which part of which card is free from when on."""

from msgspec import structs

from t9ksched.engine.policy import Planning
from t9ksched.model.cards import CardPart
from t9ksched.model.podclass import PodClass
from tests.ahead import Pool
from tests.builders import GPU, divided_node, node, pod_class, shared_class


def part(cores: int, memory: int = 1000, cards: int = 1) -> PodClass:
    return shared_class(cores, memory, cards, cpu=0, ram=0)


WHOLE = pod_class(cpu=0, memory=0, gpu=1)


def pool(cards: int = 2, **more: int) -> Pool:
    return Pool(facts=[divided_node("a", cards, cpu=1000, pods=1000, **more)])


def planned_parts(of: Pool) -> dict[str, list[CardPart]]:
    """The parts of cards that plans take, by job."""
    found: dict[str, list[CardPart]] = {}
    for one in of.plans:
        found.setdefault(one.owner, []).extend(one.cards.parts)
    return found


def test_a_part_is_planned_for_when_its_card_has_room_not_when_the_sum_has() -> None:
    """At hour 2 both cards have 400 free, 800 in all; at hour 5 one of them has 1000."""
    one = pool()
    for name, cores, hours in (("x0", 600, 5), ("x1", 600, 7), ("y0", 300, 2), ("y1", 300, 2)):
        one.submit(name, 1, hours, of_class=part(cores))
        one.cycle(0)
    assert not one.waiting
    one.submit("b", 1, 3, of_class=part(700))
    one.cycle(0)
    assert one.planned == {"b": 5}
    assert planned_parts(one) == {"b": [CardPart(GPU, 0, 700, 1000)]}
    for hour, ends in ((2, ["y0", "y1"]), (5, ["x0"])):
        for name in ends:
            one.end(name)
        one.cycle(hour)
    assert one.started["b"] == 5


def test_a_whole_card_is_planned_for_when_the_last_holder_of_one_ends() -> None:
    one = pool()
    for name, hours in (("x0", 9), ("x1", 2), ("y0", 4), ("y1", 3)):
        one.submit(name, 1, hours, of_class=part(500))
        one.cycle(0)
    one.submit("b", 1, 1, of_class=WHOLE)
    one.cycle(0)
    assert one.planned == {"b": 4}
    assert planned_parts(one) == {"b": [CardPart(GPU, 1, 1000, 32_000)]}


def test_several_cards_of_a_pod_are_free_at_one_time() -> None:
    one = pool(3)
    for name, hours in (("x", 9), ("y", 2), ("z", 4)):
        one.submit(name, 1, hours, of_class=part(600))
        one.cycle(0)
    one.submit("b", 1, 1, of_class=part(500, cards=2))
    one.cycle(0)
    assert one.planned == {"b": 4}
    assert [each.index for each in planned_parts(one)["b"]] == [1, 2]


def test_a_part_is_on_one_card_all_the_time() -> None:
    """Card 0 is free until a plan takes it at hour 2, card 1 from then on: at no moment is there one for three hours
    before hour 2.
    """
    one = pool()
    one.submit("x", 1, 2, of_class=part(900))
    one.cycle(0)
    one.submit("y", 1, 1, of_class=part(900))
    one.cycle(0)
    one.submit("whole", 2, 4, of_class=WHOLE)
    one.cycle(0)
    assert one.planned == {"whole": 2}
    one.end("y")
    one.submit("long", 1, 3, of_class=part(500))
    one.submit("short", 1, 1, of_class=part(500))
    one.cycle(1)
    assert one.planned == {"whole": 2, "long": 6}
    assert one.started["short"] == 1


def test_what_a_plan_leaves_of_a_card_is_used_beside_it() -> None:
    one = pool(1)
    one.submit("x", 1, 2, of_class=part(800, 30_000))
    one.cycle(0)
    one.submit("b", 1, 5, of_class=part(500))
    one.cycle(0)
    one.submit("small", 1, 9, of_class=part(200))
    one.submit("large", 1, 9, of_class=part(200, 8_000))
    one.submit("more", 1, 9, of_class=part(400))
    one.cycle(0)
    assert one.started["small"] == 0
    assert one.planned == {"b": 2, "large": 2, "more": 7}


def test_what_starts_now_leaves_a_plan_its_part() -> None:
    """200 are free for ever, and 100 more until the plan begins."""
    one = pool(1)
    one.submit("x", 1, 2, of_class=part(700))
    one.cycle(0)
    one.submit("b", 1, 5, of_class=part(800))
    one.cycle(0)
    one.submit("long", 1, 3, of_class=part(300))
    one.submit("short", 1, 2, of_class=part(300))
    one.cycle(0)
    assert one.started["short"] == 0
    assert one.planned == {"b": 2, "long": 7}


def test_a_holder_that_never_ends_gives_nothing_back() -> None:
    one = pool(1)
    one.submit("x", 1, 0, of_class=part(500))
    one.cycle(0)
    one.submit("y", 1, 3, of_class=part(500))
    one.cycle(0)
    one.submit("whole", 1, 1, of_class=WHOLE)
    one.submit("half", 1, 1, of_class=part(500))
    one.cycle(0)
    assert one.planned == {"half": 3}


def test_a_part_without_cores_waits_until_a_card_has_some_left() -> None:
    one = pool(1)
    one.submit("x", 1, 3, of_class=part(1000 - 1))
    one.cycle(0)
    one.submit("y", 1, 5, of_class=part(1))
    one.cycle(0)
    one.submit("none", 1, 1, of_class=part(0))
    one.cycle(0)
    assert one.planned == {"none": 3}


def test_the_plan_of_a_part_without_cores_keeps_its_card_from_being_full() -> None:
    one = pool(1)
    for name, cores, memory, hours in (("w", 1, 10, 20), ("x", 699, 2000, 3), ("y", 300, 1000, 2)):
        one.submit(name, 1, hours, of_class=part(cores, memory))
        one.cycle(0)
    one.submit("none", 1, 1, of_class=part(0, 31_000))
    one.submit("full", 1, 9, of_class=part(999, 10))
    one.submit("less", 1, 1, of_class=part(998, 10))
    one.cycle(0)
    assert one.planned == {"none": 3, "full": 4, "less": 3}


def test_a_due_gang_takes_the_card_of_its_plan_and_leaves_others_theirs() -> None:
    """Job y ends early, so that job b has room on the fuller card too, all of whose memory a later plan needs."""
    one = pool(2)
    for name, cores, memory, hours in (("g", 100, 200, 0), ("x", 800, 100, 2), ("h", 200, 100, 0), ("y", 700, 100, 3)):
        one.submit(name, 1, hours, of_class=part(cores, memory))
        one.cycle(0)
    one.submit("c", 1, 5, of_class=part(100, 31_900))
    one.submit("b", 1, 3, of_class=part(300, 100))
    one.cycle(0)
    assert one.planned == {"c": 3, "b": 2}
    assert [each.index for name in "bc" for each in planned_parts(one)[name]] == [0, 1]
    one.end("x")
    one.end("y")
    one.cycle(2)
    assert one.started["b"] == one.started["c"] == 2


def test_a_gang_that_asks_for_a_larger_part_gets_another_plan() -> None:
    one = pool(1)
    for name, hours in (("x", 2), ("y", 5)):
        one.submit(name, 1, hours, of_class=part(500))
        one.cycle(0)
    one.submit("b", 1, 1, of_class=part(500))
    one.cycle(0)
    assert one.planned == {"b": 2}
    (pod,) = one.waiting["b"].waiting
    one.change("b", waiting=(structs.replace(pod, pod_class=part(600)),))
    one.cycle(0)
    assert one.planned == {"b": 5}
    assert planned_parts(one) == {"b": [CardPart(GPU, 0, 600, 1000)]}


def test_a_plan_of_parts_stands_while_nothing_changes_and_moves_up_when_one_ends_early() -> None:
    one = pool()
    for name, hours in (("x", 5), ("y", 7)):
        one.submit(name, 1, hours, of_class=part(800))
        one.cycle(0)
    one.submit("b", 1, 3, of_class=part(700))
    for hour in (0, 0.5, 1, 2):
        one.cycle(hour)
        assert one.planned == {"b": 5}
    one.end("y")
    one.cycle(3)
    assert one.started["b"] == 3


def test_pods_of_a_gang_are_planned_on_nodes_with_whole_cards_too() -> None:
    whole = node("w", gpu=1, cpu=1000, pods=1000, labels={"nvidia.com/gpu.memory": "32000"})
    one = Pool(facts=[divided_node("a", 1, cpu=1000, pods=1000), whole])
    one.submit("x", 1, 4, of_class=part(600))
    one.cycle(0)
    one.submit("y", 1, 2, of_class=WHOLE)
    one.cycle(0)
    one.submit("b", 3, 1, of_class=part(500))
    one.cycle(0)
    assert one.planned == {"b": 4}
    assert sorted((each.node, len(each.cards.parts)) for each in one.plans) == [("a", 1), ("a", 1), ("w", 0)]


def test_only_the_first_of_a_queue_has_a_plan_of_parts_with_easy() -> None:
    one = Pool(planning=Planning(mode="EASY"), facts=[divided_node("a", 1, cpu=1000, pods=1000)])
    one.submit("x", 1, 4, of_class=part(600))
    one.cycle(0)
    one.submit("b", 1, 2, of_class=part(800))
    one.submit("c", 1, 9, of_class=part(300))
    one.submit("d", 1, 3, of_class=part(300))
    one.cycle(0)
    assert one.planned == {"b": 4}
    assert one.started.get("d") == 0
    assert "c" not in one.started
