"""The fields all T9k jobs share: replica types, restart and run policies, run modes, the elastic range.

Each kind's own file reads its spec with these parts, so that the life cycle (`lifecycle.py`) needs to know no kinds.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from t9ksched.workloads.fields import MAX_COUNT, Field
from t9ksched.workloads.podspec import read_template
from t9ksched.workloads.shape import Template

RESTART_POLICIES: Final = ("Never", "OnFailure", "Always", "ExitCode")
RETRYABLE_EXIT_CODES: Final = frozenset({130, 137, 138, 143})
"""What `ExitCode` restarts on: SIGINT, SIGKILL, SIGTERM, and 138, which is free for users (SIGUSR1)."""
CLEAN_UP_POLICIES: Final = ("None", "Unfinished", "All")
DEFAULT_BACKOFF_LIMIT: Final = 3

_SERVICE_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_ROLE_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?")
_MAX_NAME: Final = 63
_SECONDS_MAX: Final = 10**9


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a replica is replaced; `limit` is the most restarts of this replica type, if one is set."""

    policy: str = "OnFailure"
    limit: int | None = None


class RunPolicy(msgspec.Struct, frozen=True):
    """When a job fails for good, and which of its pods stay at its end.

    Attributes:
        active_deadline: seconds a job may run, counted from its first start.
        backoff_limit: restarts all replicas share, None without limit.
        clean_up: `None` keeps all pods, `Unfinished` deletes those still running, `All` deletes every pod.
        kept_roles: replica types that clean-up spares (the launcher of an MPIJob).
    """

    active_deadline: int | None = None
    backoff_limit: int | None = DEFAULT_BACKOFF_LIMIT
    clean_up: str = "None"
    kept_roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Override:
    """What replaces a replica type's own command in debug mode or after a pause."""

    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    skip_init: bool = False


class RunMode(msgspec.Struct, frozen=True):
    """`debug` and `resume` are overrides by replica type in lower case; debug is None when it is off."""

    paused: bool = False
    debug: Mapping[str, Override] | None = None
    resume: Mapping[str, Override] = msgspec.field(default_factory=dict)


class ReplicaType(msgspec.Struct, frozen=True):
    """One replica type of a job: pods `<job>-<name>-<0 … replicas-1>`."""

    template: Template
    restart: RestartPolicy = RestartPolicy()

    @property
    def role(self) -> str:
        """The type as the user wrote it."""
        return self.template.role

    @property
    def name(self) -> str:
        """The type as written in names of pods."""
        return self.template.role.lower()

    @property
    def replicas(self) -> int:
        """Pods wanted now."""
        return self.template.replicas


class Elastic(msgspec.Struct, frozen=True):
    """The range of an elastic job; `expected` is a target, not a guarantee."""

    minimum: int
    maximum: int
    expected: int


def read_run_policy(policy: Field, backoff_limit: int | None = DEFAULT_BACKOFF_LIMIT) -> RunPolicy:
    """`spec.runPolicy` of PyTorch, TensorFlow, XGBoost and DeepSpeed jobs."""
    deadline = policy["activeDeadlineSeconds"]
    limit = policy["backoffLimit"]
    return RunPolicy(
        active_deadline=deadline.whole(1, low=1, high=_SECONDS_MAX) if deadline.present else None,
        backoff_limit=limit.whole(DEFAULT_BACKOFF_LIMIT) if limit.present else backoff_limit,
        clean_up=policy["cleanUpPolicy"].choice(CLEAN_UP_POLICIES, "None"),
    )


def read_run_mode(mode: Field, types: Iterable[str] = ()) -> RunMode:
    """`spec.runMode`; what it says of types besides those given is a fault, unless none are."""
    known = [role.lower() for role in types]
    debug, pause = mode["debug"], mode["pause"]
    return RunMode(
        paused=pause["enabled"].flag(),
        debug=_overrides(debug["replicaSpecs"], known) if debug["enabled"].flag() else None,
        resume=_overrides(pause["resumeSpecs"], known),
    )


def read_pause(mode: Field) -> bool:
    """Whether a `spec.runMode` pauses a service: `pause.enabled`, or its older form, the word `paused`."""
    if isinstance(mode.value, Mapping):
        return mode["pause"]["enabled"].flag()
    word = mode.text().lower()
    if word not in ("", "paused", "running"):
        mode.fault(f"{mode.value!r} is unknown: use pause {{enabled: true}}, or one of the words paused and running")
    return word == "paused"


def _overrides(specs: Field, known: list[str]) -> dict[str, Override]:
    found = {}
    for spec in specs.items():
        command, args = spec["command"], spec["args"]
        role = spec["type"].text().lower()
        if known and role not in known:
            spec["type"].fault(f"{role!r} is no type of this job's replicas: use one of {', '.join(known)}")
        found[role] = Override(
            command=tuple(command.texts()) if command.present else None,
            args=tuple(args.texts()) if args.present else None,
            skip_init=spec["skipInitContainer"].flag(),
        )
    return found


