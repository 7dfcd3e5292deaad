"""Classes of priorities of jobs: the number from 0 to 100 that takes the place of each."""

from collections.abc import Sequence

from t9ksched.importing.objects import Fields
from t9ksched.importing.report import JobPriority, Outcome, Report, scaled

_SYSTEM = 1_000_000_000
"""Values above are those of the system, which jobs do not have."""
NOT_EVICTED = 100
"""From this value on KAI takes nothing from a job."""


def classes(found: Sequence[Fields], report: Report, *, kept_from: int | None = None) -> None:
    """Say which number each class becomes. Jobs of classes from `kept_from` on are not evicted where they come from."""
    values: dict[str, tuple[Fields, int]] = {}
    for fields in found:
        value = fields.whole_number(fields.whole, "value", "")
        if value is None:
            if "value" not in fields.whole:
                fields.fault("value", "is missing: a class of priorities has a value")
        elif value < _SYSTEM:
            values[fields.name] = (fields, value)
    numbers = scaled({value for _, value in values.values()} | {0})
    for name, (fields, value) in values.items():
        number = numbers[value]
        report.priorities.append(JobPriority(name, value, number))
        outcome: Outcome = "same" if number == value else "changed"
        fields.told("value", outcome, f"jobs of this class have spec.priority {number} in their queue", value)
        if kept_from is not None and value >= kept_from:
            here = "jobs of a class cannot be kept from eviction: give them a queue with preemptible: false"
            fields.told("value", "none", here, value)
        for key in ("preemptionPolicy", "globalDefault"):
            if fields.whole.get(key):
                fields.told(
                    key, "none", "a class has its number alone: write the priority into the job", fields.whole[key]
                )
