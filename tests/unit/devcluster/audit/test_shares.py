"""Parts of cards as the auditor sees them: each kind of double booking gives its finding, and a sound node none."""

from typing import Any

import pytest

from t9ksched.devcluster.audit.auditor import audit

Object = dict[str, Any]
CORE, MEMORY, COUNTS = (f"vke.volcengine.com/{name}" for name in ("mgpu-core", "mgpu-memory", "container-multiple-gpu"))
INDEX, GIVEN = "vke.volcengine.com/gpu-index-container-", "devcluster.tensorstack.dev/cards-container-"
NODE = {
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "10", CORE: "200", MEMORY: "2k"}},
}


def container(name: str, core: int, memory: int = 0, **more: Any) -> Object:
    limits = {CORE: str(core)} | ({MEMORY: str(memory)} if memory else {})
    return {"name": name, "resources": {"limits": limits}, **more}


def pod(name: str, *containers: Object, init: tuple[Object, ...] = (), counts: str = "", **cards: str) -> Object:
    annotations = {INDEX + key: text for key, text in cards.items()} | ({COUNTS: counts} if counts else {})
    spec = {"nodeName": "n", "containers": list(containers), "initContainers": list(init)}
    metadata = {"name": name, "namespace": "ns", "uid": name, "annotations": annotations}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("pods", "kinds"),
    [
        ([pod("a", container("m", 60, 400), m="0"), pod("b", container("m", 40, 600), m="0")], []),
        ([pod("a", container("m", 60, 400), m="0"), pod("b", container("m", 41, 600), m="0")], ["CardOvershared"]),
        ([pod("a", container("m", 60, 401), m="0"), pod("b", container("m", 40, 600), m="0")], ["CardOvershared"]),
        ([pod("a", container("m", 60, 401), m="0"), pod("b", container("m", 60, 600), m="1")], []),
        ([pod("a", container("m", 100), m="0"), pod("b", container("m", 1, 256), m="0")], ["CardGivenTwice"]),
        ([pod("a", container("m", 100), m="0"), pod("b", container("m", 100), m="0")], ["CardGivenTwice"]),
        ([pod("a", container("m", 200), m="0,1")], []),
        ([pod("a", container("m", 200), m="0")], ["CardCountMismatch"]),
        ([pod("a", container("m", 120, 600), counts="2", m="0,1"), pod("b", container("m", 40, 600), m="1")], []),
        (
            [pod("a", container("m", 120, 600), counts="2", m="0,1"), pod("b", container("m", 41, 600), m="1")],
            ["CardOvershared"],
        ),
        ([pod("a", container("m", 10, 256), m="2")], ["CardOutOfRange"]),
        ([pod("a", container("m", 10, 256), m="x")], ["CardsUnreadable"]),
        ([pod("a", container("m", 10, 256))], ["CardsUnreadable"]),
        ([pod("a", container("m", 60, 256), container("o", 60, 256), m="0", o="0")], ["CardOvershared"]),
        ([pod("a", container("m", 60, 256), init=(container("i", 60, 256),), m="0", i="0")], []),
        (
            [pod("a", container("m", 60, 256), init=(container("i", 60, 256, **SIDECAR),), m="0", i="0")],
            ["CardOvershared"],
        ),
    ],
)
def test_what_is_found(pods: list[Object], kinds: list[str]) -> None:
    assert [finding.kind for finding in audit([NODE], pods).findings] == kinds


def test_what_the_node_gave_counts_more_than_what_was_named() -> None:
    pods = [pod("a", container("m", 60, 256), m="1"), pod("b", container("m", 60, 256), m="1")]
    pods[0]["metadata"]["annotations"][GIVEN + "m"] = "0"
    assert audit([NODE], pods).ok
