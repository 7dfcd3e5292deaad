"""The device plugin of mGPU, checked by the auditor, which shares no code with it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.devcluster.audit.auditor import audit
from t9ksched.devcluster.nodes.nodefile import parse_nodes
from t9ksched.devcluster.nodes.noderoom import NodeRoom, PodRefused
from tests.unit.devcluster.world import container, pod

Object = dict[str, Any]
CORE, MEMORY, COUNTS = (f"vke.volcengine.com/{name}" for name in ("mgpu-core", "mgpu-memory", "container-multiple-gpu"))
INDEX, ASSUMED = "vke.volcengine.com/gpu-index-container-", "vke.volcengine.com/assumed"
Asks = tuple[int, int, list[int]]
"""Percent of cores, MiB, and the cards that are named."""


def node(cards: int = 2, memory: int = 1000) -> Object:
    (made,) = parse_nodes(
        "nodes: [{name: 'n', allocatable: {cpu: 8000, memory: 32Gi, pods: 900,"
        f" {CORE}: {100 * cards}, {MEMORY}: {cards * memory}}}}}]"
    )
    return made


def bound(number: int, *asks: Asks, counts: str = "", init: Asks | None = None) -> Object:
    made = pod(f"p{number}", gpu=0, cpu="1", node="n")
    made["metadata"]["uid"] = f"uid-{number}"
    made["status"] = {"phase": "Running"}
    named = {f"c{at}": one for at, one in enumerate(asks)} | ({"first": init} if init else {})
    made["spec"]["containers"] = [sharing(name, one) for name, one in named.items() if name != "first"]
    if init:
        made["spec"]["initContainers"] = [sharing("first", init)]
    annotations = {INDEX + name: ",".join(map(str, one[2])) for name, one in named.items()} | {ASSUMED: "true"}
    made["metadata"]["annotations"] = annotations | ({COUNTS: counts} if counts else {})
    return made


def sharing(name: str, asks: Asks) -> Object:
    made = container(name, gpu=0)
    limits = {CORE: str(asks[0])} | ({MEMORY: str(asks[1])} if asks[1] else {})
    return made | {"resources": {"requests": limits, "limits": limits}}


def admitted(room: NodeRoom, new: Object) -> Object:
    new["metadata"]["annotations"] |= room.admit(new)
    return new


def test_a_card_is_given_to_its_last_percent_and_mib() -> None:
    room = NodeRoom(node())
    admitted(room, bound(0, (60, 400, [1])))
    admitted(room, bound(1, (40, 600, [1])))
    with pytest.raises(PodRefused, match="1 percent of the cores requested, used 100 of 100"):
        room.admit(bound(2, (1, 256, [1])))
    room.release("uid-0")
    admitted(room, bound(3, (60, 400, [1])))


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (bound(1, (50, 300, [0])), "50 percent of the cores requested, used 60"),
        (bound(1, (40, 700, [0])), "700 MiB requested, used 400 of 1000"),
        (bound(1, (100, 0, [0])), "cannot be whole for one pod and in part another's"),
        (bound(1, (30, 300, [2])), "card 2 of vke.volcengine.com/mgpu-core is not on this node, which has 2"),
        (bound(1, (30, 300, [0, 1])), "asks for 1 cards and is given '0,1'"),
        (bound(1, (60, 600, [0]), counts="2"), "asks for 2 cards and is given '0'"),
        (bound(1, (60, 600, [1]), (60, 600, [1])), "120 percent"),
    ],
)
def test_what_cannot_be_given_is_refused(new: Object, said: str) -> None:
    room = NodeRoom(node())
    admitted(room, bound(0, (60, 400, [0])))
    with pytest.raises(PodRefused, match="UnexpectedAdmissionError") as refused:
        room.admit(new)
    assert said in refused.value.message
    assert {index: set(held) for index, held in room.shared.held.items() if held} == {0: {"uid-0"}}


@pytest.mark.parametrize("lacking", [INDEX + "c0", ASSUMED])
def test_a_pod_without_the_annotations_is_refused(lacking: str) -> None:
    new = bound(0, (60, 400, [0]))
    del new["metadata"]["annotations"][lacking]
    with pytest.raises(PodRefused, match="is missing"):
        NodeRoom(node()).admit(new)


def test_at_most_16_containers_share_a_card() -> None:
    room = NodeRoom(node(memory=32510))
    for number in range(16):
        admitted(room, bound(number, (1, 256, [0])))
    with pytest.raises(PodRefused, match="1 containers requested, used 16 of 16"):
        room.admit(bound(16, (1, 256, [0])))


def test_init_containers_use_the_cards_of_the_others_before_them() -> None:
    room = NodeRoom(node())
    admitted(room, bound(0, (60, 400, [0]), init=(60, 400, [0])))
    admitted(room, bound(1, (40, 600, [0])))


asks = st.tuples(
    st.sampled_from([1, 30, 50, 60, 99, 100, 100]),
    st.sampled_from([256, 400, 600, 1000]),
    st.lists(st.integers(0, 2), min_size=1, max_size=1),
).map(lambda one: (one[0], 0, one[2]) if one[0] == 100 else one)
steps = st.lists(st.tuples(st.lists(asks, min_size=1, max_size=2), st.none() | asks, st.booleans()), max_size=14)


@given(steps)
def test_the_auditor_agrees_with_every_admission(history: list[Any]) -> None:
    obj = node()
    room, present = NodeRoom(obj), list[Object]()
    for number, (wanted, init, leave) in enumerate(history):
        new = bound(number, *wanted, init=init)
        try:
            present.append(admitted(room, new))
        except PodRefused:
            assert not audit([obj], [*present, new]).ok
        assert audit([obj], present).ok
        if leave and present:
            room.release(present.pop(0)["metadata"]["uid"])
    later = NodeRoom(obj)
    for left in present:
        later.restore(left)
    assert {index: held for index, held in later.shared.held.items() if held} == {
        index: held for index, held in room.shared.held.items() if held
    }
