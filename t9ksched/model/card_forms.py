"""Kinds of requests for cards as JSON has them: in dumps of views, in tasks for other processes, in SQL."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from t9ksched.model.cards import CardRequest, SharedCards, WholeCards

FORMS: Final[Mapping[str, type[CardRequest]]] = {"": WholeCards, "shared": SharedCards}
"""Kinds of requests by the `form` that their JSON has; whole cards have none, as in what earlier releases wrote."""


def read_request(kind: type, value: Any) -> Any:
    """Decode a `CardRequest` from plain values: the `dec_hook` for msgspec wherever requests are read.

    Raises:
        msgspec.ValidationError: the form is unknown, or a field of it is wrong.
        NotImplementedError: another type is asked for.
    """
    if kind is not CardRequest:
        raise NotImplementedError(f"no decoder for {kind}")
    if not isinstance(value, Mapping):
        raise msgspec.ValidationError("Expected `object`")
    form = value.get("form", "")
    if form not in FORMS:
        raise msgspec.ValidationError(f"unknown form of card request {form!r}; known are {sorted(FORMS)}")
    return msgspec.convert({key: one for key, one in value.items() if key != "form"}, FORMS[form])
