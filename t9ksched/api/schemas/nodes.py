"""Nodes and their cards."""

from typing import Any, Literal

from t9ksched.api.schemas.base import Body, Continue, Quantities, Shape


class CountedCards(Shape):
    """Cards, or parts of cards, of a node that are counted by number: they have no indices."""

    resource: str
    model: str | None
    memoryMiB: int | None
    has: int
    held: int
    cordoned: int


class CardShape(Shape):
    """Whether a card takes new work; `why`, `by` and `at` say who cordoned it and for what reason."""

    node: str
    index: int
    cordoned: bool
    why: str
    by: str | None
    at: str | None


class CardBody(Body):
    """Whether the card takes no new work, and why it takes none."""

    cordoned: bool
    why: str = ""


class PlannedOnNode(Shape):
    """A planned start on a node: when, for how many pods and cards, and until when they may be there at the latest
    (null: no end is enforced). `namespace` and `job` are null where the caller may not see the job.
    """

    at: str
    until: str | None
    firm: bool
    namespace: str | None
    job: str | None
    queue: str
    pods: int
    gpus: int


class MisheldCards(Shape):
    """A pod that holds on record a card that is gone from its node, or that others hold too; `what` says which."""

    namespace: str | None
    pod: str | None
    what: str
    job: str | None
    queue: str | None


class Node(Shape):
    """A node with its cards and the jobs that hold them.

    `mode` is how it hands out its accelerators, null without any. `gpus` are cards by index: whole ones, and those
    of which the node gives parts (`MGPU`, `HAMi`); what is shared otherwise, sliced, or more than 64 of one resource is
    counted by number and stands in `counted`. Each of a card's `holders` has it `whole`, or `cores` percent and
    `memoryMiB`.

    A card of `gpus` that is `cordoned` takes no new work; `cordonedWhy` is the reason that was given, if any.

    `notReady` says in words why its accelerators are not ready, or which of them are handed out by DRA (not supported
    yet); pods that ask for these are kept away meanwhile.

    `linksIgnored` says why its annotation `gpu-links` is not followed; null where it is, and where there is none.

    `cardsIgnored` says what its own words about its cards are that cannot be read or followed, such as an entry of
    HAMi's register or a label; those cards are not given. One that is not `healthy` takes no work, and `unhealthyWhy`
    says why.

    `cardDrift` counts its pods whose annotations name other cards than the scheduler's record, `cardsUnknown` those of
    them of which no card is on record: until they are gone, a node that honours indices gives no more cards.
    `cardsMisheld` are pods whose cards are gone from the node, or held by other pods too.
    """

    name: str
    ready: bool
    schedulable: bool
    labels: dict[str, str]
    allocatable: Quantities
    allocated: Quantities
    cardMode: Literal["honours-index", "plugin-chooses"]
    mode: (
        Literal[
            "Whole",
            "TimeSliced",
            "MPS",
            "MIGSingle",
            "MIGMixed",
            "HAMi",
            "MGPU",
            "GPUShare",
            "Koordinator",
            "NotReady",
        ]
        | None
    )
    notReady: str | None
    linksIgnored: str | None
    cardsIgnored: str | None
    cardDrift: int
    cardsUnknown: int
    cardsMisheld: list[MisheldCards]
    gpus: list[dict[str, Any]]
    counted: list[CountedCards]
    planned: list[PlannedOnNode]


class Nodes(Shape):
    """Several nodes."""

    items: list[Node]
    continue_: Continue
