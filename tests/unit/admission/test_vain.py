"""What is accepted and has no effect is told with its path."""

from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from t9ksched.admission.vain import vain
from tests.unit.workloads.builders import experiment, notebook, pytorch


def line(key: Any) -> str:
    openssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return str(key.public_key().public_bytes(*openssh).decode())


ED25519, ECDSA = line(Ed25519PrivateKey.generate()), line(generate_private_key(SECP256R1()))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ([ED25519, f"{ECDSA} ann@home", f'from="a b,c" {ED25519} x', "", "# mine", f"{ED25519}\n{ECDSA}\n"], []),
        (["not a key", ED25519, ED25519.replace("ssh-ed25519", "ssh-rsa")], [0, 2]),
        ([ED25519[:-8], ED25519[:40], "ssh-ed25519", "ssh-ed25519 AAA ann", f"{ED25519}\nx y"], [0, 1, 2, 3, 4]),
    ],
)
def test_keys_that_open_nothing(keys: list[str], told: list[int]) -> None:
    found = list(vain(notebook(ssh={"enabled": True, "authorized_keys": keys})))
    assert [one.path for one in found] == [f"spec.ssh.authorized_keys[{number}]" for number in told]
    assert all("opens nothing" in one.message for one in found)


@pytest.mark.parametrize(
    ("tuner", "arguments", "told"),
    [
        (
            "Random",
            '{"parallel_optimize": true, "constant_liar_type": "min"}',
            ["constant_liar_type", "parallel_optimize"],
        ),
        ("Batch", {"population_size": 32, "optimize_mode": "minimize"}, ["population_size"]),
        ("TPE", '{"parallel_optimize": true, "constant_liar_type": "min"}', []),
        ("Random", '{"optimize_mode": "minimize", "seed": 1}', []),
        ("Random", "{", []),
        ("x", None, []),
    ],
)
def test_arguments_that_a_tuner_has_no_use_for(tuner: str, arguments: Any, told: list[str]) -> None:
    asked = experiment()
    asked["spec"]["tuner"] = {"builtinTunerName": tuner, "classArgs": arguments}
    found = [(one.path, one.message.partition(" ")[0]) for one in vain(asked)]
    assert found == [("spec.tuner.classArgs", name) for name in told]


def test_of_other_kinds_there_is_nothing_to_tell() -> None:
    assert list(vain(pytorch())) == []
