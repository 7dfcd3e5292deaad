"""Rules about what pods ask for that this version cannot honour, or that users may not write, whatever the queue.

`unplaceable` asks the rules about a single pod template: the scheduler asks them of every pod, because pods may differ
from the job that was accepted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from t9ksched.admission.request import Request
from t9ksched.admission.verdict import ALLOWED, FORBIDDEN, UNSUPPORTED_CLAIM, Verdict, invalid, refuse
from t9ksched.model.card_requests import is_part, written
from t9ksched.model.cardchoice import faults as choice_faults
from t9ksched.model.cardmode import is_share
from t9ksched.model.dra import IMPLICIT_PREFIX
from t9ksched.model.errors import FieldError, Invalid, child
from t9ksched.model.names import MAX_CARD_CONTAINER_NAME, is_system_namespace
from t9ksched.model.pod import container_cards, decode_pod_spec
from t9ksched.model.quantity import QuantityError, to_units
from t9ksched.model.resources import is_card_resource
from t9ksched.workloads.podspec import long_name_fault
from t9ksched.workloads.shape import Template

SHARED: Final = "nvidia.com/gpu.shared"
PARTS: Final = ("containers", "initContainers")
Resources = Mapping[str, Mapping[str, Any]]


def namespace_for_users(request: Request) -> Verdict:
    """The namespace is not the system's: REST creates objects by its own rights, which reach further than a user's."""
    if not is_system_namespace(request.namespace):
        return ALLOWED
    message = f"the namespace {request.namespace!r} belongs to the system: nothing can be submitted there"
    return refuse(FORBIDDEN, message, [FieldError("metadata.namespace", message)], "use another namespace")


def node_left_open(request: Request) -> Verdict:
    """No template names its node: such pods start past the scheduler, which counts them to no queue."""
    text = "is set by the scheduler: leave it out, and name nodes by nodeSelector or affinity"
    faults = [
        FieldError(f"{template.path}.nodeName", text) for template in request.templates if template.spec.get("nodeName")
    ]
    return invalid(faults) if faults else ALLOWED


def shared_cards_one_each(request: Request) -> Verdict:
    """No container asks for more than one turn on a shared card: more give it no more of the card, and where the device
    plugin is configured so it fails the container. The scheduler takes such pods as they are.
    """
    faults = [
        FieldError(
            child(f"{path}.resources.{part}", SHARED),
            f"{resources[part][SHARED]}: a container has at most 1, more turns on a card give it no more of the card",
        )
        for path, _, resources in containers(request.templates)
        for part, resource in _named(resources)
        if resource == SHARED and _more_than_one(resources[part][SHARED])
    ]
    return invalid(faults, f"ask for 1 of {SHARED}, or for whole cards (nvidia.com/gpu)") if faults else ALLOWED


def _more_than_one(amount: Any) -> bool:
    try:
        return to_units(SHARED, amount) > 1
    except QuantityError:
        return False  # other rules say so


def claims_supported(request: Request) -> Verdict:
    """No template asks for devices by resource claims, which this scheduler does not place yet."""
    return _claims(request.templates)


def card_shares_supported(request: Request) -> Verdict:
    """No container asks for a share of a card: totals of a node do not tell shares of single cards apart."""
    return _shares(request.templates)


def card_parts_meaningful(request: Request) -> Verdict:
    """What containers ask of parts of cards can be given."""
    return _parts(request.templates)


def card_names_fit(request: Request) -> Verdict:
    """A container that asks for cards has a name that fits into the annotation of its card indices."""
    return _card_names(request.templates)


def cards_chosen_well(request: Request) -> Verdict:
    """What annotations say of the model and the kind of cards can be read."""
    return _choices(request.templates)


def unplaceable(template: Template) -> list[Verdict]:
    """What of a pod template no scheduler of this version places, rule by rule; empty for one that it does."""
    one = (template,)
    return [verdict for rule in _OF_PODS if not (verdict := rule(one)).allowed]


def _claims(templates: Iterable[Template]) -> Verdict:
    faults = []
    for template in templates:
        if template.spec.get("resourceClaims"):
            text = "resource claims are not supported: ask for cards in resources.limits"
            faults.append(FieldError(f"{template.path}.resourceClaims", text))
        faults += [
            FieldError(
                child(f"{path}.resources.{part}", resource),
                "is a DeviceClass: devices of DRA are not supported, ask for cards by the name of their resource",
            )
            for path, _, resources in containers((template,))
            for part, resource in _named(resources)
            if resource.startswith(IMPLICIT_PREFIX)
        ]
    remedy = "ask for devices by resource name, such as nvidia.com/gpu"
    return invalid(faults, remedy, UNSUPPORTED_CLAIM) if faults else ALLOWED


def _shares(templates: Iterable[Template]) -> Verdict:
    faults = [
        FieldError(
            child(f"{path}.resources.{part}", resource),
            "is a share of a card: this scheduler gives out whole cards and does not keep shares of cards apart",
        )
        for path, _, resources in containers(templates)
        for part, resource in _shared(resources)
    ]
    remedy = (
        "ask for whole cards, such as nvidia.com/gpu, or leave the pod to the scheduler of the system that shares cards"
    )
    return invalid(faults, remedy, UNSUPPORTED_CLAIM) if faults else ALLOWED


def _parts(templates: Iterable[Template]) -> Verdict:
    faults = []
    for template in templates:
        said = written(template.annotations)
        if not said and not any(
            is_part(name) for _, _, resources in containers((template,)) for _, name in _named(resources)
        ):
            continue
        try:
            container_cards(decode_pod_spec(template.spec), said)
        except Invalid as error:
            before = template.path.removesuffix("spec")
            faults += [FieldError(before + fault.path, fault.message) for fault in error.errors]
        except (QuantityError, msgspec.ValidationError):
            continue  # other rules say so
    return invalid(faults, "ask for parts of cards as the guide says, or for whole cards") if faults else ALLOWED


def _named(resources: Resources) -> Iterator[tuple[str, str]]:
    """Each resource that a container names, and where: `limits` or `requests`."""
    for part in ("limits", "requests"):
        for resource in resources.get(part) or ():
            yield part, resource


def _shared(resources: Resources) -> Iterator[tuple[str, str]]:
    """Each share that a container asks for, once, and where: `limits` or `requests`."""
    seen: set[str] = set()
    for part, resource in _named(resources):
        if resource not in seen and _is_share(resource):
            seen.add(resource)
            yield part, resource


def _card_names(templates: Iterable[Template]) -> Verdict:
    faults = [
        FieldError(f"{path}.name", long_name_fault(name, resource))
        for path, name, resources in containers(templates)
        if len(name) > MAX_CARD_CONTAINER_NAME and (resource := _first_card(resources))
    ]
    remedy = f"give it a name of at most {MAX_CARD_CONTAINER_NAME} characters"
    return invalid(faults, remedy) if faults else ALLOWED


def _choices(templates: Iterable[Template]) -> Verdict:
    found = []
    for template in templates:
        texts = template.annotations
        names = [name for _, name, _ in containers((template,))]
        path = f"{template.path.removesuffix('spec')}metadata.annotations"
        found += [FieldError(child(path, key), message) for key, message in choice_faults(texts, names)]
    return invalid(found, "correct the annotation, or leave it out") if found else ALLOWED


def _first_card(resources: Resources) -> str:
    """The first card resource that a container asks for, empty if it asks for none."""
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    cards = (name for name in asked if is_card_resource(name) or is_part(name))
    return min((name for name in cards if str(asked[name]) != "0"), default="")


def containers(templates: Iterable[Template]) -> Iterator[tuple[str, str, Resources]]:
    """Path, name and resources of every container, init containers too."""
    for template in templates:
        for part in PARTS:
            for index, container in enumerate(template.spec.get(part) or ()):
                path = f"{template.path}.{part}[{index}]"
                yield path, str(container.get("name") or ""), container.get("resources") or {}


_is_share = lru_cache(maxsize=1024)(is_share)
_OF_PODS: Final[tuple[Callable[[Iterable[Template]], Verdict], ...]] = (
    _claims,
    _shares,
    _parts,
    _card_names,
    _choices,
)
