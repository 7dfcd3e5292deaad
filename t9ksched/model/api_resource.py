"""A kind of object as API discovery lists it, and the paths at which its objects are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

_plain = re.compile(r"[a-z0-9.-]+").fullmatch


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object as the API server lists it; `group` is empty for the core group.

    `kind` is the name by which it is known here: two groups may use one word, and then one of them has its group behind
    a dot.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`, as objects write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def api_kind(self) -> str:
        """The kind as objects write it."""
        return self.kind.partition(".")[0]

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """The request path: of the collection, of one object, or of its subresource.

        Raises ValueError when a namespaced object is named without a namespace, which would reach another object or
        none.
        """
        if self.namespaced and name is not None and not namespace:
            raise ValueError(f"{self.kind} {name!r} needs a namespace")
        root = _collection(self.group, self.version, self.plural, namespace if self.namespaced else None)
        if name is not None:
            if name in ("", ".", ".."):
                raise ValueError(f"{name!r} is not a name for a {self.kind}")
            root += f"/{name}" if _plain(name) else f"/{_quoted(name)}"
        return f"{root}/{subresource}" if subresource else root

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@lru_cache(maxsize=4096)
def _collection(group: str, version: str, plural: str, namespace: str | None) -> str:
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{_quoted(namespace)}/{plural}" if namespace else f"{root}/{plural}"


def _quoted(name: str) -> str:
    return quote(name, safe=":")
