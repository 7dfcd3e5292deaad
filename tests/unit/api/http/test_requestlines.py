"""The lines of requests in the log: bounded, with a share for what went wrong, and what is left out is counted."""

import pytest
import structlog

from t9ksched.api.http.requestlines import A_MINUTE, NOTEWORTHY_A_MINUTE, SLOW_SECONDS, RequestLines
from tests.unit.api.world import World


@pytest.mark.parametrize(("status", "took"), [(500, 0.0), (503, 0.0), (200, SLOW_SECONDS)])
def test_a_flood_leaves_lines_for_what_went_wrong(status: int, took: float) -> None:
    lines = RequestLines()
    assert sum(lines.has_line(200, 0.1, 0.0) for _ in range(1000)) == A_MINUTE
    assert sum(lines.has_line(status, took, 59.0) for _ in range(1000)) == NOTEWORTHY_A_MINUTE


def test_what_had_no_line_is_told_once_after_the_minute() -> None:
    lines = RequestLines()
    for _ in range(A_MINUTE + 7):
        lines.has_line(200, 0.1, 0.0)
    assert [lines.untold(now) for now in (0.0, 59.0, 60.0, 61.0)] == [0, 0, 7, 0]
    assert lines.has_line(200, 0.1, 61.0)


async def test_many_requests_write_few_lines(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    has_line = RequestLines.has_line
    monkeypatch.setattr(RequestLines, "has_line", lambda self, status, took, _: has_line(self, status, took, 1e9))
    with structlog.testing.capture_logs() as logged:
        for _ in range(A_MINUTE + NOTEWORTHY_A_MINUTE + 20):
            await world.nobody("GET", "/docs")
    lines = [line["log_level"] for line in logged if line["event"] == "request"]
    assert len(lines) == A_MINUTE + NOTEWORTHY_A_MINUTE + 20
    assert 0 < lines.count("info") <= A_MINUTE + NOTEWORTHY_A_MINUTE, "some of them may have been slow"
