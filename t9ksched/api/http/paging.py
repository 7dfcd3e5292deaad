"""Lists in pages: `limit` says how many items, `continue` where the next page begins.

A `continue` names the key of the last item, so a page holds what comes after it at the time of asking: items that
appear or go meanwhile move no other item from one page to another. It belongs to the filters that it was made with.
"""

import base64
import binascii
import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from fastapi import Depends, Query, Request

from t9ksched.api.http.problems import Problem, invalid
from t9ksched.model.errors import FieldError

T = TypeVar("T")
Key = tuple[str, ...]
MOST: Final = 1000
_NOT_FILTERS: Final = frozenset({"limit", "continue", "watch", "after"})
_NOT_OURS: Final = "is no continue of this list: take it from an answer, with the same filters"

Limit = Annotated[int | None, Query(ge=1, le=MOST, description="Items of a page; without it all are listed")]
EventLimit = Annotated[int, Query(ge=1, le=MOST, description="Items of a page")]
Continue = Annotated[
    str | None,
    Query(alias="continue", max_length=1000, description="Where the page begins: `continue` of the one before"),
]


class Paging(msgspec.Struct, frozen=True):
    """The page that is asked for: at most `limit` items (None: all) behind the key `after`."""

    limit: int | None
    after: Key | None
    filters: str

    def of(self, items: Sequence[T], key: Callable[[T], Key], *, newest_first: bool = False) -> tuple[list[T], Any]:
        """The items of the page, and what continues it, None at the end. Items come sorted by their keys."""
        start, after = 0, self.after
        if after is not None:
            # A search by halves, so that a long list makes few keys.
            start = bisect_left(items, True, key=lambda item: key(item) < after if newest_first else key(item) > after)
        end = len(items) if self.limit is None else start + self.limit
        page = list(items[start:end])
        return page, self.token(key(page[-1])) if end < len(items) and page else None

    def place(self, after: int) -> int:
        """Where a list of events goes on: behind the id that `continue` names, else behind that one.

        Raises:
            Problem: `continue` was made by another list.
        """
        if self.after is None:
            return after
        if len(self.after) != 1 or not self.after[0].isdecimal() or len(self.after[0]) > 18:
            raise _foreign()
        return int(self.after[0])

    def behind(self, ids: Sequence[int], limit: int) -> str | None:
        """What continues a list of events of which these are a page; None at the end."""
        return self.token((str(ids[-1]),)) if len(ids) == limit else None

    def token(self, last: Key) -> str:
        """What continues behind that key."""
        return base64.urlsafe_b64encode(msgspec.json.encode([self.filters, list(last)])).decode().rstrip("=")


async def _paging(request: Request, limit: Limit = None, token: Continue = None) -> Paging:
    """The page that a request asks for.

    Raises:
        Problem: `continue` was made by another list.
    """
    given = sorted(pair for pair in request.query_params.multi_items() if pair[0] not in _NOT_FILTERS)
    path = request.scope["path"]
    filters = hashlib.blake2b(msgspec.json.encode([path, given]), digest_size=6).hexdigest()
    return Paging(limit, None if token is None else _read(token, filters), filters)


def _read(token: str, filters: str) -> Key:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        made_for, key = msgspec.json.decode(raw, type=tuple[str, list[str]])
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise _foreign() from None
    if made_for != filters or not key:
        raise _foreign()
    return tuple(key)


def _foreign() -> Problem:
    return invalid([FieldError("query.continue", _NOT_OURS)])


Paged = Annotated[Paging, Depends(_paging)]
"""The parameter by which an endpoint gets the page to answer."""
Order = Annotated[Literal["oldest", "newest"], Query(description="Which items come first: the oldest, or the newest")]
