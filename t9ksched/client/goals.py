"""What a job is waited for, and when there is no use in it any more."""

from typing import Final, Literal, get_args

from t9ksched.model.job import FINISHED, TERMINATING

Goal = Literal["running", "succeeded", "failed", "finished", "deleted"]
GOALS: Final = get_args(Goal)


def reached(goal: str, phase: str) -> bool | None:
    """Whether a job of that phase is where `goal` says; None if it cannot get there any more.

    `running` is also reached by a job that has already succeeded. That it is deleted no phase says.
    """
    if goal == "deleted":
        return False
    if phase == TERMINATING:
        return None
    if goal == "finished":
        return phase in FINISHED
    if phase.lower() == goal or (goal == "running" and phase == "Succeeded"):
        return True
    return None if phase in FINISHED else False
