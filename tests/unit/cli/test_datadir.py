import stat
from pathlib import Path

import pytest

from t9ksched.cli.client import Client
from t9ksched.cli.datadir import lock
from t9ksched.cli.failure import Failure
from t9ksched.client.known import ClientFile, default_data_dir


def test_the_client_file_is_its_owners_alone(tmp_path: Path) -> None:
    ClientFile("http://127.0.0.1:1", "secret").write(tmp_path)
    assert stat.S_IMODE((tmp_path / "client.json").stat().st_mode) == 0o600
    assert ClientFile.read(tmp_path) == ClientFile("http://127.0.0.1:1", "secret")
    assert [path.name for path in tmp_path.iterdir()] == ["client.json"]


def test_a_broken_client_file_says_what_to_do(tmp_path: Path) -> None:
    assert ClientFile.read(tmp_path) is None
    (tmp_path / "client.json").write_text('{"server": 1')
    with pytest.raises(Failure, match="cannot be read") as failure:
        Client.find(None, None, tmp_path)
    assert "t9ksched up" in failure.value.remedy


def test_one_process_at_a_time_owns_a_directory(tmp_path: Path) -> None:
    first = lock(tmp_path / "new")
    with pytest.raises(Failure, match=r"in use by another t9ksched \(process \d+\)"):
        lock(tmp_path / "new")
    first.close()
    lock(tmp_path / "new").close()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match="cannot be used"):
        lock(tmp_path / "file" / "below")


def test_the_default_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_data_dir() == tmp_path / "t9ksched"
