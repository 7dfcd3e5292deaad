"""Training jobs whose replicas have a role in the framework, and find each other by their environment.

One headless Service named after the job gives every pod a DNS name, so that addresses are known before the pods are.
What the environment says is up to the kind.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from t9ksched.workloads.actions import Expansion, Object
from t9ksched.workloads.boards import board_of
from t9ksched.workloads.ending import led_by
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job, has_been_paused, revision
from t9ksched.workloads.jobspec import (
    ReplicaType,
    RunMode,
    RunPolicy,
    check_pod_names,
    pod_suffixes,
    read_replica_types,
    read_run_mode,
    read_run_policy,
)
from t9ksched.workloads.parts import (
    Owner,
    add_env,
    follow_run_mode,
    headless_service,
    job_pod,
    pod_group,
    pod_name,
    training_container,
)

FIXED_WHILE_RUNNING: Final = ("replicaSpecs",)
"""Fields of the spec that may change only while the job is paused; `runMode.debug` as well."""


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """The spec of a training job, its types in the order of their ranks: the first one has the leader."""

    types: tuple[ReplicaType, ...]
    run_policy: RunPolicy
    run_mode: RunMode


@dataclass(frozen=True, slots=True)
class Framework:
    """What differs from one framework to another.

    Attributes:
        roles: the replica types there may be.
        leads: those of which the first replica leads, in the order of preference.
        container: the name of the training container.
        port: the port at which a replica is reached, unless its container has one of the name `port_name`.
        env: what a replica is told.
        boards: whether a job may ask for a TensorBoard.
    """

    roles: tuple[str, ...]
    leads: tuple[str, ...]
    container: str
    port: int
    port_name: str
    env: Callable[["Framework", Owner, TrainingSpec, ReplicaType, int], Mapping[str, str]]
    boards: bool = False

    def port_of(self, kind: ReplicaType) -> int:
        """The port of the replicas of a type."""
        container = training_container(dict(kind.template.spec), self.container)
        named = (each for each in container.get("ports") or () if each.get("name") == self.port_name)
        return int(next((each["containerPort"] for each in named if each.get("containerPort")), self.port))


def read_spec(root: Field, framework: Framework) -> TrainingSpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    types = read_replica_types(spec["replicaSpecs"], allowed=framework.roles)
    check_pod_names(root, pod_suffixes(types))
    by_role = {kind.role: kind for kind in types}
    leads = next((by_role[role] for role in framework.leads if role in by_role), None)
    if leads is None:
        if types and by_role.keys() <= set(framework.roles):
            spec["replicaSpecs"].fault(f"has no entry of type {' or '.join(framework.leads)}: the job ends as it does")
    else:
        _check_number(spec["replicaSpecs"], leads, only=leads.role == framework.leads[0])
        types = (leads, *(kind for kind in types if kind is not leads))
    run_mode = read_run_mode(spec["runMode"], [kind.role for kind in types])
    return TrainingSpec(types, read_run_policy(spec["runPolicy"]), run_mode)


def _check_number(specs: Field, leads: ReplicaType, *, only: bool) -> None:
    """There is exactly one chief or master; where a worker leads, there is at least one."""
    for entry in specs.items():
        if entry["type"].value == leads.role:
            if only and leads.replicas != 1:
                entry["replicas"].fault(f"is {leads.replicas}, but there is exactly one {leads.role}: write 1")
            elif not leads.replicas:
                entry["replicas"].fault(f"is 0, but the first {leads.role} leads the job: use 1 or more")


def training_job(obj: Mapping[str, Any], spec: TrainingSpec, owner: Owner, framework: Framework) -> Job:
    """The job with everything it consists of."""
    resumed = has_been_paused(obj)
    leads, members = spec.types[0], sum(kind.replicas for kind in spec.types)

    def build(kind: ReplicaType, index: int) -> Object:
        pod = job_pod(owner, kind, index)
        container = training_container(pod["spec"], framework.container)
        follow_run_mode(pod["spec"], container, spec.run_mode, kind, resumed=resumed)
        add_env(pod["spec"], framework.env(framework, owner, spec, kind, index))
        return pod

    return Job(
        owner=owner,
        types=spec.types,
        run_policy=spec.run_policy,
        paused=spec.run_mode.paused,
        around=Expansion(
            podgroup=pod_group(owner, spec.types, members),
            services=(headless_service(owner, owner.name, {leads.name: framework.port_of(leads)}),),
            boards=board_of(owner, Field(obj)["spec"]) if framework.boards else (),
        ),
        build=build,
        ending=led_by(pod_name(owner, leads, 0)),
        min_member=members,
        revision=revision(obj, FIXED_WHILE_RUNNING),
    )
