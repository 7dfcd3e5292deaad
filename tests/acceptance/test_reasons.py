"""What `explain` says of members of a gang, and of jobs that came while scheduling was stopped."""

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import EXAMPLES, Json, Up, until


def explained(up: Up, reference: str) -> Json:
    """The explanation as a program gets it."""
    found: Json = json.loads(up.must("explain", reference, "-o", "json"))
    return found


def codes(answer: Json) -> list[str]:
    """Codes of its reasons."""
    return [reason["code"] for reason in answer["reasons"]]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job of 4 × 4 cards that its file names `member`."""
    file = tmp_path / "job.yaml"
    file.write_text((EXAMPLES / "pytorch.yaml").read_text().replace("resnet", "member"))
    return file


def test_a_member_of_a_gang_has_the_reasons_of_its_gang(up: Up, job: Path) -> None:
    """Seen once: for the pod of a job the answer was that it had not been seen yet, for ever."""
    up.must("stop-scheduling", "--preemption", "--why", "leaves a line in every explanation, and nothing else")
    up.must("queues", "create", "nowhere", "--everyone", "--node-label", "no=such")
    up.must("submit", "-f", str(job), "--queue", "nowhere")
    until(lambda: (told := _with_reasons(up, "pj/member")) and codes(told) == ["NoNodeMatches"], "the reason of all")
    member = until(lambda: _with_reasons(up, "pod/member-worker-0"), "a reason of the member")
    assert (member["verdict"], codes(member)) == ("Waiting", ["NoNodeMatches"])
    assert member["job"]["name"] == "member"
    assert member["holders"] == []
    up.must("cancel", "pj/member", "--yes")
    up.must("wait", "pj/member", "--for", "deleted", "--timeout", "150s")
    up.must("queues", "delete", "nowhere", "--yes")
    up.must("stop-scheduling", "--preemption", "--resume")


def test_a_member_that_runs_is_placed(up: Up, job: Path) -> None:
    up.must("submit", "-f", str(job))
    up.must("wait", "pj/member", "--for", "running", "--timeout", "150s")
    found = explained(up, "pod/member-worker-0")
    assert (found["verdict"], found["reasons"]) == ("Placed", [])
    up.must("cancel", "pj/member", "--yes")
    up.must("wait", "pj/member", "--for", "deleted", "--timeout", "150s")


def test_during_a_stop_the_reason_is_the_stop_and_no_job_is_named(up: Up, job: Path) -> None:
    """Seen once: no reason at all, and the jobs that ran were named as those that hold what it needs."""
    running = job.with_name("other.yaml")
    running.write_text(job.read_text().replace("member", "other"))
    up.must("submit", "-f", str(running))
    up.must("wait", "pj/other", "--for", "running", "--timeout", "150s")
    up.must("stop-scheduling", "--for", "1h", "--why", "new switches")
    up.must("submit", "-f", str(job))
    found = until(lambda: _with_reasons(up, "pj/member"), "a reason")
    assert (found["verdict"], codes(found), found["holders"]) == ("Waiting", ["SchedulingStopped"], [])
    message = found["reasons"][0]["message"]
    assert all(word in message for word in ("admin", "until 20", "new switches")), message
    assert any("--resume" in text for text in found["unblocks"])
    up.must("stop-scheduling", "--resume")
    up.must("wait", "pj/member", "--for", "running", "--timeout", "150s")
    for name in ("pj/member", "pj/other"):
        up.must("cancel", name, "--yes")
        up.must("wait", name, "--for", "deleted", "--timeout", "150s")


def test_what_was_accepted_during_a_stop_starts_though_its_queue_was_closed_since(up: Up, job: Path) -> None:
    up.must("stop-scheduling", "--for", "1h")
    up.must("submit", "-f", str(job), "--queue", "a40", "--priority", "3")
    until(lambda: _with_reasons(up, "pj/member"), "a reason")
    up.must("queues", "close", "a40")
    up.must("stop-scheduling", "--resume")
    up.must("wait", "pj/member", "--for", "running", "--timeout", "150s")
    up.must("queues", "open", "a40")
    up.must("cancel", "pj/member", "--yes")
    up.must("wait", "pj/member", "--for", "deleted", "--timeout", "150s")


def _with_reasons(up: Up, reference: str) -> Json | None:
    """The explanation, once it has a reason of the scheduler's own."""
    done = up.cli("explain", reference, "-o", "json")
    found: Json = json.loads(done.out) if done.code == 0 else {"reasons": []}
    return found if found["reasons"] and "not seen" not in found["reasons"][0]["message"] else None
