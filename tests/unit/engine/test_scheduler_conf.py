"""`scheduler.conf`: what is read, and how each fault is named with its line."""

from collections.abc import Mapping

import pytest

from t9ksched.engine.policy import Binpack, Packing, Planning, Policy, Preemption, Starvation
from t9ksched.engine.scheduler_conf import parse_conf
from t9ksched.model.errors import Invalid
from t9ksched.model.gang import Gang
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass

RECOMMENDED = """\
actions: "allocate,preempt"
tiers:
- plugins:
  - name: basic
  - name: resource
  - name: affinity
    arguments:
      weight: 10
  - name: predicates
  - name: binpack
    arguments:
      strategy: MostAllocated
      weight: 1
      resources: nvidia.com/gpu,nvidia.com/gpu.shared
      resources.cpu: 2
      resources.memory: 1
      resources.nvidia.com/gpu: 5
      resources.nvidia.com/gpu.shared: 5
  - name: cardless
"""
LEAST = """\
actions: "allocate"
tiers:
- plugins: [{name: basic}, {name: predicates}]
- plugins: [{name: affinity}]
"""


def test_the_recommended_document_is_the_default_policy() -> None:
    found = parse_conf(RECOMMENDED)
    assert found == Policy(actions=("allocate", "preempt"))


def test_the_least_document() -> None:
    assert parse_conf(LEAST) == Policy(("allocate",), ("basic",), 1, None, cardless_weight=0)


def test_plugins_order_queues_in_the_order_they_are_listed() -> None:
    swapped = RECOMMENDED.replace("- name: basic\n  - name: resource", "- name: resource\n  - name: basic")
    assert parse_conf(swapped).queue_order == ("resource", "basic")


def test_binpack() -> None:
    conf = LEAST + "- plugins: [{name: binPack, arguments: {strategy: LeastAllocated, weight: 3, resources.cpu: 0}}]\n"
    assert parse_conf(conf).binpack == Binpack("LeastAllocated", 3, (("cpu", 0), ("memory", 1)))
    bare = LEAST + "- plugins: [{name: binpack}]\n"
    assert parse_conf(bare).binpack == Binpack("MostAllocated", 1, (("cpu", 1), ("memory", 1)))


@pytest.mark.parametrize(
    ("listed", "weight"), [("", 0), ("{name: cardless}", 5), ("{name: cardless, arguments: {weight: 2}}", 2)]
)
def test_cardless_is_in_force_where_it_is_listed(listed: str, weight: int) -> None:
    assert parse_conf(LEAST + f"- plugins: [{listed}]\n").cardless_weight == weight


@pytest.mark.parametrize(
    ("listed", "packing", "models"),
    [
        ("", None, 0),
        ("{name: cards}", Packing("usable"), 1),
        ("{name: cards, arguments: {weight: 7, models: 0}}", Packing("usable", weight=7), 0),
        ("{name: cards, arguments: {strategy: BestFit}}", Packing("best-fit"), 1),
        ("{name: cards, arguments: {strategy: Spread, weight: 10, models: 10}}", Packing("spread", weight=10), 10),
        ("{name: cards, arguments: {strategy: FirstFit}}", None, 1),
        ("{name: cards, arguments: {weight: 0, models: 2}}", None, 2),
        ("{name: fragmentation}", Packing("fragmentation"), 0),
        ("{name: fragmentation, arguments: {weight: 3}}", Packing("fragmentation", weight=3), 0),
    ],
)
def test_scores_by_cards(listed: str, packing: Packing | None, models: int) -> None:
    found = parse_conf(LEAST + f"- plugins: [{listed}]\n")
    assert (found.packing, found.model_weight) == (packing, models)
    assert found.binpack is None, "they stand beside it"


def test_rules_of_preemption() -> None:
    rules = (
        "preempt: {minimumRunTime: 10m, mostEvictionsPerDay: 3, insideQueue: true, surplusYields: false,"
        " maxEvictionGrace: 30s}\n"
    )
    assert parse_conf(LEAST + rules).preemption == Preemption(600, 3, True, False, 30)


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 1), ("1s1ms", 2), ("2s", 2), ("0", 0)])
def test_parts_of_a_second_are_no_licence_for_none(text: str, seconds: int) -> None:
    rules = parse_conf(LEAST + f"preempt: {{minimumRunTime: {text}, maxEvictionGrace: {text}}}\n").preemption
    assert (rules.minimum_run_seconds, rules.max_grace_seconds) == (seconds, seconds)


