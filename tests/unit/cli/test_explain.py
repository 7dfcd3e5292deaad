"""How an explanation reads: who holds what, in cards or in cpu, and until when."""

import io

import pytest
from rich.console import Console

from t9ksched.cli.commands.explain import show


def test_holders_are_told_in_what_they_hold() -> None:
    out = Console(file=io.StringIO(), width=100)
    holders = [
        {"queue": "q", "job": "ns/MPIJob/walk", "gpus": 8, "holds": {"nvidia.com/gpu": "8"}, "until": None},
        {"queue": "q", "job": None, "gpus": 1, "holds": {"nvidia.com/gpu": "1"}, "until": "2031-05-01T00:00:00Z"},
        {"queue": None, "job": "ns/Pod/web", "gpus": 0, "holds": {"cpu": "50", "memory": "1Gi"}, "until": None},
    ]
    reason = {"code": "InsufficientResources", "message": "needs 8", "needs": {"cpu": "8"}, "has": {}, "nodes": {}}
    show(
        {
            "job": {"kind": "Pod", "name": "p", "namespace": "ns", "queue": "q", "members": {}},
            "verdict": "Waiting",
            "reasons": [reason],
            "holders": holders,
            "unblocks": ["room is given back"],
            "position": 3,
        },
        out,
    )
    text = out.file.getvalue()  # type: ignore[attr-defined]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "Place in its queue: 3" in lines
    assert "q ns/MPIJob/walk 8 GPUs unknown" in lines
    assert "q – 1 GPU 2031-05-01T00:00:00Z" in lines, "a job of another user has no name"
    assert "– ns/Pod/web 50 cpu, 1Gi memory unknown" in lines
    assert "→ room is given back" in lines


@pytest.mark.parametrize("firm", [True, False])
def test_a_planned_start_and_who_starts_before(firm: bool) -> None:
    out = Console(file=io.StringIO(), width=400)
    plan = {"at": "2000-01-01T00:00:00Z", "firm": firm, "nodes": [f"n{index}" for index in range(10)]}
    before = {"queue": "q", "job": "ns/Pod/a", "gpus": 2, "from": "2000-01-01T00:00:00Z", "until": None}
    show({"job": {"kind": "Pod", "name": "p", "plannedStart": plan}, "verdict": "Waiting", "holders": [before]}, out)
    lines = [" ".join(line.split()) for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    start, *sure = (
        ("Planned start",) if firm else ("Expected to start", "(tentative: it relies on ends that nothing enforces)")
    )
    told = next(line for line in lines if line.startswith(start))
    where = "2000-01-01T00:00:00Z, now, on n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"
    assert told == " ".join([f"{start}: {where}", *sure])
    assert "Jobs that hold what it needs:" not in lines, "nothing holds it now"
    assert lines[lines.index("Jobs that are to start there:") + 2] == "q ns/Pod/a 2 GPUs 2000-01-01T00:00:00Z unknown"


def test_reservations_that_keep_room_have_a_table() -> None:
    out = Console(file=io.StringIO(), width=200)
    span = {"from": "2031-05-01T00:00:00Z", "until": "2031-05-02T00:00:00Z"}
    kept = {"queue": None, "job": None, "reservation": "works", "nodes": 2, "gpus": 16, "holds": {}, **span}
    job = {"queue": "q", "job": "ns/Pod/a", "gpus": 2, "from": None, "until": None}
    show({"job": {"kind": "Pod", "name": "p"}, "verdict": "Waiting", "holders": [job, kept]}, out)
    lines = [" ".join(line.split()) for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    head = lines.index("Reservations that keep room there:")
    assert lines[head + 1 : head + 3] == [
        "RESERVATION NODES GPUS FROM UNTIL",
        "works 2 16 2031-05-01T00:00:00Z 2031-05-02T00:00:00Z",
    ]
    assert "Jobs that are to start there:" not in lines
    assert lines[lines.index("Jobs that hold what it needs:") + 2] == "q ns/Pod/a 2 GPUs unknown"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("job", "Time limit: 1h10m (its own)"),
        ("queue", "Time limit: 1h10m (its queue's maxDuration)"),
        ("learned", "Expected to run: 1h10m at most, as jobs like it did (nothing enforces it)"),
    ],
)
def test_how_long_it_may_run_and_who_says_so(source: str, told: str) -> None:
    out = Console(file=io.StringIO(), width=200)
    limit = {"seconds": 4200, "source": source, "enforced": source != "learned"}
    show({"job": {"kind": "Pod", "name": "p", "timeLimit": limit}, "verdict": "Placed"}, out)
    assert told in out.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_a_stop_that_is_the_reason_is_told_once() -> None:
    stops = [{"what": what, "by": "ann", "until": None, "why": ""} for what in ("scheduling", "preemption")]
    reason = {
        "code": "SchedulingStopped",
        "message": "scheduling is stopped by ann",
        "needs": {},
        "has": {},
        "nodes": {},
    }
    for reasons in ([reason], []):
        out = Console(file=io.StringIO(), width=200)
        show({"job": {"kind": "Pod", "name": "p"}, "verdict": "Waiting", "reasons": reasons, "stopped": stops}, out)
        text = out.file.getvalue()  # type: ignore[attr-defined]
        assert text.count("scheduling is stopped") == 1
        assert text.count("preemption is stopped") == 1


@pytest.mark.parametrize(
    ("source", "told"),
    [("job", "its own"), ("queue", "its queue's maxDuration"), ("reservation", "the rest of its reservation")],
)
def test_whose_time_limit_it_is(source: str, told: str) -> None:
    out = Console(file=io.StringIO(), width=200)
    limit = {"seconds": 5400, "source": source, "enforced": True}
    show({"job": {"kind": "Pod", "name": "p", "timeLimit": limit}, "verdict": "Placed"}, out)
    assert f"Time limit: 1h30m ({told})" in out.file.getvalue()  # type: ignore[attr-defined]


def test_linked_cards_are_told_pod_by_pod() -> None:
    out = Console(file=io.StringIO(), width=100)
    links = [{"pod": f"p-{at}", "node": "n", "cards": [0, 1, 2, 3], "linked": "NV12"} for at in range(20)]
    show({"job": {"kind": "Pod", "name": "p", "members": {}}, "verdict": "Placed", "links": links}, out)
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[1] == "p-0 on n: cards 0,1,2,3 linked NV12"
    assert lines[-2:] == ["p-15 on n: cards 0,1,2,3 linked NV12", "… and 4 more pods: -o json has them"]
