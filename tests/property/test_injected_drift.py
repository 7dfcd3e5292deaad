"""Drift that is injected into random histories of nodes that report their cards is found, and its node gives nothing
of which it is not certain whose it is.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model.koordinator import DeviceReport
from t9ksched.model.pod import Metadata
from tests.property.part_systems import ALLOCATED, DEVICES, HamiHistory, KoordinatorHistory
from tests.property.parts import History
from tests.unit.scheduler.state.test_state import NOW

HISTORIES, STEPS = 20, 25


def annotation_gone(history: History, uid: str) -> None:
    pod = history.pods[uid]
    key = ALLOCATED if isinstance(history, HamiHistory) else DEVICES
    kept = {name: text for name, text in pod["metadata"]["annotations"].items() if name != key}
    pod["metadata"] = pod["metadata"] | {"annotations": kept}
    history.tell(uid)


def annotation_forged(history: History, uid: str) -> None:
    pod = history.pods[uid]
    key = ALLOCATED if isinstance(history, HamiHistory) else DEVICES
    pod["metadata"] = pod["metadata"] | {"annotations": pod["metadata"]["annotations"] | {key: "forged"}}
    history.tell(uid)


def row_gone(history: History, uid: str) -> None:
    del history.rows[uid]
    history.restart()


def exchanged(history: History, uid: str) -> None:
    """The cards of the node are other devices now, under the same indices."""
    _report(history, history.pods[uid]["spec"]["nodeName"], "new")


def fewer(history: History, uid: str) -> None:
    """The last card that the pod holds, and those behind it, are gone."""
    node = history.pods[uid]["spec"]["nodeName"]
    _report(history, node, "", max(history.held[uid]))


def bound_by_another(history: History, uid: str) -> None:
    """A pod of another scheduler runs on a card that is full, as its annotation says."""
    node, card = history.pods[uid]["spec"]["nodeName"], max(history.held[uid])
    for serial in range(5):  # however little the pod has of it
        other = f"other{serial}"
        history.pods[other] = {
            "metadata": {
                "name": other,
                "namespace": "ns",
                "uid": other,
                "annotations": history.named(node, card, 30, 256),
            },
            "spec": {"schedulerName": "volcano", "nodeName": node, "containers": [history.part("a", 30, 256)]},
            "status": {"phase": "Running"},
        }
        history.tell(other)


def _report(history: History, node: str, named: str, cards: int | None = None) -> None:
    count, memory = history.sizes[node]
    count = count if cards is None else cards
    if isinstance(history, HamiHistory):
        raw = history.node(node)
        entries: list[dict[str, Any]] = [
            {
                "id": f"GPU-{node}-{at}{named}",
                "count": 16,
                "devmem": memory,
                "devcore": 100,
                "health": True,
                "index": at,
            }
            for at in range(count)
        ]
        raw.metadata.annotations["hami.io/node-nvidia-register"] = json.dumps(entries)
        history.state.upsert_node(raw)
        return
    resources = {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": f"{memory}Mi"}
    devices = [
        {"type": "gpu", "id": f"{node}-{at}{named}", "minor": at, "health": True, "resources": resources}
        for at in range(count)
    ]
    history.state.reported_cards.upsert(DeviceReport(Metadata(name=node), {"devices": devices}))


Injection = Callable[[History, str], None]
EVIDENCE: tuple[Injection, ...] = (annotation_gone, annotation_forged)
"""Of these the record is certain: they change nothing."""
DOUBT: tuple[Injection, ...] = (row_gone, exchanged, fewer, bound_by_another)
"""After these a card may be another one than is thought."""


@pytest.mark.parametrize("injected", [*EVIDENCE, *DOUBT])
@pytest.mark.parametrize("kind", [HamiHistory, KoordinatorHistory])
def test_injected_drift_is_found(kind: type[History], injected: Injection) -> None:
    tried = 0
    for seed in range(HISTORIES):
        history = kind(1000 + seed)
        for _ in range(STEPS):
            history.rng.choices((history.submit, history.decide, history.end), (4, 3, 1))[0]()
        ours = sorted(uid for uid in history.held if uid in history.rows)
        if not ours:
            continue
        uid = history.rng.choice(ours)
        node = history.pods[uid]["spec"]["nodeName"]
        if injected is fewer and not max(history.held[uid]):
            continue  # a node that reports none at all is starting
        tried += 1
        injected(history, uid)
        state = history.state
        told = uid in state.cards.drifting or uid in state.card_audit.of(node)
        assert told, (seed, uid)
        assert state.node_objects[node][1].unsure == (injected in DOUBT), (seed, uid)
        if injected in DOUBT:
            decided = plan(state.view(NOW), Policy(), NOW).assignments
            assert not [one for one in decided if one.node == node and one.cards], seed
        else:
            history.check()
    assert tried > HISTORIES // 4


def _late(history: History) -> None:
    """A scheduler starts without its database, which comes back after it has read the pods."""
    history.state = history.begin()
    history.follow()
    history.state.cards.restore(history.rows, complete=True)


STARTS: tuple[Callable[[History], None], ...] = (History.follow, History.restart, History.upgrade, _late)


@pytest.mark.parametrize("start", STARTS)
def test_cards_that_got_other_indices_are_no_drift_of_annotations(start: Callable[[History], None]) -> None:
    several = 0
    for seed in range(HISTORIES):
        history = HamiHistory(2000 + seed)
        for _ in range(STEPS):
            history.rng.choices((history.submit, history.decide, history.end), (4, 3, 1))[0]()
        for _ in range(3):
            history.renumber()
            start(history)
            history.check()
            assert history.state.cards.drifting == {}, seed
        moved = [name for name, order in history.orders.items() if order != sorted(order)]
        several += sum(
            len(held) > 1 and history.pods[uid]["spec"]["nodeName"] in moved for uid, held in history.held.items()
        )
    assert several > HISTORIES // 4