def read_elastic(elastic: Field) -> Elastic | None:
    """`spec.elastic`, None unless it is enabled."""
    if not elastic["enabled"].flag():
        return None
    low, high, expected = elastic["minReplicas"], elastic["maxReplicas"], elastic["expectedReplicas"]
    minimum = low.whole(1, low=1)
    maximum = high.whole(max(minimum, expected.whole(minimum)), low=1)
    if maximum < minimum:
        high.fault(f"{maximum} is less than minReplicas {minimum}: raise it or lower minReplicas")
        return Elastic(minimum, minimum, minimum)
    wanted = expected.whole(minimum)
    if not minimum <= wanted <= maximum:
        expected.fault(f"{wanted} is outside the range {minimum} to {maximum} that minReplicas and maxReplicas allow")
        wanted = minimum
    return Elastic(minimum, maximum, wanted)


def spread(total: int, weights: list[int]) -> list[int]:
    """`total` replicas over replica types in proportion to their weights, the first getting at least one.

    Largest remainders first, earlier types on ties, so that the shares are the same each time.
    """
    whole = sum(weights)
    if whole == 0:
        return [total] + [0] * (len(weights) - 1)
    shares = [total * weight // whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for index in order[: total - sum(shares)]:
        shares[index] += 1
    if total and not shares[0]:
        shares[shares.index(max(shares))] -= 1
        shares[0] = 1
    return shares


def read_replica_types(
    specs: Field, elastic: Elastic | None = None, *, objects: bool = False, allowed: tuple[str, ...] = ()
) -> tuple[ReplicaType, ...]:
    """`spec.replicaSpecs`.

    Args:
        specs: the list.
        elastic: the range that overrides the numbers of replicas, split by `scalingWeight`.
        objects: restart policies are `{policy, limit}` instead of a word.
        allowed: the only types there may be; any if empty.
    """
    entries = specs.some("is missing: a job needs at least one entry with type, replicas and template")
    counts = [entry["replicas"].whole(1) for entry in entries]
    minima = counts
    if elastic is not None and entries:
        weights = [entry["scalingWeight"].whole(1) for entry in entries]
        counts, minima = spread(elastic.expected, weights), spread(elastic.minimum, weights)
    found: dict[str, ReplicaType] = {}
    for entry, count, minimum in zip(entries, counts, minima, strict=True):
        kind = entry["type"]
        role = kind.text()
        if not role:
            kind.fault("is missing: name the replica type, such as master or worker")
        elif not _ROLE_NAME.fullmatch(role):
            kind.fault(f"{role!r} becomes part of pod names: use letters, digits and -, no - at either end")
        elif allowed and role not in allowed:
            kind.fault(f"{role!r} is unknown: use one of {', '.join(allowed)}")
        elif role.lower() in found:
            kind.fault(f"{role!r} is there twice: give each replica type once, with its number in replicas")
        restart = read_restart_object(entry["restartPolicy"]) if objects else read_restart_word(entry["restartPolicy"])
        template = read_template(entry["template"], role, count, min(minimum, count))
        found.setdefault(role.lower(), ReplicaType(template, restart))
    return tuple(found.values())


def read_restart_word(policy: Field) -> RestartPolicy:
    """A restart policy given as a word; OnFailure unless given."""
    return RestartPolicy(policy.choice(RESTART_POLICIES, "OnFailure"))


def read_restart_object(policy: Field) -> RestartPolicy:
    """A restart policy given as `{policy, limit}`; OnFailure and 0 unless given."""
    return RestartPolicy(
        policy["policy"].choice(("Never", "OnFailure", "Always"), "OnFailure"), policy["limit"].whole(0)
    )


def check_pod_names(root: Field, suffixes: Iterable[str], *, service: bool = True) -> None:
    """Check that the job's name can become part of its pods' and services' names.

    Args:
        root: the job.
        suffixes: what is added to the name for the longest pods, such as `-worker-15`.
        service: the name itself becomes that of a Service, which must begin with a letter.
    """
    place = root["metadata"]["name"]
    name = place.text()
    if not name:
        return
    if service and not _SERVICE_NAME.fullmatch(name):
        place.fault(f"{name!r} must also name a Service: use a-z, 0-9 and -, begin with a letter, no - at the end")
    longest = max(suffixes, key=len, default="")
    if len(name) + len(longest) > _MAX_NAME:
        place.fault(
            f"has {len(name)} characters, and with {longest!r} its pods' names would exceed {_MAX_NAME}:"
            f" use at most {_MAX_NAME - len(longest)}"
        )


def pod_suffixes(types: Iterable[ReplicaType]) -> list[str]:
    """What the longest pod name of each replica type adds to the job's name."""
    return [f"-{kind.name}-{min(max(kind.replicas, 1) - 1, MAX_COUNT)}" for kind in types]
