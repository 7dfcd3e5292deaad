"""The Secret of a job's SSH keys, or of a trial's token: filled when it is created, and owned by a ConfigMap of the
workload that bears its name.

Controllers create Secrets and read none, so the ConfigMap says which Secret is the workload's, and of a token its hash.
"""

import hashlib
from typing import Final

from t9ksched.model.names import BATCH_GROUP, PLATFORM_GROUP
from t9ksched.workloads.actions import Object, metadata, name_of

KEYS_ANNOTATION: Final = f"{BATCH_GROUP}/ssh-secret"
"""On a job's ConfigMap: the Secret that was made for it."""


TOKEN_ANNOTATION: Final = f"{PLATFORM_GROUP}/results-token-sha256"
"""On the ConfigMap and the job of a trial: the hash of the token with which its program may send results."""
PATH_ANNOTATION: Final = f"{PLATFORM_GROUP}/results-path"
"""On the Secret of such a token: where REST takes the results."""


def digest_of(token: str) -> str:
    """The hash by which a token is known."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_token(secret: Object) -> bool:
    """Whether the Secret is one of a token; else it is one of SSH keys."""
    return PATH_ANNOTATION in (metadata(secret).get("annotations") or {})


def with_token(secret: Object, config: Object, rest: str, token: str) -> Object:
    """The Secret, owned by its ConfigMap, with a token and the address to which results are sent; that is empty where
    nobody said at which address pods reach REST.
    """
    url = f"{rest.rstrip('/')}{secret['metadata']['annotations'][PATH_ANNOTATION]}" if rest else ""
    return {**_owned(secret, config), "stringData": {"token": token, "url": url}}


def with_keys(secret: Object, config: Object, private: str, public: str) -> Object:
    """The Secret, owned by its ConfigMap and filled with a key pair in OpenSSH's text formats."""
    return {**_owned(secret, config), "stringData": {"ssh-privatekey": private, "ssh-publickey": public}}


def _owned(secret: Object, config: Object) -> Object:
    references = [{**each, "uid": metadata(config)["uid"]} for each in metadata(secret)["ownerReferences"]]
    return {**secret, "metadata": {**secret["metadata"], "ownerReferences": references}}


def on_record(config: Object, secret: Object, digest: str = "") -> Object:
    """The ConfigMap with the name of the Secret that was made for it, and the hash of a token in that."""
    meta = config["metadata"]
    annotations = {**(meta.get("annotations") or {}), KEYS_ANNOTATION: name_of(secret)}
    if digest:
        annotations[TOKEN_ANNOTATION] = digest
    return {**config, "metadata": {**meta, "annotations": annotations}}
