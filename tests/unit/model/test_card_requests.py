"""What containers ask of cards, in the words of each system, and what means nothing."""

import pytest

from t9ksched.model.card_requests import Asking, is_part, written
from t9ksched.model.card_size import CardSize
from t9ksched.model.cards import CardPart, CardRequest, SharedCards, WholeCards
from t9ksched.model.cards_asked import card_requests
from t9ksched.model.errors import Invalid

GPU = "nvidia.com/gpu"
CORE, MEMORY, COUNTS = "mgpu-core", "mgpu-memory", "vke.volcengine.com/container-multiple-gpu"
OURS = "scheduler.tensorstack.dev"


def asking(name: str = "main", position: int = 0, kind: str = "main", **amounts: int) -> Asking:
    names = {"gpu": GPU, "core": f"vke.volcengine.com/{CORE}", "memory": f"vke.volcengine.com/{MEMORY}"}
    names |= {"gpucores": "nvidia.com/gpucores", "gpumem": "nvidia.com/gpumem"}
    names |= {"percentage": "nvidia.com/gpumem-percentage", "amd": "amd.com/gpu", "cpu": "cpu"}
    return Asking(name, kind, {names[key]: amount for key, amount in amounts.items()}, position)  # type: ignore[arg-type]


def part(
    resource: str, count: int = 1, cores: int = 0, memory: int = 0, percent: int = 0, *, implied: bool = False
) -> SharedCards:
    return SharedCards("main", resource, count, "main", cores * 10, memory, percent, implied)


MGPU = "vke.volcengine.com/mgpu-core"


@pytest.mark.parametrize(
    ("asked", "annotations", "wanted"),
    [
        ({"cpu": 1}, {}, None),
        ({"gpu": 2}, {}, WholeCards("main", GPU, 2)),
        ({"amd": 1}, {}, WholeCards("main", "amd.com/gpu", 1)),
        # mGPU: amounts are the container's, for one card unless there are whole ones or an annotation says so
        ({"core": 30, "memory": 1024}, {}, part(MGPU, 1, 30, 1024)),
        ({"core": 99, "memory": 256}, {}, part(MGPU, 1, 99, 256)),
        ({"core": 100}, {}, WholeCards("main", MGPU, 1)),
        ({"core": 100, "memory": 1024}, {}, part(MGPU, 1, 100, 1024)),
        ({"core": 300}, {}, WholeCards("main", MGPU, 3)),
        ({"core": 120, "memory": 2048}, {COUNTS: "2"}, part(MGPU, 2, 60, 1024)),
        ({"core": 200}, {COUNTS: "2"}, WholeCards("main", MGPU, 2)),
        ({"core": 30, "memory": 1024}, {COUNTS: " 1 "}, part(MGPU, 1, 30, 1024)),
        # HAMi: amounts are each card's
        ({"gpu": 1, "gpumem": 3000, "gpucores": 30}, {}, part(GPU, 1, 30, 3000)),
        ({"gpu": 2, "percentage": 50}, {}, part(GPU, 2, 0, 0, 50)),
        ({"gpu": 1, "gpucores": 30}, {}, part(GPU, 1, 30, 0, 100)),
        ({"gpu": 1, "percentage": 100}, {}, part(GPU, 1, 100, 0, 100)),
        ({"gpu": 1, "gpucores": 100}, {}, part(GPU, 1, 100, 0, 100)),
        ({"gpu": 1, "gpucores": 100, "gpumem": 3000}, {}, part(GPU, 1, 100, 3000)),
        ({"gpu": 1, "gpumem": 0}, {}, WholeCards("main", GPU, 1)),
        # … of one card where no number is said
        ({"gpumem": 3000}, {}, part(GPU, 1, 0, 3000, implied=True)),
        ({"gpu": 0, "gpucores": 30}, {}, part(GPU, 1, 30, 0, 100, implied=True)),
        ({"percentage": 50, "gpucores": 10}, {}, part(GPU, 1, 10, 0, 50, implied=True)),
        ({"gpumem": 0}, {}, None),
        # ours: annotations, each card's
        ({"gpu": 1}, {f"{OURS}/gpu-memory": "20Gi"}, part(GPU, 1, 0, 20480)),
        ({"gpu": 2}, {f"{OURS}/gpu-cores": "25"}, part(GPU, 2, 25, 0, 25)),
        ({"gpu": 1}, {f"{OURS}/gpu-cores": "100"}, part(GPU, 1, 100, 0, 100)),
        ({"gpu": 1}, {f"{OURS}/gpu-memory": "1", f"{OURS}/gpu-cores": "5"}, part(GPU, 1, 5, 1)),
        (
            {"gpu": 1},
            {f"{OURS}/gpu-memory": "20Gi", f"{OURS}/gpu-memory-container-main": "1Gi"},
            part(GPU, 1, 0, 1024),
        ),
    ],
)
def test_what_is_asked_for(asked: dict[str, int], annotations: dict[str, str], wanted: CardRequest | None) -> None:
    requests = card_requests([asking(**asked)], annotations)
    assert requests == ((wanted,) if wanted is not None else ())


LIMITS = "spec.containers[0].resources.limits"


