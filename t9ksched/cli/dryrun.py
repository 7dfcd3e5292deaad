"""What a dry run of `submit` tells besides the verdict of the rules: when and where the jobs would start, and what that
would do to others.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.text import Text

from t9ksched.cli.arrays import index_of, patient, ranges
from t9ksched.cli.client import Client
from t9ksched.cli.failure import Failure
from t9ksched.cli.output import paragraph

Json = dict[str, Any]
_MOST_NODES = 8
_MOST_OTHERS = 10
_MOST_GROUPS = 12


def objects_of(contents: Iterable[bytes]) -> list[Any]:
    """The objects of files that the service has read; those of lists one by one."""
    from t9ksched.model.text import read_all

    found: list[Any] = []
    for content in contents:
        for document in read_all(content):
            listed = isinstance(document, dict) and document.get("kind") == "List"
            found += (document.get("items") or []) if listed else [document] if document is not None else []
    return found


def simulate(client: Client, objects: Sequence[Any], query: Json) -> tuple[Json | None, str]:
    """What would happen to these objects, which the rules accept; else None, and why that is not known."""
    try:
        asked = patient(client, len(objects))
        return dict(asked.call("POST", "/apis/v1/simulate", body={"submit": objects}, query=query).body), ""
    except Failure as failure:
        return None, f"when they would start is not known: {failure.message}"


def show(found: Json, out: Console, arrays: Sequence[str] = ()) -> None:
    """Print what would happen, for people; elements of these arrays together that would start together."""
    now, until = _moment(found["at"]), _moment(found["until"])
    jobs = list(found["jobs"])
    for array in arrays:
        elements = [job for job in jobs if index_of(array, job["name"]) is not None]
        jobs = [job for job in jobs if job not in elements]
        _show_array(array, elements, now, until, out)
    for job in jobs:
        lines = _lines(job, now, until)
        paragraph(out, Text.assemble((f"{job['kind']}/{job['name']}", "bold"), f" {next(lines)}"))
        for line in lines:
            paragraph(out, f"  {line}")
    others = found["others"]
    if others:
        out.print()
        out.print("Jobs that are there already:")
    for one in others[:_MOST_OTHERS]:
        paragraph(out, f"  {_other(one)}")
    if len(others) > _MOST_OTHERS:
        out.print(f"  … and {len(others) - _MOST_OTHERS} more")


def _show_array(array: str, elements: Sequence[Json], now: datetime, until: datetime, out: Console) -> None:
    groups: dict[tuple[str, ...], list[int]] = {}
    for job in elements:
        first, *rest = _lines(job | {"nodes": []}, now, until)
        index = index_of(array, job["name"])
        groups.setdefault((first, *rest), []).append(-1 if index is None else index)
    kind = elements[0]["kind"] if elements else ""
    told = list(groups.items())
    for at, (lines, indices) in enumerate(told):
        if _MOST_GROUPS <= at < len(told) - 1:
            continue
        if at == len(told) - 1 > _MOST_GROUPS:
            out.print(f"  … and {at - _MOST_GROUPS} more")
        paragraph(out, Text.assemble((f"{kind}/{array}[{ranges(indices)}]", "bold"), f" {lines[0]}"))
        for line in lines[1:]:
            paragraph(out, f"  {line}")


def _lines(job: Json, now: datetime, until: datetime) -> Iterator[str]:
    nodes = job["nodes"]
    more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
    where = f" on {', '.join(nodes[:_MOST_NODES])}{more}" if nodes else ""
    victims = job["preempts"]
    if job["verdict"] == "Refused":
        yield "would be refused"
    elif job["verdict"] == "Starts" and victims:
        yield f"would start{where} as soon as others have left, at {job['start']} at the latest"
    elif job["verdict"] == "Starts":
        yield f"would start at once{where}"
    elif job["start"]:
        yield f"would wait, and start at {job['start']} (in {_length(_moment(job['start']) - now)}){where}"
    else:
        yield f"would wait: no start is found up to {until:%Y-%m-%dT%H:%M:%SZ}"
    for victim in victims:
        members = f"{victim['members']} member{'' if victim['members'] == 1 else 's'}"
        yield f"it would evict {members} of {victim['job'] or 'a job of another user'} (queue {victim['queue']})"
    for reason in job["reasons"]:
        yield f"{reason['code']}: {reason['message']}"


def _other(one: Json) -> str:
    whose = f"{one['job'] or 'a job of another user'} (queue {one['queue']})"
    before, after = one["startBefore"], one["startAfter"]
    if one["preempted"]:
        return f"{whose} would be evicted" + (f", and start again at {after}" if after else "")
    if after is None:
        return f"{whose} would not start at {before} as it would without"
    return f"{whose} would start at {after}" + (f" instead of {before}" if before else "")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


def _length(span: timedelta) -> str:
    seconds = max(0, round(span.total_seconds()))
    units = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    first = next((at for at, (_, size) in enumerate(units) if seconds >= size), len(units) - 1)
    (large, size), *smaller = units[first : first + 2]
    parts = [f"{seconds // size}{large}"]
    parts += [f"{count}{unit}" for unit, part in smaller if (count := seconds % size // part)]
    return " ".join(parts)
