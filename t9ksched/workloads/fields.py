"""Reading users' objects: a value together with its path, and every fault found on the way.

Users' objects are plain dicts of unknown quality. A `Field` walks them with typed getters; a wrong type is recorded
with its full path and the default is used in its place, so that one pass reports all faults of a document and the
readers of kinds stay free of checks. Absent and `null` are the same, as for Kubernetes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from t9ksched.model.dns import is_subdomain
from t9ksched.model.errors import FieldError, child, shown

MAX_COUNT = 100_000
"""More replicas than any cluster runs; a larger number is taken for a typing error."""


class Field:
    """One place of a document: its value, its path, and the list that collects the document's faults."""

    __slots__ = ("faults", "path", "unreachable", "value")

    def __init__(
        self, value: Any, path: str = "", faults: list[FieldError] | None = None, *, unreachable: bool = False
    ) -> None:
        self.value = value
        self.path = path
        self.faults: list[FieldError] = [] if faults is None else faults
        self.unreachable = unreachable

    def fault(self, message: str) -> None:
        """Record a fault here; below a value of a wrong type only that value is reported, and once."""
        found = FieldError(self.path, message)
        if not self.unreachable and found not in self.faults:
            self.faults.append(found)

    @property
    def present(self) -> bool:
        """Whether the field is there and not null."""
        return self.value is not None

    def __getitem__(self, key: str) -> "Field":
        """The field below. Anything but a mapping has nothing below it, and is reported."""
        if type(self.value) is dict:  # as nearly always, and quicker to tell than a Mapping
            return Field(self.value.get(key), child(self.path, key), self.faults, unreachable=self.unreachable)
        unreachable = self.unreachable or (self.present and not isinstance(self.value, Mapping))
        return Field(self.mapping().get(key), child(self.path, key), self.faults, unreachable=unreachable)

    def at(self, *keys: str) -> "Field":
        """The field several keys below."""
        here = self
        for key in keys:
            here = here[key]
        return here

    def mapping(self) -> Mapping[str, Any]:
        """The value as a mapping, empty if absent."""
        if type(self.value) is dict:
            return self.value
        if self.value is None:
            return {}
        if not isinstance(self.value, Mapping):
            self.fault(f"must be a mapping, not {_kind(self.value)}")
            return {}
        return self.value

    def entries(self) -> Iterator[tuple[str, "Field"]]:
        """The fields of a mapping by key."""
        for key in self.mapping():
            if isinstance(key, str):
                yield key, self[key]
            else:
                self.fault(f"has the key {shown(key)}, which is no text: put it in quotes")

    def items(self) -> list["Field"]:
        """The entries of a list, empty if absent."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.fault(f"must be a list, not {_kind(self.value)}")
            return []
        return [Field(item, f"{self.path}[{index}]", self.faults) for index, item in enumerate(self.value)]

    def some(self, message: str) -> list["Field"]:
        """The entries of a list that must have at least one; `message` says what for."""
        found = self.items()
        if self.value is None or self.value == []:
            self.fault(message)
        return found

    def text(self, default: str = "") -> str:
        """The value as text."""
        if self.value is None:
            return default
        if not isinstance(self.value, str):
            self.fault(f"must be a text, not {_kind(self.value)}: put it in quotes")
            return default
        return self.value

    def object_name(self, missing: str) -> str:
        """The value as the name of an object of the cluster; `missing` says what to do where there is none."""
        name = self.text()
        if not self.present or self.value == "":
            self.fault(missing)
        elif name and not is_subdomain(name):
            self.fault(f"{name!r} is not a name: use at most 253 of a-z, 0-9, - and ., a letter or digit at both ends")
        return name

    def texts(self) -> list[str]:
        """The value as a list of texts."""
        return [item.text() for item in self.items()]

    def whole(self, default: int = 0, low: int = 0, high: int = MAX_COUNT) -> int:
        """The value as a whole number from `low` to `high`."""
        if self.value is None:
            return default
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not low <= self.value <= high:
            self.fault(f"{shown(self.value)} is out of range: use a whole number from {low} to {high}")
            return default
        return self.value

    def flag(self, default: bool = False) -> bool:
        """The value as true or false."""
        if self.value is None:
            return default
        if not isinstance(self.value, bool):
            self.fault(f"must be true or false, not {shown(self.value)}")
            return default
        return self.value

    def choice(self, options: tuple[str, ...], default: str) -> str:
        """The value as one of a few words."""
        word = self.text(default)
        if word not in options:
            self.fault(f"{word!r} is unknown: use one of {', '.join(options)}")
            return default
        return word

    def labels(self) -> dict[str, str]:
        """The value as a mapping from text to text, such as labels or a nodeSelector."""
        return {key: field.text() for key, field in self.entries()}


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, Mapping) else type(value).__name__