@pytest.mark.parametrize(
    ("asked", "annotations", "path", "said"),
    [
        ({"core": 30}, {}, f"{LIMITS}[vke.volcengine.com/mgpu-memory]", "at least 256 MiB, this has 0"),
        ({"core": 30, "memory": 255}, {}, f"{LIMITS}[vke.volcengine.com/mgpu-memory]", "this has 255"),
        ({"memory": 1024}, {}, f"{LIMITS}[vke.volcengine.com/mgpu-memory]", "needs vke.volcengine.com/mgpu-core"),
        ({"core": 150}, {}, f"{LIMITS}[vke.volcengine.com/mgpu-core]", "neither a part of one card nor a multiple"),
        ({"core": 350}, {}, f"{LIMITS}[vke.volcengine.com/mgpu-core]", "350 is neither"),
        ({"core": 200, "memory": 1024}, {}, f"{LIMITS}[vke.volcengine.com/mgpu-memory]", "is left out"),
        ({"core": 6500}, {}, f"{LIMITS}[vke.volcengine.com/mgpu-core]", "65 cards"),
        ({"core": 10**18}, {}, f"{LIMITS}[vke.volcengine.com/mgpu-core]", "cards: a container can have"),
        ({"core": 50, "memory": 1 << 60}, {}, f"{LIMITS}[vke.volcengine.com/mgpu-memory]", "more than any card has"),
        ({"core": 100}, {COUNTS: "3"}, f"{LIMITS}[vke.volcengine.com/mgpu-core]", "cannot be divided by the 3 cards"),
        ({"core": 90, "memory": 1000}, {COUNTS: "3"}, f"{LIMITS}[vke.volcengine.com/mgpu-memory]", "1000 cannot"),
        ({"core": 60, "memory": 300}, {COUNTS: "2"}, f"{LIMITS}[vke.volcengine.com/mgpu-memory]", "this has 150"),
        ({"core": 300}, {COUNTS: "2"}, f"{LIMITS}[vke.volcengine.com/mgpu-core]", "150 on each"),
        ({"core": 60, "memory": 600}, {COUNTS: "0"}, f"metadata.annotations[{COUNTS}]", "above 0 for 'main'"),
        ({"core": 60, "memory": 600}, {COUNTS: "-1"}, f"metadata.annotations[{COUNTS}]", "'-1' must have a number"),
        ({"core": 60, "memory": 600}, {COUNTS: "x"}, f"metadata.annotations[{COUNTS}]", "'x' must have"),
        (
            {"core": 60, "memory": 600},
            {COUNTS: "1,x"},
            f"metadata.annotations[{COUNTS}]",
            "a container: 1, and it has 2",
        ),
        ({"gpu": 1}, {COUNTS: "1"}, f"metadata.annotations[{COUNTS}]", "'main' asks for no vke"),
        ({"core": 100}, {f"{OURS}/gpu-memory": "1Gi"}, f"metadata.annotations[{OURS}/gpu-memory]", "no container asks"),
        ({"amd": 1}, {f"{OURS}/gpu-cores": "10"}, f"metadata.annotations[{OURS}/gpu-cores]", "no container asks"),
        (
            {"gpu": 1},
            {f"{OURS}/gpu-memory-container-other": "1Gi"},
            f"metadata.annotations[{OURS}/gpu-memory-container-other]",
            "there is no container 'other': the pod has main",
        ),
        (
            {"core": 100},
            {f"{OURS}/gpu-cores-container-main": "10"},
            f"metadata.annotations[{OURS}/gpu-cores-container-main]",
            "'main' asks for no nvidia.com/gpu",
        ),
        ({"core": 60, "memory": 600}, {COUNTS: "9" * 5000}, f"metadata.annotations[{COUNTS}]", "must have a number"),
        ({"gpu": 1, "gpumem": 1, "percentage": 1}, {}, f"{LIMITS}[nvidia.com/gpumem-percentage]", "one way only"),
        ({"gpu": 1, "gpucores": 101}, {}, f"{LIMITS}[nvidia.com/gpucores]", "101 is more than the 100 percent"),
        ({"gpu": 1, "percentage": 101}, {}, f"{LIMITS}[nvidia.com/gpumem-percentage]", "101 is more"),
        ({"gpu": 65, "gpumem": 3000}, {}, f"{LIMITS}[nvidia.com/gpu]", "65 cards"),
        ({"gpu": 1}, {f"{OURS}/gpu-memory": "much"}, f"metadata.annotations[{OURS}/gpu-memory]", "no quantity"),
        ({"gpu": 1}, {f"{OURS}/gpu-memory": "0"}, f"metadata.annotations[{OURS}/gpu-memory]", "more than 0"),
        ({"gpu": 1}, {f"{OURS}/gpu-memory": "-1Gi"}, f"metadata.annotations[{OURS}/gpu-memory]", "more than 0"),
        ({"gpu": 1}, {f"{OURS}/gpu-cores": "0"}, f"metadata.annotations[{OURS}/gpu-cores]", "from 1 to 100"),
        ({"gpu": 1}, {f"{OURS}/gpu-cores": "101"}, f"metadata.annotations[{OURS}/gpu-cores]", "from 1 to 100"),
        ({"gpu": 1}, {f"{OURS}/gpu-cores": "٥"}, f"metadata.annotations[{OURS}/gpu-cores]", "whole percentage"),
        (
            {"gpu": 1},
            {f"{OURS}/gpu-cores-container-main": "x"},
            f"metadata.annotations[{OURS}/gpu-cores-container-main]",
            "'x' must be",
        ),
        (
            {"gpu": 1, "gpumem": 3000},
            {f"{OURS}/gpu-memory": "1Gi"},
            f"metadata.annotations[{OURS}/gpu-memory]",
            "stands beside nvidia.com/gpumem",
        ),
    ],
)
def test_what_means_nothing_is_told_with_its_path(
    asked: dict[str, int], annotations: dict[str, str], path: str, said: str
) -> None:
    with pytest.raises(Invalid) as told:
        card_requests([asking(**asked)], annotations)
    (fault,) = told.value.errors
    assert fault.path == path
    assert said in fault.message
    assert len(fault.message) < 300


