"""What many pods have alike is kept once, and what differs is kept apart."""

from typing import Any
from unittest.mock import patch

from t9ksched.kube.write.dialects.table import CARD_INDEX
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.names import GPU_INDEX_PREFIX
from t9ksched.model.pod import PodSpec, decode_pod_spec, pod_class
from t9ksched.scheduler.state import sharing
from t9ksched.scheduler.state.sharing import NOTHING, Sharing
from tests.unit.scheduler.state.test_state import node, pod, state_with

TOPOLOGY = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TOPOLOGY]}}


def spec(node: str = "", cards: int = 1, container: str = "main", **more: Any) -> PodSpec:
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": str(cards)}}
    return decode_pod_spec({"nodeName": node, "containers": [{"name": container, "resources": resources}], **more})


def test_replicas_on_different_nodes_share_their_class() -> None:
    sharing = Sharing()
    first = sharing.meaning_of(spec("n1"), "ns", {"index": "0"})[0]
    assert sharing.meaning_of(spec("n2", priority=7), "other", {"index": "1"})[0] is first
    assert first == pod_class(spec(), (), "ns", {})


def test_whatever_decides_a_class_tells_two_apart() -> None:
    sharing = Sharing()
    unlike = [
        spec(),
        spec(cards=2),
        spec(container="other"),
        spec(nodeSelector={"a": "b"}),
        spec(tolerations=[{"key": "k", "operator": "Exists"}]),
        spec(overhead={"cpu": "1"}),
        spec(initContainers=[{"name": "i", "resources": {"requests": {"cpu": "9"}}}]),
        spec(affinity=APART),
    ]
    found = [sharing.meaning_of(one, "ns", {})[0] for one in unlike]
    assert found == [pod_class(one, (), "ns", {}) for one in unlike]
    assert len(set(found)) == len(unlike)


def test_rules_about_other_pods_belong_to_their_namespace() -> None:
    sharing = Sharing()
    one, other = (sharing.meaning_of(spec(affinity=APART), namespace, {})[0] for namespace in ("ns", "other"))
    assert one != other
    assert other == pod_class(spec(affinity=APART), (), "other", {})


def test_equal_labels_are_one_object() -> None:
    sharing = Sharing()
    first = sharing.labels({"a": "b"})
    assert sharing.labels({"a": "b"}) is first
    assert sharing.labels({"a": "c"}) == {"a": "c"}
    assert sharing.labels(None) is NOTHING


def test_equal_cards_are_one_object() -> None:
    sharing = Sharing()
    own = sharing.meaning_of(spec(cards=2), "ns", {})[0]
    key = GPU_INDEX_PREFIX + "main"
    first = sharing.cards(own, {key: "0,3"}, CARD_INDEX)
    assert first == CardGrant.of({"nvidia.com/gpu": [0, 3]})
    assert sharing.cards(own, {key: "0,3", "else": "1"}, CARD_INDEX) is first
    assert sharing.cards(own, {key: "1,2"}, CARD_INDEX) == CardGrant.of({"nvidia.com/gpu": [1, 2]})
    assert sharing.cards(own, {}, CARD_INDEX) == NO_CARDS


def test_tables_that_are_full_begin_anew(monkeypatch: Any) -> None:
    monkeypatch.setattr("t9ksched.scheduler.state.sharing._MOST", 2)
    sharing = Sharing()
    for index in range(5):
        assert sharing.labels({"index": str(index)}) == {"index": str(index)}
    assert len(sharing._labels) <= 2


def test_pods_that_ask_for_other_cards_are_of_other_classes() -> None:
    sharing = Sharing()
    key = "scheduler.tensorstack.dev/gpu-model"
    plain = sharing.meaning_of(spec(cards=2), "ns", {}, {"other": "x"})[0]
    chosen = sharing.meaning_of(spec(cards=2), "ns", {}, {key: "A100"})[0]
    assert plain is sharing.meaning_of(spec(cards=2), "ns", {})[0]
    assert (plain.choice, chosen.choice) == (None, CardChoice((("A100",),)))
    own, template = sharing.meaning_of(spec(cards=2), "ns", {}, {key: "", "other": "x"})
    assert (own.choice, template.metadata) == (None, {"annotations": {key: ""}})


def test_the_rules_about_what_pods_ask_for_are_asked_once_of_those_alike() -> None:
    state = state_with(node(gpus=8), queues={"q": {}})
    with patch.object(sharing, "unplaceable", side_effect=sharing.unplaceable) as asked:
        for at in range(20):
            state.upsert_pod(pod(f"p{at}", queue="q"))
        assert asked.call_count == 1
        claims = [{"name": "gpu", "resourceClaimName": "c"}]
        for name in ("one", "other"):
            state.upsert_pod(pod(name, queue="q", resourceClaims=claims))
        assert asked.call_count == 2
    refused = [state.pods[f"pod-{name}"].gates for name in ("one", "other")]
    assert ["pod other" in one[0].message for one in refused] == [False, True], "each is told by its own name"
