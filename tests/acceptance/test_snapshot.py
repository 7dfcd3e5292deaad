"""`t9ksched snapshot`, as an administrator takes one, and what `simulate replay` makes of it."""

from pathlib import Path

from tests.acceptance.conftest import Up, run


def test_a_snapshot_is_taken_and_replayed(up: Up, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(up.must("snapshot"))
    replay = ("simulate", "replay", "--jobs", str(path), "--format", "snapshot")
    done = run(*replay)
    assert done.code == 2
    assert "there is nothing to count: no job is at these positions: there are 0" in " ".join(done.err.split())
    assert "srtf and srsf choose anew which jobs run" in run(*replay, "--policy", "srsf").err
