"""Sentences that the translations of several schedulers say alike."""

from typing import Final

from t9ksched.importing.objects import Fields

NO_SHARES: Final = (
    "queues do not lend to each other, and have no weights: a second queue of lower priority may hold more, and yields"
)
NO_TREE: Final = "queues have no parents: what a parent may hold bounds each queue below it, not all together"
NO_RUN_TIME: Final = "the policy has it for all queues: minimumRunTime of preempt in scheduler.conf"
NO_PREEMPTION: Final = "the policy has it for all queues: preempt in scheduler.conf, off until it is listed"


def who(fields: Fields, name: str) -> None:
    """Say that where it comes from everybody could use a queue, and that here nobody may until it is said who."""
    here = f"nobody may use it yet: t9ksched queues members {name} --everyone, or --add-group GROUP"
    fields.told("", "none", here)
