"""Why a job waits, as REST and the CLI show it."""

from collections.abc import Iterable
from typing import Any

from t9ksched.model.reasons import Reason
from t9ksched.scheduler.report.node_shape import quantities

Json = dict[str, Any]


def reason_shapes(reasons: Iterable[Reason]) -> list[Json]:
    """Reasons in their order, amounts as Kubernetes writes them."""
    return [
        {
            "code": str(reason.code),
            "message": reason.message,
            "needs": quantities(reason.needs.items()),
            "has": quantities(reason.has.items()),
            "nodes": dict(reason.nodes),
        }
        for reason in reasons
    ]
