"""`scheduler.conf`: what is read, and how each fault is named with its line."""

import pytest

from t9ksched.engine.conf import parse_conf
from t9ksched.engine.policy import Binpack, Policy, Preemption
from t9ksched.model.errors import Invalid

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
    assert parse_conf(LEAST) == Policy(("allocate",), ("basic",), 1, None)


def test_plugins_order_queues_in_the_order_they_are_listed() -> None:
    swapped = RECOMMENDED.replace("- name: basic\n  - name: resource", "- name: resource\n  - name: basic")
    assert parse_conf(swapped).queue_order == ("resource", "basic")


def test_binpack() -> None:
    conf = LEAST + "- plugins: [{name: binPack, arguments: {strategy: LeastAllocated, weight: 3, resources.cpu: 0}}]\n"
    assert parse_conf(conf).binpack == Binpack("LeastAllocated", 3, (("cpu", 0), ("memory", 1)))
    bare = LEAST + "- plugins: [{name: binpack}]\n"
    assert parse_conf(bare).binpack == Binpack("MostAllocated", 1, (("cpu", 1), ("memory", 1)))


def test_rules_of_preemption() -> None:
    rules = (
        "preempt: {minimumRunTime: 10m, mostEvictionsPerDay: 3, insideQueue: true, surplusYields: false,"
        " maxEvictionGrace: 30s}\n"
    )
    assert parse_conf(LEAST + rules).preemption == Preemption(600, 3, True, False, 30)


def test_names_of_installed_plugins_are_known() -> None:
    conf = LEAST + "- plugins: [{name: mine, arguments: {anything: 1}}]\n"
    assert parse_conf(conf, ["mine"]) == parse_conf(LEAST)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
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
