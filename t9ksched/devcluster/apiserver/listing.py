"""A list, or one page of it, at the version that the request asks for."""

import msgspec

from t9ksched.devcluster.apiserver import options
from t9ksched.devcluster.apiserver.options import ListOptions
from t9ksched.devcluster.apiserver.selectors import Matches
from t9ksched.devcluster.apiserver.status import (
    StatusError,
    expired,
)
from t9ksched.devcluster.apiserver.storage import Entry


class Listing(msgspec.Struct, frozen=True):
    """One page of a list: its entries, the version it shows, and how to go on."""

    entries: list[Entry]
    version: int
    token: str = ""
    remaining: int | None = None


def first_after(entries: list[Entry], key: str) -> int:
    """The index of the first entry behind that key."""
    low, high = 0, len(entries)
    while low < high:
        middle = (low + high) // 2
        if entries[middle].key <= key:
            low = middle + 1
        else:
            high = middle
    return low


def page_of(entries: list[Entry], matches: Matches | None, limit: int, version: int, prefix: str) -> Listing:
    """Up to `limit` entries that match (0 for all of them), with the token of what follows."""
    if matches is None:
        if not limit or len(entries) <= limit:
            return Listing(entries, version)
        page = entries[:limit]
        token = options.new_token(version, page[-1].key.removeprefix(prefix))
        return Listing(page, version, token, len(entries) - limit)
    found: list[Entry] = []
    for entry in entries:
        if not matches(entry.object):
            continue
        if limit and len(found) == limit:
            return Listing(found, version, options.new_token(version, found[-1].key.removeprefix(prefix)))
        found.append(entry)
    return Listing(found, version)


def stale(opts: ListOptions, after: str) -> StatusError:
    """The refusal of a list at a version that is forgotten; that of a page has a token to go on behind `after`."""
    if not opts.token:
        return expired("The resourceVersion for the provided list is too old.")
    error = expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list"
        " without the continue parameter, or use the continue token in this response to retrieve the remainder of"
        " the results. Continuing with the provided token results in an inconsistent list - objects that were"
        " created, modified, or deleted between the time the first chunk was returned and now may show up in the"
        " list."
    )
    error.next_token = options.new_token(-1, after)
    return error
