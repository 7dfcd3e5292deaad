"""Reads a reservation of administrators as they write it, with every fault at once.

`parse_reservation` is the one place where that is done, whether it comes by REST or from SQL.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, cast

from t9ksched.model.advance_reservation import (
    EVERY,
    FIELDS,
    MAINTENANCE,
    ON_CONFLICT,
    AdvanceReservation,
    Cards,
    Every,
    OnConflict,
    ReservedNodes,
)
from t9ksched.model.dns import is_label, is_subdomain
from t9ksched.model.duration import parse_duration
from t9ksched.model.errors import FieldError, Invalid, child, faulty, shown
from t9ksched.model.labels import LabelSelector, key_fault
from t9ksched.model.wall_clock import parse_moment, time_zone, zone_fault

_NEEDED: Final = {
    "name": "give the reservation a name",
    "from": "write when it begins, such as 2030-01-31T20:00:00Z",
    "to": "write when it ends, such as 2030-01-31T22:00:00Z",
    "nodes": "write {names: [NODE, …]} or {selector: {matchLabels: {…}}, count: N}",
    "for": f"write {{queues: […], users: […], groups: […]}} or {MAINTENANCE}",
}
_MOST_NAMES: Final = 10_000
_LONGEST_NAME: Final = 253
_LONGEST_NOTE: Final = 1000
_MOST_CARDS: Final = 10_000
_PERIOD: Final = {"daily": timedelta(days=1), "weekly": timedelta(days=7)}


def parse_reservation(raw: object) -> AdvanceReservation:
    """Read and check a reservation.

    Raises:
        Invalid: naming every faulty field.
    """
    if not isinstance(raw, Mapping):
        raise Invalid.at("", "must be a mapping with name, from, to, nodes and for")
    form = _Form(raw)
    found = form.read()
    if form.faults:
        raise Invalid(form.faults)
    return found


class _Form:
    """Takes fields out of a raw reservation and collects every fault."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw, self.faults = raw, list[FieldError]()

    def fail(self, path: str, message: str) -> None:
        self.faults.append(FieldError(path, message))

    def read(self) -> AdvanceReservation:
        """The reservation, of no use once there are faults."""
        for key in self.raw:
            if key not in FIELDS:
                self.fail(str(key), f"is unknown: the fields are {', '.join(FIELDS)}")
        for key, what in _NEEDED.items():
            if self.raw.get(key) is None:
                self.fail(key, f"is missing: {what}")
        zone = self.text("timeZone", "UTC", _LONGEST_NAME)
        if fault := zone_fault(zone):
            self.fail("timeZone", fault)
            zone = "UTC"
        nothing = datetime.fromisoformat("1970-01-01T00:00:00Z")
        begins, ends, until = self.moment("from"), self.moment("to"), self.moment("until")
        every = cast(Every, self.choice("every", EVERY, ""))
        self._times(begins, ends, until, every, zone)
        queues, users, groups = self._whom()
        nodes, conflict, force = self._nodes(), self.choice("onConflict", ON_CONFLICT, "Refuse"), self.flag("force")
        if force and conflict != "Preempt":
            self.fail("force", "has an effect only with onConflict: Preempt")
        return AdvanceReservation(
            name=self._name(),
            begins=begins or nothing,
            ends=ends or nothing,
            every=every,
            until=until,
            time_zone=zone,
            nodes=nodes,
            cards=self._cards(),
            queues=queues,
            users=users,
            groups=groups,
            maintenance=self.raw.get("for") == MAINTENANCE,
            on_conflict=cast(OnConflict, conflict),
            force=force,
            drain_ahead=self.duration("drainAhead", "24h"),
            release_unused_after=self.duration("releaseUnusedAfter", "30m"),
            note=self.text("note", "", _LONGEST_NOTE),
            source=None if nodes.selector is None else dict(self.raw["nodes"]["selector"]),
        )

    def text(self, key: str, default: str, longest: int) -> str:
        value = self.raw.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > longest:
            self.fail(key, f"must be a text of at most {longest} characters")
            return default
        return value

    def flag(self, key: str) -> bool:
        value = self.raw.get(key)
        if value is not None and not isinstance(value, bool):
            self.fail(key, f"must be true or false, not {shown(value)}")
        return value is True

    def choice(self, key: str, options: tuple[str, ...], default: str) -> str:
        value = self.raw.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or value not in options:
            self.fail(
                key, f"{shown(value)} is unknown: use one of {', '.join(option or repr('') for option in options)}"
            )
            return default
        return value

    def moment(self, key: str) -> datetime | None:
        value = self.raw.get(key)
        if value is None:
            return None
        try:
            return parse_moment(value)
        except ValueError as error:
            self.fail(key, str(error))
            return None

    def duration(self, key: str, default: str) -> str:
        value = self.raw.get(key)
        if value is None:
            return default
        try:
            if not isinstance(value, str) or not value:
                raise ValueError(f"{shown(value)} is not a duration: write one such as 24h or 30m, or '0'")
            length = parse_duration(value)
            if length is not None and length > timedelta(days=366):
                raise ValueError(f"{value!r} is longer than a year")
        except ValueError as error:
            self.fail(key, str(error))
            return default
        return value

    def names(self, value: object, path: str) -> frozenset[str]:
        """Names of queues, users, groups or nodes."""
        if value is None:
            return frozenset()
        if not isinstance(value, list) or not all(_is_name(name) for name in value):
            self.fail(path, f"must be a list of names of 1 to {_LONGEST_NAME} characters")
            return frozenset()
        if len(value) > _MOST_NAMES:
            self.fail(path, f"has {len(value)} names: at most {_MOST_NAMES} are allowed")
            return frozenset()
        return frozenset(value)

    def number(self, value: object, path: str, most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            self.fail(path, f"{faulty(value, 'is out of range')}: use a whole number from 1 to {most}")
            return 1
        return value

    def mapping(self, key: str, known: Iterable[str], written: str) -> Mapping[str, Any]:
        """The mapping at that key; empty if it is none, which is a fault."""
        value = self.raw[key]
        if not isinstance(value, Mapping):
            self.fail(key, f"must be written as {written}")
            return {}
        for name in value:
            if name not in known:
                self.fail(child(key, str(name)), f"is unknown: write {written}")
        return value

    def _name(self) -> str:
        name = self.raw.get("name")
        if name is not None and (not isinstance(name, str) or not is_label(name)):
            self.fail("name", f"{shown(name)} is not a name: use 1 to 63 lower-case letters, digits and '-'")
        return str(name)

    def _times(
        self, begins: datetime | None, ends: datetime | None, until: datetime | None, every: Every, zone: str
    ) -> None:
        """How the times belong together."""
        if begins is not None and ends is not None:
            if ends <= begins:
                self.fail("to", "must be later than from")
            elif every and _wall(ends, zone) - _wall(begins, zone) > _PERIOD[every]:
                self.fail("to", f"is more than a {'day' if every == 'daily' else 'week'} after from: it would overlap")
        if until is not None and not every:
            self.fail("until", "has an effect only with every: daily or weekly")
        elif until is not None and begins is not None and until < begins:
            self.fail("until", "must not be earlier than from")

    def _nodes(self) -> ReservedNodes:
        if self.raw.get("nodes") is None:
            return ReservedNodes()
        written = "{names: [NODE, …]} or {selector: {matchLabels: {…}}, count: N}"
        raw = self.mapping("nodes", ("names", "selector", "count"), written)
        if raw.get("selector") is None:
            if raw.get("count") is not None:
                self.fail("nodes.count", "goes with nodes.selector: nodes that are named are all reserved")
            names = self.names(raw.get("names"), "nodes.names")
            for name in sorted(names):
                if not is_subdomain(name):
                    self.fail("nodes.names", f"{name!r} is not the name of a node")
            if not names and not any(fault.path.startswith("nodes") for fault in self.faults):
                self.fail("nodes", f"names no node: write {written}")
            return ReservedNodes(tuple(sorted(names)))
        if raw.get("names"):
            self.fail("nodes.names", "goes without nodes.selector: name the nodes or select them")
        selector = None
        try:
            selector = LabelSelector.parse(raw["selector"], "nodes.selector")
        except Invalid as error:
            self.faults.extend(error.errors)
        if raw.get("count") is None:
            self.fail("nodes.count", "is missing: say how many of the nodes that the selector matches")
            return ReservedNodes((), selector)
        return ReservedNodes((), selector, self.number(raw["count"], "nodes.count", _MOST_NAMES))

    def _cards(self) -> Cards | None:
        if self.raw.get("cards") is None:
            return None
        raw = self.mapping("cards", ("resource", "count"), "{resource: nvidia.com/gpu, count: 4}")
        resource = raw.get("resource")
        if not isinstance(resource, str) or "/" not in resource or key_fault(resource):
            self.fail("cards.resource", f"{shown(resource)} is not a resource of cards, such as nvidia.com/gpu")
        return Cards(str(resource), self.number(raw.get("count"), "cards.count", _MOST_CARDS))

    def _whom(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        nobody: tuple[frozenset[str], ...] = (frozenset(),) * 3
        if self.raw.get("for") in (None, MAINTENANCE):
            queues, users, groups = nobody
            return queues, users, groups
        raw = self.mapping("for", ("queues", "users", "groups"), _NEEDED["for"].removeprefix("write "))
        before = len(self.faults)
        queues, users, groups = (self.names(raw.get(key), f"for.{key}") for key in ("queues", "users", "groups"))
        if not (queues or users or groups) and len(self.faults) == before and isinstance(self.raw["for"], Mapping):
            self.fail("for", f"admits no job: name queues, users or groups, or write {MAINTENANCE}")
        return queues, users, groups


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME


def _wall(moment: datetime, zone: str) -> datetime:
    """What clocks of the zone show then."""
    return moment.astimezone(time_zone(zone)).replace(tzinfo=None, fold=0)
