"""`t9ksched submit`: hand YAML or JSON files to the service, one object or several a file."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from t9ksched.cli.client import Client
from t9ksched.cli.failure import REQUEST_FAILED, Failure
from t9ksched.cli.options import DataDirOption, OutputOption, ServerOption, TokenOption, connect
from t9ksched.cli.output import Output, console, print_failure, print_json


def submit(
    file: Annotated[
        list[Path],
        typer.Option("-f", "--file", metavar="FILE", help="A YAML or JSON file, - for stdin; may be given repeatedly."),
    ],
    more: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="More files.")] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="QUEUE", help="Use this queue, whatever the file says.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", min=0, max=100, help="The order among jobs of the queue.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="For objects that name no namespace.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Judge it, and create nothing.")] = False,
    output: OutputOption = Output.table,
    server: ServerOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Submit jobs. Every object is judged on its own; the exit code is 1 when one was refused."""
    client = connect(server, token, data_dir)
    accepted: list[dict[str, Any]] = []
    refused = 0
    for path in [*file, *(more or [])]:
        for document in _documents(path):
            try:
                job = _send(client, document, namespace, queue, priority, dry_run)
            except Failure as failure:
                refused += 1
                print_failure(_placed(failure, path, document))
                continue
            accepted.append(job)
            if output is Output.table:
                _tell(job, dry_run)
    if output is Output.json:
        print_json(accepted[0] if len(accepted) == 1 and not refused else accepted)
    if refused:
        raise typer.Exit(REQUEST_FAILED)


def _documents(path: Path) -> list[bytes]:
    """The YAML documents of a file, each as bytes. What cannot be parsed goes whole: the service says what is wrong."""
    import yaml

    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        objects = [item for item in yaml.safe_load_all(content) if item is not None]
    except (yaml.YAMLError, ValueError):
        return [content]
    if not objects:
        raise Failure(f"{path} holds no object.", remedy="Write one YAML or JSON object, such as those in examples/.")
    return [content] if len(objects) == 1 else [json.dumps(item, default=str).encode() for item in objects]


def _send(
    client: Client, document: bytes, namespace: str | None, queue: str | None, priority: int | None, dry_run: bool
) -> dict[str, Any]:
    answer = client.call(
        "POST",
        "/apis/v1/workloads",
        raw=document,
        content_type="application/yaml",
        query={
            "namespace": namespace,
            "queue": queue,
            "priority": priority,
            "dryRun": "true" if dry_run else None,
        },
    )
    return dict(answer.body or {})


def _placed(failure: Failure, path: Path, document: bytes) -> Failure:
    """The failure with the file, and the object when it can be named, in front."""
    import yaml

    where = str(path)
    try:
        item = yaml.safe_load(document)
        where += f" ({item['kind']}/{item['metadata']['name']})"
    except (yaml.YAMLError, ValueError, TypeError, KeyError):
        pass
    return Failure(
        f"{where}: {failure.message}",
        details=failure.details,
        remedy=failure.remedy,
        code=failure.code,
        name=failure.name,
    )


def _tell(job: dict[str, Any], dry_run: bool) -> None:
    out = console()
    name = f"{job.get('kind')}/{job.get('name')}"
    verb = "would be accepted" if dry_run else "submitted"
    if queue := job.get("queue"):
        out.print(f"{name} {verb} to queue {queue} (namespace {job.get('namespace')})")
    else:
        out.print(
            f"{name} {verb} without a queue: the cluster's default scheduler will place it (name one with --queue)"
        )
