"""Reading pod templates: requests of one replica, and every fault that would only show when the pod is made.

What is checked is what Kubernetes or a node would refuse later (missing containers, doubled names, amounts that are no
quantity, extended resources whose request and limit differ) and what our own annotations need (names of containers that
are short enough).
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from t9ksched.model.card_requests import is_part
from t9ksched.model.errors import Invalid, child
from t9ksched.model.labels import NodeSelector, key_fault, value_fault
from t9ksched.model.names import MAX_CARD_CONTAINER_NAME
from t9ksched.model.pod import decode_pod_spec, effective_requests
from t9ksched.model.quantity import QuantityError, is_extended, parse
from t9ksched.model.resources import is_card_resource
from t9ksched.workloads.fields import Field
from t9ksched.workloads.shape import Template

DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_WHERE: Final = re.compile(r" - at `\$(?P<below>.*)`$")
_GPU_MEMORY: Final = "nvidia.com/gpumem"
_GPU_MEMORY_SHARE: Final = "nvidia.com/gpumem-percentage"


def read_template(
    template: Field, role: str = "", replicas: int = 1, min_replicas: int | None = None, *, images: bool = True
) -> Template:
    """A pod template `{metadata, spec}`; `images` says whether containers must name their image."""
    return read_pod_spec(template["spec"], template["metadata"], role, replicas, min_replicas, images=images)


def read_pod_spec(
    spec: Field,
    metadata: Field,
    role: str = "",
    replicas: int = 1,
    min_replicas: int | None = None,
    *,
    images: bool = True,
) -> Template:
    """A PodSpec outside a template, with the metadata that belongs to it."""
    before = len(spec.faults)
    check_labels(metadata["labels"])
    metadata["annotations"].labels()
    _check_nulls(spec.mapping(), spec)
    if len(spec.faults) == before:
        _check_containers(spec, images)
        check_labels(spec["nodeSelector"])
        _check_amounts(spec["overhead"])
        _check_affinity(spec)
    if len(spec.faults) == before:
        _check_types(spec)
    sound = len(spec.faults) == before
    return Template(
        role=role,
        replicas=replicas,
        min_replicas=replicas if min_replicas is None else min_replicas,
        metadata=metadata.mapping(),
        spec=spec.mapping(),
        path=spec.path,
        requests=effective_requests(spec.mapping()) if sound else {},
    )


def generated_template(
    parent: Field, container: str, resources: Field, role: str = "", replicas: int = 1, min_replicas: int | None = None
) -> Template:
    """A pod that the kind's controller makes up itself; the user gives its resources at most."""
    before = len(resources.faults)
    check_resources(resources)
    sound = len(resources.faults) == before
    spec: dict[str, Any] = {"containers": [{"name": container, "resources": dict(resources.mapping())}]}
    return Template(
        role=role,
        replicas=replicas,
        min_replicas=replicas if min_replicas is None else min_replicas,
        metadata={},
        spec=spec,
        path=parent.path,
        requests=effective_requests(spec) if sound else {},
    )


