"""Queues that start jobs only at certain times, and jobs that ask for a start: by command and REST, from outside."""

import json
from datetime import UTC, datetime, timedelta

from tests.acceptance.conftest import EXAMPLES, Up, until

POD = str(EXAMPLES / "pod.yaml")


def reasons(up: Up, job: str) -> list[str]:
    told = json.loads(up.must("explain", job, "-o", "json"))
    return [reason["code"] for reason in told["reasons"]]


def test_a_queue_that_is_shut_until_an_administrator_opens_it(up: Up) -> None:
    now = datetime.now(UTC)
    begin, end = (f"{now + timedelta(hours=hours):%H:%M}" for hours in (6, 9))
    up.must("queues", "create", "night", "--everyone", "--start-window", f"{begin}-{end}")
    try:
        shown = json.loads(up.must("queues", "get", "night", "-o", "json"))
        assert shown["spec"]["startWindows"] == [{"from": begin, "to": end}]
        up.must("submit", "-f", POD, "--queue", "night")
        until(lambda: reasons(up, "pod/nvidia-smi") == ["OutsideWindow"], "the reason")
        assert f"T{begin}:00Z" in up.must("explain", "pod/nvidia-smi")
        for option, fault in (
            ("Mon-Fri 20:00-06:00 Mars/Olympus", "spec.startWindows[0].timeZone"),
            ("Mon,Someday 20:00-06:00", "spec.startWindows[0].days[1]"),
            ("20:00-20:00", "spec.startWindows[0].to"),
        ):
            refused = up.cli("queues", "edit", "night", "--start-window", option)
            assert (refused.code, fault in refused.err) == (1, True), refused.err
        assert up.cli("queues", "edit", "night", "--start-window", "at night").code == 2
        # On days that are far from this one, in every time zone.
        days = [("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[(now.weekday() + at) % 7] for at in (2, 3, 4)]
        evening = f"{','.join(days)} 20:00-24:00 Europe/Berlin"
        windows = ("--start-window", evening, "--start-window", f"{days[0]} 01:00-02:00")
        up.must("queues", "edit", "night", *windows)
        spec = json.loads(up.must("queues", "get", "night", "-o", "json"))["spec"]
        assert spec["startWindows"] == [
            {"days": days, "from": "20:00", "to": "24:00", "timeZone": "Europe/Berlin"},
            {"days": days[:1], "from": "01:00", "to": "02:00"},
        ]
        assert up.held() == 0
        up.must("queues", "edit", "night", "--start-window", "always")
        until(lambda: up.held() > 0, "its cards")
    finally:
        up.must("cancel", "pod/nvidia-smi", "--yes")
        until(lambda: up.held() == 0, "free cards")
        up.must("queues", "delete", "night", "--yes", "--jobs", "keep")


def test_a_job_that_asks_for_a_start(up: Up) -> None:
    for text in ("tomorrow", "2030-01-31T20:00:00"):
        refused = up.cli("submit", "-f", POD, "--begin", text)
        assert (refused.code, f"--begin: '{text}' is not a time" in refused.err) == (1, True), refused.err
    assert up.pods() == []
    up.must("submit", "-f", POD, "--begin", "2030-01-31T20:00:00+08:00")
    try:
        until(lambda: reasons(up, "pod/nvidia-smi") == ["StartTimeNotReached"], "the reason")
        assert "2030-01-31T12:00:00Z" in up.must("explain", "pod/nvidia-smi")
        (job,) = [one for one in json.loads(up.must("jobs", "-o", "json"))["items"] if one["phase"] == "Pending"]
        assert (job["reason"]["code"], job["position"], job["name"]) == ("StartTimeNotReached", None, "nvidia-smi")
    finally:
        up.must("cancel", "pod/nvidia-smi", "--yes")
    until(lambda: up.pods() == [], "no pods")
    up.must("submit", "-f", POD, "--begin", "2020-01-31T20:00:00Z")
    try:
        until(lambda: up.held() > 0, "its cards")
    finally:
        up.must("cancel", "pod/nvidia-smi", "--yes")
        until(lambda: up.held() == 0, "free cards")
