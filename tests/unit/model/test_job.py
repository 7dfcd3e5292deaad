"""The JSON of a job: all fields but those at its end, of which only those are told that say something."""

import msgspec
import pytest

from t9ksched.model.job import JobMembers, JobReason, JobView
from t9ksched.model.timelimit import TimeLimit


@pytest.mark.parametrize(
    "said", [{}, {"labels": {"a": "b"}, "former_submitters": ("ann",), "root": "Job/j", "root_uid": "u"}]
)
def test_what_is_encoded_is_what_rest_shows(said: dict[str, object]) -> None:
    about = {
        "api_version": "v1",
        "namespace": "ns",
        "kind": "Pod",
        "name": "p",
        "uid": "u",
        "group": None,
        "queue": "q",
    }
    unknown = dict.fromkeys(("submitter", "submitted_at", "started_at", "finished_at", "position", "planned_start"))
    more = {
        "priority": 0,
        "phase": "Pending",
        "members": JobMembers(1, 1),
        "gpus": 0,
        "cards": 0.0,
        "expected_start": None,
    }
    job = JobView(**about, **unknown, **more, reason=JobReason("C", "m"), time_limit=TimeLimit(60, "job"), **said)  # type: ignore[arg-type]
    shown = job.to_json()
    assert msgspec.json.encode(job) == msgspec.json.encode(shown)
    assert list(shown)[-1 - len(said)] == "timeLimit"
    assert shown["timeLimit"] == {"seconds": 60, "source": "job", "enforced": True}
    assert shown["position"] is None
    assert shown["reason"] == {"code": "C", "message": "m"}
