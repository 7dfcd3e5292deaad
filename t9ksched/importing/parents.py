"""Queues above queues: what one above may hold bounds those below it, so a parent that was not read is a fault."""

from collections.abc import Iterator, Mapping, Sequence

from t9ksched.importing.objects import Fields


def above(queues: Sequence[Fields], key: str, *, root: str = "") -> dict[str, str]:
    """The parent of each queue, from its field `spec.<key>`; `root` is the one that needs no object.

    Says as faults which parents are missing, and which queues are above themselves.
    """
    parents = {fields.name: "" if fields.name == root else fields.text(key) or root for fields in queues}
    for fields in queues:
        parent = parents[fields.name]
        if parent not in ("", root, *parents):
            missing = f"{parent!r} was not read: what it may hold bounds this queue too: add its file"
            fields.fault(f"spec.{key}", missing)
    report_circles(queues, key, parents)
    return parents


def report_circles(objects: Sequence[Fields], key: str, parents: Mapping[str, str]) -> None:
    """Say as faults which objects are above themselves."""
    for fields in objects:
        way = [fields.name, *ancestors(fields.name, parents)]
        if parents.get(way[-1]) == fields.name:
            fields.fault(
                f"spec.{key}", f"it is above itself: {' below '.join([*way, fields.name])}; name another parent"
            )


def ancestors(name: str, parents: Mapping[str, str]) -> Iterator[str]:
    """Those above one, the nearest first, each once: a circle ends where it begins again."""
    seen = {name}
    while (name := parents.get(name, "")) and name not in seen:
        seen.add(name)
        yield name
