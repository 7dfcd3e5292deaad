"""The policy by which idle workloads are suspended: `policy.yaml` of ConfigMap `resource-keeper-policy-config`.

Below `policy` a block a kind (`notebook`, `tensorboard`, `explorer`); without its block a kind is left alone. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import msgspec

from t9ksched.model.errors import FieldError, Invalid, child, faulty
from t9ksched.model.labels import LabelSelector
from t9ksched.model.text import YamlFault, read
from t9ksched.model.wall_clock import parse_moment

CONFIG_MAP: Final = "resource-keeper-policy-config"
KEY: Final = "policy.yaml"
KINDS: Final = {"notebook": "Notebook", "tensorboard": "TensorBoard", "explorer": "Explorer"}
STALE: Final = timedelta(minutes=15)
"""What was found out longer ago about the use of a workload counts no more."""
_LONGEST: Final = 366 * 86_400


class Rule(msgspec.Struct, frozen=True):
    """The rule of a kind.

    Attributes:
        scan: how often workloads are looked at.
        timeout: after how long without use one is suspended.
        warning: how long before that its users are told; it is never suspended sooner after they were.
        namespaces: where it holds; None: everywhere.
    """

    scan: timedelta = timedelta(seconds=300)
    timeout: timedelta = timedelta(seconds=86_400)
    warning: timedelta = timedelta(seconds=3600)
    namespaces: LabelSelector | None = None

    def holds_in(self, labels: Mapping[str, str]) -> bool:
        """Whether it holds in a namespace with these labels."""
        return self.namespaces is None or self.namespaces.matches(labels)


Policy = Mapping[str, Rule]
"""Rules by kind."""


def parse_policy(text: str) -> dict[str, Rule]:
    """The policy that a document has.

    Raises:
        Invalid: naming every fault with its path.
    """
    try:
        document = read(text)
    except YamlFault as error:
        raise Invalid.at(KEY, str(error)) from None
    faults: list[FieldError] = []
    blocks = _mapping(document, "", ("policy",), faults).get("policy")
    found = {}
    for name, block in _mapping(blocks, "policy", tuple(KINDS), faults).items():
        if block is not None:
            found[KINDS[name]] = _rule(block, f"policy.{name}", faults)
    if faults:
        raise Invalid(faults)
    return found


_FIELDS: Final = ("scanInterval", "idleTimeout", "warnBefore", "namespaceSelector")


def _rule(block: Any, path: str, faults: list[FieldError]) -> Rule:
    said = _mapping(block, path, _FIELDS, faults)
    usual = Rule()
    scan = _seconds(said, "scanInterval", path, usual.scan, 10, faults)
    timeout = _seconds(said, "idleTimeout", path, usual.timeout, 60, faults)
    # Of a short time no hour is left to warn.
    warning = _seconds(said, "warnBefore", path, min(usual.warning, timeout / 2), 0, faults)
    if warning > timeout:
        faults.append(FieldError(f"{path}.warnBefore", "is longer than idleTimeout: it must be at most as long"))
    selector = None
    if said.get("namespaceSelector"):
        try:
            selector = LabelSelector.parse(said["namespaceSelector"], f"{path}.namespaceSelector")
        except Invalid as error:
            faults.extend(error.errors)
    return Rule(scan, timeout, warning, selector)


def _mapping(value: Any, path: str, known: tuple[str, ...], faults: list[FieldError]) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        faults.append(FieldError(path or KEY, faulty(value, "must be a mapping")))
        return {}
    for key in value:
        if key not in known:
            where = child(path, str(key)) if path else str(key)
            faults.append(FieldError(where, f"is unknown: use one of {', '.join(known)}"))
    return {key: value[key] for key in known if key in value}


def _seconds(
    said: Mapping[str, Any], key: str, path: str, usual: timedelta, least: int, faults: list[FieldError]
) -> timedelta:
    """A time as the platform writes it: `86400`, `86400s` or `"86400 s"`."""
    value = said.get(key)
    if value is None:
        return usual
    number = value.strip().removesuffix("s").strip() if isinstance(value, str) else value
    if isinstance(number, str) and number.isascii() and number.isdecimal() and len(number) <= len(str(_LONGEST)):
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= _LONGEST:
        text = f"must be a whole number of seconds from {least} to {_LONGEST}, such as {usual.seconds or 86_400}"
        faults.append(FieldError(f"{path}.{key}", faulty(value, text)))
        return usual
    return timedelta(seconds=number)


def kept_until(text: str) -> datetime:
    """The moment that `keep-until` names: a time, or a day of UTC, which counts as a whole.

    Raises:
        ValueError: it is neither.
    """
    try:
        day = date.fromisoformat(text) if len(text) == len("2030-01-31") else None
    except ValueError:
        day = None
    if day is not None and day.year < 9999:
        return datetime.combine(day + timedelta(days=1), time(), UTC)
    return parse_moment(text)


@dataclass(frozen=True, slots=True)
class Warned:
    """That users were told of a workload that is idle since then, and at which moment it is suspended."""

    since: datetime
    suspends: datetime


class Due(msgspec.Struct, frozen=True):
    """What is due: a warning, or the suspension, or neither."""

    warn: Warned | None = None
    suspend: bool = False


def due(
    rule: Rule, since: datetime, checked: datetime, kept: datetime | None, warned: Warned | None, now: datetime
) -> Due:
    """What is due for a workload that is idle since then, as was found out at `checked`.

    Nobody is suspended who was not told at least `warning` before, also not after the policy changed or a restart.
    A time of the future, from before the clock was set back, is as little believed as an old one.
    """
    if abs(now - checked) > STALE or (kept is not None and now < kept):
        return Due()
    if warned is not None and warned.since == since:
        return Due(suspend=now >= warned.suspends and now - since >= rule.timeout)
    if now - since < rule.timeout - rule.warning:
        return Due()
    return Due(warn=Warned(since, max(since + rule.timeout, now + rule.warning)))
