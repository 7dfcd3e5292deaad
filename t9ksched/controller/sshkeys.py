"""Fresh SSH key pairs for MPI jobs: Ed25519 in OpenSSH's own text formats.

Only keys are made here; nothing is signed, and the private key is written to the job's Secret only.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The file of the private key, and the line of the public one for `authorized_keys`."""

    private: str
    public: str


def new_key_pair(comment: str = "") -> KeyPair:
    """A pair from the system's random numbers; the comment is in the public line."""
    # Imported on use: few jobs need keys, and a start without the library is shorter.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return KeyPair(private, f"{public} {comment}".strip() + "\n")
