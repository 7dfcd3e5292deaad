"""Reasons for which a pod is not placed whatever room there is. Scheduling gates may be removed later; features that
this version does not support never are: a pod that uses one waits with a reason instead of being placed wrongly. The
rules are those of admission: they are asked of every pod, because a pod may differ from the job that was accepted.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from t9ksched.admission.verdict import INVALID_FIELD, Verdict
from t9ksched.model.pod import Pod
from t9ksched.model.reasons import Code, Reason

_CODES: Final[Mapping[str, Code]] = {INVALID_FIELD: Code.INVALID_POD}


def gates(pod: Pod, refusals: Iterable[Verdict]) -> tuple[Reason, ...]:
    """The reasons that lie in the pod itself; empty for a pod that may be placed.

    `refusals` are what the rules say of what they read of it (`Sharing.unplaceable`); none if it cannot be read, which
    is told elsewhere.
    """
    found: list[Reason] = []
    if pod.spec.scheduling_gates:
        closed = ", ".join(sorted(str(gate.get("name", "?")) for gate in pod.spec.scheduling_gates))
        found.append(
            Reason(
                Code.SCHEDULING_GATED,
                f"pod {pod.metadata.name} has closed scheduling gates: {closed}",
                unblocks=(f"the controller that set the gates ({closed}) removes them",),
            )
        )
    for verdict in refusals:
        code = _CODES.get(verdict.code) or Code(verdict.code)
        found.append(Reason(code, f"pod {pod.metadata.name}: {verdict.message}", unblocks=(verdict.remedy,)))
    return tuple(found)
