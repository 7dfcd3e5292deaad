"""Key pairs as OpenSSH reads them."""

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from t9ksched.controller.sshkeys import new_key_pair


def test_file_format() -> None:
    pair = new_key_pair("walk.lab")
    assert pair.public.endswith("walk.lab\n")
    kind, blob, comment = pair.public.split()
    assert (kind, comment) == ("ssh-ed25519", "walk.lab")
    public = base64.b64decode(blob)[-32:]
    assert pair.private.endswith("\n")
    first, *body, last = pair.private.strip().split("\n")
    assert (first, last) == ("-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----")
    raw = base64.b64decode("".join(body))
    assert raw.startswith(b"openssh-key-v1\0")
    assert raw.count(public) == 3, "in the public part, in the private part, and after the seed"


def test_without_a_comment_the_line_ends_with_the_key() -> None:
    assert len(new_key_pair().public.split(" ")) == 2


def test_keys_differ() -> None:
    assert new_key_pair().private != new_key_pair().private


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")
def test_openssh_reads_them(tmp_path: Path) -> None:
    pair = new_key_pair("walk.lab")
    file = tmp_path / "key"
    file.write_text(pair.private)
    file.chmod(0o600)
    told = subprocess.run(["ssh-keygen", "-y", "-f", str(file)], capture_output=True, text=True, check=True)
    assert told.stdout.split()[:2] == pair.public.split()[:2]
