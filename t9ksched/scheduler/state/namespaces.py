"""What is known of namespaces: their labels, which rules about pods and queues select by, and their annotations."""

from collections.abc import Callable, Collection

import msgspec

from t9ksched.admission.identity import Namespace
from t9ksched.model.pod import Metadata


class NamespaceObject(msgspec.Struct, gc=False):
    """A Namespace as the API server has it."""

    metadata: Metadata


class Namespaces:
    """All namespaces, kept event by event. `on_change` is told the name of each whose labels or annotations changed."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._known: dict[str, Namespace] = {}
        self._on_change = on_change
        self.labels: dict[str, dict[str, str]] = {}
        """By name, for views; replaced, never changed in place."""

    def get(self, name: str) -> Namespace | None:
        """What is known of it; None before it was seen, and after it is gone."""
        return self._known.get(name)

    def of_owners(self, users: Collection[str]) -> list[str]:
        """The names of the namespaces that belong to one of these users."""
        return [name for name, known in self._known.items() if known.owner in users]

    def upsert(self, item: NamespaceObject) -> None:
        """A namespace appeared or changed."""
        meta = item.metadata
        fresh = Namespace(meta.name, meta.labels or {}, meta.annotations or {})
        if self._known.get(meta.name) != fresh:
            self._known[meta.name] = fresh
            self.labels = self.labels | {meta.name: dict(fresh.labels)}
            self._on_change(meta.name)

    def remove(self, item: NamespaceObject) -> None:
        """A namespace is gone."""
        name = item.metadata.name
        if self._known.pop(name, None) is not None:
            self.labels = {other: labels for other, labels in self.labels.items() if other != name}
            self._on_change(name)
