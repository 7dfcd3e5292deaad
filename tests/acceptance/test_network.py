"""A process with few descriptors under connections that send half a head, and one that has too few to start."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.acceptance.conftest import Up, environment, run

HALF = b"GET /apis/v1/queues HTTP/1.1\r\nHost: t\r\nX-A: "
FILES = 256


def test_half_sent_heads_block_no_client(tmp_path: Path) -> None:
    """As many on REST and on the dev cluster as the process may have files."""
    up = Up(tmp_path / "data", "--nodes", "small", files=FILES)
    lines: list[socket.socket] = []
    try:
        cluster = json.loads(up.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        for url in (up.server, cluster):
            host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
            for _ in range(FILES):
                line = socket.create_connection((host, int(port)), timeout=20)
                lines.append(line)
                line.sendall(HALF)
        for _ in range(5):
            assert up.rest("GET", "/healthz")[0] == 200
            assert up.rest("GET", "/readyz")[0] == 200
            assert up.rest("GET", "/apis/v1/queues")[0] == 200
            assert up.kube("GET", "/api/v1/nodes")[0] == 200
        assert up.process.poll() is None
    finally:
        for line in lines:
            line.close()
        assert up.stop() == 0
    assert "Traceback" not in up.log
    assert len(up.log) < 20_000, up.log[-2000:]


def test_too_few_descriptors_are_told(tmp_path: Path) -> None:
    command = ["bash", "-c", 'ulimit -n 64; exec "$0" "$@"', sys.executable, "-m", "t9ksched", "up", "--port", "0"]
    done = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "64 files" in done.stderr
    assert "ulimit -n" in done.stderr
    assert "did not foresee" not in done.stderr


def test_what_is_no_http_fills_no_log(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", "--nodes", "small")
    try:
        cluster = json.loads(up.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        for url in (up.server, cluster):
            host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
            for raw in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\nA\xff: \x00\r\n\r\n") * 50:
                with socket.create_connection((host, int(port)), timeout=20) as line:
                    line.sendall(raw)
                    while line.recv(4096):
                        pass
        assert up.kube("GET", "/api/v1/nodes")[0] == 200
    finally:
        assert up.stop() == 0
    assert "Traceback" not in up.log
    assert "Error handling" not in up.log
    assert len(up.log) < 20_000, up.log[-2000:]


def test_a_journal_changed_by_hand_is_named(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    assert Up(directory, "--nodes", "small").stop() == 0
    file = directory / "cluster" / "cluster.journal"
    lines = file.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith(b'["nodes",'):
            lines[number] = re.sub(rb'"cpu":"[^"]*"', b'"cpu":"many"', line)
    file.write_bytes(b"".join(lines))
    done = run("up", "--port", "0", "--nodes", "small", "--data-dir", str(directory))
    assert (done.code, "foresee" in done.err) == (1, False), done.err
    told = " ".join(done.err.split())
    assert "cluster.journal, line" in told
    assert "restore it from a copy" in told
    assert file.read_bytes().splitlines(keepends=True) == lines
