"""Files of nodes and pods for `simulate fill`, sound and faulty ones."""

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.simulation.openb import FillNode, FillPod, read_nodes, read_pods

NODES = "sn,cpu_milli,memory_mib,gpu,model"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"


def test_nodes_and_pods() -> None:
    assert read_nodes([NODES, "a,96000,393216,8,V100", "b,32000,1024,0,"]) == [
        FillNode("a", 96_000, 393_216, 8, "V100"),
        FillNode("b", 32_000, 1024, 0, ""),
    ]
    read = read_pods([PODS, "p,1000,2048,1,460,T4|A10", "q,1000,2048,0,0,", "r,1000,2048,1,460,A10|T4"])
    assert read == [FillPod(1000, 2048, 1, 460, ("A10", "T4")), FillPod(1000, 2048, 0, 0), read[0]]
    assert read[2] is read[0]


@pytest.mark.parametrize(
    ("lines", "path"),
    [
        (["sn,cpu_milli"], "line 1"),
        ([NODES, "a,1,1,x,T4"], "line 2, gpu"),
        ([NODES, "a,1,1,65,T4"], "line 2, gpu"),
        ([NODES, "a,-1,1,1,T4"], "line 2, cpu_milli"),
        ([NODES, "a,1,1,1,T4", "a,1,1,1,T4"], "line 3, sn"),
        ([NODES, ",1,1,1,T4"], "line 2, sn"),
        ([NODES, "a,1,1,0,"], "nodes"),
        ([NODES, "a,1,1"], "line 2, gpu"),
        ([NODES, 'a,"1'], "line 2"),
    ],
)
def test_faulty_nodes(lines: list[str], path: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_nodes(lines)
    assert [fault.path for fault in caught.value.errors] == [path]


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("p,1,1,1,0,", "line 2, gpu_milli"),
        ("p,1,1,1,1001,", "line 2, gpu_milli"),
        ("p,1,1,2,500,", "line 2, gpu_milli"),
        ("p,1,1e3,1,500,", "line 2, memory_mib"),
        ("p,1,1,0,0,", "pods"),
    ],
)
def test_faulty_pods(line: str, path: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_pods([PODS, line])
    assert [fault.path for fault in caught.value.errors] == [path]
