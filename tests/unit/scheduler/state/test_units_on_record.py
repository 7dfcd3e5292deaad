"""What one of each accelerator of a pod was, as its row has it: whenever the row is read, before or after the pod."""

from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched.model.quantity import CARD
from t9ksched.scheduler.state.card_rows import row_of
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.bindings import CardBinding
from tests.unit.scheduler.state.test_state import node, pod, state_with

GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"
A100 = "NVIDIA-A100-SXM4-40GB"


def of(product: str, gpus: int) -> Any:
    made = node(gpus=gpus)
    made.metadata.labels[PRODUCT] = product
    made.metadata.annotations = {"scheduler.tensorstack.dev/card-mode": "plugin-chooses"}
    return made


SLICED, WHOLE = of(f"{A100}-MIG-1g.5gb", 14), of(A100, 2)


def bound() -> Any:
    return pod("p", node="n1", queue="q")


def row(node: str = "n1", units: Any = ((GPU, "slice:1g.5gb"),)) -> dict[str, CardBinding]:
    made = CardBinding(
        pod_uid="pod-p",
        namespace="ns",
        name="p",
        node=node,
        cards=[],
        honoured=True,
        units=list(units) or None,
        worth=CARD // 7 if units else None,
        at=datetime(2026, 11, 1, tzinfo=UTC),
    )
    return {made.pod_uid: made}


def held(state: ClusterState) -> tuple[Any, int]:
    (charge,) = state.charges.on_node("n1")
    return charge.units, charge.worth


@pytest.mark.parametrize("order", ["row first", "pod first", "node last"])
def test_the_row_is_believed_whenever_it_is_read(order: str) -> None:
    state = state_with(node("other") if order == "node last" else WHOLE)
    if order == "pod first":
        state.upsert_pod(bound())
    state.cards.restore(row(), complete=True)
    if order != "pod first":
        state.upsert_pod(bound())
    if order == "node last":
        state.upsert_node(WHOLE)
    assert held(state) == (((GPU, "slice:1g.5gb"),), CARD // 7)
    assert state.node_objects["n1"][1].unsure
    assert not [*state.cards.take_unsaid()]
    state.remove_pod("pod-p")
    assert not state.node_objects["n1"][1].unsure


@pytest.mark.parametrize("rows", [{}, row("elsewhere"), row(units=())], ids=["none", "of another node", "earlier"])
def test_without_it_a_pod_has_what_its_node_is(rows: dict[str, CardBinding]) -> None:
    state = state_with(SLICED)
    state.cards.restore(rows, complete=False)
    state.upsert_pod(bound())
    assert held(state) == (((GPU, "slice:1g.5gb"),), CARD // 7)
    assert [record.name for record in state.cards.take_unsaid()] == ["p"], "to be recorded"
    assert not [*state.cards.take_unsaid()]
    state.upsert_node(WHOLE)
    assert held(state) == (((GPU, "slice:1g.5gb"),), CARD // 7)


def test_a_pod_that_was_bound_with_any_number_has_a_row_that_can_be_written() -> None:
    state = state_with(SLICED)
    state.upsert_pod(pod("p", 10**18, node="n1", queue="q"))
    (record,) = state.cards.take_unsaid()
    made = row_of(record, state.charges.get(record.uid), 0)
    assert made.worth == 2**63 - 1


def test_what_is_not_known_yet_is_recorded_when_it_is() -> None:
    state = state_with(node("other"))
    state.upsert_pod(bound())
    assert not [*state.cards.take_unsaid()]
    state.upsert_node(SLICED)
    assert [record.name for record in state.cards.take_unsaid()] == ["p"]
