"""Arrays at submission: one object becomes many, each with its index."""

from collections.abc import Sequence
from typing import Any

from t9ksched.api.http.problems import invalid
from t9ksched.api.submission.configmaps import is_config_map
from t9ksched.api.submission.submission import Item, named
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.workloads.arrays import Array, elements, read_array
from t9ksched.workloads.registry import KINDS


def asked_array(text: str | None) -> Array | None:
    """The array that a parameter asks for.

    Raises:
        Problem: InvalidField: it cannot be read, or has too many elements.
    """
    if text is None:
        return None
    try:
        return read_array(text)
    except ValueError as error:
        raise invalid([FieldError("array", str(error))]) from None


def expanded(documents: Sequence[tuple[str, Any]], array: Array, seed: str) -> list[tuple[str, Any]]:
    """The documents of the elements. What is no object, or has no name, stays as it is: it is refused as it would be
    without an array.

    Raises:
        Problem: InvalidField: the request has several objects, or one of which no array can be made.
    """
    jobs = [one for one in documents if not is_config_map(one[1])]
    files = [one for one in documents if is_config_map(one[1])]
    if len(jobs) != 1:
        raise invalid([FieldError("array", f"is made of one object, and the request has {len(jobs)}")])
    prefix, document = jobs[0]
    document = named(document, f"{seed}:{prefix}")
    if not isinstance(document, dict) or document.get("kind") not in tuple(KINDS):
        return [(prefix, document), *files]
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        return [(prefix, document), *files]
    try:
        return [*((prefix, element) for element in elements(document, array)), *files]
    except Invalid:
        return [(prefix, document), *files]
    except ValueError as error:
        raise invalid([FieldError("array", str(error))]) from None


def see_that_ours(items: Sequence[Item]) -> None:
    """See that this scheduler places the elements: no other keeps to how many run at once.

    Raises:
        Problem: InvalidField: it does not.
    """
    if not all(item.ours for item in items):
        text = "is of jobs that this scheduler places, and the object names no queue: name one"
        raise invalid([FieldError("array", text)])
