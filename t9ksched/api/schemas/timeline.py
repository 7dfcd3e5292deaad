"""The timeline: what runs until when, and what is planned and reserved."""

from t9ksched.api.schemas.base import Shape


class TimelineNode(Shape):
    """A node and how many cards it has."""

    name: str
    gpus: int


class TimelinePlace(Shape):
    """What an item has on a node."""

    name: str
    pods: int
    gpus: int


class TimelineItem(Shape):
    """Room that a job has from one moment to another.

    `kind` is `running`, `reservation` (by administrators, and named by `reservation`), or what room is reserved for,
    such as `planned start`. `from` is null where it is not known, `until` where no end is enforced. `firm` says of a
    planned start whether every end that it relies on is enforced; one that is not firm holds no room. `namespace` and
    `job` (`Kind/name`) are null where the caller may not see the job, `queue` where no queue pays.
    """

    kind: str
    namespace: str | None
    job: str | None
    queue: str | None
    until: str | None
    firm: bool | None
    gpus: int
    nodes: list[TimelinePlace]


class Timeline(Shape):
    """The items between `at`, which is now, and `to`, sorted by beginning; and all nodes, sorted by name."""

    at: str
    to: str
    nodes: list[TimelineNode]
    items: list[TimelineItem]
