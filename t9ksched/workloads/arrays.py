"""Job arrays: many jobs that are alike but for a number, as Slurm has them.

Each element is an object of its own, `NAME-INDEX`, and a job like any other: it is judged, queued, placed and limited
by itself. Its annotation says to which array it belongs, its index, and how many elements of it run at once at most,
`"sweep[7]%8"`; its label names the array; its containers have the index in `T9K_ARRAY_INDEX`.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from t9ksched.model.dns import is_label
from t9ksched.model.names import ARRAY_ANNOTATION, ARRAY_INDEX_VARIABLE, ARRAY_LABEL
from t9ksched.workloads.queueing import annotate
from t9ksched.workloads.read import read
from t9ksched.workloads.registry import CONTROLLED

MOST: Final = 1000
"""Elements of an array."""
LARGEST: Final = 999_999
"""The largest index."""
KINDS: Final = tuple(sorted({*(row.name for row in CONTROLLED if not row.endless), "Job", "Pod"}))
"""Of which arrays are made: kinds with pods of their own, that end."""
_SHOWN: Final = 60
_LONGEST: Final = 63
"""Characters of an element's name."""
_PART: Final = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12})(?::([0-9]{1,12}))?)?")
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_ELEMENT: Final = re.compile(r"([a-z0-9-]+)(?:\[([0-9]{1,6})\])?(?:%([0-9]{1,6}))?")
_HOW: Final = "write indices such as 0-99, 1,3,5 or 0-98:2, and %8 behind them for 8 at once at the most"


class Array(NamedTuple):
    """What `--array` asks for: the indices, rising, and how many elements run at once at most (None: all)."""

    indices: tuple[int, ...]
    most: int | None = None


class Element(NamedTuple):
    """What the annotation of an element says."""

    array: str
    number: int | None = None
    most: int | None = None

    def __str__(self) -> str:
        index = "" if self.number is None else f"[{self.number}]"
        return f"{self.array}{index}" + ("" if self.most is None else f"%{self.most}")


def read_array(text: str) -> Array:
    """Indices as `0-99`, `1,3,5-9:2`, with `%8` behind them for 8 at once.

    Raises:
        ValueError: it is written otherwise, or asks for too many elements; the message says what to write.
    """
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
    indices, percent, most = text.replace(" ", "").partition("%")
    if percent and not (_NUMBER.fullmatch(most) and int(most)):
        raise ValueError(f"{shown} ends in %{most[:_SHOWN]}, which is no number of 1 or more: {_HOW}")
    ranges: list[range] = []
    for part in indices.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"{shown} is no array: {_HOW}")
        first = int(found[1])
        last, step = int(found[2] or first), int(found[3] or 1)
        if last < first or not step:
            what = "has the step 0" if not step else f"ends before it begins, at {first}"
            raise ValueError(f"{shown} is no array: {part} {what}")
        ranges.append(range(first, last + 1, step))
    if (count := sum(map(len, ranges))) > MOST:
        raise ValueError(f"{shown} has {count} elements, and an array has {MOST} at most: submit it in parts")
    if (largest := max(one[-1] for one in ranges)) > LARGEST:
        raise ValueError(f"{shown} has the index {largest}, and the largest is {LARGEST}")
    return Array(tuple(sorted({index for one in ranges for index in one})), int(most) if most else None)


def read_element(text: str) -> Element:
    """The annotation of an element.

    Raises:
        ValueError: it is written otherwise.
    """
    found = _ELEMENT.fullmatch(text.strip())
    if found is None or not is_label(found[1]) or found[3] == "0":
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise ValueError(f"{shown!r} names no array: write NAME[INDEX]%LIMIT, such as sweep[7]%8")
    return Element(found[1], *(None if number is None else int(number) for number in found.groups()[1:]))


def elements(obj: Mapping[str, Any], array: Array) -> list[dict[str, Any]]:
    """The objects of an array of this one, in the order of their indices.

    Raises:
        Invalid: the object cannot be read.
        ValueError: it is of a kind of which there are no arrays, or its name is no name of an array.
    """
    kind, name = obj.get("kind"), str(obj["metadata"].get("name") or "")
    if kind not in KINDS:
        raise ValueError(f"an array is made of a {', '.join(KINDS[:-1])} or {KINDS[-1]}, not of a {kind}")
    if not is_label(name):
        raise ValueError(f"{name[:_SHOWN]!r} is no name of an array: use at most 63 of a-z, 0-9 and -")
    most = _LONGEST - len(f"-{array.indices[-1]}")
    if len(name) > most:
        raise ValueError(
            f"the name {name!r} has {len(name)} characters, and with '-{array.indices[-1]}' that of an element would"
            f" exceed {_LONGEST}: use at most {most}"
        )
    paths = [template.path for template in read(obj).templates]
    return [_element(obj, Element(name, index, array.most), paths) for index in array.indices]


def _element(obj: Mapping[str, Any], element: Element, paths: list[str]) -> dict[str, Any]:
    made = copy.deepcopy(dict(obj))
    meta = made["metadata"]
    meta["name"] = f"{element.array}-{element.number}"
    meta["labels"] = {**(meta.get("labels") or {}), ARRAY_LABEL: element.array}
    annotate(made, ARRAY_ANNOTATION, str(element))
    for path in paths:
        spec: Any = made
        for key in re.findall(r"[^.\[\]]+", path):
            spec = spec[int(key)] if isinstance(spec, list) else (spec or {}).get(key)
        for container in _containers(spec):
            given = [one for one in container.get("env") or () if one.get("name") != ARRAY_INDEX_VARIABLE]
            # First, so that other variables, and the command, can refer to it.
            container["env"] = [{"name": ARRAY_INDEX_VARIABLE, "value": str(element.number)}, *given]
    return made


def _containers(spec: Any) -> list[dict[str, Any]]:
    """The containers of a pod's spec; none where the user left it open, as that of a launcher."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())] if spec else []
