"""GenericJob: replicas that run what their templates say, told of each other by references, and ended by rules.

References (`substitution.py`) are replaced in commands and environment. With `spec.service` each replica has a Service
of its name, `<job>-<type>-<rank>`, with those ports. The job succeeds or fails by `successRules` and `failureRules`;
without success rules it succeeds when all of its replicas did.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from t9ksched.model.whole import whole_number
from t9ksched.workloads.actions import Expansion, Object
from t9ksched.workloads.controller import job_controller
from t9ksched.workloads.ending import Ending, Rule
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job, has_been_paused, revision
from t9ksched.workloads.jobspec import (
    CLEAN_UP_POLICIES,
    ReplicaType,
    RunMode,
    RunPolicy,
    check_pod_names,
    pod_suffixes,
    read_replica_types,
    read_run_mode,
)
from t9ksched.workloads.parts import Owner, follow_run_mode, job_pod, pod_group, pod_name
from t9ksched.workloads.shape import Template
from t9ksched.workloads.substitution import Unknown, parts, references, replace_in

FIXED_WHILE_RUNNING: Final = ("replicaSpecs", "service")
"""Fields of the spec that may change only while the job is paused; `runMode.debug` as well."""

_PORTS_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class GenericSpec:
    """The spec of a GenericJob. A rule is written as numbers of replicas by type; `ports` is None without a service."""

    types: tuple[ReplicaType, ...]
    success: tuple[Mapping[str, tuple[int, ...]], ...]
    failure: tuple[Mapping[str, tuple[int, ...]], ...]
    ports: tuple[Mapping[str, Any], ...] | None
    clean_up: str
    run_mode: RunMode

    def value(self, owner: str, kind: ReplicaType, index: int, reference: str) -> str:
        """What stands in place of a reference in one replica of the job of that name.

        Raises:
            Unknown: the job has no such thing.
        """
        what, role, key = parts(reference)
        if what == "type":
            return kind.role
        if what == "rank":
            return str(index)
        if what == "replicas":
            return str(self._type(key).replicas)
        if self.ports is None:
            raise Unknown("needs spec.service: without it replicas have no Services")
        if what == "port":
            found = next((port["port"] for port in self.ports if port.get("name") == key), None)
            if found is None:
                raise Unknown(f"names a port {key!r} that spec.service.ports does not have")
            return str(found)
        there, rank = self._type(role), whole_number(key)
        if rank is None or rank >= there.replicas:
            raise Unknown(f"names replica {key!r}, but {there.role} has {there.replicas}, counted from 0")
        return f"{owner}-{there.name}-{rank}"

    def _type(self, role: str) -> ReplicaType:
        found = next((kind for kind in self.types if kind.name == role.lower()), None)
        if found is None:
            raise Unknown(f"names a replica type {role!r} that spec.replicaSpecs does not have")
        return found


def read_spec(root: Field) -> GenericSpec:
    """The spec, its faults written down in `root`."""
    spec = root["spec"]
    types = read_replica_types(spec["replicaSpecs"], objects=True)
    check_pod_names(root, pod_suffixes(types))
    found = GenericSpec(
        types=types,
        success=_read_rules(spec["successRules"], types),
        failure=_read_rules(spec["failureRules"], types),
        ports=_read_ports(spec["service"]),
        clean_up=spec["cleanUpPolicy"].choice(CLEAN_UP_POLICIES, "None"),
        run_mode=read_run_mode(spec["runMode"], [kind.role for kind in types]),
    )
    _check_references(spec, found)
    return found


def read(root: Field) -> list[Template]:
    """The pod templates, for admission and lists."""
    return [kind.template for kind in read_spec(root).types]


def _read_rules(rules: Field, types: Iterable[ReplicaType]) -> tuple[Mapping[str, tuple[int, ...]], ...]:
    known = {kind.name: kind for kind in types}
    found = []
    for rule in rules.items():
        chosen: dict[str, tuple[int, ...]] = {}
        before = len(rule.faults)
        for role, indices in rule.entries():
            kind = known.get(role.lower())
            if kind is None:
                indices.fault(f"{role!r} is no type of spec.replicaSpecs: use one of {', '.join(known)}")
                continue
            numbers = [each.whole(0) for each in indices.items()]
            for place, number in zip(indices.items(), numbers, strict=True):
                if number >= kind.replicas:
                    place.fault(f"{number} is out of range: {role} has {kind.replicas} replicas, counted from 0")
            if numbers:
                chosen[kind.name] = tuple(numbers)
        if not chosen and len(rule.faults) == before:
            rule.fault('names no replica: write types and their numbers, such as {"worker": [0]}')
        found.append(chosen)
    return tuple(found)


def _read_ports(service: Field) -> tuple[Mapping[str, Any], ...] | None:
    service.mapping()
    if not service.present:
        return None
    ports, names = service["ports"].some("is missing: a Service needs at least one port, such as {name, port}"), set()
    for port in ports:
        number, name = port["port"], port["name"].text()
        if not number.present:
            number.fault("is missing: write the number of the port")
        number.whole(1, low=1, high=_PORTS_MAX)
        if not name and len(ports) > 1:
            port["name"].fault("is missing: with several ports each needs a name")
        elif name in names:
            port["name"].fault(f"{name!r} is used by two ports: names must differ")
        names.add(name)
    return tuple(port.mapping() for port in ports)


def _check_references(spec: Field, found: GenericSpec) -> None:
    """Report references to what the job does not have, in templates and in the commands of run modes."""
    if spec.faults:
        return
    kinds = {kind.name: kind for kind in found.types}
    texts = []
    for entry in spec["replicaSpecs"].items():
        pod = entry["template"]["spec"]
        for container in (*pod["initContainers"].items(), *pod["containers"].items()):
            env = [variable["value"] for variable in container["env"].items()]
            words = (*container["command"].items(), *container["args"].items(), *env)
            texts += [(entry["type"].text(), word) for word in words]
    mode = spec["runMode"]
    for override in (*mode["debug"]["replicaSpecs"].items(), *mode["pause"]["resumeSpecs"].items()):
        words = (*override["command"].items(), *override["args"].items())
        texts += [(override["type"].text(), word) for word in words]
    for role, place in texts:
        kind = kinds.get(role.lower())
        for reference in references(place.value) if isinstance(place.value, str) and kind is not None else ():
            try:
                assert kind is not None
                found.value("", kind, 0, reference)
            except Unknown as error:
                place.fault(f"$({reference}) {error}")


def job(obj: Mapping[str, Any], spec: GenericSpec, owner: Owner) -> Job:
    """The job with everything it consists of."""
    resumed = has_been_paused(obj)
    members = sum(kind.replicas for kind in spec.types)
    return Job(
        owner=owner,
        types=spec.types,
        run_policy=RunPolicy(backoff_limit=None, clean_up=spec.clean_up),
        paused=spec.run_mode.paused,
        around=Expansion(podgroup=pod_group(owner, spec.types, members), services=_services(owner, spec)),
        build=lambda kind, index: _pod(owner, spec, kind, index, resumed=resumed),
        ending=_ending(owner, spec),
        min_member=members,
        revision=revision(obj, FIXED_WHILE_RUNNING),
    )


def _ending(owner: Owner, spec: GenericSpec) -> Ending:
    kinds = {kind.name: kind for kind in spec.types}

    def rule(chosen: Mapping[str, tuple[int, ...]], of: str) -> Rule:
        names = frozenset(pod_name(owner, kinds[role], index) for role, found in chosen.items() for index in found)
        return Rule(names, f"by the rule {json.dumps(dict(chosen))} of {of}")

    every = frozenset(pod_name(owner, kind, index) for kind in spec.types for index in range(kind.replicas))
    success = tuple(rule(chosen, "successRules") for chosen in spec.success)
    return Ending(success or (Rule(every),), tuple(rule(chosen, "failureRules") for chosen in spec.failure))


def _services(owner: Owner, spec: GenericSpec) -> tuple[Object, ...]:
    if spec.ports is None:
        return ()
    ports = [{"targetPort": port["port"], **port} for port in spec.ports]
    names = [pod_name(owner, kind, index) for kind in spec.types for index in range(kind.replicas)]
    return tuple(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": owner.metadata(name),
            "spec": {
                "publishNotReadyAddresses": True,
                "selector": {**owner.labels(), f"{owner.component}-replica": name},
                "ports": ports,
            },
        }
        for name in names
    )


def _pod(owner: Owner, spec: GenericSpec, kind: ReplicaType, index: int, *, resumed: bool) -> Object:
    pod = job_pod(owner, kind, index)
    follow_run_mode(pod["spec"], pod["spec"]["containers"][0], spec.run_mode, kind, resumed=resumed)
    replace_in(pod["spec"], lambda reference: spec.value(owner.name, kind, index, reference))
    return pod


CONTROLLER: Final = job_controller(lambda obj, owner, _: job(obj, read_spec(Field(obj)), owner))
