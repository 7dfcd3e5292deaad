"""What a queue may hold is bounded by all queues above it, not by its parent alone."""

from typing import Any

import pytest

from t9ksched.importing.objects import Document
from t9ksched.importing.parents import ancestors
from t9ksched.importing.systems import SYSTEMS, translate


def volcano(name: str, cpu: int, parent: str) -> dict[str, Any]:
    return queue("scheduling.volcano.sh/v1beta1", name, {"capability": {"cpu": cpu}, "parent": parent})


def kai(name: str, cpu: int, parent: str) -> dict[str, Any]:
    amounts = {"quota": 1000 * cpu, "limit": 1000 * cpu}
    return queue("scheduling.run.ai/v2", name, {"resources": {"cpu": amounts}, "parentQueue": parent})


def queue(api: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("make", [volcano, kai])
@pytest.mark.parametrize("amounts", [(2, 6, 8), (8, 2, 6), (8, 6, 2)])
def test_the_least_of_three_levels_counts(make: Any, amounts: tuple[int, int, int]) -> None:
    team, section, company = amounts
    objects = [make("team", team, "section"), make("section", section, "company"), make("company", company, "")]
    report, _ = translate(SYSTEMS[make.__name__], [Document("q.yaml", one) for one in objects])
    assert report.faults == []
    assert report.queues.keys() == {"team"}
    assert report.queues["team"]["spec"]["quota"]["requests"]["cpu"] == "2"


def test_a_circle_ends() -> None:
    parents = {"a": "b", "b": "c", "c": "b"}
    assert list(ancestors("a", parents)) == ["b", "c"]
    assert list(ancestors("b", parents)) == ["c"]
    assert list(ancestors("none", parents)) == []
