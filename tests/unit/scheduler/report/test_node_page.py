"""A page looks only at the nodes that changed, and what it says of cards is what a fresh look at all nodes says."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from t9ksched.model.node import decode_node
from t9ksched.scheduler.report.metrics import MetricsPage
from t9ksched.scheduler.state.meters import PREEMPTION
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.state.test_state import GPU, node, pod, state_with


async def read(page: MetricsPage) -> str:
    return (await page.exposition(False)).decode()


def cards(text: str) -> dict[tuple[str, str], float]:
    """Number by model and state, those with 0 left out."""
    return {
        (sample.labels["model"], sample.labels["state"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "t9ksched_cards" and sample.value
    }


def model_node(name: str, **changes: Any) -> Any:
    spec = {"unschedulable": True} if changes.get("away") else {}
    annotations = {"scheduler.tensorstack.dev/cordoned-cards": changes["cordoned"]} if "cordoned" in changes else {}
    return decode_node(
        {
            "metadata": {
                "name": name,
                "uid": name,
                "labels": {"nvidia.com/gpu.product": "A100"},
                "annotations": annotations,
            },
            "spec": spec,
            "status": {
                "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


async def test_a_page_costs_the_nodes_that_changed() -> None:
    """Counted, at 5,000 nodes with 20,000 pods."""
    state = state_with(*(node(f"n{each}") for each in range(5000)), queues={"q": {}})
    for each in range(20_000):
        state.upsert_pod(pod(f"p{each}", 1, queue="q", node=f"n{each % 5000}", phase="Running"))
    page, asked = MetricsPage(state), count_charges(state)
    await read(page)
    assert page.nodes.looked == 5000
    asked.clear()
    await read(page)
    assert (page.nodes.looked, asked) == (5000, []), "nothing changed"
    state.remove_pod("pod-p7")
    state.upsert_node(node("n9", 4))
    text = await read(page)
    assert page.nodes.looked == 5002
    assert set(asked) == {"n7", "n9"}
    assert 'T9kScheduler_node_resource_requests{node="n7",resource="cpu",unit="core"} 3' in text
    state.remove_node("n9")
    assert 'node="n9"' not in await read(page)
    assert cut_lines(await read(MetricsPage(state))) == cut_lines(await read(page)), "as a fresh look"


def count_charges(state: ClusterState) -> list[str]:
    """The nodes whose pods are walked over from now on."""
    asked: list[str] = []
    walk = state.charges.on_node

    def counted(name: str) -> Any:
        asked.append(name)
        return walk(name)

    state.charges.on_node = counted  # type: ignore[method-assign]
    return asked


def cut_lines(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line.startswith(("t9ksched_cards", "t9ksched_nodes", "T9k")))


async def test_each_card_is_in_one_state() -> None:
    state = state_with(model_node("n1"), model_node("n2", away=True), queues={"q": {}})
    page = MetricsPage(state)
    state.upsert_pod(pod("a", 3, queue="q", node="n1", phase="Running"))
    assert cards(await read(page)) == {("A100", "held"): 3, ("A100", "free"): 5, ("A100", "away"): 8}
    state.upsert_node(model_node("n1", cordoned="6,7"))
    assert cards(await read(page)) == {
        ("A100", "held"): 3,
        ("A100", "free"): 3,
        ("A100", "cordoned"): 2,
        ("A100", "away"): 8,
    }
    state.remove_node("n2")
    state.remove_pod("pod-a")
    assert cards(await read(page)) == {("A100", "free"): 6, ("A100", "cordoned"): 2}


async def test_cards_of_a_pod_whose_annotation_differs_are_in_drift() -> None:
    state = state_with(model_node("n1"), queues={"q": {}})
    state.upsert_pod(pod("a", 2, queue="q", node="n1", phase="Running", cards="0,1"))
    page = MetricsPage(state)
    assert cards(await read(page)) == {("A100", "held"): 2, ("A100", "free"): 6}
    state.cards.drifting["pod-a"] = "names others"
    assert cards(await read(page)) == {("A100", "drift"): 2, ("A100", "free"): 6}
    state.cards.drifting.clear()
    assert cards(await read(page)) == {("A100", "held"): 2, ("A100", "free"): 6}


async def test_a_thousand_queues_are_cut_and_that_is_told() -> None:
    state = state_with(node(), queues={"q": {}})
    for each in range(1000):
        state.meters.preempted.add(f"q{each}", PREEMPTION)
    text = await read(MetricsPage(state))
    assert text.count("t9ksched_preempted_pods_total{") == 401, "and those that are counted together"
    assert 't9ksched_metric_samples_cut_total{family="t9ksched_preempted_pods_total"} 600' in text
