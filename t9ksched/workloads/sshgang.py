"""Jobs whose workers run sshd, so that one pod can start processes on all of them: their keys and their hosts.

The key pair of a job stands in the Secret `<job>-<uid>-ssh`. Controllers may create Secrets and not read them, so a
ConfigMap of the job says whether the Secret is theirs: they create it right after the ConfigMap, which owns it, and
write its name on the ConfigMap (`KEYS_ANNOTATION`) before any pod. A ConfigMap without that name is of an attempt that
did not complete: it is deleted, the garbage collector deletes what it owned, and both are created again. A Secret that
exists although its ConfigMap is new belongs to another owner.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from t9ksched.model.errors import Invalid
from t9ksched.model.pod import container_cards, decode_pod_spec
from t9ksched.workloads import phase
from t9ksched.workloads.actions import Children, Object, metadata, name_of
from t9ksched.workloads.jobspec import ReplicaType
from t9ksched.workloads.keypair import KEYS_ANNOTATION
from t9ksched.workloads.parts import Owner, host
from t9ksched.workloads.shape import Template

SSH_PORT: Final = 22
PRIVATE_KEY: Final = "id_ed25519"
USUAL_SSHD: Final = "/usr/sbin/sshd"
KEY_FILES: Final = (("ssh-privatekey", PRIVATE_KEY), ("ssh-publickey", "authorized_keys"))
"""Keys of the Secret and the files that they are mounted as."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The Secret of a job's keys, whether it is on record as made, and ConfigMaps of tries that did not end."""

    secret: str
    made: bool
    unfinished: tuple[Object, ...] = ()


def keys_of(owner: Owner, children: Children, config: str, before: str = "") -> Keys:
    """The keys of a job whose ConfigMap has that name. `before` is what older releases called the Secret: a job whose
    pods mount it keeps it.
    """
    secret = f"{owner.name}-{owner.uid}-ssh"
    if before and any(_mounts(pod, before) for pod in children.pods if _lives(pod)):
        return Keys(before, made=True)
    files = [each for each in children.companions if (each["kind"], name_of(each)) == ("ConfigMap", config)]
    if any((metadata(each).get("annotations") or {}).get(KEYS_ANNOTATION) == secret for each in files):
        return Keys(secret, made=True)
    return Keys(secret, made=False, unfinished=tuple(files))


def _lives(pod: Object) -> bool:
    return not phase.is_terminating(pod) and phase.phase(pod) not in ("Succeeded", "Failed")


def _mounts(pod: Object, secret: str) -> bool:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return any((volume.get("secret") or {}).get("secretName") == secret for volume in volumes)


def secret_of(owner: Owner, keys: Keys, config: str) -> tuple[Object, ...]:
    """The Secret to be made, none if it is: without its keys, which are random, and without the UID of the ConfigMap
    that owns it. The controller adds both when it creates the Secret (`with_keys`).
    """
    if keys.made:
        return ()
    meta = owner.metadata(keys.secret)
    meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": config}]
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/ssh-auth", "immutable": True}
    return ({**secret, "metadata": meta},)


def config_of(owner: Owner, name: str, data: Mapping[str, str]) -> Object:
    """The ConfigMap of the job's hosts and settings."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": owner.metadata(name), "data": dict(data)}


def hostfile(owner: Owner, workers: ReplicaType, slots: int | None = None) -> str:
    """The workers, one a line, with their slots."""
    given = "" if slots is None else f" slots={slots}"
    return "".join(f"{host(owner, workers, index)}{given}\n" for index in range(workers.replicas))


def cards_of(template: Template) -> int:
    """Processes a worker takes where nothing else is said: one a card of its container, at least one."""
    try:
        asked = container_cards(decode_pod_spec(template.spec), template.annotations)
    except Invalid:  # its pods wait with a reason, whatever is written here
        return 1
    return max(1, sum(cards.count for cards in asked))


def client_settings(keys_path: str) -> str:
    """The settings of the ssh client: it knows its key and its port, and no hosts."""
    lines = [
        "Host *",
        f"  IdentityFile {keys_path}/{PRIVATE_KEY}",
        "  StrictHostKeyChecking no",
        "  UserKnownHostsFile /dev/null",
        "  LogLevel ERROR",
        f"  Port {SSH_PORT}",
    ]
    return "\n".join(lines) + "\n"


def sshd_options(keys_path: str) -> list[str]:
    """The options of a worker's sshd. Its host key is the job's own key, so that images need none of theirs."""
    settings = {
        "AuthorizedKeysFile": f"{keys_path}/authorized_keys",
        "PermitRootLogin": "prohibit-password",
        "StrictModes": "no",  # the keys are mounted through links, which strict modes refuse
        "PidFile": "none",
    }
    words = ["-e", "-p", str(SSH_PORT), "-h", f"{keys_path}/{PRIVATE_KEY}"]
    for key, value in settings.items():
        words += ["-o", f"{key}={value}"]
    return words


def run_sshd(program: str, keys_path: str) -> list[str]:
    """The command of a worker that does nothing but serve."""
    server = shlex.join([program, "-D", *sshd_options(keys_path)])
    return ["/bin/sh", "-c", f"mkdir -p /run/sshd && exec {server}"]


def wait_for_hosts(hosts: str, ssh: str = "ssh") -> str:
    """A line of shell that waits until every host of the file answers."""
    return f'while read -r host _; do until {ssh} -n "$host" true; do sleep 1; done; done < {hosts}'


def native_resources(container: Mapping[str, Any]) -> Object:
    """The resources of a container without its cards, for one that only waits."""
    return {
        part: {key: value for key, value in (amounts or {}).items() if key in ("cpu", "memory")}
        for part, amounts in (container.get("resources") or {}).items()
        if part in ("requests", "limits")
    }


def waiting_container(container: Object, script: str, mounts: tuple[str, ...]) -> Object:
    """An init container that runs a script before that container, from its image, with those of its volumes."""
    return {
        "name": "wait-for-workers",
        "image": container["image"],
        "command": ["/bin/sh", "-c", script],
        "resources": native_resources(container),
        "volumeMounts": [each for each in container["volumeMounts"] if each["name"] in mounts],
        **({"securityContext": container["securityContext"]} if "securityContext" in container else {}),
    }


def mount_in(spec: Object, container: Object, volume: Object, **mount: Any) -> None:
    """Give the pod a volume, and mount it read-only in a container."""
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    mounts = container.get("volumeMounts") or ()
    container["volumeMounts"] = [*mounts, {"name": volume["name"], "readOnly": True, **mount}]


def keys_volume(name: str, secret: str) -> Object:
    """The volume of the keys."""
    items = [{"key": key, "path": path} for key, path in KEY_FILES]
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o600, "items": items}}
