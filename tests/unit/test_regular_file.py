"""Files that others may replace by a pipe or a device: no reader waits for one, each says what it found."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from t9ksched.client.errors import ClientError
from t9ksched.client.known import ClientFile
from t9ksched.devcluster.apiserver.journal import CorruptJournal, Journal
from t9ksched.devcluster.nodes.presets import load_nodes
from t9ksched.kube.transport.config import ConfigError, check
from t9ksched.kube.transport.credentials import Access, Credentials
from t9ksched.model.errors import Invalid
from t9ksched.regular_file import NotAFile, read_file


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "says"), [(os.mkfifo, "it is a pipe"), (os.mkdir, "it is a directory"), (_device, "it is a device")]
)
def test_only_a_regular_file_is_read(tmp_path: Path, make: Callable[[Path], None], says: str) -> None:
    make(tmp_path / "x")
    with pytest.raises(NotAFile, match=says):
        read_file(tmp_path / "x", 10)


def test_a_file_has_a_largest_size_and_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to("x")
    assert read_file(tmp_path / "link", 10) == read_file(tmp_path / "x") == b"0123456789"
    with pytest.raises(NotAFile, match="larger than 9 bytes"):
        read_file(tmp_path / "link", 9)
    with pytest.raises(OSError, match="No such file"):
        read_file(tmp_path / "none")
    _socket(tmp_path / "s")
    with pytest.raises(OSError, match=r"No such device|socket"):
        read_file(tmp_path / "s")


@pytest.mark.parametrize("key", ["certificate-authority", "client-certificate", "client-key", "tokenFile"])
@pytest.mark.parametrize("relative", [True, False])
def test_a_kubeconfig_names_no_pipes(tmp_path: Path, key: str, relative: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    named = f"{key}: {'pipe' if relative else tmp_path / 'pipe'}"
    cluster, user = (f", {named}", "") if key == "certificate-authority" else ("", named)
    (tmp_path / "kubeconfig").write_text(
        f"clusters: [{{name: c, cluster: {{server: 'https://c'{cluster}}}}}]\n"
        f"users: [{{name: u, user: {{{user}}}}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "current-context: x\n"
    )
    with pytest.raises(ConfigError, match="it is a pipe") as refused:
        check(str(tmp_path / "kubeconfig"))
    assert refused.value.field.endswith(key)


def test_pipes_in_place_of_our_own_files_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "client.json"
    os.mkfifo(pipe)
    os.mkfifo(tmp_path / "cluster.journal")
    with pytest.raises(ClientError, match="it is a pipe"):
        ClientFile.read(tmp_path)
    with pytest.raises(Invalid, match="it is a pipe"):
        load_nodes(pipe)
    with pytest.raises(ConfigError, match="it is a pipe"):
        check(str(pipe))
    with pytest.raises(CorruptJournal, match="it is a pipe"):
        Journal(tmp_path).open()


async def test_a_certificate_that_becomes_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ca")

    async def source() -> Access:
        return Access("https://c", ca_file=str(tmp_path / "ca"))

    with pytest.raises(NotAFile, match="it is a pipe"):
        await Credentials(source).open()
