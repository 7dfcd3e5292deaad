"""Key pairs against the vectors of RFC 8032 (section 7.1) and against the file format's own rules."""

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from t9ksched.controller.sshkeys import key_pair, new_key_pair, public_key

VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
    ),
]


@pytest.mark.parametrize(("seed", "public"), VECTORS)
def test_public_keys(seed: str, public: str) -> None:
    assert public_key(bytes.fromhex(seed)).hex() == public


def test_file_format() -> None:
    seed, public = (bytes.fromhex(text) for text in VECTORS[0])
    pair = key_pair(seed, b"abcd", "walk.lab")
    first, *body, last = pair.private.strip().split("\n")
    assert (first, last) == ("-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----")
    raw = base64.b64decode("".join(body))
    assert raw.startswith(b"openssh-key-v1\0")
    assert raw.count(public) == 3, "in the public part, in the private part, and after the seed"
    assert raw.count(seed) == 1
    assert raw.count(b"abcdabcd") == 1
    kind, blob, comment = pair.public.split()
    assert (kind, comment) == ("ssh-ed25519", "walk.lab")
    assert base64.b64decode(blob).endswith(public)


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
