"""The Secret of a job's SSH keys: filled when it is created, and owned by a ConfigMap of the job that bears its name.

Controllers create Secrets and read none, so the ConfigMap says which Secret is the job's.
"""

from typing import Final

from t9ksched.model.names import BATCH_GROUP
from t9ksched.workloads.actions import Object, metadata, name_of

KEYS_ANNOTATION: Final = f"{BATCH_GROUP}/ssh-secret"
"""On a job's ConfigMap: the Secret that was made for it."""


def with_keys(secret: Object, config: Object, private: str, public: str) -> Object:
    """The Secret, owned by its ConfigMap and filled with a key pair in OpenSSH's text formats."""
    references = [{**each, "uid": metadata(config)["uid"]} for each in metadata(secret)["ownerReferences"]]
    meta = {**secret["metadata"], "ownerReferences": references}
    return {**secret, "metadata": meta, "stringData": {"ssh-privatekey": private, "ssh-publickey": public}}


def on_record(config: Object, secret: Object) -> Object:
    """The ConfigMap with the name of the Secret that was made for it."""
    meta = config["metadata"]
    annotations = {**(meta.get("annotations") or {}), KEYS_ANNOTATION: name_of(secret)}
    return {**config, "metadata": {**meta, "annotations": annotations}}
