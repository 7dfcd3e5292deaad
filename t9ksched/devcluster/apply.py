"""Server-side apply: each manager states the fields it wants, and owns what it stated.

Placed here in parts: which fields a configuration names, how it merges into the live object, and the record of owners
in `metadata.managedFields`.
"""

from typing import Any

from t9ksched.devcluster.api import Api
from t9ksched.devcluster.kinds import Kind
from t9ksched.devcluster.options import WriteOptions
from t9ksched.devcluster.storage import Entry


def apply(
    api: Api, kind: Kind, namespace: str | None, name: str, body: Any, opts: WriteOptions, subresource: str = ""
) -> tuple[Entry, bool]:
    raise NotImplementedError
