"""`t9ksched submit`: hand YAML or JSON files to the service, one object or several a file, changed by `--set`; or
scripts with `#SBATCH` lines, which are translated first.

With `-o json` everything stands in one document on stdout, `{items, warnings, problems}`; a warning or problem names
its file. Otherwise warnings and refusals go to stderr. A dry run also tells when and where the jobs would start; in
JSON that is `simulation`. What became of the lines of scripts is `translations`.
"""

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from t9ksched.cli.arrays import elements_of, named, patient
from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, REQUEST_FAILED, Failure
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_failure, print_json, print_warnings, program
from t9ksched.cli.starting import OF_PARAMETERS, AfterCancelOption, AfterOption, ArrayOption, after_query, with_query
from t9ksched.model.dns import ended
from t9ksched.model.errors import Invalid
from t9ksched.workloads.arrays import MOST

if TYPE_CHECKING:
    from t9ksched.workloads.compose.setting import Setting

_SCRIPT_OPTIONS: Final = {
    "queue": "--queue",
    "timeLimit": "--time-limit",
    "startAfter": "--begin",
    "reservation": "--reservation",
    "after": "--after",
}
_SCRIPTS: Final = "Of scripts with #SBATCH lines"


@with_service
def submit(
    service: Service,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="A YAML or JSON file, - for stdin; several do, too.")
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option("-f", "--file", metavar="FILE", help="The same, as kubectl writes it.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a field of the objects, as Helm does; repeatable."),
    ] = None,
    set_string: Annotated[
        list[str] | None, typer.Option(metavar="PATH=VALUE", help="The same with a value that is text.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="QUEUE", help="Use this queue, whatever the file says.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", min=0, max=100, help="The order among jobs of the queue.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="For objects that name no namespace.")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option("--time-limit", metavar="T", help="End it after so long, such as 4h or 1h30m.")
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--begin", metavar="T", help="Start it no earlier, such as 2030-01-31T20:00:00+08:00."),
    ] = None,
    reservation: Annotated[
        str | None, typer.Option("--reservation", metavar="NAME", help="Use this reservation and no other room.")
    ] = None,
    array: ArrayOption = None,
    after: AfterOption = None,
    after_cancel: AfterCancelOption = False,
    image: Annotated[
        str, typer.Option("--image", metavar="IMAGE", help="Where it runs.", rich_help_panel=_SCRIPTS)
    ] = "",
    mount: Annotated[
        list[str] | None,
        typer.Option(metavar="CLAIM:/PATH[:ro]", help="A volume claim; repeatable.", rich_help_panel=_SCRIPTS),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "-e", "--env", metavar="K[=V]", help="A variable, or yours; repeatable.", rich_help_panel=_SCRIPTS
        ),
    ] = None,
    workdir: Annotated[
        str, typer.Option("--workdir", metavar="/PATH", help="The directory to run in.", rich_help_panel=_SCRIPTS)
    ] = "",
    args: Annotated[
        str, typer.Option("--args", metavar="TEXT", help="What the script is given.", rich_help_panel=_SCRIPTS)
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Judge it, tell when and where it would start, and create nothing.")
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Submit jobs. The objects of a file are all created or none; the exit code is 1 when a file was refused. A script
    with #SBATCH lines is translated, and what became of each line is told.
    """
    paths = [*(files or []), *(file or [])]
    if not paths:
        raise Failure(
            "No file is named.", remedy=f"Write {program()} submit FILE, or - for standard input.", code=BAD_USAGE
        )
    settings = _settings(set_ or [], set_string or [])
    client = service() if array is None else patient(service(), MOST)
    query: dict[str, Any] = {"namespace": namespace, "queue": queue, "priority": priority, "timeLimit": time_limit}
    query |= {"startAfter": begin, "reservation": reservation} | after_query(after, cancel=after_cancel)
    query |= {"array": array}
    beside = _Beside(image, workdir, args, mount or [], env or [], namespace, priority, query)
    done: dict[str, Any] = {"items": [], "warnings": [], "problems": []}
    accepted: list[tuple[bytes, str | None]] = []
    for path in paths:
        options, wanted = OF_PARAMETERS, array
        try:
            content = _content(path)
            if content.startswith(b"#!"):
                content, options, own = _translated(client, path, content, beside, done, table=output is Output.table)
                wanted = array or own
            else:
                _see_that_no_script(content, beside)
            content = _changed(content, settings)
            if dry_run:
                content = _with_names(content)
            if dry_run and options is not OF_PARAMETERS and output is Output.table:
                typer.echo(_shown(content, query))
            asked = query | {"array": wanted} | ({"dryRun": "true"} if dry_run else {})
            answer = _send(client, content, asked, options)
        except Failure as failure:
            done["problems"].append({"file": str(path)} | failure.to_dict())
            if output is Output.table:
                print_failure(_placed(failure, path))
            continue
        accepted.append((content, wanted))
        done["items"] += answer["items"]
        done["warnings"] += [{"file": str(path)} | warning for warning in answer["warnings"]]
        if output is Output.table:
            for jobs in [answer["items"]] if wanted is not None else [[job] for job in answer["items"]]:
                _tell(jobs, dry_run)
            print_warnings(answer["warnings"], f"{path}: ")
    if dry_run and accepted:
        _foretell(client, accepted, query, done, output)
    if output is Output.json:
        print_json(done)
    if done["problems"]:
        raise typer.Exit(REQUEST_FAILED)


def _content(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise Failure(f"it cannot be read: {error.strerror or error}") from error


def _settings(texts: list[str], plain: list[str]) -> "list[Setting]":
    if not texts and not plain:
        return []
    from t9ksched.workloads.compose.setting import read_settings

    try:
        return read_settings(texts) + read_settings(plain, option="set-string", as_text=True)
    except Invalid as error:
        first, *others = (f"--{fault}" for fault in error.errors)
        raise Failure(
            first,
            details=others,
            remedy="Write it like --set spec.replicaSpecs[0].replicas=4",
            code=BAD_USAGE,
        ) from None


def _see_that_no_script(content: bytes, beside: "_Beside") -> None:
    """Raise the failure of a script that does not say what runs it, and of options for scripts, given for YAML."""
    if any(line.startswith(b"#SBATCH") for line in content.splitlines()):
        raise Failure(
            "it has #SBATCH lines, but its first line does not say what runs it",
            remedy="Begin it with a line such as #!/bin/bash, as sbatch wants it, too",
        )
    given: dict[str, object] = {"--image": beside.image, "--workdir": beside.workdir, "--args": beside.args}
    given |= {"--mount": beside.mount, "--env": beside.env}
    if words := [word for word, value in given.items() if value]:
        raise Failure(
            f"this is no script, and only scripts with #SBATCH lines take {', '.join(words)}",
            remedy="Change a field of the file with --set PATH=VALUE",
            code=BAD_USAGE,
        )


def _changed(content: bytes, settings: "list[Setting]") -> bytes:
    """The documents with these changes in each object but ConfigMaps, the files of jobs; as they are where nothing
    is changed, so that faults are told with their lines.
    """
    if not settings:
        return content
    from t9ksched.cli.dryrun import objects_of
    from t9ksched.model.text import YamlFault, write
    from t9ksched.workloads.compose.setting import change

    try:
        objects = objects_of([content])
        for obj in objects:
            if not isinstance(obj, dict):
                raise Failure("it holds something that is no object, of which no field can be set.")
            if obj.get("kind") != "ConfigMap":
                change(obj, settings)
    except YamlFault as error:
        raise Failure(f"it cannot be read: {' '.join(str(error).split())}") from None
    except Invalid as error:
        first, *others = (f"--{fault}" for fault in error.errors)
        raise Failure(first, details=others) from None
    return "---\n".join(map(write, objects)).encode()


def _with_names(content: bytes) -> bytes:
    """The documents with the names that a `generateName` stands for, so that all that is told of a dry run is told of
    the same names; as they are where there is none, or they cannot be read.
    """
    if b"generateName" not in content:
        return content
    from t9ksched.cli.dryrun import objects_of
    from t9ksched.model.text import YamlFault, write

    try:
        objects = objects_of([content])
    except YamlFault:
        return content
    for obj in objects:
        meta = obj.get("metadata") if isinstance(obj, dict) else None
        if isinstance(meta, dict) and not meta.get("name") and isinstance(begin := meta.get("generateName"), str):
            del meta["generateName"]
            meta["name"] = ended(begin, secrets.randbits(64))
    return "---\n".join(map(write, objects)).encode()


def _shown(content: bytes, query: dict[str, Any]) -> str:
    """What a script becomes, with what the options say beside it: a file that can be submitted without them."""
    from t9ksched.cli.dryrun import objects_of
    from t9ksched.model.text import write

    objects = objects_of([content])
    return "---\n".join(write(obj if obj["kind"] == "ConfigMap" else with_query(obj, query)) for obj in objects)


class _Beside(NamedTuple):
    """What is said of scripts beside what stands in them."""

    image: str
    workdir: str
    args: str
    mount: list[str]
    env: list[str]
    namespace: str | None
    priority: int | None
    query: dict[str, str | int | None]


def _translated(
    client: Client, path: Path, content: bytes, beside: _Beside, done: dict[str, Any], *, table: bool
) -> tuple[bytes, dict[str, str], str | None]:
    """The YAML of a script's objects, which line filled which field, and its array; tells what became of its lines."""
    from t9ksched.cli import scripts

    query = beside.query
    translation = scripts.translated(
        client,
        path,
        content,
        scripts.Beside(
            image=beside.image,
            workdir=beside.workdir,
            arguments=beside.args,
            mounts=beside.mount,
            environment=beside.env,
            namespace=beside.namespace,
            priority=beside.priority,
            options={"--image": beside.image, "--workdir": beside.workdir}
            | {word: query[name] for name, word in _SCRIPT_OPTIONS.items()},
        ),
    )
    lines = [one.to_dict() for one in translation.told]
    done.setdefault("translations", []).append({"file": str(path), "lines": lines})
    if table:
        scripts.tell(path, translation, console(sys.stderr))
    fields = {path if path == "array" else f"[0].{path}": said for path, said in translation.fields.items()}
    return scripts.yaml_of(translation).encode(), OF_PARAMETERS | fields, translation.array


def _send(
    client: Client, content: bytes, query: dict[str, str | int | None], options: dict[str, str]
) -> dict[str, Any]:
    """Submit what a file holds; `items` of the answer are the jobs it became, `warnings` what is odd about them."""
    yaml = "application/yaml"
    answer = client.call("POST", "/apis/v1/workloads", raw=content, content_type=yaml, query=query, options=options)
    return dict(answer.body)


def _foretell(
    client: Client,
    accepted: list[tuple[bytes, str | None]],
    query: dict[str, Any],
    done: dict[str, Any],
    output: Output,
) -> None:
    """Tell when and where what would be accepted would start, of an array when which elements would."""
    from t9ksched.cli.dryrun import objects_of, show, simulate

    given = [
        (obj, array) for content, array in accepted for obj in objects_of([content]) if obj.get("kind") != "ConfigMap"
    ]
    objects = [one for obj, array in given for one in ([obj] if array is None else elements_of(obj, array))]
    found, why = simulate(client, objects, {name: value for name, value in query.items() if name != "array"})
    done["simulation"] = found
    if found is None:
        warning = {"path": "simulation", "message": why, "nearest": None}
        done["warnings"].append({"file": None} | warning)
        if output is Output.table:
            print_warnings([warning])
    elif output is Output.table:
        show(found, console(), [str(obj["metadata"]["name"]) for obj, array in given if array is not None])


def _placed(failure: Failure, path: Path) -> Failure:
    """The failure with the file's name in front."""
    return Failure(
        f"{path}: {failure.message}",
        details=failure.details,
        remedy=failure.remedy,
        code=failure.code,
        name=failure.name,
    )


def _tell(jobs: list[dict[str, Any]], dry_run: bool) -> None:
    """Say in one line that a job, or all elements of an array, were submitted."""
    out, job, name = console(), jobs[0], named(jobs)
    queue = job.get("queue")
    if queue:
        where = f"to queue {queue} (namespace {job.get('namespace')})"
    else:
        where = "without a queue: the cluster's default scheduler will place it (name one with --queue)"
    out.print(f"{name} would be accepted {where}" if dry_run else f"{name} submitted {where}")
