"""The JSON shapes of requests and answers, as `/docs` and clients generated from OpenAPI see them.

They describe, they do not convert: answers are written as they are, and bodies are read by the model's own parsers,
which tell every faulty field.
"""

from api.schemas.accounts import NewToken, Token, TokenBody, Tokens, WhoAmI
from api.schemas.base import FieldFault, ProblemShape, Quantities, ReasonShape, Shape, WarningShape
from api.schemas.jobs import (
    PHASES,
    Cancelled,
    ControlShape,
    Explanation,
    ExplanationReason,
    Job,
    Jobs,
    Members,
    PriorityBody,
    Submitted,
    TimeLimitShape,
    UpdateBody,
)
from api.schemas.nodes import CountedCards, Node, Nodes, PlannedOnNode
from api.schemas.queues import (
    AccessAnswer,
    AccessQuestion,
    MembersBody,
    MembersShape,
    Queue,
    QueueBody,
    QueueChange,
    Queues,
    QueueSpecShape,
    StopBody,
    StopShape,
    StopsShape,
)
from api.schemas.reports import AuditPage, HistoryEvent, HistoryPage, UsageReport, UsageRow
from api.schemas.service import Health, Readiness, Release
from api.schemas.timeline import Timeline, TimelineItem, TimelineNode, TimelinePlace

__all__ = [
    "PHASES",
    "AccessAnswer",
    "AccessQuestion",
    "AuditPage",
    "Cancelled",
    "ControlShape",
    "CountedCards",
    "Explanation",
    "ExplanationReason",
    "FieldFault",
    "Health",
    "HistoryEvent",
    "HistoryPage",
    "Job",
    "Jobs",
    "Members",
    "MembersBody",
    "MembersShape",
    "NewToken",
    "Node",
    "Nodes",
    "PlannedOnNode",
    "PriorityBody",
    "ProblemShape",
    "Quantities",
    "Queue",
    "QueueBody",
    "QueueChange",
    "QueueSpecShape",
    "Queues",
    "Readiness",
    "ReasonShape",
    "Release",
    "Shape",
    "StopBody",
    "StopShape",
    "StopsShape",
    "Submitted",
    "TimeLimitShape",
    "Timeline",
    "TimelineItem",
    "TimelineNode",
    "TimelinePlace",
    "Token",
    "TokenBody",
    "Tokens",
    "UpdateBody",
    "UsageReport",
    "UsageRow",
    "WarningShape",
    "WhoAmI",
]
