"""Effective requests, cards and host ports of pods; cards of nodes."""

from typing import Any

import msgspec
import pytest

from t9ksched.model.cards import CardGrant
from t9ksched.model.node import decode_node, node_facts
from t9ksched.model.pod import decode_pod, decode_pod_spec, effective_requests, host_ports, pod_class
from t9ksched.model.podclass import HostPort
from t9ksched.model.resources import is_card_resource


def container(name: str = "c", limits: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    requests = more.pop("requests", None)
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "resources": {key: value for key, value in resources.items() if value}, **more}


GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container(requests={"cpu": "1"}), container(requests={"cpu": "500m"})]}, {"cpu": 1500}),
        ({"containers": [container(limits={"cpu": "2"})]}, {"cpu": 2000}),
        ({"containers": [container(requests={"cpu": "1"}, limits={"cpu": "2"})]}, {"cpu": 1000}),
        (
            {
                "containers": [container(requests={"cpu": "1"})],
                "initContainers": [container(requests={"cpu": "3", "memory": "1Ki"})],
            },
            {"cpu": 3000, "memory": 1024},
        ),
        (
            {
                "containers": [container(requests={"cpu": "1"})],
                "initContainers": [
                    container("proxy", requests={"cpu": "1"}, restartPolicy="Always"),
                    container("setup", requests={"cpu": "2"}),
                ],
            },
            {"cpu": 3000},
        ),
        (
            {
                "containers": [container(requests={"cpu": "2"})],
                "initContainers": [
                    container("setup", requests={"cpu": "2"}),
                    container("proxy", requests={"cpu": "1"}, restartPolicy="Always"),
                ],
            },
            {"cpu": 3000},
        ),
        ({"containers": [container(requests={"cpu": "1"})], "overhead": {"cpu": "250m"}}, {"cpu": 1250}),
        ({"containers": [container(requests={"cpu": "1"})], "resources": {"requests": {"cpu": "4"}}}, {"cpu": 4000}),
        ({"containers": [container()]}, {}),
    ],
)
def test_effective_requests(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert effective_requests(spec) == expected


def test_alike_pods_are_one_class_and_others_are_not() -> None:
    one = {"containers": [container("m", {"cpu": "1", GPU: "2"})], "nodeSelector": {"a": "b", "c": "d"}}
    same = {"containers": [container("m", {GPU: 2, "cpu": "1000m"})], "nodeSelector": {"c": "d", "a": "b"}}
    other = {**one, "nodeSelector": {"a": "b"}}
    classes = [pod_class(decode_pod_spec(spec)) for spec in (one, same, other)]
    assert classes[0] == classes[1]
    assert hash(classes[0]) == hash(classes[1])
    assert classes[0] != classes[2]
    assert classes[0].card_counts == {GPU: 2}


def test_init_containers_reuse_cards_and_sidecars_have_their_own() -> None:
    spec = {
        "containers": [container("main", {GPU: 2})],
        "initContainers": [container("warm", {GPU: 4}), container("side", {GPU: 1}, restartPolicy="Always")],
    }
    found = pod_class(decode_pod_spec(spec))
    assert [(card.container, card.count, card.kind) for card in found.cards] == [
        ("main", 2, "main"),
        ("warm", 4, "init"),
        ("side", 1, "sidecar"),
    ]
    assert found.card_counts == {GPU: 4}


def test_host_ports() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 90}]
    assert host_ports(decode_pod_spec({"containers": [container(ports=ports)]})) == (HostPort(8080),)
    on_host = {"containers": [container(ports=ports)], "hostNetwork": True}
    assert host_ports(decode_pod_spec(on_host)) == (HostPort(90), HostPort(8080))
    assert HostPort(80).conflicts(HostPort(80, "TCP", "10.0.0.1"))
    assert not HostPort(80, "TCP", "10.0.0.2").conflicts(HostPort(80, "TCP", "10.0.0.1"))
    assert not HostPort(80, "UDP").conflicts(HostPort(80))


@pytest.mark.parametrize(
    ("name", "card"),
    [
        (GPU, True),
        ("amd.com/gpu", True),
        ("huawei.com/Ascend910", True),
        ("example.com/npu", True),
        ("nvidia.com/gpu.shared", False),
        ("nvidia.com/mig-1g.5gb", False),
        ("rdma/rdma_shared_device_a", False),
        ("cpu", False),
    ],
)
def test_which_resources_are_cards(name: str, card: bool) -> None:
    assert is_card_resource(name) is card


def test_a_node_tells_its_cards_and_their_state() -> None:
    node = {
        "metadata": {
            "name": "n",
            "annotations": {
                "scheduler.tensorstack.dev/card-mode": "honours-index",
                "scheduler.tensorstack.dev/cordoned-cards": "1,7,x",
            },
        },
        "spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoExecute"}]},
        "status": {
            "allocatable": {"cpu": "4", GPU: "4", "broken": "many"},
            "conditions": [{"type": "Ready", "status": "Unknown"}],
        },
    }
    facts = node_facts(decode_node(node))
    assert facts.cards.counts == {GPU: 4}
    assert facts.cards.withdrawn == CardGrant.of({GPU: [1]})
    assert facts.allocatable == {"cpu": 4000, GPU: 4}
    assert (facts.unschedulable, facts.ready, facts.card_mode) == (True, False, "honours-index")


def bound(managed: list[Any], *conditions: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "managedFields": managed},
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"conditions": [{"type": name, "status": "True"} for name in conditions]},
    }


@pytest.mark.parametrize("form", [msgspec.json.encode, lambda found: found])
def test_the_creator_or_the_binding_named_the_node(form: Any) -> None:
    """A binding sets a condition with the node; a creator's own node name is among the fields that the creator owns."""
    creator = [{"manager": "c", "fieldsV1": {"f:spec": {"f:containers": {}, "f:nodeName": {}}}}]
    other = [{"manager": "c", "fieldsV1": {"f:spec": {"f:containers": {}}}}]
    assert not decode_pod(form(bound(other, "PodScheduled", "Ready"))).put_there
    assert decode_pod(form(bound(other))).put_there
    assert decode_pod(form(bound(creator, "PodScheduled"))).put_there
    waits = bound(other) | {"spec": {"containers": []}}
    assert not decode_pod(form(waits)).put_there
    assert not decode_pod(form(bound(creator)), {"u": None}).put_there, "who knows the pod does not ask"
    assert decode_pod(form(bound(creator)), {"other": None}).put_there


@pytest.mark.parametrize("form", [msgspec.json.encode, lambda found: found])
def test_why_a_pod_is_being_evicted(form: Any) -> None:
    plain, leaving = bound([], "PodScheduled", "Ready"), bound([], "PodScheduled", "DisruptionTarget")
    leaving["status"]["conditions"][1]["reason"] = "PreemptionByScheduler"
    words = {"note": '"status":{"conditions":[{"type":"DisruptionTarget","status":"True"}]}'}
    for first in ("metadata", "status"):  # servers write the status last, which no rule says
        pod = {first: plain[first]} | plain
        assert decode_pod(form(pod | {"metadata": pod["metadata"] | {"annotations": words}})).disruption == ""
        assert decode_pod(form({first: leaving[first]} | leaving)).disruption == "PreemptionByScheduler"
    leaving["status"]["conditions"][1]["status"] = "False"
    assert decode_pod(form(leaving)).disruption == ""
