"""How bad input is reported: every fault with the path of its field, all faults of a document at once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec


class FieldError(msgspec.Struct, frozen=True):
    """One fault: `path` as users write it (`spec.quota.requests.cpu`), `message` what is wrong and what to do."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class FieldWarning:
    """Something accepted that is probably a mistake; `nearest` is the known name that is most alike, if one is."""

    path: str
    message: str
    nearest: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """As JSON has it."""
        return {"path": self.path, "message": self.message, "nearest": self.nearest}


class Invalid(ValueError):
    """A document that cannot be accepted; `errors` names each faulty field."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, self.errors)) or "invalid")

    @classmethod
    def at(cls, path: str, message: str) -> "Invalid":
        """An error with a single fault."""
        return cls([FieldError(path, message)])


def shown(value: object) -> str:
    """A value of a document for a message, in the words of JSON and YAML; of mappings and lists only what they are."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else repr(value)


def faulty(value: object, fault: str) -> str:
    """The beginning of a message about a value: `'x' is out of range`, or that it is missing."""
    return "is missing" if value is None else f"{shown(value)} {fault}"


def child(path: str, key: str) -> str:
    """The path of a field below `path`; keys with dots or slashes go into brackets: `limits[nvidia.com/gpu]`."""
    if "." in key or "/" in key:
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key