def test_planning() -> None:
    everything = (
        "planning: {enabled: true, mode: EASY, gangs: 7, perQueue: 6, perUser: 5, horizon: 2d, resolution: 30s}\n"
    )
    assert parse_conf(LEAST + everything).planning == Planning("EASY", 7, 6, 5, 2 * 86_400, 30)
    assert parse_conf(LEAST + "planning: {enabled: true}\n").planning == Planning()
    assert parse_conf(LEAST + "planning: {mode: Conservative}\n").planning == Planning()
    assert parse_conf(LEAST + "planning: {enabled: false, gangs: 7}\n").planning is None
    assert parse_conf(LEAST).planning is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Starvation(1800, 20)),
        ("starvation: {after: 2h, maxHeldShare: 5%}\n", Starvation(7200, 5)),
        ("starvation: {maxHeldShare: 0%}\n", Starvation(1800, 0)),
        ("starvation: {after: 0}\n", None),
    ],
)
def test_starvation(text: str, expected: Starvation | None) -> None:
    assert parse_conf(LEAST + text).starvation == expected


class Small:
    """Small gangs first; likes any node as much as it is told."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        if arguments.get("points", "1") == "many":
            raise ValueError("points must be a number")
        self.points = int(arguments.get("points", "1"))

    def gang_rank(self, gang: Gang, now: int) -> int:
        return gang.min_member

    def score(self, pod: PodClass, node: NodeFacts) -> int:
        return self.points


INSTALLED = {"small": Small, "nothing": lambda arguments: object(), "broken": lambda arguments: 1 // 0}


def plugged(*plugins: str) -> str:
    return LEAST + "- plugins: [" + ", ".join(f"{{name: {text}}}" for text in plugins) + "]\n"


def test_installed_plugins_are_made_from_their_arguments() -> None:
    found = parse_conf(plugged("small, arguments: {points: 7, weight: 2}", "resource"), INSTALLED)
    (use,) = found.plugins
    assert (use.name, use.weight, use.arguments) == ("small", 2, (("points", "7"),))
    assert isinstance(use.plugin, Small)
    assert use.plugin.points == 7
    assert found.queue_order == ("basic", "resource"), "it orders no queues"
    assert found.gang_order == ("basic", "small")
    first = (
        "actions: allocate\ntiers: [{plugins: [{name: small}, {name: basic}, {name: predicates}, {name: affinity}]}]"
    )
    assert parse_conf(first, INSTALLED).gang_order == ("small", "basic")
    same = parse_conf(plugged("small, arguments: {points: 7, weight: 2}", "resource"), INSTALLED)
    assert same == found, "a document that is read again changes nothing"
    assert parse_conf(plugged("small"), INSTALLED) != found


@pytest.mark.parametrize(
    ("plugin", "path", "says"),
    [
        ("small, arguments: {points: many}", "line 5, tiers[2].plugins[0].arguments", "points must be a number"),
        ("small, arguments: {weight: 11}", "line 5, tiers[2].plugins[0].arguments.weight", "out of range"),
        ("small, arguments: {points: [1]}", "line 5, tiers[2].plugins[0].arguments.points", "must be a text"),
        ("nothing", "line 3, tiers[2].plugins[0].arguments", "has none of the methods"),
        ("broken", "line 3, tiers[2].plugins[0].arguments", "ZeroDivisionError"),
        (
            "unheard",
            "line 5, tiers[2].plugins[0].name",
            "use basic, predicates, affinity, resource, binpack, cardless, cards, fragmentation, small",
        ),
    ],
)
def test_plugins_that_cannot_be_made(plugin: str, path: str, says: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_conf(plugged(plugin), INSTALLED)
    assert error.value.errors[0].path == path
    assert says in error.value.errors[0].message


def test_cards_and_fragmentation_exclude_each_other() -> None:
    with pytest.raises(Invalid, match="cards and fragmentation rank by the same cards: keep one"):
        parse_conf(plugged("cards", "fragmentation"))


def test_weights_of_cards_count_among_those_of_plugins() -> None:
    many = {f"p{at}": Small for at in range(3)}
    listed = [f"{name}, arguments: {{weight: 10}}" for name in many]
    assert parse_conf(plugged(*listed, "cards, arguments: {weight: 10, models: 0}"), many).packing is not None
    with pytest.raises(Invalid, match="more than 40 together"):
        parse_conf(plugged(*listed, "cards, arguments: {weight: 10, models: 1}"), many)


def test_weights_of_plugins_stay_countable() -> None:
    many = {f"p{at}": Small for at in range(5)}
    with pytest.raises(Invalid, match="more than 40 together"):
        parse_conf(plugged(*(f"{name}, arguments: {{weight: 10}}" for name in many)), many)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("[" * 1000, ["line 1"]),
        ("a: &a [" + "1," * 5000 + "]\nb: [" + "*a," * 100 + "]", ["line 2"]),
        ("x" * 2000, ["line 1"]),
        (LEAST + "preempt: {mostEvictionsPerDay: " + "9" * 300 + "}\n", ["line 5, preempt.mostEvictionsPerDay"]),
        ("", ["line 1"]),
        ("actions: [", ["line 1"]),
        ("- a", ["line 1", "line 1, actions", "line 1, tiers"]),
        (LEAST.replace("allocate", "preempt"), ["line 1, actions", "line 1, actions"]),
        (LEAST.replace('"allocate"', '"allocate,alocate"'), ["line 1, actions"]),
        (LEAST.replace("{name: predicates}", "{name: basic}"), ["line 3, tiers[0].plugins[1].name", "line 3, tiers"]),
        (LEAST.replace("name: affinity", "name: afinity"), ["line 4, tiers[1].plugins[0].name", "line 3, tiers"]),
        (RECOMMENDED.replace("weight: 10", "weight: 11"), ["line 8, tiers[0].plugins[2].arguments.weight"]),
        (RECOMMENDED.replace("MostAllocated", "Most"), ["line 12, tiers[0].plugins[4].arguments.strategy"]),
        (
            RECOMMENDED.replace("resources.cpu: 2", "resources.cpu: x"),
            ["line 15, tiers[0].plugins[4].arguments[resources.cpu]"],
        ),
        (
            RECOMMENDED.replace("resources.cpu: 2", "resources.x: 2"),
            ["line 15, tiers[0].plugins[4].arguments[resources.x]"],
        ),
        (
            LEAST + "preempt: {minimumRunTime: soon, insideQueue: 1}\n",
            ["line 5, preempt.minimumRunTime", "line 5, preempt.insideQueue"],
        ),
        (LEAST + "starvation: {after: soon}\n", ["line 5, starvation.after"]),
        *(
            (LEAST + f"starvation: {{maxHeldShare: {share}}}\n", ["line 5, starvation.maxHeldShare"])
            for share in ("20", "101%", "-1%", "much")
        ),
        (LEAST + "planning: on\n", ["line 5, planning"]),
        (
            LEAST + "planning: {enabled: maybe, mode: easy, gangs: 0, perQueue: -1, perUser: 10001}\n",
            [f"line 5, planning.{name}" for name in ("mode", "gangs", "perQueue", "perUser", "enabled")],
        ),
        (
            LEAST + "planning: {horizon: 0, resolution: soon, ahead: 1}\n",
            [f"line 5, planning.{name}" for name in ("ahead", "horizon", "resolution")],
        ),
        (LEAST + "planning: {enabled: 'true'}\n", ["line 5, planning.enabled"]),
        (
            LEAST + 'preempt:\n  insideQueue: "false"\n  surplusYields: !!str true\n',
            ["line 6, preempt.insideQueue", "line 7, preempt.surplusYields"],
        ),
        (LEAST + "planning: {horizon: 1m, resolution: 2m}\n", ["line 5, planning.resolution"]),
        (LEAST + "planning: {horizon: 11y}\n", ["line 5, planning.horizon"]),
        (LEAST + "startTimeout: 300y\n", ["line 5, startTimeout"]),
        (
            LEAST + "- plugins: [{name: cards, arguments: {weight: 11, models: -1, strategy: Best, wait: 1}}]\n",
            [f"line 5, tiers[2].plugins[0].arguments.{name}" for name in ("wait", "weight", "models", "strategy")],
        ),
        (
            LEAST + "- plugins: [{name: fragmentation, arguments: {weight: NaN, strategy: BestFit}}]\n",
            [f"line 5, tiers[2].plugins[0].arguments.{name}" for name in ("strategy", "weight")],
        ),
        (LEAST + "- plugins: [{name: cards, arguments: [1]}]\n", ["line 5, tiers[2].plugins[0].arguments"]),
        (LEAST + "action: allocate\n", ["line 5, action"]),
        (LEAST + "actions: allocate\n", ["line 5, actions"]),
        (
            LEAST.replace("{name: basic}", "{name: basic, arguments: {weight: 1}}"),
            ["line 3, tiers[0].plugins[0].arguments.weight"],
        ),
    ],
)
def test_faults_have_lines(text: str, faults: list[str]) -> None:
    with pytest.raises(Invalid) as error:
        parse_conf(text)
    assert [fault.path for fault in error.value.errors] == faults
    assert all(fault.message for fault in error.value.errors)
