"""What the Secrets of workloads are filled with: SSH key pairs, Ed25519 in OpenSSH's own text formats, and tokens.

Only keys and tokens are made here; nothing is signed, and they are written to the workload's Secret only.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from t9ksched.workloads.actions import Object
from t9ksched.workloads.keypair import digest_of, is_token, on_record, with_keys, with_token


class KeyPair(msgspec.Struct, frozen=True):
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


def new_token() -> str:
    """A token from the system's random numbers."""
    return f"t9kt_{secrets.token_urlsafe(32)}"


@dataclass(frozen=True, slots=True)
class SecretMaker:
    """Fills Secrets. `rest` is the URL at which pods reach REST, empty if nobody said it."""

    keys: Callable[[str], KeyPair] = new_key_pair
    token: Callable[[], str] = field(default=new_token, repr=False)
    rest: str = ""

    def filled(self, secret: Object, config: Object, comment: str) -> tuple[Object, Object]:
        """The Secret with what it is for, and its ConfigMap with what is on record of it."""
        if is_token(secret):
            token = self.token()
            return with_token(secret, config, self.rest, token), on_record(config, secret, digest_of(token))
        pair = self.keys(comment)
        return with_keys(secret, config, pair.private, pair.public), on_record(config, secret)
