"""The argument of the rules: one gang that asks to enter one queue, and the facts that they need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from t9ksched.model.queue import Queue
from t9ksched.workloads.shape import Template


@dataclass(frozen=True, slots=True)
class Request:
    """A gang that is to be admitted.

    Attributes:
        what: `Kind/name`, for sentences.
        queue_name: the queue asked for, and `queue_path` where it is asked for.
        queue: that queue, None if there is none.
        queue_names: queues that may be named to the submitter, to suggest one of a similar name.
        templates: every pod template, with its path.
        needs: the requests of the gang's minimum, in units by resource.
        annotations: of the object, with `annotations_path`.
        allocated: what the queue holds now, in units; None if unknown.
        judged_at: the time of day of this judgement, for a refusal that stands; empty where it is an answer for now.
    """

    what: str
    queue_name: str
    queue_path: str
    queue: Queue | None
    queue_names: Sequence[str] = ()
    templates: Sequence[Template] = ()
    needs: Mapping[str, int] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    annotations_path: str = "metadata.annotations"
    allocated: Mapping[str, int] | None = None
    judged_at: str = ""