def test_each_container_has_its_number_of_cards() -> None:
    pod = [
        asking("a", 0, core=120, memory=1024),
        asking("c", 2, core=180, memory=1536),
        asking("first", 0, "init", core=60, memory=512),
    ]
    found = card_requests(pod, {COUNTS: "2,0,3"})
    assert [(request.container, request.count, request.kind) for request in found] == [
        ("a", 2, "main"),
        ("c", 3, "main"),
        ("first", 1, "init"),
    ]


def test_annotations_speak_of_containers_that_there_are() -> None:
    pod = [asking("a", 0, gpu=1), asking("c", 2, core=50, memory=512)]
    others = {"mains": ["a", "b", "c"], "inits": ["first"]}
    said = {f"{OURS}/gpu-memory": "1Gi", f"{OURS}/gpu-memory-container-a": "2Gi", COUNTS: "0,0,1"}
    assert [(one.container, one.memory) for one in card_requests(pod, said, **others)] == [("a", 2048), ("c", 512)]  # type: ignore[attr-defined]
    wrong = {f"{OURS}/gpu-memory-container-{name}": "1Gi" for name in ("b", "first", "d")} | {COUNTS: "1,0,1"}
    with pytest.raises(Invalid) as told:
        card_requests(pod, wrong, **others)
    assert [fault.path.removeprefix("metadata.annotations") for fault in told.value.errors] == [
        f"[{OURS}/gpu-memory-container-b]",
        f"[{OURS}/gpu-memory-container-d]",
        f"[{OURS}/gpu-memory-container-first]",
        f"[{COUNTS}]",
    ]
    with pytest.raises(Invalid, match="must have one number a container: 3, and it has 1"):
        card_requests(pod, {COUNTS: "1"}, **others)


def test_containers_of_a_pod_may_ask_for_unequal_parts() -> None:
    pod = [asking("a", 0, core=60, memory=512), asking("b", 1, core=30, memory=1024), asking("c", 2, core=200)]
    found = card_requests([*pod, asking("first", 0, "init", core=100)], {})
    assert [(one.container, one.count, type(one).__name__) for one in found] == [
        ("a", 1, "SharedCards"),
        ("b", 1, "SharedCards"),
        ("c", 2, "WholeCards"),
        ("first", 1, "WholeCards"),
    ]
    with pytest.raises(Invalid) as told:
        card_requests([*pod, asking("d", 3, core=150)], {})
    assert [fault.path for fault in told.value.errors] == [
        "spec.containers[3].resources.limits[vke.volcengine.com/mgpu-core]"
    ]


def test_one_container_of_a_pod_asks_for_cards_of_gpushare_and_koordinator() -> None:
    for resource, amount in (("aliyun.com/gpu-mem", 2), ("koordinator.sh/gpu", 50)):
        pod = [Asking(name, "main", {resource: amount}, at) for at, name in enumerate("ab")]
        with pytest.raises(Invalid, match="container 'a' asks for it too: the node gives"):
            card_requests(pod, {})


def test_which_annotations_and_resources_speak_of_parts() -> None:
    kept = {COUNTS: "1", f"{OURS}/gpu-memory": "1Gi", f"{OURS}/gpu-cores-container-a": "5"}
    assert written(kept | {f"{OURS}/gpu-model": "A100", "gpu-memory": "1Gi"}) == kept
    assert is_part("nvidia.com/gpumem")
    assert is_part(MGPU)
    assert not is_part(GPU)


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (WholeCards("main", MGPU, 1), CardPart(MGPU, 3, 1000, 32510)),
        (part(MGPU, 1, 30, 1024), CardPart(MGPU, 3, 300, 1024)),
        (part(MGPU, 1, 5, 0, 33), CardPart(MGPU, 3, 50, 10729)),
        (part(MGPU, 1, 100, 3000), CardPart(MGPU, 3, 1000, 32510)),
    ],
)
def test_what_a_request_means_on_a_card(request_: CardRequest, wanted: CardPart) -> None:
    assert request_.part_of(3, CardSize(32510, 16)) == wanted
