"""What is said before a job is stopped or scaled."""

from typing import Any

import pytest

from t9ksched.cli.consequences import is_up, of_cancelling, of_pausing, of_scaling


def job(phase: str = "Running", running: int = 4, total: int = 4, minimum: int = 4, gpus: int = 8, **more: Any) -> Any:
    members = {"min": minimum, "total": total, "running": running, "bound": running}
    return {"kind": "Job", "name": "a", "phase": phase, "queue": "q", "gpus": gpus, "members": members, **more}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            of_pausing(job()),
            [
                "4 of 4 pods run on 8 cards: all of them are stopped",
                "cards are free for others",
                "waits in queue q for room again and starts 4 pods at once, or none",
            ],
        ),
        (
            of_pausing(job(running=1, total=1, minimum=1, gpus=1)),
            ["its pod runs on 1 card and is stopped", "the card is free for others", "starts when there is room"],
        ),
        (of_pausing(job(gpus=0)), ["4 of 4 pods run: all of them are stopped. What was not saved is lost."]),
        (of_pausing(job("Pending", 0)), ["no pod of it is on a node (Pending)"]),
        (of_cancelling(job()), ["4 of 4 pods run on 8 cards", "pods and their logs are deleted"]),
        (of_cancelling(job("Pending", 0, position=3)), ["loses place 3 in queue q"]),
        (of_cancelling(job("Succeeded")), ["has ended (Succeeded)"]),
        (of_scaling(job(), 6), ["2 more pods with 4 cards are made"]),
        (of_scaling(job(), 3), ["1 of 4 pods with 2 cards is stopped"]),
    ],
)
def test_sentences(lines: list[str], told: list[str]) -> None:
    text = " ".join(lines)
    assert [words for words in told if words not in text] == [], text


def test_what_changes_nothing_is_not_told() -> None:
    assert of_scaling(job(), 4) == of_scaling(job("Pending", 0), 6) == []
    assert is_up(job())
    assert not is_up(job("Pending", 0))
    assert not is_up(job("Failed"))