def _check_nulls(value: Any, spec: Field, below: str = "") -> None:
    """A null field is an absent one, but a null entry of a list is nothing that a pod can have."""
    if isinstance(value, dict | Mapping):
        for key, inner in value.items():
            if not isinstance(inner, str | int) and isinstance(inner, Mapping | list):
                _check_nulls(inner, spec, child(below, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            place = f"{below}[{index}]"
            if inner is None:
                Field(None, f"{spec.path}.{place}", spec.faults).fault("is null: write the entry, or leave it out")
            _check_nulls(inner, spec, place)


def _check_types(spec: Field) -> None:
    """Check that the fields of the spec that the scheduler reads have their Kubernetes types; the first wrong one is
    reported.
    """
    try:
        decode_pod_spec(spec.mapping())
    except msgspec.ValidationError as error:
        text = str(error)
        where = _WHERE.search(text)
        below = where["below"] if where and "..." not in where["below"] else ""
        what = text[: where.start()] if where and below else text
        Field(None, spec.path + below, spec.faults).fault(f"is not what a pod has there: {what[:1].lower()}{what[1:]}")


def _check_containers(spec: Field, images: bool) -> None:
    containers = spec["containers"].some("is missing: a pod needs at least one container")
    seen: set[str] = set()
    for container in (*containers, *spec["initContainers"].items()):
        name = container["name"]
        text = name.text()
        if not text:
            name.fault("is missing: give the container a name")
        elif not DNS_LABEL.fullmatch(text):
            name.fault(f"{text!r} is not a valid name: use at most 63 of a-z, 0-9 and -, no - at either end")
        elif text in seen:
            name.fault(f"{text!r} is used by two containers: names must differ")
        seen.add(text)
        if images and not container["image"].text():
            container["image"].fault("is missing: name the image to run")
        amounts = check_resources(container["resources"])
        cards = sorted(key for key, units in amounts.items() if units > 0 and (is_card_resource(key) or is_part(key)))
        if cards and len(text) > MAX_CARD_CONTAINER_NAME:
            name.fault(long_name_fault(text, cards[0]))


def long_name_fault(container: str, resource: str) -> str:
    """What is wrong with the name of a container that asks for cards of that resource and is too long for it."""
    return (
        f"has {len(container)} characters, and a container that asks for {resource} may have at most"
        f" {MAX_CARD_CONTAINER_NAME}: its card indices are kept in an annotation named after it; shorten it"
    )


def check_labels(labels: Field) -> None:
    """Check labels, or a nodeSelector, which is made of labels."""
    for key, field in labels.entries():
        fault = key_fault(key) or value_fault(field.text())
        if fault:
            field.fault(fault)


def check_resources(resources: Field) -> dict[str, Fraction]:
    """Check `resources` of a container; what it asks for, by resource."""
    requests, limits = _check_amounts(resources["requests"]), _check_amounts(resources["limits"])
    for name, wanted in requests.items():
        limit = limits.get(name)
        if is_extended(name):
            if limit is None and name not in resources["limits"].mapping():
                resources["limits"][name].fault(
                    f"is missing, but requests names {wanted}: set the limit to the same number"
                    " (the limit alone is enough)"
                )
            elif limit is not None and limit != wanted:
                resources["limits"][name].fault(
                    f"is {limit}, but the request is {wanted}: for {name} both must be equal"
                    " (the limit alone is enough)"
                )
        elif limit is not None and wanted > limit:
            resources["requests"][name].fault(
                f"{resources['requests'][name].value} is more than the limit {resources['limits'][name].value}:"
                " lower the request or raise the limit"
            )
    amounts = {**limits, **requests}
    if _GPU_MEMORY in amounts and _GPU_MEMORY_SHARE in amounts:
        place = resources["limits"] if _GPU_MEMORY_SHARE in limits else resources["requests"]
        place[_GPU_MEMORY_SHARE].fault(f"cannot be given together with {_GPU_MEMORY}: keep one of them")
    return amounts


def _check_amounts(amounts: Field) -> dict[str, Fraction]:
    """The amounts that are sound, exact, by resource."""
    found = {}
    for name, field in amounts.entries():
        if not field.present:
            field.fault("is empty: write an amount, or leave the line out")
            continue
        try:
            amount = parse(field.value)
        except QuantityError as error:
            field.fault(str(error))
            continue
        if amount < 0:
            field.fault(f"{field.value!r} is negative: write an amount of at least 0")
        elif is_extended(name) and amount.denominator != 1:
            field.fault(f"{field.value!r} is not a whole number: {name} is counted in whole units")
        else:
            found[name] = amount
    return found


def _check_affinity(spec: Field) -> None:
    place = spec.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if not place.mapping():
        return
    terms = place["nodeSelectorTerms"]
    try:
        NodeSelector.parse(terms.value if isinstance(terms.value, list) else [], terms.path)
    except Invalid as error:
        spec.faults.extend(error.errors)
