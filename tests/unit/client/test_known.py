"""Where the service is found, and to whom a remembered token is shown."""

from pathlib import Path

import pytest

from t9ksched.client import Client, ClientError, NoService
from t9ksched.client.known import ClientFile, default_data_dir, find_by_environment

HERE = "http://127.0.0.1:1"


def test_the_order_of_what_says_it(tmp_path: Path) -> None:
    ClientFile(HERE, "remembered").write(tmp_path)
    directory = {"T9KSCHED_DATA_DIR": str(tmp_path)}
    said = directory | {"T9KSCHED_SERVER": "https://s/", "T9KSCHED_TOKEN": "t"}
    assert find_by_environment(None, None, directory) == (HERE, "remembered")
    assert find_by_environment(None, None, said) == ("https://s", "t")
    assert find_by_environment("http://a/", "mine", said) == ("http://a", "mine")
    assert find_by_environment(None, "mine", directory) == (HERE, "mine")
    assert find_by_environment(f"{HERE}/", None, directory) == (HERE, "remembered")
    assert find_by_environment("http://elsewhere.example", None, directory) == ("http://elsewhere.example", "")


def test_none_is_known(tmp_path: Path) -> None:
    with pytest.raises(NoService, match="T9KSCHED_SERVER") as raised:
        find_by_environment(None, None, {"XDG_DATA_HOME": str(tmp_path)})
    assert raised.value.file == default_data_dir({"XDG_DATA_HOME": str(tmp_path)}) / "client.json"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "client.json").write_text("{")
    with pytest.raises(ClientError, match="cannot be read"):
        find_by_environment(None, None, {"T9KSCHED_DATA_DIR": str(tmp_path)})


@pytest.mark.parametrize("server", ["127.0.0.1:8080", "ftp://host", "http://"])
def test_addresses_that_are_none(server: str) -> None:
    with pytest.raises(ValueError, match="is not the address of a server"):
        Client(server, "t")


def test_a_client_shows_no_secret() -> None:
    assert repr(Client(HERE, "secret")) == f"Client('{HERE}')"
