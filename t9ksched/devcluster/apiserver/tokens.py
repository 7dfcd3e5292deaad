"""Tokens of service accounts: issued by the TokenRequest subresource, and verified by their own signature.

A token is a JSON Web Token (RFC 7519) signed with a key of this cluster (HMAC-SHA-256), so that nothing has to be kept.
It is valid until it expires, and only while the account of that UID exists.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from t9ksched.devcluster.apiserver.auth import User
from t9ksched.devcluster.apiserver.status import bad_value, invalid
from t9ksched.devcluster.apiserver.storage import Storage

Object = dict[str, Any]
ACCOUNTS: Final = "serviceaccounts"
ACCOUNT: Final = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
"""The user name of an account: its namespace and its name."""
AUDIENCE: Final = "https://kubernetes.default.svc"
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}
_HOUR: Final = 3600
_SHORTEST, _LONGEST = 600, 1 << 32


class AccountTokens:
    """Issues tokens of the service accounts in `storage`, and finds the user of a token. `clock` gives Unix seconds."""

    def __init__(self, storage: Storage, secret: str, clock: Callable[[], float] = time.time) -> None:
        self._storage = storage
        self._key = hashlib.sha256(b"service account tokens\0" + secret.encode()).digest()
        self._clock = clock

    def answer(self, account: Object, body: Object) -> Object:
        """The TokenRequest `body` for an account, with its status filled in. Raises StatusError (422)."""
        meta, spec = account["metadata"], body.get("spec") or {}
        seconds = spec.get("expirationSeconds")
        seconds = _HOUR if seconds is None else seconds
        if not isinstance(seconds, int) or not _SHORTEST <= seconds <= _LONGEST:
            long = isinstance(seconds, int) and seconds > _LONGEST
            text = f"may not specify a duration {'larger than 2^32 seconds' if long else 'less than 10 minutes'}"
            cause = bad_value("spec.expirationSeconds", seconds, text)
            raise invalid("TokenRequest", "authentication.k8s.io", "", [cause])
        now = int(self._clock())
        audiences = spec.get("audiences") or [AUDIENCE]
        place = {"namespace": meta["namespace"], "serviceaccount": {"name": meta["name"], "uid": meta["uid"]}}
        claims = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "nbf": now,
            "iss": AUDIENCE,
            "jti": secrets.token_hex(8),
            "kubernetes.io": place,
            "sub": _user_name(meta["namespace"], meta["name"]),
        }
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "creationTimestamp": _time(now)},
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": self._sign(claims), "expirationTimestamp": _time(now + seconds)},
        }

    def find(self, token: str) -> User | None:
        """The user of a token; None for one that is not ours, has expired, or whose account is gone."""
        head, _, signature = token.rpartition(".")
        if not head or not hmac.compare_digest(signature.encode(), self._signature(head)):
            return None
        try:
            claims = json.loads(_unpack(head.partition(".")[2]))
        except (ValueError, binascii.Error):
            return None
        place = claims["kubernetes.io"]
        namespace, account = place["namespace"], place["serviceaccount"]
        found = self._storage.collection(ACCOUNTS).entries.get(f"{namespace}/{account['name']}")
        if found is None or found.object["metadata"]["uid"] != account["uid"]:
            return None
        if AUDIENCE not in claims["aud"] or claims["exp"] <= self._clock():
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return User(_user_name(namespace, account["name"]), groups)

    def _sign(self, claims: Object) -> str:
        head = ".".join(_pack(json.dumps(part, separators=(",", ":")).encode()) for part in (_HEADER, claims))
        return f"{head}.{self._signature(head).decode()}"

    def _signature(self, head: str) -> bytes:
        return _pack(hmac.digest(self._key, head.encode(), "sha256")).encode()


def _user_name(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _pack(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _unpack(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
