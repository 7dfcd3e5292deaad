"""The reference page of other projects' kinds, from the table: `python -m t9ksched.cli.foreignreference`."""

import sys
from collections.abc import Iterable

from t9ksched.workloads.gangform import GangForm, Groups, Keys
from t9ksched.workloads.kind import Kind
from t9ksched.workloads.registry import GANGS

_HEAD = """# Jobs of other projects

Written from the table of kinds by `make reference`. The guide is [jobs of other systems](../guides/foreign-jobs.md).

| Kind | API | Pods | Minimum | Role of a pod | Suspended by | Own deadline | Rights |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def render() -> str:
    """The page."""
    return _HEAD + "".join(f"| {' | '.join(_row(kind))} |\n" for kind in GANGS)


def _row(kind: Kind) -> Iterable[str]:
    form, foreign = kind.gang, kind.foreign
    assert form is not None
    names = " or ".join(f"`{one}`" for one in (kind.name, *kind.short))
    yield names
    yield f"`{kind.api_version}`"
    yield _pods(form)
    yield _minimum(form)
    yield f"label `{form.role}`" if form.role else "–"
    yield _stopped(kind)
    yield _path(foreign.deadline) if foreign is not None and foreign.deadline else "–" if foreign else "its own"
    yield f"`deploy/foreign/{foreign.project.name}.yaml`" if foreign is not None else "in the base"


def _pods(form: GangForm) -> str:
    if form.below:
        return "made by an object below it"
    return ", ".join(map(_group, form.groups))


def _group(groups: Groups) -> str:
    where = _path(groups.path) + {"mapping": ".*", "list": "[*]", "one": ""}[groups.form]
    if groups.job is not None:
        return f"{where}: {'replicas × ' if groups.form != 'one' else ''}`parallelism`, at most `completions`"
    count = f"`{groups.replicas[-1]}` ({groups.default})" if groups.replicas != ("",) else "1"
    count += f" {groups.added:+}" if groups.added else ""
    return f"{where}: {count}" + (f" × `{groups.times[-1]}`" if groups.times else "")


def _minimum(form: GangForm) -> str:
    if form.below:
        return "–"
    found = ["all of them"]
    if form.minimum:
        found.append(_path(form.minimum))
    if form.bounds is not None:
        found.append(f"{_path(form.bounds.path)} of role {form.bounds.role}")
    where = f" with {_path(form.elastic)}" if form.elastic else ""
    found += [_path((*groups.path, groups.least[-1])) + where for groups in form.groups if groups.least]
    text = ", or ".join(found)
    if form.part:
        text += f"; each `{form.part}` by itself"
    if form.staged or any(groups.after for groups in form.groups):
        text += "; a role at a time where they start in order"
    return text + ('; with annotation `gang: "true"`' if form.annotated else "")


def _stopped(kind: Kind) -> str:
    if kind.stop is None:
        return "its pods are deleted"
    if kind.stop.subresource:
        return f"`{kind.stop.subresource}`: to 0"
    keys: list[str] = []
    patch: object = kind.stop.patch
    while isinstance(patch, dict):
        ((key, patch),) = patch.items()
        keys.append(key)
    return _path(tuple(keys))


def _path(keys: Keys) -> str:
    return f"`{'.'.join(keys)}`"


if __name__ == "__main__":
    sys.stdout.write(render())
