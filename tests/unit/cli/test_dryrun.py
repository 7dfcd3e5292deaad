"""What a dry run prints of a simulation."""

import io
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from t9ksched.cli.dryrun import _length, objects_of, show

Json = dict[str, Any]
REASON = {"code": "PlannedStart", "message": "it is planned to start then"}


def job(verdict: str, start: str | None = None, **more: Any) -> Json:
    head = {"namespace": "ml", "kind": "Pod", "name": "a", "verdict": verdict, "start": start, "nodes": []}
    return head | {"reasons": [], "preempts": []} | more


def printed(*jobs: Json, others: tuple[Json, ...] = ()) -> str:
    out = io.StringIO()
    found = {"jobs": list(jobs), "others": list(others), "at": "2026-01-01T00:00:00Z", "until": "2026-01-08T00:00:00Z"}
    show(found, Console(file=out, width=240))
    return out.getvalue()


NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (119, "1m 59s"),
        (3659, "1h"),
        (7199, "1h 59m"),
        (86_400, "1d"),
        (90_061, "1d 1h"),
        (86_460, "1d"),
    ],
)
def test_lengths_in_their_two_largest_units(seconds: int, text: str) -> None:
    assert _length(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (job("Starts", NOW, nodes=["n1", "n2"]), "Pod/a would start at once on n1, n2"),
        (
            job("Starts", NOW, nodes=[f"n{at}" for at in range(10)]),
            "Pod/a would start at once on n0, n1, n2, n3, n4, n5, n6, n7 and 2 more",
        ),
        (
            job("Waits", LATER, nodes=["n1"], reasons=[REASON]),
            f"Pod/a would wait, and start at {LATER} (in 1d 3h) on n1\n  PlannedStart: it is planned to start then",
        ),
        (job("Waits"), "Pod/a would wait: no start is found up to 2026-01-08T00:00:00Z"),
        (job("Refused", reasons=[REASON]), "Pod/a would be refused\n  PlannedStart: it is planned to start then"),
        (
            job(
                "Starts",
                LATER,
                preempts=[
                    {"job": "ml/Pod/b", "queue": "low", "members": 1},
                    {"job": None, "queue": "low", "members": 2},
                ],
            ),
            f"Pod/a would start as soon as others have left, at {LATER} at the latest\n"
            "  it would evict 1 member of ml/Pod/b (queue low)\n"
            "  it would evict 2 members of a job of another user (queue low)",
        ),
    ],
)
def test_jobs(shape: Json, text: str) -> None:
    assert printed(shape) == f"{text}\n"


def test_others() -> None:
    def one(before: str | None, after: str | None, name: str | None = "ml/Pod/b", preempted: bool = False) -> Json:
        return {"job": name, "queue": "q", "startBefore": before, "startAfter": after, "preempted": preempted}

    others = (
        one(NOW, LATER),
        one(NOW, None, None),
        one(None, LATER),
        one(NOW, LATER, preempted=True),
        one(NOW, None, preempted=True),
        *[one(NOW, LATER)] * 7,
    )
    assert printed(others=others).splitlines()[1:8] == [
        "Jobs that are there already:",
        f"  ml/Pod/b (queue q) would start at {LATER} instead of {NOW}",
        f"  a job of another user (queue q) would not start at {NOW} as it would without",
        f"  ml/Pod/b (queue q) would start at {LATER}",
        f"  ml/Pod/b (queue q) would be evicted, and start again at {LATER}",
        "  ml/Pod/b (queue q) would be evicted",
        f"  ml/Pod/b (queue q) would start at {LATER} instead of {NOW}",
    ]
    assert printed(others=others).splitlines()[-1] == "  … and 2 more"


def test_objects_of_files() -> None:
    files = [b"kind: A\n---\nkind: B\n---\n", b'{"kind": "List", "items": [{"kind": "C"}]}']
    assert [one["kind"] for one in objects_of(files)] == ["A", "B", "C"]
