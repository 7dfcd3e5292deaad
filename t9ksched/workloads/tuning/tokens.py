"""The tokens with which programs of trials send their results to REST: one a trial, which ends with it.

A trial's token stands in a Secret that a ConfigMap of the trial owns. Both are made before the trial's job, and the
hash of the token is on record with the ConfigMap, then with the job, by which REST knows it (`keypair.py`). A ConfigMap
without a hash is of an attempt that did not complete: it is deleted, its Secret goes with it, and both are made again.
When the trial has ended the ConfigMap is deleted.
"""

import json
from collections.abc import Sequence

import msgspec

from t9ksched.workloads import phase
from t9ksched.workloads.actions import Children, Object, metadata, name_of
from t9ksched.workloads.keypair import PATH_ANNOTATION, TOKEN_ANNOTATION
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.tuning.trials import Trial

_SUFFIX = "-trial"


def secret_name(owner: Owner, trial: Trial) -> str:
    """The Secret of a trial's token."""
    return f"{trial.name}-{owner.uid}-results"


def _pair(owner: Owner, kind: str, trial: Trial) -> tuple[Object, Object]:
    """The ConfigMap of a trial and the Secret of its token, which the controller fills."""
    name = f"{trial.name}{_SUFFIX}"
    data = {"parameters.json": json.dumps(dict(trial.parameters))}
    holder = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": owner.metadata(name), "data": data}
    meta = owner.metadata(secret_name(owner, trial))
    meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}]
    path = f"/apis/v1/workloads/{owner.namespace}/{kind.lower()}/{trial.name}/results"
    meta["annotations"] = {PATH_ANNOTATION: path}
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": True, "metadata": meta}
    return holder, secret


class Tokens(msgspec.Struct, frozen=True):
    """The hashes of tokens on record, by trial; and what to create and to delete so that each live trial has one."""

    digests: dict[str, str] = msgspec.field(default_factory=dict)
    create: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()

    @classmethod
    def of(
        cls, owner: Owner, kind: str, trials: Sequence[Trial], children: Children, *, paused: bool = False
    ) -> "Tokens":
        """As the ConfigMaps of the experiment show them; one that is paused makes none."""
        holders = {
            name_of(each): each
            for each in children.companions
            if each["kind"] == "ConfigMap" and name_of(each).endswith(_SUFFIX) and not phase.is_terminating(each)
        }
        digests, create, used = {}, list[Object](), set()
        for trial in trials:
            if not trial.live:
                continue
            holder = holders.get(f"{trial.name}{_SUFFIX}")
            digest = (metadata(holder or {}).get("annotations") or {}).get(TOKEN_ANNOTATION, "")
            if digest:
                digests[trial.name] = digest
                used.add(f"{trial.name}{_SUFFIX}")
            elif holder is None and not paused:
                create += _pair(owner, kind, trial)
        return cls(digests, tuple(create), tuple(each for name, each in holders.items() if name not in used))
