"""How a pod ended, in words."""

from typing import Any

import pytest

from t9ksched.model.ending import MOST_SAID, shorten
from t9ksched.model.pod import decode_pod

Object = dict[str, Any]


def ended(*ends: Object, init: tuple[Object, ...] = (), **status: Any) -> str:
    def listed(found: tuple[Object, ...]) -> list[Object]:
        return [{"name": f"c{index}", "state": {"terminated": end}} for index, end in enumerate(found)]

    status |= {"phase": "Failed", "containerStatuses": listed(ends), "initContainerStatuses": listed(init)}
    found = decode_pod({"metadata": {}, "spec": {}, "status": status}).status.ending
    return found.how + found.last_words


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (ended({"exitCode": 1, "reason": "Error"}), "ended with exit code 1"),
        (ended({"exitCode": 137, "reason": "OOMKilled"}), "ended with exit code 137 (SIGKILL), OOMKilled"),
        (ended({"exitCode": 0, "signal": 9}), "ended with signal 9 (SIGKILL)"),
        (ended({"exitCode": 255}), "ended with exit code 255"),
        (ended({"exitCode": 1, "message": "a\nno data\n"}), "ended with exit code 1; its last message: a | no data"),
        (ended({"exitCode": 0}, {"exitCode": 2}), "ended with exit code 2 in container c1"),
        (ended({"exitCode": 143}, init=({"exitCode": 3},)), "ended with exit code 3 in container c0"),
        (ended(reason="Evicted", message="low on memory"), "failed (Evicted); its last message: low on memory"),
        (
            ended({"exitCode": 137, "reason": "Error"}, reason="Evicted", message="low on disk"),
            "ended with exit code 137 (SIGKILL), Evicted; its last message: low on disk",
        ),
        (ended(), "failed"),
        (ended({"exitCode": 0}), "failed"),
    ],
)
def test_endings(told: str, text: str) -> None:
    assert told == text


def test_the_end_of_a_long_message_is_kept() -> None:
    kept = shorten("x" * 5000 + "the reason")
    assert len(kept) == MOST_SAID + 1
    assert kept.endswith("the reason")
