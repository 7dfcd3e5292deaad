"""The nodes of a replay, and the pods of its jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.model.errors import Invalid
from t9ksched.simulation.cluster import Cluster


@pytest.mark.parametrize(
    "text", ["", "8", "x", "8x", "x8", "0x8", "8x0", "8x65", "100001x1", "-1x8", "8 x 8", "٣x8", "8x8x8"]
)
def test_a_cluster_that_cannot_be(text: str) -> None:
    with pytest.raises(Invalid, match=r"NxM|at least 1"):
        Cluster.parse(text)


@pytest.mark.parametrize(
    ("cluster", "cards", "pods"),
    [
        ("8x8", 1, (1, 1)),
        ("8x8", 8, (1, 8)),
        ("8x8", 32, (4, 8)),
        ("8x8", 12, (2, 6)),
        ("8x8", 11, (11, 1)),
        ("3x8", 20, (5, 4)),
        ("256x1", 64, (64, 1)),
    ],
)
def test_the_pods_of_a_job(cluster: str, cards: int, pods: tuple[int, int]) -> None:
    """A job of 20 cards on three nodes: no four pods of five, of which a node holds one."""
    assert Cluster.parse(cluster).pods(cards) == pods


@given(st.integers(1, 40), st.integers(1, 16), st.data())
def test_every_job_fits_the_empty_cluster(nodes: int, each: int, data: st.DataObject) -> None:
    cluster = Cluster(nodes, each)
    cards = data.draw(st.integers(1, cluster.capacity))
    pods, size = cluster.pods(cards)
    assert pods * size == cards
    assert pods <= nodes * (each // size)


def test_a_job_that_is_too_large() -> None:
    with pytest.raises(ValueError, match="17 cards, of 16"):
        Cluster(2, 8).pods(17)


def test_nodes_of_several_sizes() -> None:
    cluster = Cluster.of([8, 0, 4, 4, 2])
    assert (cluster.capacity, len(cluster.table()), cluster.cards) == (18, 4, 8)
    assert [cluster.pods(cards) for cards in (1, 8, 12, 16, 18)] == [(1, 1), (1, 8), (3, 4), (4, 4), (9, 2)]
    with pytest.raises(Invalid, match="none of its nodes has a card"):
        Cluster.of([0, 0])
