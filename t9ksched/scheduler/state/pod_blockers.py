"""What keeps a pod from being placed whatever room there is.

Gates open by themselves (`schedulingGates`), or never in this version: what we cannot honour we refuse with a reason
instead of placing it wrongly.
"""

from t9ksched.model.cardmode import is_share
from t9ksched.model.names import MAX_CARD_CONTAINER_NAME
from t9ksched.model.pod import Pod, PodSpec, container_cards
from t9ksched.model.quantity import QuantityError
from t9ksched.model.reasons import Code, Reason


def gates(pod: Pod) -> tuple[Reason, ...]:
    """The reasons that lie in the pod itself; empty for a pod that may be placed."""
    spec = pod.spec
    found: list[Reason] = []
    if spec.scheduling_gates:
        closed = ", ".join(sorted(str(gate.get("name", "?")) for gate in spec.scheduling_gates))
        found.append(
            Reason(
                Code.SCHEDULING_GATED,
                f"pod {pod.metadata.name} has closed scheduling gates: {closed}",
                unblocks=(f"the controller that set the gates ({closed}) removes them",),
            )
        )
    if spec.resource_claims:
        found.append(
            Reason(
                Code.UNSUPPORTED_CLAIM,
                f"pod {pod.metadata.name} uses resource claims, which this scheduler does not allocate",
                unblocks=("ask for devices by resource name, such as nvidia.com/gpu",),
            )
        )
    if shares := _shares(spec):
        found.append(
            Reason(
                Code.UNSUPPORTED_CLAIM,
                f"pod {pod.metadata.name} asks for {', '.join(shares)}, shares of cards: this scheduler gives out whole"
                " cards and does not keep shares of one card apart",
                unblocks=(
                    "ask for whole cards, such as nvidia.com/gpu",
                    "leave the pod to the scheduler of the system that shares the cards",
                ),
            )
        )
    found.extend(_long_names(pod))
    return tuple(found)


def _shares(spec: PodSpec) -> list[str]:
    """The resources that the pod asks for and that are shares of single cards."""
    asked: set[str] = set()
    for container in (*spec.containers, *(spec.init_containers or ())):
        if container.resources is not None:
            asked.update(container.resources.requests or (), container.resources.limits or ())
    return sorted(name for name in asked if is_share(name))


def _long_names(pod: Pod) -> list[Reason]:
    try:
        cards = container_cards(pod.spec)
    except QuantityError:
        return []  # reported with the pod's class
    return [
        Reason(
            Code.INVALID_POD,
            f"container {container!r} of pod {pod.metadata.name} asks for cards and its name has {len(container)}"
            f" characters: at most {MAX_CARD_CONTAINER_NAME} fit into the annotation that names its cards",
            unblocks=(f"give the container a name of at most {MAX_CARD_CONTAINER_NAME} characters",),
        )
        for container in dict.fromkeys(card.container for card in cards)
        if len(container) > MAX_CARD_CONTAINER_NAME
    ]
